//! The admin listener: what operators look at. Loopback only, and only for requests that were meant for it.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::Request,
    http::{StatusCode, header::HOST, uri::Authority},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::get,
};
use serde_json::json;

use super::health;
use crate::{protocols::Lobby, store::Store};

/// The routes.
pub(super) fn routes(lobby: &Arc<Lobby>, store: Store) -> Router {
    let agents = {
        let lobby = Arc::clone(lobby);
        move || async move {
            let (agents, strays) = health::agents(&lobby);
            Json(json!({ "agents": agents, "strays": strays }))
        }
    };
    Router::new()
        .route("/api/agents", get(agents))
        .merge(health::router(lobby, store, |_| true))
        .layer(middleware::from_fn(own_host))
}

/// Refuses a request that a browser was led to send by a name that somebody pointed at this machine.
async fn own_host(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let host = host.and_then(|host| host.parse::<Authority>().ok());
    let own = host.is_some_and(|host| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    });
    if own {
        next.run(request).await
    } else {
        let error = "the Host header names another machine than this one";
        (StatusCode::FORBIDDEN, Json(json!({ "error": error }))).into_response()
    }
}
