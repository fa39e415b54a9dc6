//! The socket of one connection: reads and writes at the same time, and knows how to say goodbye.
//!
//! Frames of a turn are written a batch at a time with one flush; what the host itself has to say goes between two of
//! them. Nothing here knows what a message means.

use std::{
    collections::VecDeque,
    error::Error as _,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Error,
    extract::ws::{CloseCode, CloseFrame, Message, Utf8Bytes, close_code},
};
use bytes::Bytes;
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::{Error as SocketError, error::ProtocolError};

use crate::script::Frames;

/// How long the peer may take to answer a close before the connection is dropped. A round trip, with room; longer would
/// only keep a descriptor for a peer that does not mean to answer.
pub(super) const CLOSE_WAIT: Duration = Duration::from_millis(400);

/// How many of the host's own messages may wait before nothing more is read: each answers something that was read, so
/// a client that writes and never reads stops itself.
pub(super) const ANSWERS_MAX: usize = 16;

/// What a WebSocket is to us; a test has another one than axum's.
pub(super) trait Socket: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin {}

impl<S: Stream<Item = Result<Message, Error>> + Sink<Message, Error = Error> + Unpin> Socket for S {}

/// One connection's socket.
pub(super) struct Line<S> {
    socket: S,
    answers: VecDeque<Message>,
    batch: Batch,
    unflushed: bool,
    /// When something last went out, or began to wait.
    moved: Instant,
    /// Whether reading has failed; the socket gives nothing more then, although it can still be written to.
    deaf: bool,
}

/// What came of listening.
#[derive(Debug)]
pub(super) enum Heard {
    /// The peer sent a message.
    Message(Message),
    /// All that waited has been written and flushed.
    Written,
    /// The peer broke a rule of the WebSocket protocol: the code to close with.
    Broken(CloseCode, Error),
    /// The peer is gone.
    Gone,
}

/// Frames of a turn, of which some may have been written.
#[derive(Default)]
struct Batch {
    bytes: Bytes,
    ends: std::vec::IntoIter<usize>,
    taken: usize,
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.ends.len() == 0
    }

    /// The next frame, without a copy.
    fn next(&mut self) -> Option<Message> {
        loop {
            let end = self.ends.next()?;
            let frame = self.bytes.split_to(end.saturating_sub(self.taken).min(self.bytes.len()));
            self.taken = end;
            match Utf8Bytes::try_from(frame) {
                Ok(text) => return Some(Message::Text(text)),
                Err(error) => tracing::error!(%error, "a frame is not UTF-8 and is left out"),
            }
        }
    }
}

impl<S: Socket> Line<S> {
    /// The line over `socket`.
    pub(super) fn new(socket: S) -> Self {
        Self {
            socket,
            answers: VecDeque::new(),
            batch: Batch::default(),
            unflushed: false,
            moved: Instant::now(),
            deaf: false,
        }
    }

    /// Puts a message of the host's own in line.
    pub(super) fn say(&mut self, message: Message) {
        self.begin();
        self.answers.push_back(message);
    }

    /// Puts a turn's frames in line. The line is clear.
    pub(super) fn send(&mut self, frames: Frames) {
        self.begin();
        self.batch = Batch { bytes: frames.bytes.freeze(), ends: frames.ends.into_iter(), taken: 0 };
    }

    /// Whether nothing waits to be written.
    pub(super) fn is_clear(&self) -> bool {
        self.answers.is_empty() && self.batch.is_empty() && !self.unflushed
    }

    /// Since when something waits and nothing has moved.
    pub(super) fn stuck_since(&self) -> Option<Instant> {
        (!self.is_clear()).then_some(self.moved)
    }

    /// Writes what waits and reads what comes, whichever is ready. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Heard {
        poll_fn(|cx| self.poll(cx)).await
    }

    /// Says goodbye with a close frame and waits for the peer's, a while. What a turn still had to say is left out.
    pub(super) async fn close(mut self, code: CloseCode, reason: &'static str) {
        self.batch = Batch::default();
        self.say(Message::Close(Some(CloseFrame { code, reason: Utf8Bytes::from_static(reason) })));
        self.leave().await;
    }

    /// Answers the peer's close, or waits for it, a while. Dropping a socket with unread bytes resets the connection,
    /// and a reset may overtake what was written before; so what comes is read and thrown away.
    pub(super) async fn leave(mut self) {
        let goodbye = async { while !matches!(self.next().await, Heard::Gone | Heard::Broken(..)) {} };
        // Whoever has not answered by now is dropped all the same.
        drop(timeout(CLOSE_WAIT, goodbye).await);
    }

    fn begin(&mut self) {
        if self.is_clear() {
            self.moved = Instant::now();
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Heard> {
        if !self.is_clear() {
            match self.poll_write(cx) {
                Poll::Ready(Ok(())) => return Poll::Ready(Heard::Written),
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "writing failed");
                    return Poll::Ready(Heard::Gone);
                }
                Poll::Pending => {}
            }
        }
        if self.deaf || self.answers.len() >= ANSWERS_MAX {
            return Poll::Pending;
        }
        let heard = match ready!(self.socket.poll_next_unpin(cx)) {
            Some(Ok(message)) => Heard::Message(message),
            None => Heard::Gone,
            Some(Err(error)) => match code_for(&error) {
                Some(code) => {
                    self.deaf = true;
                    Heard::Broken(code, error)
                }
                None => Heard::Gone,
            },
        };
        Poll::Ready(heard)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        while !(self.answers.is_empty() && self.batch.is_empty()) {
            ready!(Pin::new(&mut self.socket).poll_ready(cx))?;
            if let Some(message) = self.answers.pop_front().or_else(|| self.batch.next()) {
                self.socket.start_send_unpin(message)?;
                self.unflushed = true;
                self.moved = Instant::now();
            }
        }
        ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
        self.unflushed = false;
        self.moved = Instant::now();
        Poll::Ready(Ok(()))
    }
}

/// The code that tells a peer what it did wrong; `None` where there is nobody left to tell.
fn code_for(error: &Error) -> Option<CloseCode> {
    match error.source().and_then(|source| source.downcast_ref::<SocketError>())? {
        SocketError::Utf8(_) => Some(close_code::INVALID),
        SocketError::Capacity(_) => Some(close_code::SIZE),
        SocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        SocketError::Protocol(_) | SocketError::AttackAttempt => Some(close_code::PROTOCOL),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests;
