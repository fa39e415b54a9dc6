//! The protocols that agents are served over, and what each is given to serve them with.
//!
//! Every protocol's folder has the same parts: `wire.rs` (its JSON as its document has it), `encode.rs` (steps of a turn
//! to frames; pure) and what does its I/O (`socket.rs` and `line.rs`, `body.rs` and `sse.rs`). Only `wire.rs` knows the JSON.

use std::sync::Arc;

use axum::Router;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{admission::Admission, config::Config, runtime::Registry, tenants::Tenants, turn::Turns};

pub mod lingzhu;
pub mod mythra;

/// What a protocol serves agents with. Shared by all connections.
pub struct Lobby {
    /// The checked configuration.
    pub config: Arc<Config>,
    /// Who may talk to what.
    pub tenants: Tenants,
    /// The agents that are live.
    pub registry: Registry,
    /// Where turns run.
    pub turns: Turns,
    /// Who may begin a turn now.
    pub admission: Admission,
    /// Cancelled when the host begins to go down: no new turns; idle connections close.
    pub draining: CancellationToken,
    /// Every task that serves a connection beyond its request, waited for at shutdown.
    pub connections: TaskTracker,
}

/// The routes of all protocols.
pub fn routes() -> Router<Arc<Lobby>> {
    Router::new().merge(mythra::routes()).merge(lingzhu::routes())
}
