//! The way down: running turns end well, nothing new begins, and nobody waits for ever.

use std::time::Duration;

use reqwest::StatusCode;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout},
};

use crate::support::{
    guests,
    host::{Host, SOON, Setup},
    turn::{APOLOGY, Ask, ask},
};

/// How long the way down may take on a busy machine where nothing is to be waited for.
const QUICK: Duration = Duration::from_secs(10);

/// What the log says when the first signal came.
const TOLD: &str = "shutting down; a second signal ends at once";

async fn ends_clean(mut host: Host) {
    assert_eq!(host.ended().await.code(), Some(0), "{}", host.log());
}

#[tokio::test]
async fn a_running_turn_goes_on_to_its_end() {
    for signal in ["TERM", "INT"] {
        let host = Setup::serving(&["puppet"]).start().await;
        let mut running = Ask::agent(&host, "puppet").text("chat begin\nsleep 1500\nchat ,end").open().await;
        running.said("begin").await;
        host.signal(signal);
        host.logged(TOLD).await;
        assert_eq!(running.rest().await.text, "begin,end");
        ends_clean(host).await;
    }
}

#[tokio::test]
async fn a_turn_that_outlasts_the_drain_is_cut_with_a_well_formed_end() {
    let host = Setup::serving(&["puppet", "spin", "sleeper"])
        .config("server.drain = \"300ms\"\nlimits.cpu-time = \"60s\"")
        .start()
        .await;
    let mut talking = Ask::agent(&host, "puppet").text("chat begin\nsleep 600000").open().await;
    talking.said("begin").await;
    let spinning = Ask::agent(&host, "spin").text("x").open().await;
    let silent = Ask::agent(&host, "sleeper").text("x").open().await;
    let began = Instant::now();
    host.signal("TERM");
    for (running, before) in [(talking, "begin"), (spinning, ""), (silent, "")] {
        let answer = running.rest().await;
        assert_eq!((answer.text, answer.number), (format!("{before}{APOLOGY}"), None));
    }
    host.logged_times("turn failed: the host is shutting down", 3).await;
    ends_clean(host).await;
    assert!(began.elapsed() < QUICK, "{:?}", began.elapsed());
}

/// What `/readyz` says once it says no.
async fn until_it_is_not_ready(host: &Host) -> serde_json::Value {
    let asking = async {
        loop {
            let ready = reqwest::get(host.http("/readyz")).await.unwrap();
            if ready.status() == StatusCode::SERVICE_UNAVAILABLE {
                return ready.json().await.unwrap();
            }
        }
    };
    timeout(SOON, asking).await.expect("it stays ready")
}

#[tokio::test]
async fn nothing_new_begins_on_the_way_down() {
    let host = Setup::serving(&["puppet", "echo"]).start().await;
    let mut running = Ask::agent(&host, "puppet").text("chat begin\nsleep 2000\nchat ,end").open().await;
    running.said("begin").await;
    host.signal("TERM");
    let ready = until_it_is_not_ready(&host).await;
    assert_eq!(ready["reasons"], serde_json::json!(["shutting down"]));

    let refusal = Ask::agent(&host, "echo").text("x").refused().await;
    assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!((1..=60).contains(&refusal.retry_after()), "{refusal:?}");
    assert_eq!(reqwest::get(host.http("/healthz")).await.unwrap().status(), StatusCode::OK);

    assert_eq!(running.rest().await.text, "begin,end");
    ends_clean(host).await;
}

#[tokio::test]
async fn with_nothing_to_wait_for_the_end_comes_quickly() {
    let host = Setup::serving(&["echo"]).start().await;
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
    // Connections that say nothing, or stopped in the middle of a word, hold nobody up.
    let silent = TcpStream::connect(&host.address).await.unwrap();
    let half = TcpStream::connect(&host.address).await.unwrap();
    half.writable().await.unwrap();
    assert!(half.try_write(b"POST /agents/default/echo/lingzhu HTTP/1.1\r\nhost: h\r\ncontent-le").is_ok());
    let began = Instant::now();
    host.signal("TERM");
    ends_clean(host).await;
    assert!(began.elapsed() < QUICK, "{:?}", began.elapsed());
    drop((silent, half));
}

#[tokio::test]
async fn a_second_signal_waits_for_nothing() {
    let mut host = Setup::serving(&["sleeper"]).config("server.drain = \"10m\"").start().await;
    let running = Ask::agent(&host, "sleeper").text("x").open().await;
    host.signal("TERM");
    host.logged(TOLD).await;
    let began = Instant::now();
    host.signal("TERM");
    assert!(host.ended().await.code().is_some(), "it ended by itself, not by the signal");
    assert!(began.elapsed() < QUICK, "{:?}", began.elapsed());
    host.logged("ended at once").await;
    drop(running);
}

#[tokio::test]
async fn a_file_that_is_dropped_on_the_way_down_holds_nobody_up() {
    let host = Setup::serving(&["puppet"]).config("[reload]\nsettle = \"50ms\"\npoll = \"50ms\"").start().await;
    let mut running = Ask::agent(&host, "puppet").text("chat begin\nsleep 500\nchat ,end").open().await;
    running.said("begin").await;
    host.signal("TERM");
    std::fs::write(host.plugin("puppet.wasm"), guests::bytes("one")).unwrap();
    std::fs::write(host.plugin("late.wasm"), b"noise").unwrap();
    assert_eq!(running.rest().await.text, "begin,end");
    ends_clean(host).await;
}

#[tokio::test]
async fn a_host_that_ended_can_be_started_again_at_once_on_the_same_folder() {
    let host = Setup::serving(&["echo"]).start().await;
    assert_eq!(ask(&host, "echo", "one").await.text, "one");
    let host = host.stop_and_restart().await;
    assert_eq!(ask(&host, "echo", "two").await.text, "two");
    let host = host.kill_and_restart().await;
    assert_eq!(ask(&host, "echo", "three").await.text, "three");
}
