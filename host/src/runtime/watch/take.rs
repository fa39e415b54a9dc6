//! Taking a plugin's files: read whole, bounded, and as they were looked at; and what comes of them.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::folder::{FilePrint, Print};
use crate::{
    config::{AgentConfig, CompileConfig, Config},
    ids::AgentId,
    limit::Limit,
    runtime::{
        CompiledAgent, Engine, Registry, Unfit,
        compile::{self, Candidate},
    },
};

/// The largest file beside a component. It is written by hand.
const BESIDE_MAX: u64 = 64 * 1024;

/// The rules that a file must keep. One that was refused or taken under others is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    max_size: u64,
    memory: usize,
    compile: CompileConfig,
}

impl Rules {
    /// The rules for a tenant's files.
    pub(super) fn of(config: &Config, tenant: &str) -> Self {
        let memory = config.tenants.get(tenant).map_or(0, |tenant| tenant.limits.memory);
        Self { max_size: config.reload.max_size, memory, compile: config.reload.compile }
    }
}

/// A plugin's files as they were looked at, to be taken by these rules.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) id: AgentId,
    pub(super) path: PathBuf,
    pub(super) print: Print,
    pub(super) rules: Rules,
}

/// What became of files.
#[derive(Debug)]
pub(super) enum Outcome {
    /// They changed while they were read.
    NotYet,
    /// They cannot be used, or not yet.
    Refused(Refusal),
    /// They are live: as a new version, or as the one that was live already.
    Live(Option<Arc<CompiledAgent>>),
    /// They have to be compiled, and are so large.
    Unknown(u64),
}

/// Why files cannot be used.
#[derive(Debug)]
pub(super) struct Refusal {
    /// In words for their author.
    pub(super) why: String,
    /// The bound that they ran into, if it is one.
    pub(super) limit: Option<Limit>,
    /// The component's hash, if it could be read.
    pub(super) version: Option<String>,
    /// Whether more of them may come.
    pub(super) unfinished: bool,
}

impl Refusal {
    fn of(unfit: &Unfit, version: &str) -> Self {
        Self {
            why: unfit.to_string(),
            limit: unfit.limit(),
            version: Some(version.to_owned()),
            unfinished: matches!(unfit, Unfit::Incomplete | Unfit::Empty),
        }
    }

    fn unread(why: String, limit: Option<Limit>) -> Self {
        Self { why, limit, version: None, unfinished: false }
    }
}

/// Why a file was not read.
enum Unread {
    Changed,
    Refused(Refusal),
}

impl Job {
    /// Takes the files as far as that goes without compiling.
    pub(super) async fn glance(self, engine: &Engine, registry: &Registry) -> Outcome {
        let (engine, registry) = (engine.clone(), registry.clone());
        let taken = tokio::task::spawn_blocking(move || {
            let candidate = match self.read() {
                Ok(candidate) => candidate,
                Err(outcome) => return outcome,
            };
            let size = candidate.bytes.len() as u64;
            match compile::prepare_known(&engine, &candidate) {
                Ok(Some(agent)) if is_live(&registry, &agent) => Outcome::Live(None),
                Ok(Some(agent)) => Outcome::Live(Some(Arc::new(agent))),
                Ok(None) => Outcome::Unknown(size),
                Err(unfit) => Outcome::Refused(Refusal::of(&unfit, &candidate.version)),
            }
        });
        taken.await.unwrap_or_else(|error| failed(&error))
    }

    /// Takes the files, compiling them if that must be. They are read anew: what waited in line is not held in memory.
    pub(super) async fn take(self, engine: Engine) -> Outcome {
        let candidate = match tokio::task::spawn_blocking(move || self.read()).await {
            Ok(Ok(candidate)) => candidate,
            Ok(Err(outcome)) => return outcome,
            Err(error) => return failed(&error),
        };
        let version = candidate.version.clone();
        match compile::prepare(&engine, candidate).await {
            Ok(agent) => Outcome::Live(Some(Arc::new(agent))),
            Err(unfit) => Outcome::Refused(Refusal::of(&unfit, &version)),
        }
    }

    /// Reads the files.
    fn read(self) -> Result<Candidate, Outcome> {
        let (rules, agent) = (self.rules, &self.id.agent);
        let read = read(&self.path, Some(self.print.component()), rules.max_size, "reload.max-size");
        let files = read.and_then(|bytes| {
            let Some(beside) = self.print.beside() else { return Ok((bytes, AgentConfig::default())) };
            let words = |why: String| Unread::Refused(Refusal::unread(why, None));
            let text = self::read(&self.path.with_extension("toml"), Some(beside), BESIDE_MAX, "64KiB")?;
            let text = String::from_utf8(text).map_err(|_| words(format!("{agent}.toml is not UTF-8")))?;
            let config = AgentConfig::read(&text, &format!("{agent}.toml"));
            Ok((bytes, config.map_err(|faults| words(faults.to_string()))?))
        });
        let (bytes, config) = files.map_err(|unread| match unread {
            Unread::Changed => Outcome::NotYet,
            Unread::Refused(refusal) => Outcome::Refused(refusal),
        })?;
        let own = config.limits.as_ref().map_or(usize::MAX, |limits| limits.memory);
        let (version, bytes) = (compile::version(&bytes), bytes.into());
        let memory = rules.memory.min(own);
        Ok(Candidate { id: self.id, bytes, version, config, memory, compile: rules.compile })
    }
}

/// Whether what was made of files is what serves already.
fn is_live(registry: &Registry, agent: &CompiledAgent) -> bool {
    let live = registry.get(&agent.id.tenant, &agent.id.agent);
    live.is_some_and(|live| live.version == agent.version && live.config == agent.config)
}

/// What became of files that a panic kept from being read.
pub(super) fn failed(error: &tokio::task::JoinError) -> Outcome {
    Outcome::Refused(Refusal::unread(format!("the file could not be taken: {error}"), None))
}

/// Reads one file, if it is the one that was looked at before and after.
fn read(path: &Path, print: Option<&FilePrint>, max: u64, limit: &str) -> Result<Vec<u8>, Unread> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Unread::Changed,
        _ => Unread::Refused(Refusal::unread(format!("the file cannot be read: {error}"), None)),
    };
    let mut file = open(path).map_err(unreadable)?;
    same(&file, print)?;
    if file.metadata().map_err(unreadable)?.len() > max {
        let why = format!("the file is larger than {max} bytes ({limit})");
        return Err(Unread::Refused(Refusal::unread(why, Some(Limit::FileSize))));
    }
    let mut bytes = Vec::new();
    // One that grows meanwhile is not what was looked at, and is not read to its end.
    file.by_ref().take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    same(&file, print)?;
    Ok(bytes)
}

/// Opens a file without waiting, should it have become a pipe.
fn open(path: &Path) -> io::Result<File> {
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    OpenOptions::new().read(true).custom_flags(nonblock).open(path)
}

fn same(file: &File, print: Option<&FilePrint>) -> Result<(), Unread> {
    let metadata = file.metadata().map_err(|_| Unread::Changed)?;
    if metadata.is_file() && Some(&FilePrint::of(&metadata)) == print { Ok(()) } else { Err(Unread::Changed) }
}
