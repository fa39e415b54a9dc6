//! The admin listener, asked.

use std::sync::LazyLock;

use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::Value;
use tokio::time::timeout;

use super::host::{Host, SOON};

/// Keeps no connection, because each test has a runtime of its own.
static CLIENT: LazyLock<reqwest::Client> =
    LazyLock::new(|| reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap());

/// One question.
pub struct Question(reqwest::RequestBuilder);

/// What was answered.
#[derive(Debug)]
pub struct Told {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Question {
    /// A question of this path.
    pub fn new(host: &Host, path: &str) -> Self {
        Self::with(Method::GET, host, path)
    }

    /// A request of any method.
    pub fn with(method: Method, host: &Host, path: &str) -> Self {
        Self(CLIENT.request(method, format!("http://{}{path}", host.admin)))
    }

    pub fn key(self, key: &str) -> Self {
        Self(self.0.bearer_auth(key))
    }

    pub fn header(self, name: &str, value: &str) -> Self {
        Self(self.0.header(name, value))
    }

    /// Asks.
    pub async fn ask(self) -> Told {
        let response = timeout(SOON, self.0.send()).await.expect("no answer").unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        Told { status, headers, text: response.text().await.unwrap() }
    }
}

impl Told {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn content_type(&self) -> &str {
        self.headers["content-type"].to_str().unwrap()
    }

    /// The text of `error`, which is all that a refusal says.
    pub fn error(&self) -> String {
        let json = self.json();
        assert_eq!(json.as_object().unwrap().len(), 1, "{self:?}");
        json["error"].as_str().unwrap().to_owned()
    }
}

/// What is at a path, which must be there.
pub async fn get(host: &Host, path: &str) -> Value {
    let told = Question::new(host, path).ask().await;
    assert_eq!(told.status, StatusCode::OK, "{told:?}");
    told.json()
}

/// All metrics, as Prometheus reads them.
pub async fn metrics(host: &Host) -> String {
    let told = Question::new(host, "/metrics").ask().await;
    assert_eq!(told.status, StatusCode::OK, "{told:?}");
    told.text
}

/// The count that one metric has with these labels, such as `hostelry_turns_in_flight{tenant="acme"}`; 0 if it is not
/// there yet.
pub async fn metric(host: &Host, name: &str) -> u64 {
    let text = metrics(host).await;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0, |value| value.parse().unwrap())
}
