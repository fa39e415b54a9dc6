//! What the operator decides: the checked configuration that the rest of the host is built from.
//!
//! [`read()`] makes it of a `hostelry.toml`; without a file it is [`Config::default`]. Every figure has a default with a
//! reason; `docs/limits.md` lists them.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

mod agent;
mod limits;
mod read;
mod section;

pub use agent::{AgentConfig, Markdown, Texts};
pub use limits::Limits;
pub use read::{Faults, read, read_file};

use crate::ids::DEFAULT_TENANT;

/// All that `hostelry serve` needs to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where operators look; its own address, loopback by default.
    pub admin_listen: Option<SocketAddr>,
    /// The folder whose components are served.
    pub plugins: PathBuf,
    /// The folder that the host keeps its own state in.
    pub data: PathBuf,
    /// Who may have agents here, by name.
    pub tenants: BTreeMap<String, TenantConfig>,
    /// Bounds of the server as a whole.
    pub server: ServerConfig,
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
}

/// One key's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyConfig {
    /// The SHA-256 of the key.
    pub digest: [u8; 32],
    /// The one agent that it opens; `None` opens all of the tenant's.
    pub agent: Option<String>,
}

/// Bounds of the server as a whole.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// How many turns may run at once, all tenants together: each takes an instance's memory and a stack.
    pub concurrent_turns: u32,
    /// How many connections may be open at once: each takes a descriptor and its buffers.
    pub connections: u32,
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
            plugins: PathBuf::from("plugins"),
            data: PathBuf::from("data"),
            tenants: BTreeMap::from([(DEFAULT_TENANT.to_owned(), TenantConfig::out_of_the_box())]),
            server: ServerConfig::default(),
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

    /// The tenant that is served where no file says anything: the author's own machine. It may use every tool that
    /// reaches no network.
    pub fn out_of_the_box() -> Self {
        Self {
            concurrent_turns: Self::CONCURRENT_TURNS,
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
            request_time: Duration::from_secs(30),
            write_time: Duration::from_mins(1),
            drain: Duration::from_secs(10),
        }
    }
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self { turns: 50, bytes: 256 * 1024, idle: Duration::from_hours(7 * 24), per_tenant: 100_000 }
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
