//! Files that do not fit: each is refused in words that its author can act on, and hinders nobody.

use std::fs;

use reqwest::StatusCode;

use super::{lines, live, polling, put, quick, standing};
use crate::support::{
    guests,
    host::Setup,
    turn::{APOLOGY, Ask, ask},
    wat,
};

/// Bytes that are no agent, and what the refusal must say.
fn unfit() -> Vec<(&'static str, Vec<u8>, &'static [&'static str])> {
    let scrambled = {
        let mut bytes = guests::bytes("echo");
        let half = bytes.len() / 2;
        bytes[half..].reverse();
        bytes
    };
    let wrong_type = r#"(component
      (core module $m (func (export "handle") (result i32) i32.const 0))
      (core instance $i (instantiate $m))
      (func $h (result u32) (canon lift (core func $i "handle")))
      (instance $handler (export "handle" (func $h)))
      (export "hostelry:agent/handler@0.1.0" (instance $handler)))"#;
    let nested = (0..12).fold("(component)".to_owned(), |inner, _| format!("(component {inner})"));
    vec![
        ("noise", b"\x01\x02\x03 not at all".to_vec(), &["this is not WebAssembly", "hint: drop a component"]),
        ("text", b"(component)".to_vec(), &["WebAssembly text", "wasm-tools parse"]),
        ("native", b"\x7fELF\x02\x01\x01".to_vec(), &["precompiled or native code", "never loaded"]),
        ("core", wat::parse("(module)"), &["a core module, not a component", "wasm32-wasip2"]),
        ("scrambled", scrambled, &["not valid"]),
        ("empty", wat::parse("(component)"), &["does not export hostelry:agent/handler@0.1.0", "world `agent`"]),
        ("new-export", wat::agent_of("0.2.0", "", "", "", ""), &["wrong contract version", "@0.2.0", "@0.1.0"]),
        (
            "new-import",
            wat::parse("(component (import \"hostelry:agent/host@0.2.0\" (instance)))"),
            &["wrong contract version: the component imports hostelry:agent/host@0.2.0", "serves hostelry:agent@0.1.0"],
        ),
        (
            "stranger",
            wat::parse("(component (import \"acme:weather/now@1.0.0\" (instance)))"),
            &["imports acme:weather/now@1.0.0, which this host does not have", "hint:"],
        ),
        (
            "http",
            wat::parse("(component (import \"wasi:http/outgoing-handler@0.2.3\" (instance)))"),
            &["imports wasi:http/outgoing-handler@0.2.3", "call-tool"],
        ),
        (
            "async-wasi",
            wat::parse("(component (import \"wasi:clocks/monotonic-clock@0.3.0\" (instance)))"),
            &["imports wasi:clocks/monotonic-clock@0.3.0", "WASI 0.2"],
        ),
        ("wrong-type", wat::parse(wrong_type), &["does not fit the contract"]),
        ("deep", wat::parse(&nested), &["too large to compile safely"]),
        ("memory64", wat::parse("(component (core module (memory i64 1)))"), &["not valid"]),
        ("shared", wat::parse("(component (core module (memory 1 1 shared)))"), &["not valid"]),
    ]
}

#[tokio::test]
async fn every_unfit_file_says_what_is_wrong_and_the_good_ones_beside_it_are_served() {
    let mut setup = Setup::serving(&["echo", "one"]);
    for (name, bytes, _) in unfit() {
        setup = setup.plugin(&format!("{name}.wasm"), &bytes);
    }
    let host = setup.start().await;
    for (name, _, words) in unfit() {
        let standing = standing(&host, &format!("default/{name}")).await;
        let fault = standing["fault"].as_str().unwrap_or_else(|| panic!("{name}: {standing}"));
        for word in words {
            assert!(fault.contains(word), "{name}: {word:?} is not in {fault:?}");
        }
        assert!(standing["version"].is_null());
        assert!(!fault.contains('\n') && fault.len() < 2048, "{fault}");
        host.logged(&format!("agent=default/{name}")).await;
        assert_eq!(Ask::agent(&host, name).text("x").refused().await.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(ask(&host, "echo", "hello").await.text, "hello");
    assert_eq!(ask(&host, "one", "x").await.text, "one");
    assert_eq!(host.readyz().await["live"], 2);
}

#[tokio::test]
async fn every_unfit_file_over_a_good_one_leaves_the_good_one_serving() {
    let host = quick(&["echo"]).start().await;
    for (index, (name, bytes, words)) in (1..).zip(unfit()) {
        put(&host.plugin("echo.wasm"), &bytes);
        host.logged_times("; the version before goes on agent=default/echo", index).await;
        let standing = standing(&host, "default/echo").await;
        assert!(standing["fault"].as_str().is_some_and(|fault| fault.contains(words[0])), "{name}: {standing}");
        assert!(standing["version"].is_string(), "{name}: {standing}");
        assert_eq!(ask(&host, "echo", "hello").await.text, "hello");
    }
}

#[tokio::test]
async fn a_good_file_clears_the_fault_of_the_bad_one_before_it() {
    let host = quick(&["one"]).start().await;
    put(&host.plugin("one.wasm"), b"noise");
    host.logged("this is not WebAssembly").await;
    assert!(standing(&host, "default/one").await["fault"].is_string());

    put(&host.plugin("one.wasm"), &guests::bytes("two"));
    live(&host, "default/one", &guests::bytes("two"), 1).await;
    assert!(standing(&host, "default/one").await["fault"].is_null());
    assert_eq!(ask(&host, "one", "x").await.text, "two");

    // Bad, and then the version that serves anyway: the fault goes although nothing new is compiled.
    put(&host.plugin("one.wasm"), b"noise");
    host.logged_times("this is not WebAssembly", 2).await;
    put(&host.plugin("one.wasm"), &guests::bytes("two"));
    while standing(&host, "default/one").await["fault"].is_string() {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&host, "one", "x").await.text, "two");
    assert_eq!(host.readyz().await["faulty"], 0);
}

#[tokio::test]
async fn a_bad_file_is_tried_once_however_often_the_folder_is_looked_through() {
    let host = polling(&["one"]).start().await;
    put(&host.plugin("one.wasm"), b"noise");
    host.logged("this is not WebAssembly").await;
    // Each of these makes the host look through the folder several times.
    for n in 0..5 {
        let bytes = guests::version_of("two", n);
        put(&host.plugin("two.wasm"), &bytes);
        live(&host, "default/two", &bytes, 1).await;
    }
    assert_eq!(lines(&host, "this is not WebAssembly"), 1, "{}", host.log());
}

#[tokio::test]
async fn a_file_that_stays_cut_off_is_told_so_and_the_last_good_goes_on() {
    let host = quick(&["one"]).start().await;
    let bytes = guests::bytes("two");
    put(&host.plugin("one.wasm"), &bytes[..bytes.len() / 2]);
    let line = host.logged("the file is incomplete: it ends in the middle of a section").await;
    assert!(line.contains("the version before goes on"), "{line}");
    assert_eq!(ask(&host, "one", "x").await.text, "one");
    put(&host.plugin("one.wasm"), &bytes);
    live(&host, "default/one", &bytes, 1).await;
}

#[tokio::test]
async fn a_file_that_stays_empty_is_told_so() {
    let host = quick(&["one"]).start().await;
    fs::write(host.plugin("two.wasm"), b"").unwrap();
    host.logged("the file is empty; hint: copy it again agent=default/two").await;
    assert_eq!(standing(&host, "default/two").await["fault"], "the file is empty; hint: copy it again");
    assert_eq!(ask(&host, "one", "x").await.text, "one");
}

#[tokio::test]
async fn a_file_that_is_larger_than_allowed_is_refused_by_name_of_the_limit() {
    let config = "[reload]\nsettle = \"50ms\"\nmax-size = \"1MiB\"";
    let huge = wat::padded(guests::bytes("one"), 1024 * 1024);
    let host = Setup::serving(&["echo"]).plugin("huge.wasm", &huge).config(config).start().await;
    let fault = standing(&host, "default/huge").await["fault"].as_str().unwrap().to_owned();
    assert_eq!(fault, "the file is larger than 1048576 bytes (reload.max-size)");
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
}

#[tokio::test]
async fn a_huge_custom_section_costs_nothing_but_its_bytes() {
    let large = wat::padded(guests::bytes("one"), 32 * 1024 * 1024);
    let host = Setup::serving(&["echo"]).plugin("large.wasm", &large).start().await;
    assert_eq!(ask(&host, "large", "x").await.text, "one");
}

#[tokio::test]
async fn an_agent_that_fails_at_run_time_is_no_fault_of_its_file() {
    let host = quick(&["trap"]).start().await;
    assert_eq!(ask(&host, "trap", "x").await.text, format!("x{APOLOGY}"));
    assert!(standing(&host, "default/trap").await["fault"].is_null());
    fs::remove_file(host.plugin("trap.wasm")).unwrap();
    host.logged("agent withdrawn: its file is gone agent=default/trap").await;
}
