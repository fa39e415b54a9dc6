//! What every connection passes when it is accepted: the count of connections, no delay for small frames, a bound on how
//! long a client may take nothing of what is sent to it, and no HTTP/2, whose connections the bounds here do not know.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum_server::accept::Accept;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_io_timeout::TimeoutStream;

use crate::config::ServerConfig;

/// How a client that speaks HTTP/2 without being asked begins; no method of HTTP/1 does.
const PREFACE: &[u8] = b"PRI ";

/// The door of one listener. Cloning is shallow.
#[derive(Clone, Debug)]
pub(super) struct Door {
    places: Arc<Semaphore>,
    write_time: Duration,
}

impl Door {
    pub(super) fn new(limits: &ServerConfig) -> Self {
        Self { places: Arc::new(Semaphore::new(limits.connections as usize)), write_time: limits.write_time }
    }
}

impl<S> Accept<TcpStream, S> for Door {
    type Stream = Connection;
    type Service = S;
    type Future = std::future::Ready<io::Result<(Connection, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let connection = || {
            let full = || io::Error::other("as many connections are open as server.connections allows");
            let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
                tracing::warn!("{}", full());
                full()
            })?;
            // A small frame must not wait for the acknowledgement of the one before it.
            stream.set_nodelay(true)?;
            let mut stream = TimeoutStream::new(stream);
            stream.set_write_timeout(Some(self.write_time));
            Ok(Connection { stream: Box::pin(stream), opening: PREFACE.iter(), _place: place })
        };
        std::future::ready(connection().map(|connection| (connection, service)))
    }
}

/// An accepted connection; its place is free again when it is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Pin<Box<TimeoutStream<TcpStream>>>,
    /// What a client that speaks HTTP/2 would say next; nothing once it has said anything else.
    opening: std::slice::Iter<'static, u8>,
    _place: OwnedSemaphorePermit,
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = self.stream.as_mut().poll_read(cx, buf);
        for said in buf.filled().get(before..).unwrap_or_default() {
            match self.opening.next() {
                Some(expected) if said == expected && self.opening.len() == 0 => {
                    return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, "HTTP/2 is not spoken here")));
                }
                Some(expected) if said == expected => {}
                _ => {
                    self.opening = [].iter();
                    break;
                }
            }
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
