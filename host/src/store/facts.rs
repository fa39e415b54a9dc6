//! What clients said of themselves and their surroundings: a session's last known facts, as they were before any of
//! its turns.
//!
//! A row is a change: a fact that a turn says again unchanged is not written again, and one that it leaves out stays.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params};

/// How many facts a session has at most.
pub const FACTS_MAX: usize = 256;

/// How many bytes a session's facts have together at most, keys and values.
pub const FACT_BYTES_MAX: usize = 64 * 1024;

/// As many of a turn's facts as a session may have, in the order of their keys.
pub(super) fn bounded(facts: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut room = FACT_BYTES_MAX;
    let fits = |(key, value): &(&String, &String)| match room.checked_sub(key.len() + value.len()) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let kept = facts.iter().filter(fits).take(FACTS_MAX);
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// One of a session's last known facts.
struct Known {
    key: String,
    value: String,
    seq: i64,
}

/// The last known facts before the turn `seq`.
fn known(db: &Connection, session: i64, seq: i64) -> rusqlite::Result<Vec<Known>> {
    // In SQLite the other columns beside max() are those of the row that has it.
    let sql = "SELECT key, value, max(seq) FROM facts WHERE session = ?1 AND seq < ?2 GROUP BY key";
    let mut sql = db.prepare_cached(sql)?;
    let rows = sql
        .query_map(params![session, seq], |row| Ok(Known { key: row.get(0)?, value: row.get(1)?, seq: row.get(2)? }))?;
    rows.collect()
}

/// The last known facts before the turn `seq`.
pub(super) fn before(db: &Connection, session: i64, seq: i64) -> rusqlite::Result<BTreeMap<String, String>> {
    Ok(known(db, session, seq)?.into_iter().map(|known| (known.key, known.value)).collect())
}

/// Writes down what the turn `seq` said, and drops the facts that were changed longest ago where that is too much.
pub(super) fn note(db: &Connection, session: i64, seq: i64, facts: &BTreeMap<String, String>) -> rusqlite::Result<()> {
    if facts.is_empty() {
        return Ok(());
    }
    let known = known(db, session, i64::MAX)?;
    let same: BTreeSet<&str> = known
        .iter()
        .filter(|known| facts.get(&known.key) == Some(&known.value))
        .map(|known| known.key.as_str())
        .collect();
    let sql = "INSERT OR REPLACE INTO facts (session, key, seq, value) VALUES (?1, ?2, ?3, ?4)";
    for (key, value) in facts.iter().filter(|(key, _)| !same.contains(key.as_str())) {
        db.prepare_cached(sql)?.execute(params![session, key, seq, value])?;
    }

    let mut others: Vec<_> = known.iter().filter(|known| !facts.contains_key(&known.key)).collect();
    others.sort_by_key(|known| std::cmp::Reverse(known.seq));
    let mut count = facts.len();
    let mut bytes: usize = facts.iter().map(|(key, value)| key.len() + value.len()).sum();
    for other in others {
        count += 1;
        bytes += other.key.len() + other.value.len();
        if count > FACTS_MAX || bytes > FACT_BYTES_MAX {
            let sql = "DELETE FROM facts WHERE session = ?1 AND key = ?2";
            db.prepare_cached(sql)?.execute(params![session, other.key])?;
        }
    }
    Ok(())
}

/// Drops what no turn from `oldest` on can still ask for: all but the last word before it.
pub(super) fn prune(db: &Connection, session: i64, oldest: i64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM facts WHERE session = ?1 AND EXISTS (
        SELECT 1 FROM facts AS later WHERE later.session = facts.session AND later.key = facts.key
            AND later.seq > facts.seq AND later.seq < ?2)";
    db.prepare_cached(sql)?.execute(params![session, oldest])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_no_more_facts_than_a_session_may_have() {
        let many: BTreeMap<_, _> = (0..400).map(|n| (format!("k{n:03}"), "v".to_owned())).collect();
        let kept = bounded(&many);
        assert_eq!((kept.len(), kept.last_key_value().unwrap().0.as_str()), (FACTS_MAX, "k255"));
        let large =
            BTreeMap::from([("a".to_owned(), "x".repeat(FACT_BYTES_MAX)), ("b".to_owned(), "small".to_owned())]);
        assert_eq!(bounded(&large).keys().collect::<Vec<_>>(), ["b"]);
    }
}
