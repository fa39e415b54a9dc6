//! Ends the conversation on the glasses.

use test_guests::{Request, call};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    call("notify_agent_off", "");
    Ok(())
}
