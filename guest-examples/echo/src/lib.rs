//! Says back what it is told, in two pieces: a whole agent in one small file.

wit_bindgen::generate!({ path: "../../wit", world: "agent" });

use exports::hostelry::agent::handler::Guest;
use hostelry::agent::{
    host::emit_event,
    types::{Content, EmitError, Event, Message, Output, Request},
};

struct Echo;

export!(Echo);

impl Guest for Echo {
    fn handle(request: Request) -> Result<(), String> {
        let (first, second) = halves(&answer(&request.input));
        say(first)?;
        say(second)
    }
}

/// The last text of the input; an input without text is answered too, with what else it holds.
fn answer(input: &[Message]) -> String {
    let text = input.iter().rfind(|message| matches!(message.content, Content::Text(_)));
    match text.or(input.last()).map(|message| &message.content) {
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Image(url)) => format!("(an image: {})", shortened(url)),
        Some(Content::File(file)) => format!("(a file: {})", shortened(&file.url)),
        None => "(nothing)".to_owned(),
    }
}

/// A data URL can be megabytes long.
fn shortened(url: &str) -> String {
    const MOST: usize = 60;
    match url.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", url.split_at(end).0),
        None => url.to_owned(),
    }
}

/// Cut in the middle, between two characters: a `String` is UTF-8, where 好 is three bytes.
fn halves(text: &str) -> (String, String) {
    let middle = text.chars().count() / 2;
    (text.chars().take(middle).collect(), text.chars().skip(middle).collect())
}

/// Shows a piece of the answer. That is all it takes: the host opens the stream, closes it, and ends the turn.
fn say(piece: String) -> Result<(), String> {
    if piece.is_empty() {
        return Ok(());
    }
    emit_event(&Event::Chat(Output::Delta(piece))).map_err(|error| match error {
        EmitError::Closed => "the client is gone".to_owned(),
        EmitError::Refused(why) => why,
    })
}

#[cfg(test)]
mod tests {
    use super::{halves, shortened};

    #[test]
    fn cuts_between_characters() {
        for (text, first, second) in [("你好", "你", "好"), ("你好。", "你", "好。"), ("a", "", "a"), ("", "", "")]
        {
            assert_eq!(halves(text), (first.to_owned(), second.to_owned()));
        }
    }

    #[test]
    fn shortens_long_urls() {
        assert_eq!(shortened("https://h.example/a.webp"), "https://h.example/a.webp");
        assert_eq!(shortened(&"你".repeat(61)), format!("{}…", "你".repeat(60)));
    }
}
