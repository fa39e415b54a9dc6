//! A `hostelry.toml`, or the file beside a component, made into a checked configuration: all its faults at once.

use std::{
    collections::BTreeMap,
    fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use toml::de::DeValue;

use super::{
    AgentConfig, CompileConfig, Config, KeyConfig, Limits, LingzhuConfig, Markdown, MythraConfig, ReloadConfig,
    ServerConfig, SessionConfig, TenantConfig, Texts,
    section::{Page, Section},
};
use crate::ids;

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
        plugins: path(root.text("plugins"), &defaults.plugins),
        data: path(root.text("data"), &defaults.data),
        tenants: match root.section("tenants") {
            Some(section) => tenants(section, &limits),
            None => defaults.tenants.into_iter().map(|(name, tenant)| (name, with(tenant, &limits))).collect(),
        },
        server: root.section("server").map_or(defaults.server, server),
        sessions: root.section("sessions").map_or(defaults.sessions, sessions),
        reload: root.section("reload").map_or(defaults.reload, reload),
        mythra: root.section("mythra").map_or(defaults.mythra, mythra),
        lingzhu: root.section("lingzhu").map_or(defaults.lingzhu, lingzhu),
    };
    if config.mythra.max_buffer < config.mythra.max_message {
        root.fault(0..0, "mythra.max-buffer", "smaller than mythra.max-message");
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

fn tenants(mut section: Section<'_, '_>, base: &Limits) -> BTreeMap<String, TenantConfig> {
    let mut tenants = BTreeMap::new();
    for (name, entry) in section.sections() {
        if !ids::is_name(&name) {
            entry.fault(entry.span(), "", "a tenant's name matches [a-z0-9][a-z0-9-]{0,62}");
        }
        tenants.insert(name, tenant(entry, base));
    }
    tenants
}

fn tenant(mut section: Section<'_, '_>, base: &Limits) -> TenantConfig {
    let tenant = TenantConfig {
        keys: keys(&mut section),
        limits: section.section("limits").map_or_else(|| base.clone(), |own| limits(own, base)),
        concurrent_turns: section.number("concurrent-turns", 1).unwrap_or(TenantConfig::CONCURRENT_TURNS),
        turns_per_minute: section.number("turns-per-minute", 1),
        tools: section.texts("tools").unwrap_or_default(),
        http: section.texts("http").unwrap_or_default(),
    };
    section.end();
    tenant
}

/// A tenant's keys: each a digest, or a table of a digest and the agent that it opens.
fn keys(section: &mut Section<'_, '_>) -> Vec<KeyConfig> {
    let mut keys = Vec::new();
    for (span, item) in section.list("keys").unwrap_or_default() {
        let key = match item {
            DeValue::String(text) => digest(&text).map(|digest| KeyConfig { digest, agent: None }),
            table @ DeValue::Table(_) => {
                let Some(mut entry) = section.enter("keys", span.clone(), table) else { continue };
                let hash = entry.parsed("hash", digest);
                let agent = entry.text("agent");
                entry.end();
                match hash {
                    Some(digest) => Ok(KeyConfig { digest, agent }),
                    None => Err("a key's table holds `hash` and, to bind it to one agent, `agent`".to_owned()),
                }
            }
            _ => Err(digest("").err().unwrap_or_default()),
        };
        match key {
            Ok(key) => keys.push(key),
            Err(why) => section.fault(span, "keys", &why),
        }
    }
    keys
}

/// The digest in `sha256:…`.
fn digest(text: &str) -> Result<[u8; 32], String> {
    let wrong =
        || "not a key's digest; make a key with `hostelry keys new TENANT` and put the line it prints here".to_owned();
    let digits =
        text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.is_ascii()).ok_or_else(wrong)?;
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.as_bytes().chunks(2)) {
        let pair = std::str::from_utf8(pair).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(digest)
}

fn server(mut section: Section<'_, '_>) -> ServerConfig {
    let defaults = ServerConfig::default();
    let server = ServerConfig {
        concurrent_turns: section.number("concurrent-turns", 1).unwrap_or(defaults.concurrent_turns),
        connections: section.number("connections", 1).unwrap_or(defaults.connections),
        request_time: section.duration("request-time").unwrap_or(defaults.request_time),
        write_time: section.duration("write-time").unwrap_or(defaults.write_time),
        drain: section.duration("drain").unwrap_or(defaults.drain),
    };
    section.end();
    server
}

fn sessions(mut section: Section<'_, '_>) -> SessionConfig {
    let defaults = SessionConfig::default();
    let sessions = SessionConfig {
        turns: section.number("turns", 1).unwrap_or(defaults.turns),
        bytes: section.size("bytes", 1024).unwrap_or(defaults.bytes),
        idle: section.duration("idle").unwrap_or(defaults.idle),
        per_tenant: section.number("per-tenant", 1).unwrap_or(defaults.per_tenant),
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
mod tests {
    use std::time::Duration;

    use super::*;

    fn faults(text: &str) -> Vec<String> {
        read(text, "hostelry.toml", Path::new("")).unwrap_err().0
    }

    #[test]
    fn the_designs_example_is_read_whole() {
        let text = format!(
            r#"
            listen = "0.0.0.0:8080"
            admin-listen = "127.0.0.1:8081"
            plugins = "plugins"
            [limits]
            memory = "64MiB"
            cpu-time = "2s"
            [tenants.acme]
            keys = ["sha256:{digits}", {{ hash = "sha256:{digits}", agent = "weather" }}]
            concurrent-turns = 32
            turns-per-minute = 600
            limits.memory = "128MiB"
            tools = ["workspace/*", "device/*"]
            http = ["api.weather.example"]
            "#,
            digits = "0f".repeat(32)
        );
        let config = read(&text, "hostelry.toml", Path::new("/etc/hostelry")).unwrap();
        assert_eq!(config.listen.port(), 8080);
        assert_eq!(config.plugins, Path::new("/etc/hostelry/plugins"));
        let acme = &config.tenants["acme"];
        assert_eq!(acme.limits.memory, 128 * 1024 * 1024);
        assert_eq!(acme.limits.cpu_time, Duration::from_secs(2));
        assert_eq!(acme.keys[0], KeyConfig { digest: [15; 32], agent: None });
        assert_eq!(acme.keys[1].agent.as_deref(), Some("weather"));
        assert_eq!(acme.turns_per_minute, Some(600));
    }

    #[test]
    fn all_faults_are_told_at_once_with_their_lines_and_the_way_out() {
        let faults = faults(
            "listen = \"here\"\nlimts = 1\n[limits]\nmemory = \"64 parsecs\"\nevents = 0\n[tenants.A]\nkeys = [\"\"]\n",
        );
        assert_eq!(faults.len(), 6, "{faults:#?}");
        assert!(faults[0].starts_with("hostelry.toml:1: listen: \"here\" is not an address"), "{faults:#?}");
        assert!(faults[1].contains("hostelry.toml:2: limts: unknown key; did you mean `limits`?"), "{faults:#?}");
        assert!(faults[2].contains(":4: limits.memory: \"64 parsecs\" is not a size"), "{faults:#?}");
        assert!(faults[3].contains(":5: limits.events: not a whole number of at least 1"), "{faults:#?}");
        assert!(
            faults.iter().any(|fault| fault.contains("tenants.A.") && fault.contains("name matches")),
            "{faults:#?}"
        );
        assert!(faults.iter().any(|fault| fault.contains("hostelry keys new")), "an empty key never opens a tenant");
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        assert!(faults("a = 1\nb = \n").iter().any(|fault| fault.starts_with("hostelry.toml:2: not TOML")));
    }

    #[test]
    fn the_file_beside_a_component_only_tightens() {
        let agent = AgentConfig::read(
            "tools = [\"device/*\"]\nmarkdown = \"keep\"\nlimits.memory = \"32MiB\"\n[texts]\napology = \"x\"\n[texts.zh-CN]\nnothing = \"y\"\n",
            "weather.toml",
        )
        .unwrap();
        assert_eq!(agent.markdown, Markdown::Keep);
        assert_eq!(agent.apology("en"), "x");
        assert_eq!(agent.nothing("zh-cn"), "y");
        let limits = agent.limits.unwrap().within(&Limits::default());
        assert_eq!((limits.memory, limits.events), (32 * 1024 * 1024, 10_000));
        assert!(AgentConfig::read("colour = 1", "weather.toml").is_err());
    }
}
