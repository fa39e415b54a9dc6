//! What an author changes: the files that a build is made of, looked at when the file system hints at something, and now
//! and then without a hint.
//!
//! Events are only a hint: every look goes through all files and compares what they hold, so that a file which is saved
//! unchanged, or written anew by the build itself with the same content, is no change.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{RecursiveMode, Watcher as _};
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::runtime::watch::is_news;

/// How long files must have been left alone before they are built: an editor writes several, and each in steps.
const REST: Duration = Duration::from_millis(80);

/// How often the files are looked at although nothing was reported: mounted folders may report nothing.
const POLL: Duration = Duration::from_secs(2);

/// How many files are looked at. Whoever has more lists fewer in `watch`.
const FILES_MAX: usize = 20_000;

/// The largest file whose content is compared, in bytes; of a larger one only time and size are.
const CONTENT_MAX: u64 = 4 * 1024 * 1024;

/// Names below what is watched that hold nothing an author writes: what is built, fetched or kept by tools.
const PASSED_OVER: &[&str] = &[
    ".git",
    ".hostelry",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tools",
    ".venv",
    ".zig-cache",
    "Cargo.lock",
    "__pycache__",
    "build",
    "dist",
    "node_modules",
    "package-lock.json",
    "target",
    "zig-out",
];

/// The files as they were at one look.
pub(super) type Look = BTreeMap<PathBuf, Print>;

/// One file's state.
#[derive(Clone, Debug)]
pub(super) struct Print {
    /// Which file it is, when it was changed, and its length.
    state: (u64, i64, i64, u64),
    content: [u8; 32],
}

impl PartialEq for Print {
    fn eq(&self, other: &Self) -> bool {
        self.content == other.content
    }
}

/// The files, and what watches them.
pub(super) struct Sources {
    dir: PathBuf,
    /// Files and folders, from the folder of the project.
    watched: Vec<PathBuf>,
    /// What the build makes; never a source.
    component: PathBuf,
    hint: Arc<Notify>,
    watcher: Option<notify::RecommendedWatcher>,
    /// Folders that hints come from.
    eyes: BTreeSet<PathBuf>,
    seen: Look,
}

impl Sources {
    /// The files of a project in `dir`. `watched` is looked through, or all of the folder; `always` as well.
    pub(super) fn new(dir: &Path, watched: Option<&[PathBuf]>, always: &[PathBuf], component: &Path) -> Self {
        let mut all = watched.map_or_else(|| vec![PathBuf::new()], <[_]>::to_vec);
        all.extend_from_slice(always);
        let hint = Arc::new(Notify::new());
        let told = Arc::clone(&hint);
        let eyes = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if is_news(&event) {
                told.notify_one();
            }
        });
        Self {
            dir: dir.to_owned(),
            watched: all,
            component: dir.join(component),
            hint,
            // Without it there is the poll.
            watcher: eyes.ok(),
            eyes: BTreeSet::new(),
            seen: Look::new(),
        }
    }

    /// Looks at all files now.
    pub(super) fn look(&mut self) -> Look {
        let mut found = Found { look: Look::new(), folders: BTreeSet::new() };
        for path in &self.watched {
            let at = self.dir.join(path);
            found.folders.extend(at.parent().filter(|_| !at.is_dir()).map(Path::to_owned));
            found.walk(&at, &self.component, &self.seen);
        }
        if let Some(watcher) = &mut self.watcher {
            for folder in found.folders.difference(&self.eyes) {
                // One that is gone again, or one too many for the system, is left to the poll.
                drop(watcher.watch(folder, RecursiveMode::NonRecursive));
            }
            self.eyes = found.folders;
        }
        self.seen = found.look;
        self.seen.clone()
    }

    /// Waits until the files are others than at `before` and rest; tells how they are then.
    pub(super) async fn changed(&mut self, before: &Look) -> Look {
        loop {
            let mut now = self.look();
            if now != *before {
                loop {
                    tokio::time::sleep(REST).await;
                    let next = self.look();
                    if next == now {
                        break;
                    }
                    now = next;
                }
                // It may have been put back.
                if now != *before {
                    return now;
                }
            }
            let hint = Arc::clone(&self.hint);
            // Either is a reason to look.
            drop(tokio::time::timeout(POLL, hint.notified()).await);
            tokio::time::sleep(REST / 4).await;
        }
    }
}

/// The files of which one look differs from another, by path.
pub(super) fn difference<'a>(one: &'a Look, other: &'a Look) -> Vec<&'a Path> {
    let paths: BTreeSet<&PathBuf> = one.keys().chain(other.keys()).collect();
    paths.into_iter().filter(|path| one.get(*path) != other.get(*path)).map(PathBuf::as_path).collect()
}

/// What a look finds.
struct Found {
    look: Look,
    folders: BTreeSet<PathBuf>,
}

impl Found {
    fn walk(&mut self, at: &Path, component: &Path, seen: &Look) {
        if self.look.len() >= FILES_MAX || at == component {
            return;
        }
        let Ok(metadata) = fs::metadata(at) else { return };
        if metadata.is_file() {
            self.look.insert(at.to_owned(), print(at, &metadata, seen));
            return;
        }
        let Ok(entries) = fs::read_dir(at) else { return };
        self.folders.insert(at.to_owned());
        for entry in entries.flatten() {
            let name = entry.file_name();
            let link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let path = entry.path();
            // A folder behind a link is somewhere else, and may be this one again.
            if !(is_passed_over(&name.to_string_lossy()) || link && path.is_dir()) {
                self.walk(&path, component, seen);
            }
        }
    }
}

/// Whether a name is of something that no author writes: what tools make, and what editors put beside a file.
fn is_passed_over(name: &str) -> bool {
    let swap = Path::new(name).extension().is_some_and(|ending| ending == "swp");
    PASSED_OVER.contains(&name) || name.ends_with('~') || swap || name.starts_with(".#")
}

/// A file's state; its content is read only if it can have changed.
fn print(path: &Path, metadata: &Metadata, seen: &Look) -> Print {
    let state = (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.len());
    let known = seen.get(path).filter(|print| print.state == state && rests(metadata));
    if let Some(print) = known {
        return print.clone();
    }
    let bytes = if metadata.len() <= CONTENT_MAX { fs::read(path).ok() } else { None };
    let bytes = bytes.unwrap_or_else(|| format!("{state:?}").into_bytes());
    Print { state, content: Sha256::digest(bytes).into() }
}

/// Whether a file is older than the clock of the file system is coarse, so that no change can hide in it.
fn rests(metadata: &Metadata) -> bool {
    let age = metadata.modified().ok().and_then(|modified| modified.elapsed().ok());
    age.is_none_or(|age| age > Duration::from_millis(50))
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        dir
    }

    fn names(dir: &Path, look: &Look) -> Vec<String> {
        look.keys().map(|path| path.strip_prefix(dir).unwrap().display().to_string()).collect()
    }

    #[test]
    fn what_is_built_fetched_or_an_editors_own_is_no_source() {
        let dir =
            folder(&["a.txt", "src/b.txt", "target/x", "src/build/x", "node_modules/x", "src/.b.txt.swp", "a.wasm"]);
        let mut all = Sources::new(dir.path(), None, &[], Path::new("a.wasm"));
        assert_eq!(names(dir.path(), &all.look()), ["a.txt", "src/b.txt"]);
        let listed = [PathBuf::from("src"), PathBuf::from("nowhere")];
        let mut some = Sources::new(dir.path(), Some(&listed), &[PathBuf::from("target")], Path::new("a.wasm"));
        assert_eq!(names(dir.path(), &some.look()), ["src/b.txt", "target/x"], "what is named is looked at");
    }

    #[tokio::test]
    async fn a_change_is_found_by_its_content_wherever_it_is() {
        let dir = folder(&["src/a", "file"]);
        let listed = [PathBuf::from("src"), PathBuf::from("file")];
        let mut sources = Sources::new(dir.path(), Some(&listed), &[], Path::new("a.wasm"));
        let mut before = sources.look();
        let write = |path: &str, text: &str| {
            fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
            fs::write(dir.path().join(path), text).unwrap();
        };
        for (path, text) in [("src/a", "other"), ("file", "other"), ("src/deep/new", "text"), ("src/deep/new", "more")]
        {
            write(path, text);
            let now = timeout(SOON, sources.changed(&before)).await.unwrap_or_else(|_| panic!("{path}: {text}"));
            assert_eq!(difference(&before, &now), [dir.path().join(path)]);
            before = now;
        }
        write("file", "other");
        assert_eq!(sources.look(), before, "the same content is no change");
        fs::remove_file(dir.path().join("src/a")).unwrap();
        let now = timeout(SOON, sources.changed(&before)).await.unwrap();
        assert_eq!(difference(&before, &now), [dir.path().join("src/a")]);
    }
}
