//! Reading JSON objects field by field, without making a tree of them: a large text is copied once, numbers keep their
//! digits, and of several equal keys the last wins.
//!
//! It knows no field of the protocol.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{error::Category, value::RawValue};

/// How deep arrays and objects may nest. What a parser on the guest's side takes is about the same.
const DEPTH_MAX: usize = 127;

/// How many fields of one object are kept, the first ones: each takes many times the bytes it was sent in. The platform's
/// largest object has ten.
const FIELDS_MAX: usize = 4096;

/// A field that is there and not `null`, as the JSON that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    /// Text, still in quotes.
    Text(&'a str),
    /// A number.
    Number(&'a str),
    /// `true`, `false`, an array or an object.
    Other(&'a str),
}

/// The fields of an object.
#[derive(Debug, Default)]
pub(super) struct Fields<'a>(BTreeMap<String, Field<'a>>);

/// The fields of a body. An error tells where, and quotes nothing.
pub(super) fn body(bytes: &[u8]) -> Result<Fields<'_>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "invalid JSON: not UTF-8".to_owned())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let fields = serde_json::from_str(text).map_err(|error| match error.classify() {
        Category::Data => "the body must be a JSON object".to_owned(),
        Category::Io | Category::Syntax | Category::Eof => format!("invalid JSON: {error}"),
    })?;
    // What is skipped over is skipped without a bound on its depth.
    if depth(text) > DEPTH_MAX {
        return Err(format!("invalid JSON: nested deeper than {DEPTH_MAX} levels"));
    }
    Ok(fields)
}

/// How deep a JSON text nests.
fn depth(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

impl<'a> Field<'a> {
    /// What a value is; `null` is nothing.
    fn new(value: &'a RawValue) -> Option<Self> {
        let json = value.get();
        match json.as_bytes().first() {
            Some(b'n') => None,
            Some(b'"') => Some(Self::Text(json)),
            Some(b't' | b'f' | b'{' | b'[') => Some(Self::Other(json)),
            _ => Some(Self::Number(json)),
        }
    }

    /// The JSON that was sent.
    pub(super) fn json(self) -> &'a str {
        match self {
            Self::Text(json) | Self::Number(json) | Self::Other(json) => json,
        }
    }

    /// Text, or a number's digits.
    pub(super) fn scalar(self) -> Option<String> {
        match self {
            Self::Text(json) => Some(unquoted(json)),
            Self::Number(json) => Some(json.to_owned()),
            Self::Other(_) => None,
        }
    }

    /// Text as it is, anything else as the JSON that was sent.
    pub(super) fn shown(self) -> String {
        self.scalar().unwrap_or_else(|| self.json().to_owned())
    }

    /// The fields of an object.
    pub(super) fn fields(self) -> Option<Fields<'a>> {
        let Self::Other(json) = self else { return None };
        serde_json::from_str(json).ok()
    }

    /// The first items of an array, at most `max`; one that is `null` is as one that is no object.
    pub(super) fn items(self, max: usize) -> Option<Vec<Self>> {
        let Self::Other(json) = self else { return None };
        serde_json::Deserializer::from_str(json).deserialize_seq(Items { max }).ok()
    }
}

impl<'a> Fields<'a> {
    /// Takes a field out.
    pub(super) fn take(&mut self, key: &str) -> Option<Field<'a>> {
        self.0.remove(key)
    }

    /// Puts a field back.
    pub(super) fn put(&mut self, key: &str, field: Field<'a>) {
        self.0.insert(key.to_owned(), field);
    }

    /// Takes a field out, if it is text or a number.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        self.take(key).and_then(Field::scalar)
    }
}

impl<'a> IntoIterator for Fields<'a> {
    type Item = (String, Field<'a>);
    type IntoIter = std::collections::btree_map::IntoIter<String, Field<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            match Field::new(value) {
                Some(field) if fields.len() < FIELDS_MAX || fields.contains_key(&key) => {
                    fields.insert(key, field);
                }
                Some(_) => {}
                None => {
                    fields.remove(&key);
                }
            }
        }
        Ok(Fields(fields))
    }
}

struct Items {
    max: usize,
}

impl<'de> Visitor<'de> for Items {
    type Value = Vec<Field<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Field<'de>>, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.max {
            let Some(value) = seq.next_element::<&RawValue>()? else { return Ok(items) };
            items.push(Field::new(value).unwrap_or(Field::Other("null")));
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(items)
    }
}

/// The text of a JSON string. Half of a surrogate pair, which is what is left of an emoji that a client cut in two,
/// becomes replacement characters.
fn unquoted(json: &str) -> String {
    struct Lossy;

    impl Visitor<'_> for Lossy {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("text")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<String, E> {
            Ok(String::from_utf8_lossy(bytes).into_owned())
        }
    }

    // The value was parsed as a string before, so that only such halves could fail, and as bytes they do not.
    serde_json::Deserializer::from_str(json).deserialize_bytes(Lossy).unwrap_or_default()
}
