//! What a case found, and what that means for its limit. Pure.

use std::time::Duration;

use crate::limit::Limit;

/// What is said of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It held, and everything around it was as it should be.
    Enforced,
    /// It did not hold, or its end was not a clean one.
    NotEnforced(String),
    /// It is larger than a host of strangers' agents should have.
    Weak(String),
    /// It could not be shown whether it holds.
    NotProven(String),
    /// There is nothing to be tried with this configuration.
    NotTried(String),
}

impl Verdict {
    /// The word for it.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::NotEnforced(_) => "NOT ENFORCED",
            Self::Weak(_) => "WEAK",
            Self::NotProven(_) => "NOT PROVEN",
            Self::NotTried(_) => "not tried",
        }
    }

    /// Why, unless the limit held.
    pub(super) fn why(&self) -> Option<&str> {
        match self {
            Self::Enforced => None,
            Self::NotEnforced(why) | Self::Weak(why) | Self::NotProven(why) | Self::NotTried(why) => Some(why),
        }
    }

    /// Whether the operator has to do something.
    pub(super) fn is_bad(&self) -> bool {
        matches!(self, Self::NotEnforced(_) | Self::Weak(_) | Self::NotProven(_))
    }
}

/// Why an attack did not end with a bound that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing stopped it, or not where it should have.
    Broke(String),
    /// Something else came in between.
    Unproven(String),
    /// This configuration leaves nothing to try.
    Untried(String),
}

/// What an attack measured where it was stopped, or why there is nothing to tell.
pub(super) type Proof = Result<String, Trouble>;

/// All that is known once a case is over.
#[derive(Debug)]
pub(super) struct Evidence {
    /// What the attack came to; nothing if it was still going on when its time was over.
    pub(super) proof: Option<Proof>,
    /// How long it was waited for.
    pub(super) waited: Duration,
    /// Whether the bound had to have struck by then.
    pub(super) overdue: bool,
    /// Why the turn after it failed, if it did.
    pub(super) next_turn: Result<(), String>,
    /// The limit whose counter had to rise, if the host counts it.
    pub(super) counter: Option<Limit>,
    /// The counters that rose for the tenant that was used, or for nobody in particular.
    pub(super) rose: Vec<Limit>,
    /// Counters that may rise as well.
    pub(super) also: &'static [Limit],
    /// Why the figure is too large, if it is.
    pub(super) weakness: Option<String>,
}

impl Evidence {
    /// What was measured, in words.
    pub(super) fn measured(&self) -> String {
        match &self.proof {
            Some(Ok(measured)) => measured.clone(),
            _ => "not measured".to_owned(),
        }
    }

    /// What it means.
    pub(super) fn verdict(&self) -> Verdict {
        let shown = self.shown();
        match (&self.weakness, shown) {
            (_, broken @ Verdict::NotEnforced(_)) => broken,
            (Some(weakness), Verdict::NotProven(why) | Verdict::NotTried(why)) => {
                Verdict::Weak(format!("{weakness}. It was not measured: {why}"))
            }
            (Some(weakness), _) => Verdict::Weak(weakness.clone()),
            (None, shown) => shown,
        }
    }

    /// What it means, whatever the figure.
    fn shown(&self) -> Verdict {
        let waited = super::settings::time(self.waited);
        match &self.proof {
            None if self.overdue => Verdict::NotEnforced(format!("nothing had stopped it after {waited}")),
            None => Verdict::NotProven(format!("it still went on after {waited}; give it longer with --max-wait")),
            Some(Err(Trouble::Broke(why))) => Verdict::NotEnforced(why.clone()),
            Some(Err(Trouble::Unproven(why))) => Verdict::NotProven(why.clone()),
            Some(Err(Trouble::Untried(why))) => Verdict::NotTried(why.clone()),
            Some(Ok(_)) => self.around(),
        }
    }

    /// Whether all was well around a bound that held.
    fn around(&self) -> Verdict {
        if let Err(why) = &self.next_turn {
            return Verdict::NotEnforced(format!("the bound held, but the next turn failed: {why}"));
        }
        if let Some(counter) = self.counter.filter(|counter| !self.rose.contains(counter)) {
            let rose: Vec<_> = self.rose.iter().map(|limit| limit.name()).collect();
            let rose =
                if rose.is_empty() { "none did".to_owned() } else { format!("those of {} did", rose.join(", ")) };
            return Verdict::NotProven(format!(
                "it was stopped, but the counter of {counter} did not rise, and {rose}: something else stopped it"
            ));
        }
        // Every turn is a session of its own, and a configuration may keep few.
        let own = |limit: Limit| Some(limit) == self.counter || limit == Limit::Sessions;
        let strange = |limit: &&Limit| !own(**limit) && !self.also.contains(limit);
        if let Some(limit) = self.rose.iter().find(strange) {
            return Verdict::NotProven(format!("the counter of {limit} rose as well, which this should not touch"));
        }
        Verdict::Enforced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evidence(proof: Option<Proof>) -> Evidence {
        Evidence {
            proof,
            waited: Duration::from_mins(3),
            overdue: true,
            next_turn: Ok(()),
            counter: Some(Limit::Memory),
            rose: vec![Limit::Memory],
            also: &[],
            weakness: None,
        }
    }

    fn held() -> Evidence {
        evidence(Some(Ok("refused at 64.0 MiB".to_owned())))
    }

    #[test]
    fn a_bound_that_held_cleanly_is_enforced() {
        assert_eq!((held().verdict(), held().measured().as_str()), (Verdict::Enforced, "refused at 64.0 MiB"));
        assert_eq!(Evidence { counter: None, rose: Vec::new(), ..held() }.verdict(), Verdict::Enforced);
        let also = Evidence { rose: vec![Limit::CpuTime, Limit::Memory], also: &[Limit::CpuTime], ..held() };
        assert_eq!(also.verdict(), Verdict::Enforced);
    }

    #[test]
    fn what_was_not_stopped_in_time_is_not_enforced() {
        let going_on = evidence(None).verdict();
        assert!(matches!(&going_on, Verdict::NotEnforced(why) if why.contains("3m")), "{going_on:?}");
        let too_soon = Evidence { overdue: false, ..evidence(None) }.verdict();
        assert!(matches!(&too_soon, Verdict::NotProven(why) if why.contains("--max-wait")), "{too_soon:?}");
        let broke = evidence(Some(Err(Trouble::Broke("it got 5 GiB".to_owned()))));
        assert_eq!(broke.verdict(), Verdict::NotEnforced("it got 5 GiB".to_owned()));
    }

    #[test]
    fn a_bound_whose_next_turn_fails_is_not_enforced() {
        let verdict = Evidence { next_turn: Err("it got 503".to_owned()), ..held() }.verdict();
        assert!(matches!(&verdict, Verdict::NotEnforced(why) if why.contains("503")), "{verdict:?}");
    }

    #[test]
    fn a_bound_that_was_not_counted_or_not_alone_is_not_proven() {
        let none = Evidence { rose: Vec::new(), ..held() }.verdict();
        assert!(matches!(&none, Verdict::NotProven(why) if why.contains("counter of memory")), "{none:?}");
        let other = Evidence { rose: vec![Limit::TurnTime], ..held() }.verdict();
        assert!(matches!(&other, Verdict::NotProven(why) if why.contains("turn-time")), "{other:?}");
        let more = Evidence { rose: vec![Limit::Memory, Limit::Events], ..held() }.verdict();
        assert!(matches!(&more, Verdict::NotProven(why) if why.contains("events")), "{more:?}");
    }

    #[test]
    fn a_figure_that_is_too_large_is_weak_whether_or_not_it_could_be_measured_and_never_hides_a_hole() {
        let weak = |proof: Option<Proof>| Evidence { weakness: Some("limits.x is 9".to_owned()), ..evidence(proof) };
        assert_eq!(weak(Some(Ok(String::new()))).verdict(), Verdict::Weak("limits.x is 9".to_owned()));
        let long = weak(Some(Err(Trouble::Unproven("longer than --max-wait".to_owned())))).verdict();
        assert!(matches!(&long, Verdict::Weak(why) if why.contains("limits.x is 9") && why.contains("longer than")));
        assert!(matches!(weak(None).verdict(), Verdict::NotEnforced(_)));
    }

    #[test]
    fn every_verdict_but_two_wants_something_of_the_operator() {
        let why = String::new;
        assert!(!Verdict::Enforced.is_bad() && !Verdict::NotTried(why()).is_bad());
        for verdict in [Verdict::NotEnforced(why()), Verdict::Weak(why()), Verdict::NotProven(why())] {
            assert!(verdict.is_bad() && verdict.why().is_some(), "{verdict:?}");
        }
    }
}
