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

/// The most agents that the folder holds, each tenant its equal share of them. Each costs a look at every poll.
const AGENTS_MAX: usize = 20_000;

/// The least that a tenant's share is, however many tenants there are.
const SHARE_MIN: usize = 100;

/// The most entries of one folder that are read. A folder of more is left as it was last seen: to look at it would cost
/// everybody.
const ENTRIES_MAX: usize = 100_000;

/// How many of a tenant's files that can be no agents are told by name.
const STRAYS_MAX: usize = 100;

/// What one look found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Which file is which agent.
    pub(super) plugins: BTreeMap<AgentId, (PathBuf, Print)>,
    /// Files that can be none, by path within the folder, and why.
    pub(super) strays: BTreeMap<String, String>,
    /// Agents of which a file is there that cannot be read: not gone, and not to be taken.
    pub(super) held: BTreeSet<AgentId>,
    /// Tenants that have more agents than their share; those beyond it are held.
    pub(super) crowded: BTreeSet<String>,
    /// Tenants whose folder cannot be read: none of its agents is gone.
    pub(super) unread: BTreeSet<String>,
}

impl Found {
    /// Whether an agent is there, be it that it cannot be taken.
    pub(super) fn has(&self, id: &AgentId) -> bool {
        self.plugins.contains_key(id) || self.held.contains(id) || self.unread.contains(&id.tenant)
    }
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

/// How many agents a tenant may have.
pub(super) fn share(tenants: usize) -> usize {
    (AGENTS_MAX / tenants.max(1)).max(SHARE_MIN)
}

/// Looks through the folder and the tenants' folders in it.
pub(super) fn scan(root: &Path, tenants: &BTreeSet<String>) -> io::Result<Found> {
    // Read by this name to the end: a link that is swapped in the middle does not mix two folders.
    let real = root.canonicalize()?;
    let share = share(tenants.len());
    let mut look = Look { real: real.clone(), tenants, share, tallies: BTreeMap::new(), found: Found::default() };
    for (name, path) in entries(&real)? {
        if !fs::metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            look.file(DEFAULT_TENANT, &name, &name, path);
        } else if !path.canonicalize().is_ok_and(|path| path.starts_with(&look.real)) {
            look.stray(DEFAULT_TENANT, &name, "this link leads out of the plugins folder, and is not followed");
        } else if ids::is_name(&name) {
            look.folder(&name, &path);
        } else {
            let why = "no tenant can have this name, so nothing in the folder is served; a name matches \
                       [a-z0-9][a-z0-9-]{0,62}";
            look.stray(DEFAULT_TENANT, &name, why);
        }
    }
    Ok(look.end())
}

/// A look that goes on.
struct Look<'a> {
    /// The folder's own path, with no links in it.
    real: PathBuf,
    tenants: &'a BTreeSet<String>,
    /// How many agents a tenant may have.
    share: usize,
    tallies: BTreeMap<String, Tally>,
    found: Found,
}

/// What was counted of one tenant.
#[derive(Default)]
struct Tally {
    agents: usize,
    beyond: usize,
    strays: usize,
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
        if entries.len() > ENTRIES_MAX {
            return Err(io::Error::other(format!("it has more than {ENTRIES_MAX} files")));
        }
    }
    entries.sort();
    Ok(entries)
}

/// Why a file is no agent's although it looks like one.
fn misnamed(file: &str) -> Option<String> {
    let (name, ending) = file.rsplit_once('.')?;
    if ending.eq_ignore_ascii_case("cwasm") {
        return Some("precompiled code is never loaded; drop the .wasm component itself".to_owned());
    }
    ending
        .eq_ignore_ascii_case("wasm")
        .then(|| format!("a component's file ends in .wasm, in small letters; hint: call it {name}.wasm"))
}

impl Look<'_> {
    fn tally(&mut self, tenant: &str) -> &mut Tally {
        self.tallies.entry(tenant.to_owned()).or_default()
    }

    /// Notes a file that can be no agent, which stands in a tenant's folder.
    fn stray(&mut self, tenant: &str, path: &str, why: &str) {
        let tally = self.tally(tenant);
        tally.strays += 1;
        if tally.strays <= STRAYS_MAX {
            self.found.strays.insert(text::visible(path), why.to_owned());
        }
    }

    /// Looks through a tenant's folder.
    fn folder(&mut self, tenant: &str, path: &Path) {
        match entries(path) {
            Ok(entries) => {
                for (file, path) in entries {
                    self.file(tenant, &file, &format!("{tenant}/{file}"), path);
                }
            }
            Err(error) => {
                self.found.unread.insert(tenant.to_owned());
                self.stray(tenant, tenant, &format!("this folder cannot be read, and stays as it was: {error}"));
            }
        }
    }

    /// Notes one file of a tenant's, which is shown as `shown`.
    fn file(&mut self, tenant: &str, file: &str, shown: &str, path: PathBuf) {
        let Some(name) = file.strip_suffix(".wasm") else {
            if let Some(why) = misnamed(file) {
                self.stray(tenant, shown, &why);
            }
            return;
        };
        let why = if !ids::is_name(name) {
            let better = name.to_ascii_lowercase().replace(['_', '.', ' '], "-");
            let hint = if ids::is_name(&better) { format!("; hint: call it {better}.wasm") } else { String::new() };
            format!("no agent can have this name; a name matches [a-z0-9][a-z0-9-]{{0,62}}{hint}")
        } else if self.tenants.contains(tenant) {
            match self.agent(AgentId { tenant: tenant.to_owned(), agent: name.to_owned() }, path) {
                Ok(()) => return,
                Err((beside, why)) => {
                    let shown = if beside { shown.replace(".wasm", ".toml") } else { shown.to_owned() };
                    self.stray(tenant, &shown, &why);
                    return;
                }
            }
        } else {
            format!("there is no tenant `{tenant}`; hint: add [tenants.{tenant}] to hostelry.toml")
        };
        self.stray(tenant, shown, &why);
    }

    /// Notes an agent's files, unless they can be none; whether the fault is the file's beside the component, and why.
    fn agent(&mut self, id: AgentId, path: PathBuf) -> Result<(), (bool, String)> {
        if self.found.plugins.contains_key(&id) {
            return Err((false, format!("another file is already agent {id}")));
        }
        let share = self.share;
        let tally = self.tally(&id.tenant);
        if tally.agents >= share {
            tally.beyond += 1;
            self.found.held.insert(id);
            return Ok(());
        }
        tally.agents += 1;
        match look(&self.real, &path) {
            Ok(None) => {}
            Ok(Some(print)) => {
                self.found.plugins.insert(id, (path, print));
            }
            Err(fault) => {
                self.found.held.insert(id);
                return Err(fault);
            }
        }
        Ok(())
    }

    /// What was found, with what there was too much of said in a line for each tenant.
    fn end(mut self) -> Found {
        for (tenant, tally) in self.tallies {
            let folder = if tenant == DEFAULT_TENANT { "*".to_owned() } else { format!("{tenant}/*") };
            let mut words = Vec::new();
            if tally.beyond > 0 {
                let (share, beyond) = (self.share, tally.beyond);
                words.push(format!("{beyond} files more than the {share} agents that a tenant may have are not taken"));
                self.found.crowded.insert(tenant);
            }
            if tally.strays > STRAYS_MAX {
                words.push(format!("{} more files can be no agents", tally.strays - STRAYS_MAX));
            }
            if !words.is_empty() {
                self.found.strays.insert(folder, words.join("; "));
            }
        }
        self.found
    }
}

/// A plugin's state; nothing if its file is gone meanwhile. A fault says whether it is the file's beside the component.
fn look(real: &Path, path: &Path) -> Result<Option<Print>, (bool, String)> {
    let Some(component) = look_file(real, path).map_err(|why| (false, why))? else { return Ok(None) };
    let beside = look_file(real, &path.with_extension("toml")).map_err(|why| (true, why))?;
    Ok(Some(Print { component, beside }))
}

fn look_file(real: &Path, path: &Path) -> Result<Option<FilePrint>, String> {
    let gone_or = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Ok(None),
        _ => Err(format!("cannot be read: {error}")),
    };
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => return gone_or(error),
    };
    // Only a link has to be followed to see where it leads, which costs more than all the rest.
    let link = metadata.is_symlink();
    let metadata = match if link { fs::metadata(path) } else { Ok(metadata) } {
        Ok(metadata) => metadata,
        Err(error) => return gone_or(error),
    };
    if !metadata.is_file() {
        return Err("this is no regular file, and is not read".to_owned());
    }
    if link {
        match path.canonicalize() {
            Ok(target) if target.starts_with(real) => {}
            Ok(_) => return Err("this link leads out of the plugins folder, and is not followed".to_owned()),
            Err(error) => return gone_or(error),
        }
    }
    Ok(Some(FilePrint::of(&metadata)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan_of(files: &[&str], tenants: &[&str]) -> Found {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        scan(root.path(), &tenants.iter().map(|tenant| (*tenant).to_owned()).collect()).unwrap()
    }

    #[test]
    fn a_share_is_equal_and_never_small() {
        assert_eq!([0, 1, 4, 200, 10_000].map(share), [20_000, 20_000, 5_000, 100, 100]);
    }

    #[test]
    fn agents_beyond_a_tenants_share_are_held_and_told_in_one_line_and_nobody_elses_are() {
        let many: Vec<_> = (0..SHARE_MIN + 20).map(|n| format!("large/a{n:03}.wasm")).collect();
        let files: Vec<_> = many.iter().map(String::as_str).chain(["small/a.wasm"]).collect();
        let names: Vec<_> = (0..300).map(|n| format!("t{n}")).collect();
        let tenants: Vec<_> = names.iter().map(String::as_str).chain(["large", "small"]).collect();
        let found = scan_of(&files, &tenants);
        assert_eq!(found.plugins.len(), SHARE_MIN + 1);
        assert_eq!(found.held.len(), 20);
        assert_eq!(found.crowded.iter().collect::<Vec<_>>(), ["large"]);
        let why = "20 files more than the 100 agents that a tenant may have are not taken";
        assert_eq!(found.strays, BTreeMap::from([("large/*".to_owned(), why.to_owned())]));
        let beyond = AgentId { tenant: "large".to_owned(), agent: "a119".to_owned() };
        assert!(found.has(&beyond) && !found.plugins.contains_key(&beyond));
    }

    #[test]
    fn of_many_strays_the_first_are_told_by_name() {
        let files: Vec<_> = (0..STRAYS_MAX + 7).map(|n| format!("A{n}.wasm")).collect();
        let found = scan_of(&files.iter().map(String::as_str).collect::<Vec<_>>(), &["default"]);
        assert_eq!(found.strays.len(), STRAYS_MAX + 1);
        assert_eq!(found.strays["*"], "7 more files can be no agents");
    }

    #[test]
    fn an_ending_in_capitals_is_told_with_the_right_one() {
        let found = scan_of(&["hello.WASM", "a.Wasm", "b.CWASM", "c.toml"], &["default"]);
        assert!(found.strays["hello.WASM"].contains("hint: call it hello.wasm"));
        assert!(found.strays["a.Wasm"].contains("in small letters"));
        assert!(found.strays["b.CWASM"].contains("never loaded"));
        assert_eq!((found.strays.len(), found.plugins.len()), (3, 0));
    }
}
