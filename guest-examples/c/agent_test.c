// The journal against a host that is not there: `make test`.

#include "agent.c"

static int faults;

// Checks that two texts are the same.
static void same(const char *got, const char *want, int line) {
    if (strcmp(got, want) == 0) return;
    fprintf(stderr, "agent_test.c:%d: \"%s\" is not \"%s\"\n", line, got, want);
    faults++;
}

#define SAME(got, want) same(got, want, __LINE__)

static const char *says(const char *text) { return h_fake_ask((h_message){H_USER, H_TEXT, {text, strlen(text)}, {"", 0}}); }

static const char *text_of(h_text text) { return h_format("%.*s", H_ARGS(text)).at; }

// The workspace's two tools that the journal calls.
static h_text journal;

static h_tool_result workspace(h_text name, h_text args) {
    if (h_is(name, H("WriteFile"))) {
        h_json_member(args, H("content"), &journal);
        return (h_tool_result){true, H_FAILED, H("{\"status\":\"written\"}")};
    }
    if (journal.len == 0) return (h_tool_result){false, H_INVALID_ARGS, H("filePath: there is no such file")};
    return (h_tool_result){true, H_FAILED, h_format("{\"content\":%.*s}", H_ARGS(h_json_string(journal)))};
}

static h_tool_result denied(h_text name, h_text args) {
    (void)name, (void)args;
    return (h_tool_result){false, H_DENIED, H("not granted")};
}

static void fresh(h_tool_result (*tools)(h_text, h_text)) {
    memset(&h_fake, 0, sizeof h_fake);
    h_fake.call_tool = tools;
    journal = H("");
}

static void what_is_kept_is_read_back(void) {
    fresh(workspace);
    SAME(says("read"), "The journal is empty.");
    SAME(says(" buy  milk "), "Kept: buy milk.");
    SAME(says("喝\"茶"), "Kept: 喝\"茶.");
    SAME(says("read"), "1. buy  milk\n2. 喝\"茶\n");
    same(h_fake.shown + strlen(h_fake.shown) - strlen("follow-up read before\n"), "follow-up read before\n", __LINE__);
}

static void what_was_said_before_is_remembered(void) {
    fresh(workspace);
    SAME(says("before"), "You said nothing before.");
    says("tea");
    SAME(says("before"), "Before this you said: before; tea");
}

static void a_tool_that_fails_is_told_in_its_own_words(void) {
    fresh(denied);
    SAME(says("read"), "I cannot read the journal: not granted");
    SAME(says("tea"), "I cannot keep that: not granted");
}

static void the_turn_ends_as_it_must(void) {
    fresh(workspace);
    SAME(h_fake_ask((h_message){H_USER, H_IMAGE, H("https://h.example/a.png"), {"", 0}}), "I keep words only.");
    says("fail");
    SAME(text_of(h_failure), "You asked me to fail.");
    h_fake.closes_after = 2;
    SAME(says("a b c"), "Kept:");
}

static void json_goes_there_and_back(void) {
    h_text value = H("");
    h_text object = H("{ \"a\": [1, {\"content\": \"no\"}], \"b\":null, \"content\" : \"\\u00e9\\ud83d\\ude00\\n\\\"\\/\\ud800\" }");
    if (!h_json_member(object, H("content"), &value)) SAME("no member", "a member");
    SAME(text_of(value), "é😀\n\"/\xef\xbf\xbd");
    SAME(text_of(h_json_string(H("a\"\\\n\x01é"))), "\"a\\\"\\\\\\n\\u0001é\"");
    const char *broken[] = {"", "{", "{\"content\"", "{\"content\":", "{\"content\":\"", "{\"content\":\"\\u12", "[]", "{\"content\":7}"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        if (h_json_member((h_text){broken[i], strlen(broken[i])}, H("content"), &value)) SAME(broken[i], "broken");
    }
}

int main(void) {
    what_is_kept_is_read_back();
    what_was_said_before_is_remembered();
    a_tool_that_fails_is_told_in_its_own_words();
    the_turn_ends_as_it_must();
    json_goes_there_and_back();
    if (faults == 0) puts("all tests passed");
    return faults != 0;
}
