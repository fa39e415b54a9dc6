//! Keeps notes without keeping anything: whatever a session said is in its history, and the notes are read from there.

wit_bindgen::generate!({ path: "../../wit", world: "agent" });

mod order;

use exports::hostelry::agent::handler::Guest;
use hostelry::agent::{
    host::emit_event,
    turn,
    types::{Content, EmitError, Event, Message, Output, Request, Role},
};
use order::{Order, notes};

struct Notes;

export!(Notes);

impl Guest for Notes {
    fn handle(request: Request) -> Result<(), String> {
        // Each turn is a fresh instance, so a `static` would be forgotten. The history is not.
        let mut said = texts(turn::history(u32::MAX));
        said.extend(texts(request.input));
        let chinese = turn::get("lang").is_some_and(|lang| lang.starts_with("zh"));
        say(answer(&said, chinese))
    }
}

/// What the user wrote, oldest first.
fn texts(messages: Vec<Message>) -> Vec<String> {
    let text = |message: Message| match message {
        Message { role: Role::User, content: Content::Text(text) } => Some(text),
        _ => None,
    };
    messages.into_iter().filter_map(text).collect()
}

/// The answer to the last of the texts.
fn answer(said: &[String], chinese: bool) -> String {
    let last = said.last().map(String::as_str).unwrap_or_default();
    let chinese = chinese || order::is_chinese(last);
    let notes = notes(said);
    match Order::of(last) {
        Order::Keep(note) if chinese => format!("记下了：{note}（共 {} 条）", notes.len()),
        Order::Keep(note) => format!("Noted: {note} ({} so far)", notes.len()),
        Order::List if notes.is_empty() => pick(chinese, "No notes yet.", "还没有笔记。"),
        Order::List => {
            let lines = notes.iter().zip(1..).map(|(note, number)| format!("{number}. {note}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        Order::Clear => pick(chinese, "All notes are gone.", "笔记已清空。"),
        Order::Other => pick(
            chinese,
            "I keep notes. Say \"note: milk\" to keep one, \"list\" to see them all, \"clear\" to begin anew.",
            "我会记笔记。说“记: 牛奶”记一条，说“列表”看全部，说“清空”重新开始。",
        ),
    }
}

fn pick(chinese: bool, english: &str, chinese_text: &str) -> String {
    if chinese { chinese_text } else { english }.to_owned()
}

fn say(text: String) -> Result<(), String> {
    emit_event(&Event::Chat(Output::Delta(text))).map_err(|error| match error {
        EmitError::Closed => "the client is gone".to_owned(),
        EmitError::Refused(why) => why,
    })
}

#[cfg(test)]
mod tests {
    use super::answer;

    fn last_answer(said: &[&str]) -> String {
        answer(&said.iter().map(|&text| text.to_owned()).collect::<Vec<_>>(), false)
    }

    #[test]
    fn answers_by_what_was_said_before() {
        assert_eq!(last_answer(&["note: milk"]), "Noted: milk (1 so far)");
        assert_eq!(last_answer(&["note: milk", "hello", "记：茶"]), "记下了：茶（共 2 条）");
        assert_eq!(last_answer(&["note: milk", "记: 茶", "list"]), "1. milk\n2. 茶");
        assert_eq!(last_answer(&["note: milk", "clear", "note: tea", "list"]), "1. tea");
        assert_eq!(last_answer(&["note: milk", "清空", "列表"]), "还没有笔记。");
        assert_eq!(last_answer(&["note: milk", "clear"]), "All notes are gone.");
        assert!(last_answer(&[]).starts_with("I keep notes."));
    }
}
