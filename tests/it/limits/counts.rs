//! What a turn may do how often, and how much it may hand over: events, text, tool calls, log lines, random bytes,
//! resources, and the bytes of one host call.

use super::{assert_fails, puppet};
use crate::support::{turn::ask, wat};

#[tokio::test]
async fn one_event_too_many_is_refused_and_the_turn_goes_on() {
    let host = puppet("limits.events = 3").start().await;
    let answer = ask(&host, "puppet", "chat a\nthink x\nchat b\nchat c\nchat d").await;
    assert_eq!(answer.text, "ab");
    assert_eq!(host.hits("events").await, 1);
    let answer = ask(&host, "puppet", "repeat 3 chat a\nchat b\nerr-refused").await;
    assert_eq!(answer.text, "aaaevents: a turn may emit 3");
}

#[tokio::test]
async fn text_past_the_output_limit_is_refused_and_names_it() {
    let host = puppet("limits.output = \"1KiB\"").start().await;
    let answer = ask(&host, "puppet", "flood 1 900\nflood 1 200\nrefused").await;
    assert_eq!(answer.text, format!("{}output: a turn may show 1024 bytes of text", "x".repeat(900)));
    assert_eq!(host.hits("output").await, 1);
}

#[tokio::test]
async fn thoughts_that_no_glasses_show_count_as_output_too() {
    let host = puppet("limits.output = \"1KiB\"").start().await;
    let answer = ask(&host, "puppet", &format!("think {}\nflood 1 200\nchat end", "t".repeat(900))).await;
    assert_eq!(answer.text, "end");
}

#[tokio::test]
async fn one_tool_call_too_many_is_denied_and_names_the_limit() {
    let host = puppet("limits.tool-calls = 2").start().await;
    let answer = ask(&host, "puppet", "tool-quiet take_photo\ntool nonsense\nchat ,\ntool take_photo").await;
    assert_eq!(
        answer.text,
        "unknown:there is no tool `nonsense` in this turn,denied:tool-calls: a turn may call 2 tools"
    );
    assert_eq!(answer.device().len(), 1);
    assert_eq!(host.hits("tool-calls").await, 1);
}

#[tokio::test]
async fn too_much_in_one_host_call_ends_the_guest() {
    let host = puppet("").start().await;
    assert_eq!(ask(&host, "puppet", "flood 1 900000").await.text.len(), 900_000);
    assert_fails(&host, "puppet", "chat x\nflood 1 2097152", "x", "host-call:").await;
    assert_eq!(host.hits("host-call").await, 1);
}

#[tokio::test]
async fn a_list_of_strings_that_share_their_bytes_costs_what_it_would_be_copied_to() {
    let log = r#"
  (import "hostelry:agent/log@0.1.0" (instance $log
    (type $l0 (enum "debug" "info" "warn" "error")) (export "level" (type $level (eq $l0)))
    (export "log" (func (param "level" $level) (param "message" string)))))
  (alias export $log "log" (func $log-f))
  (core func $lower (canon lower (func $log-f) (memory $memory)))
  (core instance $imports (export "log" (func $lower)))"#;
    let fields = r#"(import "log" "log" (func $log (param i32 i32 i32)))"#;
    let with = r#"(with "log" (instance $imports))"#;
    let body = "(drop (memory.grow (i32.const 300))) (call $log (i32.const 1) (i32.const 64) (i32.const 16777216))";
    let host = puppet("").plugin("large.wasm", &wat::agent(log, with, fields, body)).start().await;
    assert_fails(&host, "large", "x", "", "host-call:").await;
}

#[tokio::test]
async fn a_log_takes_what_its_budget_holds_and_says_once_that_it_is_full() {
    let host = puppet("limits.log = \"1KiB\"").start().await;
    let line = "l".repeat(99);
    let orders = format!("repeat 30 log info {line}\nrepeat 30 stdout {line}\nrepeat 30 stderr {line}\nchat end");
    assert_eq!(ask(&host, "puppet", &orders).await.text, "end");
    host.logged("turn answered").await;
    let log = host.log();
    let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(lines(&line), 4, "each line costs its 99 bytes and 128 for what stands before them:\n{log}");
    assert_eq!(lines("log: this turn logged 1024 bytes; the rest is dropped"), 1, "{log}");
    assert_eq!(host.hits("log").await, 1);
}

#[tokio::test]
async fn what_a_guest_logs_stays_on_its_line_and_commands_no_terminal() {
    let host = puppet("").start().await;
    let orders = "log warn \"a\\u001b[31mb\\nc\\u202ed\"\nstderr \"e\\u001b[2J\"\nchat end";
    assert_eq!(ask(&host, "puppet", orders).await.text, "end");
    host.logged("turn answered").await;
    let log = host.log();
    assert!(log.contains(r"a\u{1b}[31mb\nc\u{202e}d"), "{log}");
    assert!(log.contains(r"e\u{1b}[2J"), "{log}");
    assert!(!log.contains('\u{1b}') && !log.contains('\u{202e}'), "{log}");
}

#[tokio::test]
async fn random_bytes_are_bounded_and_never_twice_the_same() {
    let random = r#"
  (import "wasi:random/random@0.2.0" (instance $random
    (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))
  (alias export $random "get-random-bytes" (func $bytes-f))
  (core func $lower (canon lower (func $bytes-f) (memory $memory) (realloc $realloc)))
  (core instance $imports (export "bytes" (func $lower)))"#;
    let fields = r#"(import "random" "bytes" (func $bytes (param i64 i32)))"#;
    let with = r#"(with "random" (instance $imports))"#;
    let asks =
        |bytes: u64| wat::agent(random, with, fields, &format!("(call $bytes (i64.const {bytes}) (i32.const 32))"));
    let host = puppet("")
        .plugin("fair.wasm", &asks(65_536))
        .plugin("greedy.wasm", &asks(65_537))
        .plugin("greediest.wasm", &asks(1 << 32))
        .start()
        .await;
    assert_eq!(ask(&host, "fair", "x").await.text, crate::support::turn::NOTHING);
    assert_fails(&host, "greedy", "x", "", "").await;
    assert_fails(&host, "greediest", "x", "", "").await;
    assert_eq!(host.hits("random").await, 2);
    let [one, other] = [ask(&host, "puppet", "random 32").await.text, ask(&host, "puppet", "random 32").await.text];
    assert_eq!((one.len(), other.len()), (64, 64));
    assert_ne!(one, other);
}

#[tokio::test]
async fn resources_that_are_never_given_back_end_the_guest() {
    let clock = r#"
  (import "wasi:io/poll@0.2.0" (instance $poll (export "pollable" (type (sub resource)))))
  (alias export $poll "pollable" (type $pollable))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $clock
    (alias outer 1 $pollable (type $p)) (export "pollable" (type $own (eq $p)))
    (export "subscribe-duration" (func (param "when" u64) (result (own $own))))))
  (alias export $clock "subscribe-duration" (func $subscribe-f))
  (core func $lower (canon lower (func $subscribe-f)))
  (core instance $imports (export "subscribe" (func $lower)))"#;
    let fields = r#"(import "clock" "subscribe" (func $subscribe (param i64) (result i32)))"#;
    let with = r#"(with "clock" (instance $imports))"#;
    let times = |count: u32| {
        let body = format!(
            "(local $n i32) (loop $l (drop (call $subscribe (i64.const 1000000000)))
               (local.set $n (i32.add (local.get $n) (i32.const 1)))
               (br_if $l (i32.lt_u (local.get $n) (i32.const {count}))))"
        );
        wat::agent(clock, with, fields, &body)
    };
    let host = puppet("limits.handles = 100")
        .plugin("few.wasm", &times(40))
        .plugin("many.wasm", &times(1_000_000))
        .start()
        .await;
    assert_eq!(ask(&host, "few", "x").await.text, crate::support::turn::NOTHING);
    assert_fails(&host, "many", "x", "", "handles:").await;
    assert_eq!(host.hits("handles").await, 1);
}

#[tokio::test]
async fn one_open_thing_too_many_is_refused_and_the_turn_goes_on() {
    let host = puppet("").start().await;
    let start = |n: usize| format!("iteration-start i{n}\n");
    let open = |count: usize| (0..count).map(start).collect::<String>();
    assert_eq!(ask(&host, "puppet", &format!("{}iteration-end i0\nchat x", open(64))).await.text, "x");
    assert_eq!(host.hits("open-pairs").await, 0);
    let answer = ask(&host, "puppet", &format!("{}iteration-end i0\nrefused", open(65))).await;
    assert_eq!(answer.text, "more than 64 things are open at once; end some first");
    assert_eq!(host.hits("open-pairs").await, 1);
}

#[tokio::test]
async fn a_name_or_a_question_that_is_too_long_is_refused_and_the_turn_goes_on() {
    let host = puppet("").start().await;
    let long = "n".repeat(257);
    for orders in [
        format!("iteration-start {}\niteration-start {long}", "n".repeat(256)),
        format!("run-start {long} {{}}"),
        format!("follow-up [\"{}\"]", "q".repeat(1025)),
    ] {
        let before = host.hits("names").await;
        let answer = ask(&host, "puppet", &format!("{orders}\nchat x")).await;
        assert_eq!(answer.text, "x", "{orders}");
        assert_eq!(host.hits("names").await, before + 1, "{orders}");
    }
}
