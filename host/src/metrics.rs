//! What the host counts of itself, for `/metrics`: turns, the bounds that were run into, reloads and compiles.
//!
//! Every label has few values: tenants are those of the configuration, and past [`TENANTS_MAX`] of them the rest share
//! one; agents, users and sessions are no labels. What is known of one agent is in [`crate::records`].

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text},
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::Gauge,
        histogram::Histogram,
        info::Info,
    },
    registry::{Registry, Unit},
};

use crate::{
    limit::Limit,
    records::{Cause, TurnRecord},
};

/// How many tenants have labels of their own.
pub const TENANTS_MAX: usize = 500;

/// The label of the tenants past that.
const OTHERS: &str = "(others)";

/// The label where a tenant is not known yet, such as at the door.
const NOBODY: &str = "";

/// Upper ends of the buckets for turns and first events, in seconds: from a warm echo to a slow model.
const TURN_BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 30.0, 60.0, 120.0];

/// Upper ends of the buckets for compiling, in seconds.
const COMPILE_BUCKETS: [f64; 9] = [0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 30.0, 60.0, 300.0];

/// What became of a plugin's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reload {
    /// A version went live.
    Live,
    /// The newest file does not serve.
    Refused,
    /// An agent is gone.
    Withdrawn,
}

/// How code was come by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compiled {
    /// Newly made.
    Compiled,
    /// Found in the cache.
    Cached,
    /// The component is not valid.
    Invalid,
    /// The compiler passed its bounds.
    Deadly,
    /// Refused at once, because the same component was refused before.
    Quarantined,
    /// The host's own trouble.
    Failed,
}

/// What the host counts. Cloning is shallow.
#[derive(Clone, Debug)]
pub struct Metrics {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    registry: Registry,
    tenants: Mutex<BTreeSet<String>>,
    turns: Family<TurnLabels, Counter>,
    in_flight: Family<TenantLabels, Gauge>,
    durations: Family<ProtocolLabels, Histogram, Buckets>,
    first_events: Family<ProtocolLabels, Histogram, Buckets>,
    cpu: Family<TenantLabels, Counter<f64, std::sync::atomic::AtomicU64>>,
    limits: Family<LimitLabels, Counter>,
    connections: Gauge,
    reloads: Family<Outcome, Counter>,
    compiles: Family<Outcome, Counter>,
    compile_times: Histogram,
    configurations: Family<Outcome, Counter>,
    agents: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TurnLabels {
    tenant: String,
    protocol: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TenantLabels {
    tenant: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProtocolLabels {
    protocol: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    limit: Limit,
    tenant: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

impl EncodeLabelValue for Limit {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.name().encode(encoder)
    }
}

/// Makes histograms with these upper ends.
#[derive(Clone, Debug)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// One turn that runs; counted as long as it is held.
#[derive(Debug)]
pub struct InFlight {
    gauge: Gauge,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

/// One connection that is open; counted as long as it is held.
#[derive(Debug)]
pub struct Connected {
    gauge: Gauge,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Nothing counted yet.
    pub fn new() -> Self {
        let mut shared = Shared {
            registry: Registry::with_prefix("hostelry"),
            tenants: Mutex::default(),
            turns: Family::default(),
            in_flight: Family::default(),
            durations: Family::new_with_constructor(Buckets(&TURN_BUCKETS)),
            first_events: Family::new_with_constructor(Buckets(&TURN_BUCKETS)),
            cpu: Family::default(),
            limits: Family::default(),
            connections: Gauge::default(),
            reloads: Family::default(),
            compiles: Family::default(),
            compile_times: Histogram::new(COMPILE_BUCKETS),
            configurations: Family::default(),
            agents: Gauge::default(),
        };
        shared.register();
        Self { shared: Arc::new(shared) }
    }

    /// Everything, in the `OpenMetrics` text form, which Prometheus reads.
    pub fn encode(&self) -> String {
        let mut out = String::new();
        if let Err(error) = text::encode(&mut out, &self.shared.registry) {
            // Writing to a string does not fail.
            tracing::error!("the metrics could not be written: {error}");
        }
        out
    }

    /// A turn of `tenant` begins.
    pub fn turn_began(&self, tenant: &str) -> InFlight {
        let labels = TenantLabels { tenant: self.tenant(tenant) };
        let gauge = self.shared.in_flight.get_or_create_owned(&labels);
        gauge.inc();
        InFlight { gauge }
    }

    /// The first bytes of a turn's answer were ready this long after its input.
    pub fn first_event(&self, protocol: &'static str, after: Duration) {
        self.shared.first_events.get_or_create(&ProtocolLabels { protocol }).observe(after.as_secs_f64());
    }

    /// A turn ended, having run into `limits`.
    pub fn turn_ended(&self, record: &TurnRecord, limits: &[Limit]) {
        let tenant = self.tenant(&record.agent.tenant);
        let labels = TurnLabels { tenant: tenant.clone(), protocol: record.protocol, outcome: record.cause.name() };
        self.shared.turns.get_or_create(&labels).inc();
        let protocol = ProtocolLabels { protocol: record.protocol };
        self.shared.durations.get_or_create(&protocol).observe(record.took.as_secs_f64());
        let cpu = TenantLabels { tenant: tenant.clone() };
        self.shared.cpu.get_or_create(&cpu).inc_by(record.cpu.as_secs_f64());
        let ended_by = match record.cause {
            Cause::Limit(limit) => Some(limit),
            _ => None,
        };
        // Each counts once a turn, however often a guest runs into it.
        for limit in ended_by.iter().chain(limits).collect::<BTreeSet<_>>() {
            self.shared.limits.get_or_create(&LimitLabels { limit: *limit, tenant: tenant.clone() }).inc();
        }
    }

    /// Somebody who is not known yet ran into a bound.
    pub fn limit(&self, limit: Limit) {
        let labels = LimitLabels { limit, tenant: NOBODY.to_owned() };
        self.shared.limits.get_or_create(&labels).inc();
    }

    /// A tenant's client ran into a bound.
    pub fn limit_of(&self, limit: Limit, tenant: &str) {
        let labels = LimitLabels { limit, tenant: self.tenant(tenant) };
        self.shared.limits.get_or_create(&labels).inc();
    }

    /// A connection is open.
    pub fn connected(&self) -> Connected {
        self.shared.connections.inc();
        Connected { gauge: self.shared.connections.clone() }
    }

    /// Something became of a plugin's file; so many agents are live now.
    pub fn reload(&self, reload: Reload, live: usize) {
        let outcome = match reload {
            Reload::Live => "live",
            Reload::Refused => "refused",
            Reload::Withdrawn => "withdrawn",
        };
        self.shared.reloads.get_or_create(&Outcome { outcome }).inc();
        self.shared.agents.set(i64::try_from(live).unwrap_or(i64::MAX));
    }

    /// Code was come by, or not; this long it took.
    pub fn compiled(&self, how: Compiled, took: Duration) {
        let outcome = match how {
            Compiled::Compiled => "compiled",
            Compiled::Cached => "cached",
            Compiled::Invalid => "invalid",
            Compiled::Deadly => "deadly",
            Compiled::Quarantined => "quarantined",
            Compiled::Failed => "failed",
        };
        self.shared.compiles.get_or_create(&Outcome { outcome }).inc();
        if !matches!(how, Compiled::Cached | Compiled::Quarantined) {
            self.shared.compile_times.observe(took.as_secs_f64());
        }
    }

    /// A new configuration was applied, or refused.
    pub fn configuration(&self, applied: bool) {
        let outcome = if applied { "applied" } else { "refused" };
        self.shared.configurations.get_or_create(&Outcome { outcome }).inc();
    }

    /// How often this bound was run into, by anybody.
    pub fn hits(&self, limit: Limit) -> u64 {
        let tenants = self.tenants().clone();
        let all = tenants.iter().map(String::as_str).chain([NOBODY, OTHERS]);
        let labels = all.map(|tenant| LimitLabels { limit, tenant: tenant.to_owned() });
        labels.filter_map(|labels| self.shared.limits.get(&labels).map(|counter| counter.get())).sum()
    }

    /// How often one tenant's turns, clients and files ran into this bound.
    pub fn hits_of(&self, limit: Limit, tenant: &str) -> u64 {
        let labels = LimitLabels { limit, tenant: self.tenant(tenant) };
        self.shared.limits.get(&labels).map_or(0, |counter| counter.get())
    }

    /// How often somebody who was not known yet ran into it.
    pub fn hits_of_nobody(&self, limit: Limit) -> u64 {
        let labels = LimitLabels { limit, tenant: NOBODY.to_owned() };
        self.shared.limits.get(&labels).map_or(0, |counter| counter.get())
    }

    /// How many turns of a tenant run.
    pub fn running(&self, tenant: &str) -> i64 {
        let labels = TenantLabels { tenant: self.tenant(tenant) };
        self.shared.in_flight.get(&labels).map_or(0, |gauge| gauge.get())
    }

    /// The CPU time of a tenant's turns that have ended.
    pub fn cpu(&self, tenant: &str) -> Duration {
        let labels = TenantLabels { tenant: self.tenant(tenant) };
        self.shared.cpu.get(&labels).map_or(Duration::ZERO, |counter| Duration::from_secs_f64(counter.get()))
    }

    fn tenants(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.shared.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tenant's label.
    fn tenant(&self, name: &str) -> String {
        let mut tenants = self.tenants();
        if tenants.contains(name) {
            return name.to_owned();
        }
        if tenants.len() >= TENANTS_MAX {
            return OTHERS.to_owned();
        }
        tenants.insert(name.to_owned());
        name.to_owned()
    }
}

impl Shared {
    fn register(&mut self) {
        let Self { registry, .. } = self;
        registry.register("turns", "Turns that ended, by how", self.turns.clone());
        registry.register("turns_in_flight", "Turns that run", self.in_flight.clone());
        let durations = self.durations.clone();
        registry.register_with_unit("turn_duration", "A turn from its input to its end", Unit::Seconds, durations);
        let first = self.first_events.clone();
        registry.register_with_unit("first_event", "From a turn's input to its first frame", Unit::Seconds, first);
        registry.register_with_unit("cpu", "CPU time of guests", Unit::Seconds, self.cpu.clone());
        let limits = self.limits.clone();
        registry.register("limit_hits", "Bounds that were run into, once for each turn, request or file", limits);
        registry.register("connections", "Connections that are open", self.connections.clone());
        registry.register("reloads", "What became of plugin files", self.reloads.clone());
        registry.register("agents", "Agents that are live", self.agents.clone());
        registry.register("compiles", "How compiled code was come by", self.compiles.clone());
        let times = self.compile_times.clone();
        registry.register_with_unit("compile_duration", "Compiling one component", Unit::Seconds, times);
        registry.register("configurations", "New configurations", self.configurations.clone());
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "This program", build);
    }
}

#[cfg(test)]
mod tests;
