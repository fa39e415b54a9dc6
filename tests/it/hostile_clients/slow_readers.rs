//! Clients that read nothing while an agent talks as fast as it can: the agent waits, the host's memory stays where it
//! is, everybody else is served, and after a while the connection is cut.

use conformance::{script, socket::masked};

use super::{assert_serves, ended};
use crate::support::{
    host::{Host, Setup},
    wire::{Wire, post, saying},
};

/// 60 MB of text, which no buffer of a connection holds.
const FLOOD: &str = "flood 60000 1000";

/// What lets an agent say so much.
const LIMITS: &str = "[limits]\noutput = \"100MiB\"\nevents = 100000\ncpu-time = \"60s\"\n";

/// How much more memory the host may take for one such client: its agent's instance, what waits, and what allocators
/// keep. The text is several times as much.
const MARGIN: u64 = 24 * 1024 * 1024;

/// A host for puppets that talk much, after it has served a turn of each.
async fn host(config: &str) -> Host {
    let setup = Setup::serving(&["puppet", "echo"]).plugin("puppet.toml", b"markdown = \"keep\"");
    let host = setup.config(&format!("{config}\n{LIMITS}")).start().await;
    assert_serves(&host).await;
    host
}

/// Checks that the host serves others and holds little while one turn runs and its client reads nothing.
async fn assert_bounded(host: &Host, before: u64) {
    for _ in 0..20 {
        assert_serves(host).await;
    }
    let now = host.resident();
    assert!(now < before + MARGIN, "{before} to {now} bytes");
}

#[tokio::test]
async fn a_client_that_reads_nothing_of_a_stream_is_cut_and_nobody_else_notices() {
    let host = host("server.write-time = \"1s\"").await;
    let before = host.resident();
    let mut wire = Wire::narrow(&host).await;
    wire.send(post("puppet", &[], &saying(FLOOD)).as_bytes()).await;
    assert_bounded(&host, before).await;
    ended(&host, 1).await;
    let read = wire.end().await;
    assert!(read.len() < 60_000_000 && !read.contains("event: done"), "{} bytes", read.len());
    assert_eq!(host.hits("write-time").await, 1);
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_client_that_reads_a_stream_slowly_gets_all_of_it() {
    let host = host("server.write-time = \"10s\"").await;
    let mut wire = Wire::narrow(&host).await;
    wire.send(post("puppet", &[], &saying("flood 2000 1000")).as_bytes()).await;
    assert_serves(&host).await;
    let read = wire.until("event: done", 1).await;
    assert_eq!(read.matches(&"x".repeat(1000)).count(), 2000);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_and_nobody_else_notices() {
    let host = host("mythra.slow-reader = \"1s\"").await;
    let before = host.resident();
    let mut wire = Wire::narrow(&host).await;
    wire.send(upgrade().as_bytes()).await;
    wire.until("\r\n\r\n", 1).await;
    wire.send(&masked(0x81, script::input(FLOOD).as_bytes())).await;
    assert_bounded(&host, before).await;
    ended(&host, 1).await;
    let read = wire.end().await;
    assert!(read.len() < 60_000_000 && !read.contains("\"response-state\",\"event\":\"end\""), "{} bytes", read.len());
    assert_eq!(host.hits("slow-reader").await, 1);
    assert_eq!(host.hits("slow-reader").await, 1);
    assert_serves(&host).await;
}

/// The handshake with the puppet.
fn upgrade() -> String {
    let lines = [
        "GET /agents/default/puppet/mythra HTTP/1.1",
        "host: h",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    format!("{}\r\n\r\n", lines.join("\r\n"))
}
