//! The folder of compiled code: entries sealed with the name they were put there under, the oldest of which go when it is
//! full.

use std::{
    fs,
    io::{self, BufRead as _, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::{ids, runtime::Unfit};

/// Bytes that stand behind the code in an entry: the SHA-256 of the code and the entry's key, so that code under another's
/// name is none.
const SEAL: u64 = 32;

/// How much of an entry is read at once when its seal is checked.
const PIECE: usize = 64 * 1024;

/// How many bytes of code are kept: a hundred large language runtimes, or twenty thousand small agents.
const CACHE_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// How old an unfinished entry must be before it is nobody's any more: writing one takes seconds.
const UNFINISHED_MAX: Duration = Duration::from_mins(5);

/// A folder of compiled code.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens `folder`, and makes it the host's own.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        own(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.code"))
    }

    /// Puts code into the cache, sealed, in one step.
    pub(super) fn keep(&self, key: &str, code: &[u8]) -> io::Result<()> {
        let entry = self.path(key);
        let fresh = entry.with_extension(format!("{}.new", ids::base36::<8>()));
        let written = (|| {
            // Never written again: what is mapped from it must not change or shrink under the turns that run it.
            let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o400).open(&fresh)?;
            file.write_all(code)?;
            file.write_all(&Sha256::new().chain_update(code).chain_update(key).finalize())?;
            file.sync_all()?;
            fs::rename(&fresh, &entry)?;
            prune(&self.folder, CACHE_MAX)
        })();
        if written.is_err() {
            // Nothing else will ever look for it.
            drop(fs::remove_file(&fresh));
        }
        written
    }

    /// Code from the cache, if the entry is whole; one that is not is removed.
    pub(super) fn load(&self, engine: &wasmtime::Engine, key: &str) -> Option<Result<Component, Unfit>> {
        let entry = self.path(key);
        let mut file = fs::File::open(&entry).ok()?;
        if !is_whole(&mut file, key).unwrap_or(false) {
            tracing::warn!("compiled code in {} is not what was put there; compiling anew", entry.display());
            drop(fs::remove_file(&entry));
            return None;
        }
        // The oldest go first when the cache is full, and this one was just of use.
        drop(file.set_modified(SystemTime::now()));
        Some(trust(engine, &Code::File(&entry)))
    }
}

/// Makes a folder that is the host's own, or sees that it is.
pub(super) fn own(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let metadata = fs::metadata(folder)?;
    let owner = rustix::process::geteuid().as_raw();
    if metadata.uid() != owner || metadata.mode() & 0o022 != 0 {
        return Err(io::Error::other(format!(
            "{} belongs to another user or can be written by others; code in it is not to be trusted",
            folder.display()
        )));
    }
    Ok(())
}

/// Whether an entry's seal is that of its code, which is read piece by piece because it can be large.
fn is_whole(file: &mut fs::File, key: &str) -> io::Result<bool> {
    let Some(size) = file.metadata()?.len().checked_sub(SEAL) else { return Ok(false) };
    let mut hash = Sha256::new();
    let mut code = io::BufReader::with_capacity(PIECE, io::Read::take(&mut *file, size));
    loop {
        let piece = code.fill_buf()?;
        if piece.is_empty() {
            break;
        }
        hash.update(piece);
        let read = piece.len();
        code.consume(read);
    }
    hash.update(key);
    let mut seal = Vec::new();
    io::Read::take(file, SEAL + 1).read_to_end(&mut seal)?;
    Ok(hash.finalize().as_slice() == seal.as_slice())
}

/// Removes what was not finished, and the entries that were of no use for longest, until the rest fits `max` bytes.
fn prune(folder: &Path, max: u64) -> io::Result<()> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (path, metadata) = (entry.as_ref().map(fs::DirEntry::path), entry.as_ref().map(fs::DirEntry::metadata));
        let (Ok(path), Ok(Ok(metadata))) = (path, metadata) else { continue };
        if !metadata.is_file() {
            continue;
        }
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let unfinished = path.extension().is_some_and(|extension| extension == "new");
        if unfinished && modified.elapsed().is_ok_and(|age| age > UNFINISHED_MAX) {
            drop(fs::remove_file(&path));
        } else if !unfinished {
            entries.push((modified, metadata.len(), path));
        }
    }
    entries.sort();
    let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, size, path) in entries {
        if bytes <= max {
            break;
        }
        drop(fs::remove_file(path));
        bytes = bytes.saturating_sub(size);
    }
    Ok(())
}

/// Code that this host made itself.
pub(super) enum Code<'a> {
    Bytes(&'a [u8]),
    File(&'a Path),
}

/// Makes code runnable.
#[expect(unsafe_code, reason = "loading compiled code is unsafe: the engine cannot check it")]
pub(super) fn trust(engine: &wasmtime::Engine, code: &Code<'_>) -> Result<Component, Unfit> {
    let loaded = match code {
        // SAFETY: the bytes came just now from a child of this same program that had only the component to work on.
        Code::Bytes(bytes) => unsafe { Component::deserialize(engine, bytes) },
        // SAFETY: the file was written by this host into a folder that nobody else can write, and its seal was checked.
        Code::File(path) => unsafe { Component::deserialize_file(engine, path) },
    };
    loaded.map_err(|error| Unfit::Invalid(crate::text::visible(crate::text::head(&format!("{error:#}"), 1024))))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::runtime::engine;

    fn writable(path: &Path) {
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn an_entry_that_is_not_what_was_put_there_is_never_loaded() {
        let engine = engine::for_compiling().unwrap();
        let code = engine.precompile_component(&wat::parse_str("(component)").unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let entry = cache.path("x");
        cache.keep("x", &code).unwrap();
        assert!(cache.load(&engine, "x").is_some());
        for spoil in [0, code.len() / 2, code.len() + 3] {
            cache.keep("x", &code).unwrap();
            writable(&entry);
            let mut bytes = fs::read(&entry).unwrap();
            bytes[spoil] ^= 1;
            fs::write(&entry, bytes).unwrap();
            assert!(cache.load(&engine, "x").is_none(), "a bit at {spoil}");
            assert!(!entry.exists());
        }
        for torn in [0, 31, 32, code.len() / 2, code.len() + 31] {
            cache.keep("x", &code).unwrap();
            writable(&entry);
            fs::OpenOptions::new().write(true).open(&entry).unwrap().set_len(torn as u64).unwrap();
            assert!(cache.load(&engine, "x").is_none(), "a file of {torn} bytes");
        }
        cache.keep("x", &code).unwrap();
        fs::rename(&entry, cache.path("y")).unwrap();
        assert!(cache.load(&engine, "y").is_none(), "another's code");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn an_entry_is_never_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        cache.keep("x", b"code").unwrap();
        let mode = fs::metadata(cache.path("x")).unwrap().mode();
        assert_eq!(mode & 0o777, 0o400);
        cache.keep("x", b"code").unwrap();
    }

    #[test]
    fn a_cache_that_others_can_write_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::open(folder.path()).is_err());
    }

    #[test]
    fn a_full_cache_loses_what_was_of_no_use_for_longest() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, bytes: usize, age: u64| {
            let path = folder.path().join(name);
            fs::write(&path, vec![0; bytes]).unwrap();
            let at = SystemTime::now() - Duration::from_secs(age);
            fs::File::options().write(true).open(&path).unwrap().set_modified(at).unwrap();
        };
        put("old.code", 100, 3000);
        put("older.code", 100, 4000);
        put("young.code", 100, 10);
        put("torn.abc.new", 100, 301);
        put("written.abc.new", 100, 299);
        fs::create_dir(folder.path().join("quarantine")).unwrap();
        let left = || {
            let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        prune(folder.path(), 200).unwrap();
        assert_eq!(left(), ["old.code", "quarantine", "written.abc.new", "young.code"]);
        prune(folder.path(), 199).unwrap();
        assert_eq!(left(), ["quarantine", "written.abc.new", "young.code"]);
        prune(folder.path(), 0).unwrap();
        assert_eq!(left(), ["quarantine", "written.abc.new"]);
    }
}
