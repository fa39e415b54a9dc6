//! One HTTP request and everything that came back: status, headers, every byte of the body, and when it came.

use std::time::Duration;

use bytes::Bytes;
use reqwest::{
    Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use tokio::time::{Instant, timeout};

use crate::{
    case,
    notation::{self, Bound, Pattern},
};

/// What is sent.
#[derive(Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The address.
    pub url: String,
    /// Names and values; an empty value takes away a header that stands before it.
    pub headers: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Bytes>,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// When the head was there, from the request on.
    pub head_at: Duration,
    /// When each piece of the body was there, and at which byte of it each ends.
    pub pieces: Vec<(Duration, usize)>,
    /// When the body had ended.
    pub ended_at: Duration,
}

/// Sends one request on a connection of its own and reads the answer to its end.
pub async fn send(request: Request, limit: Duration) -> Result<Answer, String> {
    let exchange = exchange(request);
    timeout(limit, exchange).await.map_err(|_| format!("no whole answer within {limit:?}"))?
}

async fn exchange(request: Request) -> Result<Answer, String> {
    let builder = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
    let client = builder.redirect(reqwest::redirect::Policy::none()).build().map_err(|error| error.to_string())?;
    let method: Method = request.method.parse().map_err(|_| format!("not a method: {}", request.method))?;
    let headers = headers(&request.headers)?;
    let mut builder = client.request(method, &request.url).headers(headers);
    if let Some(body) = request.body {
        builder = builder.body(body);
    }
    let began = Instant::now();
    let mut response = builder.send().await.map_err(|error| format!("no answer: {}", chain(&error)))?;
    let head_at = began.elapsed();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let (mut body, mut pieces) = (Vec::new(), Vec::new());
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) => {
                body.extend_from_slice(&chunk);
                pieces.push((began.elapsed(), body.len()));
            }
            Ok(None) => break,
            Err(error) => {
                let got = String::from_utf8_lossy(&body);
                return Err(format!("the answer broke off: {}\nafter: {got}", chain(&error)));
            }
        }
    }
    Ok(Answer { status, headers, body, head_at, pieces, ended_at: began.elapsed() })
}

/// These lines as headers. A later one goes before an earlier one of its name.
pub fn headers(lines: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name: HeaderName = name.parse().map_err(|_| format!("not a header's name: {name}"))?;
        if value.is_empty() {
            headers.remove(&name);
        } else {
            let value =
                HeaderValue::from_bytes(value.as_bytes()).map_err(|_| format!("not a header's value: {value:?}"))?;
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

/// Whether `headers` have what each line says: `name: value`, or `name:` for one that must not be there.
pub fn check_headers(headers: &HeaderMap, lines: &[String]) -> Result<(), String> {
    for line in lines {
        let (name, wanted) = case::header(line)?;
        let found = headers.get(&name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        let fits = match (&found, wanted.as_str()) {
            (None, "") => true,
            (Some(found), wanted) => found == wanted || (wanted == "…" && !found.is_empty()),
            (None, _) => false,
        };
        if !fits {
            return Err(format!("header {name}: expected {wanted:?}, got {found:?}"));
        }
    }
    Ok(())
}

/// Whether the answer is of this status, is JSON, and is like `wanted` if that is said.
pub fn check_plain(answer: &Answer, status: u16, wanted: Option<&str>) -> Result<(), String> {
    let body = String::from_utf8_lossy(&answer.body);
    if answer.status != status {
        return Err(format!("expected {status}, got {}: {body}", answer.status));
    }
    let kind = answer.headers.get("content-type").map(|kind| String::from_utf8_lossy(kind.as_bytes()));
    if !kind.as_ref().is_some_and(|kind| kind.starts_with("application/json")) {
        return Err(format!("expected JSON, got {kind:?}: {body}"));
    }
    let json: serde_json::Value = serde_json::from_str(&body).map_err(|error| format!("{error}: {body}"))?;
    let error = json.get("error").and_then(serde_json::Value::as_str).unwrap_or_default();
    if error.is_empty() || notation::inner_word(error).is_some() {
        return Err(format!("expected an error in safe words, got {body}"));
    }
    match wanted {
        Some(wanted) if !Pattern::new(wanted).matches(&body, &mut Bound::default()) => {
            Err(format!("expected {wanted}\ngot      {body}"))
        }
        _ => Ok(()),
    }
}

/// An error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
