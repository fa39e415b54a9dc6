//! The host's log: lines on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Libraries that would log what clients say, keys included, were they let to: no filter lets them.
const QUIET: [&str; 2] = ["tungstenite=info", "tokio_tungstenite=info"];

/// Starts the log: what `level` lets through, or what the filter in `RUST_LOG` does if it is set.
pub fn start(level: &str) {
    let asked = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|filter| !filter.trim().is_empty());
    let (mut filter, wrong) = match asked.as_ref().map(EnvFilter::try_new) {
        Some(Ok(filter)) => (filter, None),
        Some(Err(wrong)) => (default(level), Some(wrong)),
        None => (default(level), None),
    };
    for quiet in QUIET {
        if let Ok(directive) = quiet.parse() {
            filter = filter.add_directive(directive);
        }
    }
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    if let Some(wrong) = wrong {
        tracing::warn!("RUST_LOG is no filter, and is left out: {wrong}");
    }
}

fn default(level: &str) -> EnvFilter {
    EnvFilter::new(format!("warn,hostelry={level},guest={level}"))
}
