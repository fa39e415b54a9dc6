//! What counts a guest's CPU time: only while it is being polled, by the thread's own clock, so that neither waiting nor
//! a busy machine is charged to it.

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

use super::engine::{TICK, Ticker};

/// One turn's CPU time.
#[derive(Debug)]
pub struct Meter {
    limit: u64,
    /// Nanoseconds of the polls that are over.
    used: AtomicU64,
    /// The thread's clock when the poll that runs began.
    began: AtomicU64,
}

/// What a running guest may do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Slice {
    /// Go on: its slice has only begun.
    Goes,
    /// Let others run.
    Over,
    /// Its time is used up.
    Spent,
}

impl Meter {
    /// Nothing used of `limit` yet.
    pub fn new(limit: Duration) -> Self {
        Self { limit: nanos(limit), used: AtomicU64::new(0), began: AtomicU64::new(0) }
    }

    /// The CPU time of all polls that are over.
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }

    /// Asked at a tick, by the thread that the guest runs on.
    pub fn slice(&self) -> Slice {
        let running = now().saturating_sub(self.began.load(Ordering::Relaxed));
        if self.used.load(Ordering::Relaxed).saturating_add(running) > self.limit {
            Slice::Spent
        } else if running >= nanos(TICK) {
            Slice::Over
        } else {
            Slice::Goes
        }
    }

    /// Runs `guest`, counting each of its polls.
    pub async fn count<F: Future>(&self, ticker: &Ticker, guest: F) -> F::Output {
        let mut guest = pin!(guest);
        std::future::poll_fn(|cx| {
            let _poll = Poll::enter(self, ticker);
            guest.as_mut().poll(cx)
        })
        .await
    }
}

/// A poll that runs; counted when dropped, be it by a panic.
struct Poll<'a> {
    meter: &'a Meter,
    ticker: &'a Ticker,
    began: u64,
}

impl<'a> Poll<'a> {
    fn enter(meter: &'a Meter, ticker: &'a Ticker) -> Self {
        let began = now();
        meter.began.store(began, Ordering::Relaxed);
        ticker.enter();
        Self { meter, ticker, began }
    }
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        self.ticker.leave();
        self.meter.used.fetch_add(now().saturating_sub(self.began), Ordering::Relaxed);
    }
}

/// The CPU time of this thread so far, in nanoseconds.
fn now() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
