//! A journal: keeps what it is told in a file of the session's workspace, and reads it back.

use hostelry_agent::{
    Agent, Message, Result, Role, ToolError, ToolErrorKind, Turn, Value, call, chat, export, fail, follow_up, history,
    think,
};
use serde::{Deserialize, Serialize};

const JOURNAL: &str = "journal.md";

struct Journal;

export!(Journal);

/// What the workspace's tools take.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Write {
    file_path: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    content: String,
}

/// What they give.
#[derive(Deserialize)]
struct File {
    content: String,
}

impl Agent for Journal {
    fn answer(turn: &Turn) -> Result {
        let Some(text) = turn.text().map(str::trim) else { return chat("I keep words only.") };
        let before: Vec<Message> = history().into_iter().filter(|message| message.role == Role::User).collect();
        think!("Entry {}.", before.len() + 1)?;
        match text {
            "read" => read()?,
            "before" => recall(&before)?,
            "fail" => return Err(fail!("You asked me to fail.")),
            text => keep(text)?,
        }
        follow_up(["read", "before"])
    }
}

/// What the journal holds.
fn load() -> std::result::Result<String, ToolError> {
    call::<File>("ReadFile", &Write { file_path: JOURNAL, content: String::new() }).map(|file| file.content)
}

fn read() -> Result {
    match load() {
        Ok(content) => content.lines().zip(1..).try_for_each(|(line, number)| chat!("{number}. {line}\n")),
        Err(error) if error.kind == ToolErrorKind::InvalidArgs => chat("The journal is empty."),
        Err(error) => chat!("I cannot read the journal: {error}"),
    }
}

fn recall(before: &[Message]) -> Result {
    let said: Vec<&str> = before.iter().filter_map(Message::text).collect();
    if said.is_empty() { chat("You said nothing before.") } else { chat!("Before this you said: {}", said.join("; ")) }
}

fn keep(text: &str) -> Result {
    let content = match load() {
        Ok(content) => content,
        Err(error) if error.kind == ToolErrorKind::InvalidArgs => String::new(),
        Err(error) => return chat!("I cannot keep that: {error}"),
    };
    let entry = Write { file_path: JOURNAL, content: format!("{content}{text}\n") };
    if let Err(error) = call::<Value>("WriteFile", &entry) {
        return chat!("I cannot keep that: {error}");
    }
    chat("Kept:")?;
    text.split_whitespace().try_for_each(|word| chat!(" {word}"))?;
    chat(".")
}

// Natively, where there is a fake host.
#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use std::cell::RefCell;

    use hostelry_agent::{Content, Error, Event, FakeHost, json};

    use super::*;

    /// A host with the workspace's two tools that the journal calls.
    fn workspace() -> FakeHost {
        let file = std::rc::Rc::new(RefCell::new(None));
        let kept = std::rc::Rc::clone(&file);
        FakeHost::new()
            .tool("ReadFile", move |_| match &*file.borrow() {
                Some(content) => Ok(json!({ "content": content })),
                None => Err(ToolError::new(ToolErrorKind::InvalidArgs, "filePath: there is no such file")),
            })
            .tool("WriteFile", move |args| {
                *kept.borrow_mut() = args["content"].as_str().map(str::to_owned);
                Ok(json!({ "status": "written" }))
            })
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let mut host = workspace();
        assert_eq!(host.ask::<Journal>("read").chat, "The journal is empty.");
        assert_eq!(host.ask::<Journal>(" buy  milk ").chat, "Kept: buy milk.");
        assert_eq!(host.ask::<Journal>("喝茶").chat, "Kept: 喝茶.");
        let answer = host.ask::<Journal>("read");
        assert_eq!(answer.chat, "1. buy  milk\n2. 喝茶\n");
        assert_eq!(answer.events.first(), Some(&Event::Think("Entry 4.".to_owned())));
        assert_eq!(answer.follow_up, ["read", "before"]);
    }

    #[test]
    fn what_was_said_before_is_remembered() {
        let mut host = workspace();
        assert_eq!(host.ask::<Journal>("before").chat, "You said nothing before.");
        assert_eq!(host.ask::<Journal>("before").chat, "Before this you said: before");
    }

    #[test]
    fn a_tool_that_fails_is_told_in_its_own_words() {
        let denied = |_| Err(ToolError::new(ToolErrorKind::Denied, "not granted"));
        let mut host = FakeHost::new().tool("ReadFile", denied);
        assert_eq!(host.ask::<Journal>("read").chat, "I cannot read the journal: not granted");
        assert_eq!(host.ask::<Journal>("tea").chat, "I cannot keep that: not granted");
    }

    #[test]
    fn a_turn_ends_as_it_must() {
        let image = Message { role: Role::User, content: Content::Image("https://h.example/a.png".to_owned()) };
        assert_eq!(FakeHost::new().ask_with::<Journal>(vec![image]).chat, "I keep words only.");
        let failed = FakeHost::new().ask::<Journal>("fail").result;
        assert!(matches!(failed, Err(Error::Said(text)) if text == "You asked me to fail."));
        assert_eq!(workspace().closes_after(2).ask::<Journal>("a b c").chat, "Kept:");
    }
}
