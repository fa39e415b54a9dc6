//! `log`, standard output and standard error: what a guest writes for its author goes to the host's log, line by line,
//! bounded, with its control characters made visible.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::{
    cli::{IsTerminal, StdoutStream},
    p2::{OutputStream, Pollable, StreamResult},
};

use super::{Tally, TurnState};
use crate::{
    bindings::log::{Host, Level},
    limit::Limit,
    text,
};

/// The longest line that is logged as one, in bytes; a longer one is cut into several.
const LINE_MAX: usize = 4 * 1024;

/// What a line costs beside its own bytes: the time, the target, and the turn that it stands in.
const LINE_COST: usize = 128;

/// How much one write may hand over, in bytes.
const WRITE_MAX: usize = 64 * 1024;

/// A turn's log. Cloning is shallow.
#[derive(Clone, Debug)]
pub struct GuestLog {
    shared: Arc<Mutex<Budget>>,
    tally: Arc<Tally>,
}

#[derive(Debug)]
struct Budget {
    left: usize,
    limit: usize,
    /// Whether it was said that the rest is dropped.
    said: bool,
}

/// Where a line comes from.
#[derive(Clone, Copy, Debug)]
enum Source {
    Log(Level),
    Stdout,
    Stderr,
}

impl GuestLog {
    /// A log of at most `limit` bytes.
    pub fn new(limit: usize, tally: &Arc<Tally>) -> Self {
        let budget = Budget { left: limit, limit, said: false };
        Self { shared: Arc::new(Mutex::new(budget)), tally: Arc::clone(tally) }
    }

    /// The stream behind standard output.
    pub(super) fn stdout(&self) -> Stdio {
        Stdio { log: self.clone(), source: Source::Stdout, line: Arc::default() }
    }

    /// The stream behind standard error.
    pub(super) fn stderr(&self) -> Stdio {
        Stdio { log: self.clone(), source: Source::Stderr, line: Arc::default() }
    }

    fn write(&self, source: Source, line: &str) {
        let mut rest = line;
        loop {
            let piece = text::head(rest, LINE_MAX);
            let shown = text::visible(piece);
            if !self.take(shown.len()) {
                return;
            }
            say(source, &shown);
            rest = rest.get(piece.len()..).unwrap_or_default();
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Takes what a line costs: its bytes as they are shown, and what stands before them.
    fn take(&self, bytes: usize) -> bool {
        let mut budget = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = budget.left.checked_sub(bytes + LINE_COST) {
            budget.left = left;
            return true;
        }
        if !std::mem::replace(&mut budget.said, true) {
            self.tally.strike(Limit::Log);
            tracing::warn!(target: "guest", "log: this turn logged {} bytes; the rest is dropped", budget.limit);
        }
        budget.left = 0;
        false
    }
}

fn say(source: Source, line: &str) {
    match source {
        Source::Log(Level::Debug) => tracing::debug!(target: "guest", "{line}"),
        Source::Log(Level::Info) => tracing::info!(target: "guest", "{line}"),
        Source::Log(Level::Warn) => tracing::warn!(target: "guest", "{line}"),
        Source::Log(Level::Error) => tracing::error!(target: "guest", "{line}"),
        Source::Stdout => tracing::info!(target: "guest", stream = "stdout", "{line}"),
        Source::Stderr => tracing::warn!(target: "guest", stream = "stderr", "{line}"),
    }
}

impl Host for TurnState {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.log.write(Source::Log(level), &message);
        Ok(())
    }
}

/// One of the two standard streams: gathers bytes to lines.
#[derive(Clone, Debug)]
pub(super) struct Stdio {
    log: GuestLog,
    source: Source,
    line: Arc<Mutex<Vec<u8>>>,
}

impl Stdio {
    fn gather(&self, bytes: &[u8]) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if line.last() == Some(&b'\n') || line.len() >= LINE_MAX {
                self.flush_line(&mut line);
            }
        }
    }

    fn flush_line(&self, line: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        if !text.is_empty() {
            self.log.write(self.source, text);
        }
        line.clear();
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        // The last of the handles to a line that was never ended.
        if Arc::strong_count(&self.line) == 1 {
            let line = Arc::clone(&self.line);
            let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
            if !line.is_empty() {
                self.flush_line(&mut line);
            }
        }
    }
}

impl IsTerminal for Stdio {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stdio {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only asked for by interfaces that are not linked.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Stdio {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.gather(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_MAX)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Stdio {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_takes_what_its_budget_holds_and_no_more() {
        let tally = Arc::new(Tally::default());
        let log = GuestLog::new(2 * (LINE_COST + 4), &tally);
        assert!(log.take(4));
        assert!(log.take(4));
        assert!(!log.take(0), "each line costs more than its bytes");
        assert!(!log.take(0), "and what is over stays over");
        assert_eq!(tally.struck(), [Limit::Log]);
    }
}
