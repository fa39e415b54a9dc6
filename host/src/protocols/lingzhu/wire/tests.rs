//! What a request may be, and what it is then.

use super::*;

const CURL: &str = r#"{
    "message_id": "msg_123",
    "agent_id": "agent_123",
    "message": [
      { "role": "user", "type": "text", "text": "你好" }
    ],
    "user_id": "user_001",
    "metadata": {
      "context": {
        "location": "上海市浦东新区",
        "latitude": "31.2304",
        "longitude": "121.4737",
        "weather": "晴",
        "battery": "78"
      }
    }
}"#;

const SAMPLE: &str = r#"{
  "metadata": {
    "lang": "zh-CN",
    "location": "中国浙江省杭州市",
    "company_id": 1,
    "latitude": "30.287759999999999",
    "longitude": "120.00449",
    "currentTime": "2026-02-09 下午4:22:15",
    "weather": "1. 今日：阴。\\n2. 明天：小雨。",
    "battery": "99",
    "runningApp": ""
  },
  "agent_id": "f537f6a2c01f47b1aa48f073d921364f",
  "user_id": "D20197B06A604D959C5A37EE28324DE7",
  "message_id": "1770625332",
  "message": [
    { "role": "user", "type": "text", "text": "你好。", "image_url": null }
  ]
}"#;

fn text(text: &str) -> Message {
    Message { role: Role::User, content: Content::Text(text.to_owned()) }
}

fn image(url: &str) -> Message {
    Message { role: Role::User, content: Content::Image(url.to_owned()) }
}

fn facts(facts: &[(&str, &str)]) -> BTreeMap<String, String> {
    facts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[track_caller]
fn ask(body: &str) -> Ask {
    parse(body.as_bytes()).unwrap_or_else(|unfit| panic!("{unfit}: {body}"))
}

/// What the list of messages `message` says, or why it is refused.
fn said(message: &str) -> Result<Vec<Message>, String> {
    let body = format!(r#"{{"message_id":"m","message":{message}}}"#);
    parse(body.as_bytes()).map(|ask| ask.input).map_err(|unfit| unfit.0)
}

/// The facts of this `metadata`.
fn told(metadata: &str) -> BTreeMap<String, String> {
    ask(&format!(r#"{{"message_id":"m","message":[{{"text":"x"}}],"metadata":{metadata}}}"#)).facts
}

#[test]
fn the_documents_json_sample_is_understood() {
    let ask = ask(SAMPLE);
    assert_eq!(ask.message_id, "1770625332");
    assert_eq!(ask.agent_id.as_deref(), Some("f537f6a2c01f47b1aa48f073d921364f"));
    assert_eq!(ask.user_id.as_deref(), Some("D20197B06A604D959C5A37EE28324DE7"));
    assert_eq!(ask.input, [text("你好。")]);
    assert_eq!(
        ask.facts,
        facts(&[
            ("lang", "zh-CN"),
            ("location", "中国浙江省杭州市"),
            ("company-id", "1"),
            ("latitude", "30.287759999999999"),
            ("longitude", "120.00449"),
            ("current-time", "2026-02-09 下午4:22:15"),
            ("weather", "1. 今日：阴。\\n2. 明天：小雨。"),
            ("battery", "99"),
            ("running-app", ""),
        ])
    );
    assert_eq!(ask.lang(), "zh-CN");
}

#[test]
fn the_documents_curl_sample_is_understood() {
    let ask = ask(CURL);
    assert_eq!((ask.message_id.as_str(), ask.input.as_slice()), ("msg_123", [text("你好")].as_slice()));
    assert_eq!(
        ask.facts,
        facts(&[
            ("location", "上海市浦东新区"),
            ("latitude", "31.2304"),
            ("longitude", "121.4737"),
            ("weather", "晴"),
            ("battery", "78"),
        ])
    );
}

#[test]
fn ids_may_be_numbers_and_null_is_absent() {
    let ids = |body: &str| {
        let ask = ask(body);
        (ask.message_id, ask.agent_id, ask.user_id)
    };
    assert_eq!(
        ids(r#"{"message_id":1770625332,"agent_id":12345678901234567890123,"user_id":1.50,"message":[{"text":"x"}]}"#),
        ("1770625332".to_owned(), Some("12345678901234567890123".to_owned()), Some("1.50".to_owned()))
    );
    let only_message = ("m".to_owned(), None, None);
    for rest in
        ["", r#","agent_id":null,"user_id":null,"metadata":null"#, r#","agent_id":[],"user_id":{},"metadata":7"#]
    {
        assert_eq!(ids(&format!(r#"{{"message_id":"m","message":[{{"text":"x"}}]{rest}}}"#)), only_message, "{rest}");
    }
    let unknown =
        r#","session_id":"s","query":{"a":[1]},"additional_user_ids":[],"disable_default_additional_user_ids":true"#;
    assert_eq!(ids(&format!(r#"{{"message_id":"m","message":[{{"text":"x"}}]{unknown}}}"#)), only_message);
    let twice =
        r#"{"message_id":"a","user_id":"u","message_id":"m","user_id":null,"message":[],"message":[{"text":"x"}]}"#;
    assert_eq!(ids(twice), only_message, "the last wins");
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let check =
        |body: &str, expected: &str| assert_eq!(parse(body.as_bytes()), Err(Unfit(expected.to_owned())), "{body}");
    check(r#"{"message":[{"text":"x"}]}"#, "message_id is required");
    check(r#"{"message_id":null,"message":[{"text":"x"}]}"#, "message_id is required");
    check(r#"{"message_id":" ","message":[{"text":"x"}]}"#, "message_id is required");
    check(r#"{"message_id":{},"message":[{"text":"x"}]}"#, "message_id must be a string");
    check(r#"{"message_id":"m"}"#, "message is required");
    check(r#"{"message_id":"m","message":null}"#, "message is required");
    check(r#"{"message_id":"m","message":"hi"}"#, "message must be a list");
    check(r#"{"message_id":"m","message":{"text":"hi"}}"#, "message must be a list");
    check(r#"{"message_id":"m","message":[]}"#, "message must not be empty");
    check(r#"{"message_id":"m","message":[{"text":"x"},null]}"#, "message[1] must be an object");
    check("[]", "the body must be a JSON object");
    check("null", "the body must be a JSON object");
    check("\"x\"", "the body must be a JSON object");
    let long = "x".repeat(ID_MAX + 1);
    for name in ["message_id", "agent_id", "user_id"] {
        let body = format!(r#"{{"message_id":"m","message":[{{"text":"x"}}],"{name}":"{long}"}}"#);
        check(&body, &format!("{name} is longer than 256 bytes"));
    }
    let many = vec!["{}"; MESSAGES_MAX + 1].join(",");
    check(&format!(r#"{{"message_id":"m","message":[{many}]}}"#), "message has more than 256 items");
}

#[test]
fn what_is_no_json_is_told_and_never_quoted() {
    let why = |body: &[u8]| parse(body).unwrap_err().0;
    assert_eq!(why(b"{"), "invalid JSON: EOF while parsing an object at line 1 column 1");
    assert_eq!(why(b""), "invalid JSON: EOF while parsing a value at line 1 column 0");
    assert_eq!(why(b"{\"message_id\":\"\xff\"}"), "invalid JSON: not UTF-8");
    assert!(!why(b"{'secret':1}").contains("secret"));
    for deep in [format!(r#"{{"x":{}1{}}}"#, "[".repeat(200), "]".repeat(200)), "[".repeat(1_000_000)] {
        assert!(why(deep.as_bytes()).starts_with("invalid JSON") || why(deep.as_bytes()).contains("object"));
    }
    assert_eq!(
        why(format!(r#"{{"x":{}1{}}}"#, "[".repeat(127), "]".repeat(127)).as_bytes()),
        "invalid JSON: nested deeper than 127 levels"
    );
    let text = format!(r#"{{"message_id":"m","message":[{{"text":"{}\""}}]}}"#, "[".repeat(300));
    assert_eq!(ask(&text).input.len(), 1, "brackets in text nest nothing");
}

#[test]
fn a_byte_order_mark_is_served() {
    let body = format!("\u{feff}{SAMPLE}");
    assert_eq!(ask(&body), ask(SAMPLE));
}

#[test]
fn every_form_of_a_message_is_understood() {
    let check = |message: &str, expected: &[Message]| assert_eq!(said(message).as_deref(), Ok(expected), "{message}");
    let url = "https://h.example/a.webp";
    check(r#"[{"role":"user","type":"text","text":"a"},{"type":"text","text":"b"}]"#, &[text("a"), text("b")]);
    check(r#"[{"text":"a"}]"#, &[text("a")]);
    check(r#"[{"content":"a"}]"#, &[text("a")]);
    check(r#"[{"content":"b","text":"a"}]"#, &[text("a")]);
    check(r#"[{"content":"b","text":""}]"#, &[text("b")]);
    check(r#"[{"type":7,"role":[],"text":12.50}]"#, &[text("12.50")]);
    check(r#"[{"type":"voice","text":"a"}]"#, &[text("a")]);
    check(&format!(r#"[{{"role":"user","type":"image","image_url":"{url}"}}]"#), &[image(url)]);
    check(&format!(r#"[{{"type":"IMAGE","text":" {url} ","image_url":null}}]"#), &[image(url)]);
    check(&format!(r#"[{{"type":"image","text":"{url}","image_url":"{url}"}}]"#), &[image(url)]);
    check(&format!(r#"[{{"type":"image","text":"a","image_url":"{url}"}}]"#), &[text("a"), image(url)]);
    check(r#"[{"type":"image","text":"data:image/png;base64,AA"}]"#, &[image("data:image/png;base64,AA")]);
    check(&format!(r#"[{{"type":"text","text":"a","image_url":"{url}"}}]"#), &[text("a"), image(url)]);
    check(&format!(r#"[{{"type":"text","text":"","image_url":"{url}"}}]"#), &[image(url)]);
    check(&format!(r#"[{{"image_url":"{url}"}}]"#), &[image(url)]);
    check(&format!(r#"[{{"text":""}},{{"type":"image","image_url":"{url}"}}]"#), &[image(url)]);
    check(&format!(r#"[{{"text":"{url}"}}]"#), &[text(url)]);
    check(r#"[{"text":"a\ud83d"}]"#, &[text("a\u{fffd}\u{fffd}\u{fffd}")]);
    check(r#"[{"text":"\ud83d\ude00\n"}]"#, &[text("😀\n")]);
    let agent = Message { role: Role::Agent, content: Content::Text("a".to_owned()) };
    check(r#"[{"role":"agent","text":"a"},{"role":"user","text":"b"}]"#, &[agent.clone(), text("b")]);
    check(r#"[{"role":"assistant","text":"a"}]"#, &[agent]);
}

#[test]
fn a_message_that_says_nothing_is_refused_by_name() {
    let check = |message: &str, expected: &str| assert_eq!(said(message), Err(expected.to_owned()), "{message}");
    check(r#"[{"role":"user","type":"image"}]"#, "message[0]: image_url is required");
    check(r#"[{"text":"a"},{"type":"image","image_url":"","text":"b"}]"#, "message[1]: image_url is required");
    check(r#"[{"type":"image","text":"https://"}]"#, "message[0]: image_url is required");
    check(r#"[{"type":"image","image_url":{"url":"x"}}]"#, "message[0]: image_url is required");
    check(r#"[{"role":"user","type":"text","text":""}]"#, "message[0]: text is required");
    check(r#"[{"text":" \n"},{}]"#, "message[0]: text is required");
}

#[test]
fn facts_keep_what_was_sent() {
    assert_eq!(
        told(
            r#"{"battery":85,"latitude":31.2,"company_id":"1","on":true,"big":123456789012345678901.10,"list":[1, 2]}"#
        ),
        facts(&[
            ("battery", "85"),
            ("latitude", "31.2"),
            ("company-id", "1"),
            ("on", "true"),
            ("big", "123456789012345678901.10"),
            ("list", "[1, 2]"),
        ])
    );
    assert_eq!(
        told(r#"{"battery":"1","weather":null,"context":{"battery":"2","weather":"fine","x":null}}"#),
        facts(&[("battery", "1"), ("weather", "fine")]),
        "metadata's own key goes before its context's"
    );
    assert_eq!(told(r#"{"context":"c"}"#), facts(&[("context", "c")]));
    for none in ["null", "[]", "\"x\"", "{}", r#"{"context":null}"#] {
        assert_eq!(told(none), facts(&[]), "{none}");
    }
}

#[test]
fn facts_are_bounded_and_the_platforms_own_go_first() {
    let many = (0..1000).map(|n| format!(r#""a{n}":1,"#)).collect::<Vec<_>>().concat();
    let body = format!(r#"{{"message_id":"m","message":[{{"text":"x"}}],"metadata":{{{many}"weather":"fine"}}}}"#);
    let many = ask(&body);
    assert_eq!((many.facts.len(), many.facts_dropped), (FACTS_MAX, 1001 - FACTS_MAX));
    assert_eq!(many.facts.get("weather").map(String::as_str), Some("fine"));
    let big = "x".repeat(FACTS_BYTES_MAX);
    let body = format!(r#"{{"message_id":"m","message":[{{"text":"x"}}],"metadata":{{"a":"{big}","b":1}}}}"#);
    let big = ask(&body);
    assert_eq!((big.facts, big.facts_dropped), (facts(&[("b", "1")]), 1));
}

#[test]
fn the_language_is_chinese_unless_the_client_says_otherwise() {
    let lang = |metadata: &str| {
        ask(&format!(r#"{{"message_id":"m","message":[{{"text":"x"}}],"metadata":{metadata}}}"#)).lang().to_owned()
    };
    assert_eq!(lang(r#"{"lang":"en-US"}"#), "en-US");
    assert_eq!(lang(r#"{"context":{"lang":"en"}}"#), "en");
    assert_eq!(lang(r#"{"lang":""}"#), LANG_DEFAULT);
    assert_eq!(lang("{}"), LANG_DEFAULT);
}

#[test]
fn what_is_no_known_field_is_read_within_bounds() {
    let many = (0..200_000).map(|n| format!(r#""k{n}":0,"#)).collect::<Vec<_>>().concat();
    let body = format!(r#"{{"message_id":"m","message":[{{"text":"x"}}],{many}"end":0}}"#);
    assert_eq!(ask(&body).input, [text("x")]);
}
