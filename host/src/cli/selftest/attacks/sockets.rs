//! Clients of Mythra that say too much, too often, too little, or read nothing.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::Own;
use crate::{
    cli::selftest::{
        case::{Case, late},
        clients::Caller,
        ground::{Stand, whole},
        heard::Mythra,
        line::{Line, Said},
        settings::{self, Setting, grouped, size},
        verdict::{Proof, Trouble},
    },
    limit::Limit,
};

/// The most messages that a client sends to find a bound on them.
const MESSAGES_MAX: u64 = 20_000;

/// How many pings come at once.
const PINGS: u32 = 10_000;

/// The largest message that a client makes; longer ones are only announced.
const LARGEST: usize = 64 * 1024 * 1024;

pub(super) fn of_server(own: &Own<'_>) -> Vec<Case> {
    let mythra = &own.config.mythra;
    let mut cases = Vec::new();
    let mut add = |limit: &str, make: &dyn Fn(&Setting) -> Case| {
        cases.extend(own.setting(limit).map(|setting| own.server(make(setting))));
    };
    let pings = mythra.ping.saturating_mul(mythra.unanswered_pings.saturating_add(1));
    add("idle", &|setting| Case::of(setting, "a WebSocket on which nothing is said", idle).waits(mythra.idle));
    add("session-wait", &|setting| {
        Case::of(setting, "an input of a session whose turn goes on", session_wait).waits(mythra.session_wait).turns(2)
    });
    add("slow-reader", &|setting| {
        let case = Case::of(setting, "a Mythra client that reads nothing", deaf).waits(mythra.slow_reader);
        // Pings are not read either, and the server has a bound of its own.
        let others = pings.min(own.config.server.write_time);
        if others > mythra.slow_reader + late(mythra.slow_reader) {
            case
        } else {
            case.uncounted().also(&[Limit::SlowReader, Limit::UnansweredPings, Limit::WriteTime])
        }
    });
    add("unanswered-pings", &|setting| Case::of(setting, "a client that answers no pings", mute).waits(pings));
    add("max-message", &|setting| Case::of(setting, "a message that is a byte too long", long_message));
    add("max-buffer", &|setting| {
        let case = Case::of(setting, "fragments without end", fragments);
        Case { counter: Some(Limit::Message), ..case }
    });
    add("queue", &|setting| Case::of(setting, "inputs while a turn goes on", queue));
    add("bad-messages", &|setting| Case::of(setting, "messages that are no JSON", bad_messages));
    for case in &mut cases {
        if matches!(case.limit, "slow-reader" | "unanswered-pings" | "session-wait") {
            // What comes before them is out of the way.
            case.tenant.limits.output = 64 * 1024 * 1024;
            case.tenant.limits.events = 1_000_000;
            case.tenant.limits.turn_time = case.takes.saturating_mul(2) + Duration::from_mins(1);
        }
    }
    let flood = Case::fixed("ping-flood", "10,000 pings during a turn", "answered", ping_flood);
    cases.push(own.server(flood));
    cases
}

/// What became of a connection that was to be closed after `configured`, with this said at its end.
fn closed(configured: Duration, took: Duration, how: &str) -> Proof {
    let measured = format!("{how} after {}", settings::time(took));
    if took > configured + late(configured) {
        return Err(Trouble::Broke(format!("{measured}, which is far too late")));
    }
    if took + Duration::from_millis(50) < configured {
        return Err(Trouble::Unproven(format!("{measured}, before its time")));
    }
    Ok(measured)
}

async fn connect(stand: &Stand) -> Result<Line, Trouble> {
    Line::open(&stand.caller()).await
}

async fn idle(stand: Stand) -> Proof {
    let began = Instant::now();
    let mut line = connect(&stand).await?;
    match line.next().await {
        Said::Closed(1000, reason) if reason == "idle" => {
            closed(stand.ground.config.mythra.idle, began.elapsed(), "closed with 1000")
        }
        other => Err(Trouble::Unproven(format!("instead of a goodbye there came {other:?}"))),
    }
}

async fn session_wait(stand: Stand) -> Proof {
    let caller = stand.caller();
    let mut first = stand.begin(&caller, "s").await?;
    first.next_text().await?;
    let began = Instant::now();
    let mut second = stand.begin(&caller, "e hello").await?;
    let proof = match second.next().await {
        Said::Text(text) if text.contains("\"busy\"") => {
            closed(stand.ground.config.mythra.session_wait, began.elapsed(), "\"busy\"")
        }
        other => Err(Trouble::Broke(format!("two turns of one session: {other:?}"))),
    };
    drop(first);
    stand.ended().await;
    proof
}

async fn deaf(stand: Stand) -> Proof {
    let began = Instant::now();
    let caller = stand.caller();
    let mut line = Line::narrow(&caller).await?;
    line.say(caller.input("d 4096")).await;
    stand.begun().await;
    stand.ended().await;
    closed(stand.ground.config.mythra.slow_reader, began.elapsed(), "cut")
}

async fn mute(stand: Stand) -> Proof {
    let mythra = &stand.ground.config.mythra;
    let all = mythra.ping.saturating_mul(mythra.unanswered_pings.saturating_add(1));
    let began = Instant::now();
    // Pings are answered when something is read, which this client never does.
    let line = stand.begin(&stand.caller(), "s").await?;
    stand.begun().await;
    stand.ended().await;
    drop(line);
    closed(all, began.elapsed(), "dropped")
}

async fn long_message(stand: Stand) -> Proof {
    let most = stand.ground.config.mythra.max_message;
    if most >= LARGEST {
        return Err(Trouble::Unproven(format!("no client here sends more than {}", size(LARGEST as u64))));
    }
    let mut line = connect(&stand).await?;
    line.say(Message::text("x".repeat(most + 1))).await;
    let mut told = String::new();
    loop {
        match line.next().await {
            Said::Text(text) => told = text,
            Said::Closed(1009, _) if told.contains("longer than") || told.is_empty() => {
                return Ok(format!("{} B refused with 1009", grouped(most as u64 + 1)));
            }
            other => return Err(Trouble::Broke(format!("instead of a close there came {other:?} after {told:?}"))),
        }
    }
}

async fn fragments(stand: Stand) -> Proof {
    let most = stand.ground.config.mythra.max_buffer;
    let mut line = connect(&stand).await?;
    let piece = 64 * 1024;
    let pieces = (most + 16 * 1024 * 1024) / piece;
    let taken = line.fragments(piece, pieces).await;
    // What the system keeps of a connection comes to it.
    if taken > most + 12 * 1024 * 1024 {
        return Err(Trouble::Broke(format!("{} were taken", size(taken as u64))));
    }
    Ok(format!("closed after {} under way", size(taken as u64)))
}

async fn queue(stand: Stand) -> Proof {
    let most = stand.ground.config.mythra.queue as u64;
    if most > MESSAGES_MAX {
        return Err(Trouble::Unproven(format!("no client here sends {} inputs", grouped(most))));
    }
    let caller = stand.caller();
    let mut line = stand.begin(&caller, "s").await?;
    line.next_text().await?;
    for _ in 0..=most {
        line.say(caller.input("e hello")).await;
    }
    let busy = line.find("\"busy\"").await?;
    drop(line);
    stand.ended().await;
    if busy {
        Ok(format!("{} waited, one more was refused", grouped(most)))
    } else {
        Err(Trouble::Broke(format!("{} inputs waited", grouped(most + 1))))
    }
}

async fn bad_messages(stand: Stand) -> Proof {
    let most = u64::from(stand.ground.config.mythra.bad_messages);
    if most > MESSAGES_MAX {
        return Err(Trouble::Unproven(format!("no client here sends {} messages", grouped(most))));
    }
    let mut line = connect(&stand).await?;
    let mut answered = 0;
    loop {
        line.say(Message::text("{")).await;
        match line.next().await {
            Said::Text(_) => answered += 1,
            Said::Closed(1008, _) if answered == most => return Ok(format!("closed after {}", grouped(answered))),
            other => return Err(Trouble::Broke(format!("after {answered} there came {other:?}"))),
        }
        if answered > most {
            return Err(Trouble::Broke(format!("{} were answered", grouped(answered))));
        }
    }
}

async fn ping_flood(stand: Stand) -> Proof {
    let caller = stand.caller();
    let mut line = stand.begin(&caller, "s 1000").await?;
    let (mut pongs, mut check) = (0, Mythra::default());
    for n in 0..PINGS {
        line.say(Message::Ping(Bytes::copy_from_slice(&n.to_be_bytes()))).await;
        if n % 500 == 499 {
            pongs += line.pongs(n, &mut check).await?;
        }
    }
    let heard = whole("Mythra", Ok(line.rest(check).await))?;
    if heard.failed {
        return Err(Trouble::Broke(format!("the turn among them failed: {}", heard.error)));
    }
    Ok(format!("{} answered, and the turn among them", grouped(pongs)))
}

impl Stand {
    /// A connection on which `caller` has said this.
    pub(super) async fn begin(&self, caller: &Caller, order: &str) -> Result<Line, Trouble> {
        let mut line = Line::open(caller).await?;
        line.say(caller.input(order)).await;
        Ok(line)
    }
}
