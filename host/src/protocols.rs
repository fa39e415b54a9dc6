//! The protocols that agents are served over, and what each is given to serve them with.
//!
//! Every protocol's folder has the same parts: `wire.rs` (its JSON as its document has it), `encode.rs` (steps of a turn
//! to frames; pure) and what does its I/O (`socket.rs` and `line.rs`, `body.rs` and `sse.rs`). Only `wire.rs` knows the JSON.

use std::sync::Arc;

use arc_swap::ArcSwap;
use axum::Router;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    admission::Admission, config::Config, metrics::Metrics, records::Records, runtime::Registry, tenants::Tenants,
    turn::Turns,
};

pub mod lingzhu;
pub mod mythra;

/// What a protocol serves agents with. Shared by all connections.
pub struct Lobby {
    /// The configuration as it is now.
    pub settings: Arc<ArcSwap<Config>>,
    /// Who may talk to what, now.
    pub access: Arc<ArcSwap<Tenants>>,
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
    /// What is counted.
    pub metrics: Metrics,
    /// What is known of turns that have ended.
    pub records: Records,
}

impl Lobby {
    /// The configuration as it is now. Who serves one request or one connection asks once.
    pub fn config(&self) -> Arc<Config> {
        self.settings.load_full()
    }

    /// The tenants as they are now.
    pub fn tenants(&self) -> Arc<Tenants> {
        self.access.load_full()
    }
}

#[cfg(test)]
impl Lobby {
    /// The lobby of a host without agents, of which `turns` may run at once.
    fn for_tests(config: Config, data: &std::path::Path, turns: u32) -> Self {
        let metrics = Metrics::new();
        let store = crate::store::Store::open(data, &config.sessions, &metrics).unwrap();
        let records = Records::open(data, &crate::records::RecordsConfig::default()).unwrap();
        let guests = crate::runtime::GuestThreads::start(&tokio::runtime::Handle::current()).unwrap();
        let parts = crate::turn::Parts {
            lanes: guests.lanes().clone(),
            store,
            records: records.clone(),
            metrics: metrics.clone(),
            http: reqwest::Client::new(),
            keep_text: Box::new(|| false),
        };
        Self {
            access: Arc::new(ArcSwap::from_pointee(Tenants::new(&config.tenants))),
            settings: Arc::new(ArcSwap::from_pointee(config)),
            registry: Registry::default(),
            turns: Turns::new(parts),
            admission: Admission::new(turns, metrics.clone(), records.clone()),
            draining: CancellationToken::new(),
            connections: TaskTracker::new(),
            metrics,
            records,
        }
    }
}

/// The routes of all protocols.
pub fn routes() -> Router<Arc<Lobby>> {
    Router::new().merge(mythra::routes()).merge(lingzhu::routes())
}
