//! A chat over Lingzhu: each turn is a POST, and its answer a stream of events that ends with `done`.

use std::{error::Error, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use reqwest::{
    Client, Response,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    redirect::Policy,
};
use serde_json::json;
use sse_stream::SseStream;
use url::Url;

use super::{
    Trouble, address,
    frames::{self, Ask, Course, Ending},
    screen::Show,
};
use crate::ids::AgentId;

/// How long opening a connection may take: far longer than any network needs, much shorter than a turn.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The largest event that is taken. Text comes in pieces of 16 KiB, at most six times that once escaped.
const EVENT_MAX: usize = 1024 * 1024;

/// How much of a refusal's body is read, in bytes.
const REFUSAL_MAX: usize = 16 * 1024;

/// One end of a Lingzhu chat.
pub(in crate::cli) struct Line {
    client: Client,
    url: Url,
    agent: AgentId,
    authorization: Option<HeaderValue>,
}

impl Line {
    /// A line to `url`.
    pub(super) fn new(url: Url, agent: AgentId, authorization: Option<HeaderValue>) -> Result<Self, String> {
        // Nobody stands between: a proxy that the environment names knows no loopback address, and the WebSocket of the
        // other protocol would not go through it either.
        let client = Client::builder().connect_timeout(CONNECT_TIME).redirect(Policy::none()).no_proxy().build();
        let client = client.map_err(|error| format!("cannot make an HTTP client: {}", cause(&error)))?;
        Ok(Self { client, url, agent, authorization })
    }

    /// Says `text`, and shows what comes back until the turn's end.
    pub(super) async fn turn(&mut self, ask: &Ask, text: &str, screen: &mut impl Show) -> Result<Ending, Trouble> {
        let mut request = self.client.post(self.url.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = request.body(frames::lingzhu_body(ask, text)).send().await;
        let response = response.map_err(|error| address::unreachable(&self.url, &cause(&error)))?;
        let status = response.status().as_u16();
        if status != 200 {
            let body = beginning(response).await;
            let keyed = self.authorization.is_some();
            return Err(Trouble::Said(address::refusal(status, &body, &self.agent, keyed)));
        }
        let streams = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if !streams.is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return Err(Trouble::Said(format!("what answers at {} is no Lingzhu endpoint: no event stream", self.url)));
        }
        listen(response.bytes_stream(), screen).await
    }
}

/// Shows the events of a stream until `done`.
async fn listen<S, F>(bytes: S, screen: &mut impl Show) -> Result<Ending, Trouble>
where
    S: Stream<Item = Result<Bytes, F>>,
    F: Error + Send + Sync + 'static,
{
    let mut course = Course::lingzhu();
    let mut events = std::pin::pin!(SseStream::from_bytes_stream(bounded(bytes)));
    while let Some(event) = events.next().await {
        let event = event.map_err(|error| format!("the answer broke off: {}", cause(&error)))?;
        let name = event.event.as_deref().unwrap_or("message");
        let Some(data) = event.data else { continue };
        let frame = frames::object(&data)?;
        let piece = frames::lingzhu(name, &frame);
        let ending = course.note(&piece);
        screen.frame(&json!({ "event": name, "data": frame }), piece)?;
        if let Some(ending) = ending {
            return Ok(ending);
        }
    }
    Err(Trouble::Said("the answer ended without its end: no `done` came".to_owned()))
}

/// `bytes`, until more than [`EVENT_MAX`] of them come without a blank line: what parses them would keep them all.
fn bounded<S, F>(bytes: S) -> impl Stream<Item = Result<Bytes, std::io::Error>>
where
    S: Stream<Item = Result<Bytes, F>>,
    F: Error + Send + Sync + 'static,
{
    let mut length = 0_usize;
    let mut blank = false;
    bytes.map(move |chunk| {
        let chunk = chunk.map_err(|error| std::io::Error::other(cause(&error)))?;
        for byte in &chunk {
            length += 1;
            match byte {
                b'\n' if blank => length = 0,
                b'\n' => blank = true,
                b'\r' => {}
                _ => blank = false,
            }
            if length > EVENT_MAX {
                return Err(std::io::Error::other(format!("the host sent an event of more than {EVENT_MAX} bytes")));
            }
        }
        Ok(chunk)
    })
}

/// The beginning of a body.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        body.extend(chunk.iter().take(REFUSAL_MAX - body.len()));
        if body.len() >= REFUSAL_MAX {
            break;
        }
    }
    body
}

/// What an error comes from in the end; what is around it names layers that nobody asked about.
fn cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::stream;

    use super::{
        super::screen::{Detail, Screen},
        *,
    };

    const ANSWER: &str =
        "event: message\ndata: {\"type\":\"answer\",\"answer_stream\":\"你好\",\"is_finish\":false}\n\n";
    const DONE: &str = "event: done\ndata: {\"type\":\"answer\",\"answer_stream\":\"\",\"is_finish\":true}\n\n";

    /// What is shown of a stream that comes in pieces of `size` bytes, and how the turn went.
    async fn heard(stream: &str, size: usize) -> (String, Result<Ending, Trouble>) {
        let chunks: Vec<_> =
            stream.as_bytes().chunks(size).map(|c| Ok::<_, io::Error>(Bytes::copy_from_slice(c))).collect();
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, io::sink(), Detail::Talk);
        let ending = listen(stream::iter(chunks), &mut screen).await;
        screen.end_turn().unwrap();
        drop(screen);
        (String::from_utf8(out).unwrap(), ending)
    }

    #[tokio::test]
    async fn an_answer_is_heard_however_it_is_cut_and_ends_with_done() {
        let stream = format!("{ANSWER}: keepalive\n\n{ANSWER}{DONE}");
        for size in [1, 7, stream.len()] {
            let (out, ending) = heard(&stream, size).await;
            assert_eq!(out, "你好你好\n");
            assert_eq!(ending.unwrap(), Ending::Well);
        }
    }

    #[tokio::test]
    async fn a_stream_without_its_end_is_an_error() {
        let (out, ending) = heard(ANSWER, 9).await;
        assert_eq!(out, "你好\n");
        assert!(matches!(ending, Err(Trouble::Said(text)) if text.contains("without its end")));
    }

    #[tokio::test]
    async fn an_event_without_end_is_not_kept() {
        let stream = format!("data: {}", "x".repeat(EVENT_MAX));
        let (_, ending) = heard(&stream, 64 * 1024).await;
        assert!(matches!(ending, Err(Trouble::Said(text)) if text.contains("an event of more than")));
    }
}
