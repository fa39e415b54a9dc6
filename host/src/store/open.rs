//! Opening the database: its folder, its settings, and the steps that bring an older file to today's form.

use std::{
    fs::{DirBuilder, OpenOptions, Permissions},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
    time::Duration,
};

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// The file in the data folder.
pub(super) const FILE: &str = "sessions.db";

/// How long a statement waits for another program that has the file locked, such as a backup.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How many statements stay prepared: more than there are.
const STATEMENTS: usize = 64;

/// The steps from an empty file to today's form. Step N makes version N + 1 of version N; a step that was released is
/// never changed, a new form is a new step.
const STEPS: &[&str] = &["
    -- How many sessions each tenant has, kept by triggers: counting them for each new one would take longer and longer.
    CREATE TABLE tenants (name TEXT NOT NULL PRIMARY KEY, sessions INTEGER NOT NULL) STRICT, WITHOUT ROWID;

    -- `key` is the session key's digest, `used` milliseconds since 1970.
    CREATE TABLE sessions (
        id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE, tenant TEXT NOT NULL, agent TEXT NOT NULL, used INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX sessions_of_tenant ON sessions (tenant, used);
    CREATE INDEX sessions_idle ON sessions (used);
    CREATE TRIGGER session_made AFTER INSERT ON sessions BEGIN
        INSERT INTO tenants VALUES (new.tenant, 1) ON CONFLICT (name) DO UPDATE SET sessions = sessions + 1;
    END;
    CREATE TRIGGER session_gone AFTER DELETE ON sessions BEGIN
        UPDATE tenants SET sessions = sessions - 1 WHERE name = old.tenant;
        DELETE FROM tenants WHERE name = old.tenant AND sessions <= 0;
    END;

    -- `seq` grows in the order in which turns begin, and is never used twice.
    CREATE TABLE turns (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        turn TEXT NOT NULL, bytes INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX turns_of_session ON turns (session, seq);

    -- `kind`: 0 a text, 1 an image's URL, 2 a file's. `role`: 0 the user, 1 the agent.
    CREATE TABLE messages (
        seq INTEGER NOT NULL REFERENCES turns ON DELETE CASCADE,
        n INTEGER NOT NULL, role INTEGER NOT NULL, kind INTEGER NOT NULL, body TEXT NOT NULL, media TEXT,
        PRIMARY KEY (seq, n)
    ) STRICT, WITHOUT ROWID;

    -- What changed with the turn `seq`; it outlives the turn, as long as it is the last word.
    CREATE TABLE facts (
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        key TEXT NOT NULL, seq INTEGER NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY (session, key, seq)
    ) STRICT, WITHOUT ROWID;

    -- `bytes` stands before `content` so that a sum over it reads no content.
    CREATE TABLE files (
        session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
        path TEXT NOT NULL, bytes INTEGER NOT NULL, content TEXT NOT NULL,
        UNIQUE (session, path)
    ) STRICT;
", "
    -- How many bytes of files each session and each tenant has, kept by triggers like the number of sessions.
    ALTER TABLE sessions ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE tenants ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
    UPDATE sessions SET bytes = (SELECT coalesce(sum(bytes), 0) FROM files WHERE session = sessions.id);
    UPDATE tenants SET bytes = (SELECT coalesce(sum(bytes), 0) FROM sessions WHERE tenant = tenants.name);
    CREATE TRIGGER file_made AFTER INSERT ON files BEGIN
        UPDATE sessions SET bytes = bytes + new.bytes WHERE id = new.session;
    END;
    CREATE TRIGGER file_changed AFTER UPDATE OF bytes ON files BEGIN
        UPDATE sessions SET bytes = bytes + new.bytes - old.bytes WHERE id = new.session;
    END;
    CREATE TRIGGER file_gone AFTER DELETE ON files BEGIN
        UPDATE sessions SET bytes = bytes - old.bytes WHERE id = old.session;
    END;
    CREATE TRIGGER session_grown AFTER UPDATE OF bytes ON sessions BEGIN
        UPDATE tenants SET bytes = bytes + new.bytes - old.bytes WHERE name = new.tenant;
    END;
    DROP TRIGGER session_made;
    CREATE TRIGGER session_made AFTER INSERT ON sessions BEGIN
        INSERT INTO tenants VALUES (new.tenant, 1, 0) ON CONFLICT (name) DO UPDATE SET sessions = sessions + 1;
    END;
    DROP TRIGGER session_gone;
    CREATE TRIGGER session_gone AFTER DELETE ON sessions BEGIN
        UPDATE tenants SET sessions = sessions - 1, bytes = bytes - old.bytes WHERE name = old.tenant;
        DELETE FROM tenants WHERE name = old.tenant AND sessions <= 0;
    END;
"];

/// Opens the database of the folder `dir`, making both if they are not there.
pub(super) fn open(dir: &Path) -> Result<Connection, StoreError> {
    let folder_fault = |source| StoreError::Folder { path: dir.to_owned(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(folder_fault)?;
    let path = dir.join(FILE);
    let fault = |source| StoreError::Open { path: path.clone(), source };
    // Conversations are nobody else's: whoever else may look into the folder, not into these. SQLite gives the files
    // beside this one the same rights.
    let private = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
    let private = private.and_then(|file| file.set_permissions(Permissions::from_mode(0o600)));
    private.map_err(|source| StoreError::Folder { path: path.clone(), source })?;
    let mut db = Connection::open(&path).map_err(fault)?;
    settings(&db).map_err(fault)?;
    // Read and written in one transaction: two hosts that start on one new folder do not both make the tables.
    let step = db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fault)?;
    let version: i64 = step.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(fault)?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let done = usize::try_from(version).ok().filter(|done| *done <= STEPS.len());
    let Some(done) = done else {
        return Err(StoreError::Newer { path, version, known });
    };
    for sql in STEPS.iter().skip(done) {
        step.execute_batch(sql).map_err(fault)?;
    }
    step.pragma_update(None, "user_version", known).map_err(fault)?;
    step.commit().map_err(fault)?;
    Ok(db)
}

fn settings(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(LOCK_WAIT)?;
    db.set_prepared_statement_cache_capacity(STATEMENTS);
    db.pragma_update(None, "journal_mode", "WAL")?;
    // A power cut may take the last moments of a conversation, a killed process takes nothing; no sync for each turn.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    // What a burst of turns left behind is given back at the next checkpoint.
    db.pragma_update(None, "journal_size_limit", 16 * 1024 * 1024)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_new_folder_is_the_hosts_alone() {
        let outer = tempfile::tempdir().unwrap();
        let dir = outer.path().join("a/data");
        drop(open(&dir).unwrap());
        assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert!(dir.join(FILE).is_file());
        drop(open(&dir).unwrap());
    }

    #[test]
    fn a_file_of_a_newer_hostelry_is_refused_in_words() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path()).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let refused = open(dir.path()).unwrap_err();
        assert!(matches!(refused, StoreError::Newer { version: 99, known: 2, .. }));
        let said = refused.to_string();
        assert!(said.contains("sessions.db") && said.contains("version 99") && said.contains("hint:"), "{said}");
    }

    #[test]
    fn what_is_no_database_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        std::fs::write(&path, "x".repeat(4096)).unwrap();
        let said = open(dir.path()).unwrap_err().to_string();
        assert!(said.contains("sessions.db") && said.contains("hint:"), "{said}");
        assert_eq!(std::fs::read_to_string(&path).unwrap().len(), 4096);

        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let said = open(&file).unwrap_err().to_string();
        assert!(said.contains("file") && said.contains("hint:"), "{said}");
    }
}
