//! What a guest logs and prints, shown to its author as it comes; of the host's own log only what is broken.

use std::fmt::Write as _;

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{EnvFilter, Layer, filter::Targets, layer::Context, layer::SubscriberExt as _};

use super::paper::{BAD, DIM, Paper, WARN};
use crate::text;

/// The target of guests' lines.
const GUEST: &str = "guest";

/// Shows lines on the author's paper.
struct Hear {
    paper: Paper,
}

/// Begins to hear. With `RUST_LOG` the host's log is shown as well, as `serve` would write it.
pub(super) fn start(paper: &Paper, verbose: bool) {
    let guest = if verbose { LevelFilter::DEBUG } else { LevelFilter::INFO };
    let heard = Targets::new().with_target(GUEST, guest).with_target("hostelry", LevelFilter::ERROR);
    let hear = Hear { paper: paper.clone() }.with_filter(heard);
    let asked = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|filter| !filter.trim().is_empty());
    let filter = asked.and_then(|filter| EnvFilter::try_new(filter).ok());
    let log = filter.map(|filter| tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_filter(filter));
    if tracing::subscriber::set_global_default(tracing_subscriber::registry().with(hear).with(log)).is_err() {
        paper.aside("warning: a log is kept already; what the agent logs is not shown here");
    }
}

impl<S: Subscriber> Layer<S> for Hear {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut line = Line::default();
        event.record(&mut line);
        let metadata = event.metadata();
        self.paper.aside(&shown(metadata.target() == GUEST, *metadata.level(), &line));
    }
}

/// A line as the author sees it. A guest's has no character that a terminal obeys; the host saw to that.
fn shown(guest: bool, level: Level, line: &Line) -> String {
    let Line { message, stream } = line;
    if !guest {
        return format!("{BAD}host: {}{BAD:#}", text::visible(message));
    }
    match (stream.as_str(), level) {
        ("", Level::ERROR) => format!("{DIM}  │{DIM:#} {BAD}error:{BAD:#} {DIM}{message}{DIM:#}"),
        ("", Level::WARN) => format!("{DIM}  │{DIM:#} {WARN}warn:{WARN:#} {DIM}{message}{DIM:#}"),
        ("", Level::DEBUG) => format!("{DIM}  │ debug: {message}{DIM:#}"),
        _ => format!("{DIM}  │ {message}{DIM:#}"),
    }
}

/// What a line says, and which of a guest's streams it comes from, if it was printed.
#[derive(Default)]
struct Line {
    message: String,
    stream: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            // Writing to a string cannot fail.
            "message" => {
                let _infallible = write!(self.message, "{value:?}");
            }
            "stream" => {
                let _infallible = write!(self.stream, "{value:?}");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_line_is_plain_unless_it_warns_and_the_hosts_is_told_apart() {
        let plain = |guest, level, stream: &str| {
            let line = Line { message: "hi".to_owned(), stream: stream.to_owned() };
            anstream::adapter::strip_str(&shown(guest, level, &line)).to_string()
        };
        assert_eq!(plain(true, Level::INFO, ""), "  │ hi");
        assert_eq!(plain(true, Level::WARN, ""), "  │ warn: hi");
        assert_eq!(plain(true, Level::WARN, "stderr"), "  │ hi");
        assert_eq!(plain(false, Level::ERROR, ""), "host: hi");
    }
}
