//! Ends with the error "x".

use test_guests::Request;

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    Err("x".to_owned())
}
