//! What a client may do on a Mythra connection: each bound with its close and its counter.

use conformance::{
    script,
    socket::{End, Heard, Socket, masked},
};
use reqwest::header::HeaderMap;

use crate::support::{
    host::{Host, SOON, Setup},
    turn::ask,
};

async fn connect(host: &Host, agent: &str) -> Socket {
    Socket::connect(&host.mythra(agent), HeaderMap::new()).await.unwrap().0
}

/// All errors up to the end, and the end.
async fn rest(socket: &mut Socket) -> (Vec<String>, End) {
    let mut errors = Vec::new();
    loop {
        match socket.next(SOON).await.unwrap() {
            Heard::Text(text) => {
                let frame: serde_json::Value = serde_json::from_str(&text).unwrap();
                assert_eq!(frame["type"], "error", "{text}");
                errors.push(frame["content"].as_str().unwrap().to_owned());
            }
            Heard::End(end) => return (errors, end),
            Heard::Pong(_) => {}
        }
    }
}

#[tokio::test]
async fn a_message_that_is_too_long_is_an_error_and_1009() {
    let config = "[mythra]\nmax-message = \"16KiB\"\nmax-buffer = \"64KiB\"\n";
    let host = Setup::serving(&["echo"]).config(config).start().await;
    let mut socket = connect(&host, "echo").await;
    socket.text(&script::input(&"x".repeat(16 * 1024))).await;
    let wanted = vec!["the message is longer than 16384 bytes".to_owned()];
    assert_eq!(rest(&mut socket).await, (wanted, End::Closed(1009, String::new())));
    assert_eq!(host.hits("max-message").await, 1);
    // One that is not even read is told nothing but the close.
    let mut socket = connect(&host, "echo").await;
    socket.raw(&masked(0x81, &vec![b'x'; 128 * 1024])).await;
    let (_, end) = rest(&mut socket).await;
    assert!(matches!(end, End::Closed(1009, _) | End::Cut(_)), "{end:?}");
    assert_eq!(host.hits("max-message").await, 2);
    assert_eq!(ask(&host, "echo", "hello").await.text, "hello");
}

#[tokio::test]
async fn one_input_too_many_that_waits_is_told_that_it_does_not() {
    let host = Setup::serving(&["puppet"]).config("mythra.queue = 2").start().await;
    let mut socket = connect(&host, "puppet").await;
    socket.text(&script::input("chat a\nsleep 1000")).await;
    let begun = socket.find(SOON, |frame| frame.contains("\"content\":\"a\"")).await;
    assert!(matches!(begun, Ok(Heard::Text(_))), "{begun:?}");
    for text in ["chat b", "chat c", "chat never"] {
        socket.text(&script::input(text)).await;
    }
    for wanted in ["\"content\":\"busy\"", "\"content\":\"b\"", "\"content\":\"c\""] {
        let heard = socket.find(SOON, |frame| frame.contains(wanted)).await;
        assert!(matches!(heard, Ok(Heard::Text(_))), "instead of {wanted}: {heard:?}");
    }
    assert_eq!(host.hits("queue").await, 1);
}

#[tokio::test]
async fn messages_that_are_no_json_end_the_connection() {
    let host = Setup::serving(&["echo"]).config("mythra.bad-messages = 3").start().await;
    let mut socket = connect(&host, "echo").await;
    for _ in 0..3 {
        socket.text("{nonsense").await;
    }
    let (errors, end) = rest(&mut socket).await;
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert_eq!(end, End::Closed(1008, "too many invalid messages".to_owned()));
    assert_eq!(host.hits("bad-messages").await, 1);
    assert_eq!(ask(&host, "echo", "hello").await.text, "hello");
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed() {
    let host = Setup::serving(&["echo"]).config("mythra.idle = \"300ms\"").start().await;
    let mut socket = connect(&host, "echo").await;
    assert_eq!(rest(&mut socket).await, (Vec::new(), End::Closed(1000, "idle".to_owned())));
    assert_eq!(host.hits("idle").await, 1);
}
