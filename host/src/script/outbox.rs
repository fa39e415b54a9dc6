//! What stands between a turn and its client: the script, the protocol's encoder, and the frames that wait.
//!
//! The guest's side writes through [`Outbox`], the client's side reads through [`Reader`]. Frames are encoded as the
//! guest emits them, and whatever waits is sent at once; a guest whose client is slow waits when
//! [`WAITING_BYTES_MAX`] wait. Dropping the reader means that the client is gone.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use futures_util::Stream as AsyncStream;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Refusal, Script,
    step::{DeviceCommand, Encode, Frames, Outcome, PairId, Step, Stream},
};
use crate::bindings::types::Event;

/// How many bytes may wait for a slow client before the guest waits too. One event may go past it, so the most that a
/// turn holds is this and one event's frames.
pub const WAITING_BYTES_MAX: usize = 64 * 1024;

/// How much of an answer the host keeps for the session's history, in bytes; the rest of a longer one is cut.
pub const ANSWER_KEPT_MAX: usize = 64 * 1024;

/// Why an event could not be taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmitFault {
    /// Nobody reads any more.
    #[error("the client is gone")]
    Closed,
    /// A rule was broken.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The guest's side. Cloning is shallow.
#[derive(Clone)]
pub struct Outbox {
    shared: Arc<Shared>,
}

/// The client's side: a stream of the frames that wait, until the turn is over and all are read.
pub struct Reader {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Told when the reader has taken what waited.
    room: Notify,
    /// Cancelled when the reader is dropped.
    gone: CancellationToken,
}

struct State {
    script: Script,
    encoder: Box<dyn Encode>,
    frames: Frames,
    waker: Option<Waker>,
    answer: String,
    closed: bool,
    /// When the first frame was ready.
    first: Option<Instant>,
}

impl State {
    /// Runs the script and encodes each step it makes.
    fn run<T>(&mut self, act: impl FnOnce(&mut Script, &mut dyn FnMut(&Step<'_>)) -> T) -> T {
        let Self { script, encoder, frames, answer, first, .. } = self;
        act(script, &mut |step| {
            if let Step::Delta { stream: Stream::Chat, text, .. } = step {
                keep(answer, text);
            }
            encoder.encode(step, frames);
            if first.is_none() && !frames.is_empty() {
                *first = Some(Instant::now());
            }
        })
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Appends `text` to the kept answer, as much of it as there is room for.
fn keep(answer: &mut String, text: &str) {
    let room = ANSWER_KEPT_MAX.saturating_sub(answer.len());
    answer.push_str(crate::text::head(text, room));
}

/// A new turn's two sides.
pub fn outbox(encoder: Box<dyn Encode>) -> (Outbox, Reader) {
    let state = State {
        script: Script::new(),
        encoder,
        frames: Frames::default(),
        waker: None,
        answer: String::new(),
        closed: false,
        first: None,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), room: Notify::new(), gone: CancellationToken::new() });
    (Outbox { shared: Arc::clone(&shared) }, Reader { shared })
}

impl Outbox {
    /// Takes an event once there is room for it.
    pub async fn emit(&self, event: &Event) -> Result<(), EmitFault> {
        let mut state = self.room().await?;
        let taken = state.run(|script, mut out| script.event(event, &mut out));
        state.wake();
        Ok(taken?)
    }

    /// Announces that the host begins to run a tool, once there is room for it.
    pub async fn tool_start(&self, name: &str, args: &str) -> Result<PairId, EmitFault> {
        let mut state = self.room().await?;
        let pair = state.run(|script, mut out| script.tool_start(name, args, &mut out));
        state.wake();
        Ok(pair?)
    }

    /// Announces that the host's run of a tool is over.
    pub fn tool_end(&self, pair: PairId) {
        let mut state = self.lock();
        state.run(|script, mut out| script.tool_end(pair, &mut out));
        state.wake();
    }

    /// Sends a checked command to the device.
    pub fn device(&self, command: &DeviceCommand) {
        let mut state = self.lock();
        state.run(|script, mut out| script.device(command, &mut out));
        state.wake();
    }

    /// Takes what the agent answered, for the history.
    pub fn take_answer(&self) -> String {
        std::mem::take(&mut self.lock().answer)
    }

    /// When the first frame was ready.
    pub fn first_frame(&self) -> Option<Instant> {
        self.lock().first
    }

    /// Ends the turn. The client may say the next thing as soon as it sees this.
    pub fn finish(&self, outcome: &Outcome) {
        let mut state = self.lock();
        state.run(|script, mut out| script.finish(outcome, &mut out));
        state.wake();
    }

    /// Whether the client is gone.
    pub fn is_gone(&self) -> bool {
        self.shared.gone.is_cancelled()
    }

    /// Waits until the client is gone.
    pub async fn gone(&self) {
        self.shared.gone.cancelled().await;
    }

    /// The state, once fewer than [`WAITING_BYTES_MAX`] bytes wait.
    async fn room(&self) -> Result<MutexGuard<'_, State>, EmitFault> {
        loop {
            // Registered before the look, so that room made in between is not missed.
            let room = self.shared.room.notified();
            if let Some(found) = self.look() {
                return found;
            }
            room.await;
        }
    }

    fn look(&self) -> Option<Result<MutexGuard<'_, State>, EmitFault>> {
        let state = self.lock();
        if state.closed {
            return Some(Err(EmitFault::Closed));
        }
        (state.frames.bytes.len() < WAITING_BYTES_MAX).then_some(Ok(state))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole between calls; a panic in one turn's encoder is that turn's own.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncStream for Reader {
    type Item = Frames;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frames>> {
        let mut state = self.shared.lock();
        if !state.frames.is_empty() {
            let frames = state.frames.take();
            drop(state);
            self.shared.room.notify_waiters();
            return Poll::Ready(Some(frames));
        }
        if state.script.is_finished() {
            return Poll::Ready(None);
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // First, so that a guest which ends because it hears of it is known to have been left.
        self.shared.gone.cancel();
        self.shared.lock().closed = true;
        self.shared.room.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;
    use crate::{bindings::types::Output, script::Failure};

    /// A protocol of which every step is its debug text.
    struct Plain;

    impl Encode for Plain {
        fn encode(&mut self, step: &Step<'_>, out: &mut Frames) {
            let text = match step {
                Step::Delta { text, .. } => (*text).to_owned(),
                Step::Finish { .. } => "end".to_owned(),
                _ => return,
            };
            out.bytes.extend_from_slice(text.as_bytes());
            out.end_frame();
        }
    }

    fn delta(text: &str) -> Event {
        Event::Chat(Output::Delta(text.to_owned()))
    }

    #[tokio::test]
    async fn what_waits_is_read_at_once_and_the_end_is_the_end() {
        let (outbox, mut reader) = outbox(Box::new(Plain));
        outbox.emit(&delta("ab")).await.unwrap();
        outbox.emit(&delta("c")).await.unwrap();
        let frames = reader.next().await.unwrap();
        assert_eq!((&frames.bytes[..], &frames.ends[..]), (&b"abc"[..], &[2, 3][..]));
        assert_eq!(outbox.take_answer(), "abc");
        outbox.finish(&Outcome::Done);
        assert_eq!(&reader.next().await.unwrap().bytes[..], b"end");
        assert!(reader.next().await.is_none());
        assert!(matches!(outbox.emit(&delta("late")).await, Err(EmitFault::Refused(_))));
    }

    #[tokio::test]
    async fn a_guest_waits_while_its_client_is_slow_and_goes_on_when_it_reads() {
        let (outbox, mut reader) = outbox(Box::new(Plain));
        outbox.emit(&delta(&"x".repeat(WAITING_BYTES_MAX))).await.unwrap();
        let event = delta("y");
        let mut waiting = std::pin::pin!(outbox.emit(&event));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert_eq!(reader.next().await.unwrap().bytes.len(), WAITING_BYTES_MAX);
        waiting.await.unwrap();
        assert_eq!(&reader.next().await.unwrap().bytes[..], b"y");
    }

    #[tokio::test]
    async fn a_guest_that_waits_hears_that_its_client_has_left() {
        let (outbox, reader) = outbox(Box::new(Plain));
        outbox.emit(&delta(&"x".repeat(WAITING_BYTES_MAX))).await.unwrap();
        let event = delta("y");
        let mut waiting = std::pin::pin!(outbox.emit(&event));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(reader);
        assert_eq!(waiting.await, Err(EmitFault::Closed));
        outbox.gone().await;
    }

    #[tokio::test]
    async fn the_end_is_never_held_up_by_a_slow_client() {
        let (outbox, mut reader) = outbox(Box::new(Plain));
        outbox.emit(&delta(&"x".repeat(WAITING_BYTES_MAX * 2))).await.unwrap();
        assert_eq!(outbox.take_answer().len(), ANSWER_KEPT_MAX);
        outbox.finish(&Outcome::Failed(Failure::General(None)));
        assert!(reader.next().await.unwrap().bytes.ends_with(b"end"));
        assert!(reader.next().await.is_none());
    }
}
