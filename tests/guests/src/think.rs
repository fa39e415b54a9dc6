//! Thinks "let me" and "see", then says "done".

use test_guests::{Request, chat, think};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    think("let me")?;
    think("see")?;
    chat("done")
}
