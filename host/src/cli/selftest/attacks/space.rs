//! Guests that take room: memory, tables, stack, what they hand to the host, and what they hold of it.

use super::Own;
use crate::{
    cli::selftest::{
        case::Case,
        ground::{Stand, failed},
        settings::{grouped, size},
        verdict::{Proof, Trouble},
    },
    config::Limits,
    limit::Limit,
};

/// A page of WebAssembly's memory.
const PAGE: u64 = 64 * 1024;

/// How many steps of what it holds a guest tells of.
const STEPS: usize = 50;

/// How many resources one pollable takes: the timer, and what waits for it.
const PER_POLLABLE: u64 = 2;

/// How many strings of an aliased list are the same bytes.
const ALIASES: usize = 127;

pub(super) fn of_tenant(own: &Own<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    if let Some(setting) = own.setting("memory") {
        cases.push(own.tenants(Case::of(setting, "two memories that are grown to the end", memory)));
    }
    if let Some(setting) = own.setting("host-call") {
        let case = Case::of(setting, "one text that is a byte too long, after one that fits", host_call);
        cases.push(own.tenants(case).also(&[Limit::Output]));
        let case = Case::of(setting, "127 texts that are the same bytes", aliases);
        cases.push(own.tenants(case));
    }
    if let Some(setting) = own.setting("handles") {
        cases.push(
            own.tenants(Case::of(setting, "pollables that are never given back", handles)).also(&[Limit::Events]),
        );
    }
    if own.index == 0 {
        let elements = grouped(Limits::TABLE_ELEMENTS as u64);
        cases.push(own.server(Case::fixed(
            "table-elements",
            "a table that is grown to the end",
            elements,
            elements_of,
        )));
        let stack = size(Limits::GUEST_STACK as u64);
        cases.push(own.server(Case::fixed("stack", "a function that calls itself for ever", stack, recursion)));
        let case = Case::fixed("random", "one random byte too many", size(Limits::RANDOM), random);
        cases.push(own.server(case));
    }
    cases
}

/// How many bytes a guest may use, as a number of 64 bits.
fn bytes(limit: usize) -> u64 {
    limit as u64
}

async fn memory(stand: Stand) -> Proof {
    let (mythra, lingzhu) = stand.both_fail("m").await?;
    let pages = mythra.number().or_else(|| lingzhu.number());
    let Some(pages) = pages else {
        return Err(Trouble::Unproven("the guest ended before it told how much memory it got".to_owned()));
    };
    let got = pages * PAGE;
    if got > bytes(stand.limits.memory) {
        return Err(Trouble::Broke(format!("the guest got {}", size(got))));
    }
    Ok(format!("refused at {}", size(got)))
}

async fn host_call(stand: Stand) -> Proof {
    let limit = stand.limits.host_call;
    // A kilobyte is for what the engine counts beside the text.
    let fits = limit.saturating_sub(1024);
    let (small, large) = (stand.mythra(&format!("h {fits}")).await?, stand.both(&format!("h {}", limit + 1)).await?);
    if large.0.text == "0" {
        return Err(Trouble::Untried("so much does not fit into the memory of a turn".to_owned()));
    }
    failed(&large.0)?;
    failed(&large.1)?;
    if small.failed {
        return Err(Trouble::Unproven(format!("{} ended the guest as well", size(bytes(fits)))));
    }
    Ok(format!("{} taken, {} B refused", size(bytes(fits)), grouped(bytes(limit) + 1)))
}

async fn aliases(stand: Stand) -> Proof {
    // Together twice what may be handed over.
    let each = stand.limits.host_call / (ALIASES / 2);
    stand.both_fail(&format!("a {ALIASES} {each}")).await?;
    let all = bytes(each) * ALIASES as u64;
    Ok(format!("{} of one {} refused", size(all), size(bytes(each))))
}

async fn handles(stand: Stand) -> Proof {
    let step = (stand.limits.handles / STEPS).max(1) as u64;
    let (mythra, _) = stand.both_fail(&format!("p {step}")).await?;
    let held = mythra.text_bytes * step * PER_POLLABLE;
    if held > bytes(stand.limits.handles) {
        return Err(Trouble::Broke(format!("the guest held {} resources", grouped(held))));
    }
    Ok(format!("ended between {} and {}", grouped(held), grouped(held + step * PER_POLLABLE)))
}

async fn elements_of(stand: Stand) -> Proof {
    let (mythra, _) = stand.both("b").await?;
    match mythra.number() {
        Some(got) if got > Limits::TABLE_ELEMENTS as u64 => Err(Trouble::Broke(format!("the table got {got}"))),
        Some(got) => Ok(format!("refused at {}", grouped(got))),
        None => Err(Trouble::Unproven(format!("the guest did not tell: {}", mythra.error))),
    }
}

async fn recursion(stand: Stand) -> Proof {
    stand.both_fail("k").await?;
    Ok("ended".to_owned())
}

async fn random(stand: Stand) -> Proof {
    let most = Limits::RANDOM;
    let heard = stand.mythra(&format!("r {most}")).await?;
    if heard.number() != Some(most) {
        return Err(Trouble::Unproven(format!("as many as one may ask for were not given: {}", heard.error)));
    }
    stand.both_fail(&format!("r {}", most + 1)).await?;
    Ok(format!("{} B taken, {} B refused", grouped(most), grouped(most + 1)))
}
