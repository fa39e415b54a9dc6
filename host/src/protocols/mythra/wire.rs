//! The JSON of the Mythra Agent Studio protocol document, and what else may stand in its place.
//!
//! Coming in it is liberal: any optional field may be missing, `null`, empty or of another type. Going out it is strict:
//! one compact object, keys in the document's order, never `null`. Nothing here knows of sockets, keys or turns.

use std::{collections::BTreeMap, fmt};

use bytes::{BufMut as _, BytesMut};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::text;

/// The most facts of one message that are kept. The document has three; a client's own additions fit many times over.
pub(super) const FACTS_MAX: usize = 256;
/// The most bytes of facts, keys included, that are kept of one message: they are stored with the session.
pub(super) const FACTS_BYTES_MAX: usize = 64 * 1024;
/// The longest `sessionId` in bytes. The document's sample has 32; it is kept in every entry of the session.
pub(super) const SESSION_ID_MAX: usize = 256;

/// The keys that the document makes facts of; they go before a client's own.
const DOCUMENTED_FACTS: [&str; 3] = ["projectId", "workDir", "preferredModel"];

/// A message as it came in.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    /// Somebody said something.
    Input(UserInput),
    /// Its `type` is none that we know; it may be meant for a later version of the protocol.
    Unknown(String),
    /// It is a `user-input` that no turn can be made of: which field, and what is wrong with it.
    Unfit(String),
    /// It is no JSON object, and why.
    Invalid(String),
}

/// A `user-input`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UserInput {
    /// What was said; never empty.
    pub(super) text: String,
    /// The client's id of the conversation.
    pub(super) session: Option<String>,
    /// The user's own platform key.
    pub(super) api_key: Option<ApiKey>,
    /// Every other key, kebab-cased: text as it is, anything else as its JSON.
    pub(super) facts: BTreeMap<String, String>,
    /// How many facts there was no room for.
    pub(super) facts_dropped: usize,
}

/// A key that somebody showed. It never prints.
#[derive(PartialEq, Eq)]
pub(super) struct ApiKey(String);

impl ApiKey {
    /// The key of this text, if there is any.
    pub(super) fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// The key itself, to be compared or hashed and nothing else.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A field that is there and not `null`.
enum Field {
    Text(String),
    Number(String),
    /// `true`, `false`, an array or an object, as its JSON.
    Other(String),
}

impl Field {
    /// Text, or a number's digits as they were sent; empty text is absent, and so is any other type.
    fn scalar(self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Number(text) => Some(text).filter(|text| !text.is_empty()),
            Self::Other(_) => None,
        }
    }
}

/// What a message of these bytes is.
pub(super) fn parse(bytes: &[u8]) -> Incoming {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return Incoming::Invalid("invalid JSON: not UTF-8".to_owned());
    };
    match fields(text).or_else(|why| fields(&mend(&tidy(text))).map_err(|_| why)) {
        Ok(fields) => classify(fields),
        Err(why) => Incoming::Invalid(format!("invalid JSON: {why}")),
    }
}

/// The fields of a JSON object. An error never quotes the text: there may be a key in it.
fn fields(text: &str) -> Result<BTreeMap<String, Field>, String> {
    let why = |error: &serde_json::Error| match error.classify() {
        serde_json::error::Category::Data => "not an object".to_owned(),
        _ => error.to_string(),
    };
    let raw: BTreeMap<String, &RawValue> = serde_json::from_str(text).map_err(|error| why(&error))?;
    let mut fields = BTreeMap::new();
    for (key, value) in raw {
        let json = value.get();
        let field = match json.as_bytes().first() {
            Some(b'n') => continue,
            Some(b'"') => Field::Text(serde_json::from_str(json).map_err(|error| why(&error))?),
            Some(b't' | b'f') => Field::Other(json.to_owned()),
            Some(b'{' | b'[') => {
                // A raw value is skipped over without a bound on its depth; making a value of it has one.
                serde_json::from_str::<serde_json::Value>(json).map_err(|error| why(&error))?;
                Field::Other(json.to_owned())
            }
            _ => Field::Number(json.to_owned()),
        };
        fields.insert(key, field);
    }
    Ok(fields)
}

/// `text` without a byte order mark and without commas before a closing bracket, as the document's samples have them.
fn tidy(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}');
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            in_string = escaped || c != '"';
            escaped = c == '\\' && !escaped;
        } else if c == '"' {
            in_string = true;
        } else if matches!(c, '}' | ']') {
            let kept = out.trim_end_matches([' ', '\t', '\n', '\r']);
            if let Some(kept) = kept.strip_suffix(',').map(str::len) {
                out.truncate(kept);
            }
        }
        out.push(c);
    }
    out
}

/// `text` with the replacement character for each half of a surrogate pair that stands alone, which is what is left of an
/// emoji that a client cut in two.
fn mend(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, tail)) = rest.find('\\').and_then(|at| rest.split_at_checked(at)) {
        out.push_str(before);
        let paired = || tail.get(6..).and_then(unit).is_some_and(|low| (0xdc00..=0xdfff).contains(&low));
        let (kept, length) = match unit(tail) {
            Some(0xd800..=0xdbff) if paired() => (tail.get(..12), 12),
            Some(0xd800..=0xdfff) => (Some("\\ufffd"), 6),
            // The escaped character may be a backslash, which begins nothing then.
            _ => {
                let length = 1 + tail.chars().nth(1).map_or(0, char::len_utf8);
                (tail.get(..length), length)
            }
        };
        out.push_str(kept.unwrap_or_default());
        rest = tail.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// The UTF-16 unit that `text` begins with as an escape.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

fn classify(mut fields: BTreeMap<String, Field>) -> Incoming {
    match fields.remove("type") {
        Some(Field::Text(kind)) if kind == "user-input" => {}
        Some(Field::Text(kind)) => return Incoming::Unknown(kind),
        _ => return Incoming::Unknown(String::new()),
    }
    let text = match fields.remove("userInput") {
        Some(Field::Text(text)) if !text.is_empty() => text,
        Some(Field::Number(_) | Field::Other(_)) => return Incoming::Unfit("userInput must be a string".to_owned()),
        Some(Field::Text(_)) | None => return Incoming::Unfit("userInput is required".to_owned()),
    };
    let session = fields.remove("sessionId").and_then(Field::scalar);
    if session.as_ref().is_some_and(|session| session.len() > SESSION_ID_MAX) {
        return Incoming::Unfit(format!("sessionId is longer than {SESSION_ID_MAX} bytes"));
    }
    let api_key = fields.remove("apiKey").and_then(Field::scalar).and_then(|key| ApiKey::new(&key));
    // They may be there and mean nothing.
    fields.remove("id");
    fields.remove("event");
    let (facts, facts_dropped) = facts(fields);
    Incoming::Input(UserInput { text, session, api_key, facts, facts_dropped })
}

/// The facts that there is room for, and how many there is none for.
fn facts(mut fields: BTreeMap<String, Field>) -> (BTreeMap<String, String>, usize) {
    let documented: Vec<_> = DOCUMENTED_FACTS.iter().filter_map(|key| fields.remove_entry(*key)).collect();
    let (mut facts, mut bytes, mut dropped) = (BTreeMap::new(), 0, 0);
    for (key, field) in documented.into_iter().chain(fields) {
        let (Field::Text(value) | Field::Number(value) | Field::Other(value)) = field;
        let key = text::kebab(&key);
        if key.is_empty() || value.is_empty() || facts.contains_key(&key) {
            continue;
        }
        let size = key.len() + value.len();
        if facts.len() >= FACTS_MAX || bytes + size > FACTS_BYTES_MAX {
            dropped += 1;
            continue;
        }
        bytes += size;
        facts.insert(key, value);
    }
    (facts, dropped)
}

/// What a message that we send is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// The whole answer.
    ResponseState,
    /// A round of the agent's.
    IterationState,
    /// A model at work.
    ModelInvocationState,
    /// Thoughts.
    ThinkOutput,
    /// The answer's text.
    ChatOutput,
    /// A tool at work.
    ToolCall,
    /// Something that the user should know went wrong.
    Error,
}

/// Which part of its pair a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Event {
    /// It begins.
    Start,
    /// A piece of it.
    Delta,
    /// It is over.
    End,
    /// The only one of an `error`.
    Error,
}

/// A message that we send. Its keys are in the document's order.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Outgoing<'a> {
    /// The same for all messages of a pair.
    pub(super) id: &'a str,
    /// What it is about.
    #[serde(rename = "type")]
    pub(super) kind: Kind,
    /// Which part.
    pub(super) event: Event,
    /// Text of a delta, label of an iteration, words of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<&'a str>,
    /// A tool's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) func: Option<&'a str>,
    /// A tool's arguments, a JSON object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<&'a RawValue>,
}

impl<'a> Outgoing<'a> {
    /// A message with nothing but what all have.
    pub(super) const fn bare(id: &'a str, kind: Kind, event: Event) -> Self {
        Self { id, kind, event, content: None, func: None, args: None }
    }

    /// An `error`.
    pub(super) const fn error(id: &'a str, content: &'a str) -> Self {
        Self { content: Some(content), ..Self::bare(id, Kind::Error, Event::Error) }
    }

    /// A `tool-call`. `args` is an object's JSON; anything that is no JSON is shown as an empty one.
    pub(super) fn tool(id: &'a str, event: Event, func: &'a str, args: &'a str) -> Self {
        let args = serde_json::from_str(args).or_else(|_| serde_json::from_str("{}")).ok();
        Self { func: Some(func), args, ..Self::bare(id, Kind::ToolCall, event) }
    }

    /// Appends its JSON to `out`.
    pub(super) fn write(&self, out: &mut BytesMut) -> serde_json::Result<()> {
        serde_json::to_writer(out.writer(), self)
    }
}

/// The body of an HTTP answer that refuses the handshake.
#[derive(Debug, Serialize)]
pub(super) struct Refusal<'a> {
    /// Why, in safe words.
    pub(super) error: &'a str,
}

#[cfg(test)]
mod tests;
