//! The turns of what waits to be compiled: who has one, and what comes of it.

use tokio::task;

use super::{
    Watcher,
    take::{self, Job, Outcome},
};
use crate::runtime::precompile::Compiler;

impl Watcher {
    /// Gives a turn to what waits, as long as there is room.
    pub(super) fn start_compiling(&mut self) {
        while self.compiling.len() < Compiler::at_once() {
            let busy = self.jobs.values().map(|job| job.id.tenant.clone()).collect();
            let Some(id) = self.line.next(&busy) else { return };
            let Some(seen) = self.seen.get(&id) else { continue };
            let Some((print, rules)) = seen.asked.clone() else { continue };
            let job = Job { id, path: seen.path.clone(), print, rules };
            let task = self.compiling.spawn(job.clone().take(self.engine.clone()));
            self.jobs.insert(task.id(), job);
        }
    }

    /// Takes what came of compiling. Tells whether the files have changed meanwhile and are to be looked at again.
    pub(super) fn finish(&mut self, done: Result<(task::Id, Outcome), task::JoinError>) -> bool {
        let (id, outcome) = match done {
            Ok(done) => done,
            Err(error) => (error.id(), take::failed(&error)),
        };
        let Some(job) = self.jobs.remove(&id) else { return false };
        let own = Some((job.print.clone(), job.rules));
        let Some(seen) = self.seen.get_mut(&job.id).filter(|seen| seen.asked == own) else { return true };
        seen.asked = None;
        if seen.print != job.print || matches!(outcome, Outcome::NotYet | Outcome::Unknown(_)) {
            return true;
        }
        self.conclude(job, outcome);
        false
    }
}
