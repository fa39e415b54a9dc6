//! The names of all bounds: what a log line, a metric, a crash card and the table in `docs/limits.md` call each of them.

use std::fmt;

/// Every bound that somebody can run into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// Linear memory of a turn.
    Memory,
    /// CPU time of a turn.
    CpuTime,
    /// Wall clock of a turn.
    TurnTime,
    /// Events of a turn.
    Events,
    /// Text of a turn.
    Output,
    /// Tool calls of a turn.
    ToolCalls,
    /// Time of one tool call.
    ToolTime,
    /// Bytes of one tool's answer.
    ToolResult,
    /// Bytes handed to the host in one call.
    HostCall,
    /// Log lines of a turn.
    Log,
    /// Resources held at once.
    Handles,
    /// The guest's stack.
    Stack,
    /// Elements of one table.
    TableElements,
    /// Random bytes asked for at once.
    Random,
    /// Streams, iterations and tools open at once.
    OpenPairs,
    /// A name, a label or a question that is too long.
    Names,
    /// Turns at once, of all tenants.
    ConcurrentTurns,
    /// Turns at once, of one tenant.
    TenantTurns,
    /// Turns a minute, of one tenant.
    TurnsPerMinute,
    /// What a tenant may use in a day.
    DayBudget,
    /// What a tenant may use in a month.
    MonthBudget,
    /// Connections of all clients.
    Connections,
    /// Connections of one address.
    AddressConnections,
    /// Connections of one tenant's clients.
    TenantConnections,
    /// Time for a request's head or body.
    RequestTime,
    /// Time in which a client takes none of what is sent to it.
    WriteTime,
    /// Bytes of a request's head.
    Head,
    /// Bytes of a request's body.
    Body,
    /// Bytes of all bodies that are held.
    Bodies,
    /// Bytes of the bodies that are held for one tenant.
    TenantBodies,
    /// Bytes of a Mythra message.
    Message,
    /// Inputs that wait on a Mythra connection.
    Queue,
    /// Messages that are no JSON on a Mythra connection.
    BadMessages,
    /// Time that an input waits for another turn of its session.
    SessionWait,
    /// Time that a Mythra client reads nothing.
    SlowReader,
    /// Time that a Mythra connection says nothing.
    Idle,
    /// Pings that stay unanswered.
    UnansweredPings,
    /// Files, bytes and names in a session's workspace.
    Workspace,
    /// Bytes of all workspaces of one tenant.
    TenantFiles,
    /// Sessions of one tenant.
    Sessions,
    /// Bytes of a component.
    FileSize,
    /// A component's structure.
    Structure,
    /// What compiling a component may take.
    Compile,
    /// Agents in the plugins folder.
    Agents,
}

impl Limit {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 44] = [
        Self::Memory,
        Self::CpuTime,
        Self::TurnTime,
        Self::Events,
        Self::Output,
        Self::ToolCalls,
        Self::ToolTime,
        Self::ToolResult,
        Self::HostCall,
        Self::Log,
        Self::Handles,
        Self::Stack,
        Self::TableElements,
        Self::Random,
        Self::OpenPairs,
        Self::Names,
        Self::ConcurrentTurns,
        Self::TenantTurns,
        Self::TurnsPerMinute,
        Self::DayBudget,
        Self::MonthBudget,
        Self::Connections,
        Self::AddressConnections,
        Self::TenantConnections,
        Self::RequestTime,
        Self::WriteTime,
        Self::Head,
        Self::Body,
        Self::Bodies,
        Self::TenantBodies,
        Self::Message,
        Self::Queue,
        Self::BadMessages,
        Self::SessionWait,
        Self::SlowReader,
        Self::Idle,
        Self::UnansweredPings,
        Self::Workspace,
        Self::TenantFiles,
        Self::Sessions,
        Self::FileSize,
        Self::Structure,
        Self::Compile,
        Self::Agents,
    ];

    /// Its name, as metrics and records have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::CpuTime => "cpu-time",
            Self::TurnTime => "turn-time",
            Self::Events => "events",
            Self::Output => "output",
            Self::ToolCalls => "tool-calls",
            Self::ToolTime => "tool-time",
            Self::ToolResult => "tool-result",
            Self::HostCall => "host-call",
            Self::Log => "log",
            Self::Handles => "handles",
            Self::Stack => "stack",
            Self::TableElements => "table-elements",
            Self::Random => "random",
            Self::OpenPairs => "open-pairs",
            Self::Names => "names",
            Self::ConcurrentTurns => "concurrent-turns",
            Self::TenantTurns => "tenant-concurrent-turns",
            Self::TurnsPerMinute => "turns-per-minute",
            Self::DayBudget => "day-budget",
            Self::MonthBudget => "month-budget",
            Self::Connections => "connections",
            Self::AddressConnections => "connections-per-address",
            Self::TenantConnections => "tenant-connections",
            Self::RequestTime => "request-time",
            Self::WriteTime => "write-time",
            Self::Head => "request-head",
            Self::Body => "max-body",
            Self::Bodies => "bodies",
            Self::TenantBodies => "tenant-bodies",
            Self::Message => "max-message",
            Self::Queue => "queue",
            Self::BadMessages => "bad-messages",
            Self::SessionWait => "session-wait",
            Self::SlowReader => "slow-reader",
            Self::Idle => "idle",
            Self::UnansweredPings => "unanswered-pings",
            Self::Workspace => "workspace",
            Self::TenantFiles => "tenant-files",
            Self::Sessions => "sessions",
            Self::FileSize => "max-size",
            Self::Structure => "structure",
            Self::Compile => "compile",
            Self::Agents => "agents",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_limits_are_listed_once_and_no_two_share_a_name() {
        let mut names: Vec<_> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Limit::ALL.len());
        // Compared as the enum derives it: the last one's place is the number of those before it.
        assert_eq!(Limit::ALL.last().map(|last| *last as usize + 1), Some(Limit::ALL.len()));
    }
}
