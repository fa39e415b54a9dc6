//! What the tools of guests fetch from: a port that says nothing, and one that has images of any size.

use std::collections::VecDeque;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// How many connections are held at once: one for each group of tenants is all that is needed.
const HELD: usize = 64;

/// The largest image that is served, in bytes.
const LARGEST: usize = 64 * 1024 * 1024;

/// How much of a request is read.
const REQUEST: usize = 4096;

/// Takes connections, and says nothing.
pub(super) async fn say_nothing(listener: TcpListener) {
    let mut open = VecDeque::new();
    while let Ok((stream, _)) = listener.accept().await {
        open.push_back(stream);
        if open.len() > HELD {
            open.pop_front();
        }
    }
}

/// Serves images, each of as many bytes as its path says.
pub(super) async fn show_pictures(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            if let Err(error) = show(stream).await {
                tracing::debug!("an image was not taken: {error}");
            }
        });
    }
}

async fn show(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = [0; REQUEST];
    let mut read = 0;
    while let Some(room) = request.get_mut(read..).filter(|room| !room.is_empty()) {
        let count = stream.read(room).await?;
        read += count;
        let so_far = request.get(..read).unwrap_or_default();
        if count == 0 || so_far.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    let text = String::from_utf8_lossy(&request);
    let path = text.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let bytes = path.parse().unwrap_or(0).min(LARGEST);
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: {bytes}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&vec![0; bytes]).await?;
    stream.shutdown().await
}
