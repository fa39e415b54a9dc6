//! Says "x" and traps.

use test_guests::{Request, chat};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    chat("x")?;
    core::arch::wasm32::unreachable()
}
