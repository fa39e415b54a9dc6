//! Tests of the Mythra document's JSON: what comes in, table by table, and what goes out, byte by byte.

use super::*;

fn input(text: &str) -> UserInput {
    match parse(text.as_bytes()) {
        Incoming::Input(input) => input,
        other => panic!("{text}: {other:?}"),
    }
}

fn facts_of(text: &str) -> Vec<(String, String)> {
    input(text).facts.into_iter().collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_documents_own_sample_is_understood() {
    let sample = r#"{
      "type": "user-input",
      "apiKey": "your WDS API key",
      "projectId": "2231",
      "workDir": "/document",
      "sessionId": "d271487972e2221eb3aa98bc1a7ae6fc",
      "userInput": "你好",
      "preferredModel": "火山引擎:doubao-seed-1-6-lite-251015"
    }"#;
    let input = input(sample);
    assert_eq!(input.text, "你好");
    assert_eq!(input.session.as_deref(), Some("d271487972e2221eb3aa98bc1a7ae6fc"));
    assert_eq!(input.api_key.as_ref().map(ApiKey::expose), Some("your WDS API key"));
    let expected = [
        ("preferred-model", "火山引擎:doubao-seed-1-6-lite-251015"),
        ("project-id", "2231"),
        ("work-dir", "/document"),
    ];
    assert_eq!(input.facts.into_iter().collect::<Vec<_>>(), pairs(&expected));
}

#[test]
fn the_smallest_input_is_a_type_and_a_text() {
    let expected =
        UserInput { text: "hi".to_owned(), session: None, api_key: None, facts: BTreeMap::new(), facts_dropped: 0 };
    for text in [
        r#"{"type":"user-input","userInput":"hi"}"#,
        r#"{"type":"user-input","userInput":"hi","id":"x","event":"start"}"#,
        r#"{"type":"user-input","userInput":"hi","apiKey":null,"sessionId":"","projectId":null,"workDir":""}"#,
        r#"{"type":"user-input","userInput":"hi","apiKey":"  ","sessionId":{},"apiKey":[]}"#,
        "\u{feff}{\"type\":\"user-input\",\"userInput\":\"hi\"}",
        "{\"type\":\"user-input\", \"userInput\":\"hi\" ,\n }",
    ] {
        assert_eq!(input(text), expected, "{text}");
    }
}

#[test]
fn half_an_emoji_is_a_replacement_character_and_a_whole_one_itself() {
    let text = |said: &str| input(&format!(r#"{{"type":"user-input","userInput":"{said}","z":"\ud83d"}}"#)).text;
    assert_eq!(text(r"a\ud83d"), "a\u{fffd}");
    assert_eq!(text(r"\ude00\ud83d\ud83d\ude00b"), "\u{fffd}\u{fffd}😀b");
    assert_eq!(text(r"\\ud83d\n你"), "\\ud83d\n你");
}

#[test]
fn other_keys_become_facts() {
    let wrap = |rest: &str| format!(r#"{{"type":"user-input","userInput":"hi",{rest}}}"#);
    let cases: [(&str, &[(&str, &str)]); 8] = [
        (r#""projectId":2231"#, &[("project-id", "2231")]),
        (r#""projectId":12345678901234567890123"#, &[("project-id", "12345678901234567890123")]),
        (r#""latitude":30.287759999999999"#, &[("latitude", "30.287759999999999")]),
        (r#""workDir":null,"preferredModel":"""#, &[]),
        (r#""currentTime":"now","company_id":1"#, &[("company-id", "1"), ("current-time", "now")]),
        (
            r#""flag":true,"list":[1, 2],"map":{"a":null}"#,
            &[("flag", "true"), ("list", "[1, 2]"), ("map", r#"{"a":null}"#)],
        ),
        (r#""work-dir":"b","workDir":"a""#, &[("work-dir", "a")]),
        (r#""语言":"中","_":"x""#, &[("语言", "中")]),
    ];
    for (rest, expected) in cases {
        assert_eq!(facts_of(&wrap(rest)), pairs(expected), "{rest}");
    }
}

#[test]
fn facts_past_a_bound_are_dropped_and_the_documents_own_go_first() {
    let many: Vec<String> = (0..300).map(|n| format!(r#""a{n}":"x""#)).collect();
    let text = format!(r#"{{"type":"user-input","userInput":"hi",{},"projectId":"p"}}"#, many.join(","));
    let few = input(&text);
    assert_eq!((few.facts.len(), few.facts_dropped), (FACTS_MAX, 301 - FACTS_MAX));
    assert_eq!(few.facts.get("project-id").map(String::as_str), Some("p"));

    let large = "x".repeat(FACTS_BYTES_MAX);
    let text = format!(r#"{{"type":"user-input","userInput":"hi","large":"{large}","small":"s"}}"#);
    let one = input(&text);
    assert_eq!((one.facts.len(), one.facts_dropped), (1, 1));
}

#[test]
fn what_is_no_object_is_invalid() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(200), close.repeat(200));
    let cases = [
        "{'type':'user-input'}".to_owned(),
        String::new(),
        "null".to_owned(),
        "[]".to_owned(),
        "\"sk-secret\"".to_owned(),
        "{}{}".to_owned(),
        deep("[", "]"),
        deep(r#"{"a":"#, "}"),
        format!(r#"{{"type":"x","a":{}}}"#, deep("[", "]")),
    ];
    for text in cases {
        match parse(text.as_bytes()) {
            Incoming::Invalid(why) => {
                assert!(why.starts_with("invalid JSON: "), "{why}");
                assert!(!why.contains("secret"), "{why}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert_eq!(parse(b"\xff\xfe"), Incoming::Invalid("invalid JSON: not UTF-8".to_owned()));
}

#[test]
fn an_unknown_type_is_told_apart_from_a_bad_input() {
    let unfit = |why: &str| Incoming::Unfit(why.to_owned());
    let long = format!(r#"{{"type":"user-input","userInput":"hi","sessionId":"{}"}}"#, "s".repeat(SESSION_ID_MAX + 1));
    let cases = [
        (r#"{"type":"ping"}"#, Incoming::Unknown("ping".to_owned())),
        (r#"{"type":1}"#, Incoming::Unknown(String::new())),
        (r#"{"userInput":"hi"}"#, Incoming::Unknown(String::new())),
        (r#"{"type":"user-input"}"#, unfit("userInput is required")),
        (r#"{"type":"user-input","userInput":""}"#, unfit("userInput is required")),
        (r#"{"type":"user-input","userInput":null}"#, unfit("userInput is required")),
        (r#"{"type":"user-input","userInput":7}"#, unfit("userInput must be a string")),
        (r#"{"type":"user-input","userInput":{}}"#, unfit("userInput must be a string")),
        (&long, unfit("sessionId is longer than 256 bytes")),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn commas_are_dropped_before_brackets_only_and_never_inside_strings() {
    let cases = [
        ("{\"a\":[1,2,],}", "{\"a\":[1,2]}"),
        ("{\"a\":1 , \n}", "{\"a\":1 }"),
        (r#"{"a":",}","b":"\",]",}"#, r#"{"a":",}","b":"\",]"}"#),
        (r#"{"a":"\\",}"#, r#"{"a":"\\"}"#),
        ("\u{feff}{}", "{}"),
    ];
    for (text, expected) in cases {
        assert_eq!(tidy(text), expected, "{text}");
    }
}

#[test]
fn a_key_never_prints() {
    let input = input(r#"{"type":"user-input","userInput":"hi","apiKey":"sk-secret"}"#);
    assert_eq!(format!("{:?}", input.api_key), "Some(***)");
    assert!(!format!("{input:?}").contains("secret"));
}

#[test]
fn messages_go_out_in_the_documents_key_order() {
    let json = |message: &Outgoing<'_>| serde_json::to_string(message).unwrap();
    assert_eq!(
        json(&Outgoing::bare("a", Kind::ResponseState, Event::Start)),
        r#"{"id":"a","type":"response-state","event":"start"}"#
    );
    assert_eq!(json(&Outgoing::error("a", "no\n")), r#"{"id":"a","type":"error","event":"error","content":"no\n"}"#);
    assert_eq!(
        json(&Outgoing::tool("a", Event::End, "WriteFile", r#"{"filePath":"/markdown/a.md"}"#)),
        r#"{"id":"a","type":"tool-call","event":"end","func":"WriteFile","args":{"filePath":"/markdown/a.md"}}"#
    );
    assert_eq!(
        json(&Outgoing::tool("a", Event::Start, "f", "no JSON")),
        r#"{"id":"a","type":"tool-call","event":"start","func":"f","args":{}}"#
    );
}
