//! `hostelry selftest` as a process: what it says of configurations whose limits are tight, weak or too long to wait for,
//! and how it ends.

use std::path::Path;

use hostelry::limit::Limit;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::host::{Host, SOON};

/// A configuration of which each limit strikes soon.
const TIGHT: &str = r#"
[limits]
memory = "16MiB"
turn-time = "1500ms"
cpu-time = "200ms"
tool-time = "300ms"
events = 500
output = "2MiB"
tool-result = "64KiB"
handles = 100
[server]
concurrent-turns = 40
connections = 120
connections-per-address = 40
request-time = "3s"
write-time = "3s"
[mythra]
idle = "500ms"
slow-reader = "500ms"
session-wait = "300ms"
ping = "1s"
unanswered-pings = 1
[lingzhu]
turn-time = "1s"
max-body = "4MiB"
[sessions]
files-per-tenant = "1MiB"
per-tenant = 40
[reload]
settle = "50ms"
poll = "200ms"
compile-memory = "256MiB"
[tenants.default]
concurrent-turns = 8
connections = 20
turns-per-minute = 30
budget.day.turns = 20
budget.month.events = 900
"#;

/// What a selftest found, and its exit code.
struct Found {
    code: Option<i32>,
    rows: Vec<Value>,
}

impl Found {
    /// The rows of a limit: at least one.
    fn of(&self, limit: &str) -> Vec<&Value> {
        let rows: Vec<_> = self.rows.iter().filter(|row| row["limit"] == limit).collect();
        assert!(!rows.is_empty(), "{limit} is not among {:?}", self.rows);
        rows
    }

    /// The verdict on the only row of a limit, and why.
    #[track_caller]
    fn verdict(&self, limit: &str) -> (&str, &str) {
        match self.of(limit).as_slice() {
            [row] => (row["verdict"].as_str().unwrap(), row["reason"].as_str().unwrap_or_default()),
            rows => panic!("{rows:?}"),
        }
    }
}

async fn output(dir: &Path, args: &[&str]) -> std::process::Output {
    timeout(SOON * 2, Host::program(dir).arg("selftest").args(args).output()).await.expect("it does not end").unwrap()
}

/// What a selftest of this configuration finds.
async fn found(config: &str, args: &[&str]) -> Found {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("hostelry.toml"), config).unwrap();
    let output = output(dir.path(), &[&["--json"], args].concat()).await;
    let text = String::from_utf8(output.stdout).unwrap();
    let rows =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["hostelry.toml"], "nothing of the operator's is touched");
    Found { code: output.status.code(), rows }
}

#[tokio::test]
async fn limits_that_are_tight_are_all_enforced() {
    let found = found(TIGHT, &[]).await;
    let bad: Vec<_> =
        found.rows.iter().filter(|row| row["verdict"] != "enforced" && row["verdict"] != "not tried").collect();
    assert_eq!((found.code, bad), (Some(0), Vec::new()));
    for limit in Limit::ALL {
        // Twenty thousand files are not written for a test.
        let expected = if limit == Limit::Agents { "not tried" } else { "enforced" };
        assert!(found.of(limit.name()).iter().any(|row| row["verdict"] == expected), "{limit}: {:?}", found.rows);
    }
    let measured = |limit: &str| found.of(limit)[0]["measured"].as_str().unwrap().to_owned();
    assert_eq!(measured("events"), "refused after 500");
    assert_eq!(measured("memory"), "refused at 16.0 MiB");
    assert_eq!(measured("tenant-concurrent-turns"), "8 ran, one more got 429");
    assert_eq!(found.of("memory")[0]["key"], "limits.memory");
}

#[tokio::test]
async fn a_limit_that_is_too_large_is_weak_and_its_key_is_named() {
    let config = "[limits]\nmemory = \"2GiB\"\nlog = \"1GiB\"\nhandles = 50_000\n[tenants.acme]\nconcurrent-turns = 900\n\
                  [tenants.beta]\nlimits.host-call = \"1GiB\"\n[lingzhu]\nmax-body = \"1GiB\"\n";
    let only = "memory,log,handles,host-call,tenant-concurrent-turns,max-body";
    let found = found(config, &["--only", only, "--tenant", "acme"]).await;
    assert_eq!(found.code, Some(1));
    for (limit, reason) in [
        ("memory", "limits.memory is 2.0 GiB; a host of strangers' agents should have at most 1.0 GiB"),
        ("log", "limits.log is 1.0 GiB; "),
        ("handles", "limits.handles is 50,000; "),
        ("tenant-concurrent-turns", "tenants.acme.concurrent-turns is 900; "),
    ] {
        let (verdict, why) = found.verdict(limit);
        assert_eq!(verdict, "WEAK", "{limit}: {why}");
        assert!(why.starts_with(reason), "{limit}: {why}");
    }
    assert!(found.of("max-body").iter().all(|row| row["verdict"] == "WEAK" && row["key"] == "lingzhu.max-body"));
    assert!(found.of("host-call").iter().all(|row| row["verdict"] == "enforced"), "only acme's limits are tested");
}

#[tokio::test]
async fn what_takes_longer_than_it_may_is_not_proven_and_what_is_beyond_reason_is_weak() {
    let config = "[limits]\nturn-time = \"10min\"\ntool-time = \"1h\"\n[server]\nrequest-time = \"1h\"\n";
    let found = found(config, &["--only", "turn-time,tool-time,request-time", "--max-wait", "3s"]).await;
    assert_eq!(found.code, Some(1));
    let turn = found.of("turn-time");
    assert!(turn.iter().any(|row| {
        row["verdict"] == "NOT PROVEN" && row["reason"] == "limits.turn-time is 10m, longer than --max-wait (3.00 s)"
    }));
    let (verdict, why) = found.verdict("tool-time");
    assert!(verdict == "WEAK" && why.contains("limits.tool-time is 1h"), "{verdict}: {why}");
    for row in found.of("request-time") {
        assert_eq!((row["verdict"].as_str(), row["key"].as_str()), (Some("WEAK"), Some("server.request-time")));
    }
}

#[tokio::test]
async fn a_bound_that_another_strikes_before_is_not_called_enforced() {
    let config = "[limits]\nturn-time = \"500ms\"\ncpu-time = \"50s\"\nhost-call = \"2MiB\"\nevents = 10\n";
    let found = found(config, &["--only", "cpu-time,output"]).await;
    assert_eq!(found.code, Some(0));
    let (verdict, why) = found.verdict("cpu-time");
    assert!(verdict == "not tried" && why.contains("limits.turn-time is over before"), "{verdict}: {why}");
    assert_eq!(found.verdict("output"), ("not tried", "events is reached first"));
}

#[tokio::test]
async fn a_table_names_whose_limits_they_are_and_what_it_comes_to() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("acme.toml"), "[tenants.acme]\n[tenants.beta]\nlimits.memory = \"1MiB\"\n").unwrap();
    let output = output(dir.path(), &["--config", "acme.toml", "--only", "memory,stack"]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for line in ["tenant acme", "tenant beta", "the server and its endpoints", "3 enforced"] {
        assert!(text.lines().any(|found| found == line), "{line:?} is not in\n{text}");
    }
    assert!(text.contains("refused at 64.0 MiB") && text.contains("refused at 1.0 MiB"), "{text}");
}

#[tokio::test]
async fn a_tenant_whose_limits_let_no_guest_live_is_told_and_the_others_are_tested() {
    let config = "[tenants.acme]\n[tenants.beta]\nlimits.memory = \"64KiB\"\n";
    let found = found(config, &["--only", "memory"]).await;
    let row = |whose: &str| found.rows.iter().find(|row| row["whose"] == whose).unwrap();
    assert_eq!((found.code, row("tenant acme")["verdict"].as_str()), (Some(1), Some("enforced")));
    assert_eq!(row("tenant beta")["verdict"], "NOT PROVEN");
    assert!(row("tenant beta")["reason"].as_str().unwrap().contains("limits.memory"), "{}", row("tenant beta"));
}

#[tokio::test]
async fn what_cannot_be_tested_is_a_matter_of_usage() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("faulty.toml"), "[limits]\nmemory = \"64 parsecs\"\n").unwrap();
    std::fs::write(dir.path().join("open.toml"), "listen = \"0.0.0.0:80\"\n[tenants.acme]\n").unwrap();
    for (args, said) in [
        (&["--config", "faulty.toml"][..], "limits.memory: \"64 parsecs\" is not a size"),
        (&["--config", "open.toml"], "tenant `acme` has no key"),
        (&["--config", "nowhere.toml"], "nowhere.toml"),
        (&["--tenant", "nobody"], "there is no tenant `nobody`; name one with --tenant: default"),
        (&["--only", "memroy"], "there is no limit `memroy`; name some of: "),
        (&["--max-wait", "soon"], "not a duration"),
    ] {
        let output = output(dir.path(), args).await;
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {err}");
        assert!(err.contains(said), "{args:?}: {err}");
        assert!(output.stdout.is_empty());
    }
}
