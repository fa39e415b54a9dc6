//! One Mythra connection of a client that keeps no rules but those it wants to.

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio::io::AsyncWriteExt as _;
use tokio_tungstenite::tungstenite::Message;

use super::{
    clients::{Caller, NoTurn, Socket, listen},
    heard::{Heard, Mythra, Patience},
    verdict::Trouble,
};

/// What came over a connection.
#[derive(Debug)]
pub(super) enum Said {
    /// A message.
    Text(String),
    /// An answer to a ping.
    Pong(Bytes),
    /// The goodbye, with its code and reason.
    Closed(u16, String),
    /// The connection is gone.
    Gone,
}

/// A connection.
pub(super) struct Line {
    socket: Socket,
}

impl Line {
    /// Connects.
    pub(super) async fn open(caller: &Caller) -> Result<Self, Trouble> {
        Self::of(caller.socket().await)
    }

    /// Connects with as little room for what is not read as the system allows.
    pub(super) async fn narrow(caller: &Caller) -> Result<Self, Trouble> {
        Self::of(caller.narrow_socket().await)
    }

    fn of(socket: Result<Socket, NoTurn>) -> Result<Self, Trouble> {
        match socket {
            Ok(socket) => Ok(Self { socket }),
            Err(NoTurn::Refused(status, words)) => {
                Err(Trouble::Unproven(format!("a handshake was refused with {status}: {words}")))
            }
            Err(NoTurn::Broken(why)) => Err(Trouble::Unproven(format!("a handshake failed: {why}"))),
        }
    }

    /// Says something; the host may not want it any more.
    pub(super) async fn say(&mut self, message: Message) {
        drop(self.socket.send(message).await);
    }

    /// What comes next. Pings are answered.
    pub(super) async fn next(&mut self) -> Said {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return Said::Text(text.to_string()),
                Some(Ok(Message::Pong(bytes))) => return Said::Pong(bytes),
                Some(Ok(Message::Close(frame))) => {
                    return frame.map_or(Said::Gone, |frame| Said::Closed(frame.code.into(), frame.reason.to_string()));
                }
                Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Frame(_))) => {}
                Some(Err(_)) | None => return Said::Gone,
            }
        }
    }

    /// Waits for the guest's first text.
    pub(super) async fn next_text(&mut self) -> Result<(), Trouble> {
        if self.find("\"delta\"").await? {
            return Ok(());
        }
        Err(Trouble::Unproven("the agent said nothing".to_owned()))
    }

    /// Reads until a message holds this text; whether one did before the connection or the turn ended.
    pub(super) async fn find(&mut self, text: &str) -> Result<bool, Trouble> {
        loop {
            match self.next().await {
                Said::Text(said) if said.contains(text) => return Ok(true),
                Said::Text(said) if said.contains("\"response-state\",\"event\":\"end\"") => return Ok(false),
                Said::Text(_) | Said::Pong(_) => {}
                Said::Closed(..) | Said::Gone => return Ok(false),
            }
        }
    }

    /// Reads until the ping of this number is answered; how many were on the way. What comes of a turn is checked.
    pub(super) async fn pongs(&mut self, last: u32, check: &mut Mythra) -> Result<u64, Trouble> {
        let mut pongs = 0;
        loop {
            match self.next().await {
                Said::Pong(bytes) => {
                    pongs += 1;
                    if bytes.as_ref() == last.to_be_bytes() {
                        return Ok(pongs);
                    }
                }
                Said::Text(text) => check.message(&text),
                other => return Err(Trouble::Broke(format!("pings were not answered: {other:?}"))),
            }
        }
    }

    /// Hears the rest of a turn.
    pub(super) async fn rest(&mut self, check: Mythra) -> Heard {
        listen(&mut self.socket, Patience::default(), check).await
    }

    /// Sends a message in fragments, of which none is the last, until the host closes; the bytes that it took.
    pub(super) async fn fragments(&mut self, piece: usize, pieces: usize) -> usize {
        let stream = self.socket.get_mut();
        let mut taken = 0;
        for n in 0..pieces {
            let frame = fragment(n == 0, piece);
            // Written past the socket, which would close what the host does not want.
            if stream.write_all(&frame).await.is_err() {
                break;
            }
            taken += piece;
        }
        taken
    }
}

/// A masked fragment of a text message that is not its last. The mask is nothing, so that the bytes stay what they are.
fn fragment(first: bool, length: usize) -> Vec<u8> {
    let mut frame = vec![u8::from(first), 0xff];
    frame.extend((length as u64).to_be_bytes());
    frame.extend([0; 4]);
    frame.resize(frame.len() + length, b'x');
    frame
}
