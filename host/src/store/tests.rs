//! Tests of the store through its own door, over files in temporary folders.

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{bindings::types::File, ids::AgentId};

fn key(tenant: &str, conversation: &str) -> SessionKey {
    SessionKey {
        agent: AgentId { tenant: tenant.to_owned(), agent: "echo".to_owned() },
        user: "anon".to_owned(),
        conversation: conversation.to_owned(),
    }
}

fn said(text: &str) -> Vec<Message> {
    vec![Message { role: Role::User, content: Content::Text(text.to_owned()) }]
}

fn facts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn lines(messages: &[Message]) -> Vec<String> {
    let line = |message: &Message| {
        let role = if message.role == Role::User { "user" } else { "agent" };
        match &message.content {
            Content::Text(text) => format!("{role}: {text}"),
            Content::Image(url) => format!("{role}: image {url}"),
            Content::File(file) => format!("{role}: file {} {:?}", file.url, file.media_type),
        }
    };
    messages.iter().map(line).collect()
}

fn open(config: &SessionConfig) -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), config, &Metrics::new()).unwrap();
    (dir, store)
}

/// A turn with an input and an answer.
async fn turn(store: &Store, session: &SessionKey, id: &str, text: &str) {
    store.begin(session, id, &said(text), &BTreeMap::new()).await;
    store.answer(session, id, format!("{text}!")).await;
}

async fn history(store: &Store, session: &SessionKey) -> Vec<String> {
    lines(&store.recall(session, "another").await.history)
}

#[tokio::test]
async fn a_turn_recalls_the_turns_that_began_before_it_in_their_order() {
    let (_dir, store) = open(&SessionConfig::default());
    let session = key("acme", "1");
    store.begin(&session, "a", &said("one"), &BTreeMap::new()).await;
    store.begin(&session, "b", &said("two"), &BTreeMap::new()).await;
    assert_eq!(lines(&store.recall(&session, "a").await.history), [""; 0]);
    assert_eq!(lines(&store.recall(&session, "b").await.history), ["user: one"], "a is not answered yet");
    store.answer(&session, "b", "2".to_owned()).await;
    store.answer(&session, "a", "1".to_owned()).await;
    assert_eq!(lines(&store.recall(&session, "b").await.history), ["user: one", "agent: 1"]);
    assert_eq!(history(&store, &session).await, ["user: one", "agent: 1", "user: two", "agent: 2"]);
    store.answer(&session, "no such turn", "?".to_owned()).await;
    assert_eq!(history(&store, &session).await.len(), 4);
}

#[tokio::test]
async fn every_kind_of_message_comes_back_as_it_was() {
    let (_dir, store) = open(&SessionConfig::default());
    let session = key("acme", "1");
    let message = |content| Message { role: Role::User, content };
    let file = |media_type: Option<&str>| {
        Content::File(File { url: "https://a.example/f".to_owned(), media_type: media_type.map(str::to_owned) })
    };
    let input = [
        message(Content::Text("nul \0, 你好".to_owned())),
        message(Content::Image("https://a.example/i".to_owned())),
        message(file(Some("application/pdf"))),
        message(file(None)),
    ];
    store.begin(&session, "a", &input, &BTreeMap::new()).await;
    assert_eq!(history(&store, &session).await, lines(&input));
}

#[tokio::test]
async fn no_session_sees_another() {
    let (_dir, store) = open(&SessionConfig::default());
    turn(&store, &key("acme", "1"), "a", "mine").await;
    store.file_write(&key("acme", "1"), "/f".to_owned(), "mine".to_owned()).await.unwrap();
    for other in [key("acme", "2"), key("beta", "1")] {
        assert_eq!(history(&store, &other).await, [""; 0]);
        assert_eq!(store.file_read(&other, "/f".to_owned()).await, Err(FileError::NotFound));
        assert_eq!(store.file_delete(&other, "/f".to_owned()).await, Err(FileError::NotFound));
        assert_eq!(store.file_list(&other, "/".to_owned()).await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn a_fact_that_a_turn_leaves_out_keeps_its_last_value() {
    let (_dir, store) = open(&SessionConfig { turns: 2, ..SessionConfig::default() });
    let session = key("acme", "1");
    store.begin(&session, "a", &said("1"), &facts(&[("lang", "en"), ("work-dir", "/w")])).await;
    store.begin(&session, "b", &said("2"), &facts(&[("lang", "zh")])).await;
    assert_eq!(store.recall(&session, "a").await.facts, facts(&[]));
    assert_eq!(store.recall(&session, "b").await.facts, facts(&[("lang", "en"), ("work-dir", "/w")]));
    for n in 0..5 {
        store.begin(&session, &format!("c{n}"), &said("3"), &facts(&[("battery", &n.to_string())])).await;
    }
    let last = store.recall(&session, "c4").await;
    assert_eq!(last.facts, facts(&[("battery", "3"), ("lang", "zh"), ("work-dir", "/w")]), "longer than the turns");
    assert_eq!(lines(&last.history), ["user: 3"]);
}

#[tokio::test]
async fn a_sessions_facts_are_bounded_and_the_oldest_go() {
    let (_dir, store) = open(&SessionConfig::default());
    let session = key("acme", "1");
    for turn in 0..4 {
        let said_facts = (0..100).map(|n| (format!("k{turn}-{n}"), "v".to_owned())).collect();
        store.begin(&session, &turn.to_string(), &said("x"), &said_facts).await;
    }
    let kept = store.recall(&session, "another").await.facts;
    let of = |turn: usize| kept.keys().filter(|key| key.starts_with(&format!("k{turn}-"))).count();
    assert_eq!((of(0), of(1), of(2), of(3)), (0, 56, 100, 100));
}

#[tokio::test]
async fn a_session_is_cut_to_its_last_turns() {
    let (_dir, store) = open(&SessionConfig { turns: 2, ..SessionConfig::default() });
    let session = key("acme", "1");
    for n in 0..5 {
        turn(&store, &session, &n.to_string(), &n.to_string()).await;
    }
    assert_eq!(history(&store, &session).await, ["user: 3", "agent: 3!", "user: 4", "agent: 4!"]);
}

#[tokio::test]
async fn a_turn_larger_than_its_session_keeps_its_end() {
    let (_dir, store) = open(&SessionConfig { bytes: 64 + 10, ..SessionConfig::default() });
    let session = key("acme", "1");
    store.begin(&session, "a", &said("before"), &BTreeMap::new()).await;
    store.begin(&session, "b", &said("0123456789abc"), &BTreeMap::new()).await;
    assert_eq!(history(&store, &session).await, ["user: 0123456789"]);
    store.answer(&session, "b", "answer".to_owned()).await;
    assert_eq!(history(&store, &session).await, ["agent: answer"]);
}

#[tokio::test]
async fn what_was_recorded_is_there_after_a_start_without_a_goodbye() {
    let dir = tempfile::tempdir().unwrap();
    let session = key("acme", "1");
    let store = Store::open(dir.path(), &SessionConfig::default(), &Metrics::new()).unwrap();
    store.begin(&session, "a", &said("hello"), &facts(&[("lang", "en")])).await;
    store.file_write(&session, "/f".to_owned(), "text".to_owned()).await.unwrap();
    // The first store's thread still has the file open, as a killed process would have left it.
    let again = Store::open(dir.path(), &SessionConfig::default(), &Metrics::new()).unwrap();
    let recall = again.recall(&session, "b").await;
    assert_eq!((lines(&recall.history), recall.facts), (vec!["user: hello".to_owned()], facts(&[("lang", "en")])));
    assert_eq!(again.file_read(&session, "/f".to_owned()).await, Ok("text".to_owned()));
    drop(store);
}

#[tokio::test]
async fn a_closed_store_has_written_all_and_does_no_more() {
    let (dir, store) = open(&SessionConfig::default());
    let session = key("acme", "1");
    for n in 0..1000 {
        store.begin(&session, &n.to_string(), &said("x"), &BTreeMap::new()).await;
    }
    turn(&store, &session, "last", "last").await;
    assert!(store.is_reachable().await);
    store.close().await;
    store.close().await;
    assert!(!store.is_reachable().await);
    turn(&store, &session, "later", "later").await;
    assert_eq!(history(&store, &session).await, [""; 0]);
    assert_eq!(store.file_write(&session, "/f".to_owned(), String::new()).await, Err(FileError::Failed));

    let again = Store::open(dir.path(), &SessionConfig::default(), &Metrics::new()).unwrap();
    let kept = history(&again, &session).await;
    assert_eq!((kept.len(), kept.last().map(String::as_str)), (51, Some("agent: last!")));
}

#[tokio::test]
async fn a_store_that_fails_stops_no_turn() {
    let (dir, store) = open(&SessionConfig::default());
    let session = key("acme", "1");
    turn(&store, &session, "a", "one").await;
    assert_eq!(history(&store, &session).await.len(), 2);
    let other = Connection::open(dir.path().join(open::FILE)).unwrap();
    let full = "CREATE TRIGGER full BEFORE INSERT ON turns BEGIN SELECT RAISE(FAIL, 'full'); END";
    other.execute_batch(full).unwrap();
    turn(&store, &session, "b", "two").await;
    let kept = lines(&store.recall(&session, "b").await.history);
    assert_eq!(kept, ["user: one", "agent: one!"], "it recalls what it can");
    other.execute_batch("DROP TRIGGER full").unwrap();
    turn(&store, &session, "c", "three").await;
    assert_eq!(history(&store, &session).await.len(), 4);
}

#[tokio::test]
async fn a_tenants_longest_idle_sessions_make_room() {
    let (_dir, store) = open(&SessionConfig { per_tenant: 2, ..SessionConfig::default() });
    turn(&store, &key("beta", "1"), "a", "x").await;
    for n in 1..=4 {
        turn(&store, &key("acme", &n.to_string()), "a", "x").await;
    }
    let mut kept = Vec::new();
    for n in 1..=4 {
        kept.push(!history(&store, &key("acme", &n.to_string())).await.is_empty());
    }
    assert_eq!(kept, [false, false, true, true]);
    assert_eq!(history(&store, &key("beta", "1")).await.len(), 2, "another tenant's stay");
}

#[test]
fn idle_sessions_are_swept_with_all_that_is_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let db = open::open(dir.path()).unwrap();
    let bounds = Bounds {
        config: SessionConfig { idle: Duration::from_secs(1), ..SessionConfig::default() },
        metrics: Metrics::new(),
    };
    let (old, new) = (Session::from(&key("acme", "old")), Session::from(&key("acme", "new")));
    let beginning = Beginning { turn: "a".to_owned(), input: said("x"), facts: facts(&[("lang", "en")]) };
    turns::begin(&db, &bounds, &old, &beginning).unwrap();
    files::write(&db, &bounds, &old, "/f", "x").unwrap().unwrap();
    turns::touch(&db, &bounds, &old, 1000).unwrap();
    turns::touch(&db, &bounds, &new, 2000).unwrap();
    assert_eq!(turns::sweep(&db, &bounds, 2500), Ok(false));
    let count =
        |table: &str| -> i64 { db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap() };
    assert_eq!(["sessions", "turns", "messages", "facts", "files"].map(count), [1, 0, 0, 0, 0]);
    assert_eq!(turns::sweep(&db, &bounds, 5000), Ok(false));
    assert_eq!(["sessions", "tenants"].map(count), [0, 0]);
}

#[tokio::test]
async fn the_workspaces_of_a_tenant_share_one_bound_and_give_back_what_goes() {
    let config = SessionConfig { files_per_tenant: 100, per_tenant: 2, ..SessionConfig::default() };
    let (_dir, store) = open(&config);
    let (one, two) = (key("acme", "1"), key("acme", "2"));
    let file = |bytes: usize| "x".repeat(bytes);
    store.file_write(&one, "/a".to_owned(), file(60)).await.unwrap();
    store.file_write(&two, "/b".to_owned(), file(40)).await.unwrap();
    assert_eq!(store.file_write(&two, "/c".to_owned(), file(1)).await, Err(FileError::TenantFull));
    store.file_write(&key("beta", "1"), "/a".to_owned(), file(100)).await.unwrap();
    store.file_write(&one, "/a".to_owned(), file(59)).await.unwrap();
    store.file_write(&two, "/c".to_owned(), file(1)).await.unwrap();
    store.file_delete(&two, "/b".to_owned()).await.unwrap();
    store.file_write(&two, "/c".to_owned(), file(41)).await.unwrap();
    // A third session makes the longest idle one go, with its files.
    turn(&store, &key("acme", "3"), "t", "x").await;
    assert!(history(&store, &one).await.is_empty());
    store.file_write(&two, "/a".to_owned(), file(59)).await.unwrap();
    assert_eq!(store.file_write(&two, "/d".to_owned(), file(1)).await, Err(FileError::TenantFull));
}

#[tokio::test]
async fn a_workspace_is_written_read_listed_and_deleted() {
    let (_dir, store) = open(&SessionConfig::default());
    let session = key("acme", "1");
    for (path, content) in [("/b/2", "two"), ("/b/1", "one"), ("/bb", "x"), ("/b/1", "one more")] {
        store.file_write(&session, path.to_owned(), content.to_owned()).await.unwrap();
    }
    assert_eq!(store.file_read(&session, "/b/1".to_owned()).await, Ok("one more".to_owned()));
    let listed = |files: Result<Vec<FileEntry>, FileError>| -> Vec<(String, u64)> {
        files.unwrap().into_iter().map(|file| (file.path, file.bytes)).collect()
    };
    let under = listed(store.file_list(&session, "/b".to_owned()).await);
    assert_eq!(under, [("/b/1".to_owned(), 8), ("/b/2".to_owned(), 3)]);
    assert_eq!(listed(store.file_list(&session, "/".to_owned()).await).len(), 3);
    assert_eq!(store.file_delete(&session, "/b/1".to_owned()).await, Ok(()));
    assert_eq!(store.file_read(&session, "/b/1".to_owned()).await, Err(FileError::NotFound));
}

#[tokio::test]
async fn a_workspace_has_bounds() {
    let (_dir, store) = open(&SessionConfig::default());
    let (small, large) = (key("acme", "small"), key("acme", "large"));
    let write = |session: &SessionKey, path: String, bytes: usize| {
        let (store, session) = (store.clone(), session.clone());
        async move { store.file_write(&session, path, "x".repeat(bytes)).await }
    };
    assert_eq!(write(&small, "/f".to_owned(), FILE_BYTES_MAX + 1).await, Err(FileError::TooLarge));
    assert_eq!(write(&small, "/".repeat(PATH_BYTES_MAX + 1), 1).await, Err(FileError::TooLarge));
    for n in 0..FILES_MAX {
        assert_eq!(write(&small, format!("/{n}"), 1).await, Ok(()));
    }
    assert_eq!(write(&small, "/one-more".to_owned(), 1).await, Err(FileError::Full));
    assert_eq!(write(&small, "/0".to_owned(), 2).await, Ok(()), "one that is there may change");

    for n in 0..32 {
        assert_eq!(write(&large, format!("/{n}"), FILE_BYTES_MAX).await, Ok(()));
    }
    assert_eq!(write(&large, "/one-more".to_owned(), 1).await, Err(FileError::Full));
    assert_eq!(write(&large, "/0".to_owned(), FILE_BYTES_MAX).await, Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each step begins a turn of so many bytes and answers, perhaps, an earlier one.
    #[test]
    fn cutting_keeps_the_newest_turns_and_never_more_than_the_bytes(
        steps in prop::collection::vec((0_usize..400, prop::option::of((0_usize..8, 0_usize..400))), 1..16),
        turns_max in 1_u32..6,
        bytes in 0_u64..1500,
    ) {
        let db = {
            let dir = tempfile::tempdir().unwrap();
            open::open(dir.path()).unwrap()
        };
        let config = SessionConfig { turns: turns_max, bytes, ..SessionConfig::default() };
        let bounds = Bounds { config, metrics: Metrics::new() };
        let session = Session::from(&key("acme", "1"));
        for (index, (size, answered)) in steps.iter().enumerate() {
            let input = keep::fit(said(&"x".repeat(*size)).iter(), bytes);
            let beginning = Beginning { turn: index.to_string(), input, facts: BTreeMap::new() };
            turns::begin(&db, &bounds, &session, &beginning).unwrap();
            if let Some((back, size)) = answered {
                let answer = keep::fit(said(&"y".repeat(*size)).iter(), bytes);
                turns::answer(&db, &bounds, &session, &index.saturating_sub(*back).to_string(), &answer).unwrap();
            }
            let history = turns::recall(&db, &session, "another").unwrap().history;
            prop_assert!(history.iter().map(keep::size).sum::<u64>() <= bytes);
            let mut sql = db.prepare("SELECT turn FROM turns ORDER BY seq DESC").unwrap();
            let kept: Vec<String> = sql.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
            let newest: Vec<String> = (0..=index).rev().take(kept.len()).map(|n| n.to_string()).collect();
            prop_assert_eq!(&kept, &newest);
            prop_assert!((1..=turns_max as usize).contains(&kept.len()));
        }
    }
}
