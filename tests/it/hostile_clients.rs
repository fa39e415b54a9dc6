//! Clients that are slow, silent, gone, greedy or wrong, over bare connections: each is ended within a bound, and
//! nobody else notices.

use tokio::time::{Instant, timeout};

use crate::support::{
    host::{Host, Setup},
    turn::{Ask, ask},
    wire::{Wire, post, saying},
};

mod slow_readers;
mod websocket;

/// How late the end of a guest may be after its client has gone, on a machine that does much else.
const LATE: std::time::Duration = std::time::Duration::from_secs(5);

/// Checks that everybody else is served.
async fn assert_serves(host: &Host) {
    assert_eq!(ask(host, "echo", "hello").await.text, "hello");
}

/// Checks that the host logged nothing that an operator would have to look at.
fn assert_quiet(host: &Host) {
    let log = host.log();
    let loud = log.lines().filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
    assert_eq!(loud.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// Waits until the host ran the end of a turn whose client has left.
async fn ended(host: &Host, turns: usize) {
    let began = Instant::now();
    host.logged_times("turn ended: the client left", turns).await;
    assert!(began.elapsed() < LATE, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_ends_its_agent() {
    let host = Setup::serving(&["deaf", "echo"]).start().await;
    let mut wire = Wire::sending(&host, &post("deaf", &[], &saying("x"))).await;
    wire.until("la ", 3).await;
    drop(wire);
    ended(&host, 1).await;
    assert_serves(&host).await;
    assert_quiet(&host);
}

#[tokio::test]
async fn a_connection_that_is_reset_ends_its_agent() {
    let host = Setup::serving(&["deaf", "echo"]).start().await;
    let mut wire = Wire::sending(&host, &post("deaf", &[], &saying("x"))).await;
    wire.until("la ", 3).await;
    wire.reset();
    ended(&host, 1).await;
    assert_serves(&host).await;
    assert_quiet(&host);
}

#[tokio::test]
async fn a_connection_that_is_reset_before_the_first_byte_ends_its_agent() {
    let host = Setup::serving(&["sleeper", "echo"]).start().await;
    let mut wire = Wire::sending(&host, &post("sleeper", &[], &saying("x"))).await;
    wire.until("\r\n\r\n", 1).await;
    wire.reset();
    ended(&host, 1).await;
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_half_closed_connection_holds_no_agent_for_ever() {
    let host = Setup::serving(&["deaf", "echo"]).start().await;
    let mut wire = Wire::sending(&host, &post("deaf", &[], &saying("x"))).await;
    wire.until("la ", 1).await;
    wire.finish().await;
    ended(&host, 1).await;
    wire.end().await;
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let host = Setup::serving(&["echo"]).config("server.request-time = \"300ms\"").start().await;
    for part in ["", "P", "POST /agents/default/echo/lingzhu HTTP/1.1\r\nhost: h\r\n"] {
        let answer = Wire::sending(&host, part).await.end().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{part:?}: {answer}");
    }
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_head_that_drips_is_not_waited_for() {
    let host = Setup::serving(&["echo"]).config("server.request-time = \"300ms\"").start().await;
    let mut wire = Wire::to(&host).await;
    let drips = async {
        for byte in post("echo", &[&format!("x: {}", "y".repeat(2000))], &saying("x")).bytes() {
            wire.try_send(&[byte]).await;
            tokio::task::yield_now().await;
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            if host.log().contains("a request is refused") {
                break;
            }
        }
    };
    // All of it would take ten seconds and more.
    drop(timeout(std::time::Duration::from_secs(2), drips).await);
    let answer = wire.end().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let host = Setup::serving(&["echo"]).config("server.request-time = \"300ms\"").start().await;
    for (headers, part) in [
        (["content-length: 1000"], "{\"message_id\":"),
        (["content-length: 1000"], ""),
        (["transfer-encoding: chunked"], "5\r\n{\"mes"),
        (["transfer-encoding: chunked"], "2\r\n{}\r\n"),
    ] {
        let mut wire = Wire::sending(&host, &post("echo", &headers, "")).await;
        wire.send(part.as_bytes()).await;
        let answer = wire.end().await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{headers:?} {part:?}: {answer}");
        assert!(answer.contains("{\"error\":\"the body took longer than 300ms to arrive\"}"), "{answer}");
    }
    assert_eq!(host.hits("request-time").await, 4);
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_as_it_comes() {
    let host = Setup::serving(&["echo"]).config("lingzhu.max-body = \"64KiB\"").start().await;
    let mut wire = Wire::sending(&host, &post("echo", &["transfer-encoding: chunked"], "")).await;
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    for _ in 0..5 {
        wire.try_send(chunk.as_bytes()).await;
    }
    wire.try_send(b"0\r\n\r\n").await;
    let answer = wire.until("}", 1).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.ends_with("{\"error\":\"the body is larger than 65536 bytes\"}"), "{answer}");
    assert_eq!(host.hits("max-body").await, 1);
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let host = Setup::serving(&["echo"]).config("lingzhu.max-body = \"64KiB\"").start().await;
    let before = host.resident();
    let mut wire = Wire::sending(&host, &post("echo", &["transfer-encoding: chunked"], "")).await;
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    // 16 MiB, which is far more than is read of it.
    for _ in 0..256 {
        wire.try_send(chunk.as_bytes()).await;
    }
    let answer = wire.end().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(host.resident() < before + 16 * 1024 * 1024, "{} to {}", before, host.resident());
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_told_to_go_on() {
    let host = Setup::serving(&["echo"]).start().await;
    let body = saying("hello");
    let headers = [format!("content-length: {}", body.len()), "expect: 100-continue".to_owned()];
    let headers: Vec<_> = headers.iter().map(String::as_str).collect();
    let mut wire = Wire::sending(&host, &post("echo", &headers, "")).await;
    assert_eq!(wire.until("\r\n\r\n", 1).await, "HTTP/1.1 100 Continue\r\n\r\n");
    wire.send(body.as_bytes()).await;
    let answer = wire.until("event: done", 1).await;
    assert!(answer.contains("HTTP/1.1 200 OK\r\n"), "{answer}");
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_too_much_need_not() {
    let host = Setup::serving(&["echo"]).start().await;
    let headers = ["content-length: 99999999", "expect: 100-continue"];
    let answer = Wire::sending(&host, &post("echo", &headers, "")).await.until("}", 1).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let host = Setup::serving(&["echo"]).start().await;
    let header = format!("x: {}", "y".repeat(1024 * 1024));
    let mut wire = Wire::to(&host).await;
    wire.try_send(post("echo", &[&header], &saying("x")).as_bytes()).await;
    let answer = wire.end().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    let many: Vec<_> = (0..5000).map(|n| format!("x{n}: y")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    let mut wire = Wire::to(&host).await;
    wire.try_send(post("echo", &many, &saying("x")).as_bytes()).await;
    let answer = wire.end().await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert_eq!(host.hits("request-head").await, 2);
    assert_serves(&host).await;
}

#[tokio::test]
async fn what_is_no_http_is_refused() {
    let host = Setup::serving(&["echo"]).start().await;
    for garbage in ["\0\x01\x02\r\n\r\n", "GET\r\n\r\n", "\x16\x03\x01\x02\x00\x01", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut wire = Wire::sending(&host, garbage).await;
        wire.finish().await;
        let answer = wire.end().await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{garbage:?}: {answer}");
    }
    assert_serves(&host).await;
}

#[tokio::test]
async fn an_http_1_0_client_gets_a_stream_that_ends_with_its_connection() {
    let host = Setup::serving(&["echo"]).start().await;
    let request = post("echo", &[], &saying("hello")).replace("HTTP/1.1", "HTTP/1.0");
    let answer = Wire::sending(&host, &request).await.end().await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200 OK\r\n"), "{head}");
    assert!(!head.to_lowercase().contains("transfer-encoding"), "{head}");
    assert!(body.starts_with("event: message\ndata: {"), "{body}");
    assert!(body.ends_with("\"is_finish\":true}\n\n"), "{body}");
}

#[tokio::test]
async fn two_requests_that_come_at_once_are_answered_in_order() {
    let host = Setup::serving(&["echo"]).start().await;
    let both = format!("{}{}", post("echo", &[], &saying("first")), post("echo", &[], &saying("second")));
    let answer = Wire::sending(&host, &both).await.until("event: done", 2).await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answer}");
    let [first, second] = ["\"answer_stream\":\"rst\"", "\"answer_stream\":\"ond\""].map(|text| answer.find(text));
    assert!(first.is_some() && first < second, "{answer}");
}

#[tokio::test]
async fn a_connection_is_good_for_another_request() {
    let host = Setup::serving(&["echo"]).start().await;
    let mut wire = Wire::to(&host).await;
    for turn in 1..=3 {
        wire.send(post("echo", &[], &saying("hello")).as_bytes()).await;
        let answer = wire.until("\r\n0\r\n\r\n", turn).await;
        assert_eq!(answer.matches("event: done").count(), turn, "{answer}");
    }
}

#[tokio::test]
async fn strangers_cannot_tell_one_refusal_from_another() {
    let keys = "keys = [\"sha256:ad44dc8e51cfbfa55e81ddbb626b466241069045066846e7e4cd096131505290\"]";
    let host = Setup::serving(&["echo"]).config(&format!("[tenants.default]\n{keys}\n")).start().await;
    let refusal = async |tenant: &str, agent: &str, header: &str| {
        let request = post(agent, &[header], &saying("x")).replace("/default/", &format!("/{tenant}/"));
        let answer = Wire::sending(&host, &request).await.until("}", 1).await;
        let lines = answer.lines().filter(|line| !line.to_lowercase().starts_with("date:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let usual = refusal("default", "echo", "x: y").await;
    assert_eq!(usual[0], "HTTP/1.1 401 Unauthorized");
    assert_eq!(usual.last().unwrap(), "{\"error\":\"Unauthorized\"}");
    for (tenant, agent, header) in [
        ("default", "echo", "authorization: Bearer wrong"),
        ("default", "echo", "authorization: Bearer "),
        ("default", "echo", "authorization: Basic the-key"),
        ("default", "echo", "authorization: the-key"),
        ("default", "nobody", "authorization: Bearer wrong"),
        ("nobody", "echo", "authorization: Bearer wrong"),
        ("nobody", "echo", "authorization: Bearer the-key"),
        ("nobody", "nobody", "x: y"),
    ] {
        assert_eq!(refusal(tenant, agent, header).await, usual, "{tenant}/{agent} {header}");
    }
    assert!(!host.log().contains("the-key"));
    assert_eq!(Ask::agent(&host, "echo").text("x").key("the-key").answer().await.text, "x");
}
