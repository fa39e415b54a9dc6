//! The admin listener: what operators look at. It only answers questions; nothing is changed through it.
//!
//! Whoever may ask is decided in `admin/access.rs`, before anything else. What is answered is told in full by the
//! document at `/api/openapi.json`, which is made of the same types and functions that answer.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Router, middleware,
    routing::{MethodRouter, get},
};

use super::health;
use crate::{protocols::Lobby, store::Store};

mod access;
mod agents;
mod answer;
mod failures;
mod host;
mod limits;
mod openapi;
mod tenants;
mod usage;

pub(crate) use failures::{FailureCard, Failures};

/// What the listener answers from.
struct Admin {
    lobby: Arc<Lobby>,
    store: Store,
    /// The address that it listens on.
    address: IpAddr,
}

type Shared = Arc<Admin>;

/// The routes of the listener at `address`.
pub(super) fn routes(lobby: &Arc<Lobby>, store: Store, address: IpAddr) -> Router {
    let admin = Arc::new(Admin { lobby: Arc::clone(lobby), store, address });
    let mut router = Router::new();
    for (path, handler) in table() {
        router = router.route(path, handler);
    }
    let guard = middleware::from_fn_with_state(Arc::clone(&admin), access::guard);
    // The guard stands before the fallback too: without a key nobody learns what is here and what is not.
    router.fallback(health::not_found).layer(guard).with_state(admin)
}

/// Everything that is answered.
fn table() -> Vec<(&'static str, MethodRouter<Shared>)> {
    vec![
        ("/healthz", get(host::healthz)),
        ("/readyz", get(host::readyz)),
        ("/metrics", get(host::metrics)),
        ("/api/openapi.json", get(openapi::document)),
        ("/api/tenants", get(tenants::list)),
        ("/api/tenants/{tenant}", get(tenants::one)),
        ("/api/agents", get(agents::list)),
        ("/api/agents/{tenant}/{agent}", get(agents::one)),
        ("/api/agents/{tenant}/{agent}/versions", get(agents::versions)),
        ("/api/usage", get(usage::list)),
        ("/api/failures", get(failures::list)),
        ("/api/failures/{id}", get(failures::one)),
        ("/api/limits", get(limits::list)),
    ]
}
