//! Sleeps for ever.

use std::{thread, time::Duration};

use test_guests::Request;

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    loop {
        thread::sleep(Duration::from_hours(1));
    }
}
