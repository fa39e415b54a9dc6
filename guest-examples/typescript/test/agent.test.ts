/** The journal against a host that is not there: `npm test`. */

import { deepEqual, equal } from "node:assert/strict";
import { test } from "node:test";

import { handler } from "../src/agent";
import { ask, fresh, host, refusal } from "./host";

/** The workspace's two tools that the journal calls. */
function workspace() {
  const files: Record<string, string> = {};
  return {
    ReadFile({ filePath }: { filePath: string }) {
      if (!(filePath in files)) throw refusal("invalid-args", "filePath: there is no such file");
      return { content: files[filePath] };
    },
    WriteFile({ filePath, content }: { filePath: string; content: string }) {
      files[filePath] = content;
      return { status: "written" };
    },
  };
}

test("what is kept is read back", () => {
  fresh(workspace());
  equal(ask(handler, "read"), "The journal is empty.");
  equal(ask(handler, " buy  milk "), "Kept: buy milk.");
  equal(ask(handler, "喝茶"), "Kept: 喝茶.");
  equal(ask(handler, "read"), "1. buy  milk\n2. 喝茶\n");
  deepEqual(host.events[0], { tag: "think", val: { tag: "delta", val: "Entry 1." } });
  deepEqual(host.events.at(-1), { tag: "follow-up", val: ["read", "before"] });
});

test("what was said before is remembered", () => {
  fresh(workspace());
  equal(ask(handler, "before"), "You said nothing before.");
  ask(handler, "tea");
  equal(ask(handler, "before"), "Before this you said: before; tea");
});

test("a tool that fails is told in its own words", () => {
  fresh({ ReadFile: () => { throw refusal("denied", "not granted"); } });
  equal(ask(handler, "read"), "I cannot read the journal: not granted");
  equal(ask(handler, "tea"), "I cannot keep that: not granted");
});

test("what is no text is not kept", () => {
  fresh();
  equal(ask(handler, { tag: "image", val: "https://h.example/a.png" }), "I keep words only.");
});

test("a client that leaves ends the turn", () => {
  fresh(workspace());
  host.closedAfter = 2;
  equal(ask(handler, "a b c"), "Kept:");
});

test("a failure is the agent's own", () => {
  fresh();
  let failed: unknown;
  try {
    ask(handler, "fail");
  } catch (error) {
    failed = error;
  }
  equal(failed, "You asked me to fail.");
});
