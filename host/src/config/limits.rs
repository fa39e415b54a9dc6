//! What one turn may use: each bound with its default and its reason.

use std::time::Duration;

/// The bounds of one turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory, all of the instance's memories together. Past it `memory.grow` fails and the guest's
    /// allocator ends it. 64 MiB holds a Python runtime (12 MiB) five times over, and bounds how long one bulk
    /// instruction can run, which nothing interrupts.
    pub memory: usize,
    /// CPU time of the guest's own instructions and of the host calls' copying, not of waiting. Past it the guest is
    /// ended. 2 s is a hundred times what a large agent uses before it waits for a model.
    pub cpu_time: Duration,
    /// Wall clock from the turn's start, host calls and waiting included. Past it the guest is ended. 120 s covers slow
    /// models.
    pub turn_time: Duration,
    /// Events that may be emitted. One more is refused. 10,000 is a long answer, a token an event.
    pub events: u32,
    /// Bytes of text in all events. What goes past is refused. 4 MiB is more than anyone reads.
    pub output: usize,
    /// Tool calls. One more is denied. 64 is a long chain of a working agent.
    pub tool_calls: u32,
    /// How long one tool call may take; then the guest gets `timeout`.
    pub tool_time: Duration,
    /// Bytes of one tool's answer. A longer one is not handed to the guest, which is told so. 16 MiB holds the largest
    /// image that is fetched, in the form in which it is handed over.
    pub tool_result: usize,
    /// Bytes that a guest may hand to the host in one call (list elements count too). Past it the guest is ended,
    /// because the engine stops while it copies. 1 MiB is sixteen times the largest frame; without it one call could
    /// make the host allocate a hundred times the guest's own memory.
    pub host_call: usize,
    /// Bytes of log lines, standard output and standard error included. What is over is dropped.
    pub log: usize,
    /// Resources that the guest may hold at once, such as streams and pollables of WASI. Past it the guest is ended.
    pub handles: usize,
}

impl Limits {
    /// Elements of one table. The largest seen in a real language runtime is 7,692.
    pub const TABLE_ELEMENTS: usize = 20_000;
    /// Core instances of one component, as the engine flattens them. The most seen in a real one is 16.
    pub const INSTANCES: usize = 64;
    /// Memories of one component: what a runtime and its adapters have, with room. Their sum is `memory`.
    pub const MEMORIES: usize = 4;
    /// Tables of one component.
    pub const TABLES: usize = 16;
    /// Bytes of stack for the guest's own frames; deeper recursion ends the guest.
    pub const GUEST_STACK: usize = 512 * 1024;
    /// Bytes of stack of a turn in all. What the guest does not get is the host functions', whose overflow the engine
    /// could not survive.
    pub const STACK: usize = 2 * 1024 * 1024;
    /// No bound at all: what an agent's own file starts from, since it can only tighten what its tenant may.
    pub const UNBOUNDED: Self = Self {
        memory: usize::MAX,
        cpu_time: Duration::MAX,
        turn_time: Duration::MAX,
        events: u32::MAX,
        output: usize::MAX,
        tool_calls: u32::MAX,
        tool_time: Duration::MAX,
        tool_result: usize::MAX,
        host_call: usize::MAX,
        log: usize::MAX,
        handles: usize::MAX,
    };
    /// Bytes of random data that a guest may ask for in one call.
    pub const RANDOM: u64 = 64 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 * 1024 * 1024,
            cpu_time: Duration::from_secs(2),
            turn_time: Duration::from_mins(2),
            events: 10_000,
            output: 4 * 1024 * 1024,
            tool_calls: 64,
            tool_time: Duration::from_secs(30),
            tool_result: 16 * 1024 * 1024,
            host_call: 1024 * 1024,
            log: 64 * 1024,
            handles: 1000,
        }
    }
}

impl Limits {
    /// These limits, where `other` is not tighter.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        Self {
            memory: self.memory.min(other.memory),
            cpu_time: self.cpu_time.min(other.cpu_time),
            turn_time: self.turn_time.min(other.turn_time),
            events: self.events.min(other.events),
            output: self.output.min(other.output),
            tool_calls: self.tool_calls.min(other.tool_calls),
            tool_time: self.tool_time.min(other.tool_time),
            tool_result: self.tool_result.min(other.tool_result),
            host_call: self.host_call.min(other.host_call),
            log: self.log.min(other.log),
            handles: self.handles.min(other.handles),
        }
    }
}
