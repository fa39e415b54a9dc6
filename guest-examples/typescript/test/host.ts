/** A host for tests: it stands in for the contract's imports, as test.mjs bundles them. */

import type { Event, Message, ToolError } from "hostelry:agent/types@0.1.0";

type Tool = (args: any) => unknown;

/** What the host knows, and what the agent showed. */
export const host = {
  history: [] as Message[],
  facts: {} as Record<string, string>,
  tools: {} as Record<string, Tool>,
  events: [] as Event[],
  logged: [] as [string, string][],
  /** After how many events the client goes away. */
  closedAfter: Infinity,
};

/** A host that knows nothing but these tools. */
export function fresh(tools: Record<string, Tool> = {}): void {
  Object.assign(host, { history: [], facts: {}, tools, events: [], logged: [], closedAfter: Infinity });
}

/** Has the agent answer, keeps both in the history, and gives the answer's text. */
export function ask(handler: { handle(request: any): void }, said: string | Message["content"]): string {
  const content: Message["content"] = typeof said === "string" ? { tag: "text", val: said } : said;
  const message: Message = { role: "user", content };
  const start = host.events.length;
  handler.handle({ sessionId: "session", turnId: "turn", input: [message] });
  const answer = host.events
    .slice(start)
    .map((event) => (event.tag === "chat" && event.val.tag === "delta" ? event.val.val : ""))
    .join("");
  host.history.push(message, { role: "agent", content: { tag: "text", val: answer } });
  return answer;
}

/** A tool's refusal. */
export function refusal(tag: Exclude<ToolError["tag"], "timeout">, val: string): Error {
  return Object.assign(new Error(val), { payload: { tag, val } });
}

export function emitEvent(event: Event): void {
  if (host.events.length >= host.closedAfter) throw Object.assign(new Error(), { payload: { tag: "closed" } });
  host.events.push(event);
}

export function callTool(name: string, args: string): string {
  const tool = host.tools[name];
  if (!tool) throw refusal("unknown", `there is no tool \`${name}\` in this turn`);
  return JSON.stringify(tool(JSON.parse(args)));
}

export const history = (max: number): Message[] => host.history.slice(-max);
export const tools = () => Object.keys(host.tools).map((name) => ({ name, description: "", parameters: "{}" }));
export const get = (key: string): string | undefined => host.facts[key];
export const keys = (): string[] => Object.keys(host.facts).sort();
export const log = (level: string, text: string): void => void host.logged.push([level, text]);
