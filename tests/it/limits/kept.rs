//! What is kept for a tenant and its conversations, and how many agents it may have.

use std::fmt::Write as _;

use reqwest::StatusCode;

use super::puppet;
use crate::support::{
    guests,
    host::{Host, Setup},
    turn::{Ask, NOTHING, ask},
    wat,
};

async fn tell(host: &Host, tenant: &str, conversation: &str, orders: &str) -> String {
    Ask::at(host, tenant, "puppet").conversation(conversation).text(orders).answer().await.text
}

#[tokio::test]
async fn a_file_that_is_too_large_is_not_written_and_the_bounds_are_named() {
    let host = puppet("limits.host-call = \"4MiB\"").start().await;
    let write = |bytes: usize| format!("tool WriteFile {{\"filePath\":\"/a\",\"content\":\"{}\"}}", "x".repeat(bytes));
    assert!(ask(&host, "puppet", &write(512 * 1024)).await.text.starts_with("ok:"));
    assert_eq!(host.hits("workspace").await, 0);
    let refused = ask(&host, "puppet", &write(512 * 1024 + 1)).await.text;
    assert_eq!(refused, "failed:a file may have 524288 bytes, and its path 512");
    assert_eq!(host.hits("workspace").await, 1);
}

#[tokio::test]
async fn the_longest_idle_session_makes_room_for_a_new_one_and_no_other_tenants_does() {
    let config = "sessions.per-tenant = 2\n[tenants.default]\n[tenants.acme]\n";
    let setup = Setup::serving(&["puppet"]).plugin("acme/puppet.wasm", &guests::bytes("puppet")).config(config);
    let host = setup.start().await;
    tell(&host, "acme", "own", "chat one").await;
    for conversation in ["first", "second", "third"] {
        tell(&host, "default", conversation, "chat one").await;
    }
    // The store takes note a moment after the answer.
    while host.hits("sessions").await == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(host.hits("sessions").await, 1);
    assert_eq!(tell(&host, "default", "third", "history 9").await, "user:chat one|agent:one");
    assert_eq!(tell(&host, "acme", "own", "history 9").await, "user:chat one|agent:one");
    assert!(!tell(&host, "default", "first", "history 9").await.contains("one"), "it went");
}

#[tokio::test]
async fn agents_beyond_a_tenants_share_are_not_taken_and_nobody_elses_suffer() {
    // With so many tenants the share of each is the least that it can be: a hundred.
    let mut config = "[reload]\nsettle = \"50ms\"\n[tenants.default]\n[tenants.large]\n[tenants.small]\n".to_owned();
    for n in 0..200 {
        writeln!(config, "[tenants.t{n}]").unwrap();
    }
    let mut setup = Setup::serving(&["echo"]).config(&config);
    let agent = wat::agent("", "", "", "");
    for n in 0..102 {
        setup = setup.plugin(&format!("large/a{n:03}.wasm"), &agent);
    }
    let host = setup.plugin("small/one.wasm", &guests::bytes("one")).start().await;
    let readyz = host.readyz().await;
    assert_eq!(readyz["live"], 102, "{readyz}");
    assert_eq!(
        readyz["strays"],
        serde_json::json!([{
            "file": "large/*",
            "fault": "2 files more than the 100 agents that a tenant may have are not taken",
        }])
    );
    assert_eq!(host.hits("agents").await, 1);
    assert_eq!(Ask::at(&host, "large", "a099").text("x").answer().await.text, NOTHING);
    assert_eq!(Ask::at(&host, "large", "a100").text("x").refused().await.status, StatusCode::NOT_FOUND);
    assert_eq!(Ask::at(&host, "small", "one").text("x").answer().await.text, "one");
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
}
