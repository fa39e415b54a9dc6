// {{name}} against a host that is not there: `make test`.

#include "agent.c"

static int faults;

static void answers(h_message said, const char *want) {
    const char *got = h_fake_ask(said);
    if (strcmp(got, want) == 0) return;
    fprintf(stderr, "\"%.*s\" was answered by \"%s\", and not by \"%s\"\n", H_ARGS(said.text), got, want);
    faults++;
}

int main(void) {
    answers((h_message){H_USER, H_TEXT, H("good morning"), {"", 0}}, "Hello! You said: good morning");
    answers((h_message){H_USER, H_TEXT, H("me again"), {"", 0}}, "Hello again! You said: me again");
    answers((h_message){H_USER, H_IMAGE, H("https://h.example/a.png"), {"", 0}}, "Hello again! That was no text.");
    if (faults == 0) puts("all tests passed");
    return faults != 0;
}
