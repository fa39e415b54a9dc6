//! Clients of HTTP that are slow, silent, greedy, wrong or gone.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Own;
use crate::{
    cli::selftest::{
        case::{Case, late},
        ground::{LOOK, Stand},
        settings::{self, grouped, size},
        verdict::{Proof, Trouble},
        wire::Wire,
    },
    limit::Limit,
};

/// The largest head of a request.
const HEAD_MAX: usize = 64 * 1024;

/// How much more than a bound a client sends at most.
const MORE: usize = 16 * 1024 * 1024;

/// What a client sends at once.
const PIECE: usize = 64 * 1024;

/// Beside what the host reads of a request that is too large, this much may be under way.
const UNDER_WAY: usize = 8 * 1024 * 1024;

/// How many times the largest body is read and thrown away of a client that sends more.
const THROWN_AWAY: usize = 4;

pub(super) fn of_server(own: &Own<'_>) -> Vec<Case> {
    let server = &own.config.server;
    let mut cases = Vec::new();
    let mut add = |limit: &str, make: &dyn Fn(&settings::Setting) -> Case| {
        cases.extend(own.setting(limit).map(|setting| own.server(make(setting))));
    };
    let time = server.request_time;
    // Heads are the HTTP library's, which tells nobody of those that it does not wait for.
    let head = |case: Case| case.waits(time);
    add("request-time", &|setting| head(Case::of(setting, "a connection that says nothing", silent)));
    add("request-time", &|setting| head(Case::of(setting, "a head that comes byte by byte", slow_head)));
    add("request-time", &|setting| Case::of(setting, "a body that comes byte by byte", slow_body).waits(time));
    add("max-body", &|setting| Case::of(setting, "a body that is announced a byte too long", announced));
    add("max-body", &|setting| Case::of(setting, "a body in chunks without end", endless));
    add("write-time", &|setting| {
        Case::of(setting, "a Lingzhu client that reads nothing", deaf).waits(server.write_time)
    });
    for case in &mut cases {
        if case.limit == "write-time" {
            // What comes before it is out of the way: text that fills what the system keeps for a connection.
            case.tenant.limits.output = 64 * 1024 * 1024;
            case.tenant.limits.events = 1_000_000;
            // The turn may be over before its connection is.
            case.also = &[Limit::TurnTime];
        }
    }
    let most = size(HEAD_MAX as u64);
    cases.push(own.server(Case::fixed("request-head", "a head without end", most, endless_head)));
    cases.push(own.server(Case::fixed("no-http", "what is no request", "closed", garbage)));
    let leaves = Case::fixed("client-gone", "clients that leave while their agents run", "ended", leaves);
    cases.push(own.server(leaves.turns(2)).also(&[Limit::Output, Limit::Events]));
    cases
}

async fn open(stand: &Stand) -> Result<Wire, Trouble> {
    let failed = |error: std::io::Error| Trouble::Unproven(format!("a client cannot connect: {error}"));
    Wire::open(stand.way()).await.map_err(failed)
}

/// A request of HTTP/1.1, up to its last header.
fn head(stand: &Stand) -> String {
    stand.caller().lingzhu_request("e hello").head.replace("HTTP/1.0", "HTTP/1.1")
}

/// What became of a connection that was to be cut after `configured`.
fn cut(configured: Duration, took: Duration, answer: &str) -> Proof {
    let status = answer.split(' ').nth(1).unwrap_or_default();
    let how = if status.is_empty() { "closed".to_owned() } else { format!("{status}, closed") };
    let measured = format!("{how} after {}", settings::time(took));
    if took > configured + late(configured) {
        return Err(Trouble::Broke(format!("{measured}, which is far too late")));
    }
    if took + Duration::from_millis(50) < configured {
        return Err(Trouble::Unproven(format!("{measured}, before its time: {}", crate::text::visible(answer))));
    }
    Ok(measured)
}

async fn silent(stand: Stand) -> Proof {
    let began = Instant::now();
    let answer = open(&stand).await?.end().await;
    cut(stand.ground.config.server.request_time, began.elapsed(), &answer)
}

/// Sends byte after byte until the host closes the connection; what it answered, and after how long.
async fn drip(wire: &mut Wire, time: Duration) -> (String, Duration) {
    let began = Instant::now();
    let every = (time / 50).clamp(Duration::from_millis(5), Duration::from_secs(1));
    loop {
        let over = tokio::time::timeout(every, wire.end()).await;
        if let Ok(answer) = over {
            return (answer, began.elapsed());
        }
        if !wire.send(b"y").await {
            return (wire.text(), began.elapsed());
        }
    }
}

async fn slow_head(stand: Stand) -> Proof {
    let time = stand.ground.config.server.request_time;
    let mut wire = open(&stand).await?;
    wire.send(format!("{}x: ", head(&stand)).as_bytes()).await;
    let (answer, took) = drip(&mut wire, time).await;
    cut(time, took, &answer)
}

async fn slow_body(stand: Stand) -> Proof {
    let time = stand.ground.config.server.request_time;
    let mut wire = open(&stand).await?;
    wire.send(format!("{}content-length: 1000000\r\n\r\n", head(&stand)).as_bytes()).await;
    let (answer, took) = drip(&mut wire, time).await;
    if !answer.starts_with("HTTP/1.1 408 ") {
        return Err(Trouble::Unproven(format!("it was answered with {:?}", crate::text::visible(&answer))));
    }
    cut(time, took, &answer)
}

async fn announced(stand: Stand) -> Proof {
    let too_many = stand.ground.config.lingzhu.max_body + 1;
    let mut wire = open(&stand).await?;
    let headers = format!("{}content-length: {too_many}\r\nexpect: 100-continue\r\n\r\n", head(&stand));
    wire.send(headers.as_bytes()).await;
    wire.until("\r\n\r\n").await;
    let answer = wire.text();
    if !answer.starts_with("HTTP/1.1 413 ") {
        return Err(Trouble::Broke(format!("it was answered with {:?}", crate::text::head(&answer, 80))));
    }
    Ok(format!("{} B refused with 413", grouped(too_many as u64)))
}

async fn endless(stand: Stand) -> Proof {
    let max = stand.ground.config.lingzhu.max_body;
    let mut wire = open(&stand).await?;
    wire.send(format!("{}transfer-encoding: chunked\r\n\r\n", head(&stand)).as_bytes()).await;
    let chunk = format!("{PIECE:x}\r\n{}\r\n", "x".repeat(PIECE));
    let pieces = (max.saturating_mul(THROWN_AWAY) + UNDER_WAY + MORE) / PIECE;
    let taken = wire.push(chunk.as_bytes(), pieces).await;
    let answer = wire.end().await;
    if taken > max.saturating_mul(THROWN_AWAY) + UNDER_WAY {
        return Err(Trouble::Broke(format!("{} were taken", size(taken as u64))));
    }
    let status = answer.split(' ').nth(1).unwrap_or("closed").to_owned();
    Ok(format!("{status} after {} of it", size(taken as u64)))
}

async fn endless_head(stand: Stand) -> Proof {
    let mut wire = open(&stand).await?;
    wire.send(head(&stand).as_bytes()).await;
    let line = format!("x: {}\r\n", "y".repeat(1000));
    let taken = wire.push(line.as_bytes(), MORE / line.len()).await;
    let answer = wire.end().await;
    if taken > HEAD_MAX + UNDER_WAY {
        return Err(Trouble::Broke(format!("{} were taken", size(taken as u64))));
    }
    let status = answer.split(' ').nth(1).unwrap_or("closed").to_owned();
    Ok(format!("{status} after {} under way", size(taken as u64)))
}

async fn garbage(stand: Stand) -> Proof {
    let pieces =
        ["\0\x01\x02\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\0\x01\x02\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"];
    for piece in pieces {
        let mut wire = open(&stand).await?;
        wire.send(piece.as_bytes()).await;
        let answer = wire.end().await;
        if !answer.is_empty() && !answer.starts_with("HTTP/1.1 4") {
            return Err(Trouble::Broke(format!("{piece:?} was answered with {answer:?}")));
        }
    }
    Ok(format!("{} tries, all closed", pieces.len()))
}

/// How long it takes until what the system keeps for a connection is full.
const STUCK: Duration = Duration::from_secs(1);

/// A client that has an agent talk without end, and reads nothing. The agent waits for it, and does not compute.
async fn deaf(stand: Stand) -> Proof {
    let time = stand.ground.config.server.write_time;
    let failed = |error: std::io::Error| Trouble::Unproven(format!("a client cannot connect: {error}"));
    let mut wire = Wire::narrow(stand.way()).await.map_err(failed)?;
    let request = stand.caller().lingzhu_request("d 4096");
    wire.send(request.whole().as_bytes()).await;
    let began = Instant::now();
    let hits = || stand.ground.metrics.hits_of_nobody(Limit::WriteTime);
    let before = hits();
    let cut = || hits() > before && stand.ground.metrics.running(&stand.tenant) == 0;
    // Another case's client may be cut at the same moment, and this one reads nothing before its own time is over.
    while (!cut() || began.elapsed() < time + STUCK) && began.elapsed() < time + late(time) {
        sleep(LOOK).await;
    }
    let took = began.elapsed();
    let answer = wire.drain().await;
    if answer.contains("event: done") {
        let after = settings::time(took);
        return Err(Trouble::Broke(format!("the client took nothing for {after}, and then got the stream to its end")));
    }
    stand.ended().await;
    Ok(format!("cut after {}", settings::time(took)))
}

/// One client of each protocol leaves an agent that sleeps, and one an agent that computes.
async fn leaves(stand: Stand) -> Proof {
    let mut longest = Duration::ZERO;
    for order in ["s", "d 64"] {
        let caller = stand.caller();
        let request = caller.lingzhu_request(order);
        let mut wire = open(&stand).await?;
        wire.send(request.whole().as_bytes()).await;
        if !wire.until("answer_stream").await {
            return Err(Trouble::Unproven(format!("the agent did not begin: {}", crate::text::visible(&wire.text()))));
        }
        let mut socket = stand.begin(&caller, order).await?;
        socket.next_text().await?;
        let left = Instant::now();
        drop(wire);
        drop(socket);
        stand.ended().await;
        longest = longest.max(left.elapsed());
    }
    Ok(format!("ended {} after they left", settings::time(longest)))
}
