// {{name}}: says hello, and what was said to it.

#include "hostelry.h"

// The host calls it once a turn.
void h_answer(const h_turn *turn) {
    h_messages before = h_history(UINT32_MAX);
    if (!h_chat(before.len > 0 ? H("Hello again! ") : H("Hello! "))) return;
    h_message last = turn->input.at[turn->input.len - 1];
    if (last.kind != H_TEXT) h_chat(H("That was no text."));
    else h_chat(h_format("You said: %.*s", H_ARGS(last.text)));
}
