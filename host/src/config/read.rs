//! A `hostelry.toml`, or the file beside a component, made into a checked configuration: all its faults at once.

use std::{
    collections::BTreeMap,
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use super::{
    AgentConfig, CompileConfig, Config, FailureConfig, Limits, LingzhuConfig, Markdown, ModelConfig, MythraConfig,
    ReloadConfig, ServerConfig, SessionConfig, TenantConfig, Texts, UsageConfig,
    section::{Page, Section},
};
use crate::ids;

mod tenants;

use tenants::{keys, tenants};

/// Everything that is wrong with a file; never empty.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub struct Faults(pub Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

/// Reads a `hostelry.toml`. Paths in it are from the file's own folder.
pub fn read_file(path: &Path) -> Result<Config, Faults> {
    let text = fs::read_to_string(path)
        .map_err(|error| Faults(vec![format!("{}: cannot be read: {error}", path.display())]))?;
    let folder = path.parent().unwrap_or(Path::new(""));
    read(&text, &path.display().to_string(), folder)
}

/// Reads the text of a `hostelry.toml` that is called `name` in faults and stands in `folder`.
pub fn read(text: &str, name: &str, folder: &Path) -> Result<Config, Faults> {
    let page = Page::new(name, text.trim_start_matches('\u{feff}'));
    let config = whole(Section::root(&page), folder);
    let faults = page.faults();
    if faults.is_empty() { Ok(config) } else { Err(Faults(faults)) }
}

fn whole(mut root: Section<'_, '_>, folder: &Path) -> Config {
    let defaults = Config::default();
    let address = |text: &str| {
        text.parse::<SocketAddr>().map_err(|_| format!("{text:?} is not an address; write it like \"127.0.0.1:8080\""))
    };
    let path =
        |text: Option<String>, default: &Path| folder.join(text.map_or_else(|| default.to_owned(), PathBuf::from));
    let limits = root.section("limits").map_or_else(Limits::default, |section| limits(section, &Limits::default()));
    let config = Config {
        listen: root.parsed("listen", address).unwrap_or(defaults.listen),
        admin_listen: root.parsed("admin-listen", address),
        admin_keys: keys(&mut root, "admin-keys"),
        admin_hosts: root.texts("admin-hosts").unwrap_or_default(),
        plugins: path(root.text("plugins"), &defaults.plugins),
        data: path(root.text("data"), &defaults.data),
        tenants: match root.section("tenants") {
            Some(section) => tenants(section, &limits),
            None => defaults.tenants.into_iter().map(|(name, tenant)| (name, with(tenant, &limits))).collect(),
        },
        models: root.section("models").map(|section| models(section, folder)).unwrap_or_default(),
        server: root.section("server").map_or(defaults.server, server),
        failures: root.section("failures").map_or(defaults.failures, failures),
        usage: root.section("usage").map_or(defaults.usage, usage),
        sessions: root.section("sessions").map_or(defaults.sessions, sessions),
        reload: root.section("reload").map_or(defaults.reload, reload),
        mythra: root.section("mythra").map_or(defaults.mythra, mythra),
        lingzhu: root.section("lingzhu").map_or(defaults.lingzhu, lingzhu),
    };
    if config.mythra.max_buffer < config.mythra.max_message {
        root.fault(0..0, "mythra.max-buffer", "smaller than mythra.max-message");
    }
    for (name, tenant) in &config.tenants {
        for model in tenant.models.iter().filter(|model| !config.models.contains_key(*model)) {
            root.fault(0..0, &format!("tenants.{name}.models"), &format!("there is no [models.{model}]"));
        }
    }
    root.end();
    config
}

/// The limits of a section; what it leaves out is as in `base`.
fn limits(mut section: Section<'_, '_>, base: &Limits) -> Limits {
    let limits = Limits {
        memory: section.size("memory", 64 * 1024).unwrap_or(base.memory),
        cpu_time: section.duration("cpu-time").unwrap_or(base.cpu_time),
        turn_time: section.duration("turn-time").unwrap_or(base.turn_time),
        events: section.number("events", 1).unwrap_or(base.events),
        output: section.size("output", 1).unwrap_or(base.output),
        tool_calls: section.number("tool-calls", 0).unwrap_or(base.tool_calls),
        tool_time: section.duration("tool-time").unwrap_or(base.tool_time),
        tool_result: section.size("tool-result", 1024).unwrap_or(base.tool_result),
        host_call: section.size("host-call", 1024).unwrap_or(base.host_call),
        log: section.size("log", 0).unwrap_or(base.log),
        handles: section.number("handles", 1).unwrap_or(base.handles),
    };
    section.end();
    limits
}

fn with(mut tenant: TenantConfig, limits: &Limits) -> TenantConfig {
    tenant.limits = limits.clone();
    tenant
}

fn server(mut section: Section<'_, '_>) -> ServerConfig {
    let defaults = ServerConfig::default();
    let server = ServerConfig {
        concurrent_turns: section.number("concurrent-turns", 1).unwrap_or(defaults.concurrent_turns),
        connections: section.number("connections", 1).unwrap_or(defaults.connections),
        connections_per_address: section
            .number("connections-per-address", 1)
            .unwrap_or(defaults.connections_per_address),
        request_time: section.duration("request-time").unwrap_or(defaults.request_time),
        write_time: section.duration("write-time").unwrap_or(defaults.write_time),
        drain: section.duration("drain").unwrap_or(defaults.drain),
    };
    section.end();
    server
}

fn models(mut section: Section<'_, '_>, folder: &Path) -> BTreeMap<String, ModelConfig> {
    let mut models = BTreeMap::new();
    for (name, mut entry) in section.sections() {
        if !ids::is_name(&name) {
            entry.fault(entry.span(), "", "a model's name matches [a-z0-9][a-z0-9-]{0,62}");
        }
        let url = entry.parsed("url", |text| match url::Url::parse(text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(text.to_owned()),
            _ => Err(format!("{text:?} is no address; write it like \"https://models.example.com/v1\"")),
        });
        let (model, key_file) = (entry.text("model"), entry.text("key-file").map(|path| folder.join(path)));
        for (key, missing) in [("url", url.is_none()), ("model", model.is_none())] {
            if missing {
                entry.fault(entry.span(), key, "a model's entry needs it");
            }
        }
        entry.end();
        if let (Some(url), Some(model)) = (url, model) {
            models.insert(name, ModelConfig { url, model, key_file });
        }
    }
    models
}

fn failures(mut section: Section<'_, '_>) -> FailureConfig {
    let defaults = FailureConfig::default();
    let failures = FailureConfig {
        per_agent: section.number("per-agent", 1).unwrap_or(defaults.per_agent),
        per_tenant: section.number("per-tenant", 1).unwrap_or(defaults.per_tenant),
        text: section.switch("text").unwrap_or(defaults.text),
    };
    section.end();
    failures
}

fn usage(mut section: Section<'_, '_>) -> UsageConfig {
    let defaults = UsageConfig::default();
    // A month's budget is told from the days that are kept.
    let usage = UsageConfig { days: section.number("days", 32).unwrap_or(defaults.days) };
    section.end();
    usage
}

fn sessions(mut section: Section<'_, '_>) -> SessionConfig {
    let defaults = SessionConfig::default();
    let sessions = SessionConfig {
        turns: section.number("turns", 1).unwrap_or(defaults.turns),
        bytes: section.size("bytes", 1024).unwrap_or(defaults.bytes),
        idle: section.duration("idle").unwrap_or(defaults.idle),
        per_tenant: section.number("per-tenant", 1).unwrap_or(defaults.per_tenant),
        files_per_tenant: section.size("files-per-tenant", 0).unwrap_or(defaults.files_per_tenant),
    };
    section.end();
    sessions
}

fn reload(mut section: Section<'_, '_>) -> ReloadConfig {
    let defaults = ReloadConfig::default();
    let reload = ReloadConfig {
        settle: section.duration("settle").unwrap_or(defaults.settle),
        poll: section.duration("poll").unwrap_or(defaults.poll),
        max_size: section.size("max-size", 1024).unwrap_or(defaults.max_size),
        compile: CompileConfig {
            // Less than this and the compiler itself could not start.
            memory: section.size("compile-memory", 128 * 1024 * 1024).unwrap_or(defaults.compile.memory),
            cpu: section.duration("compile-cpu").unwrap_or(defaults.compile.cpu),
            time: section.duration("compile-time").unwrap_or(defaults.compile.time),
        },
    };
    section.end();
    reload
}

fn mythra(mut section: Section<'_, '_>) -> MythraConfig {
    let defaults = MythraConfig::default();
    let mythra = MythraConfig {
        linger: section.duration("linger").unwrap_or(defaults.linger),
        queue: section.number("queue", 0).unwrap_or(defaults.queue),
        bad_messages: section.number("bad-messages", 1).unwrap_or(defaults.bad_messages),
        session_wait: section.duration("session-wait").unwrap_or(defaults.session_wait),
        max_message: section.size("max-message", 1024).unwrap_or(defaults.max_message),
        max_buffer: section.size("max-buffer", 1024).unwrap_or(defaults.max_buffer),
        ping: section.duration("ping").unwrap_or(defaults.ping),
        unanswered_pings: section.number("unanswered-pings", 1).unwrap_or(defaults.unanswered_pings),
        idle: section.duration("idle").unwrap_or(defaults.idle),
        slow_reader: section.duration("slow-reader").unwrap_or(defaults.slow_reader),
    };
    section.end();
    mythra
}

fn lingzhu(mut section: Section<'_, '_>) -> LingzhuConfig {
    let defaults = LingzhuConfig::default();
    let lingzhu = LingzhuConfig {
        turn_time: section.duration("turn-time").unwrap_or(defaults.turn_time),
        keep_alive: section.duration("keep-alive").unwrap_or(defaults.keep_alive),
        progress_after: section.duration("progress-after").unwrap_or(defaults.progress_after),
        max_body: section.size("max-body", 1024).unwrap_or(defaults.max_body),
    };
    section.end();
    lingzhu
}

impl AgentConfig {
    /// Reads the text of the file beside a component, which is called `name` in faults.
    pub fn read(text: &str, name: &str) -> Result<Self, Faults> {
        let page = Page::new(name, text);
        let mut root = Section::root(&page);
        let agent = Self {
            id: root.text("id"),
            tools: root.texts("tools"),
            http: root.texts("http"),
            limits: root.section("limits").map(|section| limits(section, &Limits::UNBOUNDED)),
            markdown: root
                .parsed("markdown", |text| match text {
                    "strip" => Ok(Markdown::Strip),
                    "keep" => Ok(Markdown::Keep),
                    other => Err(format!("{other:?} is neither \"strip\" nor \"keep\"")),
                })
                .unwrap_or_default(),
            progress: root.text("progress").filter(|text| !text.is_empty()),
            texts: root.section("texts").map(texts).unwrap_or_default(),
        };
        root.end();
        let faults = page.faults();
        if faults.is_empty() { Ok(agent) } else { Err(Faults(faults)) }
    }
}

/// An agent's own texts: those for all languages, and a table for each language.
fn texts(mut section: Section<'_, '_>) -> BTreeMap<String, Texts> {
    let own =
        |section: &mut Section<'_, '_>| Texts { apology: section.text("apology"), nothing: section.text("nothing") };
    let mut texts = BTreeMap::from([(String::new(), own(&mut section))]);
    for (language, mut table) in section.sections() {
        texts.insert(language.to_ascii_lowercase(), own(&mut table));
        table.end();
    }
    texts
}

#[cfg(test)]
mod tests;
