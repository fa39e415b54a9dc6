//! What the operator has configured for each limit, and the ceiling beyond which a limit protects nobody although it
//! holds: a host of strangers' agents should not go past it.

use std::{fmt, time::Duration};

use bytesize::ByteSize;

use super::ground::Group;
use crate::config::Config;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// The descriptors that a host needs beside one for each connection: its files, its compiler, what it fetches with.
const OTHER_DESCRIPTORS: u64 = 256;

/// A figure with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Bytes.
    Size(u64),
    /// Time.
    Time(Duration),
    /// A number of things.
    Count(u64),
}

impl Figure {
    fn size(bytes: usize) -> Self {
        Self::Size(bytes as u64)
    }

    fn count(count: impl Into<u64>) -> Self {
        Self::Count(count.into())
    }

    fn is_more_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Size(one), Self::Size(other)) | (Self::Count(one), Self::Count(other)) => one > other,
            (Self::Time(one), Self::Time(other)) => one > other,
            _ => false,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(bytes) => f.write_str(&size(*bytes)),
            Self::Time(time) => f.write_str(&self::time(*time)),
            Self::Count(count) => f.write_str(&grouped(*count)),
        }
    }
}

/// A size in words: bytes where no larger unit tells it exactly enough.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 10 * KIB { format!("{} B", grouped(bytes)) } else { ByteSize::b(bytes).display().iec().to_string() }
}

/// A time in words, to the hundredth of a second.
pub(super) fn time(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis()),
        1..=119 => format!("{:.2} s", time.as_secs_f64()),
        _ => humantime::format_duration(Duration::from_secs(time.as_secs())).to_string(),
    }
}

/// A number with commas.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// One figure of the configuration.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    /// The limit's name, as metrics have it.
    pub(super) limit: &'static str,
    /// The key to change.
    pub(super) key: String,
    /// What it is.
    pub(super) value: Figure,
    /// What it should not be more than.
    pub(super) ceiling: Option<Figure>,
    /// Why, where that is not plain.
    pub(super) reason: &'static str,
}

impl Setting {
    fn new(limit: &'static str, key: impl Into<String>, value: Figure, ceiling: Option<Figure>) -> Self {
        Self { limit, key: key.into(), value, ceiling, reason: "" }
    }

    /// Why the figure is too large for a host of strangers' agents, if it is.
    pub(super) fn weakness(&self) -> Option<String> {
        let ceiling = self.ceiling.filter(|ceiling| self.value.is_more_than(*ceiling))?;
        let Self { key, value, reason, .. } = self;
        let reason = if reason.is_empty() { "a host of strangers' agents" } else { reason };
        Some(format!("{key} is {value}; {reason} should have at most {ceiling}"))
    }
}

/// What bounds the turns and the clients of a group of tenants.
pub(super) fn of_tenants(group: &Group, config: &Config) -> Vec<Setting> {
    use Figure::{Size, Time};
    let tenant = &group.config;
    let limits = &tenant.limits;
    let limit =
        |name: &'static str, value, ceiling| Setting::new(name, group.key("limits", name), value, Some(ceiling));
    let seconds = |seconds| Time(Duration::from_secs(seconds));
    let mut settings = vec![
        limit("memory", Figure::size(limits.memory), Size(GIB)),
        limit("cpu-time", Time(limits.cpu_time), seconds(60)),
        limit("turn-time", Time(limits.turn_time), seconds(15 * 60)),
        limit("events", Figure::count(limits.events), Figure::Count(1_000_000)),
        limit("output", Figure::size(limits.output), Size(64 * MIB)),
        limit("tool-calls", Figure::count(limits.tool_calls), Figure::Count(1_000)),
        limit("tool-time", Time(limits.tool_time), seconds(5 * 60)),
        limit("tool-result", Figure::size(limits.tool_result), Size(64 * MIB)),
        limit("host-call", Figure::size(limits.host_call), Size(16 * MIB)),
        limit("log", Figure::size(limits.log), Size(4 * MIB)),
        limit("handles", Figure::Count(limits.handles as u64), Figure::Count(10_000)),
    ];
    let half = Figure::count((config.server.concurrent_turns / 2).max(1));
    let turns = Figure::count(tenant.concurrent_turns);
    let mut turns = Setting::new("tenant-concurrent-turns", group.key("", "concurrent-turns"), turns, Some(half));
    turns.reason = "for others to have room, one tenant of this server (half of server.concurrent-turns)";
    settings.push(turns);
    let half = Figure::count((config.server.connections / 2).max(1));
    let connections = Figure::count(tenant.connections);
    let mut connections = Setting::new("tenant-connections", group.key("", "connections"), connections, Some(half));
    connections.reason = "for others to have room, one tenant of this server (half of server.connections)";
    settings.push(connections);
    if let Some(rate) = tenant.turns_per_minute {
        let fast = Figure::Count(60_000);
        settings.push(Setting::new(
            "turns-per-minute",
            group.key("", "turns-per-minute"),
            Figure::count(rate),
            Some(fast),
        ));
    }
    // No tenant is to be a hundred times as much as another.
    let least = config.tenants.values().map(|tenant| tenant.cpu_weight).min().unwrap_or(tenant.cpu_weight);
    let most = Figure::count(least.saturating_mul(100));
    let weight = Figure::count(tenant.cpu_weight);
    let mut weight = Setting::new("cpu-weight", group.key("", "cpu-weight"), weight, Some(most));
    weight.reason = "for others to have their share, one tenant of this server (a hundred times the least weight)";
    settings.push(weight);
    settings
}

/// What bounds the server and its endpoints.
pub(super) fn of_server(config: &Config, descriptors: Option<u64>) -> Vec<Setting> {
    use Figure::{Size, Time};
    let (server, mythra, lingzhu) = (&config.server, &config.mythra, &config.lingzhu);
    let minutes = |minutes| Some(Time(Duration::from_mins(minutes)));
    let count = |count| Some(Figure::Count(count));
    let pings = mythra.ping.saturating_mul(mythra.unanswered_pings.saturating_add(1));
    let mut connections = Setting::new("connections", "server.connections", Figure::count(server.connections), None);
    connections.ceiling = descriptors.map(|all| Figure::Count(all.saturating_sub(OTHER_DESCRIPTORS)));
    connections.reason = "with the descriptors that the system gives a process (ulimit -Hn), this host";
    let half = Figure::count((server.connections / 2).max(1));
    let per_address = Figure::count(server.connections_per_address);
    let mut per_address =
        Setting::new("connections-per-address", "server.connections-per-address", per_address, Some(half));
    per_address.reason = "for others to have room, one address at this server (half of server.connections)";
    vec![
        Setting::new("concurrent-turns", "server.concurrent-turns", Figure::count(server.concurrent_turns), None),
        connections,
        per_address,
        Setting::new("request-time", "server.request-time", Time(server.request_time), minutes(2)),
        Setting::new("write-time", "server.write-time", Time(server.write_time), minutes(5)),
        Setting::new("max-body", "lingzhu.max-body", Figure::size(lingzhu.max_body), Some(Size(64 * MIB))),
        Setting::new("turn-time", "lingzhu.turn-time", Time(lingzhu.turn_time), minutes(15)),
        Setting::new("max-message", "mythra.max-message", Figure::size(mythra.max_message), Some(Size(16 * MIB))),
        Setting::new("max-buffer", "mythra.max-buffer", Figure::size(mythra.max_buffer), Some(Size(64 * MIB))),
        Setting::new("queue", "mythra.queue", Figure::Count(mythra.queue as u64), count(100)),
        Setting::new("bad-messages", "mythra.bad-messages", Figure::count(mythra.bad_messages), count(1_000)),
        Setting::new("session-wait", "mythra.session-wait", Time(mythra.session_wait), minutes(15)),
        Setting::new("slow-reader", "mythra.slow-reader", Time(mythra.slow_reader), minutes(5)),
        Setting::new("idle", "mythra.idle", Time(mythra.idle), minutes(10)),
        Setting::new("linger", "mythra.linger", Time(mythra.linger), minutes(10)),
        Setting::new("unanswered-pings", "mythra.ping, mythra.unanswered-pings", Time(pings), minutes(10)),
        Setting::new("max-size", "reload.max-size", Size(config.reload.max_size), Some(Size(GIB))),
        Setting::new("compile", "reload.compile-memory", Size(config.reload.compile.memory), Some(Size(8 * GIB))),
        Setting::new("compile", "reload.compile-cpu", Time(config.reload.compile.cpu), minutes(10)),
        Setting::new("compile", "reload.compile-time", Time(config.reload.compile.time), minutes(30)),
        Setting::new("sessions", "sessions.per-tenant", Figure::count(config.sessions.per_tenant), count(10_000_000)),
        Setting::new(
            "tenant-files",
            "sessions.files-per-tenant",
            Size(config.sessions.files_per_tenant),
            Some(Size(64 * GIB)),
        ),
        Setting::new("drain", "server.drain", Time(server.drain), minutes(15)),
        Setting::new("failures", "failures.per-tenant", Figure::count(config.failures.per_tenant), count(100_000)),
        Setting::new("session-turns", "sessions.turns", Figure::count(config.sessions.turns), count(10_000)),
        Setting::new("session-bytes", "sessions.bytes", Size(config.sessions.bytes), Some(Size(16 * MIB))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TenantConfig;

    fn weak(config: &Config) -> Vec<String> {
        let tenants = config.tenants.iter().flat_map(|(name, tenant)| {
            of_tenants(&Group { names: vec![name.clone()], config: tenant.clone(), alone: true }, config)
        });
        tenants.chain(of_server(config, Some(20_000))).filter_map(|setting| setting.weakness()).collect()
    }

    /// The defaults, with one change.
    fn with(change: impl FnOnce(&mut Config, &mut TenantConfig)) -> Vec<String> {
        let mut config = Config::default();
        let mut tenant = TenantConfig::out_of_the_box();
        change(&mut config, &mut tenant);
        config.tenants = std::collections::BTreeMap::from([("default".to_owned(), tenant)]);
        weak(&config)
    }

    #[test]
    fn the_configuration_that_is_there_without_a_file_is_nowhere_weak() {
        assert_eq!(with(|_, _| {}), Vec::<String>::new());
    }

    #[test]
    fn a_figure_beyond_its_ceiling_is_weak_and_its_key_is_named() {
        let hours = Duration::from_hours(10);
        let cases: [(Vec<String>, &str); 12] = [
            (with(|_, tenant| tenant.limits.memory = 1 << 31), "limits.memory is 2.0 GiB; "),
            (with(|_, tenant| tenant.limits.turn_time = hours), "limits.turn-time is 10h; "),
            (with(|_, tenant| tenant.limits.events = 2_000_000), "limits.events is 2,000,000; "),
            (with(|_, tenant| tenant.limits.host_call = 1 << 30), "limits.host-call is 1.0 GiB; "),
            (with(|_, tenant| tenant.limits.handles = 10_001), "limits.handles is 10,001; "),
            (with(|_, tenant| tenant.limits.log = 1 << 30), "limits.log is 1.0 GiB; "),
            (with(|_, tenant| tenant.concurrent_turns = 501), "tenants.default.concurrent-turns is 501; "),
            (with(|config, _| config.server.request_time = hours), "server.request-time is 10h; "),
            (with(|config, _| config.server.connections = 20_000), "server.connections is 20,000; "),
            (with(|config, _| config.mythra.max_message = 1 << 30), "mythra.max-message is 1.0 GiB; "),
            (with(|config, _| config.lingzhu.max_body = 1 << 30), "lingzhu.max-body is 1.0 GiB; "),
            (with(|config, _| config.mythra.ping = hours), "mythra.ping, mythra.unanswered-pings is 1day 16h; "),
        ];
        for (weak, said) in cases {
            assert_eq!(weak.len(), 1, "{said}: {weak:?}");
            assert!(weak[0].starts_with(said), "{said}: {weak:?}");
        }
    }

    #[test]
    fn every_ceiling_is_written_about() {
        let page = include_str!("../../../../docs/selftest.md");
        let config = Config::default();
        let tenants = Group::all(&config, None);
        let of_tenants = tenants.iter().flat_map(|group| of_tenants(group, &config));
        for setting in of_tenants.chain(of_server(&config, Some(20_000))).filter(|setting| setting.ceiling.is_some()) {
            for key in setting.key.split(", ") {
                let key = format!("`{}`", key.replace("tenants.default.", "tenants.NAME."));
                assert!(page.contains(&key), "{key} is not in docs/selftest.md");
            }
        }
    }

    #[test]
    fn figures_are_told_in_units_that_a_person_reads() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(100), "100");
        assert_eq!((size(1023), size(65_536)), ("1,023 B".to_owned(), "64.0 KiB".to_owned()));
        assert_eq!(time(Duration::from_millis(2040)), "2.04 s");
        assert_eq!(time(Duration::from_millis(40)), "40 ms");
        assert_eq!(time(Duration::from_hours(10)), "10h");
    }
}
