//! What the host logs of the guests' own lines, counted as it is logged. Of the rest nothing is shown: a selftest makes a
//! host warn of many things, and each of them is meant.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context};

/// How long the mark is that a case's lines begin with.
pub(super) const MARK: usize = 16;

/// The lines of guests: how many of each mark, and how many bytes. Cloning is shallow.
#[derive(Clone, Debug, Default)]
pub(super) struct Ear {
    lines: Arc<Mutex<BTreeMap<String, (u64, u64)>>>,
}

impl Ear {
    /// How many lines with this mark were logged, and their bytes.
    pub(super) fn heard(&self, mark: &str) -> (u64, u64) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.get(mark).copied().unwrap_or_default()
    }
}

impl<S: Subscriber> Layer<S> for Ear {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != "guest" {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        // Only the cases' own guests run here, and each marks its lines with its session's name.
        let mark = crate::text::head(&line.0, MARK).to_owned();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, bytes) = lines.entry(mark).or_default();
        *count += 1;
        *bytes += line.0.len() as u64;
    }
}

/// The text of a line.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string cannot fail.
            let _infallible = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn only_lines_of_guests_are_counted_each_by_its_mark() {
        let ear = Ear::default();
        let subscriber = tracing_subscriber::registry().with(ear.clone());
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..2 {
                tracing::info!(target: "guest", "{} and more", "0123456789abcdef");
            }
            tracing::info!("0123456789abcdef of the host");
        });
        assert_eq!(ear.heard("0123456789abcdef"), (2, 50));
        assert_eq!(ear.heard("another"), (0, 0));
    }
}
