//! The JSON of the Lingzhu platform's protocol document, and what else may stand in its place.
//!
//! Coming in it is liberal: numbers as ids, `null` for absent, metadata flat or nested, optional fields of any type.
//! Going out it is strict: one compact object a frame, keys in the document's order. Nothing here knows of HTTP, keys or
//! turns.

use std::collections::BTreeMap;

use bytes::{BufMut as _, BytesMut};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

use self::json::{Field, Fields};
use crate::{
    bindings::types::{Content, Message, Role},
    script::{DeviceCommand, Frames},
    text,
};

mod json;

/// The longest of each id in bytes. The platform's have 32 at most; they are kept with the session and stand in every
/// frame.
pub const ID_MAX: usize = 256;
/// The most messages of one request. The platform was only ever seen to send one.
pub const MESSAGES_MAX: usize = 256;
/// The most facts that are kept of one request. The platform sends nine.
pub(super) const FACTS_MAX: usize = 256;
/// The most bytes of facts, keys included, that are kept of one request: they are stored with the session.
pub(super) const FACTS_BYTES_MAX: usize = 64 * 1024;

/// The language of a client that names none.
pub(super) const LANG_DEFAULT: &str = "zh-CN";

/// The keys of `metadata` that the platform sends; they go before others where there is no room for all.
const KNOWN_FACTS: [&str; 9] =
    ["lang", "location", "company_id", "latitude", "longitude", "currentTime", "weather", "battery", "runningApp"];

/// A request, checked.
#[derive(Debug, PartialEq)]
pub(super) struct Ask {
    /// The conversation; a number's digits are as they were sent.
    pub(super) message_id: String,
    /// The platform's own id of the agent, to be echoed and used for nothing else.
    pub(super) agent_id: Option<String>,
    /// The person.
    pub(super) user_id: Option<String>,
    /// What was said; never empty.
    pub(super) input: Vec<Message>,
    /// `metadata` and its `context`, by kebab-case key: text as it is, anything else as its JSON.
    pub(super) facts: BTreeMap<String, String>,
    /// How many facts there was no room for.
    pub(super) facts_dropped: usize,
}

impl Ask {
    /// The wearer's language.
    pub(super) fn lang(&self) -> &str {
        self.facts.get("lang").map(|lang| lang.trim()).filter(|lang| !lang.is_empty()).unwrap_or(LANG_DEFAULT)
    }
}

/// Why no turn can be made of a request: which field, and what is wrong with it. Safe to show.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unfit(pub(super) String);

impl Unfit {
    fn new<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self(why.into()))
    }
}

/// The request that these bytes are.
pub(super) fn parse(bytes: &[u8]) -> Result<Ask, Unfit> {
    let mut fields = json::body(bytes).map_err(Unfit)?;
    let message_id = match fields.take("message_id") {
        None => return Unfit::new("message_id is required"),
        Some(Field::Other(_)) => return Unfit::new("message_id must be a string"),
        Some(field) => id("message_id", field)?,
    };
    let Some(message_id) = message_id else { return Unfit::new("message_id is required") };
    let agent_id = fields.take("agent_id").map_or(Ok(None), |field| id("agent_id", field))?;
    let user_id = fields.take("user_id").map_or(Ok(None), |field| id("user_id", field))?;
    let input = input(&mut fields)?;
    let (facts, facts_dropped) = facts(&mut fields);
    Ok(Ask { message_id, agent_id, user_id, input, facts, facts_dropped })
}

/// An id byte for byte, if it is one: not a list, not blank.
fn id(name: &str, field: Field<'_>) -> Result<Option<String>, Unfit> {
    match field.scalar() {
        Some(id) if id.len() > ID_MAX => Unfit::new(format!("{name} is longer than {ID_MAX} bytes")),
        id => Ok(id.filter(|id| !id.trim().is_empty())),
    }
}

fn input(fields: &mut Fields<'_>) -> Result<Vec<Message>, Unfit> {
    let Some(field) = fields.take("message") else { return Unfit::new("message is required") };
    let Some(items) = field.items(MESSAGES_MAX + 1) else { return Unfit::new("message must be a list") };
    if items.is_empty() {
        return Unfit::new("message must not be empty");
    }
    if items.len() > MESSAGES_MAX {
        return Unfit::new(format!("message has more than {MESSAGES_MAX} items"));
    }
    let mut messages = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let Some(item) = item.fields() else {
            return Unfit::new(format!("message[{index}] must be an object"));
        };
        push_message(&mut messages, index, item)?;
    }
    if messages.is_empty() {
        // Nothing but messages of empty text came.
        return Unfit::new("message[0]: text is required");
    }
    Ok(messages)
}

/// What one item of `message` says: nothing, a text, an image, or a text and then an image.
fn push_message(messages: &mut Vec<Message>, index: usize, mut item: Fields<'_>) -> Result<(), Unfit> {
    let role = match item.text("role") {
        Some(role) if ["agent", "assistant"].iter().any(|agent| role.eq_ignore_ascii_case(agent)) => Role::Agent,
        _ => Role::User,
    };
    let is_image = item.text("type").is_some_and(|kind| kind.eq_ignore_ascii_case("image"));
    let content = item.text("content");
    let mut text = item.text("text").filter(|text| !is_blank(text)).or(content).filter(|text| !is_blank(text));
    let mut image = item.text("image_url").filter(|url| !is_blank(url));
    if is_image {
        if image.is_none() {
            image = text.take_if(|text| is_image_url(text));
        } else {
            // The older form and the newer one at once are still one image.
            text.take_if(|text| image.as_deref() == Some(text.trim()));
        }
        if image.is_none() {
            return Unfit::new(format!("message[{index}]: image_url is required"));
        }
    }
    messages.extend(text.map(|text| Message { role, content: Content::Text(text) }));
    messages.extend(image.map(|url| Message { role, content: Content::Image(url.trim().to_owned()) }));
    Ok(())
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// Whether `text` is what an image's URL looks like.
fn is_image_url(text: &str) -> bool {
    let text = text.trim();
    ["http://", "https://", "data:"].iter().any(|scheme| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)) && text.len() > scheme.len()
    })
}

/// The facts that there is room for, and how many there is none for. A key of `metadata` goes before the same key of
/// `context`: it is what the platform really sends.
fn facts(fields: &mut Fields<'_>) -> (BTreeMap<String, String>, usize) {
    let Some(mut flat) = fields.take("metadata").and_then(Field::fields) else { return Default::default() };
    let mut nested = Fields::default();
    if let Some(context) = flat.take("context") {
        match context.fields() {
            Some(context) => nested = context,
            None => flat.put("context", context),
        }
    }
    let (mut facts, mut bytes, mut dropped) = (BTreeMap::new(), 0, 0);
    let known: Vec<_> = [&mut flat, &mut nested]
        .into_iter()
        .flat_map(|fields| {
            KNOWN_FACTS.iter().filter_map(|key| fields.take(key).map(|field| ((*key).to_owned(), field)))
        })
        .collect();
    for (key, field) in known.into_iter().chain(flat).chain(nested) {
        let key = text::kebab(&key);
        if key.is_empty() || facts.contains_key(&key) {
            continue;
        }
        let size = key.len() + field.json().len();
        if facts.len() >= FACTS_MAX || bytes + size > FACTS_BYTES_MAX {
            dropped += 1;
            continue;
        }
        // Empty text is a fact too: that no app runs any more, say. Left out, it would be the session's last one.
        bytes += size;
        facts.insert(key, field.shown());
    }
    (facts, dropped)
}

/// What every frame of an answer repeats.
#[derive(Clone, Debug)]
pub(super) struct Ids {
    /// The request's `message_id`.
    pub(super) message_id: String,
    /// The request's `agent_id`, or the agent's own public id.
    pub(super) agent_id: String,
}

/// The `event:` line of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Something to show or to do.
    Message,
    /// The stream is over.
    Done,
}

/// What a frame says: its `type`, and the one field that goes with it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Say<'a> {
    /// A piece of the answer.
    Answer(&'a str),
    /// A command to the device.
    ToolCall(&'a DeviceCommand),
    /// What the wearer may want to ask next.
    FollowUp(&'a [String]),
}

/// The data object, with its keys in the document's order.
#[derive(Serialize)]
struct Outgoing<'a> {
    role: &'static str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_stream: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    follow_up: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call: Option<ToolCall<'a>>,
    message_id: &'a str,
    agent_id: &'a str,
    is_finish: bool,
}

/// A command as the document's flat object: its name first, its fields beside it.
struct ToolCall<'a>(&'a DeviceCommand);

impl Serialize for ToolCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1 + self.0.fields.len()))?;
        map.serialize_entry("command", self.0.command)?;
        for (name, value) in &self.0.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Ids {
    /// Appends one frame to `out`.
    pub(super) fn frame(&self, event: Event, say: Say<'_>, is_finish: bool, out: &mut Frames) {
        let start = out.bytes.len();
        match self.write(event, say, is_finish, &mut out.bytes) {
            Ok(()) => out.end_frame(),
            // Text always fits into JSON; half a frame must not stand in the next one's place all the same.
            Err(error) => {
                out.bytes.truncate(start);
                tracing::error!(%error, "a frame could not be written");
            }
        }
    }

    fn write(&self, event: Event, say: Say<'_>, is_finish: bool, out: &mut BytesMut) -> serde_json::Result<()> {
        let head: &[u8] = match event {
            Event::Message => b"event: message\ndata: ",
            Event::Done => b"event: done\ndata: ",
        };
        let mut object = Outgoing {
            role: "agent",
            kind: "answer",
            answer_stream: None,
            follow_up: None,
            tool_call: None,
            message_id: &self.message_id,
            agent_id: &self.agent_id,
            is_finish,
        };
        match say {
            Say::Answer(text) => object.answer_stream = Some(text),
            Say::ToolCall(call) => (object.kind, object.tool_call) = ("tool_call", Some(ToolCall(call))),
            Say::FollowUp(questions) => (object.kind, object.follow_up) = ("follow_up", Some(questions)),
        }
        out.extend_from_slice(head);
        // JSON has no bare newline, so that the object is one `data` line whatever the text holds.
        serde_json::to_writer(out.writer(), &object)?;
        out.extend_from_slice(b"\n\n");
        Ok(())
    }
}

/// The body of an answer that is no stream.
#[derive(Debug, Serialize)]
pub(super) struct Refusal<'a> {
    /// Why, in safe words.
    pub(super) error: &'a str,
}

#[cfg(test)]
mod tests;
