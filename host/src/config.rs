//! What the operator decides: the checked configuration that the rest of the host is built from.
//!
//! [`read()`] makes it of a `hostelry.toml`; without a file it is [`Config::default`]. Every figure has a default with a
//! reason; `docs/limits.md` lists them.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

mod agent;
mod limits;
mod project;
mod read;
mod section;

pub use agent::{AgentConfig, Markdown, Texts};
pub use limits::Limits;
pub use project::Project;
pub use read::{Faults, read, read_file};
pub(crate) use section::point;

use crate::ids::DEFAULT_TENANT;

/// All that `hostelry serve` needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where operators look; its own address, loopback unless it has keys.
    pub admin_listen: Option<SocketAddr>,
    /// Keys of which any opens the admin listener; none leaves it open, which only a loopback address allows.
    pub admin_keys: Vec<KeyConfig>,
    /// Names beside `localhost` and addresses by which operators may call the admin listener.
    pub admin_hosts: Vec<String>,
    /// The folder whose components are served.
    pub plugins: PathBuf,
    /// The folder that the host keeps its own state in.
    pub data: PathBuf,
    /// Who may have agents here, by name.
    pub tenants: BTreeMap<String, TenantConfig>,
    /// Providers of language models, by name.
    pub models: BTreeMap<String, ModelConfig>,
    /// Bounds of the server as a whole.
    pub server: ServerConfig,
    /// What is kept of failed turns.
    pub failures: FailureConfig,
    /// What is kept of usage.
    pub usage: UsageConfig,
    /// What is kept of conversations.
    pub sessions: SessionConfig,
    /// How the plugins folder is watched.
    pub reload: ReloadConfig,
    /// The Mythra endpoint.
    pub mythra: MythraConfig,
    /// The Lingzhu endpoint.
    pub lingzhu: LingzhuConfig,
}

/// One tenant's entry.
#[derive(Clone, Debug, Default)]
pub struct TenantConfig {
    /// Keys of which any opens this tenant's agents; none leaves them open, which only a loopback listener allows.
    pub keys: Vec<KeyConfig>,
    /// What one turn may use.
    pub limits: Limits,
    /// How many turns may run at once.
    pub concurrent_turns: u32,
    /// How many turns may begin in a minute; `None` is no bound.
    pub turns_per_minute: Option<u32>,
    /// Patterns over `group/tool` that may be called.
    pub tools: Vec<String>,
    /// Hosts that the host may fetch from for this tenant's agents.
    pub http: Vec<String>,
    /// Models that may be used, by their names in `[models]`.
    pub models: Vec<String>,
    /// How many connections its clients may have open at once beyond their requests.
    pub connections: u32,
    /// Its share of CPU time while others want some too, in relation to theirs.
    pub cpu_weight: u32,
    /// What it may use in a day and in a month.
    pub budget: BudgetConfig,
}

/// What a tenant may use in a day and in a month, both in UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetConfig {
    /// From midnight to midnight.
    pub day: Allowance,
    /// From the first of a month to the next.
    pub month: Allowance,
}

/// What may be used in a period; `None` is no bound. Once one is reached, no turn begins until the period is over; turns
/// that run go on, so that CPU time, text and tool calls may go past by what these still use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// Turns.
    pub turns: Option<u64>,
    /// CPU time of guests.
    pub cpu_time: Option<Duration>,
    /// Events.
    pub events: Option<u64>,
    /// Bytes of text.
    pub output: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
}

/// A provider of a language model. Its key is read by the host and never enters a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelConfig {
    /// The address of its OpenAI-compatible interface.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// The file that holds the key.
    pub key_file: Option<PathBuf>,
}

/// What is kept of failed turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureConfig {
    /// How many crash cards of one agent are kept; the oldest go first.
    pub per_agent: u32,
    /// How many of one tenant's.
    pub per_tenant: u32,
    /// Whether they hold what the user said and the agent showed.
    pub text: bool,
}

/// What is kept of usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageConfig {
    /// For how many days.
    pub days: u32,
}

/// One key's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConfig {
    /// The SHA-256 of the key.
    pub digest: [u8; 32],
    /// The one agent that it opens; `None` opens all of the tenant's.
    pub agent: Option<String>,
    /// From when on it opens nothing; `None` is never.
    pub expires: Option<jiff::Timestamp>,
}

impl KeyConfig {
    /// Whether the key opens anything at this time.
    pub fn is_valid(&self, now: jiff::Timestamp) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

/// Bounds of the server as a whole.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// How many turns may run at once, all tenants together: each takes an instance's memory and a stack.
    pub concurrent_turns: u32,
    /// How many connections may be open at once: each takes a descriptor and its buffers.
    pub connections: u32,
    /// How many of them may come from one address, or from one /64 network of IPv6.
    pub connections_per_address: u32,
    /// How long a client may take to send a request's head, and a request's body.
    pub request_time: Duration,
    /// How long a client may take none of what is sent to it before the connection is cut.
    pub write_time: Duration,
    /// How long running turns may go on once the host is told to stop.
    pub drain: Duration,
}

/// What is kept of conversations.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// How many of its last turns a session keeps.
    pub turns: u32,
    /// How many bytes of messages a session keeps.
    pub bytes: u64,
    /// How long an idle session is kept.
    pub idle: Duration,
    /// How many sessions a tenant may have; the longest idle make room for a new one.
    pub per_tenant: u32,
    /// How many bytes the workspaces of one tenant's sessions may take together.
    pub files_per_tenant: u64,
}

/// How the plugins folder is watched.
#[derive(Clone, Debug)]
pub struct ReloadConfig {
    /// How long a file must have been left alone before it is taken.
    pub settle: Duration,
    /// How often the folder is looked through although nothing was reported.
    pub poll: Duration,
    /// The largest component that is read.
    pub max_size: u64,
    /// What compiling one component may take.
    pub compile: CompileConfig,
}

/// What compiling one component may take, in a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompileConfig {
    /// Bytes of address space. A large JavaScript runtime takes 0.4 GiB of memory to compile.
    pub memory: u64,
    /// CPU time. The largest runtime that was tried takes 14 s.
    pub cpu: Duration,
    /// Wall time; it has the lowest priority, so that a busy host slows it down.
    pub time: Duration,
}

/// The Mythra endpoint. Numbers in brackets are the rows of its decisions in `docs/protocols/mythra.md`.
#[derive(Clone, Debug)]
pub struct MythraConfig {
    /// How long the socket stays open for another input after a turn (1).
    pub linger: Duration,
    /// How many inputs wait while a turn runs (2).
    pub queue: usize,
    /// How many messages that are no JSON object a connection may send before it is closed (4).
    pub bad_messages: u32,
    /// How long a turn waits for another turn of its session (9).
    pub session_wait: Duration,
    /// The largest message that is accepted, in bytes (22).
    pub max_message: usize,
    /// The largest message that is read at all, in bytes (22).
    pub max_buffer: usize,
    /// How often the server pings (23).
    pub ping: Duration,
    /// How many pings may stay unanswered (23).
    pub unanswered_pings: u32,
    /// How long a connection may say nothing before its first input (24).
    pub idle: Duration,
    /// How long a client may read nothing while frames wait for it (27).
    pub slow_reader: Duration,
}

/// The Lingzhu endpoint.
#[derive(Clone, Debug)]
pub struct LingzhuConfig {
    /// The longest turn here, if the tenant's own bound is not shorter.
    pub turn_time: Duration,
    /// The silence after which a comment is sent, and again after each such time.
    pub keep_alive: Duration,
    /// The silence after which an agent's `progress` text is shown, once.
    pub progress_after: Duration,
    /// The largest request body in bytes.
    pub max_body: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: None,
            admin_keys: Vec::new(),
            admin_hosts: Vec::new(),
            plugins: PathBuf::from("plugins"),
            data: PathBuf::from("data"),
            tenants: BTreeMap::from([(DEFAULT_TENANT.to_owned(), TenantConfig::out_of_the_box())]),
            models: BTreeMap::new(),
            server: ServerConfig::default(),
            failures: FailureConfig::default(),
            usage: UsageConfig::default(),
            sessions: SessionConfig::default(),
            reload: ReloadConfig::default(),
            mythra: MythraConfig::default(),
            lingzhu: LingzhuConfig::default(),
        }
    }
}

impl TenantConfig {
    /// How many turns of one tenant may run at once unless its entry says otherwise.
    pub const CONCURRENT_TURNS: u32 = 64;
    /// How many connections one tenant's clients may have open unless its entry says otherwise.
    pub const CONNECTIONS: u32 = 2000;
    /// The share of CPU time that a tenant has unless its entry says otherwise.
    pub const CPU_WEIGHT: u32 = 100;

    /// The tenant that is served where no file says anything: the author's own machine. It may use every tool that
    /// reaches no network.
    pub fn out_of_the_box() -> Self {
        Self {
            concurrent_turns: Self::CONCURRENT_TURNS,
            connections: Self::CONNECTIONS,
            cpu_weight: Self::CPU_WEIGHT,
            tools: vec!["device/*".to_owned(), "workspace/*".to_owned()],
            ..Self::default()
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            concurrent_turns: 1000,
            connections: 10_000,
            connections_per_address: 1000,
            request_time: Duration::from_secs(30),
            write_time: Duration::from_mins(1),
            drain: Duration::from_secs(10),
        }
    }
}

impl Default for FailureConfig {
    fn default() -> Self {
        Self { per_agent: 100, per_tenant: 1000, text: false }
    }
}

impl Default for UsageConfig {
    fn default() -> Self {
        Self { days: 400 }
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            turns: 50,
            bytes: 256 * 1024,
            idle: Duration::from_hours(7 * 24),
            per_tenant: 100_000,
            files_per_tenant: 1024 * 1024 * 1024,
        }
    }
}

impl Default for ReloadConfig {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(250),
            poll: Duration::from_secs(5),
            max_size: 64 * 1024 * 1024,
            compile: CompileConfig::default(),
        }
    }
}

impl Default for CompileConfig {
    fn default() -> Self {
        Self { memory: 3 * 1024 * 1024 * 1024, cpu: Duration::from_mins(2), time: Duration::from_mins(5) }
    }
}

impl Default for MythraConfig {
    fn default() -> Self {
        Self {
            linger: Duration::from_secs(2),
            queue: 4,
            bad_messages: 5,
            session_wait: Duration::from_secs(30),
            max_message: 1024 * 1024,
            max_buffer: 4 * 1024 * 1024,
            ping: Duration::from_secs(20),
            unanswered_pings: 3,
            idle: Duration::from_secs(30),
            slow_reader: Duration::from_secs(30),
        }
    }
}

impl Default for LingzhuConfig {
    fn default() -> Self {
        Self {
            turn_time: Duration::from_secs(45),
            keep_alive: Duration::from_secs(7),
            progress_after: Duration::from_secs(10),
            max_body: 10 * 1024 * 1024,
        }
    }
}
