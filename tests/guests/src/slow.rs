//! Is silent for 9 seconds, then says "late".

use std::{thread, time::Duration};

use test_guests::{Request, chat};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    thread::sleep(Duration::from_secs(9));
    chat("late")
}
