//! How cases write what is long, invisible, new each time or not known beforehand.
//!
//! [`expand`] makes real text of `$(…)`. A [`Pattern`] is text that is compared byte for byte, but for three kinds of
//! places: `…` is any text inside a JSON string, `"#a"` is an id, and `<sorry zh>` is text that a server words itself.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU32, Ordering},
    time::SystemTime,
};

/// The length of a Mythra id.
const ID_LENGTH: usize = 11;

/// Words of the machine room, which no user must ever read.
const INNER: &[&str] = &[
    "wasm",
    "backtrace",
    "unreachable",
    "panicked",
    "epoch",
    "fuel",
    "stack overflow",
    "/work",
    "/tmp",
    "/home",
    ".rs:",
];

/// What `$(…)` may stand for.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// `$(agent)`: the agent's name.
    pub agent: &'a str,
    /// `$(key)`: the key that opens the agent.
    pub key: &'a str,
    /// `$(id)`: an id that no other run has.
    pub id: &'a str,
}

/// `text` with each `$(…)` replaced: `$(agent)`, `$(key)` and `$(id)` by these words, `$(u+HEX)` by the character, and
/// `$(N*TEXT)` by the text N times.
pub fn expand(text: &str, words: Words<'_>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$(") {
        out.push_str(before);
        let Some((inside, after)) = after.split_once(')') else {
            out.push_str("$(");
            rest = after;
            continue;
        };
        match inside {
            "agent" => out.push_str(words.agent),
            "key" => out.push_str(words.key),
            "id" => out.push_str(words.id),
            _ => out.push_str(&unusual(inside).unwrap_or_else(|| format!("$({inside})"))),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

fn unusual(inside: &str) -> Option<String> {
    if let Some(hex) = inside.strip_prefix("u+") {
        return u32::from_str_radix(hex, 16).ok().and_then(char::from_u32).map(String::from);
    }
    let (count, text) = inside.split_once('*')?;
    Some(text.repeat(count.parse().ok()?))
}

/// An id that nobody had before.
pub fn fresh_id() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("c{:x}-{}", now.as_nanos(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Text with places in it.
#[derive(Clone, Debug)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Any text inside a JSON string.
    Any,
    /// An id by the letters that it is called by here.
    Id(String),
    /// Text in the server's own words, by what it is and in which language.
    Own(String),
}

/// What the places of earlier patterns stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    places: BTreeMap<String, String>,
}

impl Bound {
    /// Forgets what an id's letters stood for: they are used again.
    pub fn forget(&mut self, letters: &str) {
        self.places.remove(letters);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.places.clear();
    }

    fn is(&mut self, place: &str, text: &str) -> bool {
        self.places.entry(place.to_owned()).or_insert_with(|| text.to_owned()) == text
    }
}

impl Pattern {
    /// Reads a pattern.
    pub fn new(text: &str) -> Self {
        let (mut parts, mut plain) = (Vec::new(), String::new());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let place = match next {
                '…' => Some((Part::Any, next.len_utf8())),
                '#' if plain.ends_with('"') => id(rest),
                '<' => own(rest),
                _ => None,
            };
            let (part, length) = place.unwrap_or_else(|| (Part::Text(String::from(next)), next.len_utf8()));
            match part {
                Part::Text(text) => plain.push_str(&text),
                place => {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                    parts.push(place);
                }
            }
            rest = rest.split_at_checked(length).map_or("", |(_, rest)| rest);
        }
        parts.push(Part::Text(plain));
        Self { parts }
    }

    /// The text, if there are no places in it.
    pub fn plain(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether `text` is like this, with the same text for the same place as before; remembers what places stood for.
    pub fn matches(&self, text: &str, bound: &mut Bound) -> bool {
        match go(&self.parts, text, bound.clone()) {
            Some(now) => {
                *bound = now;
                true
            }
            None => false,
        }
    }
}

fn id(rest: &str) -> Option<(Part, usize)> {
    let letters = rest.strip_prefix('#')?.split('"').next()?;
    let good = !letters.is_empty() && letters.bytes().all(|c| c.is_ascii_alphanumeric());
    good.then(|| (Part::Id(letters.to_owned()), letters.len() + 1))
}

fn own(rest: &str) -> Option<(Part, usize)> {
    let name = rest.strip_prefix('<')?.split('>').next()?;
    let good = ["sorry", "nothing", "progress"].contains(&name.split(' ').next()?);
    good.then(|| (Part::Own(name.to_owned()), name.len() + 2))
}

/// Matches part by part; a place's text may end at any character before the end of the JSON string that it stands in.
fn go(parts: &[Part], text: &str, mut bound: Bound) -> Option<Bound> {
    let Some((part, parts)) = parts.split_first() else {
        return text.is_empty().then_some(bound);
    };
    if let Part::Text(plain) = part {
        return go(parts, text.strip_prefix(plain.as_str())?, bound);
    }
    if let Part::Id(letters) = part {
        let (id, rest) = text.split_at_checked(ID_LENGTH)?;
        return (is_id(id) && bound.is(letters, id)).then(|| go(parts, rest, bound)).flatten();
    }
    let end = string_end(text);
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]).take_while(|at| *at <= end);
    for at in ends {
        let (place, rest) = text.split_at_checked(at)?;
        let mut now = bound.clone();
        let fits = match part {
            Part::Own(name) => is_own(name, place) && now.is(name, place),
            _ => true,
        };
        if let Some(found) = fits.then(|| go(parts, rest, now)).flatten() {
            return Some(found);
        }
    }
    None
}

/// Where the JSON string that `text` begins in ends.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    text.len()
}

/// Whether `id` is a Mythra id: `[0-9a-z]{11}`.
pub fn is_id(id: &str) -> bool {
    id.len() == ID_LENGTH && id.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase())
}

/// Whether `text` may be the server's own words `name`: some text, in the right script, and of nothing inside.
fn is_own(name: &str, text: &str) -> bool {
    let han = text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c));
    let latin = text.chars().any(|c| c.is_ascii_alphabetic());
    let right = match name.split(' ').nth(1) {
        Some("zh") => han,
        Some("en") => latin && !han,
        _ => true,
    };
    !text.is_empty() && right && inner_word(text).is_none()
}

/// A word in `text` that tells of the inside of a server.
pub fn inner_word(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    INNER.iter().copied().find(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: Words<'_> = Words { agent: "echo", key: "k", id: "i" };

    #[test]
    fn words_are_put_in_and_the_rest_stays() {
        assert_eq!(
            expand("a $(agent)/$(key)/$(id) $(3*ab)$(u+2028) $(x) $(", WORDS),
            "a echo/k/i ababab\u{2028} $(x) $("
        );
        assert_eq!(expand("$(2*[)$(2*])", WORDS), "[[]]");
    }

    #[test]
    fn equal_letters_are_equal_ids() {
        let pattern = Pattern::new(r##"{"id":"#a","x":"#a"}"##);
        let mut bound = Bound::default();
        assert!(!pattern.matches(r#"{"id":"aaaaaaaaaaa","x":"aaaaaaaaaab"}"#, &mut bound));
        assert!(pattern.matches(r#"{"id":"aaaaaaaaaaa","x":"aaaaaaaaaaa"}"#, &mut bound));
        assert!(!pattern.matches(r#"{"id":"bbbbbbbbbbb","x":"bbbbbbbbbbb"}"#, &mut bound), "bound before");
        assert!(!Pattern::new(r##""#b""##).matches(r#""AAAAAAAAAAA""#, &mut bound));
    }

    #[test]
    fn an_open_place_ends_with_its_string() {
        let pattern = Pattern::new(r#"{"a":"invalid JSON…"}"#);
        assert!(pattern.matches(r#"{"a":"invalid JSON: \"x\""}"#, &mut Bound::default()));
        assert!(!pattern.matches(r#"{"a":"invalid JSON","b":"x"}"#, &mut Bound::default()));
    }

    #[test]
    fn own_words_have_a_script_and_nothing_inside() {
        let matches = |pattern: &str, text: &str| Pattern::new(pattern).matches(text, &mut Bound::default());
        assert!(matches("<sorry zh>", "抱歉"));
        assert!(!matches("<sorry zh>", "sorry"));
        assert!(matches("<sorry en>", "sorry"));
        assert!(!matches("<sorry>", "wasm trap"));
        assert!(!matches("<sorry>", ""));
        assert!(matches("<b>", "<b>"), "not a place");
    }
}
