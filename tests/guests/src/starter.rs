//! Never gets as far as `handle`: its initialisation, which runs while the component is instantiated, does not end.

use test_guests::Request;

test_guests::agent!(handle);

/// What a component's toolchain calls at instantiation.
#[unsafe(no_mangle)]
pub extern "C" fn _initialize() {
    loop {
        std::hint::spin_loop();
    }
}

fn handle(_: &Request) -> Result<(), String> {
    Ok(())
}
