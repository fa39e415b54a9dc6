//! A bare connection: bytes that a test writes itself, and the bytes that come back.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use super::host::{Host, SOON};

/// One connection to a host.
pub struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

impl Wire {
    /// Connects.
    pub async fn to(host: &Host) -> Self {
        let stream = TcpStream::connect(&host.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Connects with as little room for what is not read as the system allows.
    pub async fn narrow(host: &Host) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let stream = socket.connect(host.address.parse().unwrap()).await.unwrap();
        Self { stream, read: Vec::new() }
    }

    /// Connects and sends.
    pub async fn sending(host: &Host, text: &str) -> Self {
        let mut wire = Self::to(host).await;
        wire.send(text.as_bytes()).await;
        wire
    }

    /// Writes bytes as they are.
    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Writes what the host may not want any more.
    pub async fn try_send(&mut self, bytes: &[u8]) {
        // A host that has closed the connection answers with a reset.
        drop(timeout(SOON, self.stream.write_all(bytes)).await.expect("the host takes nothing and does not close"));
    }

    /// Says that nothing more is written.
    pub async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Resets the connection, as a client does whose machine loses its power or its patience.
    pub fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }

    /// Reads until `text` has come `times` times, and gives back everything up to then.
    pub async fn until(&mut self, text: &str, times: usize) -> String {
        loop {
            let read = String::from_utf8_lossy(&self.read).into_owned();
            if read.matches(text).count() >= times {
                return read;
            }
            assert!(self.more().await, "the connection ended without {text:?} {times} times: {read}");
        }
    }

    /// Reads to the end, whether that is in good order or not, and gives back everything.
    pub async fn end(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Reads something, unless the connection has ended.
    async fn more(&mut self) -> bool {
        let mut buffer = vec![0; 64 * 1024];
        let count = timeout(SOON, self.stream.read(&mut buffer)).await.expect("nothing comes, and no end");
        self.read.extend(buffer.iter().take(count.as_ref().copied().unwrap_or(0)));
        count.is_ok_and(|count| count > 0)
    }
}

/// A request of these headers and this body to an agent of the default tenant; one without a body has a head of just
/// these headers.
pub fn post(agent: &str, headers: &[&str], body: &str) -> String {
    let mut lines = vec![format!("POST /agents/default/{agent}/lingzhu HTTP/1.1"), "host: h".to_owned()];
    lines.push("content-type: application/json".to_owned());
    lines.extend(headers.iter().map(|header| (*header).to_owned()));
    if !body.is_empty() {
        lines.push(format!("content-length: {}", body.len()));
    }
    format!("{}\r\n\r\n{body}", lines.join("\r\n"))
}

/// A body that says `text`.
pub fn saying(text: &str) -> String {
    let message = [serde_json::json!({ "role": "user", "type": "text", "text": text })];
    serde_json::json!({ "message_id": hostelry::ids::turn_id(), "agent_id": "a1", "message": message }).to_string()
}
