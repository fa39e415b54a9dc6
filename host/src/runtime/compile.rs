//! How a component's bytes become an agent: what it is, what it asks of the host, compiled, linked and type-checked.
//!
//! Whatever does not fit is said in words that its author can act on; nothing of it runs here.

use std::{fmt, sync::Arc};

use sha2::{Digest, Sha256};
use wasmtime::component::{Component, types::ComponentItem};

use super::{
    Engine,
    scan::{Needs, scan},
};
use crate::{
    bindings::{AgentPre, types::Request},
    capabilities::TurnState,
    config::{AgentConfig, CompileConfig},
    contract::{PACKAGE, VERSION},
    ids::{self, AgentId},
    limit::Limit,
};

mod fit;

/// An agent that is compiled, linked and checked, but not live: a turn makes an instance of it.
pub struct CompiledAgent {
    /// Whose it is, and its name.
    pub id: AgentId,
    /// The SHA-256 of its component, in hexadecimal.
    pub version: String,
    /// What it asks for.
    pub config: AgentConfig,
    engine: Engine,
    pre: AgentPre<TurnState>,
}

impl fmt::Debug for CompiledAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledAgent").field("id", &self.id).field("version", &self.version).finish_non_exhaustive()
    }
}

impl CompiledAgent {
    /// The engine it was compiled for.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What instances are made of.
    pub fn pre(&self) -> &AgentPre<TurnState> {
        &self.pre
    }

    /// The first digits of its version, for people.
    pub fn short_version(&self) -> &str {
        crate::text::head(&self.version, 12)
    }
}

/// What a file gave, and the rules that it must keep.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Whose agent it would be, and its name.
    pub id: AgentId,
    /// The component.
    pub bytes: Arc<[u8]>,
    /// Its hash, as [`version()`] tells it.
    pub version: String,
    /// What it asks for.
    pub config: AgentConfig,
    /// Bytes of memory that a turn of it may use.
    pub memory: usize,
    /// What compiling it may take.
    pub compile: CompileConfig,
}

/// Why a file cannot be an agent here. The text is for its author: what is wrong, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// It ends in the middle: still being written, or cut off.
    #[error("the file is incomplete: it ends in the middle of a section")]
    Incomplete,
    /// There is nothing in it, or not yet.
    #[error("the file is empty; hint: copy it again")]
    Empty,
    /// It is no WebAssembly at all, or not in its component form.
    #[error("{0}")]
    Format(String),
    /// Its code is not valid, or uses a proposal that this host does not allow.
    #[error("the component is not valid: {0}")]
    Invalid(String),
    /// It is of a structure that nothing is to be compiled of.
    #[error("{0}")]
    Structure(String),
    /// Compiling it passes the compiler's bounds.
    #[error("the component is not compiled: {0}")]
    Deadly(String),
    /// Its memories begin with more than a turn of it may use.
    #[error(
        "its memories begin with {needs} bytes, and a turn may use {allowed} (limits.memory); hint: raise limits.memory \
         for the tenant in hostelry.toml, and in the file beside the component if it has that limit, or build it with \
         less"
    )]
    Memory {
        /// What they begin with.
        needs: u64,
        /// What a turn may use.
        allowed: u64,
    },
    /// The host's own trouble; the file may be good.
    #[error("{0}")]
    Host(String),
    /// It was built against another version of the contract.
    #[error(
        "wrong contract version: the component {verb} {name}, and this host serves {PACKAGE}@{VERSION}; \
         hint: build it against the contract's {VERSION} text"
    )]
    Version {
        /// Imports or exports.
        verb: &'static str,
        /// The interface, with the guest's version.
        name: String,
    },
    /// It imports what is not there.
    #[error("the component imports {name}, which this host does not have; hint: {hint}")]
    Import {
        /// The interface.
        name: String,
        /// The way out.
        hint: String,
    },
    /// It does not export what an agent is.
    #[error("the component does not export {PACKAGE}/handler@{VERSION}; hint: {0}")]
    Handler(String),
    /// A name is right and its type is not.
    #[error("the component does not fit the contract: {0}")]
    Mismatch(String),
}

impl Unfit {
    /// The bound that the file ran into, if it is one.
    pub const fn limit(&self) -> Option<Limit> {
        match self {
            Self::Structure(_) => Some(Limit::Structure),
            Self::Deadly(_) => Some(Limit::Compile),
            Self::Memory { .. } => Some(Limit::Memory),
            _ => None,
        }
    }
}

/// The SHA-256 of `bytes`, in hexadecimal.
pub fn version(bytes: &[u8]) -> String {
    ids::hex(&Sha256::digest(bytes))
}

/// Compiles, links and checks a component.
pub async fn prepare(engine: &Engine, candidate: Candidate) -> Result<CompiledAgent, Unfit> {
    let candidate = Arc::new(candidate);
    let looked = Arc::clone(&candidate);
    // Not on a thread that does I/O for others: a large file takes it a while.
    let look = tokio::task::spawn_blocking(move || look(&looked.bytes)?.within(looked.memory));
    look.await.map_err(|error| Unfit::Host(format!("the component could not be looked at: {error}")))??;
    let Candidate { bytes, version, compile, .. } = &*candidate;
    let component = engine.compiler().component(engine.raw(), bytes, version, compile).await?;
    finish(engine, &candidate, &component)
}

/// The same, if nothing has to be compiled for it; else nothing. Reads files, and so is not for a thread that does I/O.
pub fn prepare_known(engine: &Engine, candidate: &Candidate) -> Result<Option<CompiledAgent>, Unfit> {
    look(&candidate.bytes)?.within(candidate.memory)?;
    let known = engine.compiler().known(engine.raw(), &candidate.version, &candidate.compile)?;
    known.map(|component| finish(engine, candidate, &component)).transpose()
}

/// Links and checks what was compiled.
fn finish(engine: &Engine, candidate: &Candidate, component: &Component) -> Result<CompiledAgent, Unfit> {
    fit::check_imports(engine, component)?;
    let handler = fit::check_exports(engine, component)?;
    let pre = engine.linker().instantiate_pre(component);
    let pre = pre.map_err(|error| {
        let slip = fit::unknown_function(engine, component);
        Unfit::Mismatch(slip.unwrap_or_else(|| reason(&error)))
    })?;
    match handler.get_export(engine.raw(), "handle").map(|export| export.ty) {
        Some(ComponentItem::ComponentFunc(handle)) => handle
            .typecheck::<(&Request,), (Result<(), String>,)>(&pre.instance_type())
            .map_err(|error| Unfit::Mismatch(format!("the type of `handle` is another: {}", reason(&error))))?,
        _ => return Err(Unfit::Mismatch(fit::no_handle(engine, &handler))),
    }
    let pre = AgentPre::new(pre).map_err(|error| Unfit::Mismatch(reason(&error)))?;
    let Candidate { id, version, config, .. } = candidate.clone();
    Ok(CompiledAgent { id, version, config, engine: engine.clone(), pre })
}

/// The first look at a file: is it a whole component, of a structure that can be compiled?
pub fn look(bytes: &[u8]) -> Result<Needs, Unfit> {
    const MAGIC: &[u8] = b"\0asm";
    if bytes.is_empty() {
        return Err(Unfit::Empty);
    }
    let start = bytes.get(..bytes.len().min(4)).unwrap_or_default();
    if !MAGIC.starts_with(start) {
        let text = if bytes.starts_with(b"\x7fELF") {
            "this is precompiled or native code, which is never loaded; hint: drop the .wasm component itself"
        } else if std::str::from_utf8(bytes).is_ok_and(|text| text.trim_start().starts_with('(')) {
            "this is WebAssembly text; hint: `wasm-tools parse` makes a component of a component's text, and `hostelry \
             componentize` of a core module's"
        } else {
            "this is not WebAssembly; hint: drop a component (.wasm) here"
        };
        return Err(Unfit::Format(text.to_owned()));
    }
    let Some(header) = bytes.get(..8) else { return Err(Unfit::Incomplete) };
    if wasmparser::Parser::is_core_wasm(header) {
        return Err(Unfit::Format(fit::core_module(bytes)));
    }
    if !wasmparser::Parser::is_component(header) {
        return Err(Unfit::Format("this is WebAssembly in a layer or version that this host does not know".to_owned()));
    }
    scan(bytes)
}

/// An error's whole chain on one line, bounded.
fn reason(error: &wasmtime::Error) -> String {
    crate::text::visible(crate::text::head(&format!("{error:#}"), 1024))
}
