//! The threads that guests run on, and who of those that want CPU time gets the next slice of it.
//!
//! There are two lanes, each with as many threads as the machine has cores. A turn begins in the first, which is a little
//! nicer than the threads that do I/O; one that computes for longer than [`CREDIT`] goes on in the second, which is much
//! nicer, so that a guest that computes delays nobody who only wants to say a word. One that waits for a while earns its
//! way back. In each lane the next slice goes to the tenant that has had the least CPU time in relation to its weight,
//! whatever the number of its turns. Idling earns nothing: who comes back stands level with those who are there.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    future::Future,
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use async_task::Runnable;
use tokio::runtime::Handle;

use super::{Meter, engine::be_nicer};
use crate::tenants::Share;

/// How much CPU time a guest may use at once in the first lane. An ordinary turn of a small agent takes a tenth of it.
pub(super) const CREDIT: Duration = Duration::from_millis(2);

/// Of how much waiting a guest earns how much of that back: one part in so many.
pub(super) const EARNED: u32 = 20;

/// How far behind the others a tenant may fall that always wants more than it gets, in CPU time: what one lane owes it is
/// not all taken from the other at once.
const OWED: Duration = Duration::from_millis(50);

/// How much nicer than the threads that do I/O each lane's are: a client's bytes go before a guest's work, and short work
/// before long. Where both want all, the system gives the second a twentieth of the first's share; `docs/fairness.md` has
/// the figures of this and of other choices.
const NICENESS: [i32; 2] = [5, 19];

/// Where turns run. Cloning is shallow.
#[derive(Clone, Debug)]
pub struct Lanes {
    shared: Arc<Shared>,
}

/// The threads behind [`Lanes`]; they end when this is dropped.
#[derive(Debug)]
pub struct GuestThreads {
    lanes: Lanes,
}

#[derive(Debug)]
struct Shared {
    lanes: [Lane; 2],
    /// The CPU time, in relation to its weight, of the tenant that was served last: who comes back starts from here.
    level: AtomicU64,
}

#[derive(Debug, Default)]
struct Lane {
    queue: Mutex<Queue>,
    ready: Condvar,
}

/// What wants to run, by tenant.
#[derive(Debug, Default)]
struct Queue {
    /// The tenants that have something to run, the one with the least CPU time first.
    order: BTreeSet<(u64, u64)>,
    waiting: BTreeMap<u64, Waiting>,
    stopped: bool,
}

#[derive(Debug)]
struct Waiting {
    share: Arc<Share>,
    /// Its place in the order.
    at: u64,
    tasks: VecDeque<Runnable>,
}

impl GuestThreads {
    /// Starts the threads. Timers and sockets of what runs on them are those of `io`.
    pub fn start(io: &Handle) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { lanes: Default::default(), level: AtomicU64::new(0) });
        let threads = Self { lanes: Lanes { shared } };
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        for (lane, niceness) in NICENESS.into_iter().enumerate() {
            for _ in 0..cores {
                let (shared, io) = (Arc::clone(&threads.lanes.shared), io.clone());
                thread::Builder::new().name(format!("guest-{}", lane + 1)).spawn(move || {
                    be_nicer(niceness);
                    let _entered = io.enter();
                    shared.work(lane);
                })?;
            }
        }
        Ok(threads)
    }

    /// Where to run turns.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }
}

impl Drop for GuestThreads {
    fn drop(&mut self) {
        for lane in &self.lanes.shared.lanes {
            let mut queue = lane.lock();
            queue.stopped = true;
            // What has not run will not; its streams were ended, or the process ends.
            let left = std::mem::take(&mut queue.waiting);
            queue.order.clear();
            drop(queue);
            drop(left);
            lane.ready.notify_all();
        }
    }
}

impl Lanes {
    /// Runs `future`, whose CPU time `meter` counts, to its end.
    pub fn spawn<F>(&self, meter: &Arc<Meter>, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (shared, meter) = (Arc::clone(&self.shared), Arc::clone(meter));
        let schedule = move |task: Runnable| shared.push(&meter, task);
        let (task, handle) = async_task::spawn(future, schedule);
        handle.detach();
        task.schedule();
    }
}

impl Shared {
    /// Puts a task that wants to run into its lane.
    fn push(&self, meter: &Meter, task: Runnable) {
        let [first, second] = &self.lanes;
        let lane = if meter.has_credit() { first } else { second };
        if lane.lock().push(meter.share(), task, self.level.load(Ordering::Relaxed)) {
            lane.ready.notify_one();
        }
    }

    /// What each thread of a lane does.
    fn work(&self, lane: usize) {
        let Some(lane) = self.lanes.get(lane) else { return };
        loop {
            let mut queue = lane.lock();
            let (task, share) = loop {
                if queue.stopped {
                    return;
                }
                match queue.pop() {
                    Some(next) => break next,
                    None => queue = lane.ready.wait(queue).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(queue);
            self.level.fetch_max(share.used(), Ordering::Relaxed);
            // A turn that panics is that turn's own fault, and told by the panic itself; the thread goes on.
            if catch_unwind(AssertUnwindSafe(|| task.run())).is_err() {
                tracing::error!("a turn panicked outside its guest");
            }
            share.leave();
        }
    }
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        // The queue is whole between calls.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Adds a task. A tenant that had none stands no better than `level`, and none much better. Tells whether it was taken.
    fn push(&mut self, share: &Arc<Share>, task: Runnable, level: u64) -> bool {
        if self.stopped {
            return false;
        }
        let owed = u64::try_from(OWED.as_nanos()).unwrap_or(u64::MAX);
        let at = share.raise(if share.enter() { level } else { level.saturating_sub(owed) });
        let id = share.id();
        if let Some(waiting) = self.waiting.get_mut(&id) {
            waiting.tasks.push_back(task);
            return true;
        }
        self.order.insert((at, id));
        self.waiting.insert(id, Waiting { share: Arc::clone(share), at, tasks: VecDeque::from([task]) });
        true
    }

    /// The next task, and whose it is.
    fn pop(&mut self) -> Option<(Runnable, Arc<Share>)> {
        loop {
            let (at, id) = self.order.pop_first()?;
            let waiting = self.waiting.get_mut(&id)?;
            let used = waiting.share.used();
            // It has used more since it took its place: others may stand before it now.
            if used > at && self.order.first().is_some_and(|(first, _)| *first < used) {
                waiting.at = used;
                self.order.insert((used, id));
                continue;
            }
            let (task, share) = (waiting.tasks.pop_front(), Arc::clone(&waiting.share));
            if waiting.tasks.is_empty() {
                self.waiting.remove(&id);
            } else {
                waiting.at = used;
                self.order.insert((used, id));
            }
            if let Some(task) = task {
                return Some((task, share));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A tenant whose tasks do nothing but say its name.
    fn task(name: &'static str, said: &mpsc::Sender<&'static str>) -> Runnable {
        let said = said.clone();
        let (task, handle) = async_task::spawn(async move { said.send(name).unwrap() }, drop);
        handle.detach();
        task
    }

    #[test]
    fn the_tenant_that_had_least_is_next_however_many_tasks_it_has() {
        let (sender, said) = mpsc::channel();
        let (many, one) = (Arc::new(Share::new(100)), Arc::new(Share::new(100)));
        let mut queue = Queue::default();
        for _ in 0..4 {
            assert!(queue.push(&many, task("many", &sender), 0));
        }
        queue.push(&one, task("one", &sender), 0);
        for _ in 0..5 {
            let (task, _) = queue.pop().unwrap();
            task.run();
            let share = if said.try_recv().unwrap() == "many" { &many } else { &one };
            share.charge(1000);
            if share.id() == one.id() {
                queue.push(&one, self::task("one", &sender), 0);
            }
        }
        assert!(many.used().abs_diff(one.used()) <= 1000, "{} {}", many.used(), one.used());
    }

    #[test]
    fn a_weight_of_two_gets_twice_as_much() {
        let (heavy, light) = (Share::new(200), Share::new(100));
        heavy.charge(2000);
        light.charge(1000);
        assert_eq!(heavy.used(), light.used());
    }

    #[test]
    fn who_was_idle_has_saved_nothing() {
        let (sender, _said) = mpsc::channel();
        let share = Arc::new(Share::new(100));
        let mut queue = Queue::default();
        queue.push(&share, task("x", &sender), 5000);
        assert_eq!(share.used(), 5000);
        let (_, popped) = queue.pop().unwrap();
        assert!(queue.pop().is_none());
        // Its other tasks stand where it stands, but not further behind the others than anyone may fall.
        let owed = u64::try_from(OWED.as_nanos()).unwrap();
        queue.push(&share, task("x", &sender), owed + 6000);
        assert_eq!(popped.used(), 6000);
    }
}
