//! What is sent when, on a clock that the tests turn.

use futures_util::StreamExt as _;
use http_body_util::BodyExt as _;
use tokio::sync::mpsc;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const SILENCE: Silence = Silence { keep_alive: Duration::from_secs(7), progress_after: Duration::from_secs(10) };

/// Frames that the test sends.
struct Sent(mpsc::Receiver<&'static str>);

impl Stream for Sent {
    type Item = Frames;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Frames>> {
        self.0.poll_recv(cx).map(|text| {
            text.map(|text| {
                let mut frames = Frames::default();
                frames.bytes.extend_from_slice(text.as_bytes());
                frames.end_frame();
                frames
            })
        })
    }
}

fn answer(progress: Option<&'static str>) -> (mpsc::Sender<&'static str>, Answer<Sent, ()>) {
    let (sender, receiver) = mpsc::channel(8);
    let progress = progress.map(|text| Bytes::from_static(text.as_bytes()));
    (sender, Answer::new(Sent(receiver), SILENCE, progress, ()))
}

/// What is sent next, and how many seconds after `began`; an empty text is the end.
async fn next(answer: &mut Answer<Sent, ()>, began: Instant) -> (String, u64) {
    let bytes = answer.next().await.unwrap_or_else(|| Ok(Bytes::new())).unwrap();
    (String::from_utf8(bytes.to_vec()).unwrap(), began.elapsed().as_secs())
}

fn at(text: &str, seconds: u64) -> (String, u64) {
    (text.to_owned(), seconds)
}

#[tokio::test(start_paused = true)]
async fn a_silence_is_broken_by_a_comment_again_and_again() {
    let (_sender, mut answer) = answer(None);
    let began = Instant::now();
    for seconds in [7, 14, 21] {
        assert_eq!(next(&mut answer, began).await, at(": keepalive\n\n", seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn frames_put_the_comment_off() {
    let (sender, mut answer) = answer(None);
    let began = Instant::now();
    tokio::time::advance(6 * SECOND).await;
    sender.send("a").await.unwrap();
    assert_eq!(next(&mut answer, began).await, at("a", 6));
    assert_eq!(next(&mut answer, began).await, at(": keepalive\n\n", 13));
    sender.send("b").await.unwrap();
    drop(sender);
    assert_eq!(next(&mut answer, began).await, at("b", 13));
    assert_eq!(next(&mut answer, began).await, at("", 13));
}

#[tokio::test(start_paused = true)]
async fn the_progress_text_is_shown_once() {
    let (_sender, mut answer) = answer(Some("wait"));
    let began = Instant::now();
    let expected = [(": keepalive\n\n", 7), ("wait", 10), (": keepalive\n\n", 17), (": keepalive\n\n", 24)];
    for (text, seconds) in expected {
        assert_eq!(next(&mut answer, began).await, at(text, seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn what_shows_puts_the_progress_text_off() {
    let (sender, mut answer) = answer(Some("wait"));
    let began = Instant::now();
    tokio::time::advance(9 * SECOND).await;
    sender.send("a").await.unwrap();
    assert_eq!(next(&mut answer, began).await, at("a", 9));
    assert_eq!(next(&mut answer, began).await, at(": keepalive\n\n", 16));
    assert_eq!(next(&mut answer, began).await, at("wait", 19));
}

#[tokio::test(start_paused = true)]
async fn nothing_follows_the_last_frames_however_late_they_are_read() {
    let (sender, mut answer) = answer(Some("wait"));
    let began = Instant::now();
    assert!(futures_util::poll!(answer.next()).is_pending());
    sender.send("the end").await.unwrap();
    drop(sender);
    tokio::time::advance(60 * SECOND).await;
    assert_eq!(next(&mut answer, began).await, at("the end", 60));
    tokio::time::advance(60 * SECOND).await;
    assert_eq!(next(&mut answer, began).await, at("", 120));
}

#[tokio::test(start_paused = true)]
async fn the_answer_has_the_documents_headers_and_ends_with_its_frames() {
    let (sender, receiver) = mpsc::channel(8);
    let kept = std::sync::Arc::new(());
    let response = response(Sent(receiver), SILENCE, None, std::sync::Arc::clone(&kept));
    assert_eq!(response.status(), 200);
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert_eq!(header("cache-control"), "no-cache");
    assert_eq!(header("x-accel-buffering"), "no");
    assert_eq!(response.headers().len(), 3);
    sender.send("a").await.unwrap();
    sender.send("b").await.unwrap();
    drop(sender);
    assert_eq!(std::sync::Arc::strong_count(&kept), 2);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "ab");
    assert_eq!(std::sync::Arc::strong_count(&kept), 1);
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_turn() {
    let (sender, receiver) = mpsc::channel(8);
    let response = response(Sent(receiver), SILENCE, None, ());
    assert!(!sender.is_closed());
    drop(response);
    assert!(sender.is_closed());
}

#[test]
fn the_progress_text_is_an_answer_that_does_not_finish() {
    let ids = Ids { message_id: "M".to_owned(), agent_id: "G".to_owned() };
    assert_eq!(
        progress_frame(&ids, "稍等"),
        "event: message\ndata: {\"role\":\"agent\",\"type\":\"answer\",\"answer_stream\":\"稍等\",\"message_id\":\"M\",\
         \"agent_id\":\"G\",\"is_finish\":false}\n\n"
    );
}
