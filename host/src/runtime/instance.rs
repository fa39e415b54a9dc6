//! One instance's run: a fresh store, the bounds on it, the call of `handle`, and why it failed if it did.

use std::sync::Arc;

use wasmtime::{Store, Trap, UpdateDeadline};
use wasmtime_wasi::I32Exit;

use super::{CompiledAgent, Meter, meter::Slice};
use crate::{bindings::types::Request, capabilities::TurnState};

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
    /// It handed too much to the host in one call, or held too many resources.
    #[error("{0}")]
    HostCall(String),
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
) -> Result<Result<(), String>, GuestFault> {
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
        Slice::Over => Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now()))),
        Slice::Goes => Ok(UpdateDeadline::Continue(1)),
    });
    let guest = async {
        let instance = agent.pre().instantiate_async(&mut store).await.map_err(|error| (true, error))?;
        let handler = instance.hostelry_agent_handler();
        handler.call_handle(&mut store, &request).await.map_err(|error| (false, error))
    };
    let result = meter.count(engine.ticker(), guest).await;
    result.map_err(|(starting, error)| {
        let memory = store.data_mut().memory().refused().then_some(limits.memory);
        fault(&error, starting, memory, limits.cpu_time)
    })
}

/// What an error of the engine means. `memory` is the limit that the guest ran into, if it did.
fn fault(error: &wasmtime::Error, starting: bool, memory: Option<usize>, cpu_time: std::time::Duration) -> GuestFault {
    if error.is::<CpuSpent>() {
        return GuestFault::CpuTime(cpu_time);
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        return GuestFault::Exit(exit.0);
    }
    let trap = error.downcast_ref::<Trap>();
    if trap == Some(&Trap::StackOverflow) {
        return GuestFault::Stack;
    }
    // The whole chain, with the guest's own backtrace: for the log only.
    let text = crate::text::visible(crate::text::head(&format!("{error:#}"), 4096));
    if let Some(limit) = memory {
        return GuestFault::Memory(limit, text);
    }
    if trap.is_some() {
        return GuestFault::Trap(text);
    }
    // The engine has no type for these. The innermost error is its own; the others hold names that the guest chose.
    let cause = error.root_cause().to_string();
    if cause.contains("fuel allocated for hostcalls") {
        GuestFault::HostCall("host-call: the guest handed too much to the host in one call".to_owned())
    } else if cause.contains("store handle limit exceeded") || cause.contains("resource table has no free keys") {
        GuestFault::HostCall("handles: the guest held too many resources at once".to_owned())
    } else if starting {
        GuestFault::Start(text)
    } else {
        GuestFault::Trap(text)
    }
}
