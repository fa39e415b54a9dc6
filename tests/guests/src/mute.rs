//! Says nothing at all.

use test_guests::Request;

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    Ok(())
}
