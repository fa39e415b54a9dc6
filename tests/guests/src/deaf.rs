//! Talks for ever, 50 times a second, and does not hear that the client is gone.

use std::{thread, time::Duration};

use test_guests::{Request, chat};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    loop {
        drop(chat("la "));
        thread::sleep(Duration::from_millis(20));
    }
}
