//! The talk of a Mythra case, line by line.
//!
//! What is said: `> TEXT` is a text frame, and `>| TEXT` adds a line to it; `>say TEXT` is a `user-input` of that text
//! (`>|` adds lines here too); `>binary TEXT`, `>hex BYTES` (a binary frame), `>fragments TEXT`, `>ping WORD`,
//! `>raw BYTES` (onto the wire as they are), `>close CODE`.
//!
//! What is heard: `< FRAME` is the next text frame, as JSON or in short (below); `<~ FRAME` one that may come anywhere
//! among the next ones; `<pong WORD`; `<open`: nothing more came, and the connection is fine; `<close CODE [REASON]`: the
//! close frame and the end; `<close CODE [REASON] after MS`: not before that time since something was said;
//! `<refused CODE`: the close frame, or a cut connection.
//!
//! Frames in short: `R+` and `R-` are the response's start and end; `chat+ #c`, `chat #c "text"`, `chat- #c`, likewise
//! `think`, `model`, `iteration+ #i "label"`, `tool+ #t "Name" {…}`, `error #e "text"`; `CHAT "a" "b"` is a whole chat
//! stream of these deltas.

use std::time::Duration;

use serde_json::json;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Something to send.
    Say(Say),
    /// Something to hear.
    Hear(Hear),
}

/// Something to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    /// A text frame.
    Text(String),
    /// A `user-input`.
    Input(String),
    /// A binary frame.
    Binary(Vec<u8>),
    /// A text in three frames.
    Fragments(String),
    /// A ping.
    Ping(String),
    /// Bytes.
    Raw(Vec<u8>),
    /// A close frame.
    Close(u16),
}

/// Something to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hear {
    /// The next text frame.
    Frame(String),
    /// A text frame among the next.
    Among(String),
    /// A pong.
    Pong(String),
    /// Nothing more, on an open connection.
    Open,
    /// A close frame and the end, not before some time has passed.
    Close {
        /// The code.
        code: u16,
        /// The reason, if it is said.
        reason: Option<String>,
        /// How long after what was said last.
        after: Duration,
    },
    /// A close frame and the end, or just the end.
    Refused(u16),
}

/// The letters of the response's id.
pub const RESPONSE: &str = "r";

/// The response's start.
pub const RESPONSE_START: &str = r##"{"id":"#r","type":"response-state","event":"start"}"##;

/// Reads a talk.
pub fn read(text: &str) -> Result<Vec<Line>, String> {
    let mut lines: Vec<Line> = Vec::new();
    let mut whole = 0;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(more) = line.strip_prefix(">|") {
            let more = more.strip_prefix(' ').unwrap_or(more);
            match lines.last_mut() {
                Some(Line::Say(Say::Text(text) | Say::Input(text))) => {
                    text.push('\n');
                    text.push_str(more);
                }
                _ => return Err(format!("adds to nothing: {line}")),
            }
            continue;
        }
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let bytes = || hex(rest).ok_or_else(|| format!("not bytes: {line}"));
        let code =
            || rest.split(' ').next().and_then(|code| code.parse().ok()).ok_or_else(|| format!("no code: {line}"));
        let rest_owned = || rest.to_owned();
        match verb {
            ">" => lines.push(Line::Say(Say::Text(rest_owned()))),
            ">say" => lines.push(Line::Say(Say::Input(rest_owned()))),
            ">binary" => lines.push(Line::Say(Say::Binary(rest.as_bytes().to_vec()))),
            ">hex" => lines.push(Line::Say(Say::Binary(bytes()?))),
            ">fragments" => lines.push(Line::Say(Say::Fragments(rest_owned()))),
            ">ping" => lines.push(Line::Say(Say::Ping(rest_owned()))),
            ">raw" => lines.push(Line::Say(Say::Raw(bytes()?))),
            ">close" => lines.push(Line::Say(Say::Close(code()?))),
            "<" => {
                whole += 1;
                let frames = frames(rest, whole).ok_or_else(|| format!("not a frame: {line}"))?;
                lines.extend(frames.into_iter().map(|frame| Line::Hear(Hear::Frame(frame))));
            }
            "<~" => {
                let frames = frames(rest, whole).ok_or_else(|| format!("not a frame: {line}"))?;
                lines.extend(frames.into_iter().map(|frame| Line::Hear(Hear::Among(frame))));
            }
            "<pong" => lines.push(Line::Hear(Hear::Pong(rest_owned()))),
            "<open" => lines.push(Line::Hear(Hear::Open)),
            "<close" => lines.push(Line::Hear(close(code()?, rest).ok_or_else(|| format!("not a time: {line}"))?)),
            "<refused" => lines.push(Line::Hear(Hear::Refused(code()?))),
            _ => return Err(format!("not a line of a talk: {line}")),
        }
    }
    Ok(lines)
}

/// The message that says `text`.
pub fn input(text: &str) -> String {
    json!({ "type": "user-input", "userInput": text }).to_string()
}

fn close(code: u16, rest: &str) -> Option<Hear> {
    let rest = rest.split_once(' ').map_or("", |(_, rest)| rest);
    let (reason, after) =
        match rest.strip_prefix("after ").map(|after| ("", after)).or_else(|| rest.split_once(" after ")) {
            Some((reason, after)) => (reason, Duration::from_millis(after.parse().ok()?)),
            None => (rest, Duration::ZERO),
        };
    let reason = (!reason.is_empty()).then(|| reason.to_owned());
    Some(Hear::Close { code, reason, after })
}

/// The frames of what stands behind a `<`.
fn frames(text: &str, whole: usize) -> Option<Vec<String>> {
    if text.starts_with('{') {
        return Some(vec![text.to_owned()]);
    }
    if let Some(deltas) = text.strip_prefix("CHAT") {
        let id = format!("#whole{whole}");
        let bare = |event: &str| format!(r#"{{"id":"{id}","type":"chat-output","event":"{event}"}}"#);
        let mut frames = vec![bare("start")];
        for delta in strings(deltas.trim())? {
            frames.push(format!(r#"{{"id":"{id}","type":"chat-output","event":"delta","content":{delta}}}"#));
        }
        frames.push(bare("end"));
        return Some(frames);
    }
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (name, event) = match (word.strip_suffix('+'), word.strip_suffix('-')) {
        (Some(name), _) => (name, "start"),
        (_, Some(name)) => (name, "end"),
        _ if word == "error" => (word, "error"),
        _ => (word, "delta"),
    };
    let kind = match name {
        "R" => return Some(vec![RESPONSE_START.replace("start", event)]),
        "chat" => "chat-output",
        "think" => "think-output",
        "model" => "model-invocation-state",
        "iteration" => "iteration-state",
        "tool" => "tool-call",
        "error" => "error",
        _ => return None,
    };
    let (id, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let more = match (name, rest) {
        (_, "") => String::new(),
        ("tool", rest) => {
            let (func, args) = rest.split_once(' ')?;
            format!(r#","func":{func},"args":{args}"#)
        }
        (_, content) => format!(r#","content":{content}"#),
    };
    Some(vec![format!(r#"{{"id":"{id}","type":"{kind}","event":"{event}"{more}}}"#)])
}

/// The JSON strings of a line, quotes and escapes as they are.
fn strings(text: &str) -> Option<Vec<String>> {
    let (mut found, mut current, mut escaped) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        if current.is_empty() && c == ' ' {
            continue;
        }
        if current.is_empty() && c != '"' {
            return None;
        }
        current.push(c);
        if c == '"' && !escaped && current.len() > 1 {
            found.push(std::mem::take(&mut current));
        }
        escaped = c == '\\' && !escaped;
    }
    current.is_empty().then_some(found)
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).ok();
    if digits.len().is_multiple_of(2) { digits.chunks(2).map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(text: &str) -> Vec<String> {
        let lines = read(text).unwrap().into_iter();
        let frame = |line| match line {
            Line::Hear(Hear::Frame(frame)) => frame,
            other => panic!("{other:?}"),
        };
        lines.map(frame).collect()
    }

    #[test]
    fn frames_in_short_are_the_frames_of_the_document() {
        assert_eq!(heard("< R+"), [RESPONSE_START]);
        assert_eq!(heard("< R-"), [r##"{"id":"#r","type":"response-state","event":"end"}"##]);
        assert_eq!(heard("< think #t \"a\""), [r##"{"id":"#t","type":"think-output","event":"delta","content":"a"}"##]);
        assert_eq!(heard("< model- #m"), [r##"{"id":"#m","type":"model-invocation-state","event":"end"}"##]);
        assert_eq!(
            heard("< tool+ #t \"W\" {\"a\":1}"),
            [r##"{"id":"#t","type":"tool-call","event":"start","func":"W","args":{"a":1}}"##]
        );
        assert_eq!(heard("< error #e \"x y\""), [r##"{"id":"#e","type":"error","event":"error","content":"x y"}"##]);
        assert_eq!(heard("< CHAT \"a \\\" b\" \"c\"").len(), 4);
    }

    #[test]
    fn lines_are_read() {
        let lines = read("> a\n>| b\n>hex c3 28\n<close 1000 idle after 300\n<close 1001\n<open\n").unwrap();
        let close = |code, reason: Option<&str>, after| {
            Line::Hear(Hear::Close { code, reason: reason.map(str::to_owned), after: Duration::from_millis(after) })
        };
        assert_eq!(
            lines,
            [
                Line::Say(Say::Text("a\nb".to_owned())),
                Line::Say(Say::Binary(vec![0xc3, 0x28])),
                close(1000, Some("idle"), 300),
                close(1001, None, 0),
                Line::Hear(Hear::Open),
            ]
        );
        assert_eq!(read("<close 1000 after 5").unwrap(), [close(1000, None, 5)]);
        for wrong in ["x", ">raw 1", "<close x", "< nothing", ">| a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
