//! Tenants in the configuration: keys, and what becomes of a new configuration while the host serves.

use conformance::socket::{End, Heard, Socket};
use reqwest::{StatusCode, header::HeaderMap};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::{
    guests,
    host::{Host, SOON, Setup},
    turn::{Ask, ask},
};

/// A key's line for the configuration.
fn digest(key: &str) -> String {
    format!("sha256:{}", hostelry::ids::hex(&Sha256::digest(key.as_bytes())))
}

/// Puts another configuration in the place of the host's, as an editor does: written beside it and renamed.
fn configure(host: &Host, text: &str) {
    let (path, fresh) = (host.dir().join("hostelry.toml"), host.dir().join(".hostelry.toml.new"));
    std::fs::write(&fresh, text).unwrap();
    std::fs::rename(fresh, path).unwrap();
}

/// Applies another configuration and waits until it is.
async fn reconfigure(host: &Host, text: &str) {
    let before = host.log().matches("new configuration applied").count();
    configure(host, text);
    host.logged_times("new configuration applied", before + 1).await;
}

async fn connect(host: &Host, tenant: &str, agent: &str, key: &str) -> Socket {
    let url = format!("ws://{}/agents/{tenant}/{agent}/mythra?key={key}", host.address);
    Socket::connect(&url, HeaderMap::new()).await.unwrap().0
}

/// Says something and reads on until a frame holds `text`.
async fn say(socket: &mut Socket, said: &str, text: &str) {
    socket.text(&json!({ "type": "user-input", "sessionId": "s", "userInput": said }).to_string()).await;
    let heard = socket.find(SOON, |frame| frame.contains(text)).await;
    assert!(matches!(heard, Ok(Heard::Text(_))), "instead of {text:?}: {heard:?}");
}

#[tokio::test]
async fn a_changed_file_is_applied_without_a_restart_and_without_dropping_a_turn() {
    let setup = Setup::serving(&["puppet"]).plugin("acme/echo.wasm", &guests::bytes("echo"));
    let host = setup.config("[tenants.default]\n").start().await;
    let mut running = Ask::agent(&host, "puppet").text("chat begun\nsleep 3000\nchat , done").open().await;
    running.said("begun").await;
    let refused = Ask::at(&host, "acme", "echo").text("x").refused().await;
    assert_eq!((refused.status, &*refused.error), (StatusCode::NOT_FOUND, "no such tenant"));

    reconfigure(&host, "[tenants.default]\n[tenants.acme]\n").await;
    host.logged("agent live agent=acme/echo").await;
    assert_eq!(Ask::at(&host, "acme", "echo").text("hello").answer().await.text, "hello");
    assert_eq!(running.rest().await.text, "begun, done");

    reconfigure(&host, "[tenants.default]\n").await;
    assert_eq!(Ask::at(&host, "acme", "echo").text("x").refused().await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_hangup_applies_the_file_at_once() {
    let host = Setup::serving(&["puppet"]).config("limits.events = 5").start().await;
    configure(&host, "limits.events = 2");
    host.signal("HUP");
    host.logged("new configuration applied").await;
    assert_eq!(ask(&host, "puppet", "repeat 4 chat a\nrefused").await.text, "aa");
}

#[tokio::test]
async fn a_faulty_new_file_is_refused_as_a_whole_with_all_its_faults() {
    let host = Setup::serving(&["puppet"]).config("limits.events = 3").start().await;
    configure(&host, "limits.events = 9\nlimits.memroy = \"1MiB\"\n[tenants.default]\nturns-per-minute = 0\n");
    host.logged("the new configuration is refused; the old one stays").await;
    host.logged("hostelry.toml:2: limits.memroy: unknown key; did you mean `memory`?").await;
    host.logged("hostelry.toml:4: tenants.default.turns-per-minute: not a whole number of at least 1").await;
    assert_eq!(ask(&host, "puppet", "repeat 4 chat a\nrefused").await.text, "aaa");
    assert_eq!(host.counted("hostelry_configurations_total{outcome=\"refused\"}").await, 1);

    // One that is right again is taken.
    reconfigure(&host, "limits.events = 4").await;
    assert_eq!(ask(&host, "puppet", "repeat 4 chat a").await.text, "aaaa");
}

#[tokio::test]
async fn what_needs_a_restart_is_named_and_the_rest_is_applied() {
    let host = Setup::serving(&["puppet"]).config("limits.events = 3").start().await;
    reconfigure(&host, "limits.events = 1\nserver.concurrent-turns = 7\nplugins = \"elsewhere\"").await;
    host.logged("these keys changed too, and need a restart: plugins, server.concurrent-turns").await;
    assert_eq!(ask(&host, "puppet", "repeat 4 chat a").await.text, "a");
}

#[tokio::test]
async fn a_turn_keeps_the_limits_that_it_began_with() {
    let host = Setup::serving(&["puppet"]).config("limits.events = 9").start().await;
    let mut running = Ask::agent(&host, "puppet").text("chat a\nsleep 2500\nrepeat 3 chat b").open().await;
    running.said("\"a\"").await;
    reconfigure(&host, "limits.events = 1").await;
    assert_eq!(ask(&host, "puppet", "repeat 4 chat a").await.text, "a");
    assert_eq!(running.rest().await.text, "abbb");
}

#[tokio::test]
async fn keys_are_rotated_while_both_open_and_then_only_the_new_one_does() {
    let keys = |keys: &[&str]| {
        let lines: Vec<_> = keys.iter().map(|key| format!("\"{}\"", digest(key))).collect();
        format!("[tenants.default]\nkeys = [{}]", lines.join(","))
    };
    let host = Setup::serving(&["echo"]).config(&keys(&["old"])).start().await;
    let mut socket = connect(&host, "default", "echo", "old").await;
    say(&mut socket, "one", "response-state\",\"event\":\"end").await;
    reconfigure(&host, &keys(&["old", "new"])).await;
    for key in ["old", "new"] {
        assert_eq!(Ask::agent(&host, "echo").key(key).text("x").answer().await.text, "x");
    }
    let mut idle = connect(&host, "default", "echo", "old").await;
    reconfigure(&host, &keys(&["new"])).await;
    let refused = Ask::agent(&host, "echo").key("old").text("x").refused().await;
    assert_eq!((refused.status, &*refused.error), (StatusCode::UNAUTHORIZED, "Unauthorized"));
    assert_eq!(Ask::agent(&host, "echo").key("new").text("x").answer().await.text, "x");
    // A connection that the old key opened is not open to the next input.
    say(&mut idle, "two", "unauthorized").await;
    assert!(matches!(idle.next(SOON).await, Ok(Heard::End(End::Closed(1008, _)))));
}

#[tokio::test]
async fn a_key_that_has_expired_opens_nothing() {
    let key = |key: &str, expires: &str| format!("{{ hash = \"{}\", expires = {expires} }}", digest(key));
    let lines = [key("past", "2020-01-31"), key("future", "2990-01-31T00:00:00Z")].join(",");
    let host = Setup::serving(&["echo"]).config(&format!("[tenants.default]\nkeys = [{lines}]")).start().await;
    let refused = Ask::agent(&host, "echo").key("past").text("x").refused().await;
    assert_eq!((refused.status, &*refused.error), (StatusCode::UNAUTHORIZED, "Unauthorized"));
    assert_eq!(Ask::agent(&host, "echo").key("future").text("x").answer().await.text, "x");
}

#[tokio::test]
async fn the_same_component_of_two_tenants_is_compiled_once_and_shares_nothing_else() {
    let setup = Setup::serving(&["puppet"]).plugin("acme/puppet.wasm", &guests::bytes("puppet"));
    let host =
        setup.config("[tenants.default]\n[tenants.acme]\nlimits.events = 1\nconcurrent-turns = 1\n").start().await;
    assert_eq!(host.counted("hostelry_compiles_total{outcome=\"compiled\"}").await, 1);
    assert_eq!(host.counted("hostelry_compiles_total{outcome=\"cached\"}").await, 1);
    let say = |tenant: &str, text: &str| Ask::at(&host, tenant, "puppet").conversation("same").user("same").text(text);
    assert_eq!(say("default", "count\nchat !").answer().await.text, "1!");
    assert_eq!(say("acme", "count\nchat !").answer().await.text, "1", "its own limits, and a fresh instance");
    assert_eq!(say("acme", "history 9").answer().await.text, "user:count\nchat !|agent:1", "its own session");
    assert_eq!(say("default", "history 1").answer().await.text, "agent:1!");

    let _held = say("acme", "sleep 60000").open().await;
    assert_eq!(say("acme", "chat x").refused().await.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(Ask::at(&host, "default", "puppet").text("chat x").answer().await.text, "x", "its own places");
}

#[tokio::test]
async fn a_key_of_one_tenant_opens_and_tells_nothing_of_another() {
    let config = format!(
        "[tenants.acme]\nkeys = [\"{}\"]\n[tenants.beta]\nkeys = [\"{}\"]\n",
        digest("acme-key"),
        digest("beta-key")
    );
    let echo = guests::bytes("echo");
    let setup = Setup::default().plugin("acme/echo.wasm", &echo).plugin("beta/secret.wasm", &echo);
    let host = setup.config(&config).start().await;
    let mut said = Vec::new();
    for (tenant, agent) in [("beta", "secret"), ("beta", "nothing"), ("nobody", "secret")] {
        let refused = Ask::at(&host, tenant, agent).key("acme-key").text("x").refused().await;
        let mut headers: Vec<_> = refused.headers.iter().filter(|(name, _)| *name != "date").collect();
        headers.sort_by_key(|(name, _)| name.as_str());
        said.push(format!("{} {} {headers:?}", refused.status, refused.error));
    }
    assert!(said.iter().all(|answer| *answer == said[0]), "{said:#?}");
    let body = reqwest::get(host.http("/readyz")).await.unwrap().text().await.unwrap();
    for name in ["acme", "beta", "secret"] {
        assert!(!body.contains(name), "{name} is in {body}");
    }
}
