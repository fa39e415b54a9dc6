//! `/healthz` (alive) and `/readyz` (fit to serve, and how each plugin stands).

use std::sync::Arc;

use axum::{
    Json, Router,
    http::{StatusCode, Uri},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde_json::{Value, json};

use crate::{protocols::Lobby, store::Store};

/// The routes. What names plugins and their faults is shown only where it is nobody's secret: on the admin listener, and
/// here where every tenant is open, which only a loopback listener may be.
pub(super) fn routes(lobby: &Arc<Lobby>, store: Store) -> Router {
    router(lobby, store, |lobby| {
        let config = lobby.config();
        config.listen.ip().is_loopback() && config.tenants.values().all(|tenant| tenant.keys.is_empty())
    })
}

/// The same, with every plugin named where `named` says so.
pub(super) fn router(lobby: &Arc<Lobby>, store: Store, named: fn(&Lobby) -> bool) -> Router {
    let lobby = Arc::clone(lobby);
    let ready = move || {
        let (lobby, store) = (Arc::clone(&lobby), store.clone());
        async move { ready(&lobby, &store, named(&lobby)).await }
    };
    Router::new().route("/healthz", get(async || Json(json!({ "status": "ok" })))).route("/readyz", get(ready))
}

async fn ready(lobby: &Lobby, store: &Store, named: bool) -> Response {
    let reasons: Vec<&str> = [
        (lobby.draining.is_cancelled(), "shutting down"),
        (!lobby.registry.is_loaded(), "the plugins are being loaded"),
        (!store.is_reachable().await, "the store is out of reach"),
    ]
    .into_iter()
    .filter_map(|(applies, reason)| applies.then_some(reason))
    .collect();
    let status = if reasons.is_empty() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = json!({ "ready": reasons.is_empty(), "reasons": reasons, "turns": lobby.turns.running() });
    let (agents, strays) = agents(lobby);
    if let Some(body) = body.as_object_mut() {
        let live = agents.iter().filter(|agent| !agent["version"].is_null()).count();
        let faults = agents.iter().filter(|agent| !agent["fault"].is_null()).count() + strays.len();
        body.insert("live".to_owned(), json!(live));
        body.insert("faulty".to_owned(), json!(faults));
        if named {
            body.insert("agents".to_owned(), Value::Array(agents));
            body.insert("strays".to_owned(), Value::Array(strays));
        }
    }
    (status, Json(body)).into_response()
}

/// Every plugin and how it stands, and the files that can be none.
pub(super) fn agents(lobby: &Lobby) -> (Vec<Value>, Vec<Value>) {
    let (agents, strays) = (lobby.registry.standings(), lobby.registry.strays());
    let agents = agents.iter().map(|(id, standing)| {
        json!({
            "tenant": id.tenant,
            "agent": id.agent,
            "version": standing.live.as_ref().map(|live| &live.version),
            "fault": standing.fault,
        })
    });
    let strays = strays.iter().map(|(path, why)| json!({ "file": path, "fault": why }));
    (agents.collect(), strays.collect())
}

/// Any address that is nobody's.
pub(super) async fn not_found(uri: Uri) -> Response {
    let error = format!("nothing is at {}", crate::text::visible(crate::text::head(uri.path(), 256)));
    (StatusCode::NOT_FOUND, Json(json!({ "error": error }))).into_response()
}
