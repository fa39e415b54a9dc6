//! What became of a plugin, in the words of the log.

use crate::ids::AgentId;

use super::LOAD_MAX;

/// What became of a plugin; said in the log.
#[derive(Debug)]
pub(super) enum Report {
    /// A version is live.
    Live(AgentId, String),
    /// The newest file does not serve, and why; whether an older version goes on.
    Refused(AgentId, String, bool),
    /// An agent is gone, and whether its whole tenant is.
    Withdrawn(AgentId, bool),
    /// A file can be no agent, and why.
    Stray(String, String),
    /// The folder cannot be read.
    Unreadable(String),
    /// The start does not wait for what is left.
    Slow,
}

impl Report {
    /// Says it.
    pub(super) fn log(&self) {
        match self {
            Self::Live(id, version) => tracing::info!(agent = %id, version, "agent live"),
            Self::Refused(id, why, true) => tracing::warn!(agent = %id, "{why}; the version before goes on"),
            Self::Refused(id, why, false) => tracing::warn!(agent = %id, "{why}"),
            Self::Withdrawn(id, false) => tracing::info!(agent = %id, "agent withdrawn: its file is gone"),
            Self::Withdrawn(id, true) => tracing::info!(agent = %id, "agent withdrawn: its tenant is gone"),
            Self::Stray(path, why) => tracing::warn!(file = %path, "{why}"),
            Self::Slow => {
                tracing::warn!("not every plugin was loaded in {LOAD_MAX:?}; the others follow while we serve");
            }
            Self::Unreadable(why) => tracing::error!("{why}; the agents that are live go on"),
        }
    }
}
