//! What a client hears of one turn, frame by frame: counted, checked to be well-formed, and not kept. Pure: nothing here
//! reads or waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;

/// The most text that is kept of an answer: enough for every number and every reason.
const TEXT_KEPT: usize = 4 * 1024;

/// One turn as its client heard it.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The beginning of the answer's text.
    pub(super) text: String,
    /// The bytes of all of it.
    pub(super) text_bytes: u64,
    /// How many frames of each type came that stand for an event of the agent: its starts and its deltas, and both ends of
    /// a model's work.
    pub(super) frames: BTreeMap<String, u64>,
    /// The last error that was shown.
    pub(super) error: String,
    /// Whether the turn failed, as its client is told.
    pub(super) failed: bool,
    /// Whether the end came.
    pub(super) ended: bool,
    /// What is wrong with the stream, if anything is.
    pub(super) malformed: Option<String>,
    /// How long it took.
    pub(super) took: Duration,
    /// Whether the client left because it had heard enough.
    pub(super) left: bool,
}

/// How much a client listens to before it leaves: nobody needs more to know that there is no bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Bytes of text.
    pub(super) text: u64,
    /// Frames.
    pub(super) frames: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { text: 80 * 1024 * 1024, frames: 1_200_000 }
    }
}

impl Heard {
    /// How many frames of a type came.
    pub(super) fn count(&self, kind: &str) -> u64 {
        self.frames.get(kind).copied().unwrap_or_default()
    }

    /// Whether more came than a client needs to hear.
    pub(super) fn is_enough(&self, patience: Patience) -> bool {
        self.text_bytes > patience.text || self.frames.values().sum::<u64>() > patience.frames
    }

    /// The number that the guest showed first.
    pub(super) fn number(&self) -> Option<u64> {
        let digits: String = self.text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    }

    fn wrong(&mut self, what: String) {
        self.malformed.get_or_insert(what);
    }

    fn say(&mut self, text: &str) {
        self.text_bytes += text.len() as u64;
        let room = TEXT_KEPT.saturating_sub(self.text.len());
        self.text.push_str(crate::text::head(text, room));
    }

    fn note(&mut self, kind: &str) {
        match self.frames.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.frames.insert(kind.to_owned(), 1)),
        }
    }
}

/// Checks a Lingzhu stream: only `message` and then `done`, and just one finished message, the last.
#[derive(Debug, Default)]
pub(super) struct Lingzhu {
    /// What was heard.
    pub(super) heard: Heard,
    finished: bool,
}

impl Lingzhu {
    /// Takes the next event.
    pub(super) fn event(&mut self, name: &str, data: &str) {
        let Ok(frame) = serde_json::from_str::<Value>(data) else {
            return self.heard.wrong(format!("an event is no JSON: {}", shown(data)));
        };
        let is_finish = frame.get("is_finish").and_then(Value::as_bool);
        let text = frame.get("answer_stream").and_then(Value::as_str).unwrap_or_default();
        if self.heard.ended {
            self.heard.wrong(format!("an event comes after `done`: {}", shown(data)));
        }
        match (name, is_finish) {
            ("message", Some(false)) if self.finished => {
                self.heard.wrong("a message follows the finished one".to_owned());
            }
            ("message", Some(false)) => {
                let kind = frame.get("type").and_then(Value::as_str).unwrap_or_default();
                self.heard.note(kind);
                self.heard.say(text);
            }
            ("message", Some(true)) if self.finished => self.heard.wrong("there are two finished messages".to_owned()),
            ("message", Some(true)) => {
                self.finished = true;
                // Only the host itself says something in the last message: that the agent failed.
                self.heard.failed = !text.is_empty();
                text.clone_into(&mut self.heard.error);
            }
            ("done", Some(true)) if self.finished => self.heard.ended = true,
            ("done", _) => self.heard.wrong("`done` comes before a finished message".to_owned()),
            _ => self.heard.wrong(format!("an event of an unknown kind: {}", shown(name))),
        }
    }

    /// The stream is over; this is left of an event that was cut off.
    pub(super) fn end(mut self, rest: &str) -> Heard {
        if !rest.trim().is_empty() {
            self.heard.wrong("the stream ends in the middle of an event".to_owned());
        } else if !self.heard.ended && !self.heard.left {
            self.heard.wrong("the stream ends without `done`".to_owned());
        }
        self.heard
    }
}

/// Checks a Mythra turn: `response-state` first and last, and each pair closed once.
#[derive(Debug, Default)]
pub(super) struct Mythra {
    /// What was heard.
    pub(super) heard: Heard,
    response: Option<String>,
    open: BTreeMap<String, String>,
    closed: BTreeSet<String>,
}

/// How many ids of closed pairs are remembered, to know a second end.
const CLOSED_KEPT: usize = 10_000;

impl Mythra {
    /// Takes the next message.
    pub(super) fn message(&mut self, text: &str) {
        let Ok(frame) = serde_json::from_str::<Value>(text) else {
            return self.heard.wrong(format!("a message is no JSON: {}", shown(text)));
        };
        let field = |key: &str| frame.get(key).and_then(Value::as_str).unwrap_or_default();
        let (id, kind, event) = (field("id"), field("type"), field("event"));
        if self.heard.ended {
            self.heard.wrong("a message comes after the turn's end".to_owned());
        }
        match (kind, event) {
            ("response-state", "start") if self.response.is_none() => self.response = Some(id.to_owned()),
            ("response-state", "end") if self.response.as_deref() == Some(id) => self.finish(),
            ("error", "error") => {
                self.heard.failed = true;
                field("content").clone_into(&mut self.heard.error);
                return;
            }
            _ if self.response.is_none() => self.heard.wrong(format!("the turn begins with {}", shown(text))),
            ("response-state", _) => self.heard.wrong(format!("a second start: {}", shown(text))),
            (_, "start") => self.start(id, kind),
            (_, "delta") if self.open.get(id).is_some_and(|open| open == kind) => {
                self.heard.note(kind);
                if kind == "chat-output" {
                    self.heard.say(field("content"));
                }
            }
            (_, "end") => self.close(id, kind),
            _ => self.heard.wrong(format!("a message that belongs to no pair: {}", shown(text))),
        }
        if kind != "response-state" {
            // An agent may show an error and go on.
            self.heard.failed = false;
        }
    }

    fn start(&mut self, id: &str, kind: &str) {
        if self.open.insert(id.to_owned(), kind.to_owned()).is_some() {
            self.heard.wrong(format!("a {kind} begins twice"));
        }
        if !matches!(kind, "chat-output" | "think-output") {
            self.heard.note(kind);
        }
    }

    fn close(&mut self, id: &str, kind: &str) {
        if self.open.remove(id).is_none_or(|open| open != kind) {
            let again = if self.closed.contains(id) { "twice" } else { "without a start" };
            return self.heard.wrong(format!("a {kind} ends {again}"));
        }
        if self.closed.len() >= CLOSED_KEPT {
            self.closed.pop_first();
        }
        self.closed.insert(id.to_owned());
        if kind == "model-invocation-state" {
            self.heard.note(kind);
        }
    }

    fn finish(&mut self) {
        if let Some(kind) = self.open.values().next() {
            let wrong = format!("the turn ends while a {kind} is open");
            self.heard.wrong(wrong);
        }
        self.heard.ended = true;
    }

    /// Nothing more comes.
    pub(super) fn end(mut self) -> Heard {
        // An input that is refused gets an error and no turn.
        let refused = self.response.is_none() && self.heard.failed;
        if !self.heard.ended && !self.heard.left && !refused {
            self.heard.wrong("the turn has no end".to_owned());
        }
        self.heard
    }
}

/// The beginning of what somebody sent, safe to show.
fn shown(text: &str) -> String {
    crate::text::visible(crate::text::head(text, 200))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lingzhu(events: &[(&str, &str)], rest: &str) -> Heard {
        let mut check = Lingzhu::default();
        for (name, data) in events {
            check.event(name, data);
        }
        check.end(rest)
    }

    fn mythra(messages: &[&str]) -> Heard {
        let mut check = Mythra::default();
        for message in messages {
            check.message(message);
        }
        check.end()
    }

    const SAID: (&str, &str) = ("message", r#"{"type":"answer","answer_stream":"12 x","is_finish":false}"#);
    const LAST: (&str, &str) = ("message", r#"{"type":"answer","answer_stream":"","is_finish":true}"#);
    const SORRY: (&str, &str) = ("message", r#"{"type":"answer","answer_stream":"sorry","is_finish":true}"#);
    const DONE: (&str, &str) = ("done", r#"{"type":"answer","is_finish":true}"#);

    #[test]
    fn a_lingzhu_stream_has_one_finished_message_and_then_done() {
        let well = lingzhu(&[SAID, LAST, DONE], "");
        assert_eq!((well.malformed, well.failed, well.text_bytes), (None, false, 4));
        assert!(lingzhu(&[SAID, SORRY, DONE], "").failed);
        for (events, rest) in [
            (&[SAID, DONE][..], ""),
            (&[SAID, LAST], ""),
            (&[SAID, LAST, LAST, DONE], ""),
            (&[LAST, SAID, DONE], ""),
            (&[LAST, DONE, SAID], ""),
            (&[("message", "{"), LAST, DONE], ""),
            (&[("other", r#"{"is_finish":false}"#), LAST, DONE], ""),
            (&[SAID, LAST, DONE], "data: {"),
            (&[], ""),
        ] {
            assert!(lingzhu(events, rest).malformed.is_some(), "{events:?}");
        }
    }

    #[test]
    fn a_mythra_turn_begins_and_ends_with_its_state_and_closes_what_it_opens() {
        let begin = r#"{"id":"r","type":"response-state","event":"start"}"#;
        let end = r#"{"id":"r","type":"response-state","event":"end"}"#;
        let open = r#"{"id":"c","type":"chat-output","event":"start"}"#;
        let said = r#"{"id":"c","type":"chat-output","event":"delta","content":"7"}"#;
        let close = r#"{"id":"c","type":"chat-output","event":"end"}"#;
        let error = r#"{"id":"e","type":"error","event":"error","content":"events: no more"}"#;
        let well = mythra(&[begin, open, said, error, close, end]);
        assert_eq!((&well.malformed, well.failed, well.number()), (&None, false, Some(7)));
        assert_eq!(well.count("chat-output"), 1);
        let failed = mythra(&[begin, open, said, close, error, end]);
        assert_eq!((&failed.malformed, failed.failed, failed.error.as_str()), (&None, true, "events: no more"));
        let refused = mythra(&[error]);
        assert_eq!((refused.malformed, refused.failed), (None, true));
        for messages in [
            &[begin, open, said, end][..],
            &[begin, said, end],
            &[begin, open, close, close, end],
            &[begin, open, close],
            &[open, close, end],
            &[begin, begin, end],
            &[begin, end, error],
            &["x"],
            &[],
        ] {
            assert!(mythra(messages).malformed.is_some(), "{messages:?}");
        }
    }

    #[test]
    fn a_client_that_has_heard_enough_says_so_and_keeps_little() {
        let mut check = Lingzhu::default();
        let long = format!(r#"{{"type":"answer","answer_stream":"{}","is_finish":false}}"#, "x".repeat(10_000));
        for _ in 0..3 {
            check.event("message", &long);
        }
        assert!(check.heard.is_enough(Patience { text: 20_000, frames: 100 }));
        assert!(check.heard.is_enough(Patience { text: 90_000, frames: 2 }));
        assert!(!check.heard.is_enough(Patience::default()));
        assert_eq!((check.heard.text.len(), check.heard.text_bytes), (TEXT_KEPT, 30_000));
    }
}
