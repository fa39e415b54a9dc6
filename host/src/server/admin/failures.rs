//! Failed turns and their crash cards, as JSON: on the listener, and of `hostelry failures --json`.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Shared,
    answer::{Asked, Nothing, Refusal, name},
};
use crate::records::{Card, FAILURES_MAX, Failure, FailureQuery, PREFIX_MIN};

/// How many failures are told where nobody says how many.
const USUAL: usize = 100;

/// Which failures.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct FailureParams {
    /// Only this tenant's.
    tenant: Option<String>,
    /// Only this agent's.
    agent: Option<String>,
    /// How many.
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<usize>,
}

/// Failed turns.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Failures {
    /// The newest first.
    failures: Vec<FailureEntry>,
}

/// A failed turn, in short.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FailureEntry {
    /// The turn's id. Clients are shown its first eight characters.
    id: String,
    /// When it ended.
    #[schema(format = DateTime)]
    at: String,
    /// Whose agent.
    tenant: String,
    /// Which agent.
    agent: String,
    /// The SHA-256 of its component.
    version: String,
    /// The protocol that it was served over.
    protocol: String,
    /// What kind of failure: `said` (the agent returned an error), `trap`, `exit`, `start`, `limit`, `panic`, `shutdown`.
    cause: String,
    /// The name of the limit that ended it; null if none did.
    limit: Option<String>,
    /// How long it took, in milliseconds.
    took_ms: u64,
    /// The guest's CPU time, in milliseconds.
    cpu_ms: u64,
    /// The most linear memory that it held.
    memory_bytes: u64,
    /// Events that were taken.
    events: u64,
    /// Text that was shown.
    output_bytes: u64,
    /// Tool calls.
    tool_calls: u64,
    /// Why, in words.
    detail: String,
}

/// A failed turn, with all that is kept of it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FailureCard {
    #[serde(flatten)]
    failure: FailureEntry,
    /// Every limit that it ran into.
    limits: Vec<String>,
    /// The guest's own frames, innermost first.
    backtrace: Vec<String>,
    /// The last events, oldest first: their kinds and sizes.
    last_events: Vec<String>,
    /// The last host calls, oldest first, with what came of them.
    calls: Vec<String>,
    /// What was said; null unless `failures.text` was on.
    text: Option<String>,
}

impl From<Failure> for FailureEntry {
    fn from(failure: Failure) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            id: failure.id,
            at: failure.at.to_string(),
            tenant: failure.tenant,
            agent: failure.agent,
            version: failure.version,
            protocol: failure.protocol,
            cause: failure.cause,
            limit: failure.limit,
            took_ms: millis(failure.took),
            cpu_ms: millis(failure.cpu),
            memory_bytes: failure.memory,
            events: failure.events,
            output_bytes: failure.output,
            tool_calls: failure.tool_calls,
            detail: failure.detail,
        }
    }
}

impl From<Vec<Failure>> for Failures {
    fn from(failures: Vec<Failure>) -> Self {
        Self { failures: failures.into_iter().map(FailureEntry::from).collect() }
    }
}

impl From<Card> for FailureCard {
    fn from(card: Card) -> Self {
        let Card { failure, limits, backtrace, last_events, calls, text } = card;
        Self { failure: failure.into(), limits, backtrace, last_events, calls, text }
    }
}

/// Turns that failed of late.
#[utoipa::path(get, path = "/api/failures", tag = "failures", params(FailureParams), responses(
    (status = 200, description = "They, the newest first", body = Failures),
    (status = 503, description = "The records cannot be read", body = Refusal),
))]
pub(super) async fn list(
    State(admin): State<Shared>,
    Asked(asked): Asked<FailureParams>,
) -> Result<Json<Failures>, Refusal> {
    let limit = asked.limit.unwrap_or(USUAL);
    if !(1..=FAILURES_MAX).contains(&limit) {
        return Err(Refusal::bad(&format!("limit: not a number from 1 to {FAILURES_MAX}")));
    }
    let query = FailureQuery { tenant: name("tenant", asked.tenant)?, agent: name("agent", asked.agent)?, limit };
    Ok(Json(admin.lobby.records.failures(query).await?.into()))
}

/// The crash card of one failed turn.
#[utoipa::path(get, path = "/api/failures/{id}", tag = "failures", params(
    ("id" = String, Path, description = "The turn's id, or its beginning of at least eight characters, as clients are shown it"),
), responses(
    (status = 200, description = "It; of several that begin so, the newest", body = FailureCard),
    (status = 404, description = "There is none, or none any more", body = Refusal),
    (status = 503, description = "The records cannot be read", body = Refusal),
))]
pub(super) async fn one(
    State(admin): State<Shared>,
    id: Result<Path<String>, PathRejection>,
    _: Asked<Nothing>,
) -> Result<Json<FailureCard>, Refusal> {
    let missing = || {
        Refusal::missing(&format!(
            "no failure with this id is kept; hint: say at least the first {PREFIX_MIN} characters of it"
        ))
    };
    let Path(id) = id.map_err(|_| missing())?;
    let card = admin.lobby.records.failure(&id).await?.ok_or_else(missing)?;
    Ok(Json(card.into()))
}
