//! Compiling in a child process, and the cache of what came out.
//!
//! The engine promises nothing about the cost of compiling hostile input, so it happens in a child of the same program,
//! with bounds on its memory, CPU time, wall time and output, at the lowest priority, one at a time. The result is kept in
//! a folder that is the host's alone, under the component's hash and the engine's settings, with its own hash: an entry
//! that is foreign, stale or corrupt is never loaded. What its child does not survive is remembered and refused at once.

use std::{
    collections::BTreeMap,
    fs,
    hash::{Hash as _, Hasher as _},
    io::{self, Read as _, Write as _},
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
        process::ExitStatusExt as _,
    },
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use rustix::process::{Resource, Rlimit};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wasmtime::component::Component;

use super::{compile::Unfit, engine};
use crate::ids;

/// The hidden command that makes this program a compiler.
pub const COMMAND: &str = "compile-component";

/// Bytes of address space that the child may have. A large JavaScript runtime takes 0.4 GiB of memory to compile.
const CHILD_MEMORY: u64 = 3 * 1024 * 1024 * 1024;
/// CPU time that the child may use. The largest runtime that was tried takes 14 s.
const CHILD_CPU: Duration = Duration::from_mins(2);
/// Wall time that the child may take; it has the lowest priority, so that a busy host slows it down.
const CHILD_TIME: Duration = Duration::from_mins(5);
/// Bytes of code that may come out. The largest that was seen is 37 MB.
const CODE_MAX: usize = 192 * 1024 * 1024;
/// How much of what the child says of a failure is kept.
const SAID_MAX: u64 = 4096;
/// How many components are remembered as deadly; the oldest is forgotten first.
const DEADLY_MAX: usize = 1024;

/// Bytes that stand behind the code in an entry: its SHA-256.
const SEAL: usize = 32;

/// How many bytes of code are kept: a hundred large language runtimes, or twenty thousand small agents.
const CACHE_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// Compiles components. Cloning is shallow.
#[derive(Clone, Debug)]
pub struct Compiler {
    cache: Option<PathBuf>,
    /// Held by the one compile that runs.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Components whose child died, by hash, and how.
    deadly: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Compiler {
    /// A compiler that keeps nothing.
    pub fn without_cache() -> Self {
        Self { cache: None, turn: Arc::default(), deadly: Arc::default() }
    }

    /// A compiler that keeps what it made in `folder`, which it makes its own.
    pub fn with_cache(folder: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let metadata = fs::metadata(folder)?;
        let owner = rustix::process::geteuid().as_raw();
        if metadata.uid() != owner || metadata.mode() & 0o022 != 0 {
            return Err(io::Error::other(format!(
                "{} belongs to another user or can be written by others; code in it is not to be trusted",
                folder.display()
            )));
        }
        Ok(Self { cache: Some(folder.to_owned()), ..Self::without_cache() })
    }

    /// The component's code, from the cache or newly made. `version` is the component's hash.
    pub async fn component(
        &self,
        engine: &wasmtime::Engine,
        bytes: &Arc<[u8]>,
        version: &str,
    ) -> Result<Component, Unfit> {
        let entry = self.cache.as_ref().map(|folder| folder.join(format!("{version}-{}.code", settings_of(engine))));
        if let Some(loaded) = entry.as_ref().and_then(|entry| load(engine, entry)) {
            return loaded;
        }
        if let Some(how) = self.lock().get(version) {
            return Err(Unfit::Deadly(format!("{how}; this same file is not tried again")));
        }
        let _turn = self.turn.lock().await;
        let code = if cfg!(test) { compile_here(bytes) } else { compile_in_child(bytes).await };
        let code = match code {
            Ok(code) => code,
            Err(Failed::Invalid(why)) => return Err(Unfit::Invalid(why)),
            Err(Failed::Died(how)) => {
                self.remember(version, &how);
                return Err(Unfit::Deadly(how));
            }
            Err(Failed::Host(why)) => return Err(Unfit::Host(why)),
        };
        match entry {
            Some(entry) => {
                let kept = keep(&entry, &code).map_err(|error| {
                    tracing::warn!("cannot keep compiled code in {}: {error}", entry.display());
                });
                match kept.ok().and_then(|()| load(engine, &entry)) {
                    Some(loaded) => loaded,
                    None => trust(engine, &Code::Bytes(&code)),
                }
            }
            None => trust(engine, &Code::Bytes(&code)),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.deadly.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, version: &str, how: &str) {
        let mut deadly = self.lock();
        if deadly.len() >= DEADLY_MAX {
            deadly.pop_first();
        }
        deadly.insert(version.to_owned(), how.to_owned());
    }
}

/// Why no code came out.
enum Failed {
    /// The component is not valid.
    Invalid(String),
    /// The child passed a bound, or fell.
    Died(String),
    /// The child could not be run at all.
    Host(String),
}

/// Compiles in this process: for unit tests, which have no program to be a child of.
fn compile_here(bytes: &[u8]) -> Result<Vec<u8>, Failed> {
    let engine = engine::for_compiling().map_err(|error| Failed::Host(error.to_string()))?;
    engine.precompile_component(bytes).map_err(|error| Failed::Invalid(format!("{error:#}")))
}

/// Runs the child.
async fn compile_in_child(bytes: &Arc<[u8]>) -> Result<Vec<u8>, Failed> {
    let host = |error: io::Error| Failed::Host(format!("the compiler could not be run: {error}"));
    // Not the path of the program, which an upgrade may have replaced: the very program that runs.
    let mut child = tokio::process::Command::new("/proc/self/exe")
        .arg(COMMAND)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(host)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(Failed::Host("the compiler has no pipes".to_owned()));
    };
    let feed = async {
        // A child that has failed does not read on; what it says of it counts.
        let fed = stdin.write_all(bytes).await;
        drop(stdin);
        fed
    };
    let mut code = Vec::new();
    let mut said = String::new();
    let work = async {
        let mut stdout = stdout.take(CODE_MAX as u64 + 1);
        let mut stderr = stderr.take(SAID_MAX);
        let (_, read, _) = tokio::join!(feed, stdout.read_to_end(&mut code), stderr.read_to_string(&mut said));
        read?;
        if code.len() > CODE_MAX {
            return Ok(None);
        }
        child.wait().await.map(Some)
    };
    match tokio::time::timeout(CHILD_TIME, work).await {
        Err(_) => Err(Failed::Host(format!(
            "compiling it took longer than {CHILD_TIME:?}; hint: touch the file to try again"
        ))),
        Ok(Err(error)) => Err(host(error)),
        Ok(Ok(None)) => Err(Failed::Died(format!("compiling it makes more than {CODE_MAX} bytes of code"))),
        Ok(Ok(Some(status))) if status.success() => Ok(code),
        Ok(Ok(Some(status))) if status.code() == Some(1) => {
            Err(Failed::Invalid(crate::text::visible(crate::text::head(said.trim(), 1024))))
        }
        // Something else than its own bounds ended it: that says nothing of the component.
        Ok(Ok(Some(status))) if status.signal() == Some(rustix::process::Signal::KILL.as_raw()) => {
            Err(Failed::Host("the compiler was killed from outside; hint: touch the file to try again".to_owned()))
        }
        Ok(Ok(Some(_))) => Err(Failed::Died(format!(
            "compiling it takes more memory or time than the compiler may have ({} GiB, {CHILD_CPU:?} of CPU time)",
            CHILD_MEMORY >> 30
        ))),
    }
}

/// What the child does: its bounds first, then standard input to standard output.
pub fn child() -> ExitCode {
    match compile_standard_input() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("{error:#}");
            ExitCode::from(1)
        }
    }
}

fn compile_standard_input() -> anyhow::Result<()> {
    let bound = |resource, soft, hard| {
        rustix::process::setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })
    };
    bound(Resource::As, CHILD_MEMORY, CHILD_MEMORY)?;
    // The soft bound ends the child with a signal that tells why.
    bound(Resource::Cpu, CHILD_CPU.as_secs(), CHILD_CPU.as_secs() + 5)?;
    bound(Resource::Core, 0, 0)?;
    // Nobody wants the code of a child whose host is gone.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    engine::be_lowest();
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let engine = engine::for_compiling()?;
    let code = engine.precompile_component(&bytes)?;
    io::stdout().lock().write_all(&code)?;
    Ok(())
}

/// Everything that code depends on beside the component: the engine's settings and this program's version.
fn settings_of(engine: &wasmtime::Engine) -> String {
    let mut hash = std::hash::DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hash);
    env!("CARGO_PKG_VERSION").hash(&mut hash);
    format!("{:016x}", hash.finish())
}

/// Puts code into the cache, sealed, in one step.
fn keep(entry: &Path, code: &[u8]) -> io::Result<()> {
    let fresh = entry.with_extension(format!("{}.new", ids::base36::<8>()));
    let written = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(code)?;
        file.write_all(&Sha256::digest(code))?;
        file.sync_all()?;
        fs::rename(&fresh, entry)?;
        entry.parent().map_or(Ok(()), prune)
    })();
    if written.is_err() {
        // Nothing else will ever look for it.
        drop(fs::remove_file(&fresh));
    }
    written
}

/// Code from the cache, if the entry is whole; one that is not is removed.
fn load(engine: &wasmtime::Engine, entry: &Path) -> Option<Result<Component, Unfit>> {
    let sealed = fs::read(entry).ok()?;
    let whole = sealed.len().checked_sub(SEAL).and_then(|end| sealed.split_at_checked(end));
    if whole.is_none_or(|(code, seal)| Sha256::digest(code).as_slice() != seal) {
        tracing::warn!("compiled code in {} is not what was put there; compiling anew", entry.display());
        drop(fs::remove_file(entry));
        return None;
    }
    // The oldest go first when the cache is full, and this one was just of use.
    drop(fs::File::open(entry).and_then(|file| file.set_modified(SystemTime::now())));
    Some(trust(engine, &Code::File(entry)))
}

/// Removes what was not finished, and the entries that were of no use for longest, until the rest fits.
fn prune(folder: &Path) -> io::Result<()> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let (path, metadata) = (entry.as_ref().map(fs::DirEntry::path), entry.as_ref().map(fs::DirEntry::metadata));
        let (Ok(path), Ok(Ok(metadata))) = (path, metadata) else { continue };
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let unfinished = path.extension().is_some_and(|extension| extension == "new");
        if unfinished && modified.elapsed().is_ok_and(|age| age > CHILD_TIME) {
            drop(fs::remove_file(&path));
        } else if !unfinished {
            entries.push((modified, metadata.len(), path));
        }
    }
    entries.sort();
    let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, size, path) in entries {
        if bytes <= CACHE_MAX {
            break;
        }
        drop(fs::remove_file(path));
        bytes = bytes.saturating_sub(size);
    }
    Ok(())
}

/// Code that this host made itself.
enum Code<'a> {
    Bytes(&'a [u8]),
    File(&'a Path),
}

/// Makes code runnable.
#[expect(unsafe_code, reason = "loading compiled code is unsafe: the engine cannot check it")]
fn trust(engine: &wasmtime::Engine, code: &Code<'_>) -> Result<Component, Unfit> {
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
    use super::*;
    use crate::{config::Config, runtime::Engine};

    #[test]
    fn code_that_the_child_makes_is_the_hosts() {
        let host = Engine::new(&Config::default()).unwrap();
        assert_eq!(settings_of(host.raw()), settings_of(&engine::for_compiling().unwrap()));
    }

    #[test]
    fn an_entry_that_is_not_what_was_put_there_is_never_loaded() {
        let engine = engine::for_compiling().unwrap();
        let code = engine.precompile_component(&wat::parse_str("(component)").unwrap()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let entry = folder.path().join("x.code");
        keep(&entry, &code).unwrap();
        assert!(load(&engine, &entry).is_some());
        for spoil in [0, code.len() / 2, code.len() + 3] {
            keep(&entry, &code).unwrap();
            let mut bytes = fs::read(&entry).unwrap();
            bytes[spoil] ^= 1;
            fs::write(&entry, bytes).unwrap();
            assert!(load(&engine, &entry).is_none(), "a bit at {spoil}");
            assert!(!entry.exists());
        }
        fs::write(&entry, &code[..code.len() / 2]).unwrap();
        assert!(load(&engine, &entry).is_none(), "a torn file");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn a_cache_that_others_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Compiler::with_cache(folder.path()).is_err());
    }
}
