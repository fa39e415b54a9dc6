//! The file beside a component: taken like the component itself, with or without it.

use std::fs;

use serde_json::json;

use super::{lines, live, put, quick, standing};
use crate::support::{
    guests,
    turn::{APOLOGY, Ask, ask},
};

#[tokio::test]
async fn the_file_beside_is_taken_when_it_comes_changes_and_goes() {
    let host = quick(&["trap"]).start().await;
    let bytes = guests::bytes("trap");
    live(&host, "default/trap", &bytes, 1).await;
    assert_eq!(ask(&host, "trap", "x").await.text, format!("x{APOLOGY}"));
    for (times, apology) in [(2, "oh"), (3, "alas")] {
        put(&host.plugin("trap.toml"), format!("[texts]\napology = \"{apology}\"\n").as_bytes());
        live(&host, "default/trap", &bytes, times).await;
        assert_eq!(ask(&host, "trap", "x").await.text, format!("x{apology}"));
    }
    fs::remove_file(host.plugin("trap.toml")).unwrap();
    live(&host, "default/trap", &bytes, 4).await;
    assert_eq!(ask(&host, "trap", "x").await.text, format!("x{APOLOGY}"));
    assert_eq!(lines(&host, "agent live"), 4, "{}", host.log());
}

#[tokio::test]
async fn a_faulty_file_beside_is_refused_with_its_line_and_the_last_good_goes_on() {
    let host = quick(&["trap"]).plugin("trap.toml", b"[texts]\napology = \"oh\"\n").start().await;
    put(&host.plugin("trap.toml"), b"markdown = \"keep\"\n\ntext.apology = \"no\"\nlimits.memory = 5\n");
    host.logged("trap.toml:3: text: unknown key; did you mean `texts`?").await;
    let fault = standing(&host, "default/trap").await["fault"].as_str().unwrap().to_owned();
    assert!(fault.contains("trap.toml:3: ") && fault.contains("trap.toml:4: limits.memory: "), "{fault}");
    assert_eq!(ask(&host, "trap", "x").await.text, "xoh");

    put(&host.plugin("trap.toml"), b"[texts]\napology = \"well\"\n");
    live(&host, "default/trap", &guests::bytes("trap"), 2).await;
    assert_eq!(ask(&host, "trap", "x").await.text, "xwell");
    assert!(standing(&host, "default/trap").await["fault"].is_null());
}

#[tokio::test]
async fn a_faulty_file_beside_keeps_a_new_agent_from_being_served_without_its_rules() {
    let host = quick(&["echo"]).plugin("one.wasm", &guests::bytes("one")).plugin("one.toml", b"\xff\xfe").start().await;
    let standing = standing(&host, "default/one").await;
    assert!(standing["version"].is_null() && standing["fault"] == "one.toml is not UTF-8", "{standing}");
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
}

#[tokio::test]
async fn both_files_that_change_at_once_are_taken_together() {
    let host = quick(&["trap"]).start().await;
    let bytes = guests::version_of("trap", 1);
    put(&host.plugin("trap.toml"), b"[texts]\napology = \"new\"\n");
    put(&host.plugin("trap.wasm"), &bytes);
    live(&host, "default/trap", &bytes, 1).await;
    assert_eq!(ask(&host, "trap", "x").await.text, "xnew");
}

#[tokio::test]
async fn a_file_beside_nothing_waits_for_its_component() {
    let host = quick(&["echo"]).plugin("trap.toml", b"[texts]\napology = \"oh\"\n").start().await;
    put(&host.plugin("trap.wasm"), &guests::bytes("trap"));
    live(&host, "default/trap", &guests::bytes("trap"), 1).await;
    assert_eq!(ask(&host, "trap", "x").await.text, "xoh");
    assert_eq!(lines(&host, "agent live agent=default/trap"), 1);
}

#[tokio::test]
async fn texts_of_an_agent_go_by_the_language_of_its_user() {
    let texts = "[texts]\napology = \"any\"\nnothing = \"nix\"\n[texts.zh]\napology = \"中\"\n[texts.en-GB]\napology = \"gb\"\n";
    let host = quick(&["trap", "mute"]).plugin("trap.toml", texts.as_bytes()).start().await;
    for (lang, said) in [("zh-CN", "中"), ("en-GB", "gb"), ("en-US", "any"), ("fr", "any")] {
        let answer = Ask::agent(&host, "trap").text("x").metadata(json!({ "lang": lang })).answer().await;
        assert_eq!(answer.text, format!("x{said}"), "{lang}");
    }
}
