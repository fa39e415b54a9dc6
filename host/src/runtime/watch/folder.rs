//! What is in the plugins folder: which file would be which agent, and what tells one state of it from another.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{
    ids::{self, AgentId, DEFAULT_TENANT},
    text,
};

/// The most agents that one folder holds. Each costs a look at every poll.
const AGENTS_MAX: usize = 20_000;

/// What one look found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Which file is which agent.
    pub(super) plugins: BTreeMap<AgentId, (PathBuf, Print)>,
    /// Files that can be none, by path within the folder, and why.
    pub(super) strays: BTreeMap<String, String>,
    /// Agents of which a file is there that cannot be read: not gone, and not to be taken.
    pub(super) held: BTreeSet<AgentId>,
}

/// What tells one state of a plugin's files from another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Print {
    component: FilePrint,
    /// The file beside it, if there is one.
    beside: Option<FilePrint>,
}

/// One file's state: which file it is, how long, and when it was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilePrint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FilePrint {
    /// The state that `metadata` tells.
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    fn modified(&self) -> SystemTime {
        let seconds = u64::try_from(self.modified.0).unwrap_or(0);
        SystemTime::UNIX_EPOCH
            + Duration::from_secs(seconds)
            + Duration::from_nanos(u64::try_from(self.modified.1).unwrap_or(0))
    }
}

impl Print {
    /// The component's own state.
    pub(super) fn component(&self) -> &FilePrint {
        &self.component
    }

    /// The state of the file beside it.
    pub(super) fn beside(&self) -> Option<&FilePrint> {
        self.beside.as_ref()
    }

    /// How long ago the files were written; none if that is in the future.
    pub(super) fn age(&self, now: SystemTime) -> Duration {
        let newest = self.beside.iter().map(FilePrint::modified).fold(self.component.modified(), SystemTime::max);
        now.duration_since(newest).unwrap_or_default()
    }
}

/// Which folder this is, whatever its name.
pub(super) fn identity(root: &Path) -> Option<(u64, u64)> {
    fs::metadata(root).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Looks through the folder and the tenants' folders in it.
pub(super) fn scan(root: &Path, tenants: &[String]) -> io::Result<Found> {
    // Read by this name to the end: a link that is swapped in the middle does not mix two folders.
    let real = root.canonicalize()?;
    let mut look = Look { real: real.clone(), tenants, found: Found::default() };
    for (name, path) in entries(&real)? {
        if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            look.file(DEFAULT_TENANT, &name, &name, path);
        } else if !path.canonicalize().is_ok_and(|path| path.starts_with(&look.real)) {
            look.stray(&name, "this link leads out of the plugins folder, and is not followed");
        } else if ids::is_name(&name) {
            for (file, path) in entries(&path)? {
                look.file(&name, &file, &format!("{name}/{file}"), path);
            }
        } else {
            let why = "no tenant can have this name, so nothing in the folder is served; a name matches \
                       [a-z0-9][a-z0-9-]{0,62}";
            look.stray(&name, why);
        }
    }
    Ok(look.found)
}

/// A look that goes on.
struct Look<'a> {
    /// The folder's own path, with no links in it.
    real: PathBuf,
    tenants: &'a [String],
    found: Found,
}

/// The entries of a folder by name; those that begin with a dot are nobody's.
fn entries(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            entries.push((name, entry.path()));
        }
    }
    entries.sort();
    Ok(entries)
}

impl Look<'_> {
    fn stray(&mut self, path: &str, why: &str) {
        self.found.strays.insert(text::visible(path), why.to_owned());
    }

    /// Notes one file of a tenant's, which is shown as `shown`.
    fn file(&mut self, tenant: &str, file: &str, shown: &str, path: PathBuf) {
        let Some(name) = file.strip_suffix(".wasm") else {
            if path.extension().is_some_and(|extension| extension == "cwasm") {
                self.stray(shown, "precompiled code is never loaded; drop the .wasm component itself");
            }
            return;
        };
        let why = if !ids::is_name(name) {
            let better = name.to_ascii_lowercase().replace(['_', '.', ' '], "-");
            let hint = if ids::is_name(&better) { format!("; hint: call it {better}.wasm") } else { String::new() };
            format!("no agent can have this name; a name matches [a-z0-9][a-z0-9-]{{0,62}}{hint}")
        } else if !self.tenants.iter().any(|known| known == tenant) {
            format!("there is no tenant `{tenant}`; hint: add [tenants.{tenant}] to hostelry.toml")
        } else if self.found.plugins.len() >= AGENTS_MAX {
            format!("more than {AGENTS_MAX} agents are in the folder")
        } else {
            let id = AgentId { tenant: tenant.to_owned(), agent: name.to_owned() };
            match look(&self.real, &path) {
                Ok(None) => return,
                Ok(Some(_)) if self.found.plugins.contains_key(&id) => format!("another file is already agent {id}"),
                Ok(Some(print)) => {
                    self.found.plugins.insert(id, (path, print));
                    return;
                }
                Err((beside, why)) => {
                    self.found.held.insert(id);
                    let shown = if beside { shown.replace(".wasm", ".toml") } else { shown.to_owned() };
                    self.stray(&shown, &why);
                    return;
                }
            }
        };
        self.stray(shown, &why);
    }
}

/// A plugin's state; nothing if its file is gone meanwhile. A fault says whether it is the file's beside the component.
fn look(real: &Path, path: &Path) -> Result<Option<Print>, (bool, String)> {
    let Some(component) = look_file(real, path).map_err(|why| (false, why))? else { return Ok(None) };
    let beside = look_file(real, &path.with_extension("toml")).map_err(|why| (true, why))?;
    Ok(Some(Print { component, beside }))
}

fn look_file(real: &Path, path: &Path) -> Result<Option<FilePrint>, String> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    if !metadata.is_file() {
        return Err("this is no regular file, and is not read".to_owned());
    }
    match path.canonicalize() {
        Ok(path) if path.starts_with(real) => Ok(Some(FilePrint::of(&metadata))),
        Ok(_) => Err("this link leads out of the plugins folder, and is not followed".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}
