//! One instance's run: a fresh store, the bounds on it, the call of `handle`, and why it failed if it did.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use wasmtime::{Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::{CompiledAgent, Meter, meter::Slice};
use crate::{bindings::types::Request, capabilities::TurnState, config::Limits, limit::Limit, records::Cause, text};

/// How many of a guest's own frames are told of where it failed.
const FRAMES_MAX: usize = 64;

/// Why a guest did not return. For the log and the figures; a client sees a general text.
#[derive(Debug, thiserror::Error)]
pub enum GuestFault {
    /// It used more CPU time than it may.
    #[error("cpu-time: the guest used more than {0:?} of CPU time")]
    CpuTime(std::time::Duration),
    /// It was refused memory and then gave up.
    #[error("memory: the guest was refused memory beyond {0} bytes and ended: {1}")]
    Memory(usize, String),
    /// Its stack is used up.
    #[error("stack: the guest's calls went too deep")]
    Stack,
    /// It handed too much to the host in one call.
    #[error("host-call: the guest handed more than {0} bytes to the host in one call")]
    HostCall(usize),
    /// It held too many resources.
    #[error("handles: the guest held more than {0} resources at once")]
    Handles(usize),
    /// It asked for too many random bytes at once.
    #[error("random: the guest asked for more than {} random bytes at once", crate::config::Limits::RANDOM)]
    Random,
    /// It could not be started: more instances, tables or memories than there is room for, or than it may have.
    #[error("the guest could not be started: {0}")]
    Start(String),
    /// It trapped.
    #[error("the guest trapped: {0}")]
    Trap(String),
    /// It ended its process instead of returning.
    #[error("the guest exited with status {0}")]
    Exit(i32),
}

impl GuestFault {
    /// How the turn ended.
    pub const fn cause(&self) -> Cause {
        match self {
            Self::CpuTime(_) => Cause::Limit(Limit::CpuTime),
            Self::Memory(..) => Cause::Limit(Limit::Memory),
            Self::Stack => Cause::Limit(Limit::Stack),
            Self::HostCall(_) => Cause::Limit(Limit::HostCall),
            Self::Handles(_) => Cause::Limit(Limit::Handles),
            Self::Random => Cause::Limit(Limit::Random),
            Self::Start(_) => Cause::Start,
            Self::Trap(_) => Cause::Trap,
            Self::Exit(_) => Cause::Exit,
        }
    }
}

/// A fault, and where the guest was: its own frames, innermost first.
#[derive(Debug)]
pub struct Fallen {
    /// Why.
    pub fault: GuestFault,
    /// Where.
    pub backtrace: Vec<String>,
    /// Whether it had not yet been asked anything.
    pub starting: bool,
}

/// What the guest was doing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Handling,
}

/// What the callback at a tick ends a guest with.
#[derive(Debug, thiserror::Error)]
#[error("the guest's CPU time is used up")]
struct CpuSpent;

/// Runs one turn of `agent` in a fresh instance. The inner result is the agent's own.
///
/// The future must be polled inside a turn's deadline: it bounds the guest's CPU time and memory, not its waiting.
pub async fn run(
    agent: &CompiledAgent,
    state: TurnState,
    request: Request,
    meter: &Arc<Meter>,
) -> Result<Result<(), String>, Fallen> {
    let engine = agent.engine();
    let limits = state.limits().clone();
    let mut store = Store::new(engine.raw(), state);
    store.limiter(|state| state.memory());
    store.set_hostcall_fuel(limits.host_call);
    store.set_max_component_handles(limits.handles);
    // Set before the instance is made: a start function runs then.
    store.set_epoch_deadline(1);
    let watch = Arc::clone(meter);
    store.epoch_deadline_callback(move |_| match watch.slice() {
        Slice::Spent => Err(CpuSpent.into()),
        Slice::Over => Ok(UpdateDeadline::YieldCustom(1, Box::pin(Aside::default()))),
        Slice::Goes => Ok(UpdateDeadline::Continue(1)),
    });
    let guest = async {
        let instance = agent.pre().instantiate_async(&mut store).await.map_err(|error| (Stage::Starting, error))?;
        let handler = instance.hostelry_agent_handler();
        handler.call_handle(&mut store, &request).await.map_err(|error| (Stage::Handling, error))
    };
    let result = meter.count(engine.ticker(), guest).await;
    result.map_err(|(stage, error)| {
        let refused = store.data_mut().memory().refused();
        Fallen {
            fault: fault(&error, stage, refused, &limits),
            backtrace: backtrace(&error),
            starting: stage == Stage::Starting,
        }
    })
}

/// Lets others run: ready when it is polled again, for which it asks at once.
#[derive(Default)]
struct Aside {
    stepped: bool,
}

impl Future for Aside {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.stepped, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The guest's frames as its author knows them: function, and file and line where the component tells them.
fn backtrace(error: &wasmtime::Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else { return Vec::new() };
    let line = |frame: &wasmtime::FrameInfo| {
        let module = frame.module().name().unwrap_or("module");
        let name = frame.func_name().map_or_else(|| format!("function {}", frame.func_index()), demangled);
        let place = frame.symbols().iter().find_map(|symbol| Some((symbol.file()?, symbol.line()?)));
        let place = place.map(|(file, line)| format!(" at {file}:{line}")).unwrap_or_default();
        text::visible(text::head(&format!("{module}: {name}{place}"), 512))
    };
    backtrace.frames().iter().take(FRAMES_MAX).map(line).collect()
}

/// A function's name as it was written.
fn demangled(name: &str) -> String {
    rustc_demangle::demangle(name).to_string()
}

/// What an error of the engine means. `refused` says whether the guest was ever refused memory.
fn fault(error: &wasmtime::Error, stage: Stage, refused: bool, limits: &Limits) -> GuestFault {
    if error.is::<CpuSpent>() {
        return GuestFault::CpuTime(limits.cpu_time);
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return GuestFault::Exit(exit.0);
    }
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::StackOverflow) {
        return GuestFault::Stack;
    }
    let cause = error.root_cause().to_string();
    let text = text::visible(text::head(&trap.map_or_else(|| without_frames(error), ToString::to_string), 2048));
    if refused {
        return GuestFault::Memory(limits.memory, text);
    }
    if trap.is_some() {
        return GuestFault::Trap(text);
    }
    // The engine has no type for these. The innermost error is its own; the others hold names that the guest chose.
    if cause.contains("fuel allocated for hostcalls") {
        GuestFault::HostCall(limits.host_call)
    } else if cause.contains("store handle limit exceeded") || cause.contains("resource table has no free keys") {
        GuestFault::Handles(limits.handles)
    } else if cause.starts_with("requested len ") && cause.ends_with(&format!("exceeds limit {}", Limits::RANDOM)) {
        GuestFault::Random
    } else if stage == Stage::Starting {
        GuestFault::Start(text)
    } else {
        GuestFault::Trap(text)
    }
}

/// An error's chain without the guest's frames, which are told apart.
fn without_frames(error: &wasmtime::Error) -> String {
    let links = error.chain().map(ToString::to_string);
    links.filter(|link| !link.starts_with("error while executing at wasm backtrace")).collect::<Vec<_>>().join(": ")
}
