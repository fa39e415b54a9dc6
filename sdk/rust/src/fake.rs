//! The host, for tests: what it is given, the agent finds, and what the agent does, it keeps.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use serde_json::Value;

use crate::{Agent, Content, Error, Event, Level, Message, Result, Role, Tool, ToolError, ToolErrorKind, Turn};

type Run = Rc<dyn Fn(Value) -> std::result::Result<Value, ToolError>>;

thread_local! {
    /// The host of the turn that this thread runs.
    static HOST: RefCell<Option<State>> = const { RefCell::new(None) };
}

/// A host that stands in for the real one: `FakeHost::new().tool(…).ask::<MyAgent>("hi")`.
#[derive(Default)]
pub struct FakeHost {
    state: State,
}

#[derive(Clone, Default)]
struct State {
    history: Vec<Message>,
    facts: BTreeMap<String, String>,
    tools: BTreeMap<String, Run>,
    events: Vec<Event>,
    logged: Vec<(Level, String)>,
    closes_after: Option<usize>,
}

/// What came of one turn.
#[derive(Debug)]
pub struct Answer {
    /// The text of the answer.
    pub chat: String,
    /// The thoughts.
    pub think: String,
    /// The last list of follow-ups.
    pub follow_up: Vec<String>,
    /// Everything that was shown, in order.
    pub events: Vec<Event>,
    /// What was logged.
    pub logged: Vec<(Level, String)>,
    /// How it ended, as the host tells it: with `Closed` it ended well.
    pub result: Result,
}

impl FakeHost {
    /// A host that knows nothing and has no tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// A tool of the turn: JSON in, JSON or its failure out.
    #[must_use]
    pub fn tool(mut self, name: &str, run: impl Fn(Value) -> std::result::Result<Value, ToolError> + 'static) -> Self {
        self.state.tools.insert(name.to_owned(), Rc::new(run));
        self
    }

    /// A fact about the turns.
    #[must_use]
    pub fn fact(mut self, key: &str, value: &str) -> Self {
        self.state.facts.insert(key.to_owned(), value.to_owned());
        self
    }

    /// What was said before.
    #[must_use]
    pub fn history(mut self, messages: impl IntoIterator<Item = Message>) -> Self {
        self.state.history.extend(messages);
        self
    }

    /// The client goes away after so many events of a turn.
    #[must_use]
    pub fn closes_after(mut self, events: usize) -> Self {
        self.state.closes_after = Some(events);
        self
    }

    /// Has the agent answer a text, and keeps both in the history.
    pub fn ask<A: Agent>(&mut self, said: &str) -> Answer {
        self.ask_with::<A>(vec![Message::user(said)])
    }

    /// Has the agent answer any input, and keeps both in the history.
    pub fn ask_with<A: Agent>(&mut self, input: Vec<Message>) -> Answer {
        let turn = Turn { session_id: "session".to_owned(), turn_id: "turn".to_owned(), user_id: None, input };
        HOST.set(Some(self.state.clone()));
        let result = match A::answer(&turn) {
            Err(Error::Closed) => Ok(()),
            other => other,
        };
        let State { events, logged, .. } = HOST.take().unwrap_or_default();
        let mut answer =
            Answer { chat: String::new(), think: String::new(), follow_up: Vec::new(), events, logged, result };
        for event in &answer.events {
            match event {
                Event::Chat(text) => answer.chat.push_str(text),
                Event::Think(text) => answer.think.push_str(text),
                Event::FollowUp(questions) => answer.follow_up.clone_from(questions),
                _ => {}
            }
        }
        self.state.history.extend(turn.input);
        let content = Content::Text(answer.chat.clone());
        self.state.history.push(Message { role: Role::Agent, content });
        answer
    }
}

fn with<T>(act: impl FnOnce(&mut State) -> T) -> T {
    HOST.with_borrow_mut(|host| act(host.as_mut().expect("there is no host here: use FakeHost::ask")))
}

pub(crate) fn emit(event: Event) -> Result {
    with(|host| {
        if host.closes_after.is_some_and(|after| host.events.len() >= after) {
            return Err(Error::Closed);
        }
        host.events.push(event);
        Ok(())
    })
}

pub(crate) fn call(name: &str, args: &str) -> std::result::Result<String, ToolError> {
    let Some(run) = with(|host| host.tools.get(name).cloned()) else {
        return Err(ToolError::new(ToolErrorKind::Unknown, format!("there is no tool `{name}` in this turn")));
    };
    let args = serde_json::from_str(args).map_err(|error| ToolError::shape(&error))?;
    run(args).map(|answer| answer.to_string())
}

pub(crate) fn tools() -> Vec<Tool> {
    let tool = |name: &String| Tool {
        name: name.clone(),
        description: String::new(),
        parameters: Value::Object(serde_json::Map::new()),
    };
    with(|host| host.tools.keys().map(tool).collect())
}

pub(crate) fn history(max: u32) -> Vec<Message> {
    with(|host| {
        let skip = host.history.len().saturating_sub(usize::try_from(max).unwrap_or(usize::MAX));
        host.history.iter().skip(skip).cloned().collect()
    })
}

pub(crate) fn fact(key: &str) -> Option<String> {
    with(|host| host.facts.get(key).cloned())
}

pub(crate) fn facts() -> Vec<String> {
    with(|host| host.facts.keys().cloned().collect())
}

pub(crate) fn log(level: Level, text: &str) {
    with(|host| host.logged.push((level, text.to_owned())));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{call, fail, history, json, last, log, think};

    struct Echo;

    impl Agent for Echo {
        fn answer(turn: &Turn) -> Result {
            think!("{} before, {} of them lately", history().len(), last(1).len())?;
            match turn.text() {
                Some("fail") => return Err(fail!("no {}", 1)),
                Some("number") => drop("x".parse::<u32>()?),
                Some("tool") => {
                    let sum: u64 = call("Add", &json!([1, 2]))?;
                    crate::chat!("{sum}")?;
                }
                Some(text) => crate::chat!("{text} {}", crate::fact("lang").unwrap_or_default())?,
                None => crate::chat!("{} images", turn.images().count())?,
            }
            log(Level::Info, "done");
            crate::follow_up(["more"])
        }
    }

    #[test]
    fn what_an_agent_does_is_kept() {
        let mut host = FakeHost::new().fact("lang", "en").history([Message::agent("hi")]);
        let answer = host.ask::<Echo>("a");
        assert_eq!((answer.chat.as_str(), answer.think.as_str()), ("a en", "1 before, 1 of them lately"));
        assert_eq!(
            (answer.follow_up, answer.logged),
            (vec!["more".to_owned()], vec![(Level::Info, "done".to_owned())])
        );
        assert_eq!(host.ask::<Echo>("b").think, "3 before, 1 of them lately");
        let image = Message { role: Role::User, content: Content::Image("u".to_owned()) };
        assert_eq!(host.ask_with::<Echo>(vec![image]).chat, "1 images");
    }

    #[test]
    fn what_ends_a_turn_early_is_told_apart() {
        assert!(matches!(FakeHost::new().ask::<Echo>("fail").result, Err(Error::Said(text)) if text == "no 1"));
        assert!(matches!(FakeHost::new().ask::<Echo>("number").result, Err(Error::Inner(_))));
        let left = FakeHost::new().closes_after(1).ask::<Echo>("a");
        assert!(left.result.is_ok() && left.chat.is_empty());
    }

    #[test]
    fn tools_take_and_give_what_serde_knows() {
        let add = |args: Value| Ok(json!(args.as_array().map_or(0, |all| all.iter().filter_map(Value::as_u64).sum())));
        assert_eq!(FakeHost::new().tool("Add", add).ask::<Echo>("tool").chat, "3");
        let words = FakeHost::new().tool("Add", |_| Ok(json!("three"))).ask::<Echo>("tool").result;
        assert!(matches!(words, Err(Error::Inner(error)) if error.to_string().contains("another shape")));
        let none = FakeHost::new().ask::<Echo>("tool").result;
        assert!(matches!(none, Err(Error::Inner(error)) if error.to_string() == "there is no tool `Add` in this turn"));
    }
}
