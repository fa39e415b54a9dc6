//! The plugins folder, kept the same as what is live.
//!
//! Events of the file system are only a hint to look: every look reads the whole folder and compares, so that in-place
//! writes, renames, copies, the symlink swaps of mounted volumes and a replaced folder all come out alike, and a slow
//! poll finds what no event told. A file is taken when it has been left alone for a while and is whole. What has to be
//! compiled waits in line for that, and the looking goes on; then it is made live in one step. A file that does not fit
//! leaves the last good version serving, with the reason kept.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use tokio::{
    sync::{Notify, mpsc},
    task::{self, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{Engine, Registry};
use crate::{
    config::Config,
    ids::AgentId,
    limit::Limit,
    metrics::{Metrics, Reload},
};

mod compiling;
mod eyes;
mod folder;
mod line;
mod report;
mod take;

pub use folder::{AGENTS_MAX, SHARE_MIN};

use eyes::Eyes;
pub(crate) use eyes::is_news;
use folder::{Found, Print};
use line::Line;
use report::Report;
use take::{Job, Outcome, Refusal, Rules};

/// How long a file that ends in the middle may stay so before that is its fault and not its writer's slowness.
const INCOMPLETE_MAX: Duration = Duration::from_secs(3);

/// How long the start waits for the plugins that are there. One that never settles, or takes long to compile, must not
/// keep the others from serving.
pub const LOAD_MAX: Duration = Duration::from_secs(20);

/// How long the host is not ready because plugins are left of those that were there at its start: long enough for a full
/// folder of honest ones, and not for ever because somebody's are none.
const UNREADY_MAX: Duration = Duration::from_mins(2);

/// How many times as long as a look takes the next one waits: a folder of twenty thousand files that never rests must not
/// take a core for itself.
const REST: u32 = 9;

/// How long one look reads a tenant's new files for; the rest of them waits for the next one, so that large files which
/// change again and again hold up nobody else's.
const GLANCE_MAX: Duration = Duration::from_secs(1);

/// What the watcher works on.
pub struct Watcher {
    root: PathBuf,
    config: Arc<ArcSwap<Config>>,
    engine: Engine,
    registry: Registry,
    metrics: Metrics,
    seen: BTreeMap<AgentId, Seen>,
    strays: BTreeMap<String, String>,
    /// Tenants that had more agents than they may at the last look.
    crowded: BTreeSet<String>,
    /// What waits to be compiled.
    line: Line,
    /// What is being compiled: what came of it, and which task is whose.
    compiling: JoinSet<Outcome>,
    jobs: HashMap<task::Id, Job>,
    /// Whether the folder could not be read the last time, so that it is said once.
    unreadable: bool,
    /// How long the last look took, and how long it read new files.
    took: Duration,
    read: Duration,
    /// When the watcher was made.
    began: Instant,
    /// Whoever changed what the watcher reads beside the folder says so here.
    hint: Arc<Notify>,
    /// What is told once the server listens; nothing once it does.
    kept_back: Option<Vec<Report>>,
}

/// One plugin's files as they were last looked at.
struct Seen {
    path: PathBuf,
    print: Print,
    since: Instant,
    /// The files that were taken, or refused, last, and by which rules.
    taken: Option<(Print, Rules)>,
    /// The files that wait to be compiled or are being compiled.
    asked: Option<(Print, Rules)>,
    /// When the files were first found missing.
    missing: Option<Instant>,
}

impl Watcher {
    /// A watcher of the configuration's plugins folder.
    pub fn new(config: &Arc<ArcSwap<Config>>, engine: &Engine, registry: &Registry, metrics: &Metrics) -> Self {
        Self {
            root: config.load().plugins.clone(),
            config: Arc::clone(config),
            engine: engine.clone(),
            registry: registry.clone(),
            metrics: metrics.clone(),
            seen: BTreeMap::new(),
            strays: BTreeMap::new(),
            crowded: BTreeSet::new(),
            line: Line::default(),
            compiling: JoinSet::new(),
            jobs: HashMap::new(),
            unreadable: false,
            took: Duration::ZERO,
            read: Duration::ZERO,
            began: Instant::now(),
            hint: Arc::default(),
            kept_back: Some(Vec::new()),
        }
    }

    /// Where to say that the configuration has changed, so that the folder is looked through by the new one.
    pub fn hint(&self) -> Arc<Notify> {
        Arc::clone(&self.hint)
    }

    /// Looks until everything that is there has been taken or refused, for as long as a start may take; what is left goes
    /// on in [`Watcher::run`].
    pub async fn load(&mut self) {
        // Nobody sends hints yet: every look is soon followed by another until all is settled.
        let (_hint, mut hints) = mpsc::channel(1);
        let all = async {
            loop {
                let unsettled = self.look().await;
                if self.note_loaded(unsettled) {
                    break;
                }
                self.rest(&mut hints, unsettled).await;
            }
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
        let forever = async {
            loop {
                // First of all: what changed before these eyes were open told nobody.
                let unsettled = self.look().await;
                self.note_loaded(unsettled);
                if eyes.are_elsewhere(&self.root) {
                    eyes = Eyes::open(&self.root, &hint);
                    continue;
                }
                self.rest(&mut hints, unsettled).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = forever => {}
        }
    }

    /// Says that the folder has been looked through, once everything in it was taken or refused or has had its time. Tells
    /// whether that is so.
    fn note_loaded(&mut self, unsettled: bool) -> bool {
        let idle = !unsettled && self.line.is_empty() && self.compiling.is_empty();
        if (idle || self.began.elapsed() >= UNREADY_MAX) && !self.registry.is_loaded() {
            self.registry.set_loaded();
        }
        idle
    }

    /// How long the next look waits when there is reason for one.
    fn pace(&self) -> Duration {
        let settle = self.config.load().reload.settle;
        // At the start nobody is served yet whom the reading could hinder.
        let read = if self.kept_back.is_some() { Duration::ZERO } else { self.read };
        (settle / 2).max(Duration::from_millis(10)).max(self.took * REST).max(read)
    }

    /// Waits until it is time for another look, and makes live meanwhile what is compiled.
    async fn rest(&mut self, hints: &mut mpsc::Receiver<()>, unsettled: bool) {
        let soon = Instant::now() + self.pace();
        let mut until = if unsettled { soon } else { Instant::now() + self.config.load().reload.poll };
        let mut hinted = unsettled;
        loop {
            self.start_compiling();
            let hint = Arc::clone(&self.hint);
            tokio::select! {
                () = tokio::time::sleep_until(until) => return,
                () = hint.notified() => return,
                Some(done) = self.compiling.join_next_with_id() => {
                    // One that changed meanwhile, or the last one, wants another look.
                    if self.finish(done) || self.compiling.is_empty() && self.line.is_empty() {
                        until = until.min(Instant::now() + self.pace());
                    }
                }
                // What comes at once is looked at together, and a folder that never rests so often and no more.
                Some(()) = hints.recv(), if !hinted => {
                    hinted = true;
                    until = until.min(Instant::now() + self.pace());
                }
            }
        }
    }

    /// Looks once. Tells whether something is not settled yet, so that another look must follow soon.
    async fn look(&mut self) -> bool {
        let config = self.config.load_full();
        let (root, tenants) = (self.root.clone(), config.tenants.keys().cloned().collect());
        let began = Instant::now();
        let found = task::spawn_blocking(move || folder::scan(&root, &tenants)).await;
        self.took = began.elapsed();
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
        let mut unsettled = self.note_missing(&found, &config);
        let (mut spent, began) = (BTreeMap::<&str, Duration>::new(), Instant::now());
        for (id, (path, print)) in &found.plugins {
            let own = spent.entry(&id.tenant).or_default();
            if *own >= GLANCE_MAX {
                unsettled = true;
                continue;
            }
            let began = Instant::now();
            let rules = Rules::of(&config, &id.tenant);
            let job = Job { id: id.clone(), path: path.clone(), print: print.clone(), rules };
            unsettled |= self.note(job, config.reload.settle).await;
            *own += began.elapsed();
        }
        self.read = began.elapsed();
        unsettled
    }

    fn note_strays(&mut self, found: &Found) {
        let before = std::mem::replace(&mut self.crowded, found.crowded.clone());
        for tenant in found.crowded.difference(&before) {
            self.metrics.limit_of(Limit::Agents, tenant);
        }
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
    fn note_missing(&mut self, found: &Found, config: &Config) -> bool {
        let mut unsettled = false;
        let mut withdrawn = Vec::new();
        for (id, seen) in &mut self.seen {
            let gone = !config.tenants.contains_key(&id.tenant);
            if found.has(id) && !gone {
                seen.missing = None;
            } else if seen.missing.get_or_insert_with(Instant::now).elapsed() < config.reload.settle {
                unsettled = true;
            } else {
                withdrawn.push((id.clone(), gone));
            }
        }
        for (id, gone) in withdrawn {
            self.seen.remove(&id);
            self.line.leave(&id);
            self.registry.withdraw(&id);
            self.metrics.reload(Reload::Withdrawn, self.registry.live());
            self.report(Report::Withdrawn(id, gone));
        }
        unsettled
    }

    /// Takes a plugin's files if they are new and settled, or has them wait in line. Tells whether they are not settled
    /// yet.
    async fn note(&mut self, job: Job, settle: Duration) -> bool {
        let now = Instant::now();
        let (path, print, own) = (job.path.clone(), job.print.clone(), Some((job.print.clone(), job.rules)));
        let first = || Seen { path, print, since: now, taken: None, asked: None, missing: None };
        let seen = self.seen.entry(job.id.clone()).or_insert_with(first);
        seen.path.clone_from(&job.path);
        if seen.print != job.print {
            seen.print = job.print.clone();
            seen.since = now;
        }
        if seen.asked.is_some() && seen.asked != own {
            // What came of the file that was there before is nobody's any more.
            seen.asked = None;
            self.line.leave(&job.id);
        }
        if seen.taken == own || seen.asked == own {
            return false;
        }
        let quiet = seen.since.elapsed();
        if quiet < settle && job.print.age(SystemTime::now()) < settle {
            return true;
        }
        match job.clone().glance(&self.engine, &self.registry).await {
            Outcome::NotYet => true,
            Outcome::Refused(refusal) if refusal.unfinished && quiet < INCOMPLETE_MAX => true,
            Outcome::Unknown(size) => {
                if let Some(seen) = self.seen.get_mut(&job.id) {
                    seen.asked = own;
                }
                self.line.enter(&job.id, size);
                false
            }
            outcome => {
                self.conclude(job, outcome);
                false
            }
        }
    }

    /// Makes live what fits, and keeps the reason why the rest does not.
    fn conclude(&mut self, job: Job, outcome: Outcome) {
        let Job { id, print, rules, .. } = job;
        if let Some(seen) = self.seen.get_mut(&id) {
            seen.taken = Some((print, rules));
        }
        match outcome {
            Outcome::Live(Some(agent)) => {
                self.registry.install(&agent);
                self.metrics.reload(Reload::Live, self.registry.live());
                self.report(Report::Live(id, agent.short_version().to_owned()));
            }
            Outcome::Live(None) => self.registry.clear_fault(&id),
            Outcome::Refused(refusal) => self.refuse(id, &refusal),
            Outcome::NotYet | Outcome::Unknown(_) => {}
        }
    }

    fn refuse(&mut self, id: AgentId, refusal: &Refusal) {
        self.registry.refuse(&id, refusal.version.as_deref(), &refusal.why);
        self.metrics.reload(Reload::Refused, self.registry.live());
        if let Some(limit) = refusal.limit {
            self.metrics.limit_of(limit, &id.tenant);
        }
        let goes_on = self.registry.get(&id.tenant, &id.agent).is_some();
        self.report(Report::Refused(id, refusal.why.clone(), goes_on));
    }
}
