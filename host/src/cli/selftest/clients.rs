//! One turn as an ordinary client of either protocol has it, heard to its end.

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::Instant,
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest as _,
        http::header::{AUTHORIZATION, HeaderValue},
        protocol::WebSocketConfig,
    },
};

use super::{
    heard::{Heard, Lingzhu, Mythra, Patience},
    wire::Way,
};

/// The longest line of a Lingzhu stream: a piece of text of 16 KiB, six times as much as JSON, with room.
const LINE_MAX: u64 = 1024 * 1024;

/// The largest Mythra message: a tool's arguments, all of them escaped.
const MESSAGE_MAX: usize = 8 * 1024 * 1024;

/// Who asks, and whom.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The way to the host.
    pub(super) way: Way,
    /// The tenant.
    pub(super) tenant: String,
    /// The agent.
    pub(super) agent: String,
    /// The key that is shown, if one is.
    pub(super) key: Option<String>,
    /// The conversation.
    pub(super) session: String,
    /// The person, on Lingzhu.
    pub(super) user: Option<String>,
    /// How much is listened to.
    pub(super) patience: Patience,
}

/// Why there was no turn.
#[derive(Debug)]
pub(super) enum NoTurn {
    /// The host answered with this status and these words.
    Refused(u16, String),
    /// The connection broke, or there was none.
    Broken(String),
}

/// A Lingzhu request.
pub(super) struct Request {
    /// Its head, up to the last header but the body's length.
    pub(super) head: String,
    /// Its body.
    pub(super) body: String,
}

impl Request {
    /// All of it.
    pub(super) fn whole(&self) -> String {
        format!("{}content-length: {}\r\n\r\n{}", self.head, self.body.len(), self.body)
    }
}

/// An open connection of a Mythra client.
pub(super) type Socket = WebSocketStream<TcpStream>;

impl Caller {
    /// A Lingzhu request. It is one of HTTP/1.0, whose answer is not cut into chunks and ends with the connection.
    pub(super) fn lingzhu_request(&self, text: &str) -> Request {
        let Self { tenant, agent, key, session, user, .. } = self;
        let message = [json!({ "role": "user", "type": "text", "text": text })];
        let body = json!({ "message_id": session, "agent_id": agent, "user_id": user, "message": message }).to_string();
        let key = key.as_ref().map(|key| format!("authorization: Bearer {key}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /agents/{tenant}/{agent}/lingzhu HTTP/1.0\r\nhost: selftest\r\ncontent-type: application/json\r\n{key}"
        );
        Request { head, body }
    }

    /// Says `text` over Lingzhu, and hears the answer to its end.
    pub(super) async fn lingzhu(&self, text: &str) -> Result<Heard, NoTurn> {
        let broken = |error: &std::io::Error| NoTurn::Broken(error.to_string());
        let began = Instant::now();
        let stream = self.way.connect().await.map_err(|error| broken(&error))?;
        let (read, mut write) = stream.into_split();
        let request = self.lingzhu_request(text).whole();
        write.write_all(request.as_bytes()).await.map_err(|error| broken(&error))?;
        let mut lines = Lines { read: BufReader::new(read) };
        let status = lines.next().await.map_err(|error| broken(&error))?.unwrap_or_default();
        let status = status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
        while lines.next().await.map_err(|error| broken(&error))?.is_some_and(|line| !line.is_empty()) {}
        if status != 200 {
            let words = lines.next().await.ok().flatten().unwrap_or_default();
            return Err(NoTurn::Refused(status, words));
        }
        let mut heard = self.events(&mut lines).await;
        heard.took = began.elapsed();
        Ok(heard)
    }

    async fn events<R: tokio::io::AsyncRead + Unpin>(&self, lines: &mut Lines<R>) -> Heard {
        let mut check = Lingzhu::default();
        let (mut name, mut data) = (String::new(), String::new());
        while let Ok(Some(line)) = lines.next().await {
            if let Some(event) = line.strip_prefix("event: ") {
                event.clone_into(&mut name);
            } else if let Some(text) = line.strip_prefix("data: ") {
                text.clone_into(&mut data);
            } else if line.is_empty() && !data.is_empty() {
                check.event(&name, &data);
                name.clear();
                data.clear();
            }
            if check.heard.is_enough(self.patience) {
                check.heard.left = true;
                break;
            }
        }
        check.end(&data)
    }

    /// A connection of a Mythra client.
    pub(super) async fn socket(&self) -> Result<Socket, NoTurn> {
        self.upgrade(self.way.connect().await).await
    }

    /// The same, with as little room for what is not read as the system allows.
    pub(super) async fn narrow_socket(&self) -> Result<Socket, NoTurn> {
        self.upgrade(self.way.connect_narrow().await).await
    }

    async fn upgrade(&self, stream: std::io::Result<TcpStream>) -> Result<Socket, NoTurn> {
        let Self { way, tenant, agent, key, .. } = self;
        let stream = stream.map_err(|error| NoTurn::Broken(error.to_string()))?;
        let broken = |error: Error| NoTurn::Broken(error.to_string());
        let url = format!("ws://{}/agents/{tenant}/{agent}/mythra", way.to);
        let mut request = url.as_str().into_client_request().map_err(broken)?;
        if let Some(Ok(key)) = key.as_ref().map(|key| HeaderValue::from_str(&format!("Bearer {key}"))) {
            request.headers_mut().insert(AUTHORIZATION, key);
        }
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_MAX)).max_frame_size(Some(MESSAGE_MAX));
        match client_async_with_config(request, stream, Some(config)).await {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(response)) => {
                let words = response.body().as_deref().unwrap_or_default();
                Err(NoTurn::Refused(response.status().as_u16(), String::from_utf8_lossy(words).into_owned()))
            }
            Err(error) => Err(broken(error)),
        }
    }

    /// What a user says, as a Mythra message.
    pub(super) fn input(&self, text: &str) -> Message {
        Message::text(json!({ "type": "user-input", "sessionId": self.session, "userInput": text }).to_string())
    }

    /// Says `text` over Mythra, and hears the answer to its end.
    pub(super) async fn mythra(&self, text: &str) -> Result<Heard, NoTurn> {
        let began = Instant::now();
        let mut socket = self.socket().await?;
        socket.send(self.input(text)).await.map_err(|error| NoTurn::Broken(error.to_string()))?;
        let mut heard = listen(&mut socket, self.patience, Mythra::default()).await;
        heard.took = began.elapsed();
        // A host that does not take the goodbye is left without one.
        drop(socket.close(None).await);
        Ok(heard)
    }
}

/// Hears a turn to its end; `check` knows what has come of it.
pub(super) async fn listen(socket: &mut Socket, patience: Patience, mut check: Mythra) -> Heard {
    while !check.heard.ended && !check.heard.left {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => check.message(&text),
            Some(Ok(_)) => {}
            Some(Err(_)) | None => break,
        }
        check.heard.left = check.heard.is_enough(patience);
    }
    check.end()
}

/// Lines of text, each no longer than it may be.
struct Lines<R> {
    read: BufReader<R>,
}

impl<R: tokio::io::AsyncRead + Unpin> Lines<R> {
    /// The next line without its end, if there is one.
    async fn next(&mut self) -> std::io::Result<Option<String>> {
        use tokio::io::AsyncReadExt as _;
        let mut line = Vec::new();
        (&mut self.read).take(LINE_MAX).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}
