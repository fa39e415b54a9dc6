//! Opening `records.db`: to write it, making it if it is not there, or only to read it, changing nothing.

use std::{
    ffi::OsString,
    fs::{DirBuilder, OpenOptions, Permissions},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, OpenFlags, TransactionBehavior};
use url::Url;

use super::RecordsError;

/// The file in the data folder.
pub(super) const FILE: &str = "records.db";

/// How long a statement waits for another program that has the file locked, such as a backup.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How many statements stay prepared: more than there are.
const STATEMENTS: usize = 32;

/// The steps from an empty file to today's form. Step N makes version N + 1 of version N; a step that was released is
/// never changed, a new form is a new step.
const STEPS: &[&str] = &["
    -- `day` is in UTC, such as 2026-12-01. `cpu` is in microseconds, `memory` the most of any turn.
    CREATE TABLE usage (
        day TEXT NOT NULL, tenant TEXT NOT NULL, agent TEXT NOT NULL,
        turns INTEGER NOT NULL, cpu INTEGER NOT NULL, memory INTEGER NOT NULL,
        events INTEGER NOT NULL, output INTEGER NOT NULL, tool_calls INTEGER NOT NULL,
        PRIMARY KEY (day, tenant, agent)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE failed (
        day TEXT NOT NULL, tenant TEXT NOT NULL, agent TEXT NOT NULL, cause TEXT NOT NULL, turns INTEGER NOT NULL,
        PRIMARY KEY (day, tenant, agent, cause)
    ) STRICT, WITHOUT ROWID;

    -- `at` is in milliseconds since 1970, `took` and `cpu` in microseconds. Lists have a line for each entry.
    CREATE TABLE cards (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, at INTEGER NOT NULL,
        tenant TEXT NOT NULL, agent TEXT NOT NULL, version TEXT NOT NULL, protocol TEXT NOT NULL,
        cause TEXT NOT NULL, struck TEXT, took INTEGER NOT NULL, cpu INTEGER NOT NULL, memory INTEGER NOT NULL,
        events INTEGER NOT NULL, output INTEGER NOT NULL, tool_calls INTEGER NOT NULL,
        limits TEXT NOT NULL, detail TEXT NOT NULL, backtrace TEXT NOT NULL, last_events TEXT NOT NULL,
        calls TEXT NOT NULL, said TEXT
    ) STRICT;
    CREATE INDEX cards_of_agent ON cards (tenant, agent, seq);
    CREATE INDEX cards_of_tenant ON cards (tenant, seq);
    CREATE INDEX cards_by_age ON cards (at);
"];

/// Opens the file of the folder `dir`, making both if they are not there.
pub(super) fn open(dir: &Path) -> Result<Connection, RecordsError> {
    let make_fault = |path: &Path, source| RecordsError::Make { path: path.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| make_fault(dir, error))?;
    let path = dir.join(FILE);
    // Bills and failures are nobody else's. SQLite gives the files beside this one the same rights.
    let private = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let private = private.and_then(|file| file.set_permissions(Permissions::from_mode(0o600)));
    private.map_err(|error| make_fault(&path, error))?;
    let fault = |source| RecordsError::Open { path: path.clone(), source };
    let mut db = Connection::open(&path).map_err(fault)?;
    settings(&db).map_err(fault)?;
    // Read and written in one transaction: two hosts that start on one new folder do not both make the tables.
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
    let version = version(&step).map_err(fault)?;
    let done = usize::try_from(version).ok().filter(|done| *done <= STEPS.len());
    let Some(done) = done else {
        return Err(RecordsError::Version { path, version, known: known() });
    };
    for sql in STEPS.iter().skip(done) {
        step.execute_batch(sql).map_err(fault)?;
    }
    step.pragma_update(None, "user_version", known()).map_err(fault)?;
    step.commit().map_err(fault)?;
    Ok(db)
}

/// Opens the file of the folder `dir`, whether or not a host has it open, and changes nothing.
pub(super) fn read(dir: &Path) -> Result<Connection, RecordsError> {
    let path = dir.join(FILE);
    if !path.exists() {
        return Err(RecordsError::None { path });
    }
    let fault = |source| RecordsError::Open { path: path.clone(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(address(&path), flags).map_err(fault)?;
    db.busy_timeout(LOCK_WAIT).map_err(fault)?;
    match version(&db).map_err(fault)? {
        version if version == known() => Ok(db),
        version => Err(RecordsError::Version { path, version, known: known() }),
    }
}

/// What tells `SQLite` to open a file for reading. Where no host has it open, and none was killed while it had, nothing
/// stands beside it, and nothing must be made there: the file then is all there is.
fn address(path: &Path) -> PathBuf {
    let beside = |ending: &str| {
        let mut name = OsString::from(path);
        name.push(ending);
        Path::new(&name).exists()
    };
    let absolute = std::path::absolute(path).ok().and_then(|path| Url::from_file_path(path).ok());
    match absolute {
        Some(mut url) if !beside("-wal") => {
            url.set_query(Some("immutable=1"));
            PathBuf::from(url.as_str())
        }
        _ => path.to_owned(),
    }
}

fn version(db: &Connection) -> rusqlite::Result<i64> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn known() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

fn settings(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(LOCK_WAIT)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    db.pragma_update(None, "journal_mode", "WAL")?;
    // What was written stays written, even when the power goes: it is money.
    db.pragma_update(None, "synchronous", "FULL")?;
    // What a burst of failures left behind is given back at the next checkpoint.
    db.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_the_hosts_alone_and_every_write_is_synced() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("a/data");
        let db = open(&dir).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&dir), mode(&dir.join(FILE))), (0o700, 0o600));
        let synchronous: i64 = db.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
        assert_eq!(synchronous, 2, "FULL");
    }

    #[test]
    fn a_file_of_another_hostelry_or_of_none_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read(dir.path()), Err(RecordsError::None { .. })));
        assert_eq!(dir.path().read_dir().unwrap().count(), 0, "looking makes nothing");
        open(dir.path()).unwrap().pragma_update(None, "user_version", 99).unwrap();
        for refused in [open(dir.path()).unwrap_err(), read(dir.path()).unwrap_err()] {
            assert!(matches!(refused, RecordsError::Version { version: 99, known: 1, .. }));
            let said = refused.to_string();
            assert!(said.contains("records.db") && said.contains("version 99") && said.contains("hint:"), "{said}");
        }
        let path = dir.path().join(FILE);
        std::fs::write(&path, "x".repeat(4096)).unwrap();
        for refused in [open(dir.path()).unwrap_err(), read(dir.path()).unwrap_err()] {
            let said = refused.to_string();
            assert!(said.contains("records.db") && said.contains("hint:"), "{said}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap().len(), 4096, "and is left as it is");
    }
}
