//! {{name}}: says hello, and what was said to it.

use hostelry_agent::{Agent, Result, Turn, chat, export, history};

struct Hello;

export!(Hello);

impl Agent for Hello {
    /// The host calls it once a turn.
    fn answer(turn: &Turn) -> Result {
        chat(if history().is_empty() { "Hello! " } else { "Hello again! " })?;
        match turn.text() {
            Some(text) => chat!("You said: {text}"),
            None => chat("That was no text."),
        }
    }
}

#[cfg(test)]
mod tests {
    use hostelry_agent::{Content, FakeHost, Message, Role};

    use super::*;

    #[test]
    fn says_hello_and_what_was_said() {
        let mut host = FakeHost::new();
        assert_eq!(host.ask::<Hello>("good morning").chat, "Hello! You said: good morning");
        assert_eq!(host.ask::<Hello>("me again").chat, "Hello again! You said: me again");
    }

    #[test]
    fn says_so_if_it_was_no_text() {
        let image = Message { role: Role::User, content: Content::Image("https://h.example/a.png".to_owned()) };
        assert_eq!(FakeHost::new().ask_with::<Hello>(vec![image]).chat, "Hello! That was no text.");
    }
}
