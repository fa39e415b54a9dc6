//! Tests of a connection, over a socket whose other end the test holds and with turns whose guest the test plays. What
//! needs a real agent is tested over real sockets.

use std::{collections::BTreeMap, time::Duration};

use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use super::{
    super::line::tests::{Fake, Peer, pair},
    *,
};
use crate::{
    bindings::types::{Event as Emitted, Output},
    config::{Config, KeyConfig, TenantConfig},
    script::{self, EmitFault, Failure, Outbox, Outcome},
};

const HI: &str = r#"{"type":"user-input","userInput":"hi"}"#;

/// A host without agents, of which tenant `acme` has the key `sk-good` or is open.
struct Stage {
    lobby: Arc<Lobby>,
    locks: Arc<SessionLocks>,
    _data: tempfile::TempDir,
}

impl Stage {
    fn new(keyed: bool, change: impl FnOnce(&mut Config)) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        let key = KeyConfig { digest: Sha256::digest(b"sk-good").into(), agent: None, expires: None };
        let keys = if keyed { vec![key] } else { Vec::new() };
        let acme = TenantConfig { keys, ..TenantConfig::out_of_the_box() };
        config.tenants = BTreeMap::from([("acme".to_owned(), acme)]);
        change(&mut config);

        let lobby = Arc::new(Lobby::for_tests(config, data.path(), 8));
        Self { lobby, locks: Arc::default(), _data: data }
    }

    fn open() -> Self {
        Self::new(false, |_| {})
    }

    fn connection(&self, room: usize) -> (Connection<Fake>, Peer) {
        let (socket, peer) = pair(room);
        let gate = Gate::knock(&self.lobby.tenants(), "acme".to_owned(), "echo".to_owned(), None).unwrap();
        (Connection::new(Arc::clone(&self.lobby), Arc::clone(&self.locks), (gate, None), socket), peer)
    }

    /// A connection that is served.
    fn connect(&self) -> (JoinHandle<()>, Peer) {
        let (connection, peer) = self.connection(64);
        (tokio::spawn(connection.serve()), peer)
    }

    /// A connection that is served and has a turn running, of which the test is the guest.
    async fn connect_running(&self, room: usize) -> (JoinHandle<()>, Peer, Outbox) {
        let (mut connection, peer) = self.connection(room);
        let encoder = Encoder::new("r".to_owned(), "sorry".to_owned());
        let (outbox, reader) = script::outbox(Box::new(encoder));
        let guard = self.locks.of(&session(&connection.session)).lock_owned().await;
        connection.work = Work::Running { reader, _session: guard };
        (tokio::spawn(connection.serve()), peer, outbox)
    }
}

fn session(conversation: &str) -> SessionKey {
    SessionKey {
        agent: AgentId { tenant: "acme".to_owned(), agent: "echo".to_owned() },
        user: format!("mythra:{}", ids::ANONYMOUS),
        conversation: conversation.to_owned(),
    }
}

fn chat(text: &str) -> Emitted {
    Emitted::Chat(Output::Delta(text.to_owned()))
}

/// The content of an `error` with an id of its own.
fn error_of(frame: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(frame).unwrap();
    let (id, content) = (value["id"].as_str().unwrap(), value["content"].as_str().unwrap());
    let expected = serde_json::to_string(&Outgoing::error(id, content)).unwrap();
    assert_eq!(frame, expected);
    assert!(id.len() == 11 && id.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase()), "{id}");
    content.to_owned()
}

const END: &str = r#"{"id":"r","type":"response-state","event":"end"}"#;

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_is_closed_as_idle() {
    let (_served, mut peer) = Stage::open().connect();
    let began = Instant::now();
    loop {
        match peer.next().await {
            Some(Message::Ping(_)) => peer.send(Message::Pong(bytes::Bytes::new())).await,
            Some(Message::Close(Some(close))) => {
                assert_eq!((close.code, close.reason.as_str()), (1000, "idle"));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(began.elapsed(), Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn what_is_no_json_is_complained_of_and_the_fifth_closes() {
    let stage = Stage::open();
    let (_served, mut peer) = stage.connect();
    for count in 1..=5 {
        peer.send(r#"{"type":"ping"}"#).await;
        peer.send(Message::Binary(bytes::Bytes::from_static(b"\xff\xfe"))).await;
        let why = error_of(&peer.text().await);
        assert!(why.starts_with("invalid JSON: "), "{count}: {why}");
    }
    assert_eq!(peer.close().await, (1008, "too many invalid messages".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_input_without_text_starts_no_turn_and_is_not_counted_as_bad() {
    let (_served, mut peer) = Stage::open().connect();
    for _ in 0..9 {
        peer.send(r#"{"type":"user-input","userInput":""}"#).await;
        assert_eq!(error_of(&peer.text().await), "userInput is required");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_key_and_none_are_unauthorized_and_never_shown() {
    let stage = Stage::new(true, |_| {});
    for key in ["", r#","apiKey":"sk-secret""#] {
        let (served, mut peer) = stage.connect();
        peer.send(format!(r#"{{"type":"user-input","userInput":"hi"{key}}}"#)).await;
        assert_eq!(error_of(&peer.text().await), "unauthorized");
        assert_eq!(peer.close().await, (1008, "unauthorized".to_owned()));
        peer.send(Message::Close(None)).await;
        drop(peer);
        served.await.unwrap();
    }
    let (_served, mut peer) = stage.connect();
    peer.send(r#"{"type":"user-input","userInput":"hi","apiKey":"sk-good"}"#).await;
    assert_eq!(error_of(&peer.text().await), "no such agent");
    assert_eq!(peer.close().await, (1008, "no such agent".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_too_long_is_complained_of_and_closes() {
    let stage = Stage::open();
    let (_served, mut peer) = stage.connect();
    peer.send("x".repeat(1024 * 1024 + 1)).await;
    assert_eq!(error_of(&peer.text().await), "the message is longer than 1048576 bytes");
    assert_eq!(peer.close().await, (1009, String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_answers_no_pings_is_dropped() {
    let stage = Stage::new(false, |config| config.mythra.idle = Duration::from_secs(1000));
    let (_served, mut peer) = stage.connect();
    let began = Instant::now();
    assert!(matches!(peer.next().await, Some(Message::Ping(_))));
    peer.send(Message::Pong(bytes::Bytes::new())).await;
    for _ in 0..3 {
        assert!(matches!(peer.next().await, Some(Message::Ping(_))));
    }
    assert_eq!(peer.next().await, None, "no goodbye to nobody");
    assert_eq!(began.elapsed(), Duration::from_secs(20 * 5));
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_shown_to_its_end_and_the_connection_lingers() {
    let stage = Stage::open();
    let (_served, mut peer, guest) = stage.connect_running(64).await;
    guest.emit(&chat("x")).await.unwrap();
    assert!(peer.text().await.contains(r#""type":"chat-output","event":"start""#));
    assert!(peer.text().await.contains(r#""content":"x""#));
    guest.finish(&Outcome::Done);
    assert!(peer.text().await.contains(r#""type":"chat-output","event":"end""#));
    assert_eq!(peer.text().await, END);
    let ended = Instant::now();
    assert_eq!(peer.close().await, (1000, String::new()));
    assert_eq!(ended.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn inputs_wait_for_the_turn_that_runs_and_one_too_many_is_busy() {
    let stage = Stage::open();
    let (_served, mut peer, guest) = stage.connect_running(64).await;
    for _ in 0..5 {
        peer.send(HI).await;
    }
    assert_eq!(error_of(&peer.text().await), "busy");
    guest.finish(&Outcome::Done);
    assert_eq!(peer.text().await, END, "the first turn ends before the next input is looked at");
    assert_eq!(error_of(&peer.text().await), "no such agent");
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_another_of_its_session_but_not_for_ever() {
    let stage = Stage::open();
    let other = stage.locks.of(&session("s")).lock_owned().await;
    let (_served, mut peer) = stage.connect();
    let began = Instant::now();
    peer.send(r#"{"type":"user-input","userInput":"hi","sessionId":"s"}"#).await;
    assert!(matches!(peer.next().await, Some(Message::Ping(_))));
    assert_eq!(error_of(&peer.text().await), "busy");
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    peer.send(r#"{"type":"user-input","userInput":"hi","sessionId":"s"}"#).await;
    drop(other);
    assert_eq!(error_of(&peer.text().await), "no such agent", "it got the session");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_ends_its_turn_at_once() {
    let stage = Stage::open();
    let (_served, peer, guest) = stage.connect_running(64).await;
    peer.send(Message::Close(None)).await;
    let began = Instant::now();
    guest.gone().await;
    assert_eq!(guest.emit(&chat("x")).await, Err(EmitFault::Closed));

    let (_served, peer, guest) = stage.connect_running(64).await;
    drop(peer);
    guest.gone().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_loses_its_turn() {
    let stage = Stage::open();
    let (served, mut peer, guest) = stage.connect_running(1).await;
    for _ in 0..4 {
        guest.emit(&chat("x")).await.unwrap();
    }
    let began = Instant::now();
    guest.gone().await;
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    assert!(peer.text().await.contains("start"), "what the socket had taken");
    assert!(matches!(peer.next().await, Some(Message::Ping(_))));
    assert_eq!(peer.close().await, (1013, "too slow".to_owned()));
    drop(peer);
    served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_host_that_goes_down_says_so_and_lets_the_turn_end() {
    let stage = Stage::open();
    let (_idle, mut idle) = stage.connect();
    let (_served, mut peer, guest) = stage.connect_running(64).await;
    let mut begin = stage.connection(64);
    peer.send(HI).await;
    peer.send(HI).await;
    tokio::task::yield_now().await;
    stage.lobby.draining.cancel();
    let down = || "the server is shutting down".to_owned();
    assert_eq!(idle.close().await, (1001, down()));
    assert_eq!(error_of(&peer.text().await), down());
    assert_eq!(error_of(&peer.text().await), down());
    guest.emit(&chat("last")).await.unwrap();
    guest.finish(&Outcome::Failed(Failure::ShuttingDown));
    let frames = [peer.text().await, peer.text().await, peer.text().await, peer.text().await, peer.text().await];
    assert!(frames[1].contains("last") && frames[3].contains(&down()), "{frames:?}");
    assert_eq!(frames[4], END);
    assert_eq!(peer.close().await, (1001, down()));
    drop(begin.0.serve());
    assert_eq!(begin.1.next().await, None);
}
