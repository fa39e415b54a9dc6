//! Guests that take time: on a CPU, on the clock, in a tool.

use std::time::Duration;

use super::Own;
use crate::{
    cli::selftest::{
        case::{Case, Plugin, late},
        ground::{Stand, failed, whole},
        settings,
        verdict::{Proof, Trouble},
    },
    limit::Limit,
};

/// The most memory that is filled: what is written takes the machine's own.
const FILLED_MAX: usize = 256 * 1024 * 1024;

/// A page of WebAssembly's memory.
const PAGE: usize = 64 * 1024;

/// How much memory a bulk instruction fills in a second, at least: nothing interrupts one, so that a guest's CPU time may
/// go past its bound by as long as the largest one takes.
const FILLS: f64 = 100.0 * 1024.0 * 1024.0;

/// What one tick, and the work around a guest, may take of CPU time beside what the guest may.
const OVER: Duration = Duration::from_millis(250);

pub(super) fn of_tenant(own: &Own<'_>) -> Vec<Case> {
    let limits = &own.group.config.limits;
    let mut cases = Vec::new();
    if let Some(setting) = own.setting("turn-time") {
        let case = Case::of(setting, "a guest that sleeps for ever, over Mythra", sleeps);
        cases.push(own.tenants(case).waits(limits.turn_time));
    }
    if let Some(setting) = own.setting("cpu-time") {
        // Of a machine that does much else a guest gets little: the wall clock is out of the way.
        let computing = |case: Case, time: Duration| {
            let case = own.tenants(case).computes(time);
            case.with(|tenant| tenant.limits.turn_time = tenant.limits.turn_time.max(slowed(time)))
        };
        let time = limits.cpu_time;
        if time >= limits.turn_time {
            let case = Case::of(setting, "a guest that loops", never).computes(time);
            cases.push(own.tenants(case));
        } else {
            cases.push(computing(Case::of(setting, "a guest that loops", loops), time.saturating_mul(2)));
            let case = Case::of(setting, "a guest that fills its memory in a loop", fills);
            cases.push(computing(case, time).also(&[Limit::Memory]));
            let case = Case::of(setting, "a guest that loops before it is asked", starts);
            cases.push(computing(case, time).plugins(&[Plugin::EndlessStart]));
        }
    }
    if let Some(setting) = own.setting("tool-time") {
        let case = Case::of(setting, "a tool that fetches from a port that says nothing", tool);
        let case = own.tenants(case).waits(limits.tool_time);
        // The tool that can be slow, and the only host that it may reach here, whatever the tenant is granted.
        cases.push(case.with(|tenant| tenant.tools = vec!["http/*".to_owned()]));
    }
    cases
}

pub(super) fn of_server(own: &Own<'_>) -> Vec<Case> {
    let (all, here) = (own.group.config.limits.turn_time, own.config.lingzhu.turn_time);
    let setting = own.setting("turn-time").filter(|_| here < all);
    let case =
        setting.map(|setting| Case::of(setting, "a guest that sleeps for ever, over Lingzhu", sleeps_on_lingzhu));
    case.map(|case| own.server(case).waits(here)).into_iter().collect()
}

/// What the clock said of a bound of this time.
fn clock(configured: Duration, took: Duration) -> Proof {
    let measured = format!("ended after {}", settings::time(took));
    // A client begins to count before the host does.
    if took + Duration::from_millis(50) < configured {
        Err(Trouble::Unproven(format!("{measured}, before its time: something else ended it")))
    } else if took > configured + late(configured) {
        Err(Trouble::Broke(format!("{measured}, which is far too late")))
    } else {
        Ok(measured)
    }
}

async fn sleeps(stand: Stand) -> Proof {
    let heard = stand.mythra("s").await?;
    failed(&heard)?;
    clock(stand.limits.turn_time, heard.took)
}

async fn sleeps_on_lingzhu(stand: Stand) -> Proof {
    let heard = stand.lingzhu("s").await?;
    failed(&heard)?;
    clock(stand.ground.config.lingzhu.turn_time, heard.took)
}

/// How long a guest may take for so much CPU time on a machine that does much else, which goes before it.
fn slowed(time: Duration) -> Duration {
    time.saturating_mul(20) + Duration::from_mins(1)
}

/// What the meter said of this many guests that were ended.
async fn meter(stand: &Stand, guests: u32, longest_slice: Duration) -> Proof {
    let used = stand.cpu(guests).await / guests;
    let configured = stand.limits.cpu_time;
    let measured = format!("ended after {} of CPU time", settings::time(used));
    if used > configured + OVER + longest_slice {
        return Err(Trouble::Broke(format!("{measured}, which is far too late")));
    }
    Ok(measured)
}

async fn never(_: Stand) -> Proof {
    Err(Trouble::Untried("limits.turn-time is over before: no guest computes for longer than that".to_owned()))
}

async fn loops(stand: Stand) -> Proof {
    failed(&stand.mythra("l").await?)?;
    // The other endpoint has a bound on turns that is everybody's.
    let both = stand.ground.config.lingzhu.turn_time >= slowed(stand.limits.cpu_time);
    if both {
        failed(&stand.lingzhu("l").await?)?;
    }
    meter(&stand, 1 + u32::from(both), Duration::ZERO).await
}

async fn fills(stand: Stand) -> Proof {
    let bytes = stand.limits.memory.min(FILLED_MAX);
    // The guest's second memory is one page.
    let pages = (bytes / PAGE).saturating_sub(1);
    failed(&stand.mythra(&format!("f {pages}")).await?)?;
    #[expect(clippy::cast_precision_loss, reason = "a few seconds more or less of gigabytes")]
    let slice = Duration::from_secs_f64(bytes as f64 / FILLS);
    let measured = meter(&stand, 1, slice).await?;
    Ok(format!("{measured}, filling {}", settings::size(bytes as u64)))
}

async fn starts(stand: Stand) -> Proof {
    let mut caller = stand.caller();
    "endless-start".clone_into(&mut caller.agent);
    failed(&whole("Mythra", caller.mythra("e x").await)?)?;
    meter(&stand, 1, Duration::ZERO).await
}

async fn tool(stand: Stand) -> Proof {
    let (limits, silence) = (&stand.limits, stand.ground.silence);
    if limits.tool_time >= limits.turn_time {
        return Err(Trouble::Untried("a turn's own time is over before a tool's is".to_owned()));
    }
    if limits.tool_calls == 0 {
        return Err(Trouble::Untried("no turn may call a tool".to_owned()));
    }
    let heard = stand.mythra(&format!("T 11 fetch_image{{\"url\":\"http://{silence}/a.png\"}}")).await?;
    // 1, and the place of `timeout` among the errors.
    match heard.text.as_str() {
        "13" => clock(limits.tool_time, heard.took),
        said => Err(Trouble::Unproven(format!("the tool did not time out: {said} {}", heard.error))),
    }
}
