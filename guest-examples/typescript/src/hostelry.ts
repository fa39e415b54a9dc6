/** Hostelry's contract in TypeScript's words: what an agent hears, says, remembers and calls. */

import { callTool as call, emitEvent } from "hostelry:agent/host@0.1.0";
import { log as write, type Level } from "hostelry:agent/log@0.1.0";
import * as turn from "hostelry:agent/turn@0.1.0";
import type * as wit from "hostelry:agent/types@0.1.0";

/** Ends the turn as failed; the user is shown its message. */
export class Failed extends Error {}

/** A tool gave no result: of which kind, and in its message why, in safe words. */
export class ToolError extends Error {
  constructor(
    readonly kind: "unknown" | "denied" | "invalid-args" | "timeout" | "failed",
    message: string,
  ) {
    super(message);
  }
}

/** The client is gone. `serve` ends the turn with it: catch it only to clean up, and throw it again. */
export class Closed extends Error {}

/** One message: who said it, and what: one of text, image (a URL) and file. */
export interface Message {
  role: "user" | "agent";
  text?: string;
  image?: string;
  file?: { url: string; mediaType?: string };
}

/** One input of the user. */
export interface Turn {
  sessionId: string;
  turnId: string;
  userId?: string;
  input: Message[];
  /** The last message, if it is text. */
  text?: string;
}

/** What the host calls: `export const handler = serve((turn) => { … })`. */
export function serve(answer: (turn: Turn) => void) {
  return {
    handle(request: wit.Request): void {
      const input = request.input.map(message);
      const { sessionId, turnId, userId } = request;
      try {
        answer({ sessionId, turnId, userId: userId ?? undefined, input, text: input.at(-1)?.text });
      } catch (error) {
        if (error instanceof Closed) return;
        if (error instanceof Failed) throw error.message;
        // A slip of the agent's: its place goes to the log, and the user is shown the host's general text.
        console.error(error);
        throw "";
      }
    },
  };
}

/** Says a piece of the answer, now. */
export const chat = (text: string): void => emit({ tag: "chat", val: { tag: "delta", val: text } });

/** Shows a piece of thought, apart from the answer. */
export const think = (text: string): void => emit({ tag: "think", val: { tag: "delta", val: text } });

/** What the user may want to ask next: at most 8 are shown, and the last call wins. */
export const followUp = (...questions: string[]): void => emit({ tag: "follow-up", val: questions });

/** Shows an error that does not end the turn. */
export const fault = (text: string): void => emit({ tag: "fault", val: text });

/** Shows any event of the contract. */
export function emit(event: wit.Event): void {
  try {
    emitEvent(event);
  } catch (error) {
    const why = payload<wit.EmitError>(error);
    if (why?.tag === "closed") throw new Closed("the client is gone");
    throw why ? new Failed(why.val) : error;
  }
}

/** Calls a tool of this turn, and gives its JSON answer. Throws a ToolError. */
export function callTool<Reply = unknown>(name: string, args: Record<string, unknown> = {}): Reply {
  let answer: string;
  try {
    answer = call(name, JSON.stringify(args));
  } catch (error) {
    const why = payload<wit.ToolError>(error);
    throw why ? new ToolError(why.tag, why.val ?? "it took too long") : error;
  }
  return JSON.parse(answer) as Reply;
}

/** What this session said before this turn, oldest first: at most its last `limit` messages. */
export const history = (limit = 2 ** 32 - 1): Message[] => turn.history(limit).map(message);

/** A fact about the turn, such as `now`, `lang` or `location`. */
export const fact = (key: string): string | undefined => turn.get(key) ?? undefined;

/** The keys that `fact` answers to. */
export const facts = (): string[] => turn.keys();

/** The tools of this turn, as a model wants them. */
export const tools = () => turn.tools().map((tool) => ({ ...tool, parameters: JSON.parse(tool.parameters) as unknown }));

/** Writes to the host's log. */
export const log = (text: string, level: Level = "info"): void => write(level, text);

function message({ role, content }: wit.Message): Message {
  if (content.tag === "text") return { role, text: content.val };
  if (content.tag === "image") return { role, image: content.val };
  return { role, file: { url: content.val.url, mediaType: content.val.mediaType ?? undefined } };
}

/** What the host said with an error, if the error is the host's. */
function payload<T>(error: unknown): T | undefined {
  return error instanceof Error ? (error as Error & { payload?: T }).payload : undefined;
}

function shown(what: unknown): string {
  if (what instanceof Error) return `${what.name}: ${what.message}\n${what.stack ?? ""}`.trim();
  return typeof what === "string" ? what : (JSON.stringify(what) ?? String(what));
}

if (typeof console === "undefined") {
  const at = (level: Level) => (...what: unknown[]) => write(level, what.map(shown).join(" "));
  const [debug, info, warn, error] = [at("debug"), at("info"), at("warn"), at("error")];
  Object.assign(globalThis, { console: { debug, log: info, info, warn, error } });
}
