//! Crash cards: what is kept of a failed turn, within bounds, and how it stands in the database.

use std::{collections::BTreeSet, time::Duration};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{Cause, RecordsConfig, TurnRecord, Wreck};
use crate::{limit::Limit, text};

/// How many crash cards are given at once.
pub const FAILURES_MAX: usize = 1000;

/// How many characters of a crash card's id find it: those that clients are shown.
pub const PREFIX_MIN: usize = 8;

/// The longest id or beginning of one that is looked for, in bytes; ids are shorter.
const ID_MAX: usize = 64;

/// Bytes of `detail`: a trap's words and causes are shorter.
const DETAIL_MAX: usize = 4 * 1024;

/// Frames of a backtrace, the innermost: deeper ones of a recursion say the same again.
const FRAMES_MAX: usize = 64;

/// Bytes of a frame: a symbol that Rust's generics made long is cut.
const FRAME_MAX: usize = 512;

/// Events and host calls, the last: what led to the failure.
const ENTRIES_MAX: usize = 32;

/// Bytes of one of these: a kind, a size, a name.
const ENTRY_MAX: usize = 256;

/// Bytes of what was said, where the operator wants it kept.
const TEXT_MAX: usize = 16 * 1024;

/// A failed turn, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The turn's id.
    pub id: String,
    /// When it ended, to the millisecond.
    pub at: jiff::Timestamp,
    /// Whose agent.
    pub tenant: String,
    /// Which agent.
    pub agent: String,
    /// The SHA-256 of its component.
    pub version: String,
    /// `mythra` or `lingzhu`.
    pub protocol: String,
    /// The cause's name.
    pub cause: String,
    /// The bound that ended it, if one did.
    pub limit: Option<String>,
    /// How long it took.
    pub took: Duration,
    /// The guest's CPU time.
    pub cpu: Duration,
    /// The most linear memory that it held, in bytes.
    pub memory: u64,
    /// Events that were taken.
    pub events: u64,
    /// Bytes of text that were shown.
    pub output: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Why, in words.
    pub detail: String,
}

/// A failed turn, with all that is kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The turn.
    pub failure: Failure,
    /// Every bound that was run into.
    pub limits: Vec<String>,
    /// The guest's own frames, innermost first.
    pub backtrace: Vec<String>,
    /// The last events, oldest first.
    pub last_events: Vec<String>,
    /// The last host calls, oldest first.
    pub calls: Vec<String>,
    /// What was said, where that is kept.
    pub text: Option<String>,
}

/// Which crash cards are wanted; what is left out is all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureQuery {
    /// Whose.
    pub tenant: Option<String>,
    /// Which agent's.
    pub agent: Option<String>,
    /// How many, at most [`FAILURES_MAX`].
    pub limit: usize,
}

impl FailureQuery {
    fn wants(&self, failure: &Failure) -> bool {
        let is = |wanted: &Option<String>, found: &String| wanted.as_ref().is_none_or(|wanted| wanted == found);
        is(&self.tenant, &failure.tenant) && is(&self.agent, &failure.agent)
    }
}

impl Card {
    /// What is kept of a failed turn.
    pub(super) fn new(record: &TurnRecord, wreck: Wreck) -> Self {
        let limit = match record.cause {
            Cause::Limit(limit) => Some(limit.name().to_owned()),
            _ => None,
        };
        let Wreck { detail, backtrace, events, calls, limits, text } = wreck;
        let limits = last(&limits, Limit::ALL.len()).iter().map(|limit| limit.name().to_owned()).collect();
        let cut = |entry: &String, max| text::head(&text::visible(text::head(entry, max)), max).to_owned();
        let lasts = |entries: &[String]| last(entries, ENTRIES_MAX).iter().map(|entry| cut(entry, ENTRY_MAX)).collect();
        let failure = Failure {
            id: record.id.clone(),
            at: record.at,
            tenant: record.agent.tenant.clone(),
            agent: record.agent.agent.clone(),
            version: record.version.clone(),
            protocol: record.protocol.to_owned(),
            cause: record.cause.name().to_owned(),
            limit,
            took: record.took,
            cpu: record.cpu,
            memory: record.memory,
            events: record.events,
            output: record.output,
            tool_calls: record.tool_calls,
            detail: text::head(&detail, DETAIL_MAX).to_owned(),
        };
        Self {
            failure,
            limits,
            backtrace: backtrace.iter().take(FRAMES_MAX).map(|frame| cut(frame, FRAME_MAX)).collect(),
            last_events: lasts(&events),
            calls: lasts(&calls),
            text: text.map(|text| text::head(&text, TEXT_MAX).to_owned()),
        }
    }
}

/// The last `most` of them.
fn last<T>(entries: &[T], most: usize) -> &[T] {
    entries.get(entries.len().saturating_sub(most)..).unwrap_or_default()
}

/// Writes a card.
pub(super) fn add(db: &Connection, card: &Card) -> rusqlite::Result<()> {
    // No entry has a control character.
    let lines = |entries: &[String]| entries.iter().flat_map(|entry| [entry, "\n"]).collect::<String>();
    let micros = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    let sql = "INSERT INTO cards (id, at, tenant, agent, version, protocol, cause, struck, took, cpu, memory, events,
            output, tool_calls, limits, detail, backtrace, last_events, calls, said)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)
        ON CONFLICT (id) DO NOTHING";
    let failure = &card.failure;
    let values = params![
        failure.id,
        failure.at.as_millisecond(),
        failure.tenant,
        failure.agent,
        failure.version,
        failure.protocol,
        failure.cause,
        failure.limit,
        micros(failure.took),
        micros(failure.cpu),
        signed(failure.memory),
        signed(failure.events),
        signed(failure.output),
        signed(failure.tool_calls),
        lines(&card.limits),
        failure.detail,
        lines(&card.backtrace),
        lines(&card.last_events),
        lines(&card.calls),
        card.text,
    ];
    db.prepare_cached(sql)?.execute(values).map(drop)
}

/// Lets go of the oldest cards of these tenants' agents past what is kept: first of each agent's own, then of the tenant's,
/// so that an agent's crash loop costs its neighbours as little as can be.
pub(super) fn prune(db: &Connection, config: &RecordsConfig, agents: &BTreeSet<(&str, &str)>) -> rusqlite::Result<()> {
    let sql = "DELETE FROM cards WHERE tenant = ?1 AND agent = ?2 AND seq <=
        (SELECT seq FROM cards WHERE tenant = ?1 AND agent = ?2 ORDER BY seq DESC LIMIT 1 OFFSET ?3)";
    for (tenant, agent) in agents {
        db.prepare_cached(sql)?.execute(params![tenant, agent, config.failures_per_agent])?;
    }
    let sql = "DELETE FROM cards WHERE tenant = ?1 AND seq <=
        (SELECT seq FROM cards WHERE tenant = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)";
    for tenant in agents.iter().map(|(tenant, _)| tenant).collect::<BTreeSet<_>>() {
        db.prepare_cached(sql)?.execute(params![tenant, config.failures_per_tenant])?;
    }
    Ok(())
}

/// Deletes the cards from before `at`.
pub(super) fn sweep(db: &Connection, at: jiff::Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM cards WHERE at < ?1")?.execute([at.as_millisecond()]).map(drop)
}

/// The failures that are wanted, the newest first; of those that wait to be written, which are newer than any that is,
/// the newest comes first in `pending`.
pub(super) fn list<'a>(
    db: &Connection,
    query: &FailureQuery,
    pending: impl Iterator<Item = &'a Failure>,
) -> rusqlite::Result<Vec<Failure>> {
    let most = query.limit.min(FAILURES_MAX);
    let mut failures: Vec<Failure> = pending.filter(|failure| query.wants(failure)).take(most).cloned().collect();
    let sql = "SELECT id, at, tenant, agent, version, protocol, cause, struck, took, cpu, memory, events, output,
            tool_calls, detail FROM cards
        WHERE (?1 IS NULL OR tenant = ?1) AND (?2 IS NULL OR agent = ?2) ORDER BY seq DESC LIMIT ?3";
    let rest = i64::try_from(most - failures.len()).unwrap_or(i64::MAX);
    let mut statement = db.prepare_cached(sql)?;
    for failure in statement.query_map(params![query.tenant, query.agent, rest], brief)? {
        failures.push(failure?);
    }
    Ok(failures)
}

/// The newest card whose id begins with `id`.
pub(super) fn find<'a>(
    db: &Connection,
    id: &str,
    mut pending: impl Iterator<Item = &'a Card>,
) -> rusqlite::Result<Option<Card>> {
    if !(PREFIX_MIN..=ID_MAX).contains(&id.len()) {
        return Ok(None);
    }
    if let Some(card) = pending.find(|card| card.failure.id.starts_with(id)) {
        return Ok(Some(card.clone()));
    }
    let sql = "SELECT * FROM cards WHERE id >= ?1 AND id < ?2 ORDER BY seq DESC LIMIT 1";
    db.prepare_cached(sql)?.query_row([id, &format!("{id}{}", char::MAX)], whole).optional()
}

fn brief(row: &Row<'_>) -> rusqlite::Result<Failure> {
    let text = |column: &str| row.get::<_, String>(column);
    let number = |column: &str| row.get(column).map(unsigned);
    let time = |column: &str| number(column).map(Duration::from_micros);
    Ok(Failure {
        id: text("id")?,
        at: jiff::Timestamp::from_millisecond(row.get("at")?).unwrap_or_default(),
        tenant: text("tenant")?,
        agent: text("agent")?,
        version: text("version")?,
        protocol: text("protocol")?,
        cause: text("cause")?,
        limit: row.get("struck")?,
        took: time("took")?,
        cpu: time("cpu")?,
        memory: number("memory")?,
        events: number("events")?,
        output: number("output")?,
        tool_calls: number("tool_calls")?,
        detail: text("detail")?,
    })
}

fn whole(row: &Row<'_>) -> rusqlite::Result<Card> {
    let lines = |column: &str| {
        let text = row.get::<_, String>(column);
        text.map(|text| text.lines().map(str::to_owned).collect())
    };
    Ok(Card {
        failure: brief(row)?,
        limits: lines("limits")?,
        backtrace: lines("backtrace")?,
        last_events: lines("last_events")?,
        calls: lines("calls")?,
        text: row.get("said")?,
    })
}

/// A number as the database has it. None that is counted here comes near the largest.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number of the database.
pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
