//! Files that can be no agent at all: told with the reason, never waited for, never read from outside the folder.

use std::{fs, os::unix::fs::symlink, process::Command};

use reqwest::StatusCode;
use serde_json::Value;

use super::{live, put, quick, standing};
use crate::support::{
    guests,
    host::{Host, Setup},
    turn::{Ask, ask},
    wat,
};

/// Why a file can be no agent, as `/readyz` says it.
async fn stray(host: &Host, file: &str) -> String {
    let readyz = host.readyz().await;
    let strays = readyz["strays"].as_array().unwrap();
    let found = strays.iter().find(|stray| stray["file"] == file);
    found.unwrap_or_else(|| panic!("{file:?} is not in {readyz}"))["fault"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn names_that_no_agent_can_have_are_told() {
    let one = guests::bytes("one");
    let mut setup = Setup::serving(&["echo"]);
    let bad = ["Echo.wasm", "a_b.wasm", "-a.wasm", "a b.wasm", "é.wasm", "a.b.wasm", "a\nb.wasm"];
    for name in bad {
        setup = setup.plugin(name, &one);
    }
    let [long, longest] = [64, 63].map(|length| "x".repeat(length));
    let host = setup.plugin(&format!("{long}.wasm"), &one).plugin(&format!("{longest}.wasm"), &one).start().await;
    for name in bad {
        let why = stray(&host, &name.replace('\n', "\\n")).await;
        assert!(why.contains("no agent can have this name") && why.contains("[a-z0-9][a-z0-9-]{0,62}"), "{why}");
    }
    stray(&host, &format!("{long}.wasm")).await;
    assert_eq!(ask(&host, &longest, "x").await.text, "one", "63 characters are a name");
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
}

#[tokio::test]
async fn files_that_are_no_plugins_are_nobodys_business() {
    let one = guests::bytes("one");
    let host = Setup::serving(&["echo"])
        .plugin(".one.wasm", &one)
        .plugin("..data/one.wasm", &one)
        .plugin("README.md", b"x")
        .plugin("other.toml", b"not = [toml")
        .plugin("acme/notes.txt", b"x")
        .start()
        .await;
    let readyz = host.readyz().await;
    assert_eq!((&readyz["live"], &readyz["faulty"]), (&Value::from(1), &Value::from(0)), "{readyz}");
}

#[tokio::test]
async fn precompiled_code_is_never_loaded() {
    let host = Setup::serving(&["echo"]).plugin("fast.cwasm", b"\x7fELF").start().await;
    let why = stray(&host, "fast.cwasm").await;
    assert_eq!(why, "precompiled code is never loaded; drop the .wasm component itself");
    assert_eq!(Ask::agent(&host, "fast").text("x").refused().await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_component_whose_ending_is_in_capitals_is_told() {
    let host = Setup::serving(&["echo"]).plugin("hello.WASM", &guests::bytes("one")).start().await;
    let why = stray(&host, "hello.WASM").await;
    assert_eq!(why, "a component's file ends in .wasm, in small letters; hint: call it hello.wasm");
}

#[tokio::test]
async fn what_is_no_regular_file_or_leads_out_of_the_folder_is_never_opened() {
    let host = quick(&["echo"]).start().await;
    // A pipe that nobody writes to: who opens it waits for ever.
    let made = Command::new("mkfifo").arg(host.plugin("pipe.wasm")).status().unwrap();
    assert!(made.success());
    symlink("/dev/zero", host.plugin("device.wasm")).unwrap();
    fs::write(host.dir().join("outside.wasm"), guests::bytes("one")).unwrap();
    symlink("../outside.wasm", host.plugin("out.wasm")).unwrap();
    symlink(host.dir(), host.plugin("folder")).unwrap();
    symlink("nowhere.wasm", host.plugin("dangling.wasm")).unwrap();
    fs::create_dir(host.plugin("dir.wasm")).unwrap();
    fs::create_dir_all(host.plugin("default/deep.wasm")).unwrap();
    put(&host.plugin("two.wasm"), &guests::bytes("two"));
    live(&host, "default/two", &guests::bytes("two"), 1).await;
    for (file, word) in [
        ("pipe.wasm", "no regular file"),
        ("device.wasm", "no regular file"),
        ("out.wasm", "leads out of the plugins folder"),
        ("folder", "leads out of the plugins folder"),
        ("dir.wasm", "no tenant can have this name"),
        ("default/deep.wasm", "no regular file"),
    ] {
        let why = stray(&host, file).await;
        assert!(why.contains(word), "{file}: {why}");
    }
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
}

#[tokio::test]
async fn a_file_beside_a_component_that_leads_out_of_the_folder_is_never_opened() {
    let host = quick(&["echo"]).start().await;
    fs::write(host.dir().join("secret.toml"), "markdown = \"keep\"").unwrap();
    symlink("../secret.toml", host.plugin("one.toml")).unwrap();
    put(&host.plugin("one.wasm"), &guests::bytes("one"));
    host.logged("this link leads out of the plugins folder").await;
    stray(&host, "one.toml").await;
    assert_eq!(Ask::agent(&host, "one").text("x").refused().await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn of_two_files_that_are_one_agent_one_is_served_and_the_other_told() {
    let setup = Setup::serving(&[]).plugin("x.wasm", &guests::bytes("one"));
    let host = setup.plugin("default/x.wasm", &guests::bytes("two")).start().await;
    assert_eq!(ask(&host, "x", "x").await.text, "two");
    assert_eq!(stray(&host, "x.wasm").await, "another file is already agent default/x");
}

#[tokio::test]
async fn a_folder_of_no_tenant_is_told_with_the_way_out() {
    let one = guests::bytes("one");
    let setup = Setup::serving(&["echo"]).plugin("acme/one.wasm", &one).plugin("Acme Ltd/one.wasm", &one);
    let host = setup.start().await;
    let why = stray(&host, "acme/one.wasm").await;
    assert_eq!(why, "there is no tenant `acme`; hint: add [tenants.acme] to hostelry.toml");
    let why = stray(&host, "Acme Ltd").await;
    assert!(why.contains("no tenant can have this name"), "{why}");
    assert_eq!(Ask::at(&host, "acme", "one").text("x").refused().await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_stray_that_is_made_right_is_served_and_no_stray_any_more() {
    let host = quick(&["echo"]).plugin("One.wasm", &guests::bytes("one")).start().await;
    stray(&host, "One.wasm").await;
    fs::rename(host.plugin("One.wasm"), host.plugin("one.wasm")).unwrap();
    live(&host, "default/one", &guests::bytes("one"), 1).await;
    assert_eq!(host.readyz().await["strays"], Value::Array(vec![]));
    assert!(standing(&host, "default/one").await["fault"].is_null());
}

#[tokio::test]
async fn two_hundred_files_at_once_are_all_served() {
    let host = quick(&["echo"]).start().await;
    let agent = wat::agent("", "", "", "");
    for n in 0..200 {
        put(&host.plugin(&format!("a{n}.wasm")), &agent);
    }
    put(&host.plugin("bad.wasm"), b"noise");
    host.logged_times("agent live agent=default/a", 200).await;
    host.logged("this is not WebAssembly").await;
    assert_eq!(host.readyz().await["live"], 201);
    assert_eq!(ask(&host, "a199", "x").await.text, crate::support::turn::NOTHING);
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
}
