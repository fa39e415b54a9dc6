//! What is known of turns once they have ended: usage a day, tenant and agent, for the bill, and crash cards, for the
//! agent's author.
//!
//! Both stand in `records.db` beside the sessions, in a file of their own because money wants a sync for each group of
//! writes and conversations do not. A turn takes note and waits for no disk.

use std::{collections::BTreeMap, time::Duration};

use crate::{ids::AgentId, limit::Limit};

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// The agent returned.
    Answered,
    /// The agent returned an error of its own.
    Said,
    /// The guest trapped.
    Trap,
    /// The guest ended its process.
    Exit,
    /// The guest could not be started.
    Start,
    /// A bound ended it.
    Limit(Limit),
    /// A host function panicked.
    Panicked,
    /// The client left.
    Left,
    /// The host went down.
    ShuttingDown,
}

impl Cause {
    /// Its name, as metrics and records have it; all limits share one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Said => "said",
            Self::Trap => "trap",
            Self::Exit => "exit",
            Self::Start => "start",
            Self::Limit(_) => "limit",
            Self::Panicked => "panic",
            Self::Left => "left",
            Self::ShuttingDown => "shutdown",
        }
    }

    /// Whether the turn failed: it was not answered, and not because its client left.
    pub const fn is_failure(self) -> bool {
        !matches!(self, Self::Answered | Self::Left)
    }
}

/// One turn that has ended.
#[derive(Clone, Debug)]
pub struct TurnRecord {
    /// The turn's id, which is also its crash card's.
    pub id: String,
    /// Who answered.
    pub agent: AgentId,
    /// The version that did: its component's SHA-256.
    pub version: String,
    /// `mythra` or `lingzhu`.
    pub protocol: &'static str,
    /// When it ended, to the millisecond.
    pub at: jiff::Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The guest's CPU time.
    pub cpu: Duration,
    /// The most linear memory that it held, in bytes.
    pub memory: u64,
    /// Events that were taken.
    pub events: u64,
    /// Bytes of text that were shown.
    pub output: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// How it ended.
    pub cause: Cause,
}

/// What else is known of a failed turn. No text of the user's or of the agent's is in it unless the operator asked.
#[derive(Clone, Debug, Default)]
pub struct Wreck {
    /// Why, in words: for the author and the operator.
    pub detail: String,
    /// The guest's own frames, innermost first.
    pub backtrace: Vec<String>,
    /// The last events, oldest first: their kinds and sizes.
    pub events: Vec<String>,
    /// The last host calls, oldest first, with what came of them.
    pub calls: Vec<String>,
    /// Every bound that was run into, the last one that which ended it if one did.
    pub limits: Vec<Limit>,
    /// What the user said and the agent showed, only where `failures.text` is on.
    pub text: Option<String>,
}

/// A day's sums for one agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageRow {
    /// The day in UTC, such as `2026-12-01`.
    pub day: String,
    /// Whose.
    pub tenant: String,
    /// Which agent.
    pub agent: String,
    /// Turns that ended.
    pub turns: u64,
    /// Of those, the failed ones, by [`Cause::name`]; only causes that came up.
    pub failed: BTreeMap<String, u64>,
    /// CPU time in microseconds.
    pub cpu_us: u64,
    /// The most memory of any turn, in bytes.
    pub memory: u64,
    /// Events.
    pub events: u64,
    /// Bytes of text.
    pub output: u64,
    /// Tool calls.
    pub tool_calls: u64,
}
