//! What clients may take of the host before a turn begins: connections, and room for the bodies of requests.

use reqwest::StatusCode;
use tokio::time::timeout;

use crate::support::{
    guests,
    host::{SOON, Setup},
    turn::{Ask, ask},
    wire::{Wire, post},
};

#[tokio::test]
async fn connections_are_bounded_and_given_back() {
    let host = Setup::serving(&["echo"]).config("server.connections = 3").start().await;
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(Wire::sending(&host, "GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n").await);
    }
    for wire in &mut held {
        wire.until("ok", 1).await;
    }
    assert_eq!(Wire::to(&host).await.end().await, "", "one more is closed at once");
    assert_eq!(host.hits("connections").await, 1);
    drop(held);
    // The host hears of it a moment later.
    while reqwest::get(host.http("/healthz")).await.is_err() {}
    assert_eq!(ask(&host, "echo", "x").await.text, "x");
}

#[tokio::test]
async fn bodies_that_do_not_end_take_a_bounded_room_all_together_and_a_tenants_own() {
    let tenants = ["default", "a", "b", "c", "d"];
    let mut setup = Setup::serving(&["echo"]).config(
        "server.request-time = \"60s\"\nlingzhu.max-body = \"63MiB\"\nlimits.host-call = \"8MiB\"\n\
         [tenants.default]\n[tenants.a]\n[tenants.b]\n[tenants.c]\n[tenants.d]\n",
    );
    for tenant in &tenants[1..] {
        setup = setup.plugin(&format!("{tenant}/echo.wasm"), &guests::bytes("echo"));
    }
    let host = setup.start().await;
    // 62 MiB of a body, or as much as this, of which the rest does not come.
    let begin = async |tenant: &str, mebibytes: usize| {
        let head = post("echo", &["content-length: 66060288"], "").replace("/default/", &format!("/{tenant}/"));
        let mut wire = Wire::sending(&host, &head).await;
        let piece = vec![b' '; 1024 * 1024];
        for _ in 0..mebibytes {
            wire.try_send(&piece).await;
        }
        wire
    };
    // What was sent may still wait in the system's own buffers; what the host has read, it holds.
    let before = host.resident();
    let holds = async |bodies: u64| {
        while host.resident() < before + bodies * 61 * 1024 * 1024 {
            tokio::task::yield_now().await;
        }
    };
    let refusal = async |tenant: &str, mebibytes: usize| {
        let mut refused = begin(tenant, mebibytes).await;
        // Else the host would go on listening for a while before it answers.
        refused.finish().await;
        refused.until("}", 1).await
    };
    let mut held = vec![begin("a", 62).await];
    timeout(SOON, holds(1)).await.expect("the host does not read");
    let answer = refusal("a", 4).await;
    assert!(answer.starts_with("HTTP/1.1 429 ") && answer.ends_with("{\"error\":\"too many requests\"}"), "{answer}");
    assert_eq!((host.hits("tenant-bodies").await, host.hits("bodies").await), (1, 0));

    for tenant in ["b", "c", "d"] {
        held.push(begin(tenant, 62).await);
    }
    // 248 of 256 MiB are held, by four tenants who each have their quarter.
    timeout(SOON, holds(4)).await.expect("the host does not read");
    let answer = refusal("default", 16).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with("{\"error\":\"the server is busy\"}"), "{answer}");
    assert_eq!((host.hits("tenant-bodies").await, host.hits("bodies").await), (1, 1));
    assert_eq!(ask(&host, "echo", "small").await.text, "small", "there is room for what is small");
    held.clear();
    // What they held is given back once the host sees that they are gone.
    let text = "x".repeat(3 * 1024 * 1024);
    let again = async {
        loop {
            match Ask::at(&host, "a", "echo").text(&text).try_open().await {
                Ok(running) => return running.rest().await,
                Err(refusal) => assert_eq!(refusal.status, StatusCode::TOO_MANY_REQUESTS),
            }
        }
    };
    let answer = timeout(SOON, again).await.expect("the room is not given back");
    assert_eq!(answer.text.len(), text.len());
}
