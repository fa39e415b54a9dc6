//! The way in: keys, addresses and refusals, over a real socket to a host without agents.

use std::collections::BTreeMap;

use axum::http::Method;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::config::{Config, KeyConfig, TenantConfig};

/// A host of the tenant `acme`, which has the key `good` and the key `bound` to the agent `echo`, or of an open one.
struct Here {
    address: std::net::SocketAddr,
    lobby: Arc<Lobby>,
    client: reqwest::Client,
    _data: tempfile::TempDir,
}

impl Here {
    async fn new(keyed: bool) -> Self {
        let key = |key: &str, agent: Option<&str>| KeyConfig {
            digest: Sha256::digest(key.as_bytes()).into(),
            agent: agent.map(str::to_owned),
            expires: None,
        };
        let keys = if keyed { vec![key("good", None), key("bound", Some("echo"))] } else { Vec::new() };
        let acme = TenantConfig { keys, ..TenantConfig::out_of_the_box() };
        let mut config = Config { tenants: BTreeMap::from([("acme".to_owned(), acme)]), ..Config::default() };
        config.lingzhu.max_body = 1024 * 1024;
        let data = tempfile::tempdir().unwrap();

        let lobby = Arc::new(Lobby::for_tests(config, data.path(), 1));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = routes().with_state(Arc::clone(&lobby));
        tokio::spawn(async move { axum::serve(listener, app).await });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { address, lobby, client, _data: data }
    }

    /// Status, body, and the headers `allow` and `retry-after` together.
    async fn ask(&self, method: Method, path: &str, authorization: Option<&str>) -> (u16, String, String) {
        let mut request = self.client.request(method, format!("http://{}{path}", self.address)).body("{");
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let response = request.send().await.unwrap();
        let header = |name: &str| response.headers().get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        assert_eq!(
            header("content-type"),
            if response.status() == 404 && header("content-type").is_empty() { "" } else { "application/json" }
        );
        let more = header("allow") + &header("retry-after");
        (response.status().as_u16(), response.text().await.unwrap(), more)
    }

    async fn post(&self, path: &str, authorization: Option<&str>) -> (u16, String) {
        let (status, body, _) = self.ask(Method::POST, path, authorization).await;
        (status, body)
    }
}

fn error(status: u16, error: &str) -> (u16, String) {
    (status, format!(r#"{{"error":"{error}"}}"#))
}

#[test]
fn a_key_is_a_bearer_token_with_blanks_ignored() {
    let cases = [
        ("Bearer k", Some("k")),
        (" bearer   k ", Some("k")),
        ("BEARER\tk", Some("k")),
        ("Basic k", None),
        ("Bearer ", None),
        ("k", None),
    ];
    for (value, expected) in cases {
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(value))]);
        assert_eq!(key_of(&headers).as_deref(), expected, "{value:?}");
    }
    assert_eq!(key_of(&HeaderMap::new()), None);
}

#[tokio::test]
async fn every_stranger_hears_the_same() {
    let here = Here::new(true).await;
    let unauthorized = error(401, "Unauthorized");
    for (path, authorization) in [
        ("/agents/acme/echo/lingzhu", None),
        ("/agents/acme/echo/lingzhu", Some("Bearer bad")),
        ("/agents/acme/echo/lingzhu", Some("good")),
        ("/agents/acme/other/lingzhu", Some("Bearer bound")),
        ("/agents/nobody/echo/lingzhu", Some("Bearer good")),
        ("/agents/nobody/%ff/lingzhu", None),
        ("/metis/agent/api/sse", None),
        ("/metis/agent/api/sse", Some("Bearer bad")),
    ] {
        assert_eq!(here.post(path, authorization).await, unauthorized, "{path} {authorization:?}");
    }
}

#[tokio::test]
async fn who_may_ask_hears_what_is_not_there() {
    let here = Here::new(true).await;
    assert_eq!(here.post("/agents/acme/echo/lingzhu", Some("bearer  good ")).await, error(404, "no such agent"));
    assert_eq!(here.post("/agents/acme/echo/lingzhu", Some("Bearer bound")).await, error(404, "no such agent"));
    assert_eq!(here.post("/metis/agent/api/sse", Some("Bearer bound")).await, error(404, "no such agent"));
    let (status, body) = here.post("/metis/agent/api/sse", Some("Bearer good")).await;
    assert_eq!(status, 404);
    assert!(body.contains("bound to no agent"), "{body}");
    let open = Here::new(false).await;
    assert_eq!(open.post("/agents/nobody/echo/lingzhu", None).await, error(404, "no such tenant"));
    assert_eq!(open.post("/agents/acme/echo/lingzhu", None).await, error(404, "no such agent"));
}

#[tokio::test]
async fn an_address_may_have_been_pasted() {
    let here = Here::new(true).await;
    for path in ["/agents/acme/echo/lingzhu", "/agents/%20acme%20/%20echo/lingzhu", "/metis/agent/api/sse"] {
        for tail in TAILS {
            let answer = here.post(&format!("{path}{tail}"), Some("Bearer bound")).await;
            assert_eq!(answer, error(404, "no such agent"), "{path}{tail}");
        }
    }
}

#[tokio::test]
async fn any_other_method_is_told_which_is_right() {
    let here = Here::new(true).await;
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS, Method::PATCH] {
        for path in ["/agents/acme/echo/lingzhu", "/agents/acme/echo/lingzhu/", "/metis/agent/api/sse"] {
            let (status, body, more) = here.ask(method.clone(), path, None).await;
            assert_eq!(
                (status, body.as_str(), more.as_str()),
                (405, r#"{"error":"only POST"}"#, "POST"),
                "{method} {path}"
            );
        }
    }
}

#[tokio::test]
async fn a_host_that_goes_down_begins_nothing() {
    let here = Here::new(true).await;
    here.lobby.draining.cancel();
    let (status, body, more) = here.ask(Method::POST, "/agents/acme/echo/lingzhu", Some("Bearer good")).await;
    assert_eq!((status, body.as_str(), more.as_str()), (503, r#"{"error":"the server is shutting down"}"#, "5"));
    assert_eq!(here.post("/agents/acme/echo/lingzhu", None).await.0, 401);
}

#[tokio::test]
async fn a_refused_client_that_still_sends_sees_the_answer() {
    let here = Here::new(true).await;
    let url = format!("http://{}/agents/acme/echo/lingzhu", here.address);
    let response = here.client.post(url).body("x".repeat(1024 * 1024)).send().await.unwrap();
    assert_eq!(response.status(), 401);
}

#[test]
fn every_refusal_has_its_status() {
    let rate = Busy::Rate { retry_after: Duration::from_secs(3) };
    let cases: [(Refused, u16, Option<&str>); 7] = [
        (rate.into(), 429, Some("4")),
        (Busy::Tenant.into(), 429, Some("1")),
        (Busy::Server.into(), 503, Some("1")),
        (Unread::NoRoom.into(), 503, Some("1")),
        (Unread::TooLarge(9).into(), 413, None),
        (Unread::TooSlow(Duration::from_secs(1)).into(), 408, None),
        (Unfit("x".to_owned()).into(), 400, None),
    ];
    for (refused, status, retry_after) in cases {
        let text = refused.to_string();
        let response = refused.into_response();
        assert_eq!(response.status(), status, "{text}");
        let found = response.headers().get(header::RETRY_AFTER).map(|value| value.to_str().unwrap());
        assert_eq!(found, retry_after, "{text}");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    }
}
