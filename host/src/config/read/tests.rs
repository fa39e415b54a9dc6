//! Tests of reading a configuration from its text.

use std::time::Duration;

use super::*;
use crate::config::KeyConfig;

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
    assert_eq!(acme.keys[0], KeyConfig { digest: [15; 32], agent: None, expires: None });
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
    assert!(faults.iter().any(|fault| fault.contains("tenants.A.") && fault.contains("name matches")), "{faults:#?}");
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
