//! A WebSocket client that keeps what it hears in order and can break every rule of the protocol when it is told to.

use std::{collections::VecDeque, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::header::HeaderMap;
use tokio::{
    io::AsyncWriteExt as _,
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{
        self, Bytes, Message,
        client::IntoClientRequest as _,
        protocol::{CloseFrame, frame::coding::CloseCode},
    },
};

/// What stands in a frame's length when the length is in the two bytes behind it.
const LENGTH_OF_TWO_BYTES: u8 = 0x7e;
/// And when it is in the eight behind it.
const LENGTH_OF_EIGHT_BYTES: u8 = 0x7f;

/// A connection.
pub struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    texts: VecDeque<String>,
    pongs: Vec<Vec<u8>>,
    closed: Option<(u16, String)>,
    end: Option<End>,
    /// When something was last sent, or the connection began.
    pub spoke: Instant,
    /// How many pings were heard.
    pub pings: usize,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With a close frame: its code and reason, 1005 if it has none.
    Closed(u16, String),
    /// Without one, and why.
    Cut(String),
}

/// Something that was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A text frame.
    Text(String),
    /// A pong.
    Pong(Vec<u8>),
    /// The end.
    End(End),
}

/// A handshake that did not lead to a connection.
#[derive(Debug)]
pub struct Refused {
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// What went wrong, or the answer's body.
    pub why: String,
}

impl Socket {
    /// Connects, with these headers of ours, and gives back the answer's headers too.
    pub async fn connect(url: &str, headers: HeaderMap) -> Result<(Self, HeaderMap), Refused> {
        let other = |why: String| Refused { status: None, why };
        let mut request = url.into_client_request().map_err(|error| other(error.to_string()))?;
        request.headers_mut().extend(headers);
        match connect_async_with_config(request, None, true).await {
            Ok((stream, response)) => {
                let socket = Self {
                    stream,
                    texts: VecDeque::new(),
                    pongs: Vec::new(),
                    closed: None,
                    end: None,
                    spoke: Instant::now(),
                    pings: 0,
                };
                Ok((socket, response.headers().clone()))
            }
            Err(tungstenite::Error::Http(response)) => {
                let body = response.body().as_ref().map(|body| String::from_utf8_lossy(body).into_owned());
                Err(Refused { status: Some(response.status().as_u16()), why: body.unwrap_or_default() })
            }
            Err(error) => Err(other(error.to_string())),
        }
    }

    /// Sends a text frame. That the peer is gone is heard, not told here.
    pub async fn text(&mut self, text: &str) {
        self.send(Message::text(text)).await;
    }

    /// Sends any message.
    pub async fn send(&mut self, message: Message) {
        self.spoke = Instant::now();
        if let Err(error) = self.stream.send(message).await {
            self.cut(&error.to_string());
        }
    }

    /// Sends a close frame.
    pub async fn close(&mut self, code: u16) {
        let frame = CloseFrame { code: CloseCode::from(code), reason: "".into() };
        self.send(Message::Close(Some(frame))).await;
    }

    /// Puts bytes on the wire as they are.
    pub async fn raw(&mut self, bytes: &[u8]) {
        self.spoke = Instant::now();
        let flushed = self.stream.flush().await.map_err(|error| error.to_string());
        let socket = self.stream.get_mut();
        let written = async {
            socket.write_all(bytes).await?;
            socket.flush().await
        };
        let written = written.await.map_err(|error| error.to_string());
        if let Err(error) = flushed.and(written) {
            self.cut(&error);
        }
    }

    /// Sends a text in three frames.
    pub async fn fragments(&mut self, text: &str) {
        let third = text.len().div_ceil(3).max(1);
        let pieces: Vec<_> = text.as_bytes().chunks(third).collect();
        let mut bytes = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let fin = if index + 1 == pieces.len() { 0x80 } else { 0 };
            let opcode = u8::from(index == 0);
            bytes.extend(masked(fin | opcode, piece));
        }
        self.raw(&bytes).await;
    }

    /// Pings, with nothing in between waiting for the pong.
    pub async fn ping(&mut self, payload: &[u8]) {
        self.send(Message::Ping(Bytes::copy_from_slice(payload))).await;
    }

    /// The next text frame, or the end.
    pub async fn next(&mut self, limit: Duration) -> Result<Heard, String> {
        if let Some(text) = self.texts.pop_front() {
            return Ok(Heard::Text(text));
        }
        loop {
            match self.hear(limit).await? {
                Heard::Pong(payload) => self.pongs.push(payload),
                heard => return Ok(heard),
            }
        }
    }

    /// The next text frame that `fits`; those before it are kept for later.
    pub async fn find(&mut self, limit: Duration, mut fits: impl FnMut(&str) -> bool) -> Result<Heard, String> {
        let mut kept = VecDeque::new();
        let found = loop {
            match self.next(limit).await? {
                Heard::Text(text) if !fits(&text) => kept.push_back(text),
                heard => break heard,
            }
        };
        kept.append(&mut self.texts);
        self.texts = kept;
        Ok(found)
    }

    /// Waits for a pong; what comes before it is kept for later.
    pub async fn pong(&mut self, payload: &[u8], limit: Duration) -> Result<(), String> {
        loop {
            if let Some(at) = self.pongs.iter().position(|pong| pong == payload) {
                self.pongs.remove(at);
                return Ok(());
            }
            match self.hear(limit).await? {
                Heard::Pong(payload) => self.pongs.push(payload),
                Heard::Text(text) => self.texts.push_back(text),
                Heard::End(end) => return Err(format!("no pong: the connection ended: {end:?}")),
            }
        }
    }

    /// What came and was not asked for.
    pub fn waiting(&self) -> Vec<String> {
        self.texts.iter().cloned().collect()
    }

    /// Resets the connection, as a client does whose machine loses its power.
    pub fn reset(self) {
        if let MaybeTlsStream::Plain(stream) = self.stream.get_ref()
            && let Err(error) = stream.set_zero_linger()
        {
            debug_assert!(false, "no reset: {error}");
        }
    }

    async fn hear(&mut self, limit: Duration) -> Result<Heard, String> {
        if let Some(end) = &self.end {
            return Ok(Heard::End(end.clone()));
        }
        timeout(limit, self.hear_now()).await.map_err(|_| format!("nothing came for {limit:?}"))?
    }

    async fn hear_now(&mut self) -> Result<Heard, String> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Ok(Heard::Text(text.as_str().to_owned())),
                Some(Ok(Message::Pong(payload))) => return Ok(Heard::Pong(payload.to_vec())),
                // The client's library answers pings and closes by itself.
                Some(Ok(Message::Ping(_))) => self.pings += 1,
                Some(Ok(Message::Close(frame))) => {
                    let frame =
                        frame.map_or((1005, String::new()), |frame| (frame.code.into(), frame.reason.to_string()));
                    self.closed = Some(frame);
                }
                Some(Ok(other)) => return Err(format!("not a text frame: {other:?}")),
                Some(Err(error)) => return Ok(Heard::End(self.cut(&error.to_string()))),
                None => return Ok(Heard::End(self.cut("the connection ended"))),
            }
        }
    }

    fn cut(&mut self, why: &str) -> End {
        let end = match &self.closed {
            Some((code, reason)) => End::Closed(*code, reason.clone()),
            None => End::Cut(why.to_owned()),
        };
        // What was cut while writing may still have something to be read.
        if self.closed.is_some() || why == "the connection ended" || why.contains("closed connection") {
            self.end = Some(end.clone());
        }
        end
    }
}

/// A frame as clients send it, its mask all zeros: the first byte as given, then the payload as it is.
pub fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    frame(first, 0x80, payload)
}

/// A frame without a mask, as no client may send it.
pub fn unmasked(first: u8, payload: &[u8]) -> Vec<u8> {
    frame(first, 0, payload)
}

fn frame(first: u8, mask: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![first];
    match (u8::try_from(payload.len()), u16::try_from(payload.len())) {
        (Ok(short @ ..LENGTH_OF_TWO_BYTES), _) => bytes.push(mask | short),
        (_, Ok(long)) => {
            bytes.push(mask | LENGTH_OF_TWO_BYTES);
            bytes.extend(long.to_be_bytes());
        }
        _ => {
            bytes.push(mask | LENGTH_OF_EIGHT_BYTES);
            bytes.extend((payload.len() as u64).to_be_bytes());
        }
    }
    if mask != 0 {
        bytes.extend([0; 4]);
    }
    bytes.extend(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_the_length_that_they_say() {
        assert_eq!(masked(0x81, b"hi"), [0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
        assert_eq!(unmasked(0x81, b"hi"), [0x81, 2, b'h', b'i']);
        assert_eq!(masked(0x81, &[0; 126])[1..4], [0xfe, 0, 126]);
        assert_eq!(masked(0x81, &vec![0; 65536])[1..10], [0xff, 0, 0, 0, 0, 0, 1, 0, 0]);
    }
}
