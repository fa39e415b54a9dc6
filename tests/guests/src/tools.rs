//! Writes a file with the tool `WriteFile` and says what came of it: `ok`, `denied`, `unknown`, ….

use test_guests::{Request, chat, host::call_tool, outcome};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    let (kind, _) = outcome(call_tool("WriteFile", r#"{"filePath":"/markdown/a.md"}"#));
    chat(kind)
}
