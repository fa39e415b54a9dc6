//! `turn`: the session's history, the turn's tools and facts.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::TurnState;
use crate::bindings::{
    turn::Host,
    types::{Message, Tool},
};

/// The fact that the host itself gives.
const NOW: &str = "now";

impl Host for TurnState {
    async fn history(&mut self, max: u32) -> wasmtime::Result<Vec<Message>> {
        let began = Instant::now();
        let history = Self::history(self, max).await;
        self.tally.called("history".to_owned(), "ok", began.elapsed());
        Ok(history)
    }

    async fn tools(&mut self) -> wasmtime::Result<Vec<Tool>> {
        Ok(self.ctx.tools.list())
    }

    async fn get(&mut self, key: String) -> wasmtime::Result<Option<String>> {
        Ok(self.fact(&key).await)
    }

    async fn keys(&mut self) -> wasmtime::Result<Vec<String>> {
        let mut keys: BTreeSet<String> = self.recall().await.facts.keys().cloned().collect();
        keys.extend(self.ctx.facts.keys().cloned());
        keys.insert(NOW.to_owned());
        Ok(keys.into_iter().collect())
    }
}

impl TurnState {
    /// A fact: the host's own, this turn's, or the session's last.
    pub(super) async fn fact(&mut self, key: &str) -> Option<String> {
        if key == NOW {
            return Some(jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
        match self.ctx.facts.get(key) {
            Some(fact) => Some(fact.clone()),
            None => self.recall().await.facts.get(key).cloned(),
        }
    }
}
