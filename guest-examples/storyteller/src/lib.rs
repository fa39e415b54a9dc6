//! Thinks for a moment, then tells a short story in many small pieces: how an agent streams.

wit_bindgen::generate!({ path: "../../wit", world: "agent" });

mod story;

use std::{thread, time::Duration};

use exports::hostelry::agent::handler::Guest;
use hostelry::agent::{
    host::emit_event,
    turn,
    types::{Content, EmitError, Event, Output, Request},
};
use story::Story;

/// About the pace of a model.
const PAUSE: Duration = Duration::from_millis(30);

struct Storyteller;

export!(Storyteller);

impl Guest for Storyteller {
    fn handle(request: Request) -> Result<(), String> {
        let text = request.input.iter().rev().find_map(|message| match &message.content {
            Content::Text(text) => Some(text.as_str()),
            Content::Image(_) | Content::File(_) => None,
        });
        let story = Story::about(text.unwrap_or_default(), turn::get("lang").as_deref());

        // A delta opens its stream, and the first delta of the answer closes the thoughts. Both events could be
        // sent around them by hand (`Output::Start`, `Output::End`); the host does it as well.
        for thought in story.thoughts() {
            show(&Event::Think(Output::Delta(thought)))?;
        }
        for piece in story.pieces() {
            show(&Event::Chat(Output::Delta(piece)))?;
        }
        Ok(())
    }
}

/// Shows an event, and takes a breath. An event that was not taken ends the story: there is nobody left to listen, or
/// a limit of the host is reached.
fn show(event: &Event) -> Result<(), String> {
    emit_event(event).map_err(|error| match error {
        EmitError::Closed => "the client is gone".to_owned(),
        EmitError::Refused(why) => why,
    })?;
    thread::sleep(PAUSE);
    Ok(())
}
