/** A journal: keeps what it is told in a file of the session's workspace, and reads it back. */

import { callTool, chat, Failed, followUp, history, serve, think, ToolError } from "./hostelry";

const filePath = "journal.md";

export const handler = serve((turn) => {
  if (turn.text === undefined) return chat("I keep words only.");
  const before = history().filter((message) => message.role === "user");
  think(`Entry ${before.length + 1}.`);
  const text = turn.text.trim();
  switch (text) {
    case "read":
      read();
      break;
    case "before":
      recall(before.flatMap((message) => message.text ?? []));
      break;
    case "fail":
      throw new Failed("You asked me to fail.");
    default:
      keep(text);
  }
  followUp("read", "before");
});

function read(): void {
  try {
    const lines = callTool<{ content: string }>("ReadFile", { filePath }).content.split("\n").slice(0, -1);
    lines.forEach((line, index) => chat(`${index + 1}. ${line}\n`));
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    const empty = error.kind === "invalid-args";
    chat(empty ? "The journal is empty." : `I cannot read the journal: ${error.message}`);
  }
}

function recall(said: string[]): void {
  chat(said.length > 0 ? `Before this you said: ${said.join("; ")}` : "You said nothing before.");
}

function keep(text: string): void {
  try {
    callTool("WriteFile", { filePath, content: `${content()}${text}\n` });
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return chat(`I cannot keep that: ${error.message}`);
  }
  chat("Kept:");
  for (const word of text.split(/\s+/)) chat(` ${word}`);
  chat(".");
}

/** What the journal holds so far. */
function content(): string {
  try {
    return callTool<{ content: string }>("ReadFile", { filePath }).content;
  } catch (error) {
    // There is no such file yet.
    if (error instanceof ToolError && error.kind === "invalid-args") return "";
    throw error;
  }
}
