//! Never returns, and asks the host for nothing.

use test_guests::Request;

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    loop {
        std::hint::spin_loop();
    }
}
