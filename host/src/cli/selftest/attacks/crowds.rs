//! More turns, more requests and more connections than there is room for.

use std::net::{IpAddr, Ipv4Addr};

use super::Own;
use crate::cli::selftest::{
    case::Case,
    clients::{Caller, NoTurn},
    ground::{GUEST, Stand},
    settings::grouped,
    verdict::{Proof, Trouble},
    wire::{Way, Wire},
};

/// The most turns a minute that a client here can use up.
const RATE_MAX: u32 = 5_000;

/// How many connections of a crowd come from one address.
const PER_ADDRESS: u32 = 100;

pub(super) fn of_tenant(own: &Own<'_>) -> Vec<Case> {
    let mut cases = Vec::new();
    if let Some(setting) = own.setting("tenant-concurrent-turns") {
        let case = Case::of(setting, "one turn more at once than the tenant may have", tenant_turns);
        cases.push(own.tenants(case).alone());
    }
    if let Some(setting) = own.setting("turns-per-minute") {
        let rate = own.group.config.turns_per_minute;
        let case = Case::of(setting, "turns as fast as they are answered", rate_of).spent();
        cases.push(own.tenants(case).with(|tenant| tenant.turns_per_minute = rate));
    } else {
        let case = Case::fixed("turns-per-minute", "turns as fast as they are answered", "none", no_rate);
        cases.push(own.tenants(case));
    }
    cases
}

pub(super) fn of_server(own: &Own<'_>) -> Vec<Case> {
    let most = own.config.server.concurrent_turns;
    let turns = own.setting("concurrent-turns").map(|setting| {
        let case = own.server(Case::of(setting, "one turn more at once than the server may have", server_turns));
        // What comes before it is out of the way.
        case.alone().with(|tenant| tenant.concurrent_turns = most.saturating_add(1))
    });
    turns.into_iter().collect()
}

/// Clients that each have a turn that goes on, from as many addresses as they need.
struct Crowd {
    turns: Vec<Wire>,
}

impl Crowd {
    /// So many turns at once, if so many are let in; otherwise how many were, and how the next was refused.
    async fn gather(stand: &Stand, turns: u32) -> Result<Self, Trouble> {
        let mut crowd = Self { turns: Vec::new() };
        for n in 0..turns {
            if let Err((status, words)) = crowd.join(stand, n).await? {
                return Err(Trouble::Unproven(format!(
                    "the {}th was refused with {status}: {words}",
                    grouped(n.into())
                )));
            }
        }
        Ok(crowd)
    }

    /// One more; with which status and words it was refused, if it was.
    async fn join(&mut self, stand: &Stand, n: u32) -> Result<Result<(), (u16, String)>, Trouble> {
        let way = Way { from: crowded(n), ..stand.way() };
        let request = Caller { way, ..stand.caller() }.lingzhu_request("s");
        let failed = |error: std::io::Error| Trouble::Unproven(format!("a client cannot connect: {error}"));
        let mut wire = Wire::open(way).await.map_err(failed)?;
        wire.send(request.whole().as_bytes()).await;
        wire.until("\r\n\r\n").await;
        let text = wire.text();
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        if status == 200 {
            self.turns.push(wire);
            return Ok(Ok(()));
        }
        let answer = wire.end().await;
        let words = answer.split_once("\r\n\r\n").map(|(_, body)| crate::text::visible(body)).unwrap_or_default();
        Ok(Err((status, words)))
    }
}

/// The address of the client of this number.
fn crowded(n: u32) -> IpAddr {
    let n = n / PER_ADDRESS;
    let part = |n: u32| u8::try_from(n % 250).unwrap_or_default() + 1;
    IpAddr::V4(Ipv4Addr::new(127, 30, part(n / 250), part(n)))
}

/// Has `most` turns at once, and checks that one more gets `status`.
async fn one_more(stand: &Stand, most: u32, status: u16) -> Proof {
    let mut crowd = Crowd::gather(stand, most).await?;
    let more = crowd.join(stand, most).await?;
    drop(crowd);
    stand.ended().await;
    match more {
        Err((found, _)) if found == status => Ok(format!("{} ran, one more got {status}", grouped(most.into()))),
        Err((found, words)) => Err(Trouble::Unproven(format!("one more got {found}: {words}"))),
        Ok(()) => Err(Trouble::Broke(format!("{} ran", grouped(u64::from(most) + 1)))),
    }
}

async fn tenant_turns(stand: Stand) -> Proof {
    let most = stand.entry.concurrent_turns;
    let all = stand.ground.config.server.concurrent_turns;
    if most >= all {
        return Err(Trouble::Untried("server.concurrent-turns is reached first".to_owned()));
    }
    one_more(&stand, most, 429).await
}

async fn server_turns(stand: Stand) -> Proof {
    one_more(&stand, stand.ground.config.server.concurrent_turns, 503).await
}

async fn no_rate(stand: Stand) -> Proof {
    let _nothing_to_try = stand;
    Err(Trouble::Untried(
        "none is set: whoever has a key may begin turns as fast as they are answered; hint: turns-per-minute = 600"
            .to_owned(),
    ))
}

async fn rate_of(stand: Stand) -> Proof {
    let Some(most) = stand.entry.turns_per_minute else {
        return no_rate(stand).await;
    };
    if most > RATE_MAX {
        return Err(Trouble::Untried(format!("no client here has {} turns a minute", grouped(most.into()))));
    }
    let caller = Caller { agent: GUEST.to_owned(), ..stand.caller() };
    // As many again would have to be let in after a minute only; some come back meanwhile.
    for turn in 0..most.saturating_mul(2) {
        match caller.lingzhu("e x").await {
            Ok(_) => {}
            Err(NoTurn::Refused(429, _)) if turn < most => {
                return Err(Trouble::Broke(format!("refused after {} already", grouped(turn.into()))));
            }
            Err(NoTurn::Refused(429, _)) => return Ok(format!("429 after {}", grouped(turn.into()))),
            Err(NoTurn::Refused(status, words)) => {
                return Err(Trouble::Unproven(format!("refused with {status}: {words}")));
            }
            Err(NoTurn::Broken(why)) => return Err(Trouble::Unproven(why)),
        }
    }
    Err(Trouble::Broke(format!("{} were let in", grouped(u64::from(most) * 2))))
}
