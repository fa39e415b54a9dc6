//! Guests that do something too often: events, text, tool calls, log lines, open pairs, names.

use super::Own;
use crate::{
    cli::selftest::{
        case::Case,
        ear::MARK,
        ground::Stand,
        heard::Heard,
        settings::{grouped, size},
        verdict::{Proof, Trouble},
    },
    ids, script,
};

/// The longest text of one event that is tried.
const PIECE: usize = 64 * 1024;

/// What a log line costs beside its own bytes.
const LINE_COST: u64 = 128;

/// How long the lines are that are logged.
const LINE: usize = 200;

/// The most that is logged to find a bound.
const LOGGED_MAX: usize = 16 * 1024 * 1024;

pub(super) fn of_tenant(own: &Own<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |limit: &str, case: &dyn Fn(&crate::cli::selftest::settings::Setting) -> Case| {
        cases.extend(own.setting(limit).map(|setting| own.tenants(case(setting))));
    };
    add("events", &|setting| Case::of(setting, "events without end", events));
    add("output", &|setting| Case::of(setting, "text without end", output));
    add("tool-calls", &|setting| Case::of(setting, "tool calls without end", tool_calls));
    add("log", &|setting| Case::of(setting, "log lines without end", log));
    if own.index == 0 {
        let pairs = grouped(script::OPEN_PAIRS_MAX as u64);
        cases.push(own.server(Case::fixed("open-pairs", "iterations that are never ended", pairs, open_pairs)));
        let name = size(script::NAME_BYTES_MAX as u64);
        cases.push(own.server(Case::fixed("names", "a label that is a byte too long", name, names)));
    }
    cases
}

/// Checks that it was this limit which refused something, as the guest was told.
fn told(heard: &Heard, limit: &str) -> Result<(), Trouble> {
    let said = heard.error.as_str();
    if heard.left {
        let (bytes, frames) = (size(heard.text_bytes), grouped(heard.frames.values().sum()));
        return Err(Trouble::Unproven(format!("{bytes} in {frames} frames came, and no end was in sight")));
    }
    if said.starts_with(&format!("{limit}:")) {
        return Ok(());
    }
    Err(
        match said.split_once(": ").filter(|(name, _)| crate::limit::Limit::ALL.iter().any(|all| all.name() == *name)) {
            Some((other, _)) => Trouble::Untried(format!("{other} is reached first")),
            None => Trouble::Unproven(format!("the guest was ended by something else: {said}")),
        },
    )
}

/// What was counted of a bound of so many.
fn counted(count: u64, most: u64, unit: &str) -> Proof {
    let measured = format!("refused after {}{unit}", grouped(count));
    match count.cmp(&most) {
        std::cmp::Ordering::Equal => Ok(measured),
        std::cmp::Ordering::Greater => Err(Trouble::Broke(measured)),
        std::cmp::Ordering::Less => Err(Trouble::Unproven(format!("{measured}, too early"))),
    }
}

async fn events(stand: Stand) -> Proof {
    let (mythra, _) = stand.both("v").await?;
    told(&mythra, "events")?;
    let (count, most) = (mythra.count("model-invocation-state"), u64::from(stand.limits.events));
    // The host ends what the last event began.
    counted(count - u64::from(count == most + 1 && most % 2 == 1), most, "")
}

async fn output(stand: Stand) -> Proof {
    let piece = PIECE.min(stand.limits.host_call / 2);
    let (mythra, _) = stand.both(&format!("o {piece}")).await?;
    told(&mythra, "output")?;
    counted(mythra.text_bytes, stand.limits.output as u64, " B")
}

async fn tool_calls(stand: Stand) -> Proof {
    let (mythra, _) = stand.both("t selftest").await?;
    told(&mythra, "tool-calls")?;
    counted(mythra.count("tool-call"), u64::from(stand.limits.tool_calls), "")
}

async fn log(stand: Stand) -> Proof {
    let limit = stand.limits.log;
    let mark = ids::base36::<MARK>();
    let line = format!("{mark} {}", "l".repeat(LINE - MARK - 1));
    // Twice what it holds, and some more.
    let lines = 2 * limit.min(LOGGED_MAX) / (LINE + 128) + 4;
    // Heard over one protocol: both would log under one mark.
    stand.mythra(&format!("L {lines} {line}")).await?;
    let (count, bytes) = stand.ground.ear.heard(&mark);
    let cost = bytes + count * LINE_COST;
    if cost > limit as u64 {
        return Err(Trouble::Broke(format!("{} of {} lines were logged, which cost {}", count, lines, size(cost))));
    }
    if limit > LOGGED_MAX {
        return Err(Trouble::Unproven(format!("no more than {} are logged here", size(LOGGED_MAX as u64))));
    }
    if count == 0 && limit > LINE + 128 {
        return Err(Trouble::Unproven("nothing was logged".to_owned()));
    }
    Ok(format!("{} of {} lines kept, {}", grouped(count), grouped(lines as u64), size(cost)))
}

async fn open_pairs(stand: Stand) -> Proof {
    let (mythra, _) = stand.both("w").await?;
    if !mythra.error.contains("open at once") {
        told(&mythra, "open-pairs")?;
    }
    counted(mythra.count("iteration-state"), script::OPEN_PAIRS_MAX as u64, "")
}

async fn names(stand: Stand) -> Proof {
    let most = script::NAME_BYTES_MAX;
    let (fits, _) = stand.both(&format!("n {most}")).await?;
    let (over, _) = stand.both(&format!("n {}", most + 1)).await?;
    if fits.failed || !over.error.contains("longer than") {
        return Err(Trouble::Broke(format!("{most} B: {:?}; {} B: {:?}", fits.error, most + 1, over.error)));
    }
    Ok(format!("{most} B taken, {} B refused", most + 1))
}
