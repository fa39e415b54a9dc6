//! Tests of the records through their own door, over files in temporary folders.

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;

const DAY: Duration = Duration::from_hours(24);

fn at(text: &str) -> jiff::Timestamp {
    text.parse().unwrap()
}

/// A turn of `tenant`'s agent `echo` that came to these ids and causes, and to a few of everything else.
fn turn(id: &str, tenant: &str, cause: Cause) -> TurnRecord {
    TurnRecord {
        id: id.to_owned(),
        agent: AgentId { tenant: tenant.to_owned(), agent: "echo".to_owned() },
        version: "v1".to_owned(),
        protocol: "mythra",
        at: at("2026-12-01T12:00:00.123Z"),
        took: Duration::from_millis(7),
        cpu: Duration::from_micros(1_234),
        memory: 65_536,
        events: 3,
        output: 11,
        tool_calls: 1,
        cause,
    }
}

fn wreck(detail: &str) -> Wreck {
    Wreck { detail: detail.to_owned(), ..Wreck::default() }
}

fn open_with(config: &RecordsConfig) -> (TempDir, Records) {
    let dir = tempfile::tempdir().unwrap();
    let records = Records::open(dir.path(), config).unwrap();
    (dir, records)
}

/// Keeps every day, as the tests' turns ended whenever they say.
fn kept() -> RecordsConfig {
    RecordsConfig { usage_days: 100_000, ..RecordsConfig::default() }
}

async fn usage(records: &Records) -> Vec<UsageRow> {
    records.usage(UsageQuery::default()).await.unwrap()
}

async fn ids(records: &Records, tenant: Option<&str>, limit: usize) -> Vec<String> {
    let query = FailureQuery { tenant: tenant.map(str::to_owned), agent: None, limit };
    records.failures(query).await.unwrap().into_iter().map(|card| card.id).collect()
}

fn row(day: &str, tenant: &str, agent: &str, turns: u64) -> UsageRow {
    UsageRow {
        day: day.to_owned(),
        tenant: tenant.to_owned(),
        agent: agent.to_owned(),
        turns,
        failed: BTreeMap::new(),
        cpu_us: 1_234 * turns,
        memory: 65_536,
        events: 3 * turns,
        output: 11 * turns,
        tool_calls: turns,
    }
}

#[tokio::test]
async fn sums_are_exact_and_stay_so_when_the_file_is_opened_again_or_was_never_closed() {
    let (dir, records) = open_with(&kept());
    for n in 0..10 {
        records.turn_ended(&turn(&format!("a{n}"), "acme", Cause::Answered), None);
    }
    let mut large = turn("b", "acme", Cause::Trap);
    large.memory = 1 << 20;
    records.turn_ended(&large, Some(wreck("unreachable")));
    records.turn_ended(&turn("c", "acme", Cause::Limit(Limit::CpuTime)), Some(wreck("cpu-time")));
    records.turn_ended(&turn("d", "acme", Cause::Left), None);
    let mut expected = row("2026-12-01", "acme", "echo", 13);
    expected.failed = BTreeMap::from([("limit".to_owned(), 1), ("trap".to_owned(), 1)]);
    expected.memory = 1 << 20;
    assert_eq!(usage(&records).await, std::slice::from_ref(&expected));
    records.close().await;

    let records = Records::open(dir.path(), &kept()).unwrap();
    assert_eq!(usage(&records).await, std::slice::from_ref(&expected));
    records.turn_ended(&turn("e", "acme", Cause::Trap), Some(wreck("unreachable")));
    expected.add(&UsageRow { failed: BTreeMap::from([("trap".to_owned(), 1)]), ..row("", "", "", 1) });
    assert_eq!(usage(&records).await, std::slice::from_ref(&expected));
    // A process that is killed closes nothing: what was written is in the files, and they are all there is.
    let after = tempfile::tempdir().unwrap();
    for name in ["records.db", "records.db-wal"] {
        std::fs::copy(dir.path().join(name), after.path().join(name)).unwrap();
    }
    let records = Records::open(after.path(), &kept()).unwrap();
    assert_eq!(usage(&records).await, [expected]);
    assert_eq!(ids(&records, None, 9).await, ["e", "c", "b"], "the newest first");
}

#[tokio::test]
async fn usage_is_told_by_tenant_agent_and_day() {
    let (_dir, records) = open_with(&kept());
    for (tenant, agent, day) in [("b", "x", "02"), ("a", "y", "03"), ("a", "x", "03"), ("a", "x", "01")] {
        let mut record = turn("t", tenant, Cause::Answered);
        agent.clone_into(&mut record.agent.agent);
        record.at = at(&format!("2026-12-{day}T23:59:59.999Z"));
        records.turn_ended(&record, None);
    }
    let told = async |query: UsageQuery| {
        let rows = records.usage(query).await.unwrap();
        let short = |row: &UsageRow| format!("{}/{}/{}", row.day.replace("2026-12-", ""), row.tenant, row.agent);
        rows.iter().map(short).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(told(UsageQuery::default()).await, ["01/a/x", "02/b/x", "03/a/x", "03/a/y"]);
    assert_eq!(told(UsageQuery { tenant: some("a"), ..UsageQuery::default() }).await, ["01/a/x", "03/a/x", "03/a/y"]);
    let days = UsageQuery { from: some("2026-12-02"), to: some("2026-12-03"), agent: some("x"), tenant: None };
    assert_eq!(told(days).await, ["02/b/x", "03/a/x"], "both days are included");
    assert_eq!(told(UsageQuery { to: some("2026-11-30"), ..UsageQuery::default() }).await, [""; 0]);
}

#[tokio::test]
async fn what_the_disk_does_not_take_is_told_all_the_same_and_written_once_it_does() {
    let (dir, records) = open_with(&kept());
    records.turn_ended(&turn("a", "acme", Cause::Trap), Some(wreck("first")));
    assert_eq!(usage(&records).await[0].turns, 1);
    let disk = Connection::open(dir.path().join("records.db")).unwrap();
    disk.execute_batch("CREATE TRIGGER full BEFORE INSERT ON usage BEGIN SELECT RAISE(ABORT, 'full'); END").unwrap();
    records.turn_ended(&turn("b", "acme", Cause::Trap), Some(wreck("second")));
    assert_eq!(usage(&records).await[0].turns, 2);
    records.turn_ended(&turn("c", "acme", Cause::Trap), Some(wreck("third")));
    assert_eq!(usage(&records).await[0].turns, 3);
    assert_eq!(ids(&records, None, 9).await, ["c", "b", "a"]);
    assert_eq!(ids(&records, None, 2).await, ["c", "b"]);
    let written = Records::read(dir.path()).unwrap();
    let query = FailureQuery { tenant: None, agent: None, limit: 9 };
    assert_eq!(written.failures(&query).unwrap().len(), 1, "nothing of a failed transaction is written");
    disk.execute_batch("DROP TRIGGER full").unwrap();
    records.close().await;
    let records = Records::open(dir.path(), &kept()).unwrap();
    let mut expected = row("2026-12-01", "acme", "echo", 3);
    expected.failed = BTreeMap::from([("trap".to_owned(), 3)]);
    assert_eq!(usage(&records).await, [expected], "and none is written twice");
    assert_eq!(ids(&records, None, 9).await, ["c", "b", "a"]);
}

#[tokio::test]
async fn a_tenants_crash_loop_takes_only_its_own_cards() {
    let (_dir, records) = open_with(&RecordsConfig { failures_per_agent: 3, failures_per_tenant: 4, ..kept() });
    records.turn_ended(&turn("b0", "beta", Cause::Trap), Some(wreck("mine")));
    let mut other = turn("other", "acme", Cause::Trap);
    other.agent.agent = "calm".to_owned();
    records.turn_ended(&other, Some(wreck("calm")));
    for n in 0..20 {
        records.turn_ended(&turn(&format!("a{n}"), "acme", Cause::Trap), Some(wreck("again")));
    }
    assert_eq!(ids(&records, Some("acme"), 9).await, ["a19", "a18", "a17", "other"], "an agent's own make room first");
    assert_eq!(ids(&records, Some("beta"), 9).await, ["b0"]);
    let mut third = turn("third", "acme", Cause::Trap);
    third.agent.agent = "third".to_owned();
    records.turn_ended(&third, Some(wreck("third")));
    assert_eq!(ids(&records, Some("acme"), 9).await, ["third", "a19", "a18", "a17"], "then the tenant's oldest");
    assert_eq!(ids(&records, None, 1).await, ["third"]);
}

#[tokio::test]
async fn cards_that_wait_for_a_broken_disk_are_bounded_tenant_by_tenant() {
    let (dir, records) = open_with(&kept());
    let disk = Connection::open(dir.path().join("records.db")).unwrap();
    disk.execute_batch("CREATE TRIGGER full BEFORE INSERT ON usage BEGIN SELECT RAISE(ABORT, 'full'); END").unwrap();
    records.turn_ended(&turn("b0", "beta", Cause::Trap), Some(wreck("mine")));
    for n in 0..400 {
        records.turn_ended(&turn(&format!("a{n}"), "acme", Cause::Trap), Some(wreck("again")));
    }
    let held = ids(&records, Some("acme"), FAILURES_MAX).await;
    assert_eq!((held.len(), held[0].as_str(), held[254].as_str()), (255, "a399", "a145"));
    assert_eq!(ids(&records, Some("beta"), 9).await, ["b0"]);
    assert_eq!(usage(&records).await.iter().map(|row| row.turns).collect::<Vec<_>>(), [400, 1], "usage loses nothing");
}

#[tokio::test]
async fn a_card_has_everything_and_is_found_by_what_clients_are_shown_of_its_id() {
    let (_dir, records) = open_with(&kept());
    let record = turn("abcdefgh01234567", "acme", Cause::Limit(Limit::Memory));
    let some = Wreck {
        detail: "memory: asked for\n5 MiB".to_owned(),
        backtrace: vec!["<core::vec>::push".to_owned(), String::new(), "two\nlines".to_owned()],
        events: vec!["text 5".to_owned()],
        calls: vec!["log".to_owned(), "call-tool workspace/write: ok".to_owned()],
        limits: vec![Limit::Log, Limit::Memory],
        text: Some("user: hello".to_owned()),
    };
    records.turn_ended(&record, Some(some));
    let card = records.failure("abcdefgh").await.unwrap().unwrap();
    let failure = Failure {
        id: record.id.clone(),
        at: record.at,
        tenant: "acme".to_owned(),
        agent: "echo".to_owned(),
        version: "v1".to_owned(),
        protocol: "mythra".to_owned(),
        cause: "limit".to_owned(),
        limit: Some("memory".to_owned()),
        took: record.took,
        cpu: record.cpu,
        memory: record.memory,
        events: 3,
        output: 11,
        tool_calls: 1,
        detail: "memory: asked for\n5 MiB".to_owned(),
    };
    let expected = Card {
        failure: failure.clone(),
        limits: vec!["log".to_owned(), "memory".to_owned()],
        backtrace: vec!["<core::vec>::push".to_owned(), String::new(), "two\\nlines".to_owned()],
        last_events: vec!["text 5".to_owned()],
        calls: vec!["log".to_owned(), "call-tool workspace/write: ok".to_owned()],
        text: Some("user: hello".to_owned()),
    };
    assert_eq!(card, expected);
    assert_eq!(records.failure("abcdefgh01234567").await.unwrap(), Some(expected));
    let query = FailureQuery { tenant: Some("acme".to_owned()), agent: Some("echo".to_owned()), limit: 9 };
    assert_eq!(records.failures(query).await.unwrap(), [failure]);
    for none in ["abcdefg", "bbcdefgh", "abcdefgh012345678", "abcdefg%", "", &"a".repeat(1000)] {
        assert_eq!(records.failure(none).await.unwrap(), None, "{none}");
    }
}

#[tokio::test]
async fn what_a_card_holds_is_bounded() {
    let (_dir, records) = open_with(&kept());
    let long = "你".repeat(20_000);
    let many: Vec<String> = (0..200).map(|n| format!("{n}\u{1b}{long}")).collect();
    let wreck = Wreck {
        detail: long.clone(),
        backtrace: many.clone(),
        events: many.clone(),
        calls: many,
        limits: [Limit::Log].repeat(1000),
        text: Some(long),
    };
    records.turn_ended(&turn("abcdefgh", "acme", Cause::Trap), Some(wreck));
    let card = records.failure("abcdefgh").await.unwrap().unwrap();
    assert_eq!(
        (card.failure.detail.len(), card.text.map(|text| text.len())),
        (4095, Some(16_383)),
        "cut between characters"
    );
    assert_eq!((card.backtrace.len(), card.last_events.len(), card.calls.len()), (64, 32, 32));
    assert!(card.backtrace[0].starts_with("0\\u{1b}你"), "the innermost frames");
    assert!(card.last_events[31].starts_with("199\\u{1b}你"), "the last events");
    assert!(card.backtrace.iter().all(|frame| frame.len() <= 512));
    assert!(card.last_events.iter().chain(&card.calls).all(|entry| entry.len() <= 256));
    assert_eq!(card.limits.len(), Limit::ALL.len());
}

#[tokio::test]
async fn a_turn_counts_once_against_a_budget_from_when_it_begins() {
    let (dir, records) = open_with(&kept());
    let now = jiff::Timestamp::now();
    let ended = |id: &str| TurnRecord { at: now, ..turn(id, "acme", Cause::Answered) };
    let spent = |records: &Records| records.spent("acme", now);
    records.turn_admitted("acme");
    records.turn_admitted("acme");
    assert_eq!(spent(&records).day, Sums { turns: 2, ..Sums::default() });
    records.turn_ended(&ended("a"), None);
    let one = Sums { turns: 2, cpu: Duration::from_micros(1_234), events: 3, output: 11, tool_calls: 1 };
    assert_eq!(spent(&records), Spent { day: one, month: one });
    records.turn_ended(&ended("b"), None);
    let both = Sums { turns: 2, cpu: Duration::from_micros(2_468), events: 6, output: 22, tool_calls: 2 };
    assert_eq!(spent(&records), Spent { day: both, month: both });
    assert_eq!(records.spent("beta", now), Spent::default());
    records.close().await;
    let records = Records::open(dir.path(), &kept()).unwrap();
    assert_eq!(spent(&records), Spent { day: both, month: both }, "a restart forgives nothing");
}

#[tokio::test]
async fn budgets_begin_anew_at_midnight_and_on_the_first() {
    let (_dir, records) = open_with(&kept());
    let turns = |now: &str| {
        let spent = records.spent("acme", at(now));
        (spent.day.turns, spent.month.turns)
    };
    let end = |now: &str| records.turn_ended(&TurnRecord { at: at(now), ..turn("t", "acme", Cause::Answered) }, None);
    records.turn_admitted("acme");
    records.turn_admitted("acme");
    end("2026-12-30T23:59:59.999Z");
    assert_eq!(turns("2026-12-30T23:59:59.999Z"), (2, 2));
    assert_eq!(turns("2026-12-31T00:00:00Z"), (1, 2), "the one that runs counts where it will end");
    end("2026-12-31T00:00:01Z");
    assert_eq!(turns("2026-12-31T23:59:59Z"), (1, 2));
    assert_eq!(turns("2027-01-01T00:00:00Z"), (0, 0));
    records.turn_admitted("acme");
    end("2027-01-01T00:00:01Z");
    assert_eq!(turns("2027-01-01T00:00:02Z"), (1, 1));
    assert_eq!(turns("2026-12-31T12:00:00Z"), (1, 2), "a clock that is set back finds what was");
    end("2027-01-02T00:00:00Z");
    end("2027-01-03T00:00:00Z");
    assert_eq!(turns("2027-01-03T00:00:01Z"), (1, 3));
}

#[tokio::test]
async fn old_days_and_cards_are_removed() {
    let (dir, records) = open_with(&kept());
    let now = jiff::Timestamp::now();
    for (id, days) in [("today", 0), ("kept", 10), ("old", 11)] {
        let record = TurnRecord { at: now - DAY * days, ..turn(id, "acme", Cause::Trap) };
        records.turn_ended(&record, Some(wreck("trap")));
    }
    assert_eq!(usage(&records).await.len(), 3);
    records.close().await;
    let records = Records::open(dir.path(), &RecordsConfig { usage_days: 10, ..RecordsConfig::default() }).unwrap();
    let rows = usage(&records).await;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.failed == BTreeMap::from([("trap".to_owned(), 1)])));
    assert_eq!(ids(&records, None, 9).await, ["kept", "today"], "in the order in which they were told");
}

#[tokio::test]
async fn records_are_read_beside_a_host_or_without_one_and_nothing_is_changed() {
    let (dir, records) = open_with(&kept());
    records.turn_ended(&turn("abcdefgh", "acme", Cause::Trap), Some(wreck("trap")));
    assert_eq!(usage(&records).await.len(), 1);
    let files = |dir: &Path| {
        let mut files: Vec<_> = dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        files
    };
    let read = |dir: &Path| {
        let before = files(dir);
        let bytes = std::fs::read(dir.join("records.db")).unwrap();
        let card = Records::read(dir).unwrap().failure("abcdefgh").unwrap();
        assert_eq!(card.map(|card| card.failure.detail), Some("trap".to_owned()));
        assert_eq!((files(dir), std::fs::read(dir.join("records.db")).unwrap()), (before, bytes));
    };
    read(dir.path());
    let killed = tempfile::tempdir().unwrap();
    for name in files(dir.path()) {
        std::fs::copy(dir.path().join(&name), killed.path().join(&name)).unwrap();
    }
    read(killed.path());
    records.close().await;
    assert_eq!(files(dir.path()), ["records.db"]);
    read(dir.path());
}

#[test]
fn the_causes_that_are_failures_are_listed() {
    use Cause::{Answered, Exit, Left, Limit as Struck, Panicked, Said, ShuttingDown, Start, Trap};
    let all = [Answered, Said, Trap, Exit, Start, Struck(Limit::Log), Panicked, Left, ShuttingDown];
    let failures: Vec<_> = all.iter().filter(|cause| cause.is_failure()).map(|cause| cause.name()).collect();
    assert_eq!(failures, Cause::FAILURES);
}
