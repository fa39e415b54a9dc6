//! What is told of a turn that has ended to whoever watches: its record, and what no record keeps.

use std::time::Duration;

use crate::{
    limit::Limit,
    records::{TurnRecord, Wreck},
};

/// How many turns may have ended before a watcher has heard of them; one that is slower misses the oldest.
pub(super) const WAITING_MAX: usize = 256;

/// A turn that has ended. It is told before its client sees the last frame.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The client's own id of the conversation.
    pub session: String,
    /// What the bill knows.
    pub record: TurnRecord,
    /// Events that were shown, by kind, in the order of the contract; no kind of which there was none.
    pub kinds: Vec<(&'static str, u64)>,
    /// Events that were not taken.
    pub refused: u64,
    /// From the turn's start to its first frame.
    pub first: Option<Duration>,
    /// The bounds that were run into, whether one of them ended it or not.
    pub limits: Vec<Limit>,
    /// What is known of a failure.
    pub wreck: Option<Wreck>,
}
