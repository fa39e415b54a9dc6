//! What a turn may take of time: on a CPU, on the clock, in one tool; and that a guest that takes all it can of the CPU
//! keeps no other from answering.

use std::time::Duration;

use tokio::{
    net::TcpListener,
    time::{Instant, timeout},
};

use super::{assert_fails, puppet};
use crate::support::{
    guests,
    host::{Host, SOON, Setup},
    turn::{Ask, ask},
    wat,
};

/// How late a deadline may be on a busy machine before something is wrong.
const LATE: Duration = Duration::from_secs(10);

/// Checks that the host runs `turns` turns now, or soon.
async fn runs(host: &Host, turns: u64) {
    let wait = async {
        while host.readyz().await["turns"] != turns {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, wait).await.unwrap_or_else(|_| panic!("there never are {turns} turns"));
}

#[tokio::test]
async fn a_guest_that_computes_for_ever_ends_when_its_cpu_time_is_used_up() {
    let host = puppet("limits.cpu-time = \"200ms\"").start().await;
    assert_eq!(ask(&host, "puppet", "spin-ms 20\nchat well").await.text, "well");
    let began = Instant::now();
    assert_fails(&host, "puppet", "chat x\nspin", "x", "cpu-time: the guest used more than 200ms").await;
    assert_eq!(host.hits("cpu-time").await, 1);
    assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_guest_that_loops_over_host_calls_ends_as_well() {
    let setup = puppet("[limits]\ncpu-time = \"200ms\"\nevents = 3").plugin("flood.wasm", &guests::bytes("flood"));
    let host = setup.start().await;
    assert_fails(&host, "flood", "x", "flood flood flood ", "cpu-time:").await;
}

#[tokio::test]
async fn bulk_instructions_end_too() {
    let body = "(loop $l (memory.fill (i32.const 64) (i32.const 1) (i32.const 33554432)) (br $l))";
    let grow = "(if (i32.eq (memory.grow (i32.const 600)) (i32.const -1)) (then unreachable))";
    let fill = wat::agent("", "", "", &format!("{grow} {body}"));
    let host = puppet("limits.cpu-time = \"200ms\"").plugin("fill.wasm", &fill).start().await;
    assert_fails(&host, "fill", "x", "", "cpu-time:").await;
}

#[tokio::test]
async fn waiting_costs_no_cpu_time() {
    let host = puppet("limits.cpu-time = \"200ms\"").start().await;
    assert_eq!(ask(&host, "puppet", "sleep 1000\nchat well").await.text, "well");
}

#[tokio::test]
async fn a_loop_before_the_first_call_ends_as_well() {
    let setup = puppet("limits.cpu-time = \"200ms\"").plugin("starter.wasm", &guests::bytes("starter"));
    let host = setup.start().await;
    assert_fails(&host, "starter", "x", "", "cpu-time:").await;
}

#[tokio::test]
async fn a_loop_in_a_start_function_ends_as_well() {
    let start = "(core module $s (func $f (loop $l (br $l))) (start $f)) (core instance (instantiate $s))";
    let setup = puppet("limits.cpu-time = \"200ms\"").plugin("start.wasm", &wat::agent(start, "", "", ""));
    let host = setup.start().await;
    assert_fails(&host, "start", "x", "", "cpu-time:").await;
}

#[tokio::test]
async fn a_guest_that_sleeps_for_ever_ends_with_its_turns_time() {
    for config in ["limits.turn-time = \"300ms\"", "lingzhu.turn-time = \"300ms\""] {
        let setup = Setup::serving(&["puppet", "sleeper"]).config(config);
        let host = setup.start().await;
        let began = Instant::now();
        assert_fails(&host, "sleeper", "x", "", "turn-time: the turn took longer than 300ms").await;
        assert_eq!(host.hits("turn-time").await, 1);
        assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_tool_that_never_answers_times_out_and_the_guest_goes_on() {
    // A server that takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent = tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            open.push(stream);
        }
    });
    let config =
        format!("[limits]\ntool-time = \"300ms\"\n[tenants.default]\ntools = [\"http/*\"]\nhttp = [\"{address}\"]\n");
    let host = puppet(&config).start().await;
    let orders = format!("tool fetch_image {{\"url\":\"http://{address}/a.png\"}}\nchat ,well");
    assert_eq!(ask(&host, "puppet", &orders).await.text, "timeout,well");
    assert_eq!(host.hits("tool-time").await, 1);
    silent.abort();
}

#[tokio::test]
async fn a_turns_time_ends_a_tool_that_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config =
        format!("limits.turn-time = \"300ms\"\n[tenants.default]\ntools = [\"http/*\"]\nhttp = [\"{address}\"]\n");
    let host = puppet(&config).start().await;
    let orders = format!("chat x\ntool fetch_image {{\"url\":\"http://{address}/a.png\"}}");
    assert_fails(&host, "puppet", &orders, "x", "turn-time:").await;
}

#[tokio::test]
async fn a_guest_that_takes_all_of_a_cpu_keeps_nobody_waiting() {
    let host = Setup::serving(&["spin", "echo"]).config("limits.cpu-time = \"60s\"").start().await;
    let spins = Ask::agent(&host, "spin").text("x").open().await;
    runs(&host, 1).await;
    for _ in 0..5 {
        assert_eq!(ask(&host, "echo", "hello").await.text, "hello");
    }
    runs(&host, 1).await;
    drop(spins);
    host.logged("turn ended: the client left").await;
}

#[tokio::test]
async fn ten_guests_that_spin_keep_another_tenants_agent_from_nothing() {
    let config = "limits.cpu-time = \"60s\"\n[tenants.default]\n[tenants.acme]\n";
    let setup = Setup::serving(&["spin"]).plugin("acme/echo.wasm", &guests::bytes("echo")).config(config);
    let host = setup.start().await;
    let mut spinning = Vec::new();
    for _ in 0..10 {
        spinning.push(Ask::agent(&host, "spin").text("x").open().await);
    }
    runs(&host, 10).await;
    let began = Instant::now();
    for _ in 0..5 {
        assert_eq!(Ask::at(&host, "acme", "echo").text("hello").answer().await.text, "hello");
    }
    assert!(began.elapsed() < LATE, "five answers took {:?}", began.elapsed());
    // All of them spin on.
    runs(&host, 10).await;
    drop(spinning);
    host.logged_times("turn ended: the client left", 10).await;
    runs(&host, 0).await;
}
