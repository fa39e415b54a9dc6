//! The one thread that reads and writes the records. It takes all that waits and writes it in one transaction; what the
//! disk does not take goes back to what waits, and is tried again.
//!
//! It writes before it answers, and what it could not write it adds to what it read: an answer has every turn that
//! ended before the question.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{Timestamp, ToSpan as _};
use rusqlite::{Connection, TransactionBehavior};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};

use super::{
    Card, Failure, FailureQuery, RecordsConfig, Unreadable, UsageQuery, UsageRow,
    accounts::{self, Accounts},
    cards,
    pending::Pending,
    rows,
};

/// How many questions may wait; then who asks waits too. Operators ask, not clients.
pub(super) const ASKS: usize = 16;

/// How soon what could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// How often old days and cards are looked for.
const SWEEP_EVERY: Duration = Duration::from_hours(1);

/// How often the log may say that the records do not work.
const FAULT_EVERY: Duration = Duration::from_mins(1);

/// The way back to who asked.
pub(super) type Answer<T> = oneshot::Sender<Result<T, Unreadable>>;

/// What is asked of the thread.
pub(super) enum Ask {
    Usage(UsageQuery, Answer<Vec<UsageRow>>),
    Failures(FailureQuery, Answer<Vec<Failure>>),
    Failure(String, Answer<Option<Card>>),
    /// Write what waits, close the database, and say so.
    Close(oneshot::Sender<()>),
}

/// What turns leave for the thread.
#[derive(Debug)]
pub(super) struct Shared {
    accounts: Mutex<Accounts>,
    pending: Mutex<Pending>,
    /// Something waits to be written.
    pub(super) wake: Notify,
}

impl Shared {
    pub(super) fn new(accounts: Accounts) -> Self {
        Self { accounts: Mutex::new(accounts), pending: Mutex::default(), wake: Notify::new() }
    }

    pub(super) fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread works with.
pub(super) struct Writer {
    db: Connection,
    config: RecordsConfig,
    shared: Arc<Shared>,
    /// When to write again what could not be written.
    retry_at: Option<Instant>,
    sweep_at: Instant,
    faults: Faults,
}

impl Writer {
    pub(super) fn new(db: Connection, config: &RecordsConfig, shared: &Arc<Shared>) -> Self {
        let now = Instant::now();
        let faults = Faults { said: false, quiet_until: now };
        Self { db, config: config.clone(), shared: Arc::clone(shared), retry_at: None, sweep_at: now, faults }
    }

    /// Writes and answers until it is told to close, or nobody is left who could tell.
    pub(super) async fn serve(mut self, mut asks: mpsc::Receiver<Ask>) {
        let closed = loop {
            let next = self.retry_at.map_or(self.sweep_at, |retry_at| retry_at.min(self.sweep_at));
            let ask = tokio::select! {
                ask = asks.recv() => Some(ask),
                () = self.shared.wake.notified() => None,
                () = tokio::time::sleep_until(next) => None,
            };
            if self.retry_at.is_none_or(|retry_at| Instant::now() >= retry_at) {
                self.write();
            }
            if Instant::now() >= self.sweep_at {
                self.sweep();
            }
            match ask {
                None => {}
                Some(Some(Ask::Close(closed))) => break Some(closed),
                Some(Some(ask)) => self.answer(ask),
                Some(None) => break None,
            }
        };
        self.write();
        if !self.shared.pending().is_empty() {
            tracing::error!("the last turns' usage could not be written, and is lost");
        }
        if let Err((_, error)) = self.db.close() {
            tracing::warn!("the records did not close well: {error}");
        }
        if let Some(closed) = closed {
            // Who asked may have gone.
            let _gone = closed.send(());
        }
    }

    /// Writes all that waits.
    fn write(&mut self) {
        let taken = self.shared.pending().take();
        self.retry_at = None;
        if taken.is_empty() {
            return;
        }
        match transaction(&mut self.db, &self.config, &taken) {
            Ok(()) => {
                self.shared.pending().written();
                self.faults.worked();
            }
            Err(error) => {
                self.shared.pending().put_back(taken);
                self.retry_at = Some(Instant::now() + RETRY);
                self.faults.failed(&error);
            }
        }
    }

    fn sweep(&mut self) {
        self.sweep_at = Instant::now() + SWEEP_EVERY;
        let today = accounts::day(Timestamp::now());
        let Ok(first) = today.checked_sub(i64::from(self.config.usage_days).days()) else {
            return;
        };
        let Ok(since) = jiff::tz::TimeZone::UTC.to_timestamp(first.at(0, 0, 0, 0)) else {
            return;
        };
        if let Err(error) = rows::sweep(&self.db, first).and_then(|()| cards::sweep(&self.db, since)) {
            self.faults.failed(&error);
        }
    }

    fn answer(&mut self, ask: Ask) {
        // Copied, so that no turn that ends waits for the disk to be read. There are few, unless the disk has failed.
        match ask {
            Ask::Usage(query, answer) => {
                let waiting: Vec<UsageRow> = self.shared.pending().rows().cloned().collect();
                reply(answer, rows::usage(&self.db, &query, waiting.iter()));
            }
            Ask::Failures(query, answer) => {
                let waiting = self.waiting_cards();
                reply(answer, cards::list(&self.db, &query, waiting.iter().map(|card| &card.failure)));
            }
            Ask::Failure(id, answer) => {
                let waiting = self.waiting_cards();
                reply(answer, cards::find(&self.db, &id, waiting.iter()));
            }
            // Not answered here.
            Ask::Close(_) => {}
        }
    }

    /// The cards that could not be written, the newest first.
    fn waiting_cards(&self) -> Vec<Card> {
        self.shared.pending().cards().rev().cloned().collect()
    }
}

fn reply<T>(answer: Answer<T>, found: rusqlite::Result<T>) {
    let found = found.map_err(|error| {
        tracing::error!("the records cannot be read: {error}");
        Unreadable
    });
    // Who asked may have gone.
    let _gone = answer.send(found);
}

fn transaction(db: &mut Connection, config: &RecordsConfig, taken: &Pending) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for row in taken.rows() {
        rows::add(&transaction, row)?;
    }
    let mut touched = BTreeSet::new();
    for card in taken.cards() {
        cards::add(&transaction, card)?;
        touched.insert((card.failure.tenant.as_str(), card.failure.agent.as_str()));
    }
    cards::prune(&transaction, config, &touched)?;
    transaction.commit()
}

/// Keeps the log short while a disk is full: one line when that begins, one when it is over.
struct Faults {
    said: bool,
    quiet_until: Instant,
}

impl Faults {
    fn failed(&mut self, error: &rusqlite::Error) {
        if !self.said && Instant::now() >= self.quiet_until {
            self.said = true;
            self.quiet_until = Instant::now() + FAULT_EVERY;
            tracing::error!("the records cannot be written, and what turns used is kept in memory: {error}");
        } else {
            tracing::debug!("the records cannot be written: {error}");
        }
    }

    fn worked(&mut self) {
        if std::mem::take(&mut self.said) {
            tracing::info!("the records are written again; nothing of usage was lost");
        }
    }
}
