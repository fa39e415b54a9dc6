//! One turn of a component that fits, on its own, to see what it takes: does it start, does it answer, how much memory
//! and CPU time does it use. It runs in the same sandbox as any turn, with the tools that its tenant has, but those that
//! reach the network, and with a workspace that is thrown away.
//!
//! It gets more memory and time than a turn may have, so that what is missing can be told.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use tokio::time::Instant;

use crate::{
    bindings::types::{Content, Message, Request, Role},
    capabilities::{Tally, TurnCtx, TurnState, tools::ToolBox, tools::image},
    config::{AgentConfig, Config, Limits, TenantConfig},
    ids::{self, ANONYMOUS, SessionKey},
    metrics::Metrics,
    runtime::{CompiledAgent, GuestFault, GuestThreads, Meter, instance},
    script::{Encode, Frames, Step, outbox},
    store::Store,
    tenants::Share,
};

/// What is said to it.
pub(super) const SAID: &str = "hello";

/// The memory that it may have, if a turn may not have more anyway: what the largest language runtime does not need.
const MEMORY: usize = 1024 * 1024 * 1024;

/// How much more CPU time it may have than a turn, and the most.
const CPU_TIMES: u32 = 10;
const CPU_MAX: Duration = Duration::from_secs(30);

/// How long it may take.
const TIME: Duration = Duration::from_mins(1);

/// What a turn took, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    pub(super) end: End,
    pub(super) took: Duration,
    /// When it showed something, if it did.
    pub(super) first: Option<Duration>,
    pub(super) cpu: Duration,
    /// The most memory that it held.
    pub(super) memory: u64,
    pub(super) events: u64,
    /// The tools that it called, each once.
    pub(super) tools: Vec<String>,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Answered,
    /// It returned an error.
    Said(String),
    /// No turn of it can begin.
    NotStarted(String),
    /// It trapped, or passed a limit; where it was, innermost first.
    Failed(String, Vec<String>),
}

/// Takes note of what is shown.
#[derive(Default)]
struct Seen {
    tools: Vec<String>,
}

/// The protocol of nobody.
struct Watch(Arc<Mutex<Seen>>);

impl Encode for Watch {
    fn encode(&mut self, step: &Step<'_>, out: &mut Frames) {
        match step {
            Step::Tool { name, .. } => {
                let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if !seen.tools.iter().any(|tool| tool == name) && seen.tools.len() < 32 {
                    seen.tools.push((*name).to_owned());
                }
            }
            // The first of these is what its user sees first. Nobody reads it.
            Step::Delta { .. } if out.is_empty() => out.end_frame(),
            _ => {}
        }
    }
}

/// Runs the turn.
pub(super) async fn run(agent: &Arc<CompiledAgent>, tenant: &TenantConfig, limits: &Limits) -> anyhow::Result<Trial> {
    let guests = GuestThreads::start(&tokio::runtime::Handle::current()).context("cannot start a thread")?;
    let folder = tempfile::tempdir().context("cannot make a folder")?;
    let store = Store::open(folder.path(), &Config::default().sessions, &Metrics::new())?;
    let limits = Limits {
        memory: limits.memory.max(MEMORY),
        cpu_time: (limits.cpu_time * CPU_TIMES).min(CPU_MAX).max(limits.cpu_time),
        ..limits.clone()
    };
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (outbox, reader) = outbox(Box::new(Watch(Arc::clone(&seen))));
    let tally = Arc::new(Tally::default());
    let meter = Arc::new(Meter::new(limits.cpu_time, Arc::new(Share::new(tenant.cpu_weight))));
    let offline = TenantConfig { http: Vec::new(), ..tenant.clone() };
    let session = SessionKey { agent: agent.id.clone(), user: ANONYMOUS.to_owned(), conversation: ids::base36::<16>() };
    let ctx = TurnCtx {
        turn_id: ids::turn_id(),
        session: session.clone(),
        facts: BTreeMap::new(),
        tools: ToolBox::new(&offline, &AgentConfig { http: None, ..agent.config.clone() }, false),
        store: store.clone(),
        http: image::client().context("cannot make an HTTP client")?,
    };
    let content = Content::Text(SAID.to_owned());
    let request = Request {
        session_id: session.conversation.clone(),
        turn_id: ctx.turn_id.clone(),
        user_id: None,
        input: vec![Message { role: Role::User, content }],
    };
    let message = request.input.clone();
    store.begin(&session, &request.turn_id, &message, &BTreeMap::new()).await;
    let state = TurnState::new(ctx, outbox.clone(), limits, &tally);
    let (agent, own_meter, (tell, told)) = (Arc::clone(agent), Arc::clone(&meter), tokio::sync::oneshot::channel());
    let began = Instant::now();
    guests.lanes().spawn(&meter, async move {
        let ran = tokio::time::timeout(TIME, instance::run(&agent, state, request, &own_meter)).await;
        // Whoever waits for it is there to its end.
        drop(tell.send((ran, began.elapsed())));
    });
    let (ran, took) = told.await.context("the turn was lost")?;
    let end = match ran {
        Err(_) => End::Failed(format!("turn-time: it took longer than {TIME:?}"), Vec::new()),
        Ok(Ok(Ok(()))) => End::Answered,
        Ok(Ok(Err(said))) => End::Said(said),
        Ok(Err(fallen)) if fallen.starting || matches!(fallen.fault, GuestFault::Start(_)) => {
            End::NotStarted(fallen.fault.to_string())
        }
        Ok(Err(fallen)) => End::Failed(fallen.fault.to_string(), fallen.backtrace),
    };
    let first = outbox.first_frame().map(|first| first.saturating_duration_since(began));
    drop(reader);
    store.close().await;
    let tools = std::mem::take(&mut seen.lock().unwrap_or_else(PoisonError::into_inner).tools);
    Ok(Trial { end, took, first, cpu: meter.used(), memory: tally.memory(), events: tally.events(), tools })
}
