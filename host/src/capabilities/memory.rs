//! How much memory and how many tables an instance may have: all its memories count together.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use super::Tally;
use crate::{config::Limits, limit::Limit};

/// Counts one instance's memory.
#[derive(Debug)]
pub struct MemoryLimiter {
    limit: usize,
    used: usize,
    refused: bool,
    tally: Arc<Tally>,
}

impl MemoryLimiter {
    /// Nothing used yet of what `limits` allow.
    pub fn new(limits: &Limits, tally: &Arc<Tally>) -> Self {
        Self { limit: limits.memory, used: 0, refused: false, tally: Arc::clone(tally) }
    }

    /// Whether the guest was ever refused memory.
    pub fn refused(&self) -> bool {
        self.refused
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        let fits = used <= self.limit;
        if fits {
            self.used = used;
            self.tally.holds(used);
        } else {
            self.refused = true;
            self.tally.strike(Limit::Memory);
        }
        Ok(fits)
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let fits = desired <= Limits::TABLE_ELEMENTS;
        if !fits {
            self.tally.strike(Limit::TableElements);
        }
        Ok(fits)
    }

    fn instances(&self) -> usize {
        Limits::INSTANCES
    }

    fn tables(&self) -> usize {
        Limits::TABLES
    }

    fn memories(&self) -> usize {
        Limits::MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_count_together() {
        let tally = Arc::new(Tally::default());
        let mut limiter = MemoryLimiter::new(&Limits { memory: 100, ..Limits::default() }, &tally);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap(), "a second memory takes of the same sum");
        assert!(limiter.refused());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert!(limiter.table_growing(0, Limits::TABLE_ELEMENTS, None).unwrap());
        assert!(!limiter.table_growing(0, Limits::TABLE_ELEMENTS + 1, None).unwrap());
        assert_eq!((tally.memory(), tally.struck()), (100, vec![Limit::Memory, Limit::TableElements]));
    }
}
