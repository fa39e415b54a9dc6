//! Calls a device command that no glasses have, and says what came of it: `unknown`.

use test_guests::{Request, chat, host::call_tool, outcome};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    let (kind, _) = outcome(call_tool("send_toast", r#"{"text":"hi"}"#));
    chat(kind)
}
