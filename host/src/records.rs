//! What is known of turns once they have ended: usage a day, tenant and agent, for the bill, and crash cards, for the
//! agent's author.
//!
//! Both stand in `records.db` beside the sessions, in a file of their own because money wants a sync for each group of
//! writes and conversations do not. A turn takes note and waits for no disk.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};

use self::thread::{ASKS, Ask, Shared};
use crate::{ids::AgentId, limit::Limit};

mod accounts;
mod cards;
mod open;
mod pending;
mod read;
mod rows;
mod thread;

pub use accounts::{Spent, Sums};
pub use cards::{Card, FAILURES_MAX, Failure, FailureQuery, PREFIX_MIN};
pub use read::Reader;
pub use rows::{USAGE_ROWS_MAX, UsageQuery};

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The agent returned.
    Answered,
    /// The agent returned an error of its own.
    Said,
    /// The guest trapped.
    Trap,
    /// The guest ended its process.
    Exit,
    /// The guest could not be started.
    Start,
    /// A bound ended it.
    Limit(Limit),
    /// A host function panicked.
    Panicked,
    /// The client left.
    Left,
    /// The host went down.
    ShuttingDown,
}

impl Cause {
    /// The names of those that are failures.
    pub const FAILURES: [&str; 7] = ["said", "trap", "exit", "start", "limit", "panic", "shutdown"];

    /// Its name, as metrics and records have it; all limits share one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Said => "said",
            Self::Trap => "trap",
            Self::Exit => "exit",
            Self::Start => "start",
            Self::Limit(_) => "limit",
            Self::Panicked => "panic",
            Self::Left => "left",
            Self::ShuttingDown => "shutdown",
        }
    }

    /// Whether the turn failed: it was not answered, and not because its client left.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Answered | Self::Left)
    }
}

/// One turn that has ended.
#[derive(Clone, Debug)]
pub struct TurnRecord {
    /// The turn's id, which is also its crash card's.
    pub id: String,
    /// Who answered.
    pub agent: AgentId,
    /// The version that did: its component's SHA-256.
    pub version: String,
    /// `mythra` or `lingzhu`.
    pub protocol: &'static str,
    /// When it ended, to the millisecond.
    pub at: jiff::Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The guest's CPU time.
    pub cpu: Duration,
    /// The most linear memory that it held, in bytes.
    pub memory: u64,
    /// Events that were taken.
    pub events: u64,
    /// Bytes of text that were shown.
    pub output: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// How it ended.
    pub cause: Cause,
}

/// What else is known of a failed turn. No text of the user's or of the agent's is in it unless the operator asked.
#[derive(Clone, Debug, Default)]
pub struct Wreck {
    /// Why, in words: for the author and the operator.
    pub detail: String,
    /// The guest's own frames, innermost first.
    pub backtrace: Vec<String>,
    /// The last events, oldest first: their kinds and sizes.
    pub events: Vec<String>,
    /// The last host calls, oldest first, with what came of them.
    pub calls: Vec<String>,
    /// Every bound that was run into, the last one that which ended it if one did.
    pub limits: Vec<Limit>,
    /// What the user said and the agent showed, only where `failures.text` is on.
    pub text: Option<String>,
}

/// A day's sums for one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageRow {
    /// The day in UTC, such as `2026-12-01`.
    pub day: String,
    /// Whose.
    pub tenant: String,
    /// Which agent.
    pub agent: String,
    /// Turns that ended.
    pub turns: u64,
    /// Of those, the failed ones, by [`Cause::name`]; only causes that came up.
    pub failed: BTreeMap<String, u64>,
    /// CPU time in microseconds.
    pub cpu_us: u64,
    /// The most memory of any turn, in bytes.
    pub memory: u64,
    /// Events.
    pub events: u64,
    /// Bytes of text.
    pub output: u64,
    /// Tool calls.
    pub tool_calls: u64,
}

/// How much is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordsConfig {
    /// Crash cards of one agent; the oldest make room.
    pub failures_per_agent: u32,
    /// Crash cards of one tenant; the oldest make room.
    pub failures_per_tenant: u32,
    /// How many days usage and crash cards are kept.
    pub usage_days: u32,
}

impl Default for RecordsConfig {
    /// A hundred cards show what an agent dies of, and a thousand of at most 70 KiB each are what one tenant can fill
    /// of the disk. A bill is asked about for a year, and a month longer.
    fn default() -> Self {
        Self { failures_per_agent: 100, failures_per_tenant: 1000, usage_days: 400 }
    }
}

/// Why the records could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The folder or the file cannot be made.
    #[error("cannot make {path}: {source}\nhint: give the user that runs hostelry write access, or name another folder with `data` or --data", path = .path.display())]
    Make {
        /// The folder or file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is no such file.
    #[error("there is no {path}\nhint: a host keeps it in its data folder; name that with --data, or the host's configuration with --config", path = .path.display())]
    None {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be opened or brought to today's form.
    #[error("cannot open {path}: {source}\nhint: it must be a file that hostelry wrote and this user may use; a host that is stopped begins with no records if it is moved away", path = .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },
    /// The file is of another version of this program.
    #[error("{path} is of version {version}, and this hostelry knows versions 1 to {known}\nhint: run the hostelry that wrote it", path = .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
        /// The newest version that is known here.
        known: i64,
    },
    /// The thread cannot be started.
    #[error("cannot start the records' thread: {0}")]
    Thread(#[source] io::Error),
}

/// The records cannot be read now; why is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the records cannot be read; the log says why")]
pub struct Unreadable;

/// The way to what is known of turns that have ended. Cloning is shallow.
#[derive(Clone)]
pub struct Records {
    shared: Arc<Shared>,
    asks: mpsc::Sender<Ask>,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

impl Records {
    /// Opens `records.db` in the folder `dir`, making both if they are not there, and starts its thread.
    pub fn open(dir: &Path, config: &RecordsConfig) -> Result<Self, RecordsError> {
        let db = open::open(dir)?;
        let fault = |source| RecordsError::Open { path: dir.join(open::FILE), source };
        let accounts = rows::accounts(&db, jiff::Timestamp::now()).map_err(fault)?;
        let shared = Arc::new(Shared::new(accounts));
        let (asks, waiting) = mpsc::channel(ASKS);
        let clock =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(RecordsError::Thread)?;
        let writer = thread::Writer::new(db, config, &shared);
        let serve = move || clock.block_on(writer.serve(waiting));
        // Not joined: `close` hears from the thread when all is written.
        std::thread::Builder::new().name("records".to_owned()).spawn(serve).map_err(RecordsError::Thread)?;
        Ok(Self { shared, asks })
    }

    /// Counts a turn that begins against its tenant's budget.
    pub fn turn_admitted(&self, tenant: &str) {
        self.shared.accounts().admitted(tenant);
    }

    /// Takes note of a turn that has ended, and of what is known of its failure. Waits for no disk.
    pub fn turn_ended(&self, record: &TurnRecord, wreck: Option<Wreck>) {
        self.shared.accounts().ended(record);
        let card = wreck.map(|wreck| Card::new(record, wreck));
        self.shared.pending().add(record, card);
        self.shared.wake.notify_one();
    }

    /// What a tenant has used of its budgets in the day and the month of `now`.
    pub fn spent(&self, tenant: &str, now: jiff::Timestamp) -> Spent {
        self.shared.accounts().spent(tenant, now)
    }

    /// The sums of days, sorted by day, tenant and agent; at most [`USAGE_ROWS_MAX`].
    pub async fn usage(&self, query: UsageQuery) -> Result<Vec<UsageRow>, Unreadable> {
        self.ask(|answer| Ask::Usage(query, answer)).await
    }

    /// Failed turns, the newest first.
    pub async fn failures(&self, query: FailureQuery) -> Result<Vec<Failure>, Unreadable> {
        self.ask(|answer| Ask::Failures(query, answer)).await
    }

    /// The newest crash card whose id is, or begins with, `id`: at least [`PREFIX_MIN`] characters of it.
    pub async fn failure(&self, id: &str) -> Result<Option<Card>, Unreadable> {
        let id = id.to_owned();
        self.ask(|answer| Ask::Failure(id, answer)).await
    }

    /// Writes what waits and ends the thread. What is recorded afterwards is lost.
    pub async fn close(&self) {
        let (closed, done) = oneshot::channel();
        if self.asks.send(Ask::Close(closed)).await.is_ok() && done.await.is_err() {
            tracing::error!("the records ended before they were closed");
        }
    }

    async fn ask<T>(&self, ask: impl FnOnce(thread::Answer<T>) -> Ask) -> Result<T, Unreadable> {
        let (answer, answered) = oneshot::channel();
        self.asks.send(ask(answer)).await.map_err(|_| Unreadable)?;
        answered.await.unwrap_or(Err(Unreadable))
    }
}

#[cfg(test)]
mod tests;
