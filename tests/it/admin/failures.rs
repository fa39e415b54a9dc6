//! Failed turns: listed, told one by one, and told again by `hostelry failures`.

use std::path::Path;

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{
    admin::{Question, get},
    host::{Host, SOON, Setup},
    turn::ask,
};

/// Exit code, standard output and standard error of `hostelry failures`.
async fn failures(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut program = Host::program(dir);
    let output = tokio::time::timeout(SOON, program.arg("failures").args(args).output());
    let output = output.await.expect("it does not end").unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), out, err)
}

#[tokio::test]
async fn a_failed_turn_leaves_a_card_that_is_found_by_its_id() {
    let host = Setup::serving(&["puppet"]).config("limits.cpu-time = \"100ms\"").start().await;
    assert_eq!(get(&host, "/api/failures").await, json!({ "failures": [] }));
    ask(&host, "puppet", "chat well").await;
    ask(&host, "puppet", "chat four\ntrap").await;
    ask(&host, "puppet", "spin").await;
    let list = get(&host, "/api/failures").await;
    let list = list["failures"].as_array().unwrap();
    let short = |failure: &Value| (failure["cause"].clone(), failure["limit"].clone(), failure["agent"].clone());
    assert_eq!(
        list.iter().map(short).collect::<Vec<_>>(),
        [(json!("limit"), json!("cpu-time"), json!("puppet")), (json!("trap"), json!(null), json!("puppet"))],
        "the newest first, and none for the turn that was answered"
    );
    let trap = &list[1];
    let version = get(&host, "/api/agents/default/puppet").await["version"].clone();
    assert_eq!((&trap["version"], &trap["protocol"]), (&version, &json!("lingzhu")));
    assert_eq!((&trap["events"], &trap["output_bytes"], &trap["tool_calls"]), (&json!(1), &json!(4), &json!(0)));
    assert!(list[0]["cpu_ms"].as_u64().unwrap() >= 100, "{}", list[0]);
    let id = trap["id"].as_str().unwrap();
    let short_id: String = id.chars().take(8).collect();
    for id in [id, &short_id] {
        let card = get(&host, &format!("/api/failures/{id}")).await;
        for (key, value) in trap.as_object().unwrap() {
            assert_eq!(card[key], *value, "{key}");
        }
        assert_eq!((&card["text"], &card["limits"]), (&json!(null), &json!([])), "{card}");
        for key in ["backtrace", "last_events", "calls"] {
            assert!(card[key].is_array(), "{key}: {card}");
        }
    }
    assert_eq!(get(&host, "/api/failures?limit=1").await["failures"], json!([list[0]]));
    assert_eq!(get(&host, "/api/failures?tenant=acme").await["failures"], json!([]));
    assert_eq!(get(&host, "/api/failures?agent=puppet").await["failures"].as_array().unwrap().len(), 2);
    for none in ["abcdefg", "ABCDEFGH", "%ff%ff%ff%ff%ff%ff%ff%ff", "____________"] {
        let told = Question::new(&host, &format!("/api/failures/{none}")).ask().await;
        assert_eq!(told.status, StatusCode::NOT_FOUND, "{none}");
        assert!(told.error().contains("no failure with this id is kept"), "{told:?}");
    }

    let host = host.kill_and_restart().await;
    assert_eq!(get(&host, "/api/failures").await["failures"], json!(list), "and it outlives the host");
}

#[tokio::test]
async fn the_command_line_tells_what_the_listener_does_beside_a_host_and_without_one() {
    let mut host = Setup::serving(&["puppet"]).start().await;
    ask(&host, "puppet", "trap").await;
    ask(&host, "puppet", "err \"no\\u001b[31m\"").await;
    let list = get(&host, "/api/failures").await;
    let ids: Vec<_> = list["failures"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    let card = get(&host, &format!("/api/failures/{}", ids[1])).await;
    let short: String = ids[1].chars().take(8).collect();
    for running in [true, false] {
        if !running {
            host.signal("TERM");
            assert!(host.ended().await.success());
        }
        let (code, out, err) = failures(host.dir(), &["--json"]).await;
        assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap(), err.as_str()), (Some(0), list.clone(), ""));
        let (code, out, _) = failures(host.dir(), &[&short, "--json", "--data", "data"]).await;
        assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap()), (Some(0), card.clone()));
        let (code, out, _) = failures(host.dir(), &[]).await;
        let lines: Vec<_> = out.lines().collect();
        assert_eq!((code, lines.len()), (Some(0), 2), "{out}");
        assert!(lines[0].contains("default/puppet  said") && !out.contains('\u{1b}'), "{out}");
        assert!(lines[1].contains(&format!("{short}  default/puppet  trap")), "{out}");
        let (_, out, _) = failures(host.dir(), &["--limit", "1", "--tenant", "default", "--agent", "puppet"]).await;
        assert_eq!(out.lines().count(), 1, "{out}");
        let (code, out, _) = failures(host.dir(), &[ids[1]]).await;
        assert!(code == Some(0) && out.contains(ids[1]) && out.contains("cause           trap"), "{out}");
        let (code, out, err) = failures(host.dir(), &["--tenant", "acme"]).await;
        assert_eq!((code, out.as_str(), err.trim()), (Some(0), "", "no turn has failed, as far as is kept in data"));
        let (code, out, err) = failures(host.dir(), &["nothing-like-it"]).await;
        assert!(code == Some(1) && out.is_empty() && err.contains("no failure `nothing-like-it` is kept"), "{err}");
    }
    assert!(host.dir().join("data/records.db").exists() && !host.dir().join("data/records.db-wal").exists());
}

#[tokio::test]
async fn the_command_line_says_where_it_looked_and_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hostelry.toml"), "data = \"elsewhere\"\n").unwrap();
    let (code, out, err) = failures(dir.path(), &[]).await;
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.starts_with("error: there is no elsewhere/records.db\nhint: "), "{err}");
    let (code, _, err) = failures(dir.path(), &["--data", "data", "--json"]).await;
    assert!(code == Some(1) && err.starts_with("error: there is no data/records.db\n"), "{err}");
    let (code, _, err) = failures(dir.path(), &["--config", "nowhere.toml"]).await;
    assert!(code == Some(2) && err.contains("nowhere.toml"), "{err}");
    let (code, _, _) = failures(dir.path(), &["--limit", "1001"]).await;
    assert_eq!(code, Some(2));
    assert_eq!(dir.path().read_dir().unwrap().count(), 1);
}
