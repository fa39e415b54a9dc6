//! The Lingzhu endpoint beyond its cases: what takes two requests at once, or a request that no client library sends.

use serde_json::json;

use super::support::{
    guests,
    host::Setup,
    turn::{Ask, NOTHING, ask},
    wire::{Wire, post, saying},
};

#[tokio::test]
async fn a_request_without_accept_is_served() {
    let host = Setup::serving(&["echo"]).start().await;
    let request = post("echo", &[], &saying("hello"));
    assert!(!request.contains("accept"));
    let answer = Wire::sending(&host, &request).await.until("event: done", 1).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("content-type: text/event-stream\r\n"), "{answer}");
}

#[tokio::test]
async fn the_head_comes_before_the_agent_says_anything() {
    let host = Setup::serving(&["sleeper"]).start().await;
    let mut wire = Wire::sending(&host, &post("sleeper", &[], &saying("x"))).await;
    let head = wire.until("\r\n\r\n", 1).await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test]
async fn a_photo_comes_while_the_first_stream_is_open_and_both_run() {
    let host = Setup::serving(&["puppet"]).start().await;
    let own = || Ask::agent(&host, "puppet").conversation("1770625332").user("u1");
    let question = "chat look\ntool-quiet take_photo\nsleep 600000";
    let mut first = own().text(question).open().await;
    first.said("\"command\":\"take_photo\"").await;
    // The image comes alone, with the same ids, while the first stream is open.
    let url = "https://h.example/a.webp";
    assert_eq!(own().image(url).answer().await.text, NOTHING);
    let history = own().text("history 9").answer().await.text;
    assert_eq!(history, format!("user:{question}|user:image:{url}"), "the answer to the question is not over");
    drop(first);
    // So it still ran.
    host.logged("turn ended: the client left").await;
}

#[tokio::test]
async fn many_requests_of_one_conversation_run_at_once() {
    let host = Setup::serving(&["puppet"]).start().await;
    let mut open = Vec::new();
    for _ in 0..5 {
        let mut running = Ask::agent(&host, "puppet").conversation("c").text("chat a\nsleep 600000").open().await;
        running.said("\"answer_stream\":\"a\"").await;
        open.push(running);
    }
    assert_eq!(host.readyz().await["turns"], 5);
}

#[tokio::test]
async fn the_address_of_the_platforms_forms_leads_to_the_agent_that_the_key_is_bound_to() {
    let keys = "keys = [{ hash = \"sha256:3b8225c576f5be46bee490789e865e50b94fb6dcde8bb3b9e998510747ed26c1\", \
                agent = \"echo\" }]";
    let config = format!("[tenants.default]\n{keys}\n");
    let host = Setup::serving(&["echo", "mute"]).config(&config).start().await;
    let body = saying("hello");
    let request = |path: &str, key: &str| {
        let header = format!("authorization: Bearer {key}");
        post("echo", &[&header], &body).replace("/agents/default/echo/lingzhu", path)
    };
    for path in ["/metis/agent/api/sse", "/metis/agent/api/sse/", "/metis/agent/api/sse%20"] {
        let answer = Wire::sending(&host, &request(path, "key-of-mute")).await.until("event: done", 1).await;
        assert!(answer.contains("\"answer_stream\":\"he\""), "{path}: {answer}");
    }
    let answer = Wire::sending(&host, &request("/metis/agent/api/sse", "wrong")).await.until("}", 1).await;
    assert!(answer.starts_with("HTTP/1.1 401 ") && answer.ends_with("{\"error\":\"Unauthorized\"}"), "{answer}");
}

#[tokio::test]
async fn both_protocols_serve_the_same_agent_at_once() {
    let host = Setup::serving(&["puppet"]).start().await;
    let mut over_lingzhu = Ask::agent(&host, "puppet").text("chat a\nsleep 600000").open().await;
    over_lingzhu.said("\"answer_stream\":\"a\"").await;
    let none = reqwest::header::HeaderMap::new();
    let (mut over_mythra, _) = conformance::socket::Socket::connect(&host.mythra("puppet"), none).await.unwrap();
    over_mythra.text(&conformance::script::input("chat b\nsleep 600000")).await;
    let heard = over_mythra.find(super::support::host::SOON, |frame| frame.contains("\"content\":\"b\"")).await;
    assert!(matches!(heard, Ok(conformance::socket::Heard::Text(_))), "{heard:?}");
    assert_eq!(host.readyz().await["turns"], 2);
    assert_eq!(ask(&host, "puppet", "chat c").await.text, "c");
}

#[tokio::test]
async fn an_agents_own_texts_and_id_are_what_a_wearer_sees() {
    let file = "id = \"weather-1\"\n[texts]\napology = \"any\"\n[texts.zh]\napology = \"对不起\"\nnothing = \"无\"\n";
    let setup = Setup::default().plugin("trap.wasm", &guests::bytes("trap")).plugin("trap.toml", file.as_bytes());
    let host = setup.plugin("mute.wasm", &guests::bytes("mute")).plugin("mute.toml", file.as_bytes()).start().await;
    let said = async |agent: &str, lang: &str| {
        Ask::agent(&host, agent).text("x").metadata(json!({ "lang": lang })).answer().await.text
    };
    assert_eq!(said("trap", "zh-CN").await, "x对不起");
    assert_eq!(said("trap", "fr-FR").await, "xany");
    assert_eq!(said("mute", "zh-TW").await, "无");
    assert_eq!(said("mute", "en").await, "I have nothing to say to that.");
    let unnamed = saying("x").replace("\"agent_id\":\"a1\",", "");
    let answer = Wire::sending(&host, &post("mute", &[], &unnamed)).await.until("event: done", 1).await;
    assert!(answer.contains("\"agent_id\":\"weather-1\""), "{answer}");
}
