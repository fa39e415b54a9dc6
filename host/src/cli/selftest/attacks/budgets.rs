//! Tenants that use up what they may use in a day or a month.

use super::Own;
use crate::{
    cli::selftest::{
        case::Case,
        clients::NoTurn,
        ground::Stand,
        settings::{Figure, grouped},
        verdict::{Proof, Trouble},
    },
    config::{Allowance, BudgetConfig, Limits},
    limit::Limit,
};

/// What a turn runs into that uses as much as it may.
const SPENT: &[Limit] = &[Limit::CpuTime, Limit::Events, Limit::Output, Limit::ToolCalls];

/// How many turns are had at most to use something up.
const TURNS_MAX: u64 = 2_000;

/// A part of a budget that is tried: how it is named, how much it is, and what is left of the budget then.
struct Part {
    name: &'static str,
    most: Figure,
    budget: BudgetConfig,
    /// What a turn is told so that it uses much of it, and how much it then uses at most.
    order: String,
    /// How many turns are enough.
    turns: u64,
}

pub(super) fn of_tenant(own: &Own<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    for (limit, period, monthly) in [("day-budget", "budget.day", false), ("month-budget", "budget.month", true)] {
        let budget = &own.group.config.budget;
        let allowance = if monthly { &budget.month } else { &budget.day };
        let parts = parts(allowance, monthly, &own.group.config.limits);
        if parts.is_empty() {
            cases.push(own.tenants(Case::fixed(limit, "turns until it is used up", "none", none)));
        }
        for part in parts {
            let Part { name, most, budget, order, turns } = part;
            let attack = move |stand| spend(stand, order, turns);
            let mut case = Case::fixed(limit, "turns until it is used up", most.to_string(), attack);
            case.key = own.group.key("", &format!("{period}.{name}"));
            let takes = own.group.config.limits.cpu_time;
            let case = own.tenants(case).spent().also(SPENT).with(|tenant| tenant.budget = budget);
            cases.push(if name == "cpu-time" { case.computes(takes) } else { case });
        }
    }
    cases
}

/// The parts of an allowance that there are.
fn parts(allowance: &Allowance, monthly: bool, limits: &Limits) -> Vec<Part> {
    let only = |allowance: Allowance| {
        let none = Allowance::default();
        let (day, month) = if monthly { (none, allowance) } else { (allowance, none) };
        BudgetConfig { day, month }
    };
    let enough = |most: u64, each: u64| most.div_ceil(each.max(1)) + 1;
    let piece = limits.host_call.min(64 * 1024) / 2;
    let mut parts = Vec::new();
    let mut add = |name, most, allowance, order: &str, turns| {
        parts.push(Part { name, most, budget: only(allowance), order: order.to_owned(), turns });
    };
    if let Some(most) = allowance.turns {
        add("turns", Figure::Count(most), Allowance { turns: Some(most), ..Allowance::default() }, "e x", most + 1);
    }
    if let Some(most) = allowance.cpu_time {
        let each = u64::try_from(limits.cpu_time.as_micros()).unwrap_or(u64::MAX);
        let turns = enough(u64::try_from(most.as_micros()).unwrap_or(u64::MAX), each);
        add("cpu-time", Figure::Time(most), Allowance { cpu_time: Some(most), ..Allowance::default() }, "l", turns);
    }
    if let Some(most) = allowance.events {
        let allowance = Allowance { events: Some(most), ..Allowance::default() };
        add("events", Figure::Count(most), allowance, "v", enough(most, limits.events.into()));
    }
    if let Some(most) = allowance.output {
        let allowance = Allowance { output: Some(most), ..Allowance::default() };
        add("output", Figure::Size(most), allowance, &format!("o {piece}"), enough(most, limits.output as u64));
    }
    if let Some(most) = allowance.tool_calls {
        let allowance = Allowance { tool_calls: Some(most), ..Allowance::default() };
        add("tool-calls", Figure::Count(most), allowance, "t selftest", enough(most, limits.tool_calls.into()));
    }
    parts
}

async fn none(stand: Stand) -> Proof {
    let _nothing_to_try = stand;
    Err(Trouble::Untried("none is set".to_owned()))
}

/// Has turns until one is refused; no more than `turns` may be let in.
async fn spend(stand: Stand, order: String, turns: u64) -> Proof {
    if turns > TURNS_MAX {
        return Err(Trouble::Untried(format!(
            "it would take {} turns, and no more than {} are had here",
            grouped(turns),
            grouped(TURNS_MAX)
        )));
    }
    for turn in 0..=turns {
        match stand.caller().lingzhu(&order).await {
            Ok(_) => {}
            Err(NoTurn::Refused(429, words)) if words.contains("budget") => {
                return Ok(format!("429 after {} turns", grouped(turn)));
            }
            Err(NoTurn::Refused(status, words)) => {
                return Err(Trouble::Unproven(format!("refused with {status}: {words}")));
            }
            Err(NoTurn::Broken(why)) => return Err(Trouble::Unproven(why)),
        }
    }
    Err(Trouble::Broke(format!("{} turns were let in", grouped(turns + 1))))
}
