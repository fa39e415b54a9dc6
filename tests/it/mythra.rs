//! The Mythra endpoint beyond its cases: what takes two connections, or a look at what the host logs and runs.

use conformance::{
    script,
    socket::{End, Heard, Socket},
};
use reqwest::header::{AUTHORIZATION, HeaderMap};
use serde_json::{Value, json};

use super::support::host::{Host, SOON, Setup};

async fn connect(host: &Host, agent: &str) -> Socket {
    Socket::connect(&host.mythra(agent), HeaderMap::new()).await.unwrap().0
}

/// A `user-input` of a session.
fn input(session: &str, text: &str) -> String {
    json!({ "type": "user-input", "sessionId": session, "userInput": text }).to_string()
}

/// The next frame.
async fn next(socket: &mut Socket) -> Value {
    match socket.next(SOON).await.unwrap() {
        Heard::Text(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// All text of the next response, its errors in brackets.
async fn response(socket: &mut Socket) -> String {
    let mut said = String::new();
    loop {
        let frame = next(socket).await;
        let content = frame["content"].as_str().unwrap_or_default();
        match (frame["type"].as_str().unwrap(), frame["event"].as_str().unwrap()) {
            ("response-state", "end") => return said,
            ("error", _) => said.extend(["[", content, "]"]),
            _ => said.push_str(content),
        }
    }
}

/// Reads frames until one holds `text`.
async fn hear(socket: &mut Socket, text: &str) {
    let heard = socket.find(SOON, |frame| frame.contains(text)).await;
    assert!(matches!(heard, Ok(Heard::Text(_))), "instead of {text:?}: {heard:?}");
}

#[tokio::test]
async fn one_session_on_two_connections_is_answered_in_order() {
    let host = Setup::serving(&["puppet"]).start().await;
    let (mut one, mut two) = (connect(&host, "puppet").await, connect(&host, "puppet").await);
    one.text(&input("s", "chat a\nsleep 700\nchat b")).await;
    hear(&mut one, "\"content\":\"a\"").await;
    two.text(&input("s", "history 9")).await;
    // It sees the whole of what was said before it: it did not begin before that was over.
    assert_eq!(response(&mut two).await, "user:chat a\nsleep 700\nchat b|agent:ab");
    assert_eq!(response(&mut one).await, "b");
}

#[tokio::test]
async fn a_session_that_stays_busy_is_an_error_and_another_session_is_not_concerned() {
    let host = Setup::serving(&["puppet"]).config("mythra.session-wait = \"300ms\"").start().await;
    let (mut one, mut two) = (connect(&host, "puppet").await, connect(&host, "puppet").await);
    one.text(&input("s", "chat a\nsleep 600000")).await;
    hear(&mut one, "\"content\":\"a\"").await;
    two.text(&input("s", "chat never")).await;
    let frame = next(&mut two).await;
    assert_eq!((&frame["type"], &frame["content"]), (&json!("error"), &json!("busy")));
    assert_eq!(host.hits("session-wait").await, 1);
    two.text(&input("t", "chat mine")).await;
    assert_eq!(response(&mut two).await, "mine");
}

#[tokio::test]
async fn inputs_of_other_sessions_on_one_connection_wait_as_well() {
    let host = Setup::serving(&["puppet"]).start().await;
    let mut socket = connect(&host, "puppet").await;
    socket.text(&input("s", "chat a\nsleep 500\nchat b")).await;
    socket.text(&input("t", "history 9")).await;
    socket.text(&input("s", "history 9")).await;
    assert_eq!(response(&mut socket).await, "ab");
    assert_eq!(response(&mut socket).await, "empty");
    assert_eq!(response(&mut socket).await, "user:chat a\nsleep 500\nchat b|agent:ab");
}

#[tokio::test]
async fn people_with_keys_of_their_own_share_no_session() {
    let host = Setup::serving(&["puppet"]).start().await;
    let mut socket = connect(&host, "puppet").await;
    let own = |key: &str, text: &str| {
        json!({ "type": "user-input", "apiKey": key, "sessionId": "s", "userInput": text }).to_string()
    };
    socket.text(&own("mine", "chat secret")).await;
    assert_eq!(response(&mut socket).await, "secret");
    socket.text(&own("yours", "history 9")).await;
    assert_eq!(response(&mut socket).await, "empty");
    socket.text(&own("mine", "history 9")).await;
    assert_eq!(response(&mut socket).await, "user:chat secret|agent:secret");
}

#[tokio::test]
async fn a_turn_over_the_rate_is_an_error_and_1013() {
    let config = "[tenants.default]\nturns-per-minute = 1\n";
    let host = Setup::serving(&["echo"]).config(config).start().await;
    let mut socket = connect(&host, "echo").await;
    socket.text(&script::input("hello")).await;
    assert_eq!(response(&mut socket).await, "hello");
    socket.text(&script::input("hello")).await;
    let frame = next(&mut socket).await;
    assert_eq!((&frame["type"], &frame["content"]), (&json!("error"), &json!("too many requests")));
    let end = socket.next(SOON).await.unwrap();
    assert_eq!(end, Heard::End(End::Closed(1013, "try again later".to_owned())));
}

#[tokio::test]
async fn no_key_is_ever_written_to_the_log_or_to_a_frame() {
    let keys = "keys = [\"sha256:ad44dc8e51cfbfa55e81ddbb626b466241069045066846e7e4cd096131505290\"]";
    let config = format!("[tenants.default]\n{keys}\n");
    let host = Setup::serving(&["puppet"]).config(&config).start().await;
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, "Bearer a-secret-in-the-header".parse().unwrap());
    let refused = Socket::connect(&host.mythra("puppet"), headers).await.err().unwrap();
    assert_eq!(refused.status, Some(401));
    let url = format!("{}?key=a-secret-in-the-address", host.mythra("puppet"));
    let refused = Socket::connect(&url, HeaderMap::new()).await.err().unwrap();
    assert_eq!(refused.status, Some(401));
    let mut heard = String::new();
    for bad in [
        r#"{"type":"user-input","apiKey":"a-secret-in-a-message","userInput":"x"}"#,
        r#"{"type":"user-input","apiKey":"a-secret-in-bad-JSON","userInput":x}"#,
        r#"{"type":"a-secret-type","apiKey":"a-secret-of-no-type"}"#,
    ] {
        let mut socket = connect(&host, "puppet").await;
        socket.text(bad).await;
        socket.close(1000).await;
        while let Heard::Text(text) = socket.next(SOON).await.unwrap() {
            heard.push_str(&text);
        }
    }
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, "Bearer the-key".parse().unwrap());
    let (mut socket, _) = Socket::connect(&host.mythra("puppet"), headers).await.unwrap();
    socket.text(r#"{"type":"user-input","apiKey":"a-secret-of-a-user","userInput":"facts\nerr no"}"#).await;
    heard.push_str(&response(&mut socket).await);
    host.logged("turn failed: the agent said: no").await;
    for text in [heard, host.log()] {
        assert!(!text.contains("a-secret-in") && !text.contains("a-secret-of") && !text.contains("the-key"), "{text}");
    }
}
