//! The plugins folder, kept the same as what is live.
//!
//! Events of the file system are only a hint to look: every look reads the whole folder and compares, so that in-place
//! writes, renames, copies, the symlink swaps of mounted volumes and a replaced folder all come out alike, and a slow
//! poll finds what no event told. A file is taken when it has been left alone for a while and is whole; it is compiled
//! beside what runs and made live in one step. A file that does not fit leaves the last good version serving, with the
//! reason kept.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use notify::{
    EventKind, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Engine, Registry,
    compile::{self, Unfit},
};
use crate::{config::ReloadConfig, ids::AgentId};

mod folder;
mod take;

use folder::{Found, Print};
use take::{Taken, take};

/// How long a file that ends in the middle may stay so before that is its fault and not its writer's slowness.
const INCOMPLETE_MAX: Duration = Duration::from_secs(3);

/// How long the start waits for the plugins that are there. One that never settles, or takes long to compile, must not
/// keep the others from serving.
const LOAD_MAX: Duration = Duration::from_secs(20);

/// What the watcher works on.
pub struct Watcher {
    root: PathBuf,
    tenants: Vec<String>,
    config: ReloadConfig,
    engine: Engine,
    registry: Registry,
    seen: BTreeMap<AgentId, Seen>,
    strays: BTreeMap<String, String>,
    /// Whether the folder could not be read the last time, so that it is said once.
    unreadable: bool,
    /// What is told once the server listens; nothing once it does.
    kept_back: Option<Vec<Report>>,
}

/// One plugin's files as they were last looked at.
struct Seen {
    print: Print,
    since: Instant,
    /// The files that were taken, or refused, last.
    taken: Option<Print>,
    /// When the files were first found missing.
    missing: Option<Instant>,
}

/// What became of a plugin; said in the log.
#[derive(Debug)]
pub enum Report {
    /// A version is live.
    Live(AgentId, String),
    /// The newest file does not serve, and why; whether an older version goes on.
    Refused(AgentId, String, bool),
    /// An agent is gone.
    Withdrawn(AgentId),
    /// A file can be no agent, and why.
    Stray(String, String),
    /// The folder cannot be read.
    Unreadable(String),
    /// The start does not wait for what is left.
    Slow,
}

impl Report {
    /// Says it.
    pub fn log(&self) {
        match self {
            Self::Live(id, version) => tracing::info!(agent = %id, version, "agent live"),
            Self::Refused(id, why, true) => tracing::warn!(agent = %id, "{why}; the version before goes on"),
            Self::Refused(id, why, false) => tracing::warn!(agent = %id, "{why}"),
            Self::Withdrawn(id) => tracing::info!(agent = %id, "agent withdrawn: its file is gone"),
            Self::Stray(path, why) => tracing::warn!(file = %path, "{why}"),
            Self::Slow => {
                tracing::warn!("not every plugin was loaded in {LOAD_MAX:?}; the others follow while we serve");
            }
            Self::Unreadable(why) => tracing::error!("{why}; the agents that are live go on"),
        }
    }
}

impl Watcher {
    /// A watcher of `root` for the agents of `tenants`.
    pub fn new(root: &Path, tenants: Vec<String>, config: &ReloadConfig, engine: &Engine, registry: &Registry) -> Self {
        Self {
            root: root.to_owned(),
            tenants,
            config: config.clone(),
            engine: engine.clone(),
            registry: registry.clone(),
            seen: BTreeMap::new(),
            strays: BTreeMap::new(),
            unreadable: false,
            kept_back: Some(Vec::new()),
        }
    }

    /// Looks until everything that is there has been taken or refused, for as long as a start may take; what is left goes
    /// on in [`Watcher::run`].
    pub async fn load(&mut self) {
        let all = async {
            while self.look().await {
                tokio::time::sleep(self.pace()).await;
            }
            self.registry.set_loaded();
        };
        if tokio::time::timeout(LOAD_MAX, all).await.is_err() {
            self.report(Report::Slow);
        }
    }

    /// Tells what was reported while it was kept back, and from now on everything at once.
    pub fn tell(&mut self) {
        self.kept_back.take().into_iter().flatten().for_each(|report| report.log());
    }

    fn report(&mut self, report: Report) {
        match &mut self.kept_back {
            Some(reports) => reports.push(report),
            None => report.log(),
        }
    }

    /// Keeps looking until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        // One waiting hint says all that a thousand would.
        let (hint, mut hints) = mpsc::channel(1);
        let mut eyes = Eyes::open(&self.root, &hint);
        loop {
            // First of all: what changed before these eyes were open told nobody.
            loop {
                if !self.look().await {
                    break;
                }
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(self.pace()) => {}
                }
            }
            self.registry.set_loaded();
            if eyes.are_elsewhere(&self.root) {
                eyes = Eyes::open(&self.root, &hint);
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => return,
                // What comes at once is looked at together, and a folder that never rests so often and no more.
                _ = hints.recv() => tokio::time::sleep(self.pace()).await,
                () = tokio::time::sleep(self.config.poll) => {}
            }
        }
    }

    fn pace(&self) -> Duration {
        (self.config.settle / 2).max(Duration::from_millis(10))
    }

    /// Looks once. Tells whether something is not settled yet, so that another look must follow soon.
    async fn look(&mut self) -> bool {
        let (root, tenants) = (self.root.clone(), self.tenants.clone());
        let found = tokio::task::spawn_blocking(move || folder::scan(&root, &tenants)).await;
        let found = match found {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                if !std::mem::replace(&mut self.unreadable, true) {
                    let why = format!("cannot read the plugins folder {}: {error}", self.root.display());
                    self.report(Report::Unreadable(why));
                }
                return false;
            }
            // The scan panicked or the host is going down: there is nothing to compare.
            Err(_) => return false,
        };
        self.unreadable = false;
        self.note_strays(&found);
        let mut unsettled = self.note_missing(&found);
        for (id, (path, print)) in &found.plugins {
            unsettled |= self.note(id, path, print).await;
        }
        unsettled
    }

    fn note_strays(&mut self, found: &Found) {
        if self.strays == found.strays {
            return;
        }
        let before = std::mem::replace(&mut self.strays, found.strays.clone());
        self.registry.set_strays(&self.strays);
        for (path, why) in found.strays.iter().filter(|(path, why)| before.get(*path) != Some(*why)) {
            self.report(Report::Stray(path.clone(), why.clone()));
        }
    }

    /// Withdraws what has been missing for a while: a file that is replaced may be away for a moment.
    fn note_missing(&mut self, found: &Found) -> bool {
        let mut unsettled = false;
        let settle = self.config.settle;
        let registry = &self.registry;
        let mut withdrawn = Vec::new();
        self.seen.retain(|id, seen| {
            if found.plugins.contains_key(id) || found.held.contains(id) {
                seen.missing = None;
                return true;
            }
            let since = *seen.missing.get_or_insert_with(Instant::now);
            if since.elapsed() < settle {
                unsettled = true;
                return true;
            }
            registry.withdraw(id);
            withdrawn.push(id.clone());
            false
        });
        for id in withdrawn {
            self.report(Report::Withdrawn(id));
        }
        unsettled
    }

    /// Takes a plugin's files if they are new and settled. Tells whether they are not settled yet.
    async fn note(&mut self, id: &AgentId, path: &Path, print: &Print) -> bool {
        let now = Instant::now();
        let first = || Seen { print: print.clone(), since: now, taken: None, missing: None };
        let seen = self.seen.entry(id.clone()).or_insert_with(first);
        if seen.print != *print {
            seen.print = print.clone();
            seen.since = now;
        }
        if seen.taken.as_ref() == Some(print) {
            return false;
        }
        if seen.since.elapsed() < self.config.settle && print.age(SystemTime::now()) < self.config.settle {
            return true;
        }
        let quiet = seen.since.elapsed();
        match self.take(id, path, print).await {
            Outcome::NotYet => true,
            Outcome::Incomplete if quiet < INCOMPLETE_MAX => true,
            Outcome::Incomplete => {
                self.settle(id, print);
                self.refuse(id, &Unfit::Incomplete.to_string());
                false
            }
            Outcome::Refused(why) => {
                self.settle(id, print);
                self.refuse(id, &why);
                false
            }
            Outcome::Live(version) => {
                self.settle(id, print);
                if let Some(version) = version {
                    self.report(Report::Live(id.clone(), version));
                }
                false
            }
        }
    }

    fn settle(&mut self, id: &AgentId, print: &Print) {
        if let Some(seen) = self.seen.get_mut(id) {
            seen.taken = Some(print.clone());
        }
    }

    fn refuse(&mut self, id: &AgentId, why: &str) {
        self.registry.refuse(id, why);
        let goes_on = self.registry.get(&id.tenant, &id.agent).is_some();
        self.report(Report::Refused(id.clone(), why.to_owned(), goes_on));
    }

    /// Reads, compiles and installs a plugin's files.
    async fn take(&self, id: &AgentId, path: &Path, print: &Print) -> Outcome {
        let (path, print, max, name) = (path.to_owned(), print.clone(), self.config.max_size, id.agent.clone());
        let taken = tokio::task::spawn_blocking(move || take(&path, &print, max, &name)).await;
        let (bytes, version, config) = match taken {
            Ok(Taken::Whole { bytes, version, config }) => (bytes, version, config),
            Ok(Taken::Changed) => return Outcome::NotYet,
            Ok(Taken::Refused(why)) => return Outcome::Refused(why),
            Err(error) => return Outcome::Refused(format!("the file could not be read: {error}")),
        };
        let live = self.registry.get(&id.tenant, &id.agent);
        if live.is_some_and(|live| live.version == version && live.config == *config) {
            self.registry.clear_fault(id);
            return Outcome::Live(None);
        }
        match compile::prepare(&self.engine, id.clone(), &bytes, version, *config).await {
            Ok(agent) => {
                let agent = Arc::new(agent);
                self.registry.install(&agent);
                Outcome::Live(Some(agent.short_version().to_owned()))
            }
            Err(Unfit::Incomplete) => Outcome::Incomplete,
            Err(unfit) => Outcome::Refused(unfit.to_string()),
        }
    }
}

/// What became of files that were settled.
enum Outcome {
    /// They changed while they were read.
    NotYet,
    /// The component ends in the middle.
    Incomplete,
    /// They do not fit.
    Refused(String),
    /// They are live: as a new version, or as the one that was live already.
    Live(Option<String>),
}

/// Whether something may have changed. That the folder was read is no news: we read it ourselves at every look.
fn is_news(event: &notify::Result<notify::Event>) -> bool {
    match event {
        Ok(event) => match event.kind {
            EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
            _ => true,
        },
        Err(_) => true,
    }
}

/// What watches the folder for hints. Without it there is the poll.
struct Eyes {
    _watcher: Option<notify::RecommendedWatcher>,
    identity: Option<(u64, u64)>,
}

impl Eyes {
    fn open(root: &Path, hint: &mpsc::Sender<()>) -> Self {
        // Told before the watch begins: a folder that takes its place in between is then another.
        let identity = folder::identity(root);
        let hint = hint.clone();
        // What happened is looked at, not believed; a hint that waits already is enough.
        let told = move |event: notify::Result<notify::Event>| {
            if is_news(&event) {
                _ = hint.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(told).and_then(|mut watcher| {
            watcher.watch(root, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        let watcher = watcher
            .inspect_err(|error| tracing::warn!("cannot watch the plugins folder, so it is only polled: {error}"))
            .ok();
        Self { _watcher: watcher, identity }
    }

    /// Whether the folder has been replaced by another.
    fn are_elsewhere(&self, root: &Path) -> bool {
        let now = folder::identity(root);
        now.is_some() && now != self.identity
    }
}

#[cfg(test)]
mod tests {
    use notify::{
        Event,
        event::{CreateKind, DataChange, ModifyKind},
    };

    use super::*;

    #[test]
    fn reading_the_folder_is_no_news_and_whatever_changes_it_is() {
        let news = |kind| is_news(&Ok(Event::new(kind)));
        assert!(!news(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!news(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(!news(EventKind::Access(AccessKind::Read)));
        assert!(news(EventKind::Access(AccessKind::Close(AccessMode::Write))));
        assert!(news(EventKind::Create(CreateKind::File)));
        assert!(news(EventKind::Modify(ModifyKind::Data(DataChange::Any))));
        assert!(news(EventKind::Any));
        assert!(is_news(&Err(notify::Error::generic("too many events"))));
    }
}
