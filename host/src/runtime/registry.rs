//! Which agents are live: one immutable snapshot, replaced whole.
//!
//! A turn keeps the `Arc<CompiledAgent>` it began with, so that replacing or withdrawing an agent never touches a turn
//! that runs.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use jiff::Timestamp;

use super::CompiledAgent;
use crate::ids::AgentId;

mod history;

pub use history::{Ended, VersionRecord};

use history::History;

/// How one plugin stands.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    /// The version that serves, if one does.
    pub live: Option<Arc<CompiledAgent>>,
    /// Why the newest file does not serve, if it does not: in words for its author.
    pub fault: Option<String>,
}

/// All plugins, by agent.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    agents: BTreeMap<AgentId, Standing>,
    /// Files that can be no agent at all, by path within the folder: why.
    strays: BTreeMap<String, String>,
    /// Whether the folder has been looked through once.
    loaded: bool,
}

/// The agents that are live. Cloning is shallow.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    snapshot: Arc<ArcSwap<Snapshot>>,
    /// Beside the snapshot, which is copied at every change.
    history: Arc<Mutex<History>>,
}

impl Registry {
    /// The live version of an agent.
    pub fn get(&self, tenant: &str, agent: &str) -> Option<Arc<CompiledAgent>> {
        let id = AgentId { tenant: tenant.to_owned(), agent: agent.to_owned() };
        self.snapshot.load().agents.get(&id).and_then(|standing| standing.live.clone())
    }

    /// The live agents of a tenant, by name.
    pub fn of_tenant(&self, tenant: &str) -> Vec<Arc<CompiledAgent>> {
        let snapshot = self.snapshot.load();
        let own = snapshot.agents.iter().filter(|(id, _)| id.tenant == tenant);
        own.filter_map(|(_, standing)| standing.live.clone()).collect()
    }

    /// Every plugin and how it stands.
    pub fn standings(&self) -> BTreeMap<AgentId, Standing> {
        self.snapshot.load().agents.clone()
    }

    /// What became of an agent's files, oldest first: the last ones.
    pub fn history(&self, id: &AgentId) -> Vec<VersionRecord> {
        self.past().of(id)
    }

    /// How many agents are live.
    pub fn live(&self) -> usize {
        self.snapshot.load().agents.values().filter(|standing| standing.live.is_some()).count()
    }

    /// The files that can be no agent, by path within the folder, and why.
    pub fn strays(&self) -> BTreeMap<String, String> {
        self.snapshot.load().strays.clone()
    }

    /// Whether the plugins folder has been looked through once.
    pub fn is_loaded(&self) -> bool {
        self.snapshot.load().loaded
    }

    /// Says that the plugins folder has been looked through.
    pub fn set_loaded(&self) {
        self.change(|snapshot| snapshot.loaded = true);
    }

    /// Makes `agent` the live version; the one before it serves the turns that run on it to their end.
    pub fn install(&self, agent: &Arc<CompiledAgent>) {
        self.change(|snapshot| {
            let standing = Standing { live: Some(Arc::clone(agent)), fault: None };
            snapshot.agents.insert(agent.id.clone(), standing);
        });
        self.past().live(&agent.id, &agent.version, Timestamp::now());
    }

    /// Keeps the reason why an agent's newest file, which is this version if it could be read, does not serve. The version
    /// that does goes on.
    pub fn refuse(&self, id: &AgentId, version: Option<&str>, why: &str) {
        self.change(|snapshot| snapshot.agents.entry(id.clone()).or_default().fault = Some(why.to_owned()));
        self.past().refused(id, version, why, Timestamp::now());
    }

    /// Forgets the reason: the file is again the one that serves.
    pub fn clear_fault(&self, id: &AgentId) {
        if self.snapshot.load().agents.get(id).is_none_or(|standing| standing.fault.is_none()) {
            return;
        }
        self.change(|snapshot| {
            if let Some(standing) = snapshot.agents.get_mut(id) {
                standing.fault = None;
            }
        });
        self.past().cleared(id, Timestamp::now());
    }

    /// Withdraws an agent whose file is gone.
    pub fn withdraw(&self, id: &AgentId) {
        self.change(|snapshot| {
            snapshot.agents.remove(id);
        });
        self.past().withdrawn(id, Timestamp::now());
    }

    /// Says which files can be no agent, and why.
    pub fn set_strays(&self, strays: &BTreeMap<String, String>) {
        self.change(|snapshot| snapshot.strays.clone_from(strays));
    }

    fn past(&self) -> std::sync::MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl Fn(&mut Snapshot)) {
        self.snapshot.rcu(|snapshot| {
            let mut next = Snapshot::clone(snapshot);
            change(&mut next);
            next
        });
    }
}
