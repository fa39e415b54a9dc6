//! A turn: one user input to its end.
//!
//! [`Turns::start`] begins one and gives back the [`Reader`] of its frames. The turn runs as a task of its own on the
//! guests' threads; whatever becomes of the guest (it returns, traps, passes a limit, never returns, its client leaves,
//! the host goes down), the script ends the stream well-formed and the reader sees it to its end.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::{runtime::Handle, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::Instrument as _;

use crate::{
    admission::Permit,
    bindings::types::{Message, Request},
    capabilities::{TurnCtx, TurnState, tools::ToolBox},
    config::Limits,
    ids::{self, SessionKey},
    runtime::{CompiledAgent, GuestFault, Meter, instance},
    script::{Encode, Failure, Outbox, Outcome, Reader, outbox},
    store::Store,
    tenants::Tenant,
};

/// The longest text of an agent's own error that is shown, in bytes.
pub const SAID_MAX: usize = 2 * 1024;

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
    /// The endpoint's own bound on the turn's time, if it has one.
    pub turn_time: Option<Duration>,
    /// How the client is shown the turn.
    pub encoder: Box<dyn Encode>,
    /// The right to run it.
    pub permit: Permit,
}

/// Where turns run. Cloning is shallow.
#[derive(Clone)]
pub struct Turns {
    shared: Arc<Shared>,
}

struct Shared {
    guests: Handle,
    store: Store,
    http: reqwest::Client,
    tasks: TaskTracker,
    /// Cancelled when the turns that still run must end.
    cut: CancellationToken,
}

/// Why a turn ended, for the log.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("answered")]
    Answered,
    #[error("the agent said: {0}")]
    Said(String),
    #[error(transparent)]
    Guest(GuestFault),
    #[error("turn-time: the turn took longer than {0:?}")]
    TurnTime(Duration),
    #[error("the client left")]
    ClientLeft,
    #[error("the host is shutting down")]
    ShuttingDown,
    #[error("a host function panicked")]
    Panicked,
}

impl Turns {
    /// Turns on the threads of `guests`, remembering sessions in `store`, fetching with `http`.
    pub fn new(guests: Handle, store: Store, http: reqwest::Client) -> Self {
        let shared = Shared { guests, store, http, tasks: TaskTracker::new(), cut: CancellationToken::new() };
        Self { shared: Arc::new(shared) }
    }

    /// How many turns run now.
    pub fn running(&self) -> usize {
        self.shared.tasks.len()
    }

    /// Begins a turn. Dropping the reader ends it.
    pub fn start(&self, order: Order) -> Reader {
        let Order { agent, tenant, session, user, input, facts, device, turn_time, encoder, permit } = order;
        let (outbox, reader) = outbox(encoder);
        let limits = agent
            .config
            .limits
            .as_ref()
            .map_or_else(|| tenant.config.limits.clone(), |asked| asked.within(&tenant.config.limits));
        let turn = Turn {
            id: ids::turn_id(),
            time: turn_time.map_or(limits.turn_time, |bound| bound.min(limits.turn_time)),
            tools: ToolBox::new(&tenant.config, &agent.config, device),
            limits,
            agent,
            session,
            user,
            input,
            facts,
            outbox,
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
        self.shared.tasks.spawn_on(task.instrument(span), &self.shared.guests);
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
    outbox: Outbox,
}

impl Turn {
    async fn run(self, shared: &Shared, permit: Permit) {
        let began = Instant::now();
        let Self { id, agent, session, user, input, facts, tools, limits, time, outbox } = self;
        if tokio::time::timeout(STORE_WAIT, shared.store.begin(&session, &id, &input, &facts)).await.is_err() {
            tracing::error!("the store does not answer; what the user said is not kept");
        }
        let request = Request { session_id: session.conversation.clone(), turn_id: id.clone(), user_id: user, input };
        let ctx = TurnCtx {
            turn_id: id.clone(),
            session: session.clone(),
            facts,
            tools,
            store: shared.store.clone(),
            http: shared.http.clone(),
        };
        let meter = Arc::new(Meter::new(limits.cpu_time));
        let state = TurnState::new(ctx, outbox.clone(), limits);
        let guest = AssertUnwindSafe(instance::run(&agent, state, request, &meter)).catch_unwind();
        let end = tokio::select! {
            biased;
            () = outbox.gone() => End::ClientLeft,
            () = shared.cut.cancelled() => End::ShuttingDown,
            guest = tokio::time::timeout(time, guest) => match guest {
                Err(_) => End::TurnTime(time),
                Ok(Err(_)) => End::Panicked,
                Ok(Ok(Err(fault))) => End::Guest(fault),
                Ok(Ok(Ok(Err(said)))) => End::Said(said),
                Ok(Ok(Ok(Ok(())))) => End::Answered,
            },
        };
        // A guest that hears of it may end by itself before we are told.
        let end = match end {
            End::Said(_) | End::Guest(_) if outbox.is_gone() => End::ClientLeft,
            end => end,
        };
        // What the next turn needs of this one comes before the last frame: a client may speak again as soon as it sees
        // that. A store that hangs holds nobody up.
        let answer = outbox.take_answer();
        if !answer.is_empty() {
            let kept = tokio::time::timeout(STORE_WAIT, shared.store.answer(&session, &id, answer)).await;
            if kept.is_err() {
                tracing::error!("the store does not answer; what the agent said is not kept");
            }
        }
        drop(permit);
        outbox.finish(&end.outcome());
        end.log(began.elapsed(), meter.used());
    }
}

impl End {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Answered => Outcome::Done,
            Self::Said(text) if !text.trim().is_empty() => {
                Outcome::Failed(Failure::Said(crate::text::head(text, SAID_MAX).to_owned()))
            }
            Self::ShuttingDown => Outcome::Failed(Failure::ShuttingDown),
            Self::Said(_) | Self::Guest(_) | Self::TurnTime(_) | Self::ClientLeft | Self::Panicked => {
                Outcome::Failed(Failure::General)
            }
        }
    }

    /// One line a turn. A guest's own fault is the agent author's to mend, not the operator's: a warning.
    fn log(&self, took: Duration, cpu: Duration) {
        let (took_ms, cpu_ms) = (took.as_millis(), cpu.as_millis());
        match self {
            Self::Answered => tracing::debug!(took_ms, cpu_ms, "turn answered"),
            Self::ClientLeft => tracing::info!(took_ms, cpu_ms, "turn ended: the client left"),
            Self::Panicked => tracing::error!(took_ms, cpu_ms, "turn failed: {self}"),
            Self::Said(text) => {
                tracing::warn!(took_ms, cpu_ms, "turn failed: the agent said: {}", crate::text::visible(text));
            }
            Self::Guest(_) | Self::TurnTime(_) | Self::ShuttingDown => {
                tracing::warn!(took_ms, cpu_ms, "turn failed: {self}");
            }
        }
    }
}
