//! The host's log: lines on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts the log: what `level` lets through, or what the filter in `RUST_LOG` does if it is set.
pub fn start(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(format!("warn,hostelry={level},guest={level}")));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
