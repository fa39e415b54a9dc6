//! `hostelry check` and `hostelry chat` as processes: what they print, and the code that they end with.

use std::{path::Path, process::Output};

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::timeout;

use super::support::{
    guests,
    host::{Host, SOON, Setup},
    wat,
};

/// What a command printed, and its exit code.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

async fn run(dir: &Path, args: &[&str]) -> Ran {
    let Output { status, stdout, stderr } =
        timeout(SOON, Host::program(dir).args(args).output()).await.expect("the command did not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// What `check --json` says of a component, and its exit code.
async fn check(bytes: &[u8]) -> (Option<i32>, Value) {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("echo.wasm"), bytes).unwrap();
    let ran = run(dir.path(), &["check", "--json", "echo.wasm"]).await;
    (ran.code, serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err)))
}

/// That a component of this text does not fit, for a reason with `what` and a hint with `hint` in it.
async fn does_not_fit(text: &str, what: &str, hint: &str) {
    let (code, found) = check(&wat::parse(text)).await;
    assert_eq!((code, &found["fits"]), (Some(1), &Value::Bool(false)), "{found}");
    let said = |key: &str| found["reasons"][0][key].as_str().unwrap_or_default().to_owned();
    assert!(said("reason").contains(what) && said("hint").contains(hint), "{found}");
}

#[tokio::test]
async fn check_says_of_a_real_agent_that_it_fits_and_what_it_needs() {
    let (code, found) = check(&guests::bytes("echo")).await;
    assert_eq!((code, &found["reasons"]), (Some(0), &serde_json::json!([])), "{found}");
    assert_eq!(found["exports"], serde_json::json!(["hostelry:agent/handler@0.1.0"]));
    assert!(found["imports"]["contract"].as_array().unwrap().contains(&"hostelry:agent/host@0.1.0".into()), "{found}");
    assert_eq!(found["imports"]["other"], serde_json::json!([]));
    assert_eq!(found["agent"]["place"], "plugins/echo.wasm");
}

#[tokio::test]
async fn check_says_why_a_component_does_not_fit_and_what_to_do() {
    for (text, what, hint) in [
        ("(module)", "core module", "hostelry componentize"),
        (
            "(module (import \"wasi_snapshot_preview1\" \"fd_write\" (func)))",
            "core module",
            "with the WASI preview 1 adapter that it needs",
        ),
        ("(module (func (export \"_start\")))", "core module", "an agent is a library"),
        ("(module (import \"wbg\" \"f\" (func)))", "core module", "made for a browser"),
        ("(component)", "does not export hostelry:agent/handler@0.1.0", "it exports nothing"),
        (
            "(component (instance $i) (export \"acme:x/y@0.1.0\" (instance $i)))",
            "does not export hostelry:agent/handler",
            "build it for the world `agent`",
        ),
        (
            "(component (instance $i) (export \"hostelry:agent/handlr@0.1.0\" (instance $i)))",
            "does not export hostelry:agent/handler",
            "hostelry:agent/handlr@0.1.0, in which there is a slip",
        ),
        (
            "(component (instance $i) (export \"wasi:cli/run@0.2.6\" (instance $i)))",
            "does not export hostelry:agent/handler",
            "it is a program",
        ),
        (
            "(component (instance $i) (export \"hostelry:agent/handler@0.1.0\" (instance $i)))",
            "its handler has no function `handle`",
            "",
        ),
        (
            "(component (instance $i) (export \"hostelry:agent/handler@0.2.0\" (instance $i)))",
            "wrong contract version: the component exports hostelry:agent/handler@0.2.0",
            "0.1.0",
        ),
        ("(component (import \"hostelry:agent/host@0.2.0\" (instance)))", "imports hostelry:agent/host@0.2.0", "0.1.0"),
        (
            "(component (import \"hostelry:agent/hots@0.1.0\" (instance)))",
            "imports hostelry:agent/hots@0.1.0",
            "did you mean hostelry:agent/host@0.1.0?",
        ),
        (
            "(component (import \"hostelry:agnet/host@0.1.0\" (instance)))",
            "imports hostelry:agnet/host@0.1.0",
            "did you mean hostelry:agent/host@0.1.0?",
        ),
        (
            "(component (import \"wasi:http/outgoing-handler@0.2.0\" (instance)))",
            "imports wasi:http/outgoing-handler@0.2.0",
            "call-tool",
        ),
        (
            "(component (import \"wasi:keyvalue/store@0.2.0-draft\" (instance)))",
            "imports wasi:keyvalue/store@0.2.0-draft",
            "of WASI this host has",
        ),
        ("(component (import \"acme:db/sql@1.0.0\" (instance)))", "imports acme:db/sql@1.0.0", "through `call-tool`"),
    ] {
        does_not_fit(text, what, hint).await;
    }
}

#[tokio::test]
async fn check_names_the_function_that_a_slip_is_in() {
    let import = "(import \"hostelry:agent/turn@0.1.0\" (instance (export \"gett\" (func (param \"x\" u32)))))";
    let (code, found) = check(&wat::agent(import, "", "", "")).await;
    assert_eq!((code, &found["fits"]), (Some(1), &Value::Bool(false)), "{found}");
    let reason = found["reasons"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("imports the function `gett` of hostelry:agent/turn@0.1.0"), "{found}");
    assert_eq!(found["reasons"][0]["hint"], "did you mean `get`?", "{found}");
}

#[tokio::test]
async fn check_tries_a_turn_and_tells_what_it_took() {
    let (code, found) = check(&guests::bytes("echo")).await;
    assert_eq!((code, &found["trial"]["outcome"]), (Some(0), &"answered".into()), "{found}");
    assert!(found["trial"]["events"].as_u64().unwrap() > 0 && found["memory"]["turn"].as_u64().unwrap() > 65536);
    let (code, found) = check(&guests::bytes("trap")).await;
    assert_eq!((code, &found["trial"]["outcome"]), (Some(0), &"failed".into()), "{found}");
    assert!(found["trial"]["error"].as_str().unwrap().contains("trapped"), "{found}");
    // It hands itself 80 MiB, which is more than a turn may have.
    let (code, found) = check(&wat::agent("", "", "", "(drop (memory.grow (i32.const 1280)))")).await;
    let reason = &found["reasons"][0];
    assert_eq!((code, &found["fits"]), (Some(1), &Value::Bool(false)), "{found}");
    assert!(reason["reason"].as_str().unwrap().contains("limits.memory"), "{found}");
    assert!(found["grants"]["toml"].as_str().unwrap().contains("limits.memory = \"256MiB\""), "{found}");
}

#[tokio::test]
async fn check_names_the_grants_that_an_agent_needs() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("notes.wasm"), guests::bytes("pathfinder")).unwrap();
    std::fs::write(dir.path().join("hostelry.toml"), "[tenants.default]\ntools = [\"workspace/*\"]\n").unwrap();
    let ran = run(dir.path(), &["check", "--json", "notes.wasm"]).await;
    let found: Value = serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{}{}", ran.out, ran.err));
    assert!(found["grants"]["missing"].as_array().unwrap().contains(&"device/take_navigation".into()), "{found}");
    let lines = found["grants"]["toml"].as_str().unwrap();
    assert!(lines.starts_with("[tenants.default]\ntools = [\"workspace/*\", \"device/"), "{lines}");
}

#[tokio::test]
async fn componentize_makes_an_agent_of_a_core_module() {
    let dir = TempDir::new().unwrap();
    let module = r#"(module
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 1024)
        (func (export "hostelry:agent/handler@0.1.0#handle")
          (param i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32) i32.const 64))"#;
    std::fs::write(dir.path().join("core.wat"), module).unwrap();
    let ran = run(dir.path(), &["componentize", "core.wat", "-o", "build/silent.wasm"]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let ran = run(dir.path(), &["check", "--json", "build/silent.wasm"]).await;
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &found["trial"]["outcome"]), (Some(0), &"answered".into()), "{found}");
    let ran = run(dir.path(), &["componentize", "build/silent.wasm", "-o", "again.wasm"]).await;
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("a component already"), "{}", ran.err);
    assert!(!dir.path().join("again.wasm").exists());
}

#[tokio::test]
async fn check_tells_what_it_cannot_read_from_what_does_not_fit() {
    let dir = TempDir::new().unwrap();
    let ran = run(dir.path(), &["check", "nowhere.wasm"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("cannot read nowhere.wasm"), "{}", ran.err);
}

#[tokio::test]
async fn chat_shows_an_answer_over_either_protocol() {
    let host = Setup::serving(&["echo"]).start().await;
    for protocol in ["mythra", "lingzhu"] {
        let args = ["chat", "echo", "--url", &host.http(""), "--protocol", protocol, "-m", "one", "-m", "two"];
        let ran = run(host.dir(), &args).await;
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "one\ntwo\n"), "{protocol}: {}", ran.err);
    }
}

#[tokio::test]
async fn chat_prints_frames_for_scripts_and_nothing_else() {
    let host = Setup::serving(&["echo"]).start().await;
    let ran = run(host.dir(), &["chat", "echo", "--url", &host.http(""), "-m", "hi", "--json"]).await;
    let frames: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ends = [frames.first(), frames.last()].map(|frame| frame.map(|frame| frame["event"].clone()));
    assert_eq!(ends, [Some("start".into()), Some("end".into())], "{}", ran.out);
    assert!(frames.iter().all(|frame| frame["type"].is_string()), "{}", ran.out);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn chat_fails_when_the_agent_does_or_is_not_there_or_nobody_listens() {
    let host = Setup::serving(&["trap"]).start().await;
    for protocol in ["mythra", "lingzhu"] {
        let chat = async |url: &str, agent: &str| {
            run(host.dir(), &["chat", agent, "--url", url, "--protocol", protocol, "-m", "hi"]).await
        };
        let failed = chat(&host.http(""), "trap").await;
        assert_eq!(failed.code, Some(1), "{protocol}: {}{}", failed.out, failed.err);
        let absent = chat(&host.http(""), "nobody").await;
        assert_eq!(absent.code, Some(1));
        assert!(absent.err.contains("no agent default/nobody (404)"), "{protocol}: {}", absent.err);
        // Nobody listens on port 1.
        let nowhere = chat("http://127.0.0.1:1", "trap").await;
        assert_eq!(nowhere.code, Some(1));
        assert!(nowhere.err.contains("is a host running there?"), "{protocol}: {}", nowhere.err);
    }
}
