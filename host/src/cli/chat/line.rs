//! The way to an agent, over either protocol.

use std::io;

use reqwest::header::HeaderValue;
use url::Url;

use super::{
    address::{self, Protocol},
    frames::{Ask, Ending},
    lingzhu, mythra,
    screen::Show,
};
use crate::ids::AgentId;

/// Why a turn did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Trouble {
    /// What went wrong, and what to do.
    #[error("{0}")]
    Said(String),
    /// Nobody reads what is shown.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
}

impl From<String> for Trouble {
    fn from(text: String) -> Self {
        Self::Said(text)
    }
}

/// The way to an agent.
pub(in crate::cli) enum Line {
    /// A WebSocket that is kept over turns.
    Mythra(Box<mythra::Line>),
    /// A request for each turn.
    Lingzhu(lingzhu::Line),
}

impl Line {
    /// The way to `agent` of the host at `url`.
    pub(in crate::cli) fn new(
        protocol: Protocol,
        url: &Url,
        agent: &AgentId,
        authorization: Option<HeaderValue>,
    ) -> Result<Self, String> {
        let (url, agent) = (address::endpoint(url, agent, protocol), agent.clone());
        Ok(match protocol {
            Protocol::Mythra => Self::Mythra(Box::new(mythra::Line::new(url, agent, authorization))),
            Protocol::Lingzhu => Self::Lingzhu(lingzhu::Line::new(url, agent, authorization)?),
        })
    }

    /// Says `text`, and shows what comes back until the turn's end.
    pub(in crate::cli) async fn turn(
        &mut self,
        ask: &Ask,
        text: &str,
        screen: &mut impl Show,
    ) -> Result<Ending, Trouble> {
        match self {
            Self::Mythra(line) => line.turn(ask, text, screen).await,
            Self::Lingzhu(line) => line.turn(ask, text, screen).await,
        }
    }

    /// Closes what is open.
    pub(in crate::cli) async fn hang_up(&mut self) {
        if let Self::Mythra(line) = self {
            line.hang_up().await;
        }
    }
}
