//! What a tenant may use over time, and what it may hold at once beyond its turns.

use conformance::socket::{End, Heard, Socket};
use reqwest::{StatusCode, header::HeaderMap};
use serde_json::json;

use super::puppet;
use crate::support::{
    host::{Host, SOON, Setup},
    turn::{Ask, ask},
    wire::Wire,
};

async fn connect(host: &Host, agent: &str) -> Result<Socket, String> {
    Socket::connect(&host.mythra(agent), HeaderMap::new()).await.map(|(socket, _)| socket).map_err(|e| format!("{e:?}"))
}

/// How a connection ends on which something is said: its error, and the code it is closed with.
async fn refused_over_mythra(host: &Host, agent: &str) -> (String, u16) {
    let mut socket = connect(host, agent).await.unwrap();
    socket.text(&json!({ "type": "user-input", "userInput": "x" }).to_string()).await;
    let error = match socket.next(SOON).await.unwrap() {
        Heard::Text(text) => serde_json::from_str::<serde_json::Value>(&text).unwrap()["content"].clone(),
        other => panic!("{other:?}"),
    };
    match socket.next(SOON).await.unwrap() {
        Heard::End(End::Closed(code, _)) => (error.as_str().unwrap().to_owned(), code),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_days_turns_that_are_used_up_refuse_the_next_also_after_a_restart() {
    let host = Setup::serving(&["echo"]).config("[tenants.default]\nbudget.day.turns = 2").start().await;
    for _ in 0..2 {
        assert_eq!(ask(&host, "echo", "x").await.text, "x");
    }
    let refusal = Ask::agent(&host, "echo").text("x").refused().await;
    assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refusal.error, "the day's budget is used up");
    assert!((1..=86_400).contains(&refusal.retry_after()), "{refusal:?}");
    assert_eq!(refused_over_mythra(&host, "echo").await, ("the day's budget is used up".to_owned(), 1013));
    assert_eq!(host.hits("day-budget").await, 2);
    let host = host.stop_and_restart().await;
    assert_eq!(Ask::agent(&host, "echo").text("x").refused().await.error, "the day's budget is used up");
}

#[tokio::test]
async fn turns_at_once_cannot_overshoot_a_budget() {
    let host = puppet("[tenants.default]\nbudget.day.turns = 3").start().await;
    let asks = (0..8).map(|_| Ask::agent(&host, "puppet").text("sleep 300\nchat x").try_open());
    let opened = futures_util::future::join_all(asks).await;
    assert_eq!(opened.iter().filter(|opened| opened.is_ok()).count(), 3);
    for running in opened.into_iter().flatten() {
        assert_eq!(running.rest().await.text, "x");
    }
}

#[tokio::test]
async fn a_months_cpu_time_that_is_used_up_refuses_the_next_turn() {
    let host = puppet("[tenants.default]\nbudget.month.cpu-time = \"50ms\"").start().await;
    assert_eq!(ask(&host, "puppet", "spin-ms 600\nchat x").await.text, "x");
    let refusal = Ask::agent(&host, "puppet").text("chat x").refused().await;
    assert_eq!(refusal.error, "the month's budget is used up");
    assert!((1..=31 * 86_400).contains(&refusal.retry_after()), "{refusal:?}");
    assert_eq!(host.hits("month-budget").await, 1);
}

#[tokio::test]
async fn a_tenants_connections_are_bounded_and_given_back() {
    let host = Setup::serving(&["echo"]).config("[tenants.default]\nconnections = 2").start().await;
    let one = connect(&host, "echo").await.unwrap();
    let _two = connect(&host, "echo").await.unwrap();
    let refused = reqwest::Client::new()
        .get(host.http("/agents/default/echo/mythra"))
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(refused.text().await.unwrap(), r#"{"error":"too many connections"}"#);
    assert_eq!(host.hits("tenant-connections").await, 1);
    assert_eq!(ask(&host, "echo", "x").await.text, "x", "a request needs no place");
    drop(one);
    // The host hears of it a moment later.
    while connect(&host, "echo").await.is_err() {}
}

#[tokio::test]
async fn one_address_has_no_more_connections_than_it_may() {
    let host = Setup::serving(&["echo"]).config("server.connections-per-address = 3").start().await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(Wire::sending(&host, "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await);
    }
    for wire in &mut held {
        wire.until("ok", 1).await;
    }
    assert_eq!(Wire::to(&host).await.end().await, "", "one more is closed at once");
    assert_eq!(host.hits("connections-per-address").await, 1);
    drop(held);
    while reqwest::get(host.http("/healthz")).await.is_err() {}
}

#[tokio::test]
async fn a_tools_answer_that_is_too_long_is_not_handed_over_and_names_its_limit() {
    let host = puppet("limits.tool-result = \"1KiB\"").start().await;
    let write = format!("tool WriteFile {{\"filePath\":\"/a\",\"content\":\"{}\"}}", "x".repeat(2000));
    let answer = ask(&host, "puppet", &format!("{write}\nchat ,\ntool ReadFile {{\"filePath\":\"/a\"}}")).await;
    let (_, read) = answer.text.split_once(',').unwrap();
    assert!(read.contains("failed:tool-result: the answer has 2014 bytes; a turn may take 1024"), "{}", answer.text);
    assert_eq!(host.hits("tool-result").await, 1);
}

#[tokio::test]
async fn the_workspaces_of_a_tenant_are_bounded_together() {
    let host = puppet("sessions.files-per-tenant = \"1KiB\"").start().await;
    let write = |bytes: usize| format!("tool WriteFile {{\"filePath\":\"/a\",\"content\":\"{}\"}}", "x".repeat(bytes));
    assert!(ask(&host, "puppet", &write(800)).await.text.starts_with("ok:"));
    let refused = ask(&host, "puppet", &write(800)).await.text;
    assert_eq!(refused, "failed:the workspaces of this tenant are full");
    assert_eq!(host.hits("tenant-files").await, 1);
}
