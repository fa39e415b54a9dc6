//! What a guest may do: the state of a turn that its host functions work on, one file an interface of the contract.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::{
    bindings::types::Message,
    config::Limits,
    ids::SessionKey,
    script::Outbox,
    store::{Recall, Store},
};

mod events;
mod facts;
mod log;
mod memory;
mod tally;
pub mod tools;
mod wasi;

pub use log::GuestLog;
pub use memory::MemoryLimiter;
pub use tally::Tally;
use tools::ToolBox;

/// How long a turn waits for what the host remembers.
const RECALL_MAX: Duration = Duration::from_secs(2);

/// What is known about a turn, and what its host functions reach.
pub struct TurnCtx {
    /// The turn.
    pub turn_id: String,
    /// The conversation.
    pub session: SessionKey,
    /// What the client said this time of itself and its surroundings.
    pub facts: BTreeMap<String, String>,
    /// The tools that this turn may call.
    pub tools: ToolBox,
    /// What the host remembers.
    pub store: Store,
    /// What the host fetches with.
    pub http: reqwest::Client,
}

/// The store's data: all that belongs to one turn's instance.
pub struct TurnState {
    ctx: TurnCtx,
    outbox: Outbox,
    limits: Limits,
    log: GuestLog,
    tally: Arc<Tally>,
    /// The session before this turn, once it has been asked for.
    recall: Option<Recall>,
    events: u32,
    output: usize,
    tool_calls: u32,
    memory: MemoryLimiter,
    wasi: WasiCtx,
    table: ResourceTable,
}

impl TurnState {
    /// The state of a turn that is about to begin.
    pub fn new(ctx: TurnCtx, outbox: Outbox, limits: Limits, tally: &Arc<Tally>) -> Self {
        let log = GuestLog::new(limits.log, tally);
        Self {
            ctx,
            outbox,
            recall: None,
            events: 0,
            output: 0,
            tool_calls: 0,
            memory: MemoryLimiter::new(&limits, tally),
            tally: Arc::clone(tally),
            wasi: wasi::context(&log),
            table: wasi::table(limits.handles),
            log,
            limits,
        }
    }

    /// The turn's bounds.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What counts the guest's memory.
    pub fn memory(&mut self) -> &mut MemoryLimiter {
        &mut self.memory
    }

    /// The session before this turn; read once.
    async fn recall(&mut self) -> &Recall {
        let Self { ctx, recall, .. } = self;
        if recall.is_none() {
            let recalled = tokio::time::timeout(RECALL_MAX, ctx.store.recall(&ctx.session, &ctx.turn_id)).await;
            *recall = Some(recalled.unwrap_or_else(|_| {
                tracing::error!("the store does not answer; the agent sees no history");
                Recall::default()
            }));
        }
        recall.get_or_insert_default()
    }

    /// What this session said before, oldest first: its last `max` messages.
    async fn history(&mut self, max: u32) -> Vec<Message> {
        let history = &self.recall().await.history;
        let skip = history.len().saturating_sub(max as usize);
        history.get(skip..).unwrap_or_default().to_vec()
    }
}

impl WasiView for TurnState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl crate::bindings::types::Host for TurnState {}

/// Gives `linker` everything that a guest may import, and nothing else.
pub fn add_to_linker(linker: &mut Linker<TurnState>) -> wasmtime::Result<()> {
    crate::bindings::Agent::add_to_linker::<_, HasSelf<TurnState>>(linker, |state| state)?;
    wasi::add_to_linker(linker)
}
