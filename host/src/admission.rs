//! Who may begin a turn now: turns at once for each tenant and for all, turns a minute, and what a tenant may use in a day
//! and in a month.

use std::{
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use governor::clock::{Clock, DefaultClock};
use jiff::{Timestamp, ToSpan as _, tz::TimeZone};

use crate::{
    config::Allowance,
    limit::Limit,
    metrics::{InFlight, Metrics},
    records::{Records, Sums},
    tenants::{Place, Tenant},
};

/// Why a turn may not begin now. Its text is safe to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Busy {
    /// The tenant's turns a minute are used up.
    #[error("too many requests")]
    Rate {
        /// When one is free again.
        retry_after: Duration,
    },
    /// What the tenant may use in a day or a month is used up.
    #[error("the {} budget is used up", if *.monthly { "month's" } else { "day's" })]
    Budget {
        /// Whether it is the month's.
        monthly: bool,
        /// When the next period begins.
        retry_after: Duration,
    },
    /// The tenant has as many turns running as it may.
    #[error("too many turns at once")]
    Tenant,
    /// The tenant's clients have as many connections open as they may.
    #[error("too many connections")]
    Connections,
    /// The host has as many turns running as it can.
    #[error("the server is busy")]
    Server,
    /// The host is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl Busy {
    /// After how many seconds a client may try again.
    pub fn retry_after(&self) -> u64 {
        match self {
            Self::Rate { retry_after } | Self::Budget { retry_after, .. } => retry_after.as_secs() + 1,
            Self::Tenant | Self::Server | Self::Connections => 1,
            Self::ShuttingDown => 5,
        }
    }

    /// The bound that was run into.
    pub const fn limit(&self) -> Option<Limit> {
        match self {
            Self::Rate { .. } => Some(Limit::TurnsPerMinute),
            Self::Budget { monthly: false, .. } => Some(Limit::DayBudget),
            Self::Budget { monthly: true, .. } => Some(Limit::MonthBudget),
            Self::Tenant => Some(Limit::TenantTurns),
            Self::Connections => Some(Limit::TenantConnections),
            Self::Server => Some(Limit::ConcurrentTurns),
            Self::ShuttingDown => None,
        }
    }
}

/// The right to run one turn; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    _server: Place,
    _tenant: Place,
    _counted: InFlight,
}

/// Counts the turns of the whole server. Cloning is shallow.
#[derive(Clone, Debug)]
pub struct Admission {
    turns: Arc<AtomicU32>,
    most: u32,
    metrics: Metrics,
    records: Records,
}

impl Admission {
    /// At most `turns` at once. Budgets are told by `records`.
    pub fn new(turns: u32, metrics: Metrics, records: Records) -> Self {
        Self { turns: Arc::default(), most: turns, metrics, records }
    }

    /// The right to run one turn of `tenant`, or why not. A refused turn takes nothing of the tenant's turns a minute
    /// unless they are what refuses it.
    pub fn admit(&self, tenant: &Tenant) -> Result<Permit, Busy> {
        self.places(tenant).inspect_err(|busy| {
            if let Some(limit) = busy.limit() {
                self.metrics.limit_of(limit, &tenant.name);
            }
        })
    }

    fn places(&self, tenant: &Tenant) -> Result<Permit, Busy> {
        let own = Place::take(&tenant.account.turns, tenant.config.concurrent_turns).ok_or(Busy::Tenant)?;
        let server = Place::take(&self.turns, self.most).ok_or(Busy::Server)?;
        let now = Timestamp::now();
        let budget = &tenant.config.budget;
        if *budget != crate::config::BudgetConfig::default() {
            let spent = self.records.spent(&tenant.name, now);
            for (monthly, allowance, sums) in [(false, &budget.day, &spent.day), (true, &budget.month, &spent.month)] {
                if is_used_up(allowance, sums) {
                    return Err(Busy::Budget { monthly, retry_after: until_next(monthly, now) });
                }
            }
        }
        if let Some(rate) = &tenant.rate {
            rate.check()
                .map_err(|until| Busy::Rate { retry_after: until.wait_time_from(DefaultClock::default().now()) })?;
        }
        self.records.turn_admitted(&tenant.name);
        Ok(Permit { _server: server, _tenant: own, _counted: self.metrics.turn_began(&tenant.name) })
    }
}

/// Whether nothing is left of an allowance.
fn is_used_up(allowance: &Allowance, spent: &Sums) -> bool {
    let over = |most: Option<u64>, spent: u64| most.is_some_and(|most| spent >= most);
    over(allowance.turns, spent.turns)
        || over(allowance.events, spent.events)
        || over(allowance.output, spent.output)
        || over(allowance.tool_calls, spent.tool_calls)
        || allowance.cpu_time.is_some_and(|most| spent.cpu >= most)
}

/// How long it is until the next day, or the next month, begins in UTC.
fn until_next(monthly: bool, now: Timestamp) -> Duration {
    let today = now.to_zoned(TimeZone::UTC).date();
    let next = if monthly { today.first_of_month().checked_add(1.month()) } else { today.checked_add(1.day()) };
    let begins = next.and_then(|next| next.to_zoned(TimeZone::UTC)).map(|next| next.timestamp());
    begins.ok().and_then(|begins| Duration::try_from(begins.duration_since(now)).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_comes_back_at_midnight_and_on_the_first_in_utc() {
        let now: Timestamp = "2026-12-31T22:30:00Z".parse().unwrap();
        assert_eq!(until_next(false, now), Duration::from_mins(90));
        assert_eq!(until_next(true, now), Duration::from_mins(90));
        let now: Timestamp = "2027-02-01T00:00:00Z".parse().unwrap();
        assert_eq!(until_next(false, now), Duration::from_hours(24));
        assert_eq!(until_next(true, now), Duration::from_hours(28 * 24));
    }

    #[test]
    fn each_part_of_an_allowance_counts() {
        let spent = Sums { turns: 5, cpu: Duration::from_secs(5), events: 5, output: 5, tool_calls: 5 };
        assert!(!is_used_up(&Allowance::default(), &spent));
        for (most, expected) in [(5, true), (6, false)] {
            let parts = [
                Allowance { turns: Some(most), ..Allowance::default() },
                Allowance { cpu_time: Some(Duration::from_secs(most)), ..Allowance::default() },
                Allowance { events: Some(most), ..Allowance::default() },
                Allowance { output: Some(most), ..Allowance::default() },
                Allowance { tool_calls: Some(most), ..Allowance::default() },
            ];
            for allowance in parts {
                assert_eq!(is_used_up(&allowance, &spent), expected, "{allowance:?}");
            }
        }
    }
}
