//! How a turn ended: what the client sees of it, what the log says, and what its record calls it.

use std::time::Duration;

use crate::{
    limit::Limit,
    records::{Cause, TurnRecord},
    runtime::Fallen,
    script::{Failure, Outcome},
    text,
};

/// The longest text of an agent's own error that is shown, in bytes.
pub const SAID_MAX: usize = 2 * 1024;

/// How many characters of a failed turn's id its client is shown: enough to find its crash card by.
const NUMBER: usize = 8;

/// Why a turn ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("answered")]
    Answered,
    #[error("the agent said: {}", text::visible(text::head(.0, SAID_MAX)))]
    Said(String),
    #[error("{}", .0.fault)]
    Guest(Fallen),
    #[error("turn-time: the turn took longer than {0:?}")]
    TurnTime(Duration),
    #[error("the client left")]
    ClientLeft,
    #[error("the host is shutting down")]
    ShuttingDown,
    #[error("a host function panicked")]
    Panicked,
}

impl End {
    /// What the client is shown. `id` is the turn's.
    pub(super) fn outcome(&self, id: &str) -> Outcome {
        match self {
            Self::Answered => Outcome::Done,
            Self::Said(said) if !said.trim().is_empty() => {
                Outcome::Failed(Failure::Said(text::head(said, SAID_MAX).to_owned()))
            }
            Self::ShuttingDown => Outcome::Failed(Failure::ShuttingDown),
            Self::Said(_) | Self::Guest(_) | Self::TurnTime(_) | Self::ClientLeft | Self::Panicked => {
                Outcome::Failed(Failure::General(Some(text::head(id, NUMBER).to_owned())))
            }
        }
    }

    /// What records and metrics call it.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Answered => Cause::Answered,
            Self::Said(_) => Cause::Said,
            Self::Guest(fallen) => fallen.fault.cause(),
            Self::TurnTime(_) => Cause::Limit(Limit::TurnTime),
            Self::ClientLeft => Cause::Left,
            Self::ShuttingDown => Cause::ShuttingDown,
            Self::Panicked => Cause::Panicked,
        }
    }

    /// Where the guest was when it failed.
    pub(super) fn backtrace(&self) -> Vec<String> {
        match self {
            Self::Guest(fallen) => fallen.backtrace.clone(),
            Self::Answered
            | Self::Said(_)
            | Self::TurnTime(_)
            | Self::ClientLeft
            | Self::ShuttingDown
            | Self::Panicked => Vec::new(),
        }
    }

    /// One line a turn. A guest's own fault is the agent author's to mend, not the operator's: a warning.
    pub(super) fn log(&self, record: &TurnRecord) {
        let (took_ms, cpu_ms) = (record.took.as_millis(), record.cpu.as_millis());
        match self {
            Self::Answered => tracing::debug!(took_ms, cpu_ms, "turn answered"),
            Self::ClientLeft => tracing::info!(took_ms, cpu_ms, "turn ended: the client left"),
            Self::Panicked => tracing::error!(took_ms, cpu_ms, "turn failed: {self}"),
            Self::Guest(fallen) if !fallen.backtrace.is_empty() => {
                let frame = fallen.backtrace.first().map_or("", String::as_str);
                tracing::warn!(took_ms, cpu_ms, frame, "turn failed: {self}");
            }
            Self::Said(_) | Self::Guest(_) | Self::TurnTime(_) | Self::ShuttingDown => {
                tracing::warn!(took_ms, cpu_ms, "turn failed: {self}");
            }
        }
    }
}
