//! What counts a guest's CPU time: only while it is being polled, by the thread's own clock, so that neither waiting nor
//! a busy machine is charged to it. What it counts is charged to the guest's tenant, and tells the lane that it runs in.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::time::{ClockId, clock_gettime};

use super::{
    engine::{TICK, Ticker},
    lanes::{CREDIT, EARNED},
};
use crate::tenants::Share;

/// One turn's CPU time.
#[derive(Debug)]
pub struct Meter {
    limit: u64,
    /// Whose time it is.
    share: Arc<Share>,
    /// Nanoseconds of the polls that are over.
    used: AtomicU64,
    /// The thread's clock when the poll that runs began.
    began: AtomicU64,
    /// Nanoseconds that the guest may still run in the first lane.
    credit: AtomicI64,
    /// Whether the poll that runs ends because its slice is over, and not because the guest waits.
    yielded: AtomicBool,
    /// The wall clock when the guest began to wait; 0 while it does not.
    waiting_since: AtomicU64,
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
    /// Nothing used yet of `limit`; what will be is charged to `share`.
    pub fn new(limit: Duration, share: Arc<Share>) -> Self {
        Self {
            limit: nanos(limit),
            share,
            used: AtomicU64::new(0),
            began: AtomicU64::new(0),
            credit: AtomicI64::new(signed(nanos(CREDIT))),
            yielded: AtomicBool::new(false),
            waiting_since: AtomicU64::new(0),
        }
    }

    /// The CPU time of all polls that are over.
    pub fn used(&self) -> Duration {
        Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }

    /// Whose time it is.
    pub fn share(&self) -> &Arc<Share> {
        &self.share
    }

    /// Asked at a tick, by the thread that the guest runs on.
    pub fn slice(&self) -> Slice {
        let running = thread_time().saturating_sub(self.began.load(Ordering::Relaxed));
        if self.used.load(Ordering::Relaxed).saturating_add(running) > self.limit {
            Slice::Spent
        } else if running >= nanos(TICK) {
            self.yielded.store(true, Ordering::Relaxed);
            Slice::Over
        } else {
            Slice::Goes
        }
    }

    /// Whether the guest may run in the first lane now. Asked when it wants to run: what it has waited until then earns
    /// some of its credit back.
    pub(super) fn has_credit(&self) -> bool {
        let since = self.waiting_since.swap(0, Ordering::Relaxed);
        if since > 0 {
            let earned = wall_time().saturating_sub(since) / u64::from(EARNED);
            let credit = self.credit.load(Ordering::Relaxed).saturating_add(signed(earned));
            self.credit.store(credit.min(signed(nanos(CREDIT))), Ordering::Relaxed);
        }
        self.credit.load(Ordering::Relaxed) > 0
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
        let began = thread_time();
        meter.began.store(began, Ordering::Relaxed);
        meter.yielded.store(false, Ordering::Relaxed);
        ticker.enter();
        Self { meter, ticker, began }
    }
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        self.ticker.leave();
        let took = thread_time().saturating_sub(self.began);
        self.meter.used.fetch_add(took, Ordering::Relaxed);
        self.meter.credit.fetch_sub(signed(took), Ordering::Relaxed);
        self.meter.share.charge(took);
        if !self.meter.yielded.load(Ordering::Relaxed) {
            self.meter.waiting_since.store(wall_time(), Ordering::Relaxed);
        }
    }
}

/// The CPU time of this thread so far, in nanoseconds.
fn thread_time() -> u64 {
    clock(ClockId::ThreadCPUTime)
}

/// A clock that only goes on, in nanoseconds.
fn wall_time() -> u64 {
    clock(ClockId::Monotonic)
}

fn clock(id: ClockId) -> u64 {
    let time = clock_gettime(id);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let rest = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter() -> Meter {
        Meter::new(Duration::from_secs(1), Arc::new(Share::new(100)))
    }

    #[test]
    fn a_guest_that_computes_leaves_the_first_lane_and_one_that_waits_comes_back() {
        let meter = meter();
        assert!(meter.has_credit());
        meter.credit.fetch_sub(signed(nanos(CREDIT)), Ordering::Relaxed);
        assert!(!meter.has_credit());
        // Waiting in the queue after its slice earns nothing, waiting for something does.
        meter.waiting_since.store(0, Ordering::Relaxed);
        assert!(!meter.has_credit());
        meter.waiting_since.store(wall_time() - nanos(Duration::from_secs(1)), Ordering::Relaxed);
        assert!(meter.has_credit());
        assert_eq!(meter.credit.load(Ordering::Relaxed), signed(nanos(CREDIT)), "no more than it had");
    }
}
