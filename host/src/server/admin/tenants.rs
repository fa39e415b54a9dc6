//! Tenants: what each may use, what it has used of it, and what it uses now. Of a key nothing is told but enough of its
//! digest to find its line in the configuration.

use std::{sync::atomic::Ordering, time::Duration};

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Shared,
    answer::{Asked, Nothing, Refusal},
};
use crate::{
    config::{Allowance, KeyConfig, Limits},
    ids,
    protocols::Lobby,
    records::Sums,
    tenants::Tenant,
};

/// How many bytes of a key's digest are told: eight digits, which in a configuration belong to one key.
const KEY_ID: usize = 4;

/// Tenants.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Tenants {
    /// By name.
    tenants: Vec<TenantEntry>,
}

/// A tenant.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Tenant)]
pub(super) struct TenantEntry {
    /// Its name.
    name: String,
    /// Whether anyone may talk to its agents: it has no keys.
    open: bool,
    /// Its keys.
    keys: Vec<Key>,
    /// Agents of it that are live.
    agents: usize,
    /// Turns that run now.
    turns_running: u32,
    /// Turns that may run at once.
    concurrent_turns: u32,
    /// Turns that may begin in a minute; null is no bound.
    turns_per_minute: Option<u32>,
    /// Connections of its clients that are open beyond their requests.
    connections_open: u32,
    /// Connections that may be.
    connections: u32,
    /// Its share of CPU time in relation to the others'.
    cpu_weight: u32,
    /// Patterns over `group/tool` that may be called.
    tools: Vec<String>,
    /// Hosts that may be fetched from.
    http: Vec<String>,
    /// Models that may be used.
    models: Vec<String>,
    /// What one turn may use.
    limits: TurnLimits,
    /// What may be used in a day and in a month.
    budget: Budget,
    /// What was used.
    spent: Spent,
}

/// A key.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Key {
    /// The first eight digits of its digest.
    id: String,
    /// The one agent that it opens; null opens all.
    agent: Option<String>,
    /// From when on it opens nothing; null is never.
    #[schema(format = DateTime)]
    expires: Option<String>,
    /// Whether it is past that.
    expired: bool,
}

/// What one turn may use.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TurnLimits {
    memory_bytes: u64,
    cpu_time_ms: u64,
    turn_time_ms: u64,
    events: u32,
    output_bytes: u64,
    tool_calls: u32,
    tool_time_ms: u64,
    tool_result_bytes: u64,
    host_call_bytes: u64,
    log_bytes: u64,
    handles: u64,
}

/// What may be used, in UTC.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Budget {
    /// From midnight to midnight.
    day: Allowed,
    /// From the first of a month to the next.
    month: Allowed,
}

/// What may be used in a period; null is no bound.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Allowed {
    turns: Option<u64>,
    cpu_ms: Option<u64>,
    events: Option<u64>,
    output_bytes: Option<u64>,
    tool_calls: Option<u64>,
}

/// What was used, in UTC.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Spent {
    /// Since midnight.
    day: Used,
    /// Since the first of the month.
    month: Used,
}

/// What was used in a period; turns that run count among the turns.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Used {
    turns: u64,
    cpu_ms: u64,
    events: u64,
    output_bytes: u64,
    tool_calls: u64,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn size(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl Key {
    fn new(key: &KeyConfig, now: Timestamp) -> Self {
        Self {
            id: ids::hex(key.digest.get(..KEY_ID).unwrap_or_default()),
            agent: key.agent.clone(),
            expires: key.expires.map(|expires| expires.to_string()),
            expired: !key.is_valid(now),
        }
    }
}

impl From<&Limits> for TurnLimits {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: size(limits.memory),
            cpu_time_ms: millis(limits.cpu_time),
            turn_time_ms: millis(limits.turn_time),
            events: limits.events,
            output_bytes: size(limits.output),
            tool_calls: limits.tool_calls,
            tool_time_ms: millis(limits.tool_time),
            tool_result_bytes: size(limits.tool_result),
            host_call_bytes: size(limits.host_call),
            log_bytes: size(limits.log),
            handles: size(limits.handles),
        }
    }
}

impl From<&Allowance> for Allowed {
    fn from(allowance: &Allowance) -> Self {
        Self {
            turns: allowance.turns,
            cpu_ms: allowance.cpu_time.map(millis),
            events: allowance.events,
            output_bytes: allowance.output,
            tool_calls: allowance.tool_calls,
        }
    }
}

impl From<Sums> for Used {
    fn from(sums: Sums) -> Self {
        Self {
            turns: sums.turns,
            cpu_ms: millis(sums.cpu),
            events: sums.events,
            output_bytes: sums.output,
            tool_calls: sums.tool_calls,
        }
    }
}

impl TenantEntry {
    fn new(lobby: &Lobby, tenant: &Tenant, now: Timestamp) -> Self {
        let config = &tenant.config;
        let spent = lobby.records.spent(&tenant.name, now);
        Self {
            name: tenant.name.clone(),
            open: tenant.is_open(),
            keys: config.keys.iter().map(|key| Key::new(key, now)).collect(),
            agents: lobby.registry.of_tenant(&tenant.name).len(),
            turns_running: tenant.account.turns.load(Ordering::Relaxed),
            concurrent_turns: config.concurrent_turns,
            turns_per_minute: config.turns_per_minute,
            connections_open: tenant.account.connections.load(Ordering::Relaxed),
            connections: config.connections,
            cpu_weight: config.cpu_weight,
            tools: config.tools.clone(),
            http: config.http.clone(),
            models: config.models.clone(),
            limits: TurnLimits::from(&config.limits),
            budget: Budget { day: Allowed::from(&config.budget.day), month: Allowed::from(&config.budget.month) },
            spent: Spent { day: spent.day.into(), month: spent.month.into() },
        }
    }
}

/// Every tenant, what it may use, and what it has used.
#[utoipa::path(get, path = "/api/tenants", tag = "tenants", responses(
    (status = 200, description = "They, by name", body = Tenants),
))]
pub(super) async fn list(State(admin): State<Shared>, _: Asked<Nothing>) -> Result<Json<Tenants>, Refusal> {
    let now = Timestamp::now();
    let tenants = admin.lobby.tenants();
    let tenants = tenants.all().map(|tenant| TenantEntry::new(&admin.lobby, tenant, now)).collect();
    Ok(Json(Tenants { tenants }))
}

/// One tenant.
#[utoipa::path(get, path = "/api/tenants/{tenant}", tag = "tenants", params(
    ("tenant" = String, Path, description = "Its name"),
), responses(
    (status = 200, description = "It", body = TenantEntry),
    (status = 404, description = "There is none of this name", body = Refusal),
))]
pub(super) async fn one(
    State(admin): State<Shared>,
    name: Result<Path<String>, PathRejection>,
    _: Asked<Nothing>,
) -> Result<Json<TenantEntry>, Refusal> {
    let tenants = admin.lobby.tenants();
    let tenant = name.ok().and_then(|Path(name)| tenants.get(&name));
    let tenant = tenant.ok_or_else(|| Refusal::missing("there is no such tenant; /api/tenants lists them"))?;
    Ok(Json(TenantEntry::new(&admin.lobby, tenant, Timestamp::now())))
}
