//! The configuration that the folder is looked through by: a new one is a reason to look again, at once.

use std::fs;

use reqwest::StatusCode;

use super::{live, quick, standing};
use crate::support::{
    guests,
    host::Host,
    turn::{Ask, NOTHING, ask},
    wat,
};

/// Gives the host a new configuration.
fn configure(host: &Host, text: &str) {
    fs::write(host.dir().join("hostelry.toml"), format!("[reload]\nsettle = \"50ms\"\npoll = \"10m\"\n{text}"))
        .unwrap();
    host.signal("HUP");
}

#[tokio::test]
async fn a_tenant_that_comes_brings_its_agents_and_one_that_goes_takes_them() {
    let host = quick(&["echo"]).plugin("acme/one.wasm", &guests::bytes("one")).start().await;
    host.logged("there is no tenant `acme`").await;
    configure(&host, "[tenants.default]\n[tenants.acme]\n");
    live(&host, "acme/one", &guests::bytes("one"), 1).await;
    assert_eq!(Ask::at(&host, "acme", "one").text("x").answer().await.text, "one");
    configure(&host, "[tenants.default]\n");
    host.logged("agent withdrawn: its tenant is gone agent=acme/one").await;
    assert_eq!(Ask::at(&host, "acme", "one").text("x").refused().await.status, StatusCode::NOT_FOUND);
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
}

#[tokio::test]
async fn a_file_that_was_refused_by_old_rules_is_taken_by_new_ones() {
    let large = wat::agent("(core module $m (memory 96)) (core instance (instantiate $m))", "", "", "");
    let host = quick(&["echo"]).start().await;
    configure(&host, "max-size = \"64MiB\"\n[limits]\nmemory = \"4MiB\"\n");
    host.logged("configuration").await;
    fs::write(host.plugin("large.wasm"), &large).unwrap();
    host.logged("its memories begin with 6553600 bytes, and a turn may use 4194304 (limits.memory)").await;
    configure(&host, "[limits]\nmemory = \"16MiB\"\n");
    live(&host, "default/large", &large, 1).await;
    assert!(standing(&host, "default/large").await["fault"].is_null());
    assert_eq!(ask(&host, "large", "x").await.text, NOTHING);
    configure(&host, "max-size = \"1KiB\"\n");
    host.logged("the file is larger than 1024 bytes (reload.max-size); the version before goes on agent=default/echo")
        .await;
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
}
