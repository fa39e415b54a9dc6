//! Takes a photo and says nothing.

use test_guests::{Request, call};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    call("take_photo", "{}");
    Ok(())
}
