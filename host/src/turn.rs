//! A turn: one user input to its end.
//!
//! [`Turns::start`] begins one and gives back the [`Reader`] of its frames. The turn runs as a task of its own on the
//! guests' threads; whatever becomes of the guest (it returns, traps, passes a limit, never returns, its client leaves,
//! the host goes down), the script ends the stream well-formed and the reader sees it to its end.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{sync::broadcast, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use crate::{
    admission::Permit,
    bindings::types::{Content, Message, Request},
    capabilities::{Tally, TurnCtx, TurnState, tools::ToolBox},
    config::Limits,
    ids::{self, SessionKey},
    metrics::Metrics,
    records::{Cause, Records, TurnRecord, Wreck},
    runtime::{CompiledAgent, Lanes, Meter, instance},
    script::{Encode, Failure, Outbox, Outcome, Reader, outbox},
    store::Store,
    tenants::Tenant,
};

mod end;
mod ended;

use end::End;
pub use end::SAID_MAX;
pub use ended::Ended;

/// How long a turn's end may wait for the store, which only takes note and waits for no disk.
const STORE_WAIT: Duration = Duration::from_secs(1);

/// What a protocol asks for when a user said something.
pub struct Order {
    /// Who answers. The turn keeps this version to its end.
    pub agent: Arc<CompiledAgent>,
    /// Whose agent it is.
    pub tenant: Arc<Tenant>,
    /// The conversation, for the host.
    pub session: SessionKey,
    /// The person as the client names them, for the guest.
    pub user: Option<String>,
    /// What is new.
    pub input: Vec<Message>,
    /// What the client said of itself and its surroundings, by kebab-case key.
    pub facts: BTreeMap<String, String>,
    /// Whether the client is a device that takes commands.
    pub device: bool,
    /// The protocol's name, for what is counted. No guest hears of it.
    pub protocol: &'static str,
    /// The endpoint's own bound on the turn's time, if it has one.
    pub turn_time: Option<Duration>,
    /// How the client is shown the turn.
    pub encoder: Box<dyn Encode>,
    /// The right to run it.
    pub permit: Permit,
}

/// What turns are made of, the same for all.
pub struct Parts {
    /// Where they run.
    pub lanes: Lanes,
    /// What the host remembers of conversations.
    pub store: Store,
    /// What is known of turns once they have ended.
    pub records: Records,
    /// What is counted.
    pub metrics: Metrics,
    /// What the host fetches with.
    pub http: reqwest::Client,
    /// Whether crash cards hold what was said; asked at each turn's start.
    pub keep_text: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Where turns run. Cloning is shallow.
#[derive(Clone)]
pub struct Turns {
    shared: Arc<Shared>,
}

struct Shared {
    parts: Parts,
    tasks: TaskTracker,
    /// Cancelled when the turns that still run must end.
    cut: CancellationToken,
    /// Where it is told that a turn has ended.
    ended: broadcast::Sender<Arc<Ended>>,
}

impl Turns {
    /// Turns of these parts.
    pub fn new(parts: Parts) -> Self {
        let ended = broadcast::Sender::new(ended::WAITING_MAX);
        let shared = Shared { parts, tasks: TaskTracker::new(), cut: CancellationToken::new(), ended };
        Self { shared: Arc::new(shared) }
    }

    /// How many turns run now.
    pub fn running(&self) -> usize {
        self.shared.tasks.len()
    }

    /// Tells of every turn that ends from now on.
    pub fn watch(&self) -> broadcast::Receiver<Arc<Ended>> {
        self.shared.ended.subscribe()
    }

    /// Begins a turn. Dropping the reader ends it.
    pub fn start(&self, order: Order) -> Reader {
        let Order { agent, tenant, session, user, input, facts, device, protocol, turn_time, encoder, permit } = order;
        let (outbox, reader) = outbox(encoder);
        let limits = agent
            .config
            .limits
            .as_ref()
            .map_or_else(|| tenant.config.limits.clone(), |asked| asked.within(&tenant.config.limits));
        let meter = Arc::new(Meter::new(limits.cpu_time, Arc::clone(&tenant.account.share)));
        let text = (self.shared.parts.keep_text)().then(|| texts(&input));
        let turn = Turn {
            id: ids::turn_id(),
            time: turn_time.map_or(limits.turn_time, |bound| bound.min(limits.turn_time)),
            tools: ToolBox::new(&tenant.config, &agent.config, device),
            protocol,
            text,
            limits,
            agent,
            session,
            user,
            input,
            facts,
            outbox,
            meter: Arc::clone(&meter),
            began: Instant::now(),
        };
        let span = tracing::info_span!(
            "turn",
            tenant = %turn.agent.id.tenant,
            agent = %turn.agent.id.agent,
            session = %crate::text::visible(crate::text::head(&turn.session.conversation, 64)),
            turn = %turn.id,
        );
        let shared = Arc::clone(&self.shared);
        let task = async move { turn.run(&shared, permit).await };
        self.shared.parts.lanes.spawn(&meter, self.shared.tasks.track_future(task.instrument(span)));
        reader
    }

    /// Lets the running turns go on for `grace`, then ends those that still run, and waits until all have ended.
    pub async fn drain(&self, grace: Duration) {
        self.shared.tasks.close();
        if tokio::time::timeout(grace, self.shared.tasks.wait()).await.is_err() {
            tracing::warn!(turns = self.running(), "turns still run after {grace:?}; ending them");
            self.shared.cut.cancel();
            self.shared.tasks.wait().await;
        }
    }
}

/// What the user said, as far as it is text.
fn texts(input: &[Message]) -> String {
    let texts = input.iter().filter_map(|message| match &message.content {
        Content::Text(text) => Some(text.as_str()),
        Content::Image(_) | Content::File(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A turn that runs.
struct Turn {
    id: String,
    agent: Arc<CompiledAgent>,
    session: SessionKey,
    user: Option<String>,
    input: Vec<Message>,
    facts: BTreeMap<String, String>,
    tools: ToolBox,
    limits: Limits,
    time: Duration,
    protocol: &'static str,
    /// What the user said, where crash cards hold it.
    text: Option<String>,
    outbox: Outbox,
    meter: Arc<Meter>,
    began: Instant,
}

impl Turn {
    async fn run(self, shared: &Shared, permit: Permit) {
        let Self { id, agent, session, user, input, facts, tools, limits, time, protocol, text, outbox, meter, began } =
            self;
        // Whatever happens below, a panic of ours included, the stream ends.
        let ending = Ending(outbox.clone());
        let Parts { store, records, metrics, http, .. } = &shared.parts;
        if tokio::time::timeout(STORE_WAIT, store.begin(&session, &id, &input, &facts)).await.is_err() {
            tracing::error!("the store does not answer; what the user said is not kept");
        }
        let request = Request { session_id: session.conversation.clone(), turn_id: id.clone(), user_id: user, input };
        let ctx = TurnCtx {
            turn_id: id.clone(),
            session: session.clone(),
            facts,
            tools,
            store: store.clone(),
            http: http.clone(),
        };
        let tally = Arc::new(Tally::default());
        let state = TurnState::new(ctx, outbox.clone(), limits, &tally);
        let guest = AssertUnwindSafe(instance::run(&agent, state, request, &meter)).catch_unwind();
        let end = tokio::select! {
            biased;
            () = outbox.gone() => End::ClientLeft,
            () = shared.cut.cancelled() => End::ShuttingDown,
            guest = tokio::time::timeout(time, guest) => match guest {
                Err(_) => End::TurnTime(time),
                Ok(Err(_)) => End::Panicked,
                Ok(Ok(Err(fallen))) => End::Guest(fallen),
                Ok(Ok(Ok(Err(said)))) => End::Said(said),
                Ok(Ok(Ok(Ok(())))) => End::Answered,
            },
        };
        // A guest that hears of it may end by itself before we are told.
        let end = match end {
            End::Said(_) | End::Guest(_) if outbox.is_gone() => End::ClientLeft,
            end => end,
        };
        // What the next turn needs of this one, and its bill, come before the last frame: a client may speak again as soon
        // as it sees that. A store that hangs holds nobody up.
        let answer = outbox.take_answer();
        let text = text.map(|said| format!("user: {said}\nagent: {answer}"));
        if !answer.is_empty() {
            let kept = tokio::time::timeout(STORE_WAIT, store.answer(&session, &id, answer)).await;
            if kept.is_err() {
                tracing::error!("the store does not answer; what the agent said is not kept");
            }
        }
        let record = TurnRecord {
            id,
            agent: agent.id.clone(),
            version: agent.version.clone(),
            protocol,
            at: jiff::Timestamp::now(),
            took: began.elapsed(),
            cpu: meter.used(),
            memory: tally.memory(),
            events: tally.events(),
            output: tally.output(),
            tool_calls: tally.tool_calls(),
            cause: end.cause(),
        };
        if let Cause::Limit(limit) = record.cause {
            tally.strike(limit);
        }
        let limits = tally.struck();
        metrics.turn_ended(&record, &limits);
        let first = outbox.first_frame().map(|first| first.saturating_duration_since(began));
        if let Some(first) = first {
            metrics.first_event(protocol, first);
        }
        end.log(&record);
        let outcome = end.outcome(&record.id);
        let wreck = record.cause.is_failure().then(|| Wreck {
            detail: end.detail(text.is_some()),
            backtrace: end.backtrace(),
            events: tally.last_events(),
            calls: tally.last_calls(),
            limits: limits.clone(),
            text,
        });
        if shared.ended.receiver_count() > 0 {
            let (session, kinds, refused) = (session.conversation, tally.kinds(), tally.refused());
            let (record, wreck) = (record.clone(), wreck.clone());
            // Whoever watched may be gone since.
            _ = shared.ended.send(Arc::new(Ended { session, record, kinds, refused, first, limits, wreck }));
        }
        records.turn_ended(permit.give_back(), &record, wreck);
        outbox.finish(&outcome);
        drop(ending);
    }
}

/// Ends a turn's stream when it is dropped, if nothing else has.
struct Ending(Outbox);

impl Drop for Ending {
    fn drop(&mut self) {
        let finish = || self.0.finish(&Outcome::Failed(Failure::General(None)));
        // An encoder that panicked once may do so again, which while unwinding would end the process.
        if std::panic::catch_unwind(AssertUnwindSafe(finish)).is_err() {
            tracing::error!("a turn's stream could not be ended");
        }
    }
}
