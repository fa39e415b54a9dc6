//! The guests that the tests are served by, as `make test` builds them.

use std::path::{Path, PathBuf};

/// The folder of the examples' built components.
const BUILT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-examples/target/wasm32-wasip2/release");

/// The component of an example or of a test guest.
pub fn path(name: &str) -> PathBuf {
    let found = [format!("{BUILT}/{name}.wasm"), format!("{BUILT}/examples/{name}.wasm")];
    let found = found.iter().map(Path::new).find(|path| path.exists());
    found
        .unwrap_or_else(|| panic!("there is no built guest {name}: run `make test`, or `make examples test-guests`"))
        .to_owned()
}

/// The bytes of a component.
pub fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

/// The same component as another version: with one more custom section, which changes nothing but its hash.
pub fn version_of(name: &str, version: u32) -> Vec<u8> {
    let mut bytes = bytes(name);
    let mark = version.to_be_bytes();
    // Section 0, its size, the size of its name, the name, the content.
    bytes.extend([0, 9, 4]);
    bytes.extend(b"mark");
    bytes.extend(mark);
    bytes
}
