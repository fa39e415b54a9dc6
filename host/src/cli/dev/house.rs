//! A host of one agent in this process: its folder, its limits, and how a component that was built comes to serve.

use std::{
    fs::{self, File, TryLockError},
    io::Read as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use tokio::time::{Instant, sleep};
use url::Url;

use crate::{
    config::{AgentConfig, Config, Limits, LingzhuConfig},
    ids::{AgentId, DEFAULT_TENANT},
    runtime::{GuestThreads, compile},
    server::{self, Server},
};

/// The folder's own folder, where all is kept that must outlive one `hostelry dev`.
pub(super) const FOLDER: &str = ".hostelry";

/// How often it is looked whether a component serves.
const LOOK: Duration = Duration::from_millis(10);

/// After how long it is said that a component is still being compiled.
const LONG: Duration = Duration::from_secs(1);

/// How many times as much as elsewhere a turn may use here of what is measured, so that it is seen how much it would use.
const RELAXED: u32 = 10;

/// The memory that a turn may use here.
const MEMORY: usize = 1024 * 1024 * 1024;

/// How many versions' compiled code are kept for the next start.
const VERSIONS_KEPT: usize = 8;

/// A host that serves one agent.
pub(super) struct House {
    server: Server,
    config: Config,
    id: AgentId,
    plugins: PathBuf,
    /// What was put there last.
    placed: Option<Placed>,
    /// Held as long as this house is open.
    _lock: File,
}

/// What was put there: the component's version, the text of the file beside it, and why they do not serve.
#[derive(Debug, PartialEq, Eq)]
struct Placed {
    version: String,
    beside: Option<String>,
    refused: Option<String>,
}

/// What the host has made of it.
enum Fate {
    /// Nothing yet.
    Open,
    /// It serves.
    Live,
    /// It does not, and why.
    Refused(String),
}

/// What became of a component.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stood {
    /// It serves.
    Live {
        /// Its version.
        version: String,
        /// Its size in bytes.
        size: u64,
    },
    /// It is the one that serves.
    Same,
    /// It does not fit, or what stands beside it does not: why.
    Refused(String),
}

/// The files that are put there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made<'a> {
    /// What was built.
    pub(super) component: &'a Path,
    /// What the agent asks for, if a file says so.
    pub(super) beside: Option<&'a Path>,
}

impl House {
    /// Opens the house of the agent `name` whose source is in `dir`.
    pub(super) async fn open(
        dir: &Path,
        name: &str,
        listen: SocketAddr,
        guests: &GuestThreads,
    ) -> anyhow::Result<Self> {
        let folder = dir.join(FOLDER);
        let lock = prepare(&folder)?;
        let config = config(&folder, listen);
        let faults = server::faults(&config);
        if !faults.is_empty() {
            bail!(faults.join("; "));
        }
        let server = Server::start(config.clone(), guests).await?;
        let id = AgentId { tenant: DEFAULT_TENANT.to_owned(), agent: name.to_owned() };
        Ok(Self { server, plugins: config.plugins.clone(), config, id, placed: None, _lock: lock })
    }

    /// The agent.
    pub(super) fn agent(&self) -> &AgentId {
        &self.id
    }

    /// The server.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Where the house is.
    pub(super) fn url(&self) -> anyhow::Result<Url> {
        Ok(format!("http://{}", self.server.address()).parse()?)
    }

    /// Puts a component in its place, and waits until it serves or it is known why it does not; `waiting` is told once if
    /// that takes long.
    pub(super) async fn place(&mut self, made: Made<'_>, waiting: impl FnOnce()) -> anyhow::Result<Stood> {
        let bytes = read(made.component, self.config.reload.max_size)?;
        let version = compile::version(&bytes);
        let beside =
            made.beside.map(|path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display())));
        let beside = beside.transpose()?;
        let known = self.placed.as_ref().filter(|placed| placed.version == version && placed.beside == beside);
        if let Some(placed) = known {
            return Ok(placed.refused.clone().map_or(Stood::Same, Stood::Refused));
        }
        let file = format!("{}.toml", self.id.agent);
        let asked = beside.as_deref().map_or_else(|| Ok(AgentConfig::default()), |text| AgentConfig::read(text, &file));
        let asked = match asked {
            Ok(asked) => asked,
            // Nothing is put there: the host would say the same.
            Err(faults) => return Ok(Stood::Refused(faults.0.join("\n"))),
        };
        self.allow(asked.http.as_deref().unwrap_or_default())?;
        let put = |name: String, bytes: &[u8]| {
            let (aside, place) = (self.plugins.join(format!(".{name}")), self.plugins.join(name));
            fs::write(&aside, bytes).and_then(|()| fs::rename(&aside, &place))
        };
        match &beside {
            Some(text) => {
                put(file, text.as_bytes()).context("cannot put the file beside the component in its place")?;
            }
            None => drop(fs::remove_file(self.plugins.join(file))),
        }
        let since = jiff::Timestamp::now();
        put(format!("{}.wasm", self.id.agent), &bytes).context("cannot put the component in its place")?;
        self.placed = None;
        let (began, mut waiting) = (Instant::now(), Some(waiting));
        loop {
            let (stood, refused) = match self.fate(&version, &asked, since) {
                Fate::Open => (None, None),
                Fate::Live => (Some(Stood::Live { version: version.clone(), size: bytes.len() as u64 }), None),
                Fate::Refused(why) => (Some(Stood::Refused(why.clone())), Some(why)),
            };
            if let Some(stood) = stood {
                self.placed = Some(Placed { version, beside, refused });
                return Ok(stood);
            }
            if began.elapsed() >= LONG
                && let Some(waiting) = waiting.take()
            {
                waiting();
            }
            sleep(LOOK).await;
        }
    }

    /// What the host has made of the component that was put there at `since`.
    fn fate(&self, version: &str, asked: &AgentConfig, since: jiff::Timestamp) -> Fate {
        let registry = self.server.registry();
        let live = registry.get(&self.id.tenant, &self.id.agent);
        let fault = registry.standings().remove(&self.id).and_then(|standing| standing.fault);
        let own = |known: &Option<String>| known.as_ref().is_none_or(|known| known == version);
        if let Some(fault) = fault {
            let history = registry.history(&self.id);
            let refused =
                history.last().filter(|last| last.since >= since && last.fault.is_some() && own(&last.version));
            return refused.map_or(Fate::Open, |_| Fate::Refused(fault));
        }
        let live = live.is_some_and(|live| live.version == version && live.config == *asked);
        if live { Fate::Live } else { Fate::Open }
    }

    /// Lets the agent be fetched for from the hosts that it asks for.
    fn allow(&mut self, hosts: &[String]) -> anyhow::Result<()> {
        let Some(tenant) = self.config.tenants.get_mut(DEFAULT_TENANT).filter(|tenant| tenant.http != hosts) else {
            return Ok(());
        };
        hosts.clone_into(&mut tenant.http);
        self.server.apply(self.config.clone()).map(drop).map_err(anyhow::Error::from)
    }

    /// Whether some version of the agent serves.
    pub(super) fn is_live(&self) -> bool {
        self.server.registry().get(&self.id.tenant, &self.id.agent).is_some()
    }

    /// Closes the house: turns that run are ended.
    pub(super) async fn close(self) {
        self.server.stop().await;
    }
}

/// Makes the folder, takes it for this process, and clears away what an earlier one served.
fn prepare(folder: &Path) -> anyhow::Result<File> {
    let make = || {
        fs::create_dir_all(folder)?;
        fs::write(folder.join(".gitignore"), "*\n")?;
        File::create(folder.join("lock"))
    };
    let lock = make().with_context(|| format!("cannot make {}", folder.display()))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => bail!("another `hostelry dev` runs in this folder; hint: end that one first"),
        Err(TryLockError::Error(error)) => return Err(error).context("cannot lock the folder"),
    }
    let plugins = folder.join("plugins");
    if plugins.exists() {
        fs::remove_dir_all(&plugins).with_context(|| format!("cannot clear {}", plugins.display()))?;
    }
    clear_code(&folder.join("data/code"));
    Ok(lock)
}

/// Leaves the code of the last versions only: each build makes another.
fn clear_code(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let code = entries.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "code"));
    let mut files: Vec<_> =
        code.filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()))).collect();
    files.sort_unstable();
    let old = files.len().saturating_sub(VERSIONS_KEPT);
    for (_, path) in files.into_iter().take(old) {
        // What cannot be removed is compiled code all the same.
        drop(fs::remove_file(path));
    }
}

/// The host's configuration: out of the box, but with room for an agent to show what it would use, and every tool.
fn config(folder: &Path, listen: SocketAddr) -> Config {
    let mut config = Config { listen, plugins: folder.join("plugins"), data: folder.join("data"), ..Config::default() };
    for tenant in config.tenants.values_mut() {
        tenant.tools = vec!["*".to_owned()];
        tenant.limits = relaxed(&tenant.limits);
        config.lingzhu.turn_time = tenant.limits.turn_time;
    }
    config.server.concurrent_turns = 16;
    // Whoever presses Ctrl-C wants no turn to go on.
    config.server.drain = Duration::from_millis(100);
    config.reload.settle = Duration::from_millis(10);
    config.reload.poll = Duration::from_secs(1);
    // All that is said here is the author's own.
    config.failures.text = true;
    config
}

/// Limits that are wide where it is measured what a turn used. The others strike as they do elsewhere.
fn relaxed(limits: &Limits) -> Limits {
    Limits {
        memory: MEMORY,
        cpu_time: limits.cpu_time * RELAXED,
        turn_time: limits.turn_time * RELAXED,
        events: limits.events * RELAXED,
        output: limits.output * RELAXED as usize,
        tool_calls: limits.tool_calls * RELAXED,
        ..limits.clone()
    }
}

/// What a host allows a turn unless its operator says otherwise, and for how long its Lingzhu endpoint waits.
pub(super) fn allowed() -> (Limits, Duration) {
    (Limits::default(), LingzhuConfig::default().turn_time)
}

/// A component's bytes.
fn read(path: &Path, max: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    file.take(max.saturating_add(1))
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read {}", path.display()))?;
    if bytes.len() as u64 > max {
        bail!("{} is larger than {max} bytes, which is more than a host takes", path.display());
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_house_at_a_time_stands_in_a_folder_and_git_does_not_see_it() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join(FOLDER);
        let lock = prepare(&folder).unwrap();
        assert_eq!(fs::read_to_string(folder.join(".gitignore")).unwrap(), "*\n");
        assert!(prepare(&folder).unwrap_err().to_string().contains("another `hostelry dev` runs"));
        drop(lock);
        fs::create_dir_all(folder.join("plugins")).unwrap();
        fs::write(folder.join("plugins/old.wasm"), "").unwrap();
        let lock = prepare(&folder).unwrap();
        assert!(!folder.join("plugins").exists(), "what an earlier one served is gone");
        drop(lock);
    }

    #[test]
    fn code_of_the_last_versions_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..VERSIONS_KEPT + 3 {
            let path = dir.path().join(format!("{n}.code"));
            let file = File::create(path).unwrap();
            file.set_modified(std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(n as u64)).unwrap();
        }
        clear_code(dir.path());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), VERSIONS_KEPT);
        assert!(!dir.path().join("2.code").exists() && dir.path().join("3.code").exists());
        clear_code(&dir.path().join("nowhere"));
    }

    #[test]
    fn what_is_measured_may_be_used_up_to_ten_times_and_the_rest_as_elsewhere() {
        let config = config(Path::new("x"), "127.0.0.1:0".parse().unwrap());
        assert_eq!(server::faults(&config), Vec::<String>::new());
        let (here, elsewhere) = (&config.tenants[DEFAULT_TENANT].limits, allowed().0);
        assert_eq!(here.cpu_time, elsewhere.cpu_time * 10);
        assert!(here.memory > 10 * elsewhere.memory && here.events == 100_000);
        assert_eq!((here.log, here.host_call, here.handles), (elsewhere.log, elsewhere.host_call, elsewhere.handles));
    }
}
