//! Usage, a row for each day of an agent: as JSON, or as CSV for a bill.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::State,
    http::{
        HeaderMap, StatusCode,
        header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
};
use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Shared,
    answer::{Asked, Refusal, name},
};
use crate::records::{Cause, USAGE_ROWS_MAX, UsageQuery, UsageRow};

const CSV: &str = "text/csv";
const JSON: &str = "application/json";

/// Which rows, and how.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct UsageParams {
    /// Only this tenant's.
    tenant: Option<String>,
    /// Only this agent's.
    agent: Option<String>,
    /// The first day, in UTC.
    #[param(format = Date)]
    from: Option<String>,
    /// The last day, in UTC, itself included.
    #[param(format = Date)]
    to: Option<String>,
    /// How to write it. `Accept: text/csv` asks for CSV too.
    #[param(inline)]
    format: Option<Format>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Json,
    Csv,
}

/// Usage.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Usage {
    /// Sorted by day, tenant and agent.
    usage: Vec<UsageDay>,
}

/// What the turns of one agent came to on one day.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct UsageDay {
    /// The day, in UTC, on which they ended.
    #[schema(format = Date)]
    day: String,
    /// Whose.
    tenant: String,
    /// Which agent.
    agent: String,
    /// Turns.
    turns: u64,
    /// Those of them that failed.
    failed: u64,
    /// These by cause; causes that did not come up are left out.
    failed_by_cause: BTreeMap<String, u64>,
    /// CPU time of guests, in whole milliseconds.
    cpu_ms: u64,
    /// The same in microseconds, which is exact.
    cpu_us: u64,
    /// The most linear memory that any of them held.
    memory_bytes: u64,
    /// Events.
    events: u64,
    /// Text that was shown.
    output_bytes: u64,
    /// Tool calls.
    tool_calls: u64,
}

impl From<UsageRow> for UsageDay {
    fn from(row: UsageRow) -> Self {
        Self {
            day: row.day,
            tenant: row.tenant,
            agent: row.agent,
            turns: row.turns,
            failed: row.failed.values().sum(),
            failed_by_cause: row.failed,
            cpu_ms: row.cpu_us / 1000,
            cpu_us: row.cpu_us,
            memory_bytes: row.memory,
            events: row.events,
            output_bytes: row.output,
            tool_calls: row.tool_calls,
        }
    }
}

/// What tenants' agents have used, day by day.
#[utoipa::path(get, path = "/api/usage", tag = "usage", params(UsageParams), responses(
    (status = 200, description = "The days on which there was any use; CSV has one column for each cause of failure", content(
        (Usage = JSON), (String = CSV, example = "day,tenant,agent,turns,failed,…"),
    )),
    (status = 503, description = "The records cannot be read", body = Refusal),
))]
pub(super) async fn list(
    State(admin): State<Shared>,
    headers: HeaderMap,
    Asked(asked): Asked<UsageParams>,
) -> Result<Response, Refusal> {
    let format = asked.format.unwrap_or_else(|| accepted(&headers));
    let query = query(asked)?;
    let rows = admin.lobby.records.usage(query).await?;
    if rows.len() >= USAGE_ROWS_MAX {
        // Nobody must take a part for the whole.
        let error = format!("from, to: {USAGE_ROWS_MAX} rows or more; hint: ask for fewer days, or for one tenant");
        return Err(Refusal::bad(&error));
    }
    // So many rows take a while to write, and other requests are not to wait for it.
    let answer = tokio::task::spawn_blocking(move || {
        let usage: Vec<UsageDay> = rows.into_iter().map(UsageDay::from).collect();
        match format {
            Format::Json => Ok(Json(Usage { usage }).into_response()),
            Format::Csv => csv(&usage),
        }
    });
    let failed = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be written");
    match answer.await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            tracing::error!("usage could not be written as CSV: {error}");
            Err(failed())
        }
        Err(error) => {
            tracing::error!("usage could not be written: {error}");
            Err(failed())
        }
    }
}

/// What the client would rather have.
fn accepted(headers: &HeaderMap) -> Format {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = values.flat_map(|value| value.split(',')).filter_map(|entry| entry.split(';').next());
    let first = types.find(|wanted| [CSV, JSON].iter().any(|known| wanted.trim().eq_ignore_ascii_case(known)));
    if first.is_some_and(|first| first.trim().eq_ignore_ascii_case(CSV)) { Format::Csv } else { Format::Json }
}

fn query(asked: UsageParams) -> Result<UsageQuery, Refusal> {
    let (from, to) = (day("from", asked.from)?, day("to", asked.to)?);
    if from.as_ref().zip(to.as_ref()).is_some_and(|(from, to)| from > to) {
        return Err(Refusal::bad("from: after the day of `to`"));
    }
    Ok(UsageQuery { tenant: name("tenant", asked.tenant)?, agent: name("agent", asked.agent)?, from, to })
}

/// A day that the parameter `key` asks for.
fn day(key: &str, value: Option<String>) -> Result<Option<String>, Refusal> {
    let is_day = |value: &String| value.parse::<Date>().is_ok_and(|day| day.year() >= 0 && day.to_string() == *value);
    if value.as_ref().is_none_or(is_day) {
        Ok(value)
    } else {
        Err(Refusal::bad(&format!("{key}: no day; write it like 2026-12-01")))
    }
}

fn csv(usage: &[UsageDay]) -> Result<Response, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let numbers = ["cpu_ms", "cpu_us", "memory_bytes", "events", "output_bytes", "tool_calls"].map(str::to_owned);
    let causes = Cause::FAILURES.map(|cause| format!("failed_{cause}"));
    let head = ["day", "tenant", "agent", "turns", "failed"].map(str::to_owned);
    writer.write_record(head.iter().chain(&causes).chain(&numbers))?;
    for row in usage {
        let names = [&row.day, &row.tenant, &row.agent].map(String::clone);
        let turns = [row.turns, row.failed].map(|number| number.to_string());
        let failed = |cause| row.failed_by_cause.get(cause).copied().unwrap_or(0).to_string();
        let numbers = [row.cpu_ms, row.cpu_us, row.memory_bytes, row.events, row.output_bytes, row.tool_calls];
        let numbers = numbers.map(|number| number.to_string());
        writer.write_record(names.iter().chain(&turns).chain(&Cause::FAILURES.map(failed)).chain(&numbers))?;
    }
    let bytes = writer.into_inner().map_err(csv::IntoInnerError::into_error)?;
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8; header=present"),
        (CONTENT_DISPOSITION, "attachment; filename=\"usage.csv\""),
    ];
    Ok((headers, bytes).into_response())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn csv_is_what_a_client_gets_that_names_it_first() {
        for (accept, format) in [
            ("text/csv", Format::Csv),
            ("Text/CSV; header=present, application/json", Format::Csv),
            ("text/html, text/csv;q=0.9, */*", Format::Csv),
            ("application/json, text/csv", Format::Json),
            ("*/*", Format::Json),
            ("", Format::Json),
        ] {
            let headers = [(ACCEPT, HeaderValue::from_static(accept))].into_iter().collect();
            assert_eq!(accepted(&headers), format, "{accept}");
        }
    }

    #[test]
    fn days_are_days() {
        let asked = |from: &str, to: &str| UsageParams {
            tenant: None,
            agent: None,
            from: Some(from.to_owned()),
            to: Some(to.to_owned()),
            format: None,
        };
        assert!(query(asked("2026-12-01", "2026-12-01")).is_ok());
        for bad in
            ["2026-13-01", "2026-02-30", "20261201", "2026-12-1", "2026-12-01T00:00", "-000001-01-01", "today", ""]
        {
            assert!(query(asked(bad, "2026-12-01")).is_err() && query(asked("2020-01-01", bad)).is_err(), "{bad}");
        }
        assert!(query(asked("2026-12-02", "2026-12-01")).is_err());
    }
}
