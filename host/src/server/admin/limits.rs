//! The limits: the table of `docs/limits.md` with the values of this host, and how often each was run into.

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Shared,
    answer::{Asked, Refusal, name},
};
use crate::{
    config::{Config, TenantConfig},
    limit::Limit,
    server::limits::{self, FIXED, Row},
};

/// Whose limits.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LimitParams {
    /// The tenant whose values are told.
    tenant: Option<String>,
}

/// Limits.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Limits {
    /// In the order of the table.
    limits: Vec<LimitEntry>,
}

/// One limit.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Limit)]
pub(super) struct LimitEntry {
    /// Its name, as metrics and crash cards have it.
    name: &'static str,
    /// The keys of the configuration that set it; null if none does.
    key: Option<&'static str>,
    /// What it bounds.
    bounds: &'static str,
    /// Why its default is what it is.
    why: &'static str,
    /// What the guest sees at it.
    guest: &'static str,
    /// What the client sees at it.
    client: &'static str,
    /// Its value without a configuration, in words.
    default: String,
    /// Its value here, in words; null where tenants have different ones and none is asked for.
    value: Option<String>,
    /// How often it was run into since the host started, by anybody.
    hits: u64,
}

/// Every limit that somebody can run into.
#[utoipa::path(get, path = "/api/limits", tag = "limits", params(LimitParams), responses(
    (status = 200, description = "They, in the order of the table", body = Limits),
    (status = 404, description = "There is no such tenant", body = Refusal),
))]
pub(super) async fn list(
    State(admin): State<Shared>,
    Asked(asked): Asked<LimitParams>,
) -> Result<Json<Limits>, Refusal> {
    let config = admin.lobby.config();
    let tenants: Vec<&TenantConfig> = match name("tenant", asked.tenant)? {
        Some(name) => {
            let tenant = config.tenants.get(&name);
            vec![tenant.ok_or_else(|| Refusal::missing("there is no such tenant; /api/tenants lists them"))?]
        }
        None => config.tenants.values().collect(),
    };
    let entry = |row: &Row| LimitEntry {
        name: row.limit.name(),
        key: (row.key != FIXED).then_some(row.key),
        bounds: row.bounds,
        why: row.why,
        guest: row.guest,
        client: row.client,
        default: limits::default(row.limit),
        value: shared_value(row.limit, &config, &tenants),
        hits: admin.lobby.metrics.hits(row.limit),
    };
    Ok(Json(Limits { limits: limits::rows().map(entry).collect() }))
}

/// The value that a limit has for all of these tenants, if it has one.
fn shared_value(limit: Limit, config: &Config, tenants: &[&TenantConfig]) -> Option<String> {
    let mut values = tenants.iter().map(|tenant| limits::value(limit, config, tenant));
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}
