//! Tests of the line, over a socket whose other end the test holds.

use axum::extract::ws::close_code;
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::error::CapacityError;
use tokio_util::sync::PollSender;

use super::*;

/// A socket whose other end is a [`Peer`]. It takes as many messages as the peer has room for.
pub(in super::super) struct Fake {
    to_peer: PollSender<Message>,
    from_peer: mpsc::Receiver<Result<Message, Error>>,
}

/// The other end of a [`Fake`].
pub(in super::super) struct Peer {
    to_line: mpsc::Sender<Result<Message, Error>>,
    from_line: mpsc::Receiver<Message>,
}

/// A socket and its peer, who has room for `room` messages that it has not read.
pub(in super::super) fn pair(room: usize) -> (Fake, Peer) {
    let (to_peer, from_line) = mpsc::channel(room);
    let (to_line, from_peer) = mpsc::channel(64);
    (Fake { to_peer: PollSender::new(to_peer), from_peer }, Peer { to_line, from_line })
}

impl Stream for Fake {
    type Item = Result<Message, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.from_peer.poll_recv(cx)
    }
}

impl Sink<Message> for Fake {
    type Error = Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.to_peer.poll_reserve(cx).map_err(Error::new)
    }

    fn start_send(mut self: Pin<&mut Self>, item: Message) -> Result<(), Error> {
        self.to_peer.send_item(item).map_err(Error::new)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }
}

impl Peer {
    pub(in super::super) async fn send(&self, message: impl Into<Message>) {
        self.to_line.send(Ok(message.into())).await.unwrap();
    }

    pub(in super::super) async fn fail(&self, error: SocketError) {
        self.to_line.send(Err(Error::new(error))).await.unwrap();
    }

    /// The next message; `None` once the socket has been dropped.
    pub(in super::super) async fn next(&mut self) -> Option<Message> {
        self.from_line.recv().await
    }

    /// The next message, which is text.
    pub(in super::super) async fn text(&mut self) -> String {
        match self.next().await {
            Some(Message::Text(text)) => text.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// The next message, which is a close with its code and reason.
    pub(in super::super) async fn close(&mut self) -> (CloseCode, String) {
        match self.next().await {
            Some(Message::Close(Some(CloseFrame { code, reason }))) => (code, reason.to_string()),
            other => panic!("{other:?}"),
        }
    }
}

fn frames(texts: &[&str]) -> Frames {
    let mut frames = Frames::default();
    for text in texts {
        frames.bytes.extend_from_slice(text.as_bytes());
        frames.end_frame();
    }
    frames
}

#[tokio::test]
async fn a_batch_goes_out_frame_by_frame_after_what_the_host_has_to_say() {
    let (socket, mut peer) = pair(8);
    let mut line = Line::new(socket);
    line.send(frames(&["a", "好", ""]));
    line.say(Message::Text("first".into()));
    assert!(!line.is_clear());
    assert!(matches!(line.next().await, Heard::Written));
    assert!(line.is_clear() && line.stuck_since().is_none());
    for expected in ["first", "a", "好", ""] {
        assert_eq!(peer.text().await, expected);
    }
}

#[tokio::test]
async fn the_peer_is_heard_while_it_reads_nothing() {
    let (socket, mut peer) = pair(1);
    let mut line = Line::new(socket);
    line.send(frames(&["a", "b", "c"]));
    peer.send("hello").await;
    assert!(matches!(line.next().await, Heard::Message(Message::Text(text)) if text == "hello"));
    assert!(line.stuck_since().is_some());
    let reading = async {
        for expected in ["a", "b", "c"] {
            assert_eq!(peer.text().await, expected);
        }
    };
    let (heard, ()) = tokio::join!(line.next(), reading);
    assert!(matches!(heard, Heard::Written));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_writes_and_never_reads_stops_itself() {
    let (socket, mut peer) = pair(1);
    let mut line = Line::new(socket);
    for _ in 0..=ANSWERS_MAX {
        line.say(Message::Text("answer".into()));
    }
    peer.send("more").await;
    assert!(timeout(Duration::from_secs(9), line.next()).await.is_err(), "nothing is read");
    peer.text().await;
    assert!(matches!(line.next().await, Heard::Message(Message::Text(text)) if text == "more"), "it is read again");
}

#[tokio::test(start_paused = true)]
async fn a_close_is_the_last_frame_and_waits_a_while_for_the_peers() {
    let (socket, mut peer) = pair(8);
    let mut line = Line::new(socket);
    line.send(frames(&["left out"]));
    line.say(Message::Text("why".into()));
    let began = Instant::now();
    line.close(close_code::POLICY, "because").await;
    assert_eq!(began.elapsed(), CLOSE_WAIT);
    assert_eq!(peer.text().await, "why");
    assert_eq!(peer.close().await, (1008, "because".to_owned()));
    assert_eq!(peer.next().await, None);

    let (socket, peer) = pair(8);
    drop(peer);
    let began = Instant::now();
    Line::new(socket).close(close_code::NORMAL, "").await;
    assert_eq!(began.elapsed(), Duration::ZERO, "nobody is there to wait for");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_broke_a_rule_is_told_which_and_given_time_to_read_it() {
    let (socket, mut peer) = pair(8);
    let mut line = Line::new(socket);
    peer.fail(SocketError::Utf8(String::new())).await;
    let Heard::Broken(code, _) = line.next().await else { panic!("broken") };
    let began = Instant::now();
    line.close(code, "").await;
    assert_eq!(began.elapsed(), CLOSE_WAIT);
    assert_eq!(peer.close().await, (1007, String::new()));
}

#[test]
fn each_breach_has_its_code() {
    let too_long = CapacityError::MessageTooLong { size: 2, max_size: 1 };
    let cases = [
        (SocketError::Utf8(String::new()), Some(1007)),
        (SocketError::Capacity(too_long), Some(1009)),
        (SocketError::Protocol(ProtocolError::UnmaskedFrameFromClient), Some(1002)),
        (SocketError::Protocol(ProtocolError::NonZeroReservedBits), Some(1002)),
        (SocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake), None),
        (SocketError::ConnectionClosed, None),
        (SocketError::Io(std::io::ErrorKind::ConnectionReset.into()), None),
    ];
    for (error, expected) in cases {
        let error = Error::new(error);
        assert_eq!(code_for(&error), expected, "{error}");
    }
}
