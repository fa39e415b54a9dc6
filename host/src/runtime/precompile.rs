//! Compiling in a child process, and the cache of what came out.
//!
//! The engine promises nothing about the cost of compiling hostile input, so it happens in a child of the same program,
//! with bounds on its memory, CPU time, wall time and output, at the lowest priority, one at a time. The result is kept in
//! a folder that is the host's alone, under the component's hash and the engine's settings, with its own hash: an entry
//! that is foreign, stale or corrupt is never loaded. What its child does not survive is remembered there too, and
//! refused at once when it comes again.

use std::{
    collections::BTreeMap,
    hash::{Hash as _, Hasher as _},
    io,
    num::NonZeroUsize,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{sync::Semaphore, time::Instant};
use wasmtime::component::Component;

use super::compile::Unfit;
use crate::{
    config::CompileConfig,
    metrics::{Compiled, Metrics},
};

mod cache;
mod child;
mod quarantine;

pub use child::{COMMAND, main as child};

use cache::{Cache, Code, trust};
use child::Failed;
use quarantine::{Quarantine, Verdict};

/// How many components are compiled at once at most. The compiler's own threads use what cores there are for one; a second
/// one is so that a large or hostile file does not keep everybody else's waiting.
const AT_ONCE_MAX: usize = 2;

/// How many components are remembered as not valid, so that the same bytes under another name are refused at once.
const INVALID_MAX: usize = 1024;

/// Compiles components. Cloning is shallow.
#[derive(Clone, Debug)]
pub struct Compiler {
    cache: Option<Arc<Cache>>,
    quarantine: Option<Arc<Quarantine>>,
    /// Held by the compiles that run.
    turns: Arc<Semaphore>,
    /// Components that are not valid, by key, and why.
    invalid: Arc<Mutex<BTreeMap<String, String>>>,
    metrics: Metrics,
}

impl Compiler {
    /// A compiler that keeps nothing.
    pub fn without_cache() -> Self {
        Self {
            cache: None,
            quarantine: None,
            turns: Arc::new(Semaphore::new(Self::at_once())),
            invalid: Arc::default(),
            metrics: Metrics::new(),
        }
    }

    /// A compiler that keeps what it made in `folder`, which it makes its own.
    pub fn with_cache(folder: &Path) -> io::Result<Self> {
        let (cache, quarantine) = (Cache::open(folder)?, Quarantine::open(&folder.join("quarantine"))?);
        Ok(Self { cache: Some(Arc::new(cache)), quarantine: Some(Arc::new(quarantine)), ..Self::without_cache() })
    }

    /// The same compiler, counting in `metrics`.
    #[must_use]
    pub fn counting(mut self, metrics: &Metrics) -> Self {
        self.metrics = metrics.clone();
        self
    }

    /// How many components are compiled at once: where there are cores enough to leave one to the turns, two.
    pub fn at_once() -> usize {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        cores.saturating_sub(1).clamp(1, AT_ONCE_MAX)
    }

    /// What is known of a component without compiling it: its code, if that is kept, or that it is unfit. `version` is the
    /// component's hash.
    pub(super) fn known(
        &self,
        engine: &wasmtime::Engine,
        version: &str,
        bounds: &CompileConfig,
    ) -> Result<Option<Component>, Unfit> {
        let key = key(engine, version);
        if let Some(loaded) = self.cache.as_ref().and_then(|cache| cache.load(engine, &key)) {
            self.metrics.compiled(Compiled::Cached, Duration::ZERO);
            return loaded.map(Some);
        }
        if let Some(why) = self.lock().get(&key) {
            self.metrics.compiled(Compiled::Quarantined, Duration::ZERO);
            return Err(Unfit::Invalid(why.clone()));
        }
        let entry = entry(&key, bounds);
        if let Some(how) = self.quarantine.as_ref().and_then(|quarantine| quarantine.holds(&entry)) {
            self.metrics.compiled(Compiled::Quarantined, Duration::ZERO);
            return Err(self.deadly(&how, &entry));
        }
        Ok(None)
    }

    /// The component's code, kept or newly made.
    pub(super) async fn component(
        &self,
        engine: &wasmtime::Engine,
        bytes: &Arc<[u8]>,
        version: &str,
        bounds: &CompileConfig,
    ) -> Result<Component, Unfit> {
        let Ok(_turn) = self.turns.acquire().await else { return Err(Unfit::Host("the host goes down".to_owned())) };
        // Known perhaps only now: the same bytes may have been compiled for another agent meanwhile.
        let known = {
            let (compiler, engine, version, bounds) = (self.clone(), engine.clone(), version.to_owned(), *bounds);
            aside(move || compiler.known(&engine, &version, &bounds)).await?
        };
        if let Some(component) = known? {
            return Ok(component);
        }
        let key = key(engine, version);
        let code = self.compile(bytes, &entry(&key, bounds), bounds).await;
        if let Err(Unfit::Invalid(why)) = &code {
            let mut invalid = self.lock();
            if invalid.len() >= INVALID_MAX {
                invalid.pop_first();
            }
            invalid.insert(key.clone(), why.clone());
        }
        let (cache, engine, code) = (self.cache.clone(), engine.clone(), code?);
        aside(move || {
            let kept = cache.and_then(|cache| {
                let kept = cache.keep(&key, &code);
                let kept = kept.map_err(|error| tracing::warn!("cannot keep compiled code: {error}"));
                kept.ok().and_then(|()| cache.load(&engine, &key))
            });
            kept.unwrap_or_else(|| trust(&engine, &Code::Bytes(&code)))
        })
        .await?
    }

    /// Compiles, and keeps account of what must not be tried again.
    async fn compile(&self, bytes: &Arc<[u8]>, entry: &str, bounds: &CompileConfig) -> Result<Vec<u8>, Unfit> {
        let attempt = self.quarantine.as_ref().map(|quarantine| quarantine.begin(entry));
        let began = Instant::now();
        let code = if cfg!(test) { child::compile_here(bytes) } else { child::compile(bytes, bounds).await };
        let (how, verdict) = match &code {
            Ok(_) => (Compiled::Compiled, Verdict::Survived),
            Err(Failed::Invalid(_)) => (Compiled::Invalid, Verdict::Survived),
            Err(Failed::Died(how)) => (Compiled::Deadly, Verdict::Died(how)),
            Err(Failed::Unproven(how)) => (Compiled::Failed, Verdict::Failed(how)),
            Err(Failed::Host(_)) => (Compiled::Failed, Verdict::NotTried),
        };
        self.metrics.compiled(how, began.elapsed());
        if let Some(attempt) = attempt {
            attempt.end(&verdict);
        }
        code.map_err(|failed| match failed {
            Failed::Invalid(why) => Unfit::Invalid(why),
            Failed::Died(how) => self.deadly(&how, entry),
            Failed::Unproven(how) => Unfit::Host(format!("{how}; hint: touch the file to try again")),
            Failed::Host(why) => Unfit::Host(why),
        })
    }

    /// Why a component is not compiled, and the way out.
    fn deadly(&self, how: &str, entry: &str) -> Unfit {
        if self.quarantine.is_none() {
            return Unfit::Deadly(format!("{how}; hint: build it smaller"));
        }
        Unfit::Deadly(format!(
            "{how}; this same file is not tried again; hint: build it smaller; an operator who wants it tried again \
             removes code/quarantine/{entry} in the data folder and touches the file"
        ))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        self.invalid.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Does what takes a while and waits for nobody on a thread that may be held up.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Unfit> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Unfit::Host(format!("compiled code could not be loaded: {error}")))
}

/// What code is kept under: everything that it depends on, which is the component, the engine's settings and this
/// program's version.
fn key(engine: &wasmtime::Engine, version: &str) -> String {
    format!("{version}-{}", settings_of(engine))
}

fn settings_of(engine: &wasmtime::Engine) -> String {
    let mut hash = std::hash::DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hash);
    env!("CARGO_PKG_VERSION").hash(&mut hash);
    format!("{:016x}", hash.finish())
}

/// What a death is remembered under: whoever allows the compiler more, or has another one, tries again.
fn entry(key: &str, bounds: &CompileConfig) -> String {
    let mut hash = std::hash::DefaultHasher::new();
    bounds.hash(&mut hash);
    format!("{key}-{:08x}", hash.finish() & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::Config,
        runtime::{Engine, engine},
    };

    #[test]
    fn code_that_the_child_makes_is_the_hosts() {
        let host = Engine::new(&Config::default()).unwrap();
        assert_eq!(settings_of(host.raw()), settings_of(&engine::for_compiling().unwrap()));
    }

    #[test]
    fn more_room_for_the_compiler_is_a_reason_to_try_again() {
        let bounds = CompileConfig::default();
        let more = CompileConfig { memory: bounds.memory + 1, ..bounds };
        assert_eq!(entry("k", &bounds), entry("k", &CompileConfig::default()));
        assert_ne!(entry("k", &bounds), entry("k", &more));
        assert_ne!(entry("k", &bounds), entry("l", &bounds));
    }

    #[tokio::test]
    async fn what_is_not_valid_is_compiled_once() {
        let metrics = Metrics::new();
        let folder = tempfile::tempdir().unwrap();
        let compiler = Compiler::with_cache(folder.path()).unwrap().counting(&metrics);
        let engine = engine::for_compiling().unwrap();
        let bytes: Arc<[u8]> = wat::parse_str("(component (core module (func (result i32))))").unwrap().into();
        let bounds = CompileConfig::default();
        for _ in 0..3 {
            assert!(matches!(compiler.component(&engine, &bytes, "v", &bounds).await, Err(Unfit::Invalid(_))));
        }
        let text = metrics.encode();
        assert!(text.contains("hostelry_compiles_total{outcome=\"invalid\"} 1"), "{text}");
        assert!(text.contains("hostelry_compiles_total{outcome=\"quarantined\"} 2"), "{text}");
    }

    #[tokio::test]
    async fn a_cache_that_cannot_be_written_keeps_nothing_from_being_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = Compiler::with_cache(folder.path()).unwrap();
        std::fs::remove_dir_all(folder.path()).unwrap();
        let engine = engine::for_compiling().unwrap();
        let bytes: Arc<[u8]> = wat::parse_str("(component)").unwrap().into();
        compiler.component(&engine, &bytes, "v", &CompileConfig::default()).await.unwrap();
        assert!(!folder.path().exists());
    }

    #[tokio::test]
    async fn code_is_made_once_and_then_found() {
        let metrics = Metrics::new();
        let folder = tempfile::tempdir().unwrap();
        let engine = engine::for_compiling().unwrap();
        let bytes: Arc<[u8]> = wat::parse_str("(component)").unwrap().into();
        for _ in 0..3 {
            let compiler = Compiler::with_cache(folder.path()).unwrap().counting(&metrics);
            compiler.component(&engine, &bytes, "v", &CompileConfig::default()).await.unwrap();
        }
        let text = metrics.encode();
        assert!(text.contains("hostelry_compiles_total{outcome=\"compiled\"} 1"), "{text}");
        assert!(text.contains("hostelry_compiles_total{outcome=\"cached\"} 2"), "{text}");
    }
}
