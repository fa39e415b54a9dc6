//! One case: what is attacked, where, how, and what must come of it.

use std::{pin::Pin, time::Duration};

use super::{
    ground::{Group, Stand},
    settings::Setting,
    verdict::Proof,
};
use crate::{
    config::{BudgetConfig, TenantConfig},
    limit::Limit,
};

/// An attack that goes on until it is stopped, or until it has shown that nothing stops it.
pub(super) type Attack = Box<dyn FnOnce(Stand) -> Pin<Box<dyn Future<Output = Proof> + Send>> + Send>;

/// How a case gets along with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// It waits nearly all the time: it begins at once, and others run beside it.
    Waits,
    /// It takes CPU time: a few at once.
    Works,
    /// It takes up all of something: after all others, by itself.
    Alone,
}

/// A component that stands in the tenant's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    /// The guest that loops before it is asked.
    EndlessStart,
    /// The guest that traps before it is asked.
    TrappingStart,
}

/// One case.
pub(super) struct Case {
    /// The limit's name, or what else is promised.
    pub(super) limit: &'static str,
    /// What is tried.
    pub(super) what: &'static str,
    /// Whose limit it is: a group's, or the server's.
    pub(super) group: Option<usize>,
    /// The key to change; empty where nothing can be configured.
    pub(super) key: String,
    /// What is configured.
    pub(super) configured: String,
    /// Why that is too much, if it is.
    pub(super) weakness: Option<String>,
    /// The counter that must rise.
    pub(super) counter: Option<Limit>,
    /// Counters that may rise as well.
    pub(super) also: &'static [Limit],
    /// How it gets along with others.
    pub(super) pace: Pace,
    /// How long it takes at least.
    pub(super) takes: Duration,
    /// After how long the bound must have struck.
    pub(super) overdue: Duration,
    /// The entry of the case's own tenant.
    pub(super) tenant: TenantConfig,
    /// What stands in its folder beside the guest.
    pub(super) plugins: &'static [Plugin],
    /// How many turns, each with a connection, it has at once.
    pub(super) turns: u32,
    /// Whether the turn after it is another tenant's.
    pub(super) spent: bool,
    /// The attack.
    pub(super) attack: Attack,
}

/// How late a bound of this time may strike on a machine that does much else.
pub(super) fn late(time: Duration) -> Duration {
    Duration::from_secs(3) + time / 10
}

/// What is not needed to be known of a case that takes no time.
const SOON: Duration = Duration::from_mins(1);

impl Case {
    /// A case of a limit that can be configured.
    pub(super) fn of<F>(setting: &Setting, what: &'static str, attack: impl FnOnce(Stand) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Proof> + Send + 'static,
    {
        Self {
            key: setting.key.clone(),
            configured: setting.value.to_string(),
            weakness: setting.weakness(),
            ..Self::fixed(setting.limit, what, "", attack)
        }
    }

    /// A case of a bound that is the host's own, or of a promise.
    pub(super) fn fixed<F>(
        limit: &'static str,
        what: &'static str,
        configured: impl Into<String>,
        attack: impl FnOnce(Stand) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Proof> + Send + 'static,
    {
        Self {
            limit,
            what,
            group: None,
            key: String::new(),
            configured: configured.into(),
            weakness: None,
            counter: Limit::ALL.into_iter().find(|known| known.name() == limit),
            also: &[],
            pace: Pace::Works,
            takes: Duration::ZERO,
            overdue: SOON,
            tenant: TenantConfig::default(),
            plugins: &[],
            turns: 1,
            spent: false,
            attack: Box::new(move |stand| Box::pin(attack(stand))),
        }
    }

    /// It waits for this time.
    pub(super) fn waits(mut self, time: Duration) -> Self {
        self.pace = Pace::Waits;
        self.takes = time;
        self.overdue = time + late(time);
        self
    }

    /// It computes for this time, beside others that do.
    pub(super) fn computes(mut self, time: Duration) -> Self {
        self.takes = time;
        self.overdue = time * 4 + Duration::from_secs(10);
        self
    }

    /// It is run after all others, by itself.
    pub(super) fn alone(mut self) -> Self {
        self.pace = Pace::Alone;
        self
    }

    /// These counters may rise as well.
    pub(super) fn also(mut self, also: &'static [Limit]) -> Self {
        self.also = also;
        self
    }

    /// No counter rises, or nobody knows how often.
    pub(super) fn uncounted(mut self) -> Self {
        self.counter = None;
        self
    }

    /// These stand in the folder as well.
    pub(super) fn plugins(mut self, plugins: &'static [Plugin]) -> Self {
        self.plugins = plugins;
        self
    }

    /// It has so many turns at once.
    pub(super) fn turns(mut self, turns: u32) -> Self {
        self.turns = turns;
        self
    }

    /// Its tenant is used up by it.
    pub(super) fn spent(mut self) -> Self {
        self.spent = true;
        self
    }

    /// Its tenant's entry differs in this.
    pub(super) fn with(mut self, change: impl FnOnce(&mut TenantConfig)) -> Self {
        change(&mut self.tenant);
        self
    }

    /// Its tenant is one of this group, but for the turns a minute and what else would come in between.
    pub(super) fn in_group(mut self, index: usize, group: &Group) -> Self {
        self.group = Some(index);
        self.standing_as(group)
    }

    /// Its tenant has what this group's have.
    pub(super) fn standing_as(mut self, group: &Group) -> Self {
        self.tenant = TenantConfig {
            keys: Vec::new(),
            turns_per_minute: None,
            budget: BudgetConfig::default(),
            ..group.config.clone()
        };
        self
    }
}
