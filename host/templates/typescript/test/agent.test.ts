/** {{name}} against a host that is not there: `npm test`. */

import { equal } from "node:assert/strict";
import { test } from "node:test";

import { handler } from "../src/agent";
import { ask, fresh } from "./host";

test("says hello and what was said", () => {
  fresh();
  equal(ask(handler, "good morning"), "Hello! You said: good morning");
  equal(ask(handler, "me again"), "Hello again! You said: me again");
});

test("says so if it was no text", () => {
  fresh();
  equal(ask(handler, { tag: "image", val: "https://h.example/a.png" }), "Hello! That was no text.");
});
