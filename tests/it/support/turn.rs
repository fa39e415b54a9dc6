//! One turn over Lingzhu, for the tests that want an agent's answer and not the protocol's every corner.
//!
//! Each answer that is read to its end is checked to be well-formed: just one finished `message`, the last, then `done`,
//! then the end of the stream.

use std::sync::LazyLock;

use reqwest::{StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::host::{Host, SOON};

/// What a user is shown when an agent failed: its language is Chinese where the client names none.
pub const APOLOGY: &str = "抱歉，我现在无法回答，请稍后再试。";

/// What a user is shown when an agent said nothing.
pub const NOTHING: &str = "我暂时没有可以回答的内容。";

/// Words of the machine room, which no client must ever read.
const INNER: &[&str] = &[
    "wasm",
    "trap",
    "memory",
    "backtrace",
    "unreachable",
    "panic",
    "fuel",
    "epoch",
    "limit",
    "stack",
    "/work",
    "/tmp",
    "plugins",
    ".rs",
];

/// Keeps no connection, because each test has a runtime of its own.
static CLIENT: LazyLock<reqwest::Client> =
    LazyLock::new(|| reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap());

/// Says `text` to an agent of the default tenant in a conversation of its own, and reads the answer.
pub async fn ask(host: &Host, agent: &str, text: &str) -> Answer {
    Ask::agent(host, agent).text(text).answer().await
}

/// One request.
#[derive(Clone)]
pub struct Ask {
    url: String,
    key: Option<String>,
    body: Value,
}

/// A request that was answered with something else than a stream.
#[derive(Debug)]
pub struct Refusal {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// The text of `error`.
    pub error: String,
}

/// An answer that is being streamed.
pub struct Running {
    response: reqwest::Response,
    bytes: Vec<u8>,
}

/// An answer, whole.
#[derive(Debug)]
pub struct Answer {
    /// Every byte of the stream.
    pub bytes: String,
    /// The `data` of each frame, `done` included.
    pub frames: Vec<Value>,
    /// All text of all answers, without the number of a failure that stands behind the apology.
    pub text: String,
    /// That number: what the turn's crash card is found by.
    pub number: Option<String>,
}

impl Ask {
    /// A request to an agent of the default tenant, in a conversation of its own.
    pub fn agent(host: &Host, agent: &str) -> Self {
        Self::at(host, "default", agent)
    }

    /// A request to any tenant's agent.
    pub fn at(host: &Host, tenant: &str, agent: &str) -> Self {
        let body = json!({ "message_id": hostelry::ids::turn_id(), "agent_id": "a1", "message": [] });
        Self { url: host.http(&format!("/agents/{tenant}/{agent}/lingzhu")), key: None, body }
    }

    fn with(mut self, key: &str, value: Value) -> Self {
        self.body[key] = value;
        self
    }

    fn message(mut self, message: Value) -> Self {
        self.body["message"].as_array_mut().unwrap().push(message);
        self
    }

    pub fn text(self, text: &str) -> Self {
        self.message(json!({ "role": "user", "type": "text", "text": text }))
    }

    pub fn image(self, url: &str) -> Self {
        self.message(json!({ "role": "user", "type": "image", "image_url": url }))
    }

    pub fn conversation(self, id: &str) -> Self {
        self.with("message_id", json!(id))
    }

    pub fn user(self, id: &str) -> Self {
        self.with("user_id", json!(id))
    }

    pub fn metadata(self, metadata: Value) -> Self {
        self.with("metadata", metadata)
    }

    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    async fn send(self) -> reqwest::Response {
        let request = CLIENT.post(&self.url).json(&self.body);
        let request = match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        };
        timeout(SOON, request.send()).await.expect("no answer").unwrap()
    }

    /// Begins the turn.
    pub async fn open(self) -> Running {
        let response = self.send().await;
        assert_eq!(response.status(), StatusCode::OK, "{:?}", response.text().await);
        Running { response, bytes: Vec::new() }
    }

    /// Reads the answer to its end.
    pub async fn answer(self) -> Answer {
        self.open().await.rest().await
    }

    /// The refusal, if it is one.
    pub async fn try_open(self) -> Result<Running, Refusal> {
        let response = self.send().await;
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::OK {
            return Ok(Running { response, bytes: Vec::new() });
        }
        let body: Value = response.json().await.unwrap();
        let error = body["error"].as_str().unwrap_or_else(|| panic!("{status}: {body}")).to_owned();
        Err(Refusal { status, headers, error })
    }

    /// The refusal that this must be.
    pub async fn refused(self) -> Refusal {
        self.try_open().await.err().expect("it was served")
    }
}

impl Refusal {
    /// After how many seconds one may try again.
    pub fn retry_after(&self) -> u64 {
        let header = self.headers.get("retry-after").unwrap_or_else(|| panic!("{self:?}"));
        header.to_str().unwrap().parse().unwrap()
    }
}

impl Running {
    /// Waits until `text` was streamed.
    pub async fn said(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.bytes).contains(text) {
            let chunk = timeout(SOON, self.response.chunk()).await.expect("nothing comes").unwrap();
            let ended = format!("the stream ended without {text:?}: {}", String::from_utf8_lossy(&self.bytes));
            self.bytes.extend(chunk.expect(&ended));
        }
    }

    /// Reads to the end.
    pub async fn rest(self) -> Answer {
        let Self { mut response, mut bytes } = self;
        let read = async {
            while let Some(chunk) = response.chunk().await.expect("the stream was cut off") {
                bytes.extend(chunk);
            }
        };
        timeout(SOON * 2, read).await.expect("the stream does not end");
        Answer::of(String::from_utf8(bytes).unwrap())
    }
}

impl Answer {
    fn of(bytes: String) -> Self {
        let mut frames = Vec::new();
        let mut events = Vec::new();
        let (blocks, tail) = bytes.rsplit_once("\n\n").unwrap_or_else(|| panic!("no frame: {bytes:?}"));
        assert_eq!(tail, "", "the stream ends in the middle of a frame");
        for block in blocks.split("\n\n").filter(|block| !block.starts_with(':')) {
            let (event, data) = block.split_once("\ndata: ").unwrap_or_else(|| panic!("no frame: {block:?}"));
            events.push(event.strip_prefix("event: ").unwrap_or_else(|| panic!("no event: {block:?}")).to_owned());
            frames.push(serde_json::from_str::<Value>(data).unwrap_or_else(|error| panic!("{error}: {data:?}")));
        }
        let last = events.len().checked_sub(2).unwrap_or_else(|| panic!("too short: {bytes}"));
        for (index, (event, frame)) in events.iter().zip(&frames).enumerate() {
            assert_eq!(event, if index <= last { "message" } else { "done" }, "frame {index} of {bytes}");
            assert_eq!(frame["is_finish"], json!(index >= last), "frame {index} of {bytes}");
        }
        let text: String = frames.iter().filter_map(|frame| frame["answer_stream"].as_str()).collect();
        let number = number_of(&text);
        let text = number.as_ref().and_then(|_| text.get(..text.len() - NUMBERED)).unwrap_or(&text).to_owned();
        Self { bytes, frames, text, number }
    }

    /// The tool calls that were sent to the device.
    pub fn device(&self) -> Vec<&Value> {
        self.frames.iter().map(|frame| &frame["tool_call"]).filter(|call| !call.is_null()).collect()
    }

    /// Checks that the turn failed as seen from outside: what was said before, the apology, and no word of what happened
    /// inside.
    pub fn assert_apology(&self, before: &str) {
        assert_eq!(self.text, format!("{before}{APOLOGY}"), "{}", self.bytes);
        assert!(self.number.is_some(), "a failure has a number: {}", self.bytes);
        // Ids are drawn, and may look like any word.
        let mut bytes = self.bytes.to_lowercase();
        for id in self.frames.iter().filter_map(|frame| frame["message_id"].as_str()).chain(self.number.as_deref()) {
            bytes = bytes.replace(&id.to_lowercase(), "");
        }
        for word in INNER {
            assert!(!bytes.contains(word), "{word:?} is in {}", self.bytes);
        }
    }
}

/// How many bytes a number, its brackets and the blank before them take.
const NUMBERED: usize = " [12345678]".len();

/// The number of a failure behind a text, if there is one.
pub fn number_of(text: &str) -> Option<String> {
    let number = text.get(text.len().checked_sub(NUMBERED)?..)?.strip_prefix(" [")?.strip_suffix(']')?;
    let is_one = number.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    is_one.then(|| number.to_owned())
}
