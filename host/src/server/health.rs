//! `/healthz` (alive) and `/readyz` (fit to serve, and how each plugin stands).

use std::sync::Arc;

use axum::{
    Json, Router,
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::{protocols::Lobby, store::Store};

/// Whether the host lives.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Health {
    /// Always `ok`.
    status: &'static str,
}

/// Whether the host is fit to serve.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Readiness {
    /// Whether it is.
    ready: bool,
    /// Why not.
    reasons: Vec<&'static str>,
    /// Turns that run now.
    #[serde(skip_serializing_if = "Option::is_none")]
    turns: Option<usize>,
    /// Agents that are live.
    #[serde(skip_serializing_if = "Option::is_none")]
    live: Option<usize>,
    /// Files that do not serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    faulty: Option<usize>,
    /// Every plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<Vec<Plugin>>,
    /// Files that can be no plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    strays: Option<Vec<Stray>>,
}

/// A plugin and how it stands.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Plugin {
    /// Whose it is.
    pub(super) tenant: String,
    /// The agent's name.
    pub(super) agent: String,
    /// The SHA-256 of the component that serves; null if none does.
    pub(super) version: Option<String>,
    /// Why the newest file does not serve; null if it does.
    pub(super) fault: Option<String>,
}

/// A file that can be no plugin.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Stray {
    /// Its path within the plugins folder.
    file: String,
    /// Why it can be none.
    fault: String,
}

/// The routes. What names plugins and their faults is shown only where it is nobody's secret: on the admin listener, and
/// here where every tenant is open, which only a loopback listener may be.
pub(super) fn routes(lobby: &Arc<Lobby>, store: Store) -> Router {
    let lobby = Arc::clone(lobby);
    let ready = move || {
        let (lobby, store) = (Arc::clone(&lobby), store.clone());
        async move {
            let config = lobby.config();
            let open = config.tenants.values().all(|tenant| tenant.keys.is_empty());
            ready(&lobby, &store, open && config.listen.ip().is_loopback()).await
        }
    };
    Router::new().route("/healthz", get(async || alive())).route("/readyz", get(ready))
}

/// That the host lives.
pub(super) fn alive() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Whether the host is fit to serve; with turns and every plugin if these may be `named`.
pub(super) async fn ready(lobby: &Lobby, store: &Store, named: bool) -> Response {
    let reasons: Vec<&str> = [
        (lobby.draining.is_cancelled(), "shutting down"),
        (!lobby.registry.is_loaded(), "the plugins are being loaded"),
        (!store.is_reachable().await, "the store is out of reach"),
    ]
    .into_iter()
    .filter_map(|(applies, reason)| applies.then_some(reason))
    .collect();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let (agents, strays) = (plugins(lobby), strays(lobby));
    let body = Readiness {
        ready: reasons.is_empty(),
        reasons,
        // How much others run is nobody's business either.
        turns: named.then(|| lobby.turns.running()),
        live: named.then(|| agents.iter().filter(|agent| agent.version.is_some()).count()),
        faulty: named.then(|| agents.iter().filter(|agent| agent.fault.is_some()).count() + strays.len()),
        agents: named.then_some(agents),
        strays: named.then_some(strays),
    };
    (status, Json(body)).into_response()
}

/// Every plugin and how it stands.
pub(super) fn plugins(lobby: &Lobby) -> Vec<Plugin> {
    let standings = lobby.registry.standings();
    let plugin = standings.iter().map(|(id, standing)| Plugin {
        tenant: id.tenant.clone(),
        agent: id.agent.clone(),
        version: standing.live.as_ref().map(|live| live.version.clone()),
        fault: standing.fault.clone(),
    });
    plugin.collect()
}

/// The files that can be no plugin.
pub(super) fn strays(lobby: &Lobby) -> Vec<Stray> {
    lobby.registry.strays().into_iter().map(|(file, fault)| Stray { file, fault }).collect()
}

/// Any address that is nobody's.
pub(super) async fn not_found(uri: Uri) -> Response {
    let error = format!("nothing is at {}", crate::text::visible(crate::text::head(uri.path(), 256)));
    (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
}
