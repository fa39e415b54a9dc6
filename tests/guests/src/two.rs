//! Says "two": with `one`, what a file holds before and after it is replaced.

use test_guests::{Request, chat};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    chat("two")
}
