//! What waits to be written: sums of turns that have ended, and crash cards. A row is a day of an agent, so what waits
//! does not grow with turns.

use std::collections::{BTreeMap, VecDeque};

use super::{Card, TurnRecord, UsageRow, accounts::day, rows::USAGE_ROWS_MAX};

/// How many crash cards wait while the disk does not take them; each is at most 70 KiB.
const CARDS_MAX: usize = 256;

/// The agent under which a tenant's turns are summed up where more rows wait than may: its bill stays exact.
const OTHERS: &str = "(others)";

/// A row's day, tenant and agent.
type Key = (String, String, String);

/// What waits.
#[derive(Debug, Default)]
pub(super) struct Pending {
    rows: BTreeMap<Key, UsageRow>,
    cards: VecDeque<Card>,
    /// Whether the log was told that cards are lost; until what waits is written.
    said: bool,
}

impl Pending {
    /// Adds a turn that has ended.
    pub(super) fn add(&mut self, record: &TurnRecord, card: Option<Card>) {
        self.add_row(&UsageRow::of(record));
        if let Some(card) = card {
            self.cards.push_back(card);
            self.fit();
        }
    }

    /// Takes everything.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self { said: self.said, ..Self::default() })
    }

    /// Puts back what could not be written, before what came in the meantime.
    pub(super) fn put_back(&mut self, taken: Self) {
        taken.rows.values().for_each(|row| self.add_row(row));
        for card in taken.cards.into_iter().rev() {
            self.cards.push_front(card);
        }
        self.fit();
    }

    /// Says that what was taken is written.
    pub(super) fn written(&mut self) {
        self.said = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.cards.is_empty()
    }

    /// The rows, by day, tenant and agent.
    pub(super) fn rows(&self) -> impl Iterator<Item = &UsageRow> {
        self.rows.values()
    }

    /// The cards, the oldest first.
    pub(super) fn cards(&self) -> impl DoubleEndedIterator<Item = &Card> {
        self.cards.iter()
    }

    fn add_row(&mut self, row: &UsageRow) {
        let mut key = (row.day.clone(), row.tenant.clone(), row.agent.clone());
        if self.rows.len() >= USAGE_ROWS_MAX && !self.rows.contains_key(&key) {
            OTHERS.clone_into(&mut key.2);
        }
        let (day, tenant, agent) = key.clone();
        let sums = self.rows.entry(key).or_insert_with(|| UsageRow { day, tenant, agent, ..UsageRow::default() });
        sums.add(row);
    }

    /// Lets go of cards until they fit: of the tenant that has most of them the oldest, so that one tenant's crashes
    /// cost no other its cards.
    fn fit(&mut self) {
        while self.cards.len() > CARDS_MAX {
            let mut counts = BTreeMap::<_, usize>::new();
            for card in &self.cards {
                *counts.entry(card.failure.tenant.as_str()).or_default() += 1;
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(tenant, _)| tenant);
            let oldest = self.cards.iter().position(|card| Some(card.failure.tenant.as_str()) == most).unwrap_or(0);
            self.cards.remove(oldest);
            if !std::mem::replace(&mut self.said, true) {
                tracing::warn!("more than {CARDS_MAX} crash cards wait to be written; older ones are let go");
            }
        }
    }
}

impl UsageRow {
    /// What one turn comes to.
    fn of(record: &TurnRecord) -> Self {
        let failed = record.cause.is_failure().then(|| (record.cause.name().to_owned(), 1));
        Self {
            day: day(record.at).to_string(),
            tenant: record.agent.tenant.clone(),
            agent: record.agent.agent.clone(),
            turns: 1,
            failed: failed.into_iter().collect(),
            cpu_us: u64::try_from(record.cpu.as_micros()).unwrap_or(u64::MAX),
            memory: record.memory,
            events: record.events,
            output: record.output,
            tool_calls: record.tool_calls,
        }
    }

    /// Adds another's sums.
    pub(super) fn add(&mut self, other: &Self) {
        self.turns = self.turns.saturating_add(other.turns);
        for (cause, turns) in &other.failed {
            let sum = self.failed.entry(cause.clone()).or_default();
            *sum = sum.saturating_add(*turns);
        }
        self.cpu_us = self.cpu_us.saturating_add(other.cpu_us);
        self.memory = self.memory.max(other.memory);
        self.events = self.events.saturating_add(other.events);
        self.output = self.output.saturating_add(other.output);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
    }
}
