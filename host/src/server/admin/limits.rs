//! The limits, and how often each was run into.

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Shared,
    answer::{Asked, Nothing, Refusal},
};
use crate::server::limits::{self, Row};

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
    /// The key that sets it, or `fixed`.
    key: &'static str,
    /// What it bounds.
    bounds: &'static str,
    /// Its value where no configuration says another, in words.
    default: String,
    /// What a guest sees at it.
    guest: &'static str,
    /// What a client sees at it.
    client: &'static str,
    /// How often it was run into since the host started, by anybody.
    hits: u64,
}

/// Every limit that somebody can run into.
#[utoipa::path(get, path = "/api/limits", tag = "limits", responses(
    (status = 200, description = "They, in the order of the table", body = Limits),
))]
pub(super) async fn list(State(admin): State<Shared>, _: Asked<Nothing>) -> Result<Json<Limits>, Refusal> {
    let entry = |row: &Row| {
        let Row { limit, key, bounds, guest, client, .. } = *row;
        let (default, hits) = (limits::default(limit), admin.lobby.metrics.hits(limit));
        LimitEntry { name: limit.name(), key, bounds, default, guest, client, hits }
    };
    Ok(Json(Limits { limits: limits::rows().map(entry).collect() }))
}
