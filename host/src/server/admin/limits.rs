//! The limits, and how often each was run into.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Shared,
    answer::{Asked, Nothing, Refusal},
};
use crate::limit::Limit;

/// Limits.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Limits {
    /// In the order of the table in `docs/limits.md`.
    limits: Vec<LimitEntry>,
}

/// One limit.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct LimitEntry {
    /// Its name, as metrics and crash cards have it.
    name: &'static str,
    /// How often it was run into since the host started, by anybody.
    hits: u64,
}

/// Every limit that somebody can run into.
#[utoipa::path(get, path = "/api/limits", tag = "limits", responses(
    (status = 200, description = "They, in the order of the table", body = Limits),
))]
pub(super) async fn list(State(admin): State<Shared>, _: Asked<Nothing>) -> Result<Json<Limits>, Refusal> {
    let entry = |limit: &Limit| LimitEntry { name: limit.name(), hits: admin.lobby.metrics.hits(*limit) };
    Ok(Json(Limits { limits: Limit::ALL.iter().map(entry).collect() }))
}
