//! Bodies that are too large, too slow or broken.

use std::convert::Infallible;

use futures_util::{StreamExt as _, stream};

use super::*;

const BOUNDS: Bounds = Bounds { max: 10, time: Duration::from_secs(30) };

fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(name, axum::http::HeaderValue::from_static(value))])
}

/// A body in these pieces; with the count of those that were read.
fn pieces(pieces: usize, piece: &'static str) -> (Body, Arc<AtomicUsize>) {
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let stream = stream::iter(0..pieces).map(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(piece)
    });
    (Body::from_stream(stream), read)
}

/// The room as one tenant finds it.
fn of_one(room: &Room) -> TenantRoom {
    TenantRoom { all: room.clone(), held: Arc::default() }
}

async fn outcome(body: Body, headers: &HeaderMap) -> Result<Bytes, Unread> {
    read(body, headers, BOUNDS, &of_one(&Room::default())).await.map(|whole| whole.bytes)
}

#[tokio::test]
async fn a_body_within_its_bounds_is_read_whole() {
    assert_eq!(outcome(pieces(2, "12345").0, &HeaderMap::new()).await.unwrap(), "1234512345");
    assert_eq!(outcome(Body::empty(), &HeaderMap::new()).await.unwrap(), "");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_let_come_in_for_a_while() {
    let (body, read) = pieces(100, "12345");
    assert_eq!(outcome(body, &HeaderMap::new()).await, Err(Unread::TooLarge(10)));
    assert_eq!(read.load(Ordering::Relaxed), 3 + 7, "thirty bytes and what passes them");
    let (body, read) = pieces(3, "12345");
    assert_eq!(outcome(body, &headers(header::CONTENT_LENGTH, "15")).await, Err(Unread::TooLarge(10)));
    assert_eq!(read.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn a_client_that_waits_for_our_answer_is_not_waited_for() {
    let mut headers = headers(header::EXPECT, "100-continue");
    headers.insert(header::CONTENT_LENGTH, axum::http::HeaderValue::from_static("15"));
    let (body, read) = pieces(3, "12345");
    assert_eq!(outcome(body, &headers).await, Err(Unread::TooLarge(10)));
    assert_eq!(read.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_takes_too_long_is_given_up() {
    let began = Instant::now();
    let endless = || Body::from_stream(stream::iter([Ok::<_, Infallible>("1")]).chain(stream::pending()));
    assert_eq!(outcome(endless(), &HeaderMap::new()).await, Err(Unread::TooSlow(BOUNDS.time)));
    assert_eq!(began.elapsed(), BOUNDS.time);
    let began = Instant::now();
    assert_eq!(outcome(endless(), &headers(header::CONTENT_LENGTH, "11")).await, Err(Unread::TooLarge(10)));
    assert_eq!(began.elapsed(), THROW_AWAY_TIME);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_told_apart() {
    let broken = stream::iter([Ok("1"), Err(std::io::Error::other("gone"))]);
    assert_eq!(outcome(Body::from_stream(broken), &HeaderMap::new()).await, Err(Unread::Broken));
}

#[tokio::test]
async fn all_bodies_share_one_room_and_give_their_share_back() {
    let room = Room(Arc::new(Semaphore::new(2)));
    let (all, room) = (room.clone(), of_one(&room));
    let bounds = Bounds { max: 3 * UNIT, ..BOUNDS };
    let body = |bytes: usize| Body::from("x".repeat(bytes));
    let first = read(body(UNIT), &HeaderMap::new(), bounds, &room).await.unwrap();
    let none = HeaderMap::new();
    assert_eq!(read(body(UNIT + 1), &none, bounds, &room).await.unwrap_err(), Unread::NoRoom);
    drop(first);
    let whole = read(body(UNIT + 1), &none, bounds, &room).await.unwrap();
    assert_eq!(read(body(1), &none, bounds, &room).await.unwrap_err(), Unread::NoRoom);
    drop(whole.bytes);
    drop(whole.share);
    assert_eq!(all.0.available_permits(), 2);
    assert_eq!(room.held.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_tenant_that_fills_its_part_of_the_room_leaves_the_others_theirs() {
    let room = Room::default();
    let bounds = Bounds { max: 2 * TENANT_HELD_MAX, ..BOUNDS };
    let none = HeaderMap::new();
    let (one, other) = (of_one(&room), of_one(&room));
    let full = read(Body::from(vec![0; TENANT_HELD_MAX]), &none, bounds, &one).await.unwrap();
    assert_eq!(read(Body::from("x"), &none, bounds, &one).await.unwrap_err(), Unread::NoTenantRoom);
    read(Body::from("x"), &none, bounds, &other).await.unwrap();
    drop(full);
    read(Body::from("x"), &none, bounds, &one).await.unwrap();
}
