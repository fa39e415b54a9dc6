//! Sessions and what was said in them: rows of turns and messages, in the order in which the turns began.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{Bounds, Recall, Session, facts, keep};
use crate::{
    bindings::types::{Content, File, Message, Role},
    limit::Limit,
};

/// How many sessions one statement deletes at most, so that a sweep delays a waiting turn by little.
const SWEPT_AT_ONCE: i64 = 500;

/// What a turn began with, cut to what is kept.
pub(super) struct Beginning {
    pub(super) turn: String,
    pub(super) input: Vec<Message>,
    pub(super) facts: BTreeMap<String, String>,
}

/// Milliseconds since 1970.
pub(super) fn now() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Notes that a session is in use, making it if it is new, and gives its row. One that was idle for too long, and that no
/// sweep has found yet, begins anew. The tenant's longest idle sessions go if it has more than it may.
pub(super) fn touch(db: &Connection, bounds: &Bounds, session: &Session, now: i64) -> rusqlite::Result<i64> {
    let sql = "DELETE FROM sessions WHERE key = ?1 AND used < ?2";
    db.prepare_cached(sql)?.execute(params![session.key, used_since(bounds, now)])?;
    let sql = "INSERT INTO sessions (key, tenant, agent, used) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (key) DO UPDATE SET used = excluded.used RETURNING id";
    let values = params![session.key, session.tenant, session.agent, now];
    let id = db.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
    let sql = "SELECT sessions FROM tenants WHERE name = ?1";
    let sessions: i64 = db.prepare_cached(sql)?.query_row([&session.tenant], |row| row.get(0))?;
    let over = sessions - i64::from(bounds.config.per_tenant);
    if over > 0 {
        bounds.metrics.limit_of(Limit::Sessions, &session.tenant);
        let sql = "DELETE FROM sessions WHERE id IN
            (SELECT id FROM sessions WHERE tenant = ?1 AND id <> ?2 ORDER BY used, id LIMIT ?3)";
        db.prepare_cached(sql)?.execute(params![session.tenant, id, over.min(SWEPT_AT_ONCE)])?;
    }
    Ok(id)
}

/// Deletes sessions that were idle for too long; whether there may be more of them.
pub(super) fn sweep(db: &Connection, bounds: &Bounds, now: i64) -> rusqlite::Result<bool> {
    let sql = "DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE used < ?1 ORDER BY used LIMIT ?2)";
    let gone = db.prepare_cached(sql)?.execute(params![used_since(bounds, now), SWEPT_AT_ONCE])?;
    Ok(i64::try_from(gone).is_ok_and(|gone| gone >= SWEPT_AT_ONCE))
}

/// Since when a session must have been used not to be idle for too long.
fn used_since(bounds: &Bounds, now: i64) -> i64 {
    now.saturating_sub(i64::try_from(bounds.config.idle.as_millis()).unwrap_or(i64::MAX))
}

/// Records that a turn begins.
pub(super) fn begin(
    db: &Connection,
    bounds: &Bounds,
    session: &Session,
    beginning: &Beginning,
) -> rusqlite::Result<()> {
    let Beginning { turn, input, facts } = beginning;
    let id = touch(db, bounds, session, now())?;
    let sql = "INSERT INTO turns (session, turn, bytes) VALUES (?1, ?2, ?3) RETURNING seq";
    let seq = db.prepare_cached(sql)?.query_row(params![id, turn, total(input)], |row| row.get(0))?;
    insert(db, seq, 0, input)?;
    facts::note(db, id, seq, facts)?;
    cut(db, bounds, id)
}

/// Records what the agent said in a turn. The turn of a session that is gone, or that was cut, is none any more.
pub(super) fn answer(
    db: &Connection,
    bounds: &Bounds,
    session: &Session,
    turn: &str,
    said: &[Message],
) -> rusqlite::Result<()> {
    let Some((id, seq)) = find(db, session, turn)? else {
        return Ok(());
    };
    let sql = "SELECT coalesce(max(n) + 1, 0) FROM messages WHERE seq = ?1";
    let n = db.prepare_cached(sql)?.query_row([seq], |row| row.get(0))?;
    insert(db, seq, n, said)?;
    db.prepare_cached("UPDATE turns SET bytes = bytes + ?2 WHERE seq = ?1")?.execute(params![seq, total(said)])?;
    db.prepare_cached("UPDATE sessions SET used = ?2 WHERE id = ?1")?.execute(params![id, now()])?;
    cut(db, bounds, id)
}

/// What is kept of the turns that began before this one. A turn that could not be recorded is the newest.
pub(super) fn recall(db: &Connection, session: &Session, turn: &str) -> rusqlite::Result<Recall> {
    let sql = "SELECT id FROM sessions WHERE key = ?1";
    let Some(id) = db.prepare_cached(sql)?.query_row([session.key], |row| row.get(0)).optional()? else {
        return Ok(Recall::default());
    };
    let seq = find(db, session, turn)?.map_or(i64::MAX, |(_, seq)| seq);
    let sql = "SELECT role, kind, body, media FROM turns JOIN messages USING (seq)
        WHERE session = ?1 AND seq < ?2 ORDER BY seq, n";
    let mut sql = db.prepare_cached(sql)?;
    let history = sql.query_map(params![id, seq], message)?.collect::<rusqlite::Result<_>>()?;
    Ok(Recall { history, facts: facts::before(db, id, seq)? })
}

/// The rows of a session and one of its turns.
fn find(db: &Connection, session: &Session, turn: &str) -> rusqlite::Result<Option<(i64, i64)>> {
    let sql = "SELECT id, seq FROM sessions JOIN turns ON session = id WHERE key = ?1 AND turn = ?2
        ORDER BY seq DESC LIMIT 1";
    db.prepare_cached(sql)?.query_row(params![session.key, turn], |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

/// Cuts a session to the turns and bytes that it keeps, oldest turns first.
fn cut(db: &Connection, bounds: &Bounds, session: i64) -> rusqlite::Result<()> {
    let sql = "SELECT seq, bytes FROM turns WHERE session = ?1 ORDER BY seq DESC";
    let mut sql = db.prepare_cached(sql)?;
    let turns = sql.query_map([session], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
    let turns: Vec<(i64, u64)> = turns.collect::<rusqlite::Result<_>>()?;
    let kept = keep::newest(turns.iter().map(|(_, bytes)| *bytes), bounds.config.turns, bounds.config.bytes);
    if let Some((first_cut, _)) = turns.get(kept) {
        let sql = "DELETE FROM turns WHERE session = ?1 AND seq <= ?2";
        db.prepare_cached(sql)?.execute(params![session, first_cut])?;
        let oldest = kept.checked_sub(1).and_then(|last| turns.get(last)).map_or(i64::MAX, |(seq, _)| *seq);
        facts::prune(db, session, oldest)?;
    }
    match turns.first() {
        Some((newest, bytes)) if kept == 1 && *bytes > bounds.config.bytes => shorten(db, *newest, bounds.config.bytes),
        _ => Ok(()),
    }
}

/// Cuts one turn to `bytes`.
fn shorten(db: &Connection, seq: i64, bytes: u64) -> rusqlite::Result<()> {
    let sql = "SELECT role, kind, body, media FROM messages WHERE seq = ?1 ORDER BY n";
    let mut sql = db.prepare_cached(sql)?;
    let messages = sql.query_map([seq], message)?.collect::<rusqlite::Result<Vec<_>>>()?;
    let fitting = keep::fit(messages.iter(), bytes);
    db.prepare_cached("DELETE FROM messages WHERE seq = ?1")?.execute([seq])?;
    insert(db, seq, 0, &fitting)?;
    db.prepare_cached("UPDATE turns SET bytes = ?2 WHERE seq = ?1")?.execute(params![seq, total(&fitting)])?;
    Ok(())
}

/// What messages count together, as the database has it.
fn total(messages: &[Message]) -> i64 {
    i64::try_from(messages.iter().map(keep::size).sum::<u64>()).unwrap_or(i64::MAX)
}

/// Writes messages of a turn, the first as its message `n`.
fn insert(db: &Connection, seq: i64, n: i64, messages: &[Message]) -> rusqlite::Result<()> {
    let sql = "INSERT INTO messages (seq, n, role, kind, body, media) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut sql = db.prepare_cached(sql)?;
    for (n, message) in (n..).zip(messages) {
        let role = match message.role {
            Role::User => 0,
            Role::Agent => 1,
        };
        let (kind, body, media) = match &message.content {
            Content::Text(text) => (0, text, None),
            Content::Image(url) => (1, url, None),
            Content::File(file) => (2, &file.url, file.media_type.as_ref()),
        };
        sql.execute(params![seq, n, role, kind, body, media])?;
    }
    Ok(())
}

/// Reads a message of `role, kind, body, media`.
fn message(row: &Row<'_>) -> rusqlite::Result<Message> {
    let role = if row.get::<_, i64>(0)? == 1 { Role::Agent } else { Role::User };
    let body = row.get(2)?;
    let content = match row.get::<_, i64>(1)? {
        1 => Content::Image(body),
        2 => Content::File(File { url: body, media_type: row.get(3)? }),
        _ => Content::Text(body),
    };
    Ok(Message { role, content })
}
