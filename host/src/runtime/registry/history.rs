//! What became of each agent's files: the last versions of each, when they served, and why they ended or never began.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;

use crate::{ids::AgentId, text};

/// How many versions of one agent are remembered.
const VERSIONS_MAX: usize = 20;

/// How many agents' versions are remembered. Beyond it the tenant with the most loses those of the agent that has been
/// left alone for longest: they cost 10 KiB each at most, and nobody's are another's to push out.
const AGENTS_MAX: usize = 5_000;

/// How much of a fault is remembered: the whole is in the log.
const FAULT_MAX: usize = 512;

/// One version of an agent, or one file that could have been one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRecord {
    /// The SHA-256 of its component; nothing if the file could not be read.
    pub version: Option<String>,
    /// When it went live, or was refused.
    pub since: Timestamp,
    /// When it was followed by another file, or by none.
    pub until: Option<Timestamp>,
    /// What it was followed by.
    pub ended: Option<Ended>,
    /// Why it never served, if it did not.
    pub fault: Option<String>,
}

/// What a version was followed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Another version went live.
    Replaced,
    /// Its file went away.
    Withdrawn,
    /// A refused file was followed by another one.
    Superseded,
}

impl Ended {
    /// Its name, as the admin listener has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replaced => "replaced",
            Self::Withdrawn => "withdrawn",
            Self::Superseded => "superseded",
        }
    }
}

/// All that is remembered.
#[derive(Debug, Default)]
pub(super) struct History {
    agents: BTreeMap<AgentId, VecDeque<VersionRecord>>,
}

impl History {
    /// What is remembered of an agent, oldest first.
    pub(super) fn of(&self, id: &AgentId) -> Vec<VersionRecord> {
        self.agents.get(id).into_iter().flatten().cloned().collect()
    }

    /// A version went live.
    pub(super) fn live(&mut self, id: &AgentId, version: &str, now: Timestamp) {
        self.end(id, now, |fault| if fault { Ended::Superseded } else { Ended::Replaced });
        self.add(
            id,
            VersionRecord { version: Some(version.to_owned()), since: now, until: None, ended: None, fault: None },
        );
    }

    /// A file was refused; what serves goes on.
    pub(super) fn refused(&mut self, id: &AgentId, version: Option<&str>, why: &str, now: Timestamp) {
        self.cleared(id, now);
        let (version, fault) = (version.map(str::to_owned), Some(text::head(why, FAULT_MAX).to_owned()));
        self.add(id, VersionRecord { version, since: now, until: None, ended: None, fault });
    }

    /// The file that was refused is gone: the one that serves is back in its place.
    pub(super) fn cleared(&mut self, id: &AgentId, now: Timestamp) {
        for record in self.agents.get_mut(id).into_iter().flatten() {
            if record.fault.is_some() {
                record.end(Ended::Superseded, now);
            }
        }
    }

    /// The agent's file is gone.
    pub(super) fn withdrawn(&mut self, id: &AgentId, now: Timestamp) {
        self.end(id, now, |_| Ended::Withdrawn);
    }

    /// Ends whatever of an agent goes on; `how` is asked with whether it is a refused file.
    fn end(&mut self, id: &AgentId, now: Timestamp, how: impl Fn(bool) -> Ended) {
        for record in self.agents.get_mut(id).into_iter().flatten() {
            record.end(how(record.fault.is_some()), now);
        }
    }

    fn add(&mut self, id: &AgentId, record: VersionRecord) {
        if !self.agents.contains_key(id) && self.agents.len() >= AGENTS_MAX {
            self.make_room();
        }
        let records = self.agents.entry(id.clone()).or_default();
        if records.len() >= VERSIONS_MAX {
            // The one that serves is never the one to go, however many files were refused over it.
            let oldest = records.iter().position(|record| record.until.is_some()).unwrap_or(0);
            records.remove(oldest);
        }
        records.push_back(record);
    }

    fn make_room(&mut self) {
        let mut counts = BTreeMap::<&str, usize>::new();
        for id in self.agents.keys() {
            *counts.entry(&id.tenant).or_default() += 1;
        }
        let Some((largest, _)) = counts.into_iter().max_by_key(|(_, count)| *count) else { return };
        let own = self.agents.iter().filter(|(id, _)| id.tenant == largest);
        let oldest = own.min_by_key(|(_, records)| records.back().map(|record| record.until.unwrap_or(record.since)));
        if let Some(id) = oldest.map(|(id, _)| id.clone()) {
            self.agents.remove(&id);
        }
    }
}

impl VersionRecord {
    fn end(&mut self, how: Ended, now: Timestamp) {
        if self.until.is_none() {
            self.until = Some(now);
            self.ended = Some(how);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(tenant: &str, agent: &str) -> AgentId {
        AgentId { tenant: tenant.to_owned(), agent: agent.to_owned() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A history in short: version, since, until, how it ended, and its fault.
    fn short(history: &History, id: &AgentId) -> Vec<String> {
        let record = |record: VersionRecord| {
            let until = record.until.map_or(String::new(), |until| until.as_second().to_string());
            let ended = record.ended.map_or("", Ended::name);
            let version = record.version.unwrap_or_default();
            format!("{version} {}..{until} {ended} {}", record.since.as_second(), record.fault.unwrap_or_default())
        };
        history.of(id).into_iter().map(record).collect()
    }

    #[test]
    fn a_history_tells_what_served_when_and_what_was_refused_over_it() {
        let (mut history, id) = (History::default(), id("t", "a"));
        history.live(&id, "v1", at(1));
        history.refused(&id, Some("v2"), "bad", at(2));
        history.refused(&id, None, "larger", at(3));
        history.live(&id, "v3", at(4));
        history.refused(&id, Some("v4"), "bad", at(5));
        history.cleared(&id, at(6));
        history.withdrawn(&id, at(7));
        history.live(&id, "v1", at(8));
        let wanted = [
            "v1 1..4 replaced ",
            "v2 2..3 superseded bad",
            " 3..4 superseded larger",
            "v3 4..7 withdrawn ",
            "v4 5..6 superseded bad",
            "v1 8..  ",
        ];
        assert_eq!(short(&history, &id), wanted);
    }

    #[test]
    fn the_version_that_serves_is_remembered_however_many_files_are_refused_over_it() {
        let (mut history, id) = (History::default(), id("t", "a"));
        history.live(&id, "good", at(0));
        for n in 1..100 {
            history.refused(&id, Some("bad"), &"x".repeat(10_000), at(n));
        }
        let records = history.of(&id);
        assert_eq!(records.len(), VERSIONS_MAX);
        assert_eq!(records[0].version.as_deref(), Some("good"));
        assert_eq!(records[1].since, at(81));
        assert_eq!(records[19].since, at(99));
        assert_eq!(records[1].fault.as_ref().unwrap().len(), FAULT_MAX);
    }

    #[test]
    fn a_tenant_with_many_agents_pushes_out_its_own_oldest_and_nobody_elses() {
        let mut history = History::default();
        history.live(&id("small", "a"), "v", at(0));
        for (n, second) in (0..AGENTS_MAX + 10).zip(1..) {
            history.live(&id("large", &format!("a{n}")), "v", at(second));
        }
        assert_eq!(history.agents.len(), AGENTS_MAX);
        assert_eq!(history.of(&id("small", "a")).len(), 1);
        assert_eq!(history.of(&id("large", "a10")).len(), 0);
        assert_eq!(history.of(&id("large", "a11")).len(), 1);
    }
}
