//! The files that wait to be compiled: one turn to each tenant after another, so that a tenant's thousand files, or its
//! deadly ones, keep nobody else's waiting for more than one of them.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::AgentId;

/// A line with a queue for each tenant.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// By tenant: the smallest files first, which are most likely the quickest.
    waiting: BTreeMap<String, BTreeSet<(u64, String)>>,
    /// Who had the last turn.
    last: Option<String>,
}

impl Line {
    /// Whether nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A file of `size` bytes waits, in place of any other of the same agent.
    pub(super) fn enter(&mut self, id: &AgentId, size: u64) {
        self.leave(id);
        self.waiting.entry(id.tenant.clone()).or_default().insert((size, id.agent.clone()));
    }

    /// An agent's file waits no more.
    pub(super) fn leave(&mut self, id: &AgentId) {
        if let Some(own) = self.waiting.get_mut(&id.tenant) {
            own.retain(|(_, agent)| *agent != id.agent);
            if own.is_empty() {
                self.waiting.remove(&id.tenant);
            }
        }
    }

    /// Whose turn it is, of the tenants that are not `busy`.
    pub(super) fn next(&mut self, busy: &BTreeSet<String>) -> Option<AgentId> {
        let after = |tenant: &&String| self.last.as_ref().is_none_or(|last| *tenant > last);
        let free = || self.waiting.keys().filter(|tenant| !busy.contains(*tenant));
        let tenant = free().find(after).or_else(|| free().next())?.clone();
        let own = self.waiting.get_mut(&tenant)?;
        let (_, agent) = own.pop_first()?;
        if own.is_empty() {
            self.waiting.remove(&tenant);
        }
        self.last = Some(tenant.clone());
        Some(AgentId { tenant, agent })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(tenant: &str, agent: &str) -> AgentId {
        AgentId { tenant: tenant.to_owned(), agent: agent.to_owned() }
    }

    fn turns(line: &mut Line) -> Vec<String> {
        std::iter::from_fn(|| line.next(&BTreeSet::new())).map(|id| id.to_string()).collect()
    }

    #[test]
    fn each_tenant_has_a_turn_after_another_and_its_smallest_file_first() {
        let mut line = Line::default();
        for (tenant, agent, size) in
            [("a", "x", 30), ("a", "y", 10), ("a", "z", 20), ("b", "x", 99), ("c", "x", 1), ("c", "y", 2)]
        {
            line.enter(&id(tenant, agent), size);
        }
        assert_eq!(turns(&mut line), ["a/y", "b/x", "c/x", "a/z", "c/y", "a/x"]);
        assert!(line.is_empty());
    }

    #[test]
    fn whoever_comes_late_waits_for_no_more_than_one_turn_of_each_other() {
        let mut line = Line::default();
        for n in 0..1000 {
            line.enter(&id("large", &format!("a{n}")), 1);
        }
        assert_eq!(line.next(&BTreeSet::new()), Some(id("large", "a0")));
        line.enter(&id("small", "a"), 1_000_000);
        assert_eq!(line.next(&BTreeSet::new()), Some(id("small", "a")));
        line.enter(&id("earlier", "a"), 1);
        line.enter(&id("small", "b"), 1);
        let next: Vec<_> = (0..3).filter_map(|_| line.next(&BTreeSet::new())).map(|id| id.tenant).collect();
        assert_eq!(next, ["earlier", "large", "small"]);
    }

    #[test]
    fn a_tenant_that_has_its_turn_leaves_another_to_the_others() {
        let mut line = Line::default();
        line.enter(&id("a", "x"), 1);
        let busy = BTreeSet::from(["a".to_owned()]);
        assert_eq!(line.next(&busy), None);
        line.enter(&id("b", "x"), 1);
        assert_eq!(line.next(&busy), Some(id("b", "x")));
        assert_eq!(line.next(&BTreeSet::new()), Some(id("a", "x")));
    }

    #[test]
    fn a_file_that_changes_waits_once_and_one_that_goes_not_at_all() {
        let mut line = Line::default();
        line.enter(&id("a", "x"), 1);
        line.enter(&id("a", "x"), 50);
        line.enter(&id("a", "y"), 10);
        assert_eq!(line.next(&BTreeSet::new()), Some(id("a", "y")));
        line.leave(&id("a", "x"));
        line.leave(&id("b", "x"));
        assert!(line.is_empty());
    }
}
