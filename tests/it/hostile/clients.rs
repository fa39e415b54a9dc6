//! Clients that run into the bounds on connections, requests and messages: each is refused in the protocol's own words or
//! cut, others are served, and just that bound is counted, once.

use conformance::{
    script,
    socket::{End, Heard, Socket, masked},
};
use reqwest::header::HeaderMap;

use super::assert_serves;
use crate::support::{
    host::{Host, SOON, Setup},
    wire::{Wire, post, saying},
};

/// Bounds that a test reaches soon.
const CONFIG: &str = "server.request-time = \"500ms\"\nserver.write-time = \"1s\"\nlingzhu.max-body = \"1KiB\"\n\
    [limits]\noutput = \"100MiB\"\nevents = 100000\ncpu-time = \"60s\"\n\
    [mythra]\nmax-message = \"1KiB\"\nqueue = 1\nbad-messages = 2\nidle = \"500ms\"\nsession-wait = \"300ms\"\n\
    slow-reader = \"1s\"\n";

async fn host() -> Host {
    let setup = Setup::serving(&["puppet", "echo"]).plugin("puppet.toml", b"markdown = \"keep\"");
    setup.config(CONFIG).start().await
}

/// Checks that others are served and that this bound was run into, once, and no other.
async fn assert_counted(host: &Host, limit: &str) {
    assert_serves(host).await;
    // A connection that is cut is counted when it is gone, which its client may see a moment before.
    while host.hits(limit).await == 0 {}
    assert_eq!(host.hits(limit).await, 1, "{limit}");
    assert_eq!(host.counted("hostelry_limit_hits_total").await, 1, "only {limit}");
}

async fn connect(host: &Host) -> Socket {
    Socket::connect(&host.mythra("puppet"), HeaderMap::new()).await.unwrap().0
}

/// Everything up to the end.
async fn rest(socket: &mut Socket) -> (String, End) {
    let mut texts = String::new();
    loop {
        match socket.next(SOON).await.unwrap() {
            Heard::Text(text) => texts.push_str(&text),
            Heard::End(end) => return (texts, end),
            Heard::Pong(_) => {}
        }
    }
}

async fn hear(socket: &mut Socket, text: &str) {
    let heard = socket.find(SOON, |frame| frame.contains(text)).await;
    assert!(matches!(heard, Ok(Heard::Text(_))), "instead of {text:?}: {heard:?}");
}

#[tokio::test]
async fn a_socket_that_says_nothing() {
    let host = host().await;
    assert_eq!(Wire::to(&host).await.end().await, "");
    assert_counted(&host, "request-time").await;
}

#[tokio::test]
async fn a_head_that_never_ends() {
    let host = host().await;
    let mut wire = Wire::sending(&host, "POST /agents/default/echo/lingzhu HTTP/1.1\r\nhost: h\r\n").await;
    wire.end().await;
    assert_counted(&host, "request-time").await;
}

#[tokio::test]
async fn a_body_that_never_comes() {
    let host = host().await;
    let mut wire = Wire::sending(&host, &post("echo", &["content-length: 100"], "")).await;
    assert!(wire.end().await.starts_with("HTTP/1.1 408"));
    assert_counted(&host, "request-time").await;
}

#[tokio::test]
async fn a_head_that_is_too_large() {
    let host = host().await;
    let mut wire = Wire::to(&host).await;
    wire.try_send(post("echo", &[&format!("x: {}", "y".repeat(100_000))], "{}").as_bytes()).await;
    let answer = wire.end().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert_counted(&host, "request-head").await;
}

#[tokio::test]
async fn a_body_that_is_too_large() {
    let host = host().await;
    let mut wire = Wire::to(&host).await;
    wire.try_send(post("echo", &["connection: close"], &"x".repeat(2000)).as_bytes()).await;
    assert!(wire.end().await.starts_with("HTTP/1.1 413"));
    assert_counted(&host, "max-body").await;
}

#[tokio::test]
async fn a_stream_that_is_not_read() {
    let host = host().await;
    let mut wire = Wire::narrow(&host).await;
    let order = saying("flood 60000 1000");
    wire.send(post("puppet", &[], &order).as_bytes()).await;
    assert_serves(&host).await;
    host.logged("turn ended: the client left").await;
    assert!(!wire.end().await.contains("event: done"));
    assert_counted(&host, "write-time").await;
}

#[tokio::test]
async fn a_message_that_is_too_long() {
    let host = host().await;
    let mut socket = connect(&host).await;
    socket.text(&script::input(&"x".repeat(2000))).await;
    let (said, end) = rest(&mut socket).await;
    assert!(said.contains("longer than 1024 bytes") && matches!(end, End::Closed(1009, _)), "{said} {end:?}");
    assert_counted(&host, "max-message").await;
}

#[tokio::test]
async fn more_inputs_than_may_wait() {
    let host = host().await;
    let mut socket = connect(&host).await;
    socket.text(&script::input("chat a\nsleep 700")).await;
    hear(&mut socket, "chat-output").await;
    for _ in 0..2 {
        socket.text(&script::input("chat b")).await;
    }
    hear(&mut socket, "\"busy\"").await;
    hear(&mut socket, "\"content\":\"b\"").await;
    assert_counted(&host, "queue").await;
}

#[tokio::test]
async fn messages_that_are_no_json() {
    let host = host().await;
    let mut socket = connect(&host).await;
    for _ in 0..2 {
        socket.text("nonsense").await;
    }
    assert!(matches!(rest(&mut socket).await.1, End::Closed(1008, _)));
    assert_counted(&host, "bad-messages").await;
}

#[tokio::test]
async fn a_websocket_that_says_nothing() {
    let host = host().await;
    assert_eq!(rest(&mut connect(&host).await).await.1, End::Closed(1000, "idle".to_owned()));
    assert_counted(&host, "idle").await;
}

#[tokio::test]
async fn an_input_whose_session_is_busy_for_too_long() {
    let host = host().await;
    let input =
        |text: &str| serde_json::json!({ "type": "user-input", "sessionId": "s", "userInput": text }).to_string();
    let (mut one, mut two) = (connect(&host).await, connect(&host).await);
    one.text(&input("chat a\nsleep 3000")).await;
    hear(&mut one, "chat-output").await;
    two.text(&input("chat b")).await;
    hear(&mut two, "\"busy\"").await;
    drop((one, two));
    assert_counted(&host, "session-wait").await;
}

/// A bare handshake, by a client that will answer nothing.
async fn silent(host: &Host) -> Wire {
    let lines = [
        "GET /agents/default/puppet/mythra HTTP/1.1",
        "host: h",
        "connection: upgrade",
        "upgrade: websocket",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let mut wire = Wire::narrow(host).await;
    wire.send(format!("{}\r\n\r\n", lines.join("\r\n")).as_bytes()).await;
    wire.until("\r\n\r\n", 1).await;
    wire
}

#[tokio::test]
async fn a_websocket_that_is_not_read() {
    let setup = Setup::serving(&["puppet", "echo"]);
    let host = setup.config(&CONFIG.replace("write-time = \"1s\"", "write-time = \"30s\"")).start().await;
    let mut wire = silent(&host).await;
    wire.send(&masked(0x81, script::input("flood 60000 1000").as_bytes())).await;
    host.logged("turn ended: the client left").await;
    wire.end().await;
    assert_counted(&host, "slow-reader").await;
}

#[tokio::test]
async fn a_websocket_that_answers_no_pings() {
    let setup = Setup::serving(&["puppet", "echo"]);
    let host = setup.config("mythra.ping = \"200ms\"\nmythra.unanswered-pings = 2").start().await;
    let mut wire = silent(&host).await;
    wire.send(&masked(0x81, script::input("sleep 20000").as_bytes())).await;
    host.logged("turn ended: the client left").await;
    wire.end().await;
    assert_counted(&host, "unanswered-pings").await;
}

#[tokio::test]
async fn more_connections_than_there_are_places() {
    let setup = Setup::serving(&["echo"]);
    let host = setup.config("server.connections = 2").start().await;
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(Wire::sending(&host, "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await);
    }
    for wire in &mut held {
        wire.until("ok", 1).await;
    }
    assert_eq!(Wire::to(&host).await.end().await, "");
    drop(held);
    while reqwest::get(host.http("/healthz")).await.is_err() {}
    assert!(host.hits("connections").await >= 1);
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_client_that_leaves_runs_into_no_bound() {
    let host = host().await;
    let wire = Wire::sending(&host, &post("puppet", &[], &saying("chat a\nsleep 60000"))).await;
    host.logged("agent live").await;
    drop(wire);
    drop(Wire::sending(&host, "POST /x HTTP/1.1\r\nhost:").await);
    assert_serves(&host).await;
    assert_eq!(host.counted("hostelry_limit_hits_total").await, 0);
}
