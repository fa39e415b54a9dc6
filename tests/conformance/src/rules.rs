//! What holds for every stream of a run, whatever its case: broken rules are gathered here, under the number of the
//! case that is the rule.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::{Map, Value};

use crate::notation::{inner_word, is_id};

/// No `[DONE]` in any form.
pub const NO_DONE_MARK: &str = "L59";
/// Every `data:` line is a whole object, and just the last `message` is finished.
pub const ONE_END: &str = "L60";
/// Every frame is one strict JSON object with its keys in order.
pub const STRICT: &str = "M8";
/// Every start has its end before the response's.
pub const PAIRS: &str = "M17";
/// Ids fit their pattern and none is used for two pairs.
pub const IDS: &str = "M50";

/// The rules, with what broke them and which ids were seen.
#[derive(Debug, Default)]
pub struct Rules {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    broken: Vec<(&'static str, String)>,
    ids: HashSet<String>,
    streams: usize,
}

impl Rules {
    /// How `rule` was broken, if it was.
    pub fn broken(&self, rule: &str) -> Vec<String> {
        let state = self.lock();
        state.broken.iter().filter(|(broken, _)| *broken == rule).map(|(_, how)| how.clone()).collect()
    }

    /// How many streams were looked at.
    pub fn streams(&self) -> usize {
        self.lock().streams
    }

    /// Looks at a whole stream of Lingzhu.
    pub fn lingzhu(&self, case: &str, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut state = self.lock();
        state.streams += 1;
        if text.contains("[DONE]") {
            state.broken.push((NO_DONE_MARK, format!("{case}: {text}")));
        }
        if let Err(why) = one_end(&text) {
            state.broken.push((ONE_END, format!("{case}: {why}")));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn one_end(text: &str) -> Result<(), String> {
    let mut event = "";
    let mut events = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("event: ") {
            event = name;
        } else if let Some(data) = line.strip_prefix("data: ") {
            let data: Map<String, Value> = serde_json::from_str(data).map_err(|error| format!("{error}: {data}"))?;
            let text = |key: &str| data.get(key).is_some_and(Value::is_string);
            let finished = data.get("is_finish").and_then(Value::as_bool);
            let (true, Some(finished)) = (["role", "type", "message_id", "agent_id"].into_iter().all(text), finished)
            else {
                return Err(format!("a field is missing: {line}"));
            };
            events.push((event, finished));
        } else if !line.is_empty() && !line.starts_with(':') {
            return Err(format!("not a line of an event stream that we send: {line:?}"));
        }
    }
    let done = events.pop();
    let last = events.pop();
    let rest = events.iter().all(|event| *event == ("message", false));
    if (last, done, rest) == (Some(("message", true)), Some(("done", true)), true) {
        Ok(())
    } else {
        Err(format!("just the last `message` must be finished, and `done` must follow it:\n{text}"))
    }
}

/// One connection of Mythra, as far as it has been looked at.
#[derive(Debug, Default)]
pub struct Sheet {
    /// Ids and types of what is open, outermost first.
    open: Vec<(String, String)>,
}

impl Sheet {
    /// Looks at the next text frame.
    pub fn frame(&mut self, text: &str, case: &str, rules: &Rules) {
        let mut state = rules.lock();
        state.streams += usize::from(self.open.is_empty());
        if let Err((rule, why)) = self.check(text, &mut state.ids) {
            state.broken.push((rule, format!("{case}: {why}: {text}")));
        }
    }

    fn check(&mut self, text: &str, ids: &mut HashSet<String>) -> Result<(), (&'static str, String)> {
        let strict = |why: &str| (STRICT, why.to_owned());
        let frame: Map<String, Value> = serde_json::from_str(text).map_err(|error| (STRICT, error.to_string()))?;
        if text.contains('\n') || frame.values().any(Value::is_null) {
            return Err(strict("a newline or a null"));
        }
        let field = |key: &str| frame.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (id, kind, event) = (field("id"), field("type"), field("event"));
        let keys: Vec<_> = frame.keys().map(String::as_str).collect();
        let more: &[&str] = match (kind.as_str(), event.as_str()) {
            ("tool-call", "start" | "end") => &["func", "args"],
            ("iteration-state", "start" | "end") | ("think-output" | "chat-output", "delta") | ("error", "error") => {
                &["content"]
            }
            ("response-state" | "model-invocation-state" | "think-output" | "chat-output", "start" | "end") => &[],
            _ => return Err(strict("no such type and event")),
        };
        if keys != [["id", "type", "event"].as_slice(), more].concat() {
            return Err(strict("other keys, or another order"));
        }
        let content = frame.get("content").is_none_or(|content| content.as_str().is_some_and(|text| !text.is_empty()));
        if !content || frame.get("args").is_some_and(|args| !args.is_object()) {
            return Err(strict("a field of a wrong type, or empty"));
        }
        if !is_id(&id) {
            return Err((IDS, "not an id".to_owned()));
        }
        self.order(&id, &kind, &event, ids).map_err(|(rule, why)| (rule, why.to_owned()))?;
        match inner_word(&field("content")) {
            Some(word) if kind == "error" => Err((STRICT, format!("an error tells of {word:?}"))),
            _ => Ok(()),
        }
    }

    fn order(
        &mut self,
        id: &str,
        kind: &str,
        event: &str,
        ids: &mut HashSet<String>,
    ) -> Result<(), (&'static str, &'static str)> {
        let at = self.open.iter().position(|(open, open_kind)| open == id && open_kind == kind);
        match event {
            "start" => {
                if self.open.is_empty() != (kind == "response-state") {
                    return Err((PAIRS, "a response starts within another, or something outside of one"));
                }
                self.open.push((id.to_owned(), kind.to_owned()));
                if ids.insert(id.to_owned()) { Ok(()) } else { Err((IDS, "an id for a second pair")) }
            }
            "delta" => at.map(drop).ok_or((PAIRS, "a delta of nothing that is open")),
            "end" => {
                let at = at.ok_or((PAIRS, "an end of nothing that is open"))?;
                self.open.remove(at);
                let left = kind == "response-state" && !self.open.is_empty();
                if left { Err((PAIRS, "the response ends and something is open")) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "aaaaaaaaaaa";

    fn mythra(frames: &[&str]) -> Vec<&'static str> {
        let (rules, mut sheet) = (Rules::default(), Sheet::default());
        for frame in frames {
            sheet.frame(&frame.replace("ID", ID).replace("OTHER", "bbbbbbbbbbb"), "M0", &rules);
        }
        let state = rules.lock();
        state.broken.iter().map(|(rule, _)| *rule).collect()
    }

    #[test]
    fn a_good_response_breaks_nothing() {
        let start = r#"{"id":"ID","type":"response-state","event":"start"}"#;
        let end = r#"{"id":"ID","type":"response-state","event":"end"}"#;
        let chat = [
            r#"{"id":"OTHER","type":"chat-output","event":"start"}"#,
            r#"{"id":"OTHER","type":"chat-output","event":"delta","content":"x"}"#,
            r#"{"id":"OTHER","type":"chat-output","event":"end"}"#,
        ];
        assert!(mythra(&[start, chat[0], chat[1], chat[2], end]).is_empty());
        assert_eq!(mythra(&[start, chat[0], end]), [PAIRS]);
        assert_eq!(mythra(&[chat[0]]), [PAIRS]);
        assert_eq!(mythra(&[start, chat[1]]), [PAIRS]);
        assert_eq!(mythra(&[start, end, start]), [IDS]);
    }

    #[test]
    fn frames_are_strict() {
        for frame in [
            r#"{"id":"ID","type":"response-state","event":"start",}"#,
            r#"{"id":"ID","type":"response-state","event":"start","content":null}"#,
            r#"{"type":"response-state","id":"ID","event":"start"}"#,
            r#"{"id":"ID","type":"error","event":"error","content":""}"#,
            r#"{"id":"ID","type":"error","event":"error","content":"wasm trap"}"#,
            r#"{"id":"ID","type":"pong","event":"start"}"#,
        ] {
            assert_eq!(mythra(&[frame]), [STRICT], "{frame}");
        }
    }

    #[test]
    fn just_the_last_message_is_finished() {
        let data = |event: &str, finish: bool| {
            format!(
                "event: {event}\ndata: {{\"role\":\"agent\",\"type\":\"answer\",\"message_id\":\"m\",\"agent_id\":\"g\",\
                 \"is_finish\":{finish}}}\n\n"
            )
        };
        let stream = |frames: &[(&str, bool)]| -> String { frames.iter().map(|(event, f)| data(event, *f)).collect() };
        assert_eq!(one_end(&stream(&[("message", false), ("message", true), ("done", true)])), Ok(()));
        assert!(one_end(&stream(&[("message", true), ("message", true), ("done", true)])).is_err());
        assert!(one_end(&stream(&[("message", false), ("done", true)])).is_err());
        assert!(one_end(&stream(&[("message", true)])).is_err());
        assert!(one_end("data: [DONE]\n\n").is_err());
        let rules = Rules::default();
        rules.lingzhu("L0", b"data: [DONE]\n\n");
        assert_eq!((rules.broken(NO_DONE_MARK).len(), rules.broken(ONE_END).len(), rules.streams()), (1, 1, 1));
    }
}
