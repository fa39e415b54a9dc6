// A journal: keeps what it is told in a file of the session's workspace, and reads it back.

#include "hostelry.h"

#define JOURNAL "\"filePath\":\"journal.md\""

// What the journal holds; empty if there is none yet.
static h_tool_result load(h_text *content) {
    *content = H("");
    h_tool_result file = h_call_tool(H("ReadFile"), H("{" JOURNAL "}"));
    if (file.ok) h_json_member(file.text, H("content"), content);
    return file;
}

static void read_out(void) {
    h_text content, line;
    h_tool_result file = load(&content);
    if (!file.ok) {
        bool empty = file.error == H_INVALID_ARGS;
        h_chat(empty ? H("The journal is empty.") : h_format("I cannot read the journal: %.*s", H_ARGS(file.text)));
        return;
    }
    for (int number = 1; h_next(&content, "\n", &line); number++) {
        if (!h_chat(h_format("%d. %.*s\n", number, H_ARGS(line)))) return;
    }
}

static void recall(h_messages before) {
    h_text said = H("");
    for (size_t i = 0; i < before.len; i++) {
        if (before.at[i].role != H_USER || before.at[i].kind != H_TEXT) continue;
        const char *between = said.len > 0 ? "; " : "";
        said = h_format("%.*s%s%.*s", H_ARGS(said), between, H_ARGS(before.at[i].text));
    }
    h_chat(said.len > 0 ? h_format("Before this you said: %.*s", H_ARGS(said)) : H("You said nothing before."));
}

static void keep(h_text text) {
    h_text content, word;
    h_tool_result file = load(&content);
    if (file.ok || file.error == H_INVALID_ARGS) {
        h_text whole = h_json_string(h_format("%.*s%.*s\n", H_ARGS(content), H_ARGS(text)));
        file = h_call_tool(H("WriteFile"), h_format("{" JOURNAL ",\"content\":%.*s}", H_ARGS(whole)));
    }
    if (!file.ok) {
        h_chat(h_format("I cannot keep that: %.*s", H_ARGS(file.text)));
        return;
    }
    if (!h_chat(H("Kept:"))) return;
    while (h_next(&text, " \t\n\v\f\r", &word)) {
        if (word.len > 0 && !h_chat(h_format(" %.*s", H_ARGS(word)))) return;
    }
    h_chat(H("."));
}

void h_answer(const h_turn *turn) {
    h_message last = turn->input.at[turn->input.len - 1];
    if (last.kind != H_TEXT) {
        h_chat(H("I keep words only."));
        return;
    }
    h_messages before = h_history(UINT32_MAX);
    int entry = 1;
    for (size_t i = 0; i < before.len; i++) entry += before.at[i].role == H_USER;
    if (!h_think(h_format("Entry %d.", entry))) return;
    h_text text = h_trim(last.text);
    if (h_is(text, H("read"))) read_out();
    else if (h_is(text, H("before"))) recall(before);
    else if (h_is(text, H("fail"))) h_fail(H("You asked me to fail."));
    else keep(text);
    h_follow_up((h_text[]){H("read"), H("before")}, 2);
}
