//! Agents: how each stands, and which versions served before.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Shared,
    answer::{Asked, Nothing, Refusal, name},
    health::{self, Plugin, Stray},
};
use crate::{ids::AgentId, runtime::VersionRecord};

/// Which agents.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AgentParams {
    /// Only this tenant's.
    tenant: Option<String>,
}

/// Agents.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Agents {
    /// Every plugin, by tenant and name.
    agents: Vec<Plugin>,
    /// Files that can be no plugin; of all tenants.
    strays: Vec<Stray>,
}

/// Every agent, and how its file stands.
#[utoipa::path(get, path = "/api/agents", tag = "agents", params(AgentParams), responses(
    (status = 200, description = "They, and what lies beside them", body = Agents),
))]
pub(super) async fn list(
    State(admin): State<Shared>,
    Asked(asked): Asked<AgentParams>,
) -> Result<Json<Agents>, Refusal> {
    let tenant = name("tenant", asked.tenant)?;
    let mut agents = health::plugins(&admin.lobby);
    agents.retain(|agent| tenant.as_ref().is_none_or(|tenant| *tenant == agent.tenant));
    Ok(Json(Agents { agents, strays: health::strays(&admin.lobby) }))
}

/// An agent.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Agent)]
pub(super) struct AgentEntry {
    /// Whose it is.
    tenant: String,
    /// Its name.
    agent: String,
    /// The SHA-256 of the component that serves; null if none does.
    version: Option<String>,
    /// Since when it serves; null if none does.
    #[schema(format = DateTime)]
    since: Option<String>,
    /// Why the newest file does not serve; null if it does.
    fault: Option<String>,
}

/// What became of an agent's files since the host started.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Versions {
    /// The last twenty, the newest first.
    versions: Vec<VersionEntry>,
}

/// One version of an agent, or one file that was refused.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Version)]
pub(super) struct VersionEntry {
    /// The SHA-256 of its component; null if the file could not be read.
    version: Option<String>,
    /// When it went live, or was refused.
    #[schema(format = DateTime)]
    since: String,
    /// When it was followed by another file, or by none; null if it was not.
    #[schema(format = DateTime)]
    until: Option<String>,
    /// What it was followed by: `replaced` by another version, `withdrawn` with its file, `superseded` by a file after a
    /// refused one; null if by nothing.
    ended: Option<String>,
    /// Why it never served; null if it did.
    fault: Option<String>,
}

/// One agent.
#[utoipa::path(get, path = "/api/agents/{tenant}/{agent}", tag = "agents", params(
    ("tenant" = String, Path, description = "Whose it is"),
    ("agent" = String, Path, description = "Its name"),
), responses(
    (status = 200, description = "How it stands", body = AgentEntry),
    (status = 404, description = "There is none of this name", body = Refusal),
))]
pub(super) async fn one(
    State(admin): State<Shared>,
    id: Result<Path<(String, String)>, PathRejection>,
    _: Asked<Nothing>,
) -> Result<Json<AgentEntry>, Refusal> {
    let id = agent_id(id)?;
    let registry = &admin.lobby.registry;
    let standing = registry.standings().remove(&id).ok_or_else(missing)?;
    let serves = registry.history(&id).into_iter().rev().find(|record| record.fault.is_none());
    let live = standing.live.map(|live| live.version.clone());
    Ok(Json(AgentEntry {
        tenant: id.tenant,
        agent: id.agent,
        since: live.as_ref().and(serves).map(|record| record.since.to_string()),
        version: live,
        fault: standing.fault,
    }))
}

/// The versions of one agent, and the files that were refused.
#[utoipa::path(get, path = "/api/agents/{tenant}/{agent}/versions", tag = "agents", params(
    ("tenant" = String, Path, description = "Whose it is"),
    ("agent" = String, Path, description = "Its name"),
), responses(
    (status = 200, description = "They, the newest first; also of an agent that is withdrawn", body = Versions),
    (status = 404, description = "There is none of this name, and was none of late", body = Refusal),
))]
pub(super) async fn versions(
    State(admin): State<Shared>,
    id: Result<Path<(String, String)>, PathRejection>,
    _: Asked<Nothing>,
) -> Result<Json<Versions>, Refusal> {
    let history = admin.lobby.registry.history(&agent_id(id)?);
    if history.is_empty() {
        return Err(missing());
    }
    let version = |record: VersionRecord| VersionEntry {
        version: record.version,
        since: record.since.to_string(),
        until: record.until.map(|until| until.to_string()),
        ended: record.ended.map(|ended| ended.name().to_owned()),
        fault: record.fault,
    };
    Ok(Json(Versions { versions: history.into_iter().rev().map(version).collect() }))
}

fn agent_id(id: Result<Path<(String, String)>, PathRejection>) -> Result<AgentId, Refusal> {
    let Path((tenant, agent)) = id.map_err(|_| missing())?;
    Ok(AgentId { tenant, agent })
}

fn missing() -> Refusal {
    Refusal::missing("there is no such agent; /api/agents lists them")
}
