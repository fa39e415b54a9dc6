//! Talks for ever and takes no notice of refusals; only the client's leaving stops it.

use test_guests::{
    Request,
    host::emit_event,
    types::{EmitError, Event, Output},
};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    let delta = Event::Chat(Output::Delta("flood ".to_owned()));
    while !matches!(emit_event(&delta), Err(EmitError::Closed)) {}
    Err("closed".to_owned())
}
