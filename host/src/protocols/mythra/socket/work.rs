//! What a connection does about the input that is being answered, and how that gets on.

use std::pin::Pin;

use futures_util::StreamExt as _;

use crate::{
    ids::SessionKey,
    protocols::mythra::{gate::Entry, session_locks::SessionGuard, wire::UserInput},
    script::{Frames, Reader},
};

/// What is done about the input that is being answered.
pub(super) enum Work {
    Nothing,
    /// Another turn of its session runs.
    Waiting(Box<Waiting>),
    Running {
        reader: Reader,
        /// Held so that no other turn of the session begins.
        _session: SessionGuard,
    },
}

/// An input that waits until its session is free.
pub(super) struct Waiting {
    pub(super) input: UserInput,
    pub(super) entry: Entry,
    pub(super) session: SessionKey,
    /// The session's lock, or `None` if it was not to be had in time.
    pub(super) lock: Pin<Box<dyn Future<Output = Option<SessionGuard>> + Send>>,
}

/// How the work got on.
pub(super) enum Progress {
    Session(Option<SessionGuard>),
    Frames(Option<Frames>),
}

impl Work {
    /// Waits until there is some.
    pub(super) async fn next(&mut self) -> Progress {
        match self {
            Self::Nothing => std::future::pending().await,
            Self::Waiting(waiting) => Progress::Session(waiting.lock.as_mut().await),
            Self::Running { reader, .. } => Progress::Frames(reader.next().await),
        }
    }
}
