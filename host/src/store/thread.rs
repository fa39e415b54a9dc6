//! The one thread that reads and writes the database: it takes what waits, in order, and does it in one transaction, so
//! that many turns at once cost one commit.
//!
//! Nothing is answered before it is committed. When a transaction fails, each of its jobs is tried again alone, so that
//! one which cannot be done takes no other with it.

use std::time::Duration;

use arc_swap::ArcSwap;
use rusqlite::{Connection, TransactionBehavior};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    Bounds,
    turns::{self, now},
};

/// How many jobs may wait; then who asks waits too. A job holds a turn's kept messages or a file, so what waits is
/// bounded in bytes as well.
pub(super) const QUEUE: usize = 256;

/// How often idle sessions are looked for.
const SWEEP_EVERY: Duration = Duration::from_mins(1);

/// When a sweep left some over, how soon the next one is: in between, turns have their way.
const SWEEP_AGAIN: Duration = Duration::from_millis(100);

/// How often the log may say that the store does not work.
const FAULT_EVERY: Duration = Duration::from_mins(1);

/// Something to do with the database.
pub(super) trait Work: Send {
    /// Whether it changes anything.
    fn writes(&self) -> bool;
    /// Does it, inside a transaction. May be called again after the transaction failed.
    fn run(&mut self, db: &Connection) -> rusqlite::Result<()>;
    /// Says what came of it, once that is committed. Not called if it failed.
    fn done(self: Box<Self>);
}

/// What waits for the thread.
pub(super) enum Job {
    Work(Box<dyn Work>),
    /// Do what waits, take no more, close the database, and say so.
    Close(oneshot::Sender<()>),
}

/// Serves `jobs` until they are closed.
pub(super) async fn serve(mut db: Connection, bounds: &ArcSwap<Bounds>, mut jobs: mpsc::Receiver<Job>) {
    let mut faults = Faults { lost: 0, said: false, quiet_until: Instant::now() };
    let mut sweep_at = Instant::now();
    let mut waiting = Vec::with_capacity(QUEUE);
    let mut closing = Vec::new();
    loop {
        let taken = tokio::time::timeout_at(sweep_at, jobs.recv_many(&mut waiting, QUEUE)).await;
        if taken == Ok(0) {
            break;
        }
        let mut works = Vec::with_capacity(waiting.len());
        for job in waiting.drain(..) {
            match job {
                Job::Work(work) => works.push(work),
                Job::Close(closed) => {
                    jobs.close();
                    closing.push(closed);
                }
            }
        }
        group(&mut db, works, &mut faults);
        if Instant::now() >= sweep_at {
            let more = turns::sweep(&db, &bounds.load(), now());
            let more = more.inspect_err(|error| faults.failed(error)).unwrap_or(false);
            sweep_at = Instant::now() + if more { SWEEP_AGAIN } else { SWEEP_EVERY };
        }
    }
    if let Err((_, error)) = db.close() {
        tracing::warn!("the session store did not close well: {error}");
    }
    for closed in closing {
        // Who asked may have gone.
        let _gone = closed.send(());
    }
}

/// Does `works` in one transaction, or, where that fails, each in one of its own.
fn group(db: &mut Connection, mut works: Vec<Box<dyn Work>>, faults: &mut Faults) {
    if works.is_empty() {
        return;
    }
    match transaction(db, &mut works) {
        Ok(()) => finish(works, faults),
        Err(error) if works.len() == 1 => faults.failed(&error),
        Err(_) => {
            for work in works {
                let mut alone = vec![work];
                match transaction(db, &mut alone) {
                    Ok(()) => finish(alone, faults),
                    Err(error) => faults.failed(&error),
                }
            }
        }
    }
}

fn transaction(db: &mut Connection, works: &mut [Box<dyn Work>]) -> rusqlite::Result<()> {
    let writes = works.iter().any(|work| work.writes());
    let behavior = if writes { TransactionBehavior::Immediate } else { TransactionBehavior::Deferred };
    let transaction = db.transaction_with_behavior(behavior)?;
    for work in works {
        work.run(&transaction)?;
    }
    transaction.commit()
}

fn finish(works: Vec<Box<dyn Work>>, faults: &mut Faults) {
    if works.iter().any(|work| work.writes()) {
        faults.worked();
    }
    works.into_iter().for_each(Work::done);
}

/// Keeps the log short while a disk is full: one line when that begins, one when it is over.
struct Faults {
    lost: u64,
    said: bool,
    quiet_until: Instant,
}

impl Faults {
    fn failed(&mut self, error: &rusqlite::Error) {
        self.lost += 1;
        if !self.said && Instant::now() >= self.quiet_until {
            self.said = true;
            self.quiet_until = Instant::now() + FAULT_EVERY;
            tracing::error!("the session store failed, and turns go on without it: {error}");
        } else {
            tracing::debug!("the session store failed: {error}");
        }
    }

    fn worked(&mut self) {
        if std::mem::take(&mut self.said) {
            let lost = std::mem::take(&mut self.lost);
            tracing::info!(lost, "the session store works again");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Writes a number into a table, or fails; notes that it was done.
    struct Note(i64, Arc<Mutex<Vec<i64>>>);

    impl Work for Note {
        fn writes(&self) -> bool {
            true
        }
        fn run(&mut self, db: &Connection) -> rusqlite::Result<()> {
            db.execute("INSERT INTO numbers VALUES (?1)", [self.0]).map(drop)
        }
        fn done(self: Box<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn a_job_that_fails_takes_no_other_with_it() {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE numbers (n INTEGER CHECK (n > 0))").unwrap();
        let done = Arc::new(Mutex::new(Vec::new()));
        let works = [1, 2, -3, 4].map(|n| Box::new(Note(n, Arc::clone(&done))) as Box<dyn Work>);
        let mut faults = Faults { lost: 0, said: false, quiet_until: Instant::now() };
        group(&mut db, works.into(), &mut faults);
        assert_eq!(*done.lock().unwrap(), [1, 2, 4]);
        let sum: i64 = db.query_row("SELECT sum(n) FROM numbers", [], |row| row.get(0)).unwrap();
        assert_eq!(sum, 7, "and none is done twice");
        assert_eq!((faults.lost, faults.said), (0, false), "it works again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_disk_is_said_once_and_not_for_each_turn() {
        let error = rusqlite::Error::InvalidQuery;
        let mut faults = Faults { lost: 0, said: false, quiet_until: Instant::now() };
        faults.failed(&error);
        faults.failed(&error);
        assert_eq!((faults.lost, faults.said), (2, true));
        faults.worked();
        faults.failed(&error);
        assert_eq!((faults.lost, faults.said), (1, false), "on and off is said once a minute");
        tokio::time::advance(FAULT_EVERY).await;
        faults.failed(&error);
        assert!(faults.said);
    }
}
