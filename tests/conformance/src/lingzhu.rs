//! One case over Lingzhu: the request as the case has it, and the stream compared frame by frame, byte by byte.
//!
//! What is expected is written as in the protocol's cases: `ANS(text,finished)`, `TOOL(object)`, `FUP(array)`, `KA`,
//! `DONE`, `END`, and `SAID(text)` for unfinished answers, cut anyhow, that are this text together. Texts are those that stand in the JSON, escapes and all. Neighbouring answers may arrive joined,
//! unless the case says `apart`; a comment that is not expected is passed over, because a busy machine may be silent.

use std::{collections::VecDeque, time::Duration};

use serde_json::{Value, json};

use crate::{
    case::Case,
    http::{self, Answer, Request},
    notation::{Bound, Pattern, Words, expand, fresh_id},
    run::Target,
};

/// The `agent_id` of a body that no case writes.
const AGENT_ID: &str = "agent-1";

/// The headers of every stream.
const STREAM_HEADERS: [&str; 4] =
    ["content-type: text/event-stream", "cache-control: no-cache", "x-accel-buffering: no", "content-encoding:"];

/// The ids that an answer carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// `message_id`.
    pub message: String,
    /// `agent_id`.
    pub agent: String,
}

/// A frame as it is expected, or as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A comment.
    KeepAlive,
    /// An `answer`: its text as it stands in the JSON, and whether it is finished.
    Answer(String, bool),
    /// A `tool_call`: the object.
    Tool(String),
    /// A `follow_up`: the array.
    FollowUp(String),
    /// The event `done`.
    Done,
    /// Expected only: a text that comes in unfinished answers, cut anyhow.
    Said(String),
    /// Bytes that are none of these.
    Other(String),
}

impl Frame {
    /// The exact bytes of the frame, without the blank line behind it.
    fn bytes(&self, ids: &Ids) -> String {
        let (m, g) = (Value::from(ids.message.as_str()), Value::from(ids.agent.as_str()));
        let data = |event: &str, kind: &str, middle: &str, finish: bool| {
            format!(
                "event: {event}\ndata: {{\"role\":\"agent\",\"type\":\"{kind}\",{middle},\"message_id\":{m},\
                 \"agent_id\":{g},\"is_finish\":{finish}}}"
            )
        };
        match self {
            Self::KeepAlive => ": keepalive".to_owned(),
            Self::Answer(text, finish) => data("message", "answer", &format!("\"answer_stream\":\"{text}\""), *finish),
            Self::Tool(object) => data("message", "tool_call", &format!("\"tool_call\":{object}"), false),
            Self::FollowUp(array) => data("message", "follow_up", &format!("\"follow_up\":{array}"), true),
            Self::Done => data("done", "answer", "\"answer_stream\":\"\"", true),
            Self::Said(text) | Self::Other(text) => text.clone(),
        }
    }

    /// The frame of these bytes, if it is exactly one.
    fn of(bytes: &str, ids: &Ids) -> Self {
        const MARK: &str = "\u{1}";
        let between = |frame: &Self| {
            let whole = frame.bytes(ids);
            let (head, tail) = whole.split_once(MARK)?;
            Some(bytes.strip_prefix(head)?.strip_suffix(tail)?.to_owned())
        };
        let mark = || MARK.to_owned();
        if bytes == Self::KeepAlive.bytes(ids) {
            Self::KeepAlive
        } else if bytes == Self::Done.bytes(ids) {
            Self::Done
        } else if let Some(text) = between(&Self::Answer(mark(), false)) {
            Self::Answer(text, false)
        } else if let Some(text) = between(&Self::Answer(mark(), true)) {
            Self::Answer(text, true)
        } else if let Some(object) = between(&Self::Tool(mark())) {
            Self::Tool(object)
        } else if let Some(array) = between(&Self::FollowUp(mark())) {
            Self::FollowUp(array)
        } else {
            Self::Other(bytes.to_owned())
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::KeepAlive => "KA".to_owned(),
            Self::Answer(text, finish) => format!("ANS({text},{finish})"),
            Self::Tool(object) => format!("TOOL({object})"),
            Self::FollowUp(array) => format!("FUP({array})"),
            Self::Done => "DONE".to_owned(),
            Self::Said(text) => format!("SAID({text})"),
            Self::Other(bytes) => bytes.clone(),
        }
    }

    fn fits(&self, actual: &Self, bound: &mut Bound) -> bool {
        match (self, actual) {
            (Self::Answer(pattern, wanted), Self::Answer(text, finish)) => {
                wanted == finish && Pattern::new(pattern).matches(text, bound)
            }
            (Self::Tool(pattern), Self::Tool(text)) | (Self::FollowUp(pattern), Self::FollowUp(text)) => {
                Pattern::new(pattern).matches(text, bound)
            }
            _ => self == actual,
        }
    }
}

/// Reads what is expected.
pub fn expected(text: &str) -> Result<Vec<Frame>, String> {
    let mut frames = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (taken, after) = if let Some(after) = rest.strip_prefix("ANS(") {
            let ends = [(after.find(",true)"), true), (after.find(",false)"), false)];
            let first = ends.into_iter().filter_map(|(at, finish)| at.map(|at| (at, finish))).min();
            let (at, finish) = first.ok_or_else(|| format!("ANS( has no end: {rest}"))?;
            let (text, after) = after.split_at_checked(at).unwrap_or_default();
            let length = if finish { ",true)".len() } else { ",false)".len() };
            (vec![Frame::Answer(text.to_owned(), finish)], after.split_at_checked(length).unwrap_or_default().1)
        } else if let Some((object, after)) = rest.strip_prefix("TOOL(").and_then(|rest| rest.split_once("})")) {
            (vec![Frame::Tool(format!("{object}}}"))], after)
        } else if let Some((array, after)) = rest.strip_prefix("FUP(").and_then(|rest| rest.split_once("])")) {
            (vec![Frame::FollowUp(format!("{array}]"))], after)
        } else if let Some((text, after)) = rest.strip_prefix("SAID(").and_then(|rest| rest.split_once(')')) {
            (vec![Frame::Said(text.to_owned())], after)
        } else if let Some(after) = rest.strip_prefix("DONE") {
            (vec![Frame::Done], after)
        } else if let Some(after) = rest.strip_prefix("END") {
            (vec![Frame::Answer(String::new(), true), Frame::Done], after)
        } else if let Some(after) = rest.strip_prefix("KA") {
            (vec![Frame::KeepAlive], after)
        } else {
            return Err(format!("not a frame: {rest}"));
        };
        frames.extend(taken);
        rest = after.trim_start();
    }
    Ok(frames)
}

/// The frames of a stream.
pub fn frames(bytes: &[u8], ids: &Ids) -> Result<Vec<Frame>, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| format!("the stream is not UTF-8: {error}"))?;
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let whole = text.strip_suffix("\n\n").ok_or_else(|| format!("the stream ends within a frame:\n{text}"))?;
    Ok(whole.split("\n\n").map(|block| Frame::of(block, ids)).collect())
}

/// Whether these frames are what is expected; the error shows both.
pub fn compare(expected: &[Frame], actual: &[Frame], apart: bool) -> Result<(), String> {
    let mut bound = Bound::default();
    let mut wanted: VecDeque<Frame> = expected.iter().cloned().collect();
    for (good, frame) in actual.iter().enumerate() {
        let comment = *frame == Frame::KeepAlive && wanted.front() != Some(frame);
        let fits = comment || taken(&mut wanted, frame, &mut bound) || (!apart && joined(&mut wanted, frame));
        if !fits {
            return Err(difference(expected, actual, good));
        }
    }
    if wanted.is_empty() { Ok(()) } else { Err(difference(expected, actual, actual.len())) }
}

/// Takes what `frame` is, or is a part of, from the front of what is wanted.
fn taken(wanted: &mut VecDeque<Frame>, frame: &Frame, bound: &mut Bound) -> bool {
    let Some(next) = wanted.pop_front() else { return false };
    let fits = match (&next, frame) {
        (Frame::Said(text), Frame::Answer(piece, false)) => match text.strip_prefix(piece.as_str()) {
            Some("") => true,
            Some(rest) if !piece.is_empty() => {
                wanted.push_front(Frame::Said(rest.to_owned()));
                return true;
            }
            _ => false,
        },
        _ => next.fits(frame, bound),
    };
    if !fits {
        wanted.push_front(next);
    }
    fits
}

/// Takes the next answers that `frame` holds all of, if there are any.
fn joined(wanted: &mut VecDeque<Frame>, frame: &Frame) -> bool {
    let Frame::Answer(text, false) = frame else { return false };
    let (mut rest, mut count) = (text.as_str(), 0);
    while !rest.is_empty() {
        let Some(Frame::Answer(text, false)) = wanted.get(count) else { return false };
        let Some(after) = rest.strip_prefix(text.as_str()) else { return false };
        (rest, count) = (after, count + 1);
    }
    wanted.drain(..count);
    count > 0
}

fn difference(expected: &[Frame], actual: &[Frame], good: usize) -> String {
    const SHOWN_MAX: usize = 300;
    let short = |frame: &Frame| {
        let text = frame.shown();
        match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("{}… ({} bytes)", text.split_at(end).0, text.len()),
            None => text,
        }
    };
    let mut lines: Vec<_> = expected.iter().map(|frame| format!("  expected  {}", short(frame))).collect();
    for (index, frame) in actual.iter().enumerate() {
        let mark = if index == good { "✗" } else { " " };
        lines.push(format!("{mark} got       {}", short(frame)));
    }
    if good >= actual.len() {
        lines.push("✗ got       the end of the stream".to_owned());
    }
    lines.join("\n")
}

/// Runs one case.
pub async fn run(case: &Case, target: &Target) -> Result<(), String> {
    let fresh = fresh_id();
    let words = Words { agent: &case.agent, key: target.key.as_deref().unwrap_or_default(), id: &fresh };
    for body in &case.before {
        let (answer, _) = exchange(case, target, &expand(body, words), words).await?;
        if answer.status != 200 {
            return Err(format!("what goes before was answered with {}: {}", answer.status, text(&answer)));
        }
    }
    let body = match (&case.body, &case.say) {
        (Some(body), _) => expand(body, words),
        (None, said) => said_body(case, said.as_deref().unwrap_or("你好"), words),
    };
    let (answer, ids) = exchange(case, target, &body, words).await?;
    if let Some(status) = case.status {
        return check_plain(case, status, &answer, words);
    }
    if answer.status != 200 {
        return Err(format!("expected a stream, got {}: {}", answer.status, text(&answer)));
    }
    http::check_headers(&answer.headers, &STREAM_HEADERS.map(str::to_owned))?;
    http::check_headers(&answer.headers, &case.answer_headers)?;
    let out = expand(case.out.as_deref().unwrap_or_default(), words);
    compare(&expected(&out)?, &frames(&answer.body, &ids)?, case.apart)?;
    check_times(case, &answer, target.patience)
}

async fn exchange(case: &Case, target: &Target, body: &str, words: Words<'_>) -> Result<(Answer, Ids), String> {
    let mut headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    if let Some(key) = &target.key {
        headers.push(("authorization".to_owned(), format!("Bearer {key}")));
    }
    headers.extend(case.headers()?.into_iter().map(|(name, value)| (name, expand(&value, words))));
    let method = case.method.clone().unwrap_or_else(|| "POST".to_owned());
    let body = (method != "GET").then(|| body.to_owned());
    let ids = ids(case, body.as_deref().unwrap_or_default(), words);
    let url = format!("{}{}", target.lingzhu(&case.agent)?, expand(&case.path, words));
    let answer = http::send(Request { method, url, headers, body: body.map(Into::into) }, target.limit()).await?;
    if answer.status == 200 {
        target.rules.lingzhu(&case.number, &answer.body);
    }
    Ok((answer, ids))
}

fn said_body(case: &Case, said: &str, words: Words<'_>) -> String {
    let message = json!([{ "role": "user", "type": "text", "text": expand(said, words) }]);
    let metadata = case.metadata.as_ref().map(|text| format!(",\"metadata\":{}", expand(text, words)));
    format!(
        r#"{{"message_id":"{}","agent_id":"{AGENT_ID}","message":{message}{}}}"#,
        words.id,
        metadata.unwrap_or_default()
    )
}

/// The ids that the answer to `body` must carry.
fn ids(case: &Case, body: &str, words: Words<'_>) -> Ids {
    let body: Value = serde_json::from_str(body.trim_start_matches('\u{feff}')).unwrap_or_default();
    let id = |own: &Option<String>, key: &str| match (own, body.get(key)) {
        (Some(own), _) => expand(own, words),
        (None, Some(Value::String(text))) => text.clone(),
        (None, Some(Value::Number(number))) => number.to_string(),
        (None, _) => words.agent.to_owned(),
    };
    Ids { message: id(&case.m, "message_id"), agent: id(&case.g, "agent_id") }
}

fn check_plain(case: &Case, status: u16, answer: &Answer, words: Words<'_>) -> Result<(), String> {
    http::check_plain(answer, status, case.answer.as_ref().map(|text| expand(text, words)).as_deref())?;
    http::check_headers(&answer.headers, &case.answer_headers)
}

fn check_times(case: &Case, answer: &Answer, patience: Duration) -> Result<(), String> {
    let first = answer.pieces.first().map_or(answer.ended_at, |(at, _)| *at);
    if let Some(silent) = case.silent_for.map(Duration::from_millis).filter(|silent| first < *silent) {
        return Err(format!("a byte came after {first:?}, before {silent:?}"));
    }
    let bounds = [
        ("the head", case.head_within, answer.head_at),
        ("the first byte", case.bytes_within, first),
        ("the end", case.ends_within, answer.ended_at),
    ];
    for (what, bound, at) in bounds {
        if let Some(bound) = bound.map(Duration::from_millis).filter(|bound| at > *bound + patience) {
            return Err(format!("{what} came after {at:?}, later than {bound:?}"));
        }
    }
    Ok(())
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> Ids {
        Ids { message: "m".to_owned(), agent: "g".to_owned() }
    }

    fn answer(text: &str, finish: bool) -> Frame {
        Frame::Answer(text.to_owned(), finish)
    }

    #[test]
    fn the_notation_is_read() {
        let frames = expected("ANS(a,b,false) TOOL({\"x\":{}})\nFUP([\"a\"]) KA END").unwrap();
        let tool = Frame::Tool("{\"x\":{}}".to_owned());
        let follow_up = Frame::FollowUp("[\"a\"]".to_owned());
        assert_eq!(frames, [answer("a,b", false), tool, follow_up, Frame::KeepAlive, answer("", true), Frame::Done]);
        assert!(expected("ANS(a").is_err());
        assert!(expected("AND").is_err());
    }

    #[test]
    fn frames_are_known_by_their_exact_bytes() {
        let good = "event: message\ndata: {\"role\":\"agent\",\"type\":\"answer\",\"answer_stream\":\"x\",\"message_id\":\"m\",\
                    \"agent_id\":\"g\",\"is_finish\":false}";
        assert_eq!(Frame::of(good, &ids()), answer("x", false));
        let spaced = good.replace("\":\"x", "\": \"x");
        assert_eq!(Frame::of(&spaced, &ids()), Frame::Other(spaced.clone()));
        assert!(frames(good.as_bytes(), &ids()).is_err(), "no blank line");
        assert_eq!(frames(format!("{good}\n\n: keepalive\n\n").as_bytes(), &ids()).unwrap().len(), 2);
    }

    #[test]
    fn answers_may_come_joined_but_not_cut_and_not_in_another_order() {
        let wanted = expected("ANS(a,false) ANS(b,false) ANS(c,false) END").unwrap();
        let compare = |text: &str, apart| compare(&wanted, &expected(text).unwrap(), apart);
        assert_eq!(compare("ANS(a,false) KA ANS(bc,false) END", false), Ok(()));
        assert!(compare("ANS(abc,false) END", false).is_ok());
        assert!(compare("ANS(abc,false) END", true).is_err());
        assert!(compare("ANS(a,false) ANS(c,false) ANS(b,false) END", false).is_err());
        assert!(compare("ANS(ab,false) END", false).is_err());
        assert!(compare("ANS(abcd,false) END", false).is_err());
        assert!(compare("ANS(abc,false)", false).unwrap_err().contains("✗ got       the end of the stream"));
    }

    #[test]
    fn what_is_said_may_be_cut_anyhow() {
        let wanted = expected("SAID(a b) END").unwrap();
        assert_eq!(compare(&wanted, &expected("ANS(a,false) ANS( b,false) END").unwrap(), false), Ok(()));
        assert_eq!(compare(&wanted, &expected("ANS(a b,false) END").unwrap(), false), Ok(()));
        assert!(compare(&wanted, &expected("ANS(a,false) END").unwrap(), false).is_err());
        assert!(compare(&wanted, &expected("ANS(a bc,false) END").unwrap(), false).is_err());
    }

    #[test]
    fn a_comment_that_is_expected_must_come() {
        let wanted = expected("KA ANS(a,false)").unwrap();
        assert!(compare(&wanted, &expected("ANS(a,false)").unwrap(), false).is_err());
        assert!(compare(&wanted, &expected("KA ANS(a,false)").unwrap(), false).is_ok());
    }
}
