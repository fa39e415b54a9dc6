//! What a guest may hold: linear memory, tables, stack; and what making its instance may take.

use serde_json::Value;

use super::{assert_fails, puppet};
use crate::support::{host::Host, turn::ask, wat};

/// A second core module, with one memory of `pages`.
fn extra_memory(name: &str, pages: u32) -> String {
    format!("(core module ${name} (memory {pages})) (core instance (instantiate ${name}))")
}

#[tokio::test]
async fn memory_that_grows_past_its_limit_is_refused_and_the_guest_can_go_on() {
    let host = puppet("limits.memory = \"16MiB\"").start().await;
    let answer = ask(&host, "puppet", "grow 8\nchat ,\ngrow 4096\nchat ,\ngrow 12\nchat ,\ngrow 1").await;
    assert_eq!(answer.text, "ok,refused,refused,ok");
}

#[tokio::test]
async fn a_guest_that_cannot_live_without_more_memory_ends() {
    let host = puppet("limits.memory = \"16MiB\"").start().await;
    assert_eq!(ask(&host, "puppet", "alloc 8").await.text, "ok");
    assert_fails(&host, "puppet", "chat x\nalloc 32", "x", "memory: the guest was refused memory beyond 16777216")
        .await;
}

/// How an agent stands.
async fn standing(host: &Host, agent: &str) -> Value {
    let agents = host.readyz().await["agents"].clone();
    agents.as_array().unwrap().iter().find(|entry| entry["agent"] == agent).cloned().unwrap_or_default()
}

#[tokio::test]
async fn all_memories_of_a_component_count_together() {
    // Each is 6 MiB, and the one that every such agent has is 256 KiB.
    let [one, two] = ["m1", "m2"].map(|name| extra_memory(name, 96));
    let fails = |by: u32| format!("(i32.eq (memory.grow (i32.const {by})) (i32.const -1))");
    // 3 MiB more than the 12.25 there are of the 16 that are allowed, and then one more.
    let body = format!("(if {} (then (unreachable))) (if (i32.eqz {}) (then (unreachable)))", fails(48), fails(16));
    let host = puppet("limits.memory = \"16MiB\"")
        .plugin("two.wasm", &wat::agent(&format!("{one} {two}"), "", "", &body))
        .start()
        .await;
    assert_eq!(ask(&host, "two", "x").await.text, crate::support::turn::NOTHING);
}

#[tokio::test]
async fn memories_that_are_too_large_from_the_start_are_refused_when_the_file_is_taken() {
    let [one, two, three] = ["m1", "m2", "m3"].map(|name| extra_memory(name, 96));
    let host = puppet("limits.memory = \"16MiB\"")
        .plugin("three.wasm", &wat::agent(&format!("{one} {two} {three}"), "", "", ""))
        .plugin("large.wasm", &wat::agent(&extra_memory("m", 32_768), "", "", ""))
        .plugin("own.wasm", &wat::agent(&one, "", "", ""))
        .plugin("own.toml", b"limits.memory = \"4MiB\"")
        .plugin("fits.wasm", &wat::agent(&one, "", "", ""))
        .start()
        .await;
    for (agent, needs, allowed) in
        [("three", 19_136_512_u64, 16_777_216), ("large", 2_147_745_792, 16_777_216), ("own", 6_553_600, 4_194_304)]
    {
        let standing = standing(&host, agent).await;
        let wanted =
            format!("its memories begin with {needs} bytes, and a turn may use {allowed} (limits.memory); hint: ");
        assert!(standing["fault"].as_str().is_some_and(|fault| fault.starts_with(&wanted)), "{standing}");
        assert!(standing["version"].is_null(), "{standing}");
    }
    assert_eq!(ask(&host, "fits", "x").await.text, crate::support::turn::NOTHING);
    assert_eq!(ask(&host, "puppet", "chat next").await.text, "next");
}

#[tokio::test]
async fn a_table_grows_to_its_limit_and_no_further() {
    let fields = "(table $t 1 funcref)";
    let grow = |by: u32, wanted: &str| {
        format!(
            "(if (i32.{wanted} (table.grow $t (ref.null func) (i32.const {by})) (i32.const -1)) (then (unreachable)))"
        )
    };
    let body = format!("{} {}", grow(19_999, "eq"), grow(1, "ne"));
    let host = puppet("").plugin("table.wasm", &wat::agent("", "", fields, &body)).start().await;
    assert_eq!(ask(&host, "table", "x").await.text, crate::support::turn::NOTHING);
}

#[tokio::test]
async fn a_table_that_is_too_large_from_the_start_does_not_load() {
    let table = "(core module $t (table 10000000 funcref)) (core instance (instantiate $t))";
    let host = puppet("").plugin("table.wasm", &wat::agent(table, "", "", "")).start().await;
    let table = standing(&host, "table").await;
    let fault = "too large to compile safely: more than 20000 elements (elements of one table)";
    assert!(table["version"].is_null() && table["fault"] == fault, "{table}");
    assert_eq!(ask(&host, "puppet", "chat next").await.text, "next");
}

#[tokio::test]
async fn endless_recursion_ends_the_guest() {
    let host = puppet("").start().await;
    assert_fails(&host, "puppet", "chat x\nstack", "x", "stack:").await;
}

#[tokio::test]
async fn a_trap_at_the_start_ends_the_turn_and_no_other() {
    let start = "(core module $s (func $f unreachable) (start $f)) (core instance (instantiate $s))";
    let host = puppet("").plugin("start.wasm", &wat::agent(start, "", "", "")).start().await;
    assert_fails(&host, "start", "x", "", "the guest trapped:").await;
}

#[tokio::test]
async fn data_that_does_not_fit_its_memory_ends_the_turn_and_no_other() {
    let data = "(core module $s (memory 1) (data (i32.const 65535) \"ab\")) (core instance (instantiate $s))";
    let host = puppet("").plugin("data.wasm", &wat::agent(data, "", "", "")).start().await;
    assert_fails(&host, "data", "x", "", "the guest trapped:").await;
}
