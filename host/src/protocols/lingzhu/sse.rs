//! The stream of one answer: its headers, the turn's frames as they come, and what is sent into a long silence.
//!
//! It knows frames as bytes only; the one frame that it sends by itself, the agent's `progress` text, is made with the
//! encoder's own `wire`. Dropping the stream, which is what becomes of it when the client leaves, ends the turn.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::Stream;
use tokio::time::{Instant, Sleep};

use super::wire::{Event, Ids, Say};
use crate::{config::LingzhuConfig, script::Frames};

/// The comment that keeps what stands between us and the client from taking the stream for a dead one.
const KEEP_ALIVE: Bytes = Bytes::from_static(b": keepalive\n\n");

/// When a silence is broken, and with what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// After how long without a byte the comment is sent, again and again.
    pub(super) keep_alive: Duration,
    /// After how long without anything visible the progress text is sent, once.
    pub(super) progress_after: Duration,
}

impl Silence {
    /// As the configuration has it.
    pub(super) fn of(config: &LingzhuConfig) -> Self {
        Self { keep_alive: config.keep_alive, progress_after: config.progress_after }
    }
}

/// The answer that streams `frames`. `kept` is held until the stream is gone.
pub(super) fn response<F, K>(frames: F, silence: Silence, progress: Option<Bytes>, kept: K) -> Response
where
    F: Stream<Item = Frames> + Send + Unpin + 'static,
    K: Send + Unpin + 'static,
{
    const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (NO_BUFFERING, HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(Answer::new(frames, silence, progress, kept))).into_response()
}

/// The frame that shows an agent's progress text.
pub(super) fn progress_frame(ids: &Ids, text: &str) -> Bytes {
    let mut out = Frames::default();
    ids.frame(Event::Message, Say::Answer(crate::text::head(text, super::encode::ANSWER_MAX)), false, &mut out);
    out.bytes.freeze()
}

/// The bytes of one answer.
struct Answer<F, K> {
    frames: F,
    silence: Silence,
    progress: Option<Bytes>,
    /// When something was last sent at all.
    byte: Instant,
    /// When something that shows was last sent.
    visible: Instant,
    timer: Pin<Box<Sleep>>,
    _kept: K,
}

impl<F, K> Answer<F, K> {
    fn new(frames: F, silence: Silence, progress: Option<Bytes>, kept: K) -> Self {
        let now = Instant::now();
        let mut answer = Self {
            frames,
            silence,
            progress,
            byte: now,
            visible: now,
            timer: Box::pin(tokio::time::sleep_until(now)),
            _kept: kept,
        };
        answer.set_timer();
        answer
    }

    fn keep_alive_at(&self) -> Instant {
        self.byte + self.silence.keep_alive
    }

    fn progress_at(&self) -> Option<Instant> {
        self.progress.as_ref().map(|_| self.visible + self.silence.progress_after)
    }

    fn set_timer(&mut self) {
        let next = self.progress_at().map_or(self.keep_alive_at(), |at| at.min(self.keep_alive_at()));
        self.timer.as_mut().reset(next);
    }

    /// What is sent into the silence, now that the timer has run out.
    fn break_silence(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        if self.progress_at().is_some_and(|at| at <= now) {
            (self.byte, self.visible) = (now, now);
            self.progress.take()
        } else if self.keep_alive_at() <= now {
            self.byte = now;
            Some(KEEP_ALIVE)
        } else {
            None
        }
    }
}

impl<F, K> Stream for Answer<F, K>
where
    F: Stream<Item = Frames> + Unpin,
    K: Unpin,
{
    type Item = Result<Bytes, Infallible>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let answer = self.get_mut();
        // The frames go first: once the last of them is out, nothing may follow.
        match Pin::new(&mut answer.frames).poll_next(cx) {
            Poll::Ready(Some(frames)) => {
                let now = Instant::now();
                (answer.byte, answer.visible) = (now, now);
                return Poll::Ready(Some(Ok(frames.bytes.freeze())));
            }
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {}
        }
        loop {
            // Set before each look, because frames that came in between have put it off.
            answer.set_timer();
            if answer.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if let Some(bytes) = answer.break_silence() {
                return Poll::Ready(Some(Ok(bytes)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
