//! That each turn has a fresh instance with nothing around it, and that a thousand turns leave nothing behind.

use std::time::{SystemTime, UNIX_EPOCH};

use super::puppet;
use crate::support::{
    host::{Host, Setup},
    turn::{Ask, ask},
};

/// How much larger the host may be after a thousand turns than before: room for what allocators keep, far less than a
/// thousand turns of anything.
const MARGIN: u64 = 16 * 1024 * 1024;

/// The engine gives back the memory of sixteen ended instances at once; among as many of the failures below at most three
/// filled 8 MiB. If failures left it behind, it would be four times as much.
const BATCH: u64 = 3 * 8 * 1024 * 1024;

#[tokio::test]
async fn every_turn_has_a_fresh_instance_also_after_a_failure() {
    let host = puppet("").start().await;
    for orders in ["count", "count\nchat !", "trap", "count", "alloc 8\ntrap", "count", "grow 32\ncount"] {
        let answer = ask(&host, "puppet", orders).await;
        match orders {
            "trap" => answer.assert_apology(""),
            "alloc 8\ntrap" => answer.assert_apology("ok"),
            "count\nchat !" => assert_eq!(answer.text, "1!"),
            "grow 32\ncount" => assert_eq!(answer.text, "ok1"),
            _ => assert_eq!(answer.text, "1", "{orders}"),
        }
    }
}

#[tokio::test]
async fn a_guest_finds_no_environment_no_arguments_and_no_files() {
    let host = puppet("").start().await;
    assert_eq!(ask(&host, "puppet", "env").await.text, "0 0");
    for path in ["/etc/passwd", "/", ".", "hostelry.toml", "/proc/self/environ", "../data"] {
        let answer = ask(&host, "puppet", &format!("read {path}")).await;
        assert_ne!(answer.text, "ok", "{path}");
        assert!(answer.text.chars().all(char::is_alphanumeric), "{path}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_guests_clock_tells_the_time() {
    let host = puppet("").start().await;
    let now = || u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let before = now();
    let said: u64 = ask(&host, "puppet", "now-ms").await.text.parse().unwrap();
    assert!((before..=now()).contains(&said), "{before} {said} {}", now());
}

async fn echo_turns(host: &Host, turns: usize) {
    for _ in 0..turns {
        assert_eq!(Ask::agent(host, "echo").conversation("one").text("hello there").answer().await.text, "hello there");
    }
}

#[tokio::test]
async fn a_thousand_turns_leave_memory_where_it_was() {
    let host = Setup::serving(&["echo"]).start().await;
    echo_turns(&host, 200).await;
    let before = host.resident();
    tokio::join!(echo_turns(&host, 500), echo_turns(&host, 500));
    let after = host.resident();
    assert!(after < before + MARGIN, "{before} bytes before, {after} after");
}

#[tokio::test]
async fn a_hundred_failures_leave_memory_where_it_was() {
    let host = puppet("[limits]\nmemory = \"16MiB\"\ncpu-time = \"20ms\"").start().await;
    let misdeeds = ["trap", "alloc 64", "spin", "stack", "flood 1 2097152", "alloc 8\npanic x"];
    let mut before = 0;
    for round in 0..16 {
        for orders in misdeeds {
            let answer = ask(&host, "puppet", orders).await;
            answer.assert_apology(if orders.starts_with("alloc 8") { "ok" } else { "" });
        }
        if round == 3 {
            before = host.resident();
        }
    }
    let after = host.resident();
    assert!(after < before + BATCH + MARGIN, "{before} bytes before, {after} after");
}
