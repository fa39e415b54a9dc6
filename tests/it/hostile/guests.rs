//! Guests that do what they may not, one for each bound of a turn, and two tenants that attack a third. Each time: the
//! client's stream ends well, the next turn is served, the host's memory is where it was, and just the right bound is
//! counted, once.

use serde_json::Value;

use crate::support::{
    guests,
    host::{Host, Setup},
    turn::{Ask, ask},
    wat,
};

/// What the host's memory may have grown by once a turn is over: what the engine keeps of ended instances, and what
/// allocators do.
const MARGIN: u64 = 96 * 1024 * 1024;

const CONFIG: &str = "limits.memory = \"16MiB\"\nlimits.cpu-time = \"100ms\"\nlimits.turn-time = \"1s\"\nlimits.events = 100\n\
    limits.output = \"1MiB\"\nlimits.tool-calls = 3\nlimits.log = \"4KiB\"\nlimits.handles = 100\n";

fn puppet() -> Setup {
    Setup::serving(&["puppet", "echo"]).plugin("puppet.toml", b"markdown = \"keep\"").config(CONFIG)
}

/// All limits and how often each was run into.
async fn hits(host: &Host) -> Vec<(String, u64)> {
    let text = reqwest::get(format!("http://{}/metrics", host.admin)).await.unwrap().text().await.unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("hostelry_limit_hits_total{limit=\""));
    let hit = |line: &str| {
        let (limit, rest) = line.split_once('"')?;
        Some((limit.to_owned(), rest.rsplit_once(' ')?.1.parse().ok()?))
    };
    lines.filter_map(hit).filter(|(_, count)| *count > 0).collect()
}

/// Has the puppet do something, and checks all that must hold whatever it does.
async fn suffer(orders: &str, said: Option<&str>, limit: &str) {
    let host = puppet().start().await;
    assert_eq!(ask(&host, "echo", "before").await.text, "before");
    let before = host.resident();
    let answer = ask(&host, "puppet", orders).await;
    match said {
        Some(said) => assert_eq!(answer.text, said, "{orders}"),
        None => answer.assert_apology(""),
    }
    assert_eq!(ask(&host, "echo", "after").await.text, "after");
    let after = host.resident();
    assert!(after < before + MARGIN, "{orders}: {before} bytes before, {after} after");
    let expected: Vec<_> = (!limit.is_empty()).then(|| (limit.to_owned(), 1)).into_iter().collect();
    assert_eq!(hits(&host).await, expected, "{orders}");
}

#[tokio::test]
async fn a_loop_without_end() {
    suffer("spin", None, "cpu-time").await;
}

#[tokio::test]
async fn a_sleep_without_end() {
    suffer("sleep 600000", None, "turn-time").await;
}

#[tokio::test]
async fn recursion_without_end() {
    suffer("stack", None, "stack").await;
}

#[tokio::test]
async fn memory_without_end() {
    suffer("alloc 64", None, "memory").await;
}

#[tokio::test]
async fn memory_that_is_refused_and_not_needed() {
    suffer("grow 64", Some("refused"), "memory").await;
}

#[tokio::test]
async fn a_hundred_megabytes_in_one_event() {
    suffer("flood 1 8388608", None, "host-call").await;
}

#[tokio::test]
async fn more_events_than_a_turn_may_emit() {
    suffer("repeat 120 think x\nchat never", Some("我暂时没有可以回答的内容。"), "events").await;
}

#[tokio::test]
async fn more_text_than_a_turn_may_show() {
    suffer("repeat 3 flood 1 600000", Some(&"x".repeat(600_000)), "output").await;
}

#[tokio::test]
async fn more_tool_calls_than_a_turn_may_make() {
    suffer("repeat 5 tool-quiet ListFiles\nchat x", Some("x"), "tool-calls").await;
}

#[tokio::test]
async fn a_log_without_end() {
    suffer("repeat 200 log info 0123456789\nchat x", Some("x"), "log").await;
}

#[tokio::test]
async fn more_things_open_than_may_be() {
    let starts: Vec<_> = (0..66).map(|n| format!("iteration-start i{n}")).collect();
    suffer(&format!("{}\niteration-end i0\nchat x", starts.join("\n")), Some("x"), "open-pairs").await;
}

#[tokio::test]
async fn a_trap_is_no_limit() {
    suffer("trap", None, "").await;
}

#[tokio::test]
async fn a_failed_turn_leaves_a_card_that_its_number_finds_and_that_holds_nothing_of_what_was_said() {
    let host = puppet().start().await;
    let answer =
        ask(&host, "puppet", "chat secret-answer\nfact secret-key\ntool-quiet ListFiles\npanic secret-panic").await;
    answer.assert_apology("secret-answernone");
    let number = answer.number.unwrap();
    let url = format!("http://{}/api/failures/{number}", host.admin);
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
    let card: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((&card["agent"], &card["cause"]), (&"puppet".into(), &"trap".into()), "{text}");
    assert!(card["id"].as_str().unwrap().starts_with(&number), "{text}");
    assert!(!card["backtrace"].as_array().unwrap().is_empty(), "{text}");
    assert!(
        card["calls"].as_array().unwrap().iter().any(|call| call.as_str().unwrap().contains("ListFiles")),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
}

#[tokio::test]
async fn a_card_names_the_functions_that_the_guest_was_in_where_the_component_tells_them() {
    let functions = "(func $deep_in_it unreachable) (func $on_the_way (call $deep_in_it))";
    let host = puppet().plugin("named.wasm", &wat::agent("", "", functions, "(call $on_the_way)")).start().await;
    let number = ask(&host, "named", "x").await.number.unwrap();
    let url = format!("http://{}/api/failures/{number}", host.admin);
    let card: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
    let frames: Vec<_> = card["backtrace"].as_array().unwrap().iter().map(|frame| frame.as_str().unwrap()).collect();
    assert!(frames[0].contains("deep_in_it") && frames[1].contains("on_the_way"), "{frames:#?}");
}

#[tokio::test]
async fn a_tenant_with_many_loops_gets_no_more_than_one_with_a_single_loop() {
    let config = "limits.cpu-time = \"1min\"\nlimits.turn-time = \"3s\"\n[tenants.many]\n[tenants.one]\n";
    let puppet = guests::bytes("puppet");
    let setup = Setup::default().plugin("many/puppet.wasm", &puppet).plugin("one/puppet.wasm", &puppet);
    let host = setup.config(config).start().await;
    let many = (0..20).map(|_| Ask::at(&host, "many", "puppet").text("spin").answer());
    let (one, _) =
        tokio::join!(Ask::at(&host, "one", "puppet").text("spin").answer(), futures_util::future::join_all(many));
    one.assert_apology("");
    let used = async |tenant: &str| {
        let text = reqwest::get(format!("http://{}/metrics", host.admin)).await.unwrap().text().await.unwrap();
        let name = format!("hostelry_cpu_seconds_total{{tenant=\"{tenant}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&name)).unwrap().parse::<f64>().unwrap()
    };
    let (many, one) = (used("many").await, used("one").await);
    // Without shares it would be twenty to one. On a busy machine the single loop may come late to a core of its own.
    assert!(many < one * 3.0 && one < many * 3.0, "twenty loops had {many} s of CPU time, one had {one} s");
}

#[tokio::test]
async fn two_tenants_that_attack_do_not_keep_a_third_from_being_served() {
    let config = "limits.cpu-time = \"2s\"\nlimits.turn-time = \"4s\"\n[tenants.a]\n[tenants.b]\n[tenants.c]\n";
    let puppet = guests::bytes("puppet");
    let setup = Setup::default()
        .plugin("a/puppet.wasm", &puppet)
        .plugin("b/puppet.wasm", &puppet)
        .plugin("c/echo.wasm", &guests::bytes("echo"));
    let host = setup.config(config).start().await;
    let attack = |tenant: &str, orders: &str| {
        let asks = (0..32).map(|_| Ask::at(&host, tenant, "puppet").text(orders).try_open());
        futures_util::future::join_all(asks)
    };
    let (spinning, flooding) = tokio::join!(attack("a", "spin"), attack("b", "repeat 100000 flood 100 9000"));
    // They run all the while: their streams are not read yet.
    for n in 0..20 {
        let text = format!("turn {n}");
        assert_eq!(Ask::at(&host, "c", "echo").text(&text).answer().await.text, text);
    }
    for running in spinning.into_iter().chain(flooding).flatten() {
        running.rest().await;
    }
    assert_eq!(Ask::at(&host, "c", "echo").text("after").answer().await.text, "after");
}
