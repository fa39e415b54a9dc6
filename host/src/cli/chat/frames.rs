//! The client's end of both protocols' JSON: what is sent, and what each frame that comes back tells. Pure: nothing here
//! reads, writes or prints. The server's end is `protocols/*/wire.rs`, which this one is written apart from, so that
//! neither can hide the other's slip.

use serde_json::{Map, Value, json};

/// Keys of a Mythra input that have a meaning of their own, so that no fact can go by them.
pub(super) const MYTHRA_RESERVED: &[&str] = &["type", "apiKey", "sessionId", "userInput"];

/// What goes with every turn of one chat.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Ask {
    /// The conversation.
    pub(in crate::cli) session: String,
    /// The agent's name.
    pub(in crate::cli) agent: String,
    /// The person, on Lingzhu.
    pub(in crate::cli) user: Option<String>,
    /// The person's language.
    pub(in crate::cli) lang: Option<String>,
    /// What else the client says of itself.
    pub(in crate::cli) facts: Vec<(String, String)>,
    /// An image that goes with the next turn, on Lingzhu.
    pub(in crate::cli) image: Option<String>,
}

/// What one frame tells a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Piece {
    /// The turn was accepted.
    Begin,
    /// More of the agent's thoughts.
    Think(String),
    /// More of its answer.
    Answer(String),
    /// A stream of text is over.
    Break,
    /// A tool begins to run, or a command goes to the device.
    Tool {
        /// Its name.
        name: String,
        /// Its arguments, as JSON.
        args: String,
    },
    /// Something about the agent's work that most do not want to see.
    State(String),
    /// An error.
    Error(String),
    /// The last text of a Lingzhu answer, which the host says where the agent failed or said nothing.
    Stand(String),
    /// What the person may want to ask next.
    FollowUp(Vec<String>),
    /// Nothing to show.
    Silent,
    /// The turn is over.
    End,
}

/// How a turn went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Ending {
    /// The agent answered.
    Well,
    /// It ended with an error.
    Failed,
}

/// The course of one turn: whether its end has come, and how it went.
#[derive(Debug)]
pub(super) struct Course {
    begun: bool,
    failed: bool,
}

impl Course {
    /// A Mythra turn: an error before its start means that it will have none.
    pub(super) fn mythra() -> Self {
        Self { begun: false, failed: false }
    }

    /// A Lingzhu turn: it was accepted if there is a stream at all.
    pub(super) fn lingzhu() -> Self {
        Self { begun: true, failed: false }
    }

    /// Takes the next piece, and tells how the turn went if it was the last. An agent may show an error and go on, so an
    /// error is how it went only if nothing came between it and the end.
    pub(super) fn note(&mut self, piece: &Piece) -> Option<Ending> {
        match piece {
            Piece::Begin => self.begun = true,
            Piece::Error(_) if !self.begun => return Some(Ending::Failed),
            Piece::Error(_) | Piece::Stand(_) => self.failed = true,
            Piece::End if self.failed => return Some(Ending::Failed),
            Piece::End => return Some(Ending::Well),
            _ => self.failed = false,
        }
        None
    }
}

/// What a user says, as a Mythra message.
pub(super) fn mythra_input(ask: &Ask, text: &str) -> String {
    let mut input = Map::new();
    input.insert("type".to_owned(), json!("user-input"));
    input.insert("sessionId".to_owned(), json!(ask.session));
    input.insert("userInput".to_owned(), json!(text));
    input.extend(facts(ask));
    Value::Object(input).to_string()
}

/// What a user says, as the body of a Lingzhu request.
pub(super) fn lingzhu_body(ask: &Ask, text: &str) -> String {
    let image = ask.image.as_ref().map(|url| json!({ "role": "user", "type": "image", "image_url": url }));
    let text = json!({ "role": "user", "type": "text", "text": text });
    let messages: Vec<Value> = image.into_iter().chain([text]).collect();
    let mut body = Map::new();
    body.insert("message_id".to_owned(), json!(ask.session));
    body.insert("agent_id".to_owned(), json!(ask.agent));
    body.insert("message".to_owned(), Value::Array(messages));
    body.extend(ask.user.as_ref().map(|user| ("user_id".to_owned(), json!(user))));
    let metadata: Map<String, Value> = facts(ask).collect();
    body.extend((!metadata.is_empty()).then(|| ("metadata".to_owned(), Value::Object(metadata))));
    Value::Object(body).to_string()
}

/// The facts by key; the flag for the language goes before a fact of that name.
fn facts(ask: &Ask) -> impl Iterator<Item = (String, Value)> {
    let facts = ask.facts.iter().map(|(key, value)| (key.clone(), json!(value)));
    facts.chain(ask.lang.as_ref().map(|lang| ("lang".to_owned(), json!(lang))))
}

/// A frame's text as the JSON object that it must be.
pub(super) fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err("the host sent a frame that is no JSON object".to_owned()),
        Err(error) => Err(format!("the host sent a frame that is not JSON: {error}")),
    }
}

/// What a Mythra frame tells.
pub(super) fn mythra(frame: &Value) -> Piece {
    let content = || text(frame, "content").to_owned();
    match (text(frame, "type"), text(frame, "event")) {
        ("response-state", "start") => Piece::Begin,
        ("response-state", "end") => Piece::End,
        ("think-output", "delta") => Piece::Think(content()),
        ("chat-output", "delta") => Piece::Answer(content()),
        ("think-output" | "chat-output", "end") => Piece::Break,
        ("think-output" | "chat-output", _) => Piece::Silent,
        ("tool-call", "start") => Piece::Tool {
            name: text(frame, "func").to_owned(),
            args: frame.get("args").map(Value::to_string).unwrap_or_default(),
        },
        ("tool-call", event) => Piece::State(format!("{} {event}", text(frame, "func"))),
        ("iteration-state", event) => Piece::State(format!("{} {event}", content())),
        ("model-invocation-state", event) => Piece::State(format!("model {event}")),
        ("error", _) => Piece::Error(content()),
        (unknown, _) => Piece::State(format!("a frame of unknown type {unknown:?}")),
    }
}

/// What a Lingzhu event tells.
pub(super) fn lingzhu(event: &str, frame: &Value) -> Piece {
    if event == "done" {
        return Piece::End;
    }
    let finished = frame.get("is_finish").and_then(Value::as_bool).unwrap_or_default();
    match text(frame, "type") {
        "answer" => match text(frame, "answer_stream") {
            "" => Piece::Silent,
            words if finished => Piece::Stand(words.to_owned()),
            words => Piece::Answer(words.to_owned()),
        },
        "tool_call" => {
            let mut call = frame.get("tool_call").and_then(Value::as_object).cloned().unwrap_or_default();
            let command = call.shift_remove("command");
            Piece::Tool {
                name: command.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
                args: Value::Object(call).to_string(),
            }
        }
        "follow_up" => {
            let questions = frame.get("follow_up").and_then(Value::as_array).into_iter().flatten();
            Piece::FollowUp(questions.filter_map(Value::as_str).map(str::to_owned).collect())
        }
        unknown => Piece::State(format!("a frame of unknown type {unknown:?}")),
    }
}

/// The text at `key`; none is empty.
fn text<'a>(frame: &'a Value, key: &str) -> &'a str {
    frame.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask() -> Ask {
        Ask {
            session: "s1".to_owned(),
            agent: "echo".to_owned(),
            lang: Some("zh-CN".to_owned()),
            facts: vec![("projectId".to_owned(), "2231".to_owned())],
            ..Ask::default()
        }
    }

    fn went(course: &mut Course, frames: &[Piece]) -> Option<Ending> {
        frames.iter().find_map(|piece| course.note(piece))
    }

    #[test]
    fn a_mythra_input_carries_session_text_and_facts_at_the_top() {
        assert_eq!(
            mythra_input(&ask(), "hi"),
            r#"{"type":"user-input","sessionId":"s1","userInput":"hi","projectId":"2231","lang":"zh-CN"}"#
        );
    }

    #[test]
    fn a_lingzhu_body_carries_the_image_before_the_text_and_facts_as_metadata() {
        let ask = Ask { user: Some("u".to_owned()), image: Some("https://h.example/a.webp".to_owned()), ..ask() };
        assert_eq!(
            lingzhu_body(&ask, "what?"),
            concat!(
                r#"{"message_id":"s1","agent_id":"echo","message":["#,
                r#"{"role":"user","type":"image","image_url":"https://h.example/a.webp"},"#,
                r#"{"role":"user","type":"text","text":"what?"}],"user_id":"u","#,
                r#""metadata":{"projectId":"2231","lang":"zh-CN"}}"#
            )
        );
        let bare = Ask { session: "s".to_owned(), agent: "a".to_owned(), ..Ask::default() };
        assert_eq!(
            lingzhu_body(&bare, "x"),
            r#"{"message_id":"s","agent_id":"a","message":[{"role":"user","type":"text","text":"x"}]}"#
        );
    }

    #[test]
    fn every_mythra_frame_of_the_document_is_told() {
        let tell = |text: &str| mythra(&object(text).unwrap());
        assert_eq!(tell(r#"{"id":"a","type":"response-state","event":"start"}"#), Piece::Begin);
        assert_eq!(tell(r#"{"id":"a","type":"response-state","event":"end"}"#), Piece::End);
        assert_eq!(
            tell(r#"{"id":"a","type":"think-output","event":"delta","content":"想"}"#),
            Piece::Think("想".to_owned())
        );
        assert_eq!(tell(r#"{"id":"a","type":"chat-output","event":"start"}"#), Piece::Silent);
        assert_eq!(
            tell(r#"{"id":"a","type":"chat-output","event":"delta","content":"你"}"#),
            Piece::Answer("你".to_owned())
        );
        assert_eq!(tell(r#"{"id":"a","type":"chat-output","event":"end"}"#), Piece::Break);
        assert_eq!(
            tell(r#"{"id":"a","type":"tool-call","event":"start","func":"WriteFile","args":{"filePath": "/a.md"}}"#),
            Piece::Tool { name: "WriteFile".to_owned(), args: r#"{"filePath":"/a.md"}"#.to_owned() }
        );
        assert_eq!(
            tell(r#"{"id":"a","type":"iteration-state","event":"start","content":"iteration 0"}"#),
            Piece::State("iteration 0 start".to_owned())
        );
        assert_eq!(tell(r#"{"id":"a","type":"error","event":"error","content":"no"}"#), Piece::Error("no".to_owned()));
        assert!(object("[1]").is_err() && object("{'a':1}").is_err());
    }

    #[test]
    fn every_lingzhu_frame_of_the_document_is_told() {
        let tell = |event: &str, text: &str| lingzhu(event, &object(text).unwrap());
        assert_eq!(
            tell("message", r#"{"type":"answer","answer_stream":"你","is_finish":false}"#),
            Piece::Answer("你".to_owned())
        );
        assert_eq!(tell("message", r#"{"type":"answer","answer_stream":"","is_finish":true}"#), Piece::Silent);
        assert_eq!(
            tell("message", r#"{"type":"answer","answer_stream":"Sorry","is_finish":true}"#),
            Piece::Stand("Sorry".to_owned())
        );
        assert_eq!(
            tell("message", r#"{"type":"tool_call","tool_call":{"command":"take_navigation","action":"open"}}"#),
            Piece::Tool { name: "take_navigation".to_owned(), args: r#"{"action":"open"}"#.to_owned() }
        );
        assert_eq!(
            tell("message", r#"{"type":"follow_up","follow_up":["a","b"],"is_finish":true}"#),
            Piece::FollowUp(vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(tell("done", r#"{"type":"answer","answer_stream":"","is_finish":true}"#), Piece::End);
    }

    #[test]
    fn an_error_is_how_a_turn_went_only_if_it_is_the_last_thing_before_the_end() {
        let error = Piece::Error("x".to_owned());
        let answer = Piece::Answer("y".to_owned());
        let fatal = [Piece::Begin, answer.clone(), Piece::Break, error.clone(), Piece::End];
        assert_eq!(went(&mut Course::mythra(), &fatal), Some(Ending::Failed));
        let survived = [Piece::Begin, error.clone(), answer.clone(), Piece::Break, Piece::End];
        assert_eq!(went(&mut Course::mythra(), &survived), Some(Ending::Well));
        assert_eq!(went(&mut Course::mythra(), std::slice::from_ref(&error)), Some(Ending::Failed), "no turn at all");
        assert_eq!(went(&mut Course::mythra(), &[Piece::Begin, answer]), None);
        let stand = Piece::Stand("Sorry".to_owned());
        assert_eq!(went(&mut Course::lingzhu(), &[stand, Piece::End]), Some(Ending::Failed));
        assert_eq!(went(&mut Course::lingzhu(), &[Piece::Silent, Piece::End]), Some(Ending::Well));
    }
}
