//! A bare connection from an address of its own: the bytes that a client sends, and those that come back.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

/// The most that is kept of what comes back.
const KEPT_MAX: usize = 64 * 1024;

/// How much is kept of the end of what comes back.
const TAIL: usize = 4 * 1024;

/// How little room the system is asked to keep for a client that reads nothing.
const NARROW: u32 = 4096;

/// Where a client connects, and from where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The host.
    pub(super) to: SocketAddr,
    /// The client's own address.
    pub(super) from: IpAddr,
}

impl Way {
    /// A connection.
    pub(super) async fn connect(self) -> io::Result<TcpStream> {
        let stream = self.socket()?.connect(self.to).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// A connection with as little room for what is not read as the system allows.
    pub(super) async fn connect_narrow(self) -> io::Result<TcpStream> {
        let socket = self.socket()?;
        socket.set_recv_buffer_size(NARROW)?;
        socket.connect(self.to).await
    }

    fn socket(self) -> io::Result<TcpSocket> {
        let socket = if self.to.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // Each client has an address of its own, as far as this machine has so many.
        if let Err(error) = socket.bind(SocketAddr::new(self.from, 0)) {
            tracing::debug!(from = %self.from, "cannot connect from an address of its own: {error}");
        }
        Ok(socket)
    }
}

/// A connection whose bytes are written and read one by one.
pub(super) struct Wire {
    stream: TcpStream,
    /// The first of what came back.
    read: Vec<u8>,
}

impl Wire {
    /// Connects.
    pub(super) async fn open(way: Way) -> io::Result<Self> {
        Ok(Self { stream: way.connect().await?, read: Vec::new() })
    }

    /// Connects with as little room for what is not read as the system allows.
    pub(super) async fn narrow(way: Way) -> io::Result<Self> {
        Ok(Self { stream: way.connect_narrow().await?, read: Vec::new() })
    }

    /// Sends; whether the host still takes it.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Sends as long as there is something to send and the host has said nothing; the number of bytes that it took.
    pub(super) async fn push(&mut self, piece: &[u8], pieces: usize) -> usize {
        let Self { stream, read } = self;
        let (mut reader, mut writer) = stream.split();
        let mut answer = [0; 4096];
        let mut taken = 0;
        for _ in 0..pieces {
            let sent = tokio::select! {
                biased;
                count = reader.read(&mut answer) => {
                    read.extend(answer.iter().take(count.unwrap_or(0)));
                    return taken;
                }
                sent = writer.write_all(piece) => sent,
            };
            if sent.is_err() {
                return taken;
            }
            taken += piece.len();
        }
        taken
    }

    /// Reads until `text` has come, or the connection ends; whether it came.
    pub(super) async fn until(&mut self, text: &str) -> bool {
        while !self.text().contains(text) {
            if !self.more().await {
                return false;
            }
        }
        true
    }

    /// Reads to the end, and gives back the first of what came.
    pub(super) async fn end(&mut self) -> String {
        while self.more().await {}
        self.text()
    }

    /// Reads to the end, and gives back the last of what came.
    pub(super) async fn drain(&mut self) -> String {
        loop {
            // Only the end is of interest.
            let past = self.read.len().saturating_sub(TAIL);
            self.read.drain(..past);
            if !self.more().await {
                return self.text();
            }
        }
    }

    /// What has come so far.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.read).into_owned()
    }

    /// Reads something, unless the connection has ended.
    async fn more(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.stream.read(&mut buffer).await {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                let room = KEPT_MAX.saturating_sub(self.read.len());
                self.read.extend(buffer.iter().take(count.min(room)));
                true
            }
        }
    }
}
