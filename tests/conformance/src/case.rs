//! What a case says, and all cases that there are.
//!
//! Cases are TOML files in `tests/cases/{lingzhu,mythra}`, built in here; the set-ups that some of them ask for are
//! folders of `tests/cases/setups`, each a `hostelry.toml` and the files beside its agents' components.

use serde::Deserialize;

/// The files of cases, by their names.
const FILES: &[(&str, &str)] = &[
    ("lingzhu/request.toml", include_str!("../../cases/lingzhu/request.toml")),
    ("lingzhu/answer.toml", include_str!("../../cases/lingzhu/answer.toml")),
    ("lingzhu/device.toml", include_str!("../../cases/lingzhu/device.toml")),
    ("lingzhu/refusal.toml", include_str!("../../cases/lingzhu/refusal.toml")),
    ("mythra/input.toml", include_str!("../../cases/mythra/input.toml")),
    ("mythra/answer.toml", include_str!("../../cases/mythra/answer.toml")),
    ("mythra/connection.toml", include_str!("../../cases/mythra/connection.toml")),
];

/// The set-ups.
const SETUPS: &[Setup] = &[
    Setup { name: PLAIN, config: "", beside: &[] },
    Setup {
        name: "strict",
        config: include_str!("../../cases/setups/strict/hostelry.toml"),
        beside: &[("puppet.toml", include_str!("../../cases/setups/strict/puppet.toml"))],
    },
    Setup { name: "keys", config: include_str!("../../cases/setups/keys/hostelry.toml"), beside: &[] },
    Setup { name: "rate", config: include_str!("../../cases/setups/rate/hostelry.toml"), beside: &[] },
];

/// The set-up of a case that names none: a server as it is out of the box.
pub const PLAIN: &str = "plain";

/// How a server must be set up for the cases that say so.
#[derive(Debug)]
pub struct Setup {
    /// What cases call it.
    pub name: &'static str,
    /// The text of its `hostelry.toml`; empty for none.
    pub config: &'static str,
    /// The files beside components: names in the plugins folder, and texts.
    pub beside: &'static [(&'static str, &'static str)],
}

impl Setup {
    /// The set-up of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        SETUPS.iter().find(|setup| setup.name == name)
    }

    /// All of them.
    pub fn all() -> &'static [Self] {
        SETUPS
    }
}

/// One case.
///
/// All texts may hold `$(…)`, see [`notation::expand`](crate::notation::expand).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Case {
    /// Its number: `L…` for Lingzhu, `M…` for Mythra; variants have a word behind it, such as `L1-facts`.
    pub number: String,
    /// What holds, in a sentence.
    pub says: String,
    /// The agent that it is about.
    #[serde(default = "echo")]
    pub agent: String,
    /// How the server must be set up.
    #[serde(default = "plain")]
    pub setup: String,
    /// The test that shows it, where only one that starts the server itself can.
    pub test: Option<String>,
    /// Whether it is no talk of its own, but holds for every stream of a run.
    #[serde(default)]
    pub always: bool,

    /// HTTP: the method; `POST` over Lingzhu and `GET` over Mythra, if none is said.
    pub method: Option<String>,
    /// HTTP and the handshake: what comes behind the agent's address.
    #[serde(default)]
    pub path: String,
    /// HTTP and the handshake: headers, as `name: value`. One without a value takes a default one away.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Lingzhu: the body, as it is.
    pub body: Option<String>,
    /// Lingzhu: the text of the body's one message, where nothing else in the body matters.
    pub say: Option<String>,
    /// Lingzhu: the body's `metadata`, beside `say`.
    pub metadata: Option<String>,
    /// Lingzhu: bodies that are sent, served and read to the end before.
    #[serde(default)]
    pub before: Vec<String>,
    /// Lingzhu: the `message_id` of the answer, where it is not that of the request.
    pub m: Option<String>,
    /// Lingzhu: the `agent_id` of the answer, where it is not that of the request.
    pub g: Option<String>,
    /// Lingzhu: the stream that comes out.
    pub out: Option<String>,
    /// Lingzhu: whether pieces must come one by one, although those of the same few milliseconds may come joined.
    #[serde(default)]
    pub apart: bool,
    /// Lingzhu: by when the answer's head is there, in milliseconds.
    pub head_within: Option<u64>,
    /// Lingzhu: how long no byte of the answer may come, in milliseconds.
    pub silent_for: Option<u64>,
    /// Lingzhu: by when a byte must have come, in milliseconds.
    pub bytes_within: Option<u64>,
    /// Lingzhu: by when the stream has ended, in milliseconds.
    pub ends_within: Option<u64>,

    /// HTTP, and a handshake that is refused: the status.
    pub status: Option<u16>,
    /// HTTP: the whole body of the answer.
    pub answer: Option<String>,
    /// HTTP and the handshake: headers that the answer has, as `name: value`; one without a value must not be there.
    #[serde(default)]
    pub answer_headers: Vec<String>,

    /// Mythra: what is said and heard, line by line, see [`script`](crate::script).
    pub talk: Option<String>,
    /// Mythra: how often the talk is repeated on its connection.
    #[serde(default = "once")]
    pub times: usize,
}

/// Over which protocol a case talks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP POST answered by SSE.
    Lingzhu,
    /// WebSocket.
    Mythra,
}

#[derive(Deserialize)]
struct File {
    case: Vec<Case>,
}

fn echo() -> String {
    "echo".to_owned()
}

fn plain() -> String {
    PLAIN.to_owned()
}

const fn once() -> usize {
    1
}

impl Case {
    /// Its protocol.
    pub fn protocol(&self) -> Protocol {
        if self.number.starts_with('M') { Protocol::Mythra } else { Protocol::Lingzhu }
    }

    /// The headers as names and values.
    pub fn headers(&self) -> Result<Vec<(String, String)>, String> {
        self.headers.iter().map(|line| header(line)).collect()
    }
}

/// A line `name: value`. Blanks before the value's end are the value's own.
pub fn header(line: &str) -> Result<(String, String), String> {
    let (name, value) = line.split_once(':').ok_or_else(|| format!("not a header: {line}"))?;
    Ok((name.to_lowercase(), value.strip_prefix(' ').unwrap_or(value).to_owned()))
}

/// All cases, in the order of their files.
pub fn all() -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    for (name, text) in FILES {
        let file: File = toml::from_str(text).map_err(|error| format!("{name}: {error}"))?;
        cases.extend(file.case);
    }
    for (index, case) in cases.iter().enumerate() {
        if cases.iter().take(index).any(|other| other.number == case.number) {
            return Err(format!("there are two cases {}", case.number));
        }
        if Setup::named(&case.setup).is_none() {
            return Err(format!("{}: there is no set-up {:?}", case.number, case.setup));
        }
        let runs = case.out.is_some() || case.status.is_some() || case.talk.is_some();
        if runs == (case.always || case.test.is_some()) {
            return Err(format!("{}: expects something, or else is `always` or a `test`", case.number));
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_read() {
        let cases = all().unwrap();
        assert!(cases.len() > 100, "{}", cases.len());
    }

    #[test]
    fn a_headers_name_is_small_and_its_value_as_it_is() {
        assert_eq!(header("Accept: */*").unwrap(), ("accept".to_owned(), "*/*".to_owned()));
        assert_eq!(header("a:").unwrap(), ("a".to_owned(), String::new()));
        assert!(header("a").is_err());
    }
}
