//! Strangers that mean harm, each against the built host: what they try ends within its bound, is told and counted, and
//! nobody else notices.

use crate::support::{host::Host, turn::ask};

mod bombs;
mod child;
mod guests;
mod loading;

/// Checks that everybody else is served.
async fn assert_serves(host: &Host) {
    assert_eq!(ask(host, "echo", "hello").await.text, "hello");
}
