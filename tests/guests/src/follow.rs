//! Says "ok" and proposes two questions, "a" and "b".

use test_guests::{Request, chat, emit, types::Event};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    chat("ok")?;
    emit(&Event::FollowUp(vec!["a".to_owned(), "b".to_owned()]))
}
