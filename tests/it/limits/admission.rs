//! Who may begin a turn: turns at once of a tenant and of the host, and turns a minute.

use reqwest::StatusCode;

use crate::support::{
    guests,
    host::Setup,
    turn::{Ask, ask},
};

#[tokio::test]
async fn a_tenants_turns_at_once_are_bounded_and_another_tenant_does_not_notice() {
    let config = "[tenants.default]\nconcurrent-turns = 2\n[tenants.acme]\n";
    let setup = Setup::serving(&["sleeper", "echo"]).plugin("acme/echo.wasm", &guests::bytes("echo")).config(config);
    let host = setup.start().await;
    let one = Ask::agent(&host, "sleeper").text("x").open().await;
    let two = Ask::agent(&host, "sleeper").text("x").open().await;

    let refusal = Ask::agent(&host, "echo").text("x").refused().await;
    assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refusal.error, "too many turns at once");
    assert_eq!(host.hits("tenant-concurrent-turns").await, 1);
    assert!((1..=60).contains(&refusal.retry_after()));
    assert_eq!(Ask::at(&host, "acme", "echo").text("hello").answer().await.text, "hello");

    drop(one);
    host.logged("turn ended: the client left").await;
    // The permit is given back a moment after the line.
    let again = loop {
        match Ask::agent(&host, "echo").text("again").try_open().await {
            Ok(running) => break running.rest().await,
            Err(refusal) => assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS),
        }
    };
    assert_eq!(again.text, "again");
    drop(two);
}

#[tokio::test]
async fn the_hosts_turns_at_once_are_bounded() {
    let host = Setup::serving(&["sleeper", "echo"]).config("server.concurrent-turns = 1").start().await;
    let one = Ask::agent(&host, "sleeper").text("x").open().await;
    let refusal = Ask::agent(&host, "echo").text("x").refused().await;
    assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refusal.error, "the server is busy");
    assert_eq!(host.hits("concurrent-turns").await, 1);
    assert!((1..=60).contains(&refusal.retry_after()));
    drop(one);
}

#[tokio::test]
async fn as_many_turns_as_the_host_may_run_do_run() {
    let host = Setup::serving(&["puppet"]).config("server.concurrent-turns = 8").start().await;
    let turns = (0..8).map(|_| Ask::agent(&host, "puppet").text("sleep 300\nchat well").answer());
    for answer in futures_util::future::join_all(turns).await {
        assert_eq!(answer.text, "well");
    }
}

#[tokio::test]
async fn turns_a_minute_are_bounded() {
    let host = Setup::serving(&["echo"]).config("[tenants.default]\nturns-per-minute = 2").start().await;
    for _ in 0..2 {
        assert_eq!(ask(&host, "echo", "x").await.text, "x");
    }
    let refusal = Ask::agent(&host, "echo").text("x").refused().await;
    assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(refusal.error, "too many requests");
    assert_eq!(host.hits("turns-per-minute").await, 1);
    assert!((1..=60).contains(&refusal.retry_after()), "{refusal:?}");
}
