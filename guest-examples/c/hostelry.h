// Hostelry's contract in C: what an agent hears, says, remembers and calls.
//
// An agent is one file that includes this and defines `h_answer`. Each turn is an instance of its own whose memory goes
// with it, so nothing that is made here is ever freed.
//
// In a component the functions speak the contract itself: `hostelry componentize` gives the module its type and checks
// each of them against it. Natively a fake host stands in, for tests: see `h_fake`.

#ifndef HOSTELRY_H
#define HOSTELRY_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A text of `len` bytes of UTF-8. It does not end with a zero.
typedef struct {
    const char *at;
    size_t len;
} h_text;

// A text that stands in the source.
#define H(literal) ((h_text){"" literal, sizeof(literal) - 1})

// For the format "%.*s".
#define H_ARGS(text) (int)(text).len, (text).at

typedef enum { H_USER, H_AGENT } h_role;
typedef enum { H_TEXT, H_IMAGE, H_FILE } h_kind;

// One message of the conversation. `text` is what was written, or the URL of an image or a file.
typedef struct {
    h_role role;
    h_kind kind;
    h_text text;
    h_text media_type; // a file's, if the client says it
} h_message;

typedef struct {
    const h_message *at;
    size_t len;
} h_messages;

// One input of the user. Its last message is what was said.
typedef struct {
    h_text session_id;
    h_text turn_id;
    h_text user_id; // empty if the client names nobody
    h_messages input;
} h_turn;

// The agent: answers one turn.
void h_answer(const h_turn *turn);

// Each of these is true while the turn goes on. Once one is false (the client is gone, or an event broke a limit) the
// turn is over: return.
static bool h_chat(h_text text);   // says a piece of the answer, now
static bool h_think(h_text text);  // shows a piece of thought, apart from the answer
static bool h_fault(h_text text);  // shows an error that does not end the turn
static bool h_follow_up(const h_text *questions, size_t count); // what may be asked next; the last list wins

// Ends the turn as failed; the user is shown the text. Return after it.
static void h_fail(h_text why);

typedef enum { H_UNKNOWN, H_DENIED, H_INVALID_ARGS, H_TIMEOUT, H_FAILED } h_tool_error;

// What came of a tool's call: its JSON answer, or of which kind the failure was and why.
typedef struct {
    bool ok;
    h_tool_error error;
    h_text text;
} h_tool_result;

// Calls a tool of this turn; `args` is a JSON object.
static h_tool_result h_call_tool(h_text name, h_text args);

// What this session said before this turn, oldest first: at most its last `max` messages.
static h_messages h_history(uint32_t max);

// A fact about the turn, such as `now`, `lang` or `location`; false if it is not known.
static bool h_fact(h_text key, h_text *value);

typedef enum { H_DEBUG, H_INFO, H_WARN, H_ERROR } h_level;

// Writes to the host's log.
static void h_log(h_level level, h_text text);

// ---------------------------------------------------------------------------------------------------------------- texts

static inline bool h_is(h_text text, h_text other) {
    return text.len == other.len && memcmp(text.at, other.at, text.len) == 0;
}

static inline bool h_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// `text` without the white space at its ends.
static inline h_text h_trim(h_text text) {
    while (text.len > 0 && h_is_space(text.at[0])) text.at++, text.len--;
    while (text.len > 0 && h_is_space(text.at[text.len - 1])) text.len--;
    return text;
}

// Takes what stands before the first of `stops` from the beginning of `rest`, without it; false once nothing is left.
static inline bool h_next(h_text *rest, const char *stops, h_text *piece) {
    if (rest->len == 0) return false;
    size_t len = 0;
    while (len < rest->len && strchr(stops, rest->at[len]) == NULL) len++;
    *piece = (h_text){rest->at, len};
    size_t taken = len < rest->len ? len + 1 : len;
    rest->at += taken, rest->len -= taken;
    return true;
}

// A text like printf's.
__attribute__((format(printf, 1, 2))) static inline h_text h_format(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    char *at = malloc((size_t)len + 1);
    if (at == NULL) abort();
    vsnprintf(at, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    return (h_text){at, (size_t)len};
}

// `text` as a JSON string, with its quotes.
static inline h_text h_json_string(h_text text) {
    char *at = malloc(text.len * 6 + 2), *end = at;
    if (at == NULL) abort();
    *end++ = '"';
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c == '"' || c == '\\') *end++ = '\\', *end++ = (char)c;
        else if (c == '\n') *end++ = '\\', *end++ = 'n';
        else if (c < 0x20) end += sprintf(end, "\\u%04x", c);
        else *end++ = (char)c;
    }
    *end++ = '"';
    return (h_text){at, (size_t)(end - at)};
}

static inline const char *h_json_skip(const char *at, const char *end);

// The end of the string that begins at `at`, and in `out`, unless that is NULL, what it says; NULL if it is none.
static inline const char *h_json_read(const char *at, const char *end, h_text *out) {
    if (at == NULL || at >= end || *at != '"') return NULL;
    char *text = malloc((size_t)(end - at)), *to = text;
    if (text == NULL) abort();
    for (at++; at < end && *at != '"'; at++) {
        if (*at != '\\') {
            *to++ = *at;
            continue;
        }
        if (++at >= end) return NULL;
        static const char from[] = "nrtbf", into[] = "\n\r\t\b\f";
        const char *known = strchr(from, *at);
        if (*at != 'u') {
            *to++ = known != NULL && *at != 0 ? into[known - from] : *at;
            continue;
        }
        uint32_t code = 0;
        for (int pair = 0; pair < 2; pair++) {
            uint32_t unit = 0;
            if (end - at < 5) return NULL;
            for (int i = 1; i <= 4; i++) {
                static const char digits[] = "0123456789abcdef";
                const char *digit = strchr(digits, at[i] | 0x20);
                if (digit == NULL || (at[i] != (at[i] | 0x20) && at[i] < 'A')) return NULL;
                unit = unit * 16 + (uint32_t)(digit - digits);
            }
            if (pair == 0) code = unit;
            else if (unit >= 0xdc00 && unit < 0xe000) code = 0x10000 + ((code - 0xd800) << 10) + (unit - 0xdc00);
            else break; // half a pair, and another character
            at += 4;
            bool high = pair == 0 && code >= 0xd800 && code < 0xdc00;
            if (!high || end - at < 3 || at[1] != '\\' || at[2] != 'u') break;
            at += 2;
        }
        if (code >= 0xd800 && code < 0xe000) code = 0xfffd;
        if (code < 0x80) *to++ = (char)code;
        else if (code < 0x800) *to++ = (char)(0xc0 | code >> 6), *to++ = (char)(0x80 | (code & 0x3f));
        else if (code < 0x10000)
            *to++ = (char)(0xe0 | code >> 12), *to++ = (char)(0x80 | (code >> 6 & 0x3f)), *to++ = (char)(0x80 | (code & 0x3f));
        else
            *to++ = (char)(0xf0 | code >> 18), *to++ = (char)(0x80 | (code >> 12 & 0x3f)),
            *to++ = (char)(0x80 | (code >> 6 & 0x3f)), *to++ = (char)(0x80 | (code & 0x3f));
    }
    if (out != NULL) *out = (h_text){text, (size_t)(to - text)};
    return at < end ? at + 1 : NULL;
}

static inline const char *h_json_blank(const char *at, const char *end) {
    while (at != NULL && at < end && h_is_space(*at)) at++;
    return at;
}

// The end of the value that begins at `at`; NULL if it is none.
static inline const char *h_json_skip(const char *at, const char *end) {
    size_t depth = 0;
    do {
        at = h_json_blank(at, end);
        if (at == NULL || at >= end) return NULL;
        if (*at == '"') at = h_json_read(at, end, NULL);
        else if (*at == '{' || *at == '[') depth++, at++;
        else if (*at == '}' || *at == ']') depth--, at++;
        else if (*at == ',' || *at == ':') at++;
        else
            while (at < end && strchr(",:]}", *at) == NULL && !h_is_space(*at)) at++;
    } while (depth > 0);
    return at;
}

// The text that is the member `name` of a JSON object; false if there is none, or it is no text.
static inline bool h_json_member(h_text object, h_text name, h_text *value) {
    const char *end = object.at + object.len, *at = h_json_blank(object.at, end);
    if (at >= end || *at++ != '{') return false;
    while ((at = h_json_blank(at, end)) != NULL && at < end && *at == '"') {
        h_text key;
        at = h_json_blank(h_json_read(at, end, &key), end);
        if (at == NULL || at >= end || *at++ != ':') return false;
        at = h_json_blank(at, end);
        if (h_is(key, name)) return h_json_read(at, end, value) != NULL;
        at = h_json_blank(h_json_skip(at, end), end);
        if (at == NULL || at >= end || *at++ != ',') return false;
    }
    return false;
}

// How the turn stands: it goes on, the client is gone, or it has failed.
static enum { H_GOES_ON, H_CLOSED, H_TURN_FAILED } h_state;

static h_text h_failure;

static inline void h_fail(h_text why) { h_state = H_TURN_FAILED, h_failure = why; }

// The contract's events of the kinds that are offered here, by their order there.
enum { H_EVENT_THINK = 0, H_EVENT_CHAT = 1, H_EVENT_FOLLOW_UP = 5, H_EVENT_FAULT = 6 };

static bool h_emit(int event, const h_text *texts, size_t count);

static inline bool h_chat(h_text text) { return h_emit(H_EVENT_CHAT, &text, 1); }
static inline bool h_think(h_text text) { return h_emit(H_EVENT_THINK, &text, 1); }
static inline bool h_fault(h_text text) { return h_emit(H_EVENT_FAULT, &text, 1); }
static inline bool h_follow_up(const h_text *questions, size_t count) {
    return h_emit(H_EVENT_FOLLOW_UP, questions, count);
}

#ifdef __wasm__
// -------------------------------------------------------------------------------------- the contract's canonical form

#define H_IMPORT(interface, function) \
    __attribute__((import_module("hostelry:agent/" interface "@0.1.0"), import_name(function)))

H_IMPORT("host", "emit-event")
void h_wire_emit_event(uint32_t event, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e, void *result);
H_IMPORT("host", "call-tool")
void h_wire_call_tool(const char *name, size_t name_len, const char *args, size_t args_len, void *result);
H_IMPORT("turn", "history") void h_wire_history(uint32_t max, void *result);
H_IMPORT("turn", "get") void h_wire_get(const char *key, size_t key_len, void *result);
H_IMPORT("log", "log") void h_wire_log(uint32_t level, const char *text, size_t text_len);

// A message as the host writes it.
typedef struct {
    uint8_t role;
    struct {
        uint8_t kind;
        h_text text;
        struct {
            uint8_t there;
            h_text text;
        } media_type;
    } content;
} h_wire_message;

_Static_assert(sizeof(h_wire_message) == 28, "as the canonical form has it");

__attribute__((export_name("cabi_realloc"))) void *h_wire_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size, (void)align; // malloc's own alignment is the widest there is
    void *room = realloc(old, size > 0 ? size : 1);
    if (room == NULL) abort();
    return room;
}

static h_messages h_messages_of(const h_wire_message *from, size_t count) {
    h_message *messages = calloc(count > 0 ? count : 1, sizeof *messages);
    if (messages == NULL) abort();
    for (size_t i = 0; i < count; i++) {
        messages[i] = (h_message){(h_role)from[i].role, (h_kind)from[i].content.kind, from[i].content.text, {"", 0}};
        bool typed = from[i].content.kind == H_FILE && from[i].content.media_type.there;
        if (typed) messages[i].media_type = from[i].content.media_type.text;
    }
    return (h_messages){messages, count};
}

__attribute__((export_name("hostelry:agent/handler@0.1.0#handle"))) const void *
h_wire_handle(const char *session, size_t session_len, const char *turn, size_t turn_len, uint32_t has_user,
              const char *user, size_t user_len, const h_wire_message *input, size_t input_len) {
    static struct {
        uint32_t failed;
        h_text why;
    } outcome;
    h_turn asked = {{session, session_len}, {turn, turn_len}, {"", 0}, h_messages_of(input, input_len)};
    if (has_user) asked.user_id = (h_text){user, user_len};
    h_answer(&asked);
    outcome.failed = h_state == H_TURN_FAILED;
    outcome.why = h_failure;
    return &outcome;
}

static bool h_emit(int event, const h_text *texts, size_t count) {
    if (h_state != H_GOES_ON) return false;
    struct {
        uint8_t failed;
        struct {
            uint8_t refused;
            h_text why;
        } error;
    } result;
    const h_text *text = texts;
    if (event == H_EVENT_FOLLOW_UP) h_wire_emit_event(event, (uintptr_t)texts, count, 0, 0, 0, &result);
    else if (event == H_EVENT_FAULT) h_wire_emit_event(event, (uintptr_t)text->at, text->len, 0, 0, 0, &result);
    else h_wire_emit_event(event, 1 /* a piece of the stream */, (uintptr_t)text->at, text->len, 0, 0, &result);
    if (!result.failed) return true;
    if (result.error.refused) h_fail(result.error.why);
    else h_state = H_CLOSED;
    return false;
}

static inline h_tool_result h_call_tool(h_text name, h_text args) {
    struct {
        uint8_t failed;
        union {
            h_text answer;
            struct {
                uint8_t kind;
                h_text why;
            } error;
        } value;
    } result;
    h_wire_call_tool(name.at, name.len, args.at, args.len, &result);
    if (!result.failed) return (h_tool_result){true, H_FAILED, result.value.answer};
    h_tool_error kind = (h_tool_error)result.value.error.kind;
    return (h_tool_result){false, kind, kind == H_TIMEOUT ? H("it took too long") : result.value.error.why};
}

static inline h_messages h_history(uint32_t max) {
    struct {
        const h_wire_message *at;
        size_t len;
    } list;
    h_wire_history(max, &list);
    return h_messages_of(list.at, list.len);
}

static inline bool h_fact(h_text key, h_text *value) {
    struct {
        uint8_t there;
        h_text value;
    } result;
    h_wire_get(key.at, key.len, &result);
    if (result.there) *value = result.value;
    return result.there;
}

static inline void h_log(h_level level, h_text text) { h_wire_log(level, text.at, text.len); }

#else
// ------------------------------------------------------------------------------------------------------- the fake host

// The host, for tests.
static struct {
    h_message history[64];
    size_t history_len;
    h_tool_result (*call_tool)(h_text name, h_text args); // the turn's tools
    bool (*fact)(h_text key, h_text *value);
    size_t closes_after; // after how many events the client goes away; 0 for never
    // What was shown: a line an event, its kind and its text.
    char shown[1 << 16];
    // The answer of the turn that was asked last, and of how many events it was.
    char answer[1 << 14];
    size_t events;
} h_fake;

static bool h_emit(int event, const h_text *texts, size_t count) {
    if (h_state != H_GOES_ON) return false;
    if (h_fake.closes_after > 0 && h_fake.events >= h_fake.closes_after) {
        h_state = H_CLOSED;
        return false;
    }
    h_fake.events++;
    static const char *const kinds[] = {[H_EVENT_THINK] = "think", [H_EVENT_CHAT] = "chat",
                                        [H_EVENT_FOLLOW_UP] = "follow-up", [H_EVENT_FAULT] = "fault"};
    size_t used = strlen(h_fake.shown);
    used += (size_t)snprintf(h_fake.shown + used, sizeof h_fake.shown - used, "%s", kinds[event]);
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(h_fake.shown + used, sizeof h_fake.shown - used, " %.*s", H_ARGS(texts[i]));
        size_t said = strlen(h_fake.answer);
        if (event == H_EVENT_CHAT) snprintf(h_fake.answer + said, sizeof h_fake.answer - said, "%.*s", H_ARGS(texts[i]));
    }
    snprintf(h_fake.shown + used, sizeof h_fake.shown - used, "\n");
    return true;
}

static inline h_tool_result h_call_tool(h_text name, h_text args) {
    if (h_fake.call_tool == NULL) return (h_tool_result){false, H_UNKNOWN, H("there is no tool in this turn")};
    return h_fake.call_tool(name, args);
}

static inline h_messages h_history(uint32_t max) {
    size_t skip = h_fake.history_len > max ? h_fake.history_len - max : 0;
    return (h_messages){h_fake.history + skip, h_fake.history_len - skip};
}

static inline bool h_fact(h_text key, h_text *value) { return h_fake.fact != NULL && h_fake.fact(key, value); }

static inline void h_log(h_level level, h_text text) { (void)level, fprintf(stderr, "%.*s\n", H_ARGS(text)); }

// Has the agent answer a message, keeps both in the history, and gives the answer's text; what it failed with is in
// `h_failure`.
static inline const char *h_fake_ask(h_message said) {
    h_state = H_GOES_ON, h_failure = H(""), h_fake.events = 0, h_fake.answer[0] = 0;
    h_answer(&(h_turn){H("session"), H("turn"), H(""), {&said, 1}});
    h_fake.history[h_fake.history_len++ % 64] = said;
    h_message answer = {H_AGENT, H_TEXT, h_format("%s", h_fake.answer), {"", 0}};
    h_fake.history[h_fake.history_len++ % 64] = answer;
    return h_fake.answer;
}

#endif
#endif
