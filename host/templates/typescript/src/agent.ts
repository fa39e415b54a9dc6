/** {{name}}: says hello, and what was said to it. */

import { chat, history, serve } from "./hostelry";

// The host calls it once a turn.
export const handler = serve((turn) => {
  const before = history().filter((message) => message.role === "user").length;
  chat(before > 0 ? "Hello again! " : "Hello! ");
  chat(turn.text === undefined ? "That was no text." : `You said: ${turn.text}`);
});
