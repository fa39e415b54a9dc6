//! More turns, more requests and more connections than there is room for.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::Own;
use crate::cli::selftest::{
    case::Case,
    clients::{Caller, NoTurn},
    ground::{GUEST, Stand},
    hold::{self, Hold},
    line::Line,
    settings::{Setting, grouped, size},
    verdict::{Proof, Trouble},
    wire::{Way, Wire},
};

/// The most turns a minute that a client here can use up.
const RATE_MAX: u32 = 5_000;

/// What all bodies that are held at once may take together; a tenant's clients' a quarter of it.
const BODIES: u64 = 256 * 1024 * 1024;

/// Four times as long as bodies that were sent are given to be held.
const HOLDING: Duration = Duration::from_secs(1);

/// How many more are begun in place of those that may have been refused.
const EXTRA: u64 = 8;

/// The most bodies that are begun to find a bound on them.
const BODIES_MAX: u64 = 512;

/// The most connections of Mythra that are opened to find a bound on them.
const SOCKETS_MAX: u32 = 4_000;

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
    if let Some(setting) = own.setting("tenant-connections") {
        let case = Case::of(setting, "one WebSocket more than the tenant may have", tenant_connections);
        cases.push(own.tenants(case).alone());
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
    let mut cases: Vec<_> = turns.into_iter().collect();
    let mut add = |limit: &str, make: &dyn Fn(&Setting) -> Case| {
        cases.extend(own.setting(limit).map(|setting| own.server(make(setting)).alone()));
    };
    add("connections-per-address", &|setting| {
        Case::of(setting, "connections of one address that say nothing", address)
    });
    add("connections", &|setting| Case::of(setting, "connections that say nothing", connections));
    let (all, each) = (size(BODIES), size(BODIES / 4));
    cases.push(
        own.server(Case::fixed("tenant-bodies", "bodies that stop before their end", each, tenant_bodies)).alone(),
    );
    let case = Case::fixed("bodies", "bodies of five tenants that stop before their end", all, bodies);
    cases.push(own.server(case).alone());
    cases
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
        let way = stand.crowded(n);
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

/// Has a child open a few connections more than `most`, and checks how many stay open.
async fn hold(stand: &Stand, most: u32, per_address: u32) -> Proof {
    let connections = most.saturating_add(hold::MORE);
    let began = Instant::now();
    let held = Hold { to: stand.ground.address, connections, per_address }.in_child().await;
    let held = held.map_err(|error| Trouble::Unproven(format!("{error:#}")))?;
    if began.elapsed() > stand.ground.config.server.request_time && held.open < most {
        return Err(Trouble::Untried("server.request-time closes the first before so many are open".to_owned()));
    }
    let measured = format!("{} open, {} closed at once", grouped(held.open.into()), held.closed);
    if held.open > most {
        return Err(Trouble::Broke(measured));
    }
    // A connection or two of ours may not be gone yet.
    if held.open + hold::MORE < most {
        return Err(Trouble::Unproven(format!("{measured}: this machine cannot open so many")));
    }
    Ok(measured)
}

async fn address(stand: Stand) -> Proof {
    let server = &stand.ground.config.server;
    let most = server.connections_per_address;
    if most >= server.connections {
        return Err(Trouble::Untried("server.connections is reached first".to_owned()));
    }
    hold(&stand, most, u32::MAX).await
}

async fn connections(stand: Stand) -> Proof {
    let server = &stand.ground.config.server;
    hold(&stand, server.connections, server.connections_per_address.min(PER_ADDRESS)).await
}

async fn tenant_connections(stand: Stand) -> Proof {
    let (most, server) = (stand.entry.connections, &stand.ground.config.server);
    if most >= server.connections {
        return Err(Trouble::Untried("server.connections is reached first".to_owned()));
    }
    if most > SOCKETS_MAX {
        return Err(Trouble::Untried(format!("no more than {} are opened here", grouped(SOCKETS_MAX.into()))));
    }
    let caller = |n: u32| Caller { way: stand.crowded(n), ..stand.caller() };
    let mut open = Vec::new();
    for n in 0..most {
        open.push(Line::open(&caller(n)).await?);
    }
    match caller(most).socket().await {
        Err(NoTurn::Refused(429, _)) => Ok(format!("{} open, one more got 429", grouped(most.into()))),
        Err(NoTurn::Refused(status, words)) => Err(Trouble::Unproven(format!("one more got {status}: {words}"))),
        Err(NoTurn::Broken(why)) => Err(Trouble::Unproven(why)),
        Ok(_) => Err(Trouble::Broke(format!("{} were open", grouped(u64::from(most) + 1)))),
    }
}

/// Begins bodies of these callers, as many as all of them may have held together, and checks that one more of the case's own
/// tenant, which is whole, gets `status`.
async fn fill(stand: &Stand, callers: &[Caller], most: u64, status: u16) -> Proof {
    let config = &stand.ground.config;
    let each = config.lingzhu.max_body as u64;
    let count = most / each;
    if count > BODIES_MAX {
        return Err(Trouble::Untried(format!("it would take {} bodies", grouped(count))));
    }
    let failed = |error: std::io::Error| Trouble::Unproven(format!("a client cannot connect: {error}"));
    let body = "x".repeat(config.lingzhu.max_body);
    let (beginning, of_tenant) = (body.get(1..).unwrap_or_default().as_bytes(), (BODIES / 4 / each).max(1));
    let began = Instant::now();
    let mut open = Vec::new();
    let holder = async |n: u64| -> Result<Option<Wire>, Trouble> {
        let Some(caller) = usize::try_from(n / of_tenant).ok().and_then(|n| callers.get(n)) else { return Ok(None) };
        let mut wire = Wire::open(stand.crowded(u32::try_from(n).unwrap_or_default())).await.map_err(failed)?;
        wire.send(body_head(caller, each).as_bytes()).await;
        wire.push(beginning, 1).await;
        Ok(Some(wire))
    };
    for n in 0..count {
        open.extend(holder(n).await?);
    }
    let held = size(each * open.len() as u64);
    let mut answer = String::new();
    for more in 0..EXTRA {
        // What is under way is not held yet.
        sleep(config.server.request_time.min(HOLDING) / 4).await;
        let mut wire = Wire::open(stand.way()).await.map_err(failed)?;
        wire.send(body_head(&stand.caller(), each).as_bytes()).await;
        wire.push(body.as_bytes(), 1).await;
        wire.until("\r\n\r\n").await;
        answer = wire.text();
        if answer.starts_with(&format!("HTTP/1.1 {status} ")) {
            return Ok(format!("{held} held, one more got {status}"));
        }
        if began.elapsed() > config.server.request_time {
            return Err(Trouble::Untried("server.request-time ends bodies before so many are sent".to_owned()));
        }
        // It came before the last of the others, which was refused instead.
        open.extend(holder(count - 1 - more % of_tenant).await?);
    }
    Err(Trouble::Broke(format!("beside {held} one more got {:?}", crate::text::head(&answer, 40))))
}

/// The head of a request whose body has so many bytes.
fn body_head(caller: &Caller, bytes: u64) -> String {
    let head = caller.lingzhu_request("").head.replace("HTTP/1.0", "HTTP/1.1");
    format!("{head}connection: close\r\ncontent-length: {bytes}\r\n\r\n")
}

async fn tenant_bodies(stand: Stand) -> Proof {
    fill(&stand, &[stand.caller()], BODIES / 4, 429).await
}

async fn bodies(stand: Stand) -> Proof {
    let caller =
        |(tenant, key): &(String, String)| Caller { tenant: tenant.clone(), key: Some(key.clone()), ..stand.caller() };
    let callers: Vec<_> = stand.ground.crowd.iter().map(caller).collect();
    fill(&stand, &callers, BODIES, 503).await
}

impl Stand {
    /// The way of the client of this number, from one of as many addresses as a crowd needs.
    fn crowded(&self, n: u32) -> Way {
        let n = n / self.ground.config.server.connections_per_address.clamp(1, PER_ADDRESS);
        let part = |n: u32| u8::try_from(n % 250).unwrap_or_default() + 1;
        Way { from: IpAddr::V4(Ipv4Addr::new(127, 30, part(n / 250), part(n))), ..self.way() }
    }
}
