//! Usage in the database: a row for each day of an agent.

use std::{collections::BTreeMap, time::Duration};

use jiff::{Timestamp, ToSpan as _, civil::Date};
use rusqlite::{Connection, Row, params};

use super::{
    Sums, UsageRow,
    accounts::{self, Accounts},
    cards::{signed, unsigned},
};

/// How many rows are given at once: a year of 270 agents. Whoever has more asks for fewer days.
pub const USAGE_ROWS_MAX: usize = 100_000;

/// Which rows are wanted; what is left out is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageQuery {
    /// Whose.
    pub tenant: Option<String>,
    /// Which agent's.
    pub agent: Option<String>,
    /// The first day, such as `2026-12-01`.
    pub from: Option<String>,
    /// The last day, itself included.
    pub to: Option<String>,
}

impl UsageQuery {
    fn wants(&self, row: &UsageRow) -> bool {
        let is = |wanted: &Option<String>, found: &String| wanted.as_ref().is_none_or(|wanted| wanted == found);
        is(&self.tenant, &row.tenant)
            && is(&self.agent, &row.agent)
            && self.from.as_ref().is_none_or(|from| row.day >= *from)
            && self.to.as_ref().is_none_or(|to| row.day <= *to)
    }
}

/// Adds a row to what stands there.
pub(super) fn add(db: &Connection, row: &UsageRow) -> rusqlite::Result<()> {
    let sql =
        "INSERT INTO usage VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (day, tenant, agent) DO UPDATE SET
        turns = turns + excluded.turns, cpu = cpu + excluded.cpu, memory = max(memory, excluded.memory),
        events = events + excluded.events, output = output + excluded.output,
        tool_calls = tool_calls + excluded.tool_calls";
    let [turns, cpu, memory] = [row.turns, row.cpu_us, row.memory].map(signed);
    let [events, output, tool_calls] = [row.events, row.output, row.tool_calls].map(signed);
    db.prepare_cached(sql)?
        .execute(params![row.day, row.tenant, row.agent, turns, cpu, memory, events, output, tool_calls])?;
    let sql = "INSERT INTO failed VALUES (?1, ?2, ?3, ?4, ?5)
        ON CONFLICT (day, tenant, agent, cause) DO UPDATE SET turns = turns + excluded.turns";
    for (cause, turns) in &row.failed {
        db.prepare_cached(sql)?.execute(params![row.day, row.tenant, row.agent, cause, signed(*turns)])?;
    }
    Ok(())
}

/// The rows that are wanted, with those that wait to be written added, sorted by day, tenant and agent.
pub(super) fn usage<'a>(
    db: &Connection,
    query: &UsageQuery,
    pending: impl Iterator<Item = &'a UsageRow>,
) -> rusqlite::Result<Vec<UsageRow>> {
    // The causes have no blank and no `=` in their names.
    let sql = "SELECT day, tenant, agent, turns, cpu, memory, events, output, tool_calls,
            (SELECT group_concat(failed.cause || '=' || failed.turns, ' ') FROM failed
                WHERE failed.day = usage.day AND failed.tenant = usage.tenant AND failed.agent = usage.agent)
        FROM usage
        WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR agent = ?2) AND day >= ?3 AND (?4 IS NULL OR day <= ?4)
        ORDER BY day, tenant, agent LIMIT ?5";
    let from = query.from.as_deref().unwrap_or_default();
    let most = i64::try_from(USAGE_ROWS_MAX).unwrap_or(i64::MAX);
    let mut statement = db.prepare_cached(sql)?;
    let found = statement.query_map(params![query.tenant, query.agent, from, query.to, most], row)?;
    let mut rows = BTreeMap::new();
    for row in found {
        let row = row?;
        rows.insert((row.day.clone(), row.tenant.clone(), row.agent.clone()), row);
    }
    for waiting in pending.filter(|row| query.wants(row)) {
        let key = (waiting.day.clone(), waiting.tenant.clone(), waiting.agent.clone());
        let empty = UsageRow { failed: BTreeMap::new(), ..UsageRow::default() };
        let sums = rows.entry(key).or_insert(UsageRow {
            day: waiting.day.clone(),
            tenant: waiting.tenant.clone(),
            agent: waiting.agent.clone(),
            ..empty
        });
        sums.add(waiting);
    }
    Ok(rows.into_values().take(USAGE_ROWS_MAX).collect())
}

fn row(row: &Row<'_>) -> rusqlite::Result<UsageRow> {
    let number = |column: usize| row.get(column).map(unsigned);
    let failed = row.get::<_, Option<String>>(9)?.unwrap_or_default();
    let failed = failed.split(' ').filter_map(|entry| entry.split_once('='));
    Ok(UsageRow {
        day: row.get(0)?,
        tenant: row.get(1)?,
        agent: row.get(2)?,
        turns: number(3)?,
        cpu_us: number(4)?,
        memory: number(5)?,
        events: number(6)?,
        output: number(7)?,
        tool_calls: number(8)?,
        failed: failed.filter_map(|(cause, turns)| Some((cause.to_owned(), turns.parse().ok()?))).collect(),
    })
}

/// What all tenants have used in the month of `now` and in the one before, in case the clock is set back.
pub(super) fn accounts(db: &Connection, now: Timestamp) -> rusqlite::Result<Accounts> {
    let month = accounts::day(now).first_of_month();
    let since = month.checked_sub(1.month()).unwrap_or(month);
    let sql = "SELECT day, tenant, sum(turns), sum(cpu), sum(events), sum(output), sum(tool_calls) FROM usage
        WHERE day >= ?1 GROUP BY day, tenant ORDER BY day";
    let mut statement = db.prepare(sql)?;
    let mut found = statement.query([since.to_string()])?;
    let mut accounts = Accounts::default();
    while let Some(row) = found.next()? {
        let number = |column: usize| row.get(column).map(unsigned);
        let sums = Sums {
            turns: number(2)?,
            cpu: Duration::from_micros(number(3)?),
            events: number(4)?,
            output: number(5)?,
            tool_calls: number(6)?,
        };
        let (day, tenant): (String, String) = (row.get(0)?, row.get(1)?);
        if let Ok(day) = day.parse::<Date>() {
            accounts.add(&tenant, day, &sums);
        }
    }
    Ok(accounts)
}

/// Deletes the rows of days before `day`.
pub(super) fn sweep(db: &Connection, day: Date) -> rusqlite::Result<()> {
    for sql in ["DELETE FROM usage WHERE day < ?1", "DELETE FROM failed WHERE day < ?1"] {
        db.prepare_cached(sql)?.execute([day.to_string()])?;
    }
    Ok(())
}
