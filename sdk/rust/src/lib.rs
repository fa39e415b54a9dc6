//! Write agents for Hostelry: an [`Agent`] answers a [`Turn`] by showing pieces of text ([`chat!`], [`think!`]), with what
//! the host remembers ([`history`], [`fact`]) and the tools that it has ([`call`]).
//!
//! ```
//! use hostelry_agent::{Agent, FakeHost, Result, Turn, chat, export};
//!
//! struct Hello;
//!
//! impl Agent for Hello {
//!     fn answer(turn: &Turn) -> Result {
//!         chat!("Hello, {}!", turn.text().unwrap_or("stranger"))
//!     }
//! }
//!
//! export!(Hello);
//!
//! // In a test, natively:
//! assert_eq!(FakeHost::new().ask::<Hello>("world").chat, "Hello, world!");
//! ```
//!
//! In a component this speaks the contract `hostelry:agent@0.1.0`. Natively a [`FakeHost`] stands in for the host.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod component;
#[cfg(not(target_family = "wasm"))]
mod fake;
mod tools;

#[cfg(target_family = "wasm")]
use component as port;
#[cfg(not(target_family = "wasm"))]
use fake as port;
#[cfg(not(target_family = "wasm"))]
pub use fake::{Answer, FakeHost};
pub use serde_json::{Value, json};
pub use tools::{Tool, ToolError, ToolErrorKind};

/// What an agent is. [`export!`] makes a type that is one the component's.
pub trait Agent {
    /// Answers one turn. Each turn is an instance of its own: what a `static` holds is forgotten.
    fn answer(turn: &Turn) -> Result;
}

/// What ends a turn early.
#[derive(Debug)]
pub enum Error {
    /// The client is gone: nobody sees what comes after. Returning it ends the turn well.
    Closed,
    /// The turn failed, and this is shown to the user.
    Said(String),
    /// The turn failed. The user is shown the host's general text, and the log says why.
    Inner(Box<dyn std::error::Error>),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the client is gone"),
            Self::Said(text) => f.write_str(text),
            Self::Inner(error) => error.fmt(f),
        }
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self::Inner(Box::new(error))
    }
}

/// What most things here give.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// Who said a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The agent itself.
    Agent,
}

/// A file that the user sent or named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub url: String,
    /// A media type such as `application/pdf`, where the client says it.
    pub media_type: Option<String>,
}

/// One piece of what was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Words.
    Text(String),
    /// An image's URL: http(s), or a data URL.
    Image(String),
    /// A file.
    File(File),
}

/// One message of the conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who said it.
    pub role: Role,
    /// What.
    pub content: Content,
}

impl Message {
    /// Words of the user's.
    pub fn user(text: impl Into<String>) -> Self {
        Self { role: Role::User, content: Content::Text(text.into()) }
    }

    /// Words of the agent's.
    pub fn agent(text: impl Into<String>) -> Self {
        Self { role: Role::Agent, content: Content::Text(text.into()) }
    }

    /// The words, if it is words.
    pub fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Image(_) | Content::File(_) => None,
        }
    }
}

/// One input of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The conversation; the same for all its turns.
    pub session_id: String,
    /// This turn; unique.
    pub turn_id: String,
    /// The person, where the client names one.
    pub user_id: Option<String>,
    /// What is new, in order; never empty.
    pub input: Vec<Message>,
}

impl Turn {
    /// The last message, if it is words.
    pub fn text(&self) -> Option<&str> {
        self.input.last().and_then(Message::text)
    }

    /// The images of the input, as URLs.
    pub fn images(&self) -> impl Iterator<Item = &str> {
        self.input.iter().filter_map(|message| match &message.content {
            Content::Image(url) => Some(url.as_str()),
            Content::Text(_) | Content::File(_) => None,
        })
    }

    /// The files of the input.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.input.iter().filter_map(|message| match &message.content {
            Content::File(file) => Some(file),
            Content::Text(_) | Content::Image(_) => None,
        })
    }
}

/// What an agent shows while it works.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A piece of the answer.
    Chat(String),
    /// A piece of thought, apart from the answer.
    Think(String),
    /// What the user may want to ask next.
    FollowUp(Vec<String>),
    /// An error that does not end the turn.
    Fault(String),
    /// A round of an agent that works in rounds begins (true) or ends, with its name.
    Iteration(bool, String),
    /// A language model begins (true) or ends its work.
    Model(bool),
    /// A tool that the agent runs by itself begins (true) or ends: its name and a JSON object.
    ToolRun(bool, String, Value),
    /// Anything that a protocol may learn to show later: its name and a value.
    Custom(String, Value),
}

/// Shows an event, now. Waits while the client is slow.
pub fn emit(event: Event) -> Result {
    port::emit(event)
}

/// Says a piece of the answer.
pub fn chat(text: impl Into<String>) -> Result {
    emit(Event::Chat(text.into()))
}

/// Shows a piece of thought, apart from the answer.
pub fn think(text: impl Into<String>) -> Result {
    emit(Event::Think(text.into()))
}

/// What the user may want to ask next: at most 8 are shown, and the last list wins.
pub fn follow_up<T: Into<String>>(questions: impl IntoIterator<Item = T>) -> Result {
    emit(Event::FollowUp(questions.into_iter().map(Into::into).collect()))
}

/// Shows an error that does not end the turn.
pub fn fault(text: impl Into<String>) -> Result {
    emit(Event::Fault(text.into()))
}

/// Does a round of work between its announced start and end.
pub fn iteration<T>(label: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    emit(Event::Iteration(true, label.to_owned()))?;
    let done = work()?;
    emit(Event::Iteration(false, label.to_owned()))?;
    Ok(done)
}

/// Has a language model work between its announced start and end.
pub fn model<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    emit(Event::Model(true))?;
    let done = work()?;
    emit(Event::Model(false))?;
    Ok(done)
}

/// Runs a tool of the agent's own between its announced start and end.
pub fn tool_run<T>(name: &str, args: &Value, work: impl FnOnce() -> Result<T>) -> Result<T> {
    emit(Event::ToolRun(true, name.to_owned(), args.clone()))?;
    let done = work()?;
    emit(Event::ToolRun(false, name.to_owned(), args.clone()))?;
    Ok(done)
}

/// Calls a tool of the host's: `args` becomes its JSON object, and its JSON answer a `Reply`.
///
/// ```no_run
/// use hostelry_agent::{Result, call, chat};
///
/// #[derive(serde::Serialize)]
/// struct Read<'a> {
///     #[serde(rename = "filePath")]
///     path: &'a str,
/// }
///
/// #[derive(serde::Deserialize)]
/// struct File {
///     content: String,
/// }
///
/// fn show(path: &str) -> Result {
///     match call::<File>("ReadFile", &Read { path }) {
///         Ok(file) => chat(file.content),
///         Err(error) => chat(format!("I cannot read it: {error}")),
///     }
/// }
/// ```
pub fn call<Reply: DeserializeOwned>(name: &str, args: &impl Serialize) -> std::result::Result<Reply, ToolError> {
    let args = serde_json::to_string(args).map_err(|error| ToolError::shape(&error))?;
    let answer = port::call(name, &args)?;
    serde_json::from_str(&answer).map_err(|error| ToolError::shape(&error))
}

/// The tools that [`call`] answers to in this turn.
pub fn tools() -> Vec<Tool> {
    port::tools()
}

/// What this session said before this turn, oldest first.
pub fn history() -> Vec<Message> {
    port::history(u32::MAX)
}

/// The last messages that this session said before this turn, at most `max` of them, oldest first.
pub fn last(max: u32) -> Vec<Message> {
    port::history(max)
}

/// A fact about the turn, by its kebab-case key: `now`, `lang`, `location`, `weather`, …
pub fn fact(key: &str) -> Option<String> {
    port::fact(key)
}

/// The keys that [`fact`] answers to in this turn.
pub fn facts() -> Vec<String> {
    port::facts()
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For whoever looks for a fault.
    Debug,
    /// What happens.
    Info,
    /// What should not happen.
    Warn,
    /// What went wrong.
    Error,
}

/// Writes to the host's log, as `println!` and `eprintln!` do.
pub fn log(level: Level, text: &str) {
    port::log(level, text);
}

/// Says a formatted piece of the answer: `chat!("{} of {}", 1, 2)?`.
#[macro_export]
macro_rules! chat {
    ($($format:tt)*) => { $crate::chat(::std::format!($($format)*)) };
}

/// Shows a formatted piece of thought: `think!("step {}", 1)?`.
#[macro_export]
macro_rules! think {
    ($($format:tt)*) => { $crate::think(::std::format!($($format)*)) };
}

/// What ends the turn as failed with a formatted text that the user is shown: `return Err(fail!("no such city"))`.
#[macro_export]
macro_rules! fail {
    ($($format:tt)*) => { $crate::Error::Said(::std::format!($($format)*)) };
}

/// Makes a type that is an [`Agent`] the component's.
#[macro_export]
macro_rules! export {
    ($agent:ty) => {
        #[cfg(target_family = "wasm")]
        const _: () = {
            struct Component;

            impl $crate::component::Guest for Component {
                fn handle(request: $crate::component::Request) -> ::std::result::Result<(), ::std::string::String> {
                    $crate::component::handle::<$agent>(request)
                }
            }

    $crate::component::export_component!(Component with_types_in $crate::component);
        };
    };
}
