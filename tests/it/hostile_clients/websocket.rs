//! Clients that misuse a WebSocket in ways that the cases of the protocol do not hold.

use conformance::{
    script,
    socket::{End, Heard, Socket, masked},
};
use reqwest::header::HeaderMap;

use super::{assert_quiet, assert_serves, ended};
use crate::support::host::{Host, SOON, Setup};

async fn connect(host: &Host, agent: &str) -> Socket {
    Socket::connect(&host.mythra(agent), HeaderMap::new()).await.unwrap().0
}

/// Everything up to the end.
async fn rest(socket: &mut Socket) -> (Vec<String>, End) {
    let mut texts = Vec::new();
    loop {
        match socket.next(SOON).await.unwrap() {
            Heard::Text(text) => texts.push(text),
            Heard::End(end) => return (texts, end),
            Heard::Pong(_) => {}
        }
    }
}

/// Reads frames until one holds `text`.
async fn hear(socket: &mut Socket, text: &str) {
    match socket.find(SOON, |frame| frame.contains(text)).await.unwrap() {
        Heard::Text(_) => {}
        other => panic!("instead of {text:?}: {other:?}"),
    }
}

#[tokio::test]
async fn a_client_that_closes_in_the_middle_is_answered_and_ends_its_agent() {
    let host = Setup::serving(&["deaf", "echo"]).start().await;
    let mut socket = connect(&host, "deaf").await;
    socket.text(&script::input("x")).await;
    hear(&mut socket, "la ").await;
    socket.close(1000).await;
    let (_, end) = rest(&mut socket).await;
    assert_eq!(end, End::Closed(1000, String::new()));
    ended(&host, 1).await;
    assert_serves(&host).await;
    assert_quiet(&host);
}

#[tokio::test]
async fn a_reset_connection_ends_its_agent() {
    let host = Setup::serving(&["deaf", "echo"]).start().await;
    let mut socket = connect(&host, "deaf").await;
    socket.text(&script::input("x")).await;
    hear(&mut socket, "la ").await;
    socket.reset();
    ended(&host, 1).await;
    assert_serves(&host).await;
    assert_quiet(&host);
}

#[tokio::test]
async fn a_connection_that_just_ends_ends_its_agent() {
    let host = Setup::serving(&["sleeper", "echo"]).start().await;
    let mut socket = connect(&host, "sleeper").await;
    socket.text(&script::input("x")).await;
    hear(&mut socket, "response-state").await;
    drop(socket);
    ended(&host, 1).await;
    assert_serves(&host).await;
    assert_quiet(&host);
}

#[tokio::test]
async fn a_flood_of_pings_is_answered_and_harms_no_response() {
    let host = Setup::serving(&["puppet", "echo"]).start().await;
    let mut socket = connect(&host, "puppet").await;
    socket.text(&script::input("chat a\nsleep 500\nrepeat 100 chat x\nsleep 500\nchat b")).await;
    hear(&mut socket, "response-state").await;
    for n in 0..10_000_u32 {
        socket.ping(&n.to_be_bytes()).await;
        if n % 1000 == 999 {
            // Of pings that come faster than they are answered the last one must be.
            socket.pong(&n.to_be_bytes(), SOON).await.unwrap();
        }
    }
    let mut content = String::new();
    loop {
        match socket.next(SOON).await.unwrap() {
            Heard::Text(text) => {
                let frame: serde_json::Value = serde_json::from_str(&text).unwrap();
                content.push_str(frame["content"].as_str().unwrap_or_default());
                if frame["type"] == "response-state" {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(content, format!("a{}b", "x".repeat(100)));
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_client_that_writes_and_never_reads_stops_itself() {
    let host = Setup::serving(&["echo"]).config("mythra.slow-reader = \"1s\"").start().await;
    let before = host.resident();
    let mut socket = connect(&host, "echo").await;
    // Each is answered with an error, of which nothing is read.
    let wrong = masked(0x81, b"{\"type\":\"user-input\"}");
    let many: Vec<u8> = wrong.iter().copied().cycle().take(wrong.len() * 10_000).collect();
    for _ in 0..100 {
        let taken = tokio::time::timeout(SOON, socket.raw(&many)).await;
        assert!(taken.is_ok(), "the host takes nothing and does not close");
    }
    let (_, end) = rest(&mut socket).await;
    assert!(matches!(end, End::Cut(_) | End::Closed(1013, _)), "{end:?}");
    assert!(host.resident() < before + 32 * 1024 * 1024, "{} to {}", before, host.resident());
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_message_that_announces_more_than_there_is_memory_is_refused_at_once() {
    let host = Setup::serving(&["echo"]).start().await;
    let mut socket = connect(&host, "echo").await;
    socket.raw(&[0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]).await;
    let (texts, end) = rest(&mut socket).await;
    assert_eq!(end, End::Closed(1009, String::new()), "{texts:?}");
    assert_serves(&host).await;
}

#[tokio::test]
async fn fragments_without_end_are_bounded() {
    let host = Setup::serving(&["echo"]).start().await;
    let before = host.resident();
    let mut socket = connect(&host, "echo").await;
    socket.raw(&masked(0x01, &[b'x'; 1024])).await;
    let more = masked(0x00, &vec![b'x'; 64 * 1024]);
    // 16 MiB, four times what is held of a message.
    for _ in 0..256 {
        socket.raw(&more).await;
    }
    let (_, end) = rest(&mut socket).await;
    assert!(matches!(end, End::Cut(_) | End::Closed(1009, _)), "{end:?}");
    assert!(host.resident() < before + 16 * 1024 * 1024, "{} to {}", before, host.resident());
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_client_that_answers_no_pings_is_dropped() {
    let config = "[mythra]\nping = \"100ms\"\nunanswered-pings = 2\n";
    let host = Setup::serving(&["sleeper", "echo"]).config(config).start().await;
    let mut socket = connect(&host, "sleeper").await;
    socket.text(&script::input("x")).await;
    // It reads nothing, and so answers nothing.
    host.logged("dropping a client that answers no pings").await;
    assert_eq!(host.hits("unanswered-pings").await, 1);
    ended(&host, 1).await;
    let (_, end) = rest(&mut socket).await;
    assert!(matches!(end, End::Cut(_)), "{end:?}");
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_client_that_answers_pings_may_wait_as_long_as_it_likes() {
    let config = "[mythra]\nping = \"400ms\"\nunanswered-pings = 4\n";
    let host = Setup::serving(&["puppet"]).config(config).start().await;
    let mut socket = connect(&host, "puppet").await;
    socket.text(&script::input("sleep 4000\nchat x")).await;
    hear(&mut socket, "\"content\":\"x\"").await;
    assert!(socket.pings > 4, "{} pings", socket.pings);
}
