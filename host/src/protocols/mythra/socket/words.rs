//! What the host itself says on a connection, and what it counts of it.

use axum::extract::ws::Message;

use super::{Connection, Ending, Flow, IDLE, TOO_SLOW};
use crate::{
    limit::Limit,
    protocols::mythra::{
        encode::{wire_id, write},
        line::Socket,
        wire::Outgoing,
    },
    script::Frames,
};

impl<S: Socket> Connection<S> {
    /// Counts a bound that the client ran into.
    pub(super) fn count(&self, limit: Limit) {
        match self.gate.opened() {
            Some(tenant) => self.lobby.metrics.limit_of(limit, tenant),
            None => self.lobby.metrics.limit(limit),
        }
    }

    /// Counts the bound on time that ends the connection, if it is one: that no further input comes after a turn is not.
    pub(super) fn count_late(&self, ending: &Ending) {
        match ending {
            Ending::Close(_, TOO_SLOW) => self.count(Limit::SlowReader),
            Ending::Close(_, IDLE) => self.count(Limit::Idle),
            Ending::Close(..) | Ending::Left | Ending::Dead => {}
        }
    }

    /// Tells the client that a message of its is too long.
    pub(super) fn too_long(&mut self) {
        self.count(Limit::Message);
        let max = self.config.mythra.max_message;
        let error = format!("the message is longer than {max} bytes");
        self.tell(&Outgoing::error(&wire_id(), &error));
    }

    /// Sends an `error` of the host's own. The connection goes on.
    pub(super) fn complain(&mut self, why: &str) -> Flow {
        self.tell(&Outgoing::error(&wire_id(), why));
        Flow::Continue(())
    }

    /// Sends a message of the host's own.
    pub(super) fn tell(&mut self, message: &Outgoing<'_>) {
        let mut frame = Frames::default();
        write(message, &mut frame);
        // Written by us a line above: it is UTF-8.
        if let Ok(text) = frame.bytes.freeze().try_into() {
            self.line.say(Message::Text(text));
        }
    }
}
