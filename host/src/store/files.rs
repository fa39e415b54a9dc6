//! A session's workspace: small text files that live and die with their session, in the database and nowhere else.
//!
//! A path is text that the tool has made canonical (`/a/b.md`); folders are only what paths have in common.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    Bounds, Session,
    turns::{self, now},
};

/// The largest file in bytes: what an agent writes is a document, not a data set. Half of what a guest may hand to the host
/// in one call by default, so that this bound and not that one is met.
pub const FILE_BYTES_MAX: usize = 512 * 1024;

/// How many files a session may have: enough for a project of notes, few enough to be listed in one answer.
pub const FILES_MAX: i64 = 256;

/// How many bytes a session's files may have together.
pub const WORKSPACE_BYTES_MAX: i64 = 16 * 1024 * 1024;

/// The longest path in bytes.
pub const PATH_BYTES_MAX: usize = 512;

/// Why a file could not be written, read or deleted. Its text is safe to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// No such file.
    #[error("there is no such file")]
    NotFound,
    /// The file or its path is over its bound.
    #[error("a file may have {FILE_BYTES_MAX} bytes, and its path {PATH_BYTES_MAX}")]
    TooLarge,
    /// The session has as many files, or as many bytes in them, as it may.
    #[error("the workspace is full: it may have {FILES_MAX} files and {WORKSPACE_BYTES_MAX} bytes in them")]
    Full,
    /// All workspaces of the tenant together have as many bytes as they may.
    #[error("the workspaces of this tenant are full")]
    TenantFull,
    /// The store failed; the log says why.
    #[error("the workspace is out of reach")]
    Failed,
}

/// One file of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileEntry {
    /// Its path from the workspace's root.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// Whether a file is of a size that may be kept, whatever else is there.
pub(super) fn check(path: &str, content: &str) -> Result<(), FileError> {
    let fits = content.len() <= FILE_BYTES_MAX && path.len() <= PATH_BYTES_MAX;
    if fits { Ok(()) } else { Err(FileError::TooLarge) }
}

pub(super) fn write(
    db: &Connection,
    bounds: &Bounds,
    session: &Session,
    path: &str,
    content: &str,
) -> rusqlite::Result<Result<(), FileError>> {
    let id = turns::touch(db, bounds, session, now())?;
    let sql = "SELECT count(*), coalesce(sum(bytes), 0) FROM files WHERE session = ?1 AND path <> ?2";
    let (files, others): (i64, i64) =
        db.prepare_cached(sql)?.query_row(params![id, path], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let bytes = i64::try_from(content.len()).unwrap_or(i64::MAX);
    if files >= FILES_MAX || others.saturating_add(bytes) > WORKSPACE_BYTES_MAX {
        return Ok(Err(FileError::Full));
    }
    let sql = "SELECT bytes - coalesce((SELECT bytes FROM files WHERE session = ?1 AND path = ?2), 0)
        FROM tenants WHERE name = ?3";
    let all: i64 = db.prepare_cached(sql)?.query_row(params![id, path, session.tenant], |row| row.get(0))?;
    if all.saturating_add(bytes).unsigned_abs() > bounds.config.files_per_tenant {
        return Ok(Err(FileError::TenantFull));
    }
    let sql = "INSERT INTO files (session, path, bytes, content) VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (session, path) DO UPDATE SET bytes = excluded.bytes, content = excluded.content";
    db.prepare_cached(sql)?.execute(params![id, path, bytes, content])?;
    Ok(Ok(()))
}

pub(super) fn read(db: &Connection, session: &Session, path: &str) -> rusqlite::Result<Result<String, FileError>> {
    let sql = "SELECT content FROM files JOIN sessions ON id = session WHERE key = ?1 AND path = ?2";
    let content = db.prepare_cached(sql)?.query_row(params![session.key, path], |row| row.get(0)).optional()?;
    Ok(content.ok_or(FileError::NotFound))
}

/// The files under `folder`, sorted by path; `/` is all.
pub(super) fn list(db: &Connection, session: &Session, folder: &str) -> rusqlite::Result<Vec<FileEntry>> {
    let under = if folder.ends_with('/') { folder.to_owned() } else { format!("{folder}/") };
    let sql = "SELECT path, files.bytes FROM files JOIN sessions ON id = session WHERE key = ?1 ORDER BY path";
    let mut sql = db.prepare_cached(sql)?;
    let files = sql.query_map(params![session.key], |row| {
        Ok(FileEntry { path: row.get(0)?, bytes: row.get::<_, i64>(1)?.unsigned_abs() })
    })?;
    let mut files = files.collect::<rusqlite::Result<Vec<_>>>()?;
    files.retain(|file| file.path.starts_with(&under));
    Ok(files)
}

pub(super) fn delete(db: &Connection, session: &Session, path: &str) -> rusqlite::Result<Result<(), FileError>> {
    let sql = "DELETE FROM files WHERE session = (SELECT id FROM sessions WHERE key = ?1) AND path = ?2";
    let gone = db.prepare_cached(sql)?.execute(params![session.key, path])?;
    Ok(if gone == 0 { Err(FileError::NotFound) } else { Ok(()) })
}
