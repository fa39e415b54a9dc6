//! What tenants have used of their budgets: sums of a day and of a month, in memory, because every turn that wants to
//! begin asks.

use std::{collections::BTreeMap, time::Duration};

use jiff::{Timestamp, civil::Date, tz::TimeZone};

use super::TurnRecord;

/// How many days, and how many months, an account keeps: today, and those around it where the clock was set back or a
/// turn that ended before midnight is told of after it.
const PERIODS: usize = 3;

/// Sums of one period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Turns that ended in it, and those that run now.
    pub turns: u64,
    /// CPU time.
    pub cpu: Duration,
    /// Events.
    pub events: u64,
    /// Bytes of text.
    pub output: u64,
    /// Tool calls.
    pub tool_calls: u64,
}

/// What a tenant has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Since midnight, UTC.
    pub day: Sums,
    /// Since the first of the month, UTC.
    pub month: Sums,
}

impl Sums {
    /// Adds another's.
    pub(super) fn add(&mut self, other: &Self) {
        self.turns = self.turns.saturating_add(other.turns);
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.events = self.events.saturating_add(other.events);
        self.output = self.output.saturating_add(other.output);
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
    }
}

/// One tenant's.
#[derive(Debug, Default)]
struct Account {
    /// Turns that began and have not ended. Counting these apart is what counts a turn once, on whichever side of
    /// midnight it ends.
    running: u64,
    days: BTreeMap<Date, Sums>,
    months: BTreeMap<Date, Sums>,
}

/// All tenants'.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    by_tenant: BTreeMap<String, Account>,
}

impl Accounts {
    /// Adds what a tenant's turns came to in a day.
    pub(super) fn add(&mut self, tenant: &str, day: Date, sums: &Sums) {
        let account = self.account(tenant);
        for (periods, period) in [(&mut account.days, day), (&mut account.months, day.first_of_month())] {
            periods.entry(period).or_default().add(sums);
            if periods.len() > PERIODS {
                periods.pop_first();
            }
        }
    }

    /// A turn begins.
    pub(super) fn admitted(&mut self, tenant: &str) {
        let account = self.account(tenant);
        account.running = account.running.saturating_add(1);
    }

    /// A turn has ended.
    pub(super) fn ended(&mut self, record: &TurnRecord) {
        let account = self.account(&record.agent.tenant);
        account.running = account.running.saturating_sub(1);
        let sums = Sums {
            turns: 1,
            cpu: record.cpu,
            events: record.events,
            output: record.output,
            tool_calls: record.tool_calls,
        };
        self.add(&record.agent.tenant, day(record.at), &sums);
    }

    /// What a tenant has used in the day and the month of `now`.
    pub(super) fn spent(&self, tenant: &str, now: Timestamp) -> Spent {
        let Some(account) = self.by_tenant.get(tenant) else {
            return Spent::default();
        };
        let today = day(now);
        let of = |periods: &BTreeMap<Date, Sums>, period: Date| {
            let ended = periods.get(&period).copied().unwrap_or_default();
            Sums { turns: ended.turns.saturating_add(account.running), ..ended }
        };
        Spent { day: of(&account.days, today), month: of(&account.months, today.first_of_month()) }
    }

    fn account(&mut self, tenant: &str) -> &mut Account {
        self.by_tenant.entry(tenant.to_owned()).or_default()
    }
}

/// The day of a moment, in UTC.
pub(super) fn day(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}
