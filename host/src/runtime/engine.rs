//! The one engine that all guests run on: its settings with their reasons, and the tick that interrupts guests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use wasmtime::{Enabled, InstanceAllocationStrategy, PoolingAllocationConfig, component::Linker};

use super::precompile::Compiler;
use crate::{
    capabilities::{self, TurnState},
    config::{Config, Limits},
    metrics::Metrics,
};

/// How often running guests are looked at: the length of a slice, and the precision of the CPU limit. Much shorter ticks
/// cost more than they give; much longer ones let one guest delay the others.
pub(super) const TICK: Duration = Duration::from_millis(1);

/// How many ticks without a running guest pass before the ticker sleeps.
const IDLE_TICKS: u32 = 50;

/// The niceness of work that nobody waits for at the other end of a socket, such as compiling.
const LOWEST: i32 = 19;

/// Resident bytes that a freed memory or table keeps, so that the next turn faults nothing in, where the kernel can tell
/// which pages were written (Linux 6.7 and later), and where it cannot and all of them are cleared by hand.
const KEEP_WITH_SCAN: usize = 1024 * 1024;
const KEEP_WITHOUT_SCAN: usize = 256 * 1024;

/// How many turns at once the pool can be made for: the address space of a process holds so many memories, each with room
/// for the largest that 32 bits can address.
pub const TURNS_MAX: u32 = 5_000;

/// The largest memory that the pool can be made for: what 32 bits can address.
pub const MEMORY_MAX: usize = 4 * 1024 * 1024 * 1024;

/// The engine, what is linked into every guest, and the tick. Cloning is shallow.
#[derive(Clone)]
pub struct Engine {
    raw: wasmtime::Engine,
    linker: Arc<Linker<TurnState>>,
    ticker: Arc<Ticker>,
    compiler: Compiler,
}

impl Engine {
    /// An engine for as many turns at once as the configuration allows. It keeps no compiled code.
    pub fn new(config: &Config) -> wasmtime::Result<Self> {
        let mut settings = settings();
        settings.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(config.server.concurrent_turns)));
        let engine = wasmtime::Engine::new(&settings)?;
        let mut linker = Linker::new(&engine);
        capabilities::add_to_linker(&mut linker)?;
        let ticker = Ticker::start(&engine)?;
        Ok(Self { raw: engine, linker: Arc::new(linker), ticker, compiler: Compiler::without_cache() })
    }

    /// The same engine, keeping compiled code in `folder`.
    pub fn with_cache(mut self, folder: &std::path::Path) -> std::io::Result<Self> {
        self.compiler = Compiler::with_cache(folder)?;
        Ok(self)
    }

    /// The same engine, counting in `metrics`.
    #[must_use]
    pub fn counting(mut self, metrics: &Metrics) -> Self {
        self.compiler = self.compiler.counting(metrics);
        self
    }

    /// What compiles components.
    pub fn compiler(&self) -> &Compiler {
        &self.compiler
    }

    /// Wasmtime's own handle.
    pub fn raw(&self) -> &wasmtime::Engine {
        &self.raw
    }

    /// What guests are linked with.
    pub fn linker(&self) -> &Linker<TurnState> {
        &self.linker
    }

    /// What interrupts guests.
    pub fn ticker(&self) -> &Ticker {
        &self.ticker
    }
}

/// An engine that compiles what the host's runs, and runs nothing.
pub(super) fn for_compiling() -> wasmtime::Result<wasmtime::Engine> {
    wasmtime::Engine::new(&settings())
}

/// Wasmtime's settings. What is not named is as Wasmtime has it.
fn settings() -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    config
        .wasm_component_model(true)
        // Plain functions only: the contract has no async ones, and their bookkeeping costs every call.
        .concurrency_support(false)
        // A loop is interrupted by the tick; fuel would cost twice as much and measure no time.
        .epoch_interruption(true)
        .max_wasm_stack(Limits::GUEST_STACK)
        .async_stack_size(Limits::STACK)
        // What the engine itself makes between two components that call each other copies from one memory to the other.
        // A guest's own modules have one memory each: the scan sees to that.
        .wasm_multi_memory(true)
        // Nothing that agents' toolchains use needs these, and each is more for an attacker to try. The proposals that
        // the engine was built without (threads, garbage collection, exceptions) are refused as well.
        .wasm_memory64(false)
        .wasm_relaxed_simd(false)
        .wasm_wide_arithmetic(false)
        .wasm_custom_page_sizes(false);
    config
}

/// The pool that instances come from: mapping memory anew for each turn makes two threads slower than one.
fn pool(turns: u32) -> PoolingAllocationConfig {
    let scan = PoolingAllocationConfig::is_pagemap_scan_available();
    let keep = if scan { KEEP_WITH_SCAN } else { KEEP_WITHOUT_SCAN };
    let count = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
    // Room for every turn that may run to have all that it may have: what one tenant takes is not another's.
    let all = |limit: usize| turns.saturating_mul(count(limit));
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(turns)
        .total_core_instances(all(Limits::INSTANCES))
        .total_memories(all(Limits::MEMORIES))
        .total_tables(all(Limits::TABLES))
        .total_stacks(turns)
        .max_core_instances_per_component(count(Limits::INSTANCES))
        .max_memories_per_component(count(Limits::MEMORIES))
        .max_tables_per_component(count(Limits::TABLES))
        .max_tables_per_module(count(Limits::TABLES))
        // Each slot has the address space for it anyway; a turn's own limit may be changed while the host runs.
        .max_memory_size(MEMORY_MAX)
        .table_elements(Limits::TABLE_ELEMENTS)
        .decommit_batch_size(16)
        .linear_memory_keep_resident(keep)
        .table_keep_resident(keep)
        .pagemap_scan(if scan { Enabled::Yes } else { Enabled::No });
    pool
}

/// The thread that moves the engine's epoch on while a guest runs, and sleeps while none does.
#[derive(Debug)]
pub struct Ticker {
    running: AtomicUsize,
    asleep: AtomicBool,
    thread: thread::Thread,
}

impl Ticker {
    fn start(engine: &wasmtime::Engine) -> wasmtime::Result<Arc<Self>> {
        let (sender, receiver) = std::sync::mpsc::sync_channel::<std::sync::Weak<Self>>(1);
        let engine = engine.weak();
        let thread = thread::Builder::new().name("ticker".to_owned()).spawn(move || {
            let Ok(ticker) = receiver.recv() else { return };
            let mut idle = 0;
            while let Some((ticker, engine)) = ticker.upgrade().zip(engine.upgrade()) {
                idle = if ticker.running.load(Ordering::SeqCst) == 0 { idle + 1 } else { 0 };
                if idle > IDLE_TICKS {
                    ticker.asleep.store(true, Ordering::SeqCst);
                    if ticker.running.load(Ordering::SeqCst) == 0 {
                        // A second is how long this thread outlives its engine at most.
                        drop((ticker, engine));
                        thread::park_timeout(Duration::from_secs(1));
                        continue;
                    }
                }
                engine.increment_epoch();
                drop((ticker, engine));
                thread::park_timeout(TICK);
            }
        })?;
        let ticker = Arc::new(Self {
            running: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            thread: thread.thread().clone(),
        });
        sender.send(Arc::downgrade(&ticker)).map_err(|_| wasmtime::Error::msg("the ticker thread ended at once"))?;
        Ok(ticker)
    }

    /// A guest begins to run on this thread.
    pub fn enter(&self) {
        self.running.fetch_add(1, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            self.thread.unpark();
        }
    }

    /// It waits, or is done.
    pub fn leave(&self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Lowers this thread's own priority. Where that is not allowed the thread runs as it is.
pub(super) fn be_nicer(by: i32) {
    if let Err(error) = rustix::process::setpriority_process(None, by) {
        tracing::debug!("cannot lower a thread's priority: {error}");
    }
}

/// Gives this thread, and those it starts, the lowest priority.
pub(super) fn be_lowest() {
    be_nicer(LOWEST);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_that_call_each_other_are_compiled() {
        // A text goes from one memory to the other, by code that the engine makes.
        let text = r#"(component
            (component $inner
              (core module $m
                (memory (export "memory") 1)
                (func (export "realloc") (param i32 i32 i32 i32) (result i32) i32.const 8)
                (func (export "f") (param i32 i32)))
              (core instance $i (instantiate $m))
              (alias core export $i "memory" (core memory $memory))
              (alias core export $i "realloc" (core func $realloc))
              (func (export "f") (param "text" string)
                (canon lift (core func $i "f") (memory $memory) (realloc $realloc))))
            (component $outer
              (import "f" (func $f (param "text" string)))
              (core module $store (memory (export "memory") 1))
              (core instance $store (instantiate $store))
              (alias core export $store "memory" (core memory $memory))
              (core func $f (canon lower (func $f) (memory $memory)))
              (core module $m (import "" "f" (func $f (param i32 i32))))
              (core instance (instantiate $m (with "" (instance (export "f" (func $f)))))))
            (instance $inner (instantiate $inner))
            (instance (instantiate $outer (with "f" (func $inner "f")))))"#;
        let engine = for_compiling().unwrap();
        engine.precompile_component(&wat::parse_str(text).unwrap()).unwrap();
    }
}
