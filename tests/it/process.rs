//! The program as its users meet it: its commands, what it says, and its exit codes.

use std::{net::TcpListener, path::Path, process::Output};

use reqwest::StatusCode;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::timeout,
};

use crate::support::{
    guests,
    host::{Host, SOON, Setup},
    turn::{APOLOGY, Ask, NOTHING, ask},
    wat,
};

async fn run(dir: &Path, args: &[&str]) -> Output {
    timeout(SOON, Host::program(dir).args(args).output()).await.expect("it does not end").unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_owned()).unwrap()
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "stdout: {out}\nstderr: {err}");
}

#[tokio::test]
async fn a_faulty_configuration_is_told_whole_before_anything_is_served() {
    let dir = TempDir::new().unwrap();
    let faulty = "listne = \"127.0.0.1:0\"\n[limits]\nmemory = \"64 parsecs\"\n[tenants.acme]\nkeys = [\"\"]\n";
    std::fs::write(dir.path().join("hostelry.toml"), faulty).unwrap();
    let output = run(dir.path(), &["serve", "--listen", "127.0.0.1:0"]).await;
    assert_code(&output, 2);
    let said = text(&output.stderr);
    for fault in [
        "hostelry.toml:1: listne: unknown key; did you mean `listen`?",
        "hostelry.toml:3: limits.memory: \"64 parsecs\" is not a size",
        "hostelry.toml:5: tenants.acme.keys: not a key's digest",
    ] {
        assert!(said.contains(fault), "{fault:?} is not in {said}");
    }
    assert_eq!(said.lines().count(), 3, "{said}");
    assert!(output.stdout.is_empty() && !dir.path().join("data").exists());
}

#[tokio::test]
async fn a_configuration_that_is_named_and_not_there_is_told() {
    let dir = TempDir::new().unwrap();
    let output = run(dir.path(), &["serve", "--config", "nowhere.toml"]).await;
    assert_code(&output, 2);
    assert!(text(&output.stderr).contains("nowhere.toml"), "{}", text(&output.stderr));
}

#[tokio::test]
async fn a_port_in_use_is_told_by_its_address() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flags in [
        ["--listen", &*address, "--admin-listen", "127.0.0.1:0"],
        ["--admin-listen", &address, "--listen", "127.0.0.1:0"],
    ] {
        let dir = TempDir::new().unwrap();
        let output = run(dir.path(), &[&["serve"], &flags[..]].concat()).await;
        assert_code(&output, 1);
        let said = text(&output.stderr);
        assert!(said.contains(&format!("cannot listen on {address}")), "{said}");
    }
}

#[tokio::test]
async fn no_address_but_this_machines_own_is_listened_on_without_keys() {
    let dir = TempDir::new().unwrap();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let output = run(dir.path(), &["serve", "--listen", address]).await;
        assert_code(&output, 2);
        let said = text(&output.stderr);
        assert!(said.contains("tenant `default` has no key") && said.contains("hostelry keys new default"), "{said}");
    }
    let output = run(dir.path(), &["serve", "--admin-listen", "0.0.0.0:0"]).await;
    assert_code(&output, 2);
    assert!(text(&output.stderr).contains("admin-listen: 0.0.0.0:0 is not a loopback address"));
}

#[tokio::test]
async fn the_first_line_tells_the_real_address_and_no_file_is_needed() {
    let dir = TempDir::new().unwrap();
    let mut command = Host::program(dir.path());
    let mut child =
        command.args(["serve", "--listen", "127.0.0.1:0"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = timeout(SOON, lines.next_line()).await.expect("it says nothing").unwrap().unwrap();
    let (_, address) = line.split_once("listening on http://").unwrap_or_else(|| panic!("{line}"));
    assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{line}");
    let healthy = reqwest::get(format!("http://{address}/healthz")).await.unwrap();
    assert_eq!(healthy.status(), StatusCode::OK);
    assert!(dir.path().join("plugins").is_dir() && dir.path().join("data").is_dir());
    child.kill().await.unwrap();
}

#[tokio::test]
async fn every_command_has_help() {
    let dir = TempDir::new().unwrap();
    let commands: [&[&str]; 7] =
        [&[], &["serve"], &["check"], &["chat"], &["keys"], &["keys", "new"], &["completions"]];
    for command in commands {
        let output = run(dir.path(), &[command, &["--help"]].concat()).await;
        assert_code(&output, 0);
        let said = text(&output.stdout);
        assert!(said.contains("Usage: hostelry") && output.stderr.is_empty(), "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    }
    let output = run(dir.path(), &["--version"]).await;
    assert_code(&output, 0);
    assert_eq!(text(&output.stdout), format!("hostelry {}\n", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn wrong_usage_is_told_and_ends_with_two() {
    let dir = TempDir::new().unwrap();
    let wrong: [&[&str]; 7] = [
        &[],
        &["srve"],
        &["serve", "--lisen", "127.0.0.1:0"],
        &["serve", "--listen", "here"],
        &["check"],
        &["keys", "new"],
        &["keys", "new", "No Name"],
    ];
    for args in wrong {
        let output = run(dir.path(), args).await;
        assert_code(&output, 2);
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{args:?}");
    }
}

#[tokio::test]
async fn completions_are_made_for_every_shell() {
    let dir = TempDir::new().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = run(dir.path(), &["completions", shell]).await;
        assert_code(&output, 0);
        let said = text(&output.stdout);
        assert!(said.contains("hostelry") && said.contains("admin-listen"), "{shell}");
    }
}

/// A key of `keys new`, and the lines for the configuration.
async fn new_key(args: &[&str]) -> (String, String) {
    let dir = TempDir::new().unwrap();
    let output = run(dir.path(), &[&["keys", "new"], args].concat()).await;
    assert_code(&output, 0);
    let key = text(&output.stdout).trim_end().to_owned();
    assert!(!key.contains(char::is_whitespace) && key.len() >= 32, "{key}");
    let said = text(&output.stderr);
    assert!(!said.contains(&key), "what is shown with it holds the digest only");
    let (_, entry) = said.split_once("[tenants.").unwrap_or_else(|| panic!("{said}"));
    (key, format!("[tenants.{entry}"))
}

#[tokio::test]
async fn a_new_key_opens_its_tenant_with_the_line_that_was_printed() {
    let (key, entry) = new_key(&["acme"]).await;
    let (other, _) = new_key(&["acme"]).await;
    assert_ne!(key, other);
    let host = Setup::default().config(&entry).plugin("acme/echo.wasm", &guests::bytes("echo")).start().await;
    let echo = Ask::at(&host, "acme", "echo").text("hello");
    assert_eq!(echo.clone().key(&key).answer().await.text, "hello");
    for refusal in [echo.clone().refused().await, echo.key(&other).refused().await] {
        assert_eq!((refusal.status, &*refusal.error), (StatusCode::UNAUTHORIZED, "Unauthorized"));
    }
    let log = host.log();
    assert!(!log.contains(&key) && !log.contains(&other), "no key is ever logged");
}

#[tokio::test]
async fn a_key_of_one_agent_opens_no_other() {
    let (key, entry) = new_key(&["acme", "--agent", "echo"]).await;
    let setup = Setup::default().config(&entry).plugin("acme/echo.wasm", &guests::bytes("echo"));
    let host = setup.plugin("acme/one.wasm", &guests::bytes("one")).start().await;
    assert_eq!(Ask::at(&host, "acme", "echo").key(&key).text("hello").answer().await.text, "hello");
    let status = Ask::at(&host, "acme", "one").key(&key).text("x").refused().await.status;
    assert!(status == StatusCode::UNAUTHORIZED || status == StatusCode::NOT_FOUND, "{status}");
}

#[tokio::test]
async fn check_says_by_its_exit_code_whether_a_file_fits() {
    let dir = TempDir::new().unwrap();
    for name in ["echo", "storyteller", "pathfinder", "notes"] {
        let output = run(dir.path(), &["check", guests::path(name).to_str().unwrap()]).await;
        assert_code(&output, 0);
        assert!(text(&output.stdout).contains("hostelry:agent"), "{}", text(&output.stdout));
    }
    let bad: [(&[u8], &str); 4] = [
        (b"noise", "not WebAssembly"),
        (&wat::parse("(module)"), "core module"),
        (&wat::agent_of("0.2.0", "", "", "", ""), "0.2.0"),
        (&wat::parse("(component)"), "handler"),
    ];
    for (bytes, word) in bad {
        std::fs::write(dir.path().join("bad.wasm"), bytes).unwrap();
        let output = run(dir.path(), &["check", "bad.wasm"]).await;
        assert_code(&output, 1);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(said.contains(word), "{word:?} is not in {said}");
    }
}

#[tokio::test]
async fn every_example_answers() {
    let examples = ["echo", "storyteller", "pathfinder", "notes"];
    let host = Setup::serving(&examples).start().await;
    for example in examples {
        let answer = ask(&host, example, "note: milk").await;
        assert!(!answer.text.is_empty() && ![APOLOGY, NOTHING].contains(&&*answer.text), "{example}: {}", answer.bytes);
    }
}

#[tokio::test]
async fn chat_talks_over_both_protocols() {
    let host = Setup::serving(&["echo", "fails"]).start().await;
    let url = format!("http://{}", host.address);
    for protocol in ["mythra", "lingzhu"] {
        let chat = ["chat", "--url", &url, "--protocol", protocol];
        let output = run(host.dir(), &[&chat[..], &["echo", "-m", "hello there"]].concat()).await;
        assert_code(&output, 0);
        assert!(text(&output.stdout).contains("hello there"), "{protocol}: {}", text(&output.stdout));

        let output = run(host.dir(), &[&chat[..], &["echo", "-m", "hello", "-m", "again", "--json"]].concat()).await;
        assert_code(&output, 0);
        let said = text(&output.stdout);
        let frames: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(frames.iter().all(Value::is_object) && frames.len() > 4, "{protocol}: {said}");

        let output = run(host.dir(), &[&chat[..], &["nobody", "-m", "x"]].concat()).await;
        assert_code(&output, 1);
        assert!(text(&output.stderr).contains("nobody"), "{protocol}: {}", text(&output.stderr));
    }
    let output = run(host.dir(), &["chat", "--url", "http://127.0.0.1:1", "echo", "-m", "x"]).await;
    assert_code(&output, 1);
    assert!(!output.stderr.is_empty());
}

#[tokio::test]
async fn the_admin_listener_lists_the_agents_for_this_machine_only() {
    let host = Setup::serving(&["echo"]).start().await;
    let agents = format!("http://{}/api/agents", host.admin);
    let listed: Value = reqwest::get(&agents).await.unwrap().json().await.unwrap();
    assert_eq!(listed["agents"][0]["agent"], "echo");
    let led = reqwest::Client::new().get(&agents).header("host", "evil.example").send().await.unwrap();
    assert_eq!(led.status(), StatusCode::FORBIDDEN);
    assert_eq!(reqwest::get(host.http("/api/agents")).await.unwrap().status(), StatusCode::NOT_FOUND);
}
