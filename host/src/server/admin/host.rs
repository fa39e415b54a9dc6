//! How the host itself does: alive, ready, and what it has counted.

use axum::{
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};

use super::{
    Shared,
    health::{self, Health, Readiness},
};

/// What Prometheus is told that the metrics are written in.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether the host lives. The one question that needs no key.
#[utoipa::path(get, path = "/healthz", tag = "host", security(()), responses(
    (status = 200, description = "It lives", body = Health),
))]
pub(super) async fn healthz() -> Response {
    health::alive().into_response()
}

/// Whether the host is fit to serve, and how each plugin stands.
#[utoipa::path(get, path = "/readyz", tag = "host", responses(
    (status = 200, description = "It is", body = Readiness),
    (status = 503, description = "It is not, for these reasons", body = Readiness),
))]
pub(super) async fn readyz(State(admin): State<Shared>) -> Response {
    health::ready(&admin.lobby, &admin.store, true).await
}

/// What the host has counted since it started, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "host", responses(
    (status = 200, description = "In the OpenMetrics text form", body = String, content_type = OPEN_METRICS),
))]
pub(super) async fn metrics(State(admin): State<Shared>) -> Response {
    ([(CONTENT_TYPE, OPEN_METRICS)], admin.lobby.metrics.encode()).into_response()
}
