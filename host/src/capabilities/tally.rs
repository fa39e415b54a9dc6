//! What a turn has used, and what it did last: for its record, its crash card and the metrics. It outlives the guest's
//! instance, which may end at any point.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use crate::{bindings::types::Event, limit::Limit};

/// How many events, and how many host calls, are remembered: enough to see what led to a failure.
const LAST: usize = 16;

/// The kinds of events, as the contract names them.
const KINDS: [&str; 8] = ["think", "chat", "iteration", "model-invocation", "tool-run", "follow-up", "fault", "custom"];

/// The outcome of an event that was taken.
pub(super) const TAKEN: &str = "taken";

/// One turn's counts. Written by the turn's own task, read when it has ended.
#[derive(Debug, Default)]
pub struct Tally {
    events: AtomicU64,
    /// Events that were shown, by kind.
    kinds: [AtomicU64; KINDS.len()],
    /// Events that were not taken.
    refused: AtomicU64,
    output: AtomicU64,
    tool_calls: AtomicU64,
    /// The most linear memory at any time.
    memory: AtomicU64,
    /// The bounds that were run into, a bit each.
    struck: AtomicU64,
    last: Mutex<Last>,
}

/// The last things that happened, oldest first.
#[derive(Debug, Default)]
struct Last {
    events: VecDeque<Emitted>,
    calls: VecDeque<Called>,
}

/// An event, without its text.
#[derive(Debug)]
struct Emitted {
    kind: &'static str,
    bytes: usize,
    outcome: &'static str,
}

/// A host call, without what was said in it.
#[derive(Debug)]
struct Called {
    name: String,
    outcome: &'static str,
    took: Duration,
}

impl Tally {
    /// One more event, of which so many bytes of text were shown.
    pub(super) fn event(&self, bytes: usize) {
        self.events.fetch_add(1, Ordering::Relaxed);
        self.shown(bytes);
    }

    /// So many more bytes of text were shown.
    pub(super) fn shown(&self, bytes: usize) {
        self.output.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// One more tool call.
    pub(super) fn tool_call(&self) {
        self.tool_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// So much linear memory is held now.
    pub(super) fn holds(&self, bytes: usize) {
        self.memory.fetch_max(bytes as u64, Ordering::Relaxed);
    }

    /// A bound was run into.
    pub fn strike(&self, limit: Limit) {
        self.struck.fetch_or(1 << limit as u32, Ordering::Relaxed);
    }

    /// What became of an event.
    pub(super) fn emitted(&self, event: &Event, bytes: usize, outcome: &'static str) {
        let kind = kind(event);
        if outcome == TAKEN {
            let count = KINDS.iter().position(|known| *known == kind).and_then(|place| self.kinds.get(place));
            count.map(|count| count.fetch_add(1, Ordering::Relaxed));
        } else {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        push(&mut self.lock().events, Emitted { kind, bytes, outcome });
    }

    /// What became of a host call.
    pub(super) fn called(&self, name: String, outcome: &'static str, took: Duration) {
        push(&mut self.lock().calls, Called { name, outcome, took });
    }

    /// Events that were taken.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Events that were shown, by kind, in the order of the contract; no kind of which there was none.
    pub fn kinds(&self) -> Vec<(&'static str, u64)> {
        let counts = KINDS.into_iter().zip(self.kinds.iter().map(|count| count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Events that were not taken: refused, or emitted when the client was gone.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Bytes of text that were shown.
    pub fn output(&self) -> u64 {
        self.output.load(Ordering::Relaxed)
    }

    /// Tool calls.
    pub fn tool_calls(&self) -> u64 {
        self.tool_calls.load(Ordering::Relaxed)
    }

    /// The most linear memory at any time, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory.load(Ordering::Relaxed)
    }

    /// The bounds that were run into.
    pub fn struck(&self) -> Vec<Limit> {
        let struck = self.struck.load(Ordering::Relaxed);
        Limit::ALL.into_iter().filter(|limit| struck & (1 << *limit as u32) != 0).collect()
    }

    /// The last events, oldest first: their kinds, sizes and, where they were not taken, why.
    pub fn last_events(&self) -> Vec<String> {
        let line = |event: &Emitted| format!("{}, {} bytes: {}", event.kind, event.bytes, event.outcome);
        self.lock().events.iter().map(line).collect()
    }

    /// The last host calls, oldest first, and what came of them.
    pub fn last_calls(&self) -> Vec<String> {
        let line = |call: &Called| format!("{}: {} after {} ms", call.name, call.outcome, call.took.as_millis());
        self.lock().calls.iter().map(line).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn push<T>(last: &mut VecDeque<T>, item: T) {
    if last.len() >= LAST {
        last.pop_front();
    }
    last.push_back(item);
}

fn kind(event: &Event) -> &'static str {
    match event {
        Event::Think(_) => "think",
        Event::Chat(_) => "chat",
        Event::Iteration(_) => "iteration",
        Event::ModelInvocation(_) => "model-invocation",
        Event::ToolRun(_) => "tool-run",
        Event::FollowUp(_) => "follow-up",
        Event::Fault(_) => "fault",
        Event::Custom(_) => "custom",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::types::Output;

    #[test]
    fn the_last_events_are_told_by_kind_and_size_and_never_by_what_they_said() {
        let tally = Tally::default();
        for n in 0..20 {
            tally.emitted(&Event::Chat(Output::Delta("secret".to_owned())), n, "taken");
        }
        let last = tally.last_events();
        assert_eq!(last.len(), LAST);
        assert_eq!(last.last().unwrap(), "chat, 19 bytes: taken");
        assert!(!last.concat().contains("secret"));
    }

    #[test]
    fn events_are_counted_by_kind_once_they_are_taken() {
        let tally = Tally::default();
        let chat = Event::Chat(Output::Start);
        tally.emitted(&chat, 0, TAKEN);
        tally.emitted(&chat, 0, TAKEN);
        tally.emitted(&Event::Think(Output::End), 0, TAKEN);
        tally.emitted(&Event::Fault(String::new()), 0, "refused");
        assert_eq!(tally.kinds(), [("think", 1), ("chat", 2)]);
        assert_eq!(tally.refused(), 1);
    }

    #[test]
    fn every_kind_is_known() {
        use crate::bindings::types::{Custom, Iteration, Phase, ToolRun};
        let text = String::new;
        let tally = Tally::default();
        for event in [
            Event::Think(Output::End),
            Event::Chat(Output::End),
            Event::Iteration(Iteration { phase: Phase::Start, label: text() }),
            Event::ModelInvocation(Phase::Start),
            Event::ToolRun(ToolRun { phase: Phase::Start, name: text(), args: text() }),
            Event::FollowUp(Vec::new()),
            Event::Fault(text()),
            Event::Custom(Custom { name: text(), json: text() }),
        ] {
            tally.emitted(&event, 0, TAKEN);
        }
        assert_eq!(tally.kinds(), KINDS.map(|kind| (kind, 1)));
    }

    #[test]
    fn every_limit_has_a_bit_of_its_own() {
        let tally = Tally::default();
        assert_eq!(tally.struck(), []);
        for limit in Limit::ALL {
            tally.strike(limit);
        }
        assert_eq!(tally.struck(), Limit::ALL);
    }
}
