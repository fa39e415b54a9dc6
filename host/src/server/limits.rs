//! The table of limits: what each bounds, its value and why, what the guest and the client see at it, what counts it, and
//! the test that proves it.
//!
//! Values are computed from the configuration and from the constants that are enforced, so that nothing is typed twice. A
//! limit without a row, or a row without a test, does not compile; `docs/limits.md` is this table, which a test compares.
//! It stands up here, and not beside [`Limit`], because it reads constants of every layer.

use std::time::Duration;

use super::HEAD_MAX;
use crate::{
    config::{Allowance, Config, Limits, TenantConfig},
    limit::Limit,
    protocols::lingzhu::{HELD_MAX, TENANT_HELD_MAX},
    runtime::{scan, watch},
    script::{FOLLOW_UP_BYTES_MAX, NAME_BYTES_MAX, OPEN_PAIRS_MAX},
    store::{FILE_BYTES_MAX, FILES_MAX, PATH_BYTES_MAX, WORKSPACE_BYTES_MAX},
};

mod files;
mod page;
mod requests;
mod sockets;
mod turns;

pub use page::page;

/// What there is to say about one limit.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Which.
    pub limit: Limit,
    /// The key that sets it, or [`FIXED`].
    pub key: &'static str,
    /// What it bounds.
    pub bounds: &'static str,
    /// Why its default is what it is.
    pub why: &'static str,
    /// What the guest sees at it.
    pub guest: &'static str,
    /// What the client sees at it.
    pub client: &'static str,
    /// The test that runs into it: a file from the root of the tree, `::`, and the function.
    pub test: &'static str,
}

/// Limits of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they have in common.
    pub title: &'static str,
    /// The limits, in the order of [`Limit::ALL`].
    pub rows: &'static [Row],
}

/// Stands for a key where there is none.
pub const FIXED: &str = "fixed";

/// Stands for what somebody sees who sees nothing.
const NOTHING: &str = "nothing";

/// A turn's end as its client sees it.
const FAILS: &str = "the failure";

/// The whole table.
pub const GROUPS: [Group; 5] = [
    Group { title: "One turn's", rows: &turns::ROWS },
    Group { title: "Beginning a turn", rows: &requests::TURNS },
    Group { title: "Connections and requests", rows: &requests::CONNECTIONS },
    Group { title: "A Mythra connection's", rows: &sockets::ROWS },
    Group { title: "What is kept, and what is loaded", rows: &files::ROWS },
];

const _: () =
    assert!(is_whole(), "every limit has one row, in the order of Limit::ALL, and names the test that proves it");

/// Whether the table has just one row for each limit, and each names a test.
#[expect(clippy::indexing_slicing, reason = "an index that is out of bounds is an error of the compiler here")]
const fn is_whole() -> bool {
    let (mut at, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut row = 0;
        while row < GROUPS[group].rows.len() {
            let Row { limit, test, .. } = GROUPS[group].rows[row];
            if at >= Limit::ALL.len() || limit as usize != Limit::ALL[at] as usize || !names_a_test(test) {
                return false;
            }
            (at, row) = (at + 1, row + 1);
        }
        group += 1;
    }
    at == Limit::ALL.len()
}

/// Whether a text is `FILE.rs::FUNCTION`.
const fn names_a_test(text: &str) -> bool {
    let mut rest = text.as_bytes();
    while let [_, tail @ ..] = rest {
        if matches!(tail, [b'.', b'r', b's', b':', b':', _, ..]) {
            return true;
        }
        rest = tail;
    }
    false
}

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|group| group.rows)
}

/// A limit's value without a configuration, in words.
pub fn default(limit: Limit) -> String {
    value(limit, &Config::default(), &TenantConfig::out_of_the_box())
}

/// A limit's value in a configuration, for one of its tenants, in words.
pub fn value(limit: Limit, config: &Config, tenant: &TenantConfig) -> String {
    let Config { server, sessions, reload, mythra, lingzhu, .. } = config;
    let limits = &tenant.limits;
    match limit {
        Limit::Memory => size(limits.memory),
        Limit::CpuTime => time(limits.cpu_time),
        Limit::TurnTime => format!("{}; on Lingzhu {}", time(limits.turn_time), time(lingzhu.turn_time)),
        Limit::Events => count(limits.events),
        Limit::Output => size(limits.output),
        Limit::ToolCalls => count(limits.tool_calls),
        Limit::ToolTime => time(limits.tool_time),
        Limit::ToolResult => size(limits.tool_result),
        Limit::HostCall => size(limits.host_call),
        Limit::Log => size(limits.log),
        Limit::Handles => count(limits.handles),
        Limit::Stack => size(Limits::GUEST_STACK),
        Limit::TableElements => count(Limits::TABLE_ELEMENTS),
        Limit::Random => size(Limits::RANDOM),
        Limit::OpenPairs => count(OPEN_PAIRS_MAX),
        Limit::Names => format!("{}; a follow-up question {}", size(NAME_BYTES_MAX), size(FOLLOW_UP_BYTES_MAX)),
        Limit::ConcurrentTurns => count(server.concurrent_turns),
        Limit::TenantTurns => count(tenant.concurrent_turns),
        Limit::TurnsPerMinute => tenant.turns_per_minute.map_or_else(unbounded, count),
        Limit::DayBudget => allowance(&tenant.budget.day),
        Limit::MonthBudget => allowance(&tenant.budget.month),
        Limit::Connections => count(server.connections),
        Limit::AddressConnections => count(server.connections_per_address),
        Limit::TenantConnections => count(tenant.connections),
        Limit::RequestTime => time(server.request_time),
        Limit::WriteTime => time(server.write_time),
        Limit::Head => size(HEAD_MAX),
        Limit::Body => size(lingzhu.max_body),
        Limit::Bodies => size(HELD_MAX),
        Limit::TenantBodies => size(TENANT_HELD_MAX),
        Limit::Message => format!("{}; {} are read", size(mythra.max_message), size(mythra.max_buffer)),
        Limit::Queue => count(mythra.queue),
        Limit::BadMessages => count(mythra.bad_messages),
        Limit::SessionWait => time(mythra.session_wait),
        Limit::SlowReader => time(mythra.slow_reader),
        Limit::Idle => time(mythra.idle),
        Limit::UnansweredPings => format!("{}, one each {}", count(mythra.unanswered_pings), time(mythra.ping)),
        Limit::Workspace => format!(
            "{} files, {} each, {} together, paths of {}",
            count(FILES_MAX),
            size(FILE_BYTES_MAX),
            size(WORKSPACE_BYTES_MAX),
            size(PATH_BYTES_MAX)
        ),
        Limit::TenantFiles => size(sessions.files_per_tenant),
        Limit::Sessions => count(sessions.per_tenant),
        Limit::FileSize => size(reload.max_size),
        Limit::Structure => scan::in_words(),
        Limit::Compile => {
            let compile = &reload.compile;
            format!("{} of memory, {} of CPU time, {}", size(compile.memory), time(compile.cpu), time(compile.time))
        }
        Limit::Agents => {
            format!(
                "{}, equally shared by the tenants, at least {} each",
                count(watch::AGENTS_MAX),
                count(watch::SHARE_MIN)
            )
        }
    }
}

/// What a tenant may use in a period, in words.
fn allowance(allowance: &Allowance) -> String {
    let Allowance { turns, cpu_time, events, output, tool_calls } = allowance;
    let parts = [
        turns.map(|turns| format!("{} turns", count(turns))),
        cpu_time.map(|cpu_time| format!("{} of CPU time", time(cpu_time))),
        events.map(|events| format!("{} events", count(events))),
        output.map(|output| format!("{} of text", size(output))),
        tool_calls.map(|tool_calls| format!("{} tool calls", count(tool_calls))),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { unbounded() } else { parts.join(", ") }
}

fn unbounded() -> String {
    "no bound".to_owned()
}

/// A number of things, such as `10,000`.
fn count<T: TryInto<u64>>(count: T) -> String {
    let digits = count.try_into().unwrap_or(u64::MAX).to_string();
    let first = digits.len() % 3;
    let commas = |(at, digit): (usize, char)| {
        let comma = at > 0 && at % 3 == first;
        comma.then_some(',').into_iter().chain([digit])
    };
    digits.chars().enumerate().flat_map(commas).collect()
}

/// A size, such as `64 MiB`; one that is no round one in bytes.
fn size<T: TryInto<u64>>(bytes: T) -> String {
    let bytes = bytes.try_into().unwrap_or(u64::MAX);
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let round = units.iter().find(|(power, _)| bytes > 0 && bytes.is_multiple_of(1 << power));
    round.map_or_else(|| format!("{} bytes", count(bytes)), |(power, unit)| format!("{} {unit}", count(bytes >> power)))
}

/// A time, such as `2m`, as the configuration has it.
fn time(time: Duration) -> String {
    humantime::format_duration(time).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_as_people_write_them() {
        assert_eq!(
            [count(7), count(999), count(1000), count(10_000), count(1_234_567)].join(" "),
            "7 999 1,000 10,000 1,234,567"
        );
        assert_eq!(
            [size(64 << 20), size(1024), size(256), size(3_u64 << 30), size(1_500_000)].join(" "),
            "64 MiB 1 KiB 256 bytes 3 GiB 1,500,000 bytes"
        );
        assert_eq!(time(Duration::from_mins(2)), "2m");
        assert_eq!(count(-1), "18,446,744,073,709,551,615", "what has no bound is the largest number");
    }

    #[test]
    fn a_value_is_that_of_the_configuration() {
        let mut config = Config::default();
        config.mythra.queue = 9;
        let mut tenant = TenantConfig::out_of_the_box();
        tenant.limits.memory = 5 << 20;
        tenant.budget.day = Allowance { turns: Some(1000), output: Some(1 << 30), ..Allowance::default() };
        assert_eq!(value(Limit::Queue, &config, &tenant), "9");
        assert_eq!(value(Limit::Memory, &config, &tenant), "5 MiB");
        assert_eq!(value(Limit::DayBudget, &config, &tenant), "1,000 turns, 1 GiB of text");
        assert_eq!(default(Limit::MonthBudget), "no bound");
    }

    #[test]
    fn what_names_no_test_is_told_from_what_does() {
        assert!(names_a_test("tests/it/limits/time.rs::a_test"));
        for text in ["", "tests/it/limits/time.rs", "a_test", ".rs::a", "time.rs::"] {
            assert!(!names_a_test(text), "{text:?}");
        }
    }
}
