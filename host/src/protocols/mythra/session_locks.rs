//! One turn at a time in a session, whatever connections it has.
//!
//! A lock lives as long as somebody holds it or waits for it. Nothing here knows of time: who waits says for how long.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::ids::SessionKey;

/// The right to run a session's turn; given back when dropped.
pub(super) type SessionGuard = OwnedMutexGuard<()>;

/// How many locks may lie about before those that nobody holds are looked for.
const SWEEP_FROM: usize = 64;

/// The locks of all sessions that have a turn.
#[derive(Debug, Default)]
pub(super) struct SessionLocks {
    locks: Mutex<Locks>,
}

#[derive(Debug, Default)]
struct Locks {
    by_session: HashMap<[u8; 32], Weak<AsyncMutex<()>>>,
    /// At how many the next sweep is due: twice those that the last one left, so that a sweep costs little on average
    /// and there are never more than twice as many as are in use.
    sweep_at: usize,
}

impl SessionLocks {
    /// The session's lock. Who waits for it gets it in the order of asking.
    pub(super) fn of(&self, session: &SessionKey) -> Arc<AsyncMutex<()>> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        let digest = session.digest();
        if let Some(lock) = locks.by_session.get(&digest).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.by_session.len() >= locks.sweep_at.max(SWEEP_FROM) {
            locks.by_session.retain(|_, lock| lock.strong_count() > 0);
            locks.sweep_at = locks.by_session.len() * 2;
        }
        let lock = Arc::new(AsyncMutex::new(()));
        locks.by_session.insert(digest, Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::ids::AgentId;

    fn session(conversation: &str) -> SessionKey {
        SessionKey {
            agent: AgentId { tenant: "t".to_owned(), agent: "a".to_owned() },
            user: "anon".to_owned(),
            conversation: conversation.to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_has_one_turn_at_a_time_and_another_session_its_own() {
        let locks = SessionLocks::default();
        let wait = Duration::from_secs(30);
        let first = locks.of(&session("s")).lock_owned().await;
        assert!(timeout(wait, locks.of(&session("s")).lock_owned()).await.is_err(), "held");
        assert!(timeout(wait, locks.of(&session("r")).lock_owned()).await.is_ok(), "another session");
        drop(first);
        assert!(timeout(wait, locks.of(&session("s")).lock_owned()).await.is_ok(), "given back");
    }

    #[tokio::test]
    async fn locks_that_nobody_holds_are_swept() {
        let locks = SessionLocks::default();
        let held = locks.of(&session("held")).lock_owned().await;
        for n in 0..10_000 {
            drop(locks.of(&session(&n.to_string())));
        }
        let kept = locks.locks.lock().unwrap().by_session.len();
        assert!(kept <= SWEEP_FROM, "{kept}");
        assert!(locks.of(&session("held")).try_lock().is_err());
        drop(held);
    }
}
