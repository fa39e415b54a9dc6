/** The contract's imports, as the component gets them. Agents use hostelry.ts instead. */

declare module "hostelry:agent/types@0.1.0" {
  export type Role = "user" | "agent";
  export type File = { url: string; mediaType?: string | null };
  export type Content = { tag: "text"; val: string } | { tag: "image"; val: string } | { tag: "file"; val: File };
  export type Message = { role: Role; content: Content };
  export type Request = { sessionId: string; turnId: string; userId?: string | null; input: Message[] };
  export type Tool = { name: string; description: string; parameters: string };
  export type Output = { tag: "start" } | { tag: "delta"; val: string } | { tag: "end" };
  export type Phase = "start" | "end";
  export type Event =
    | { tag: "think"; val: Output }
    | { tag: "chat"; val: Output }
    | { tag: "iteration"; val: { phase: Phase; label: string } }
    | { tag: "model-invocation"; val: Phase }
    | { tag: "tool-run"; val: { phase: Phase; name: string; args: string } }
    | { tag: "follow-up"; val: string[] }
    | { tag: "fault"; val: string }
    | { tag: "custom"; val: { name: string; json: string } };
  export type EmitError = { tag: "closed" } | { tag: "refused"; val: string };
  export type ToolError =
    | { tag: "unknown" | "denied" | "invalid-args" | "failed"; val: string }
    | { tag: "timeout"; val?: undefined };
}

declare module "hostelry:agent/host@0.1.0" {
  import type { Event } from "hostelry:agent/types@0.1.0";
  /** Throws an Error whose `payload` is an EmitError. */
  export function emitEvent(event: Event): void;
  /** Throws an Error whose `payload` is a ToolError. */
  export function callTool(name: string, args: string): string;
}

declare module "hostelry:agent/turn@0.1.0" {
  import type { Message, Tool } from "hostelry:agent/types@0.1.0";
  export function history(max: number): Message[];
  export function tools(): Tool[];
  export function get(key: string): string | null | undefined;
  export function keys(): string[];
}

declare module "hostelry:agent/log@0.1.0" {
  export type Level = "debug" | "info" | "warn" | "error";
  export function log(level: Level, message: string): void;
}

/** The engine has none of its own; hostelry.ts makes this one, which writes to the host's log. */
declare var console: Record<"debug" | "log" | "info" | "warn" | "error", (...what: unknown[]) => void>;
