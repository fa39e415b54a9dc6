//! Usage: exact to the turn, whatever became of the host in between.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::support::{
    admin::{Question, get},
    host::{Host, Setup},
    turn::ask,
};

/// The one row that there must be, without its day and its CPU time.
async fn row(host: &Host) -> Value {
    let usage = get(host, "/api/usage").await;
    let rows = usage["usage"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{usage}");
    let mut row = rows[0].clone();
    let row = row.as_object_mut().unwrap();
    let day = row.remove("day").unwrap();
    assert!(day.as_str().unwrap().parse::<jiff::civil::Date>().is_ok(), "{day}");
    let [ms, us] = ["cpu_ms", "cpu_us"].map(|key| row.remove(key).unwrap().as_u64().unwrap());
    assert!(us > 0 && us / 1000 == ms, "{us} {ms}");
    assert!(row.remove("memory_bytes").unwrap().as_u64().unwrap() >= 64 * 1024);
    Value::Object(row.clone())
}

fn expected(turns: u64, failed: &Value, events: u64, output: u64) -> Value {
    let sum: u64 = failed.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    json!({
        "tenant": "default", "agent": "puppet", "turns": turns, "failed": sum, "failed_by_cause": failed,
        "events": events, "output_bytes": output, "tool_calls": 0,
    })
}

#[tokio::test]
async fn usage_is_exact_and_stays_so_when_the_host_stops_or_is_killed() {
    let host = Setup::serving(&["puppet"]).start().await;
    for _ in 0..3 {
        ask(&host, "puppet", "chat four").await;
    }
    ask(&host, "puppet", "chat four\ntrap").await;
    ask(&host, "puppet", "err no").await;
    let failed = json!({ "said": 1, "trap": 1 });
    assert_eq!(row(&host).await, expected(5, &failed, 4, 16));
    let cpu = get(&host, "/api/usage").await["usage"][0]["cpu_us"].clone();

    let host = host.stop_and_restart().await;
    assert_eq!(row(&host).await, expected(5, &failed, 4, 16));
    assert_eq!(get(&host, "/api/usage").await["usage"][0]["cpu_us"], cpu);
    ask(&host, "puppet", "chat four").await;
    assert_eq!(row(&host).await, expected(6, &failed, 5, 20));

    let host = host.kill_and_restart().await;
    assert_eq!(row(&host).await, expected(6, &failed, 5, 20));
    ask(&host, "puppet", "trap").await;
    assert_eq!(row(&host).await, expected(7, &json!({ "said": 1, "trap": 2 }), 5, 20));
    assert_eq!(get(&host, "/api/tenants/default").await["spent"]["month"]["turns"], json!(7));
}

#[tokio::test]
async fn usage_is_told_as_csv_where_that_is_asked_for() {
    let host = Setup::serving(&["puppet"]).start().await;
    ask(&host, "puppet", "chat four").await;
    ask(&host, "puppet", "trap").await;
    let usage = get(&host, "/api/usage").await["usage"][0].clone();
    let cells = |keys: &[&str]| keys.iter().map(|key| usage[*key].to_string()).collect::<Vec<_>>().join(",");
    let expected = format!(
        "day,tenant,agent,turns,failed,failed_said,failed_trap,failed_exit,failed_start,failed_limit,failed_panic,\
         failed_shutdown,cpu_ms,cpu_us,memory_bytes,events,output_bytes,tool_calls\n\
         {},default,puppet,2,1,0,1,0,0,0,0,0,{}\n",
        usage["day"].as_str().unwrap(),
        cells(&["cpu_ms", "cpu_us", "memory_bytes", "events", "output_bytes", "tool_calls"])
    );
    let by_query = Question::new(&host, "/api/usage?format=csv").ask().await;
    let by_header = Question::new(&host, "/api/usage").header("accept", "text/csv").ask().await;
    for told in [by_query, by_header] {
        assert_eq!((told.status, told.text.as_str()), (StatusCode::OK, expected.as_str()));
        assert_eq!(told.content_type(), "text/csv; charset=utf-8; header=present");
    }
    let json = Question::new(&host, "/api/usage?format=json").header("accept", "text/csv").ask().await;
    assert_eq!(json.json()["usage"][0], usage, "the query goes before the header");
}

#[tokio::test]
async fn usage_is_told_for_some_days_or_somebody() {
    let host = Setup::serving(&["puppet"]).start().await;
    ask(&host, "puppet", "chat four").await;
    let day = get(&host, "/api/usage").await["usage"][0]["day"].as_str().unwrap().to_owned();
    for (query, rows) in [
        ("tenant=default", 1),
        ("tenant=acme", 0),
        ("agent=puppet&tenant=default", 1),
        ("agent=echo", 0),
        (&format!("from={day}&to={day}"), 1),
        ("to=2020-01-01", 0),
        ("from=2200-01-01", 0),
    ] {
        let usage = get(&host, &format!("/api/usage?{query}")).await;
        assert_eq!(usage["usage"].as_array().unwrap().len(), rows, "{query}");
    }
}

#[tokio::test]
async fn what_cannot_be_understood_is_refused_by_its_name() {
    let host = Setup::serving(&["echo"]).start().await;
    for (path, named) in [
        ("/api/usage?since=2026-12-01", "since"),
        ("/api/usage?from=yesterday", "from: no day"),
        ("/api/usage?to=2026-02-30", "to: no day"),
        ("/api/usage?from=2026-12-02&to=2026-12-01", "from: after"),
        ("/api/usage?format=xml", "format"),
        ("/api/usage?tenant=A/B", "tenant: no name"),
        ("/api/usage?tenant=a&tenant=b", "tenant"),
        ("/api/usage?agent=", "agent: no name"),
        ("/api/failures?limit=0", "limit: not a number from 1 to 1000"),
        ("/api/failures?limit=1001", "limit: not a number from 1 to 1000"),
        ("/api/failures?limit=many", "limit"),
        ("/api/failures?from=2026-12-01", "from"),
        ("/api/failures/abcdefgh?x=1", "x"),
        ("/api/agents?agent=echo", "agent"),
        ("/api/agents/default/echo?x=1", "x"),
        ("/api/agents/default/echo/versions?x=1", "x"),
        ("/api/tenants?x=%1b", "x"),
        ("/api/tenants/default?x=1", "x"),
        ("/api/limits?x=1", "x"),
        ("/api/openapi.json?x=1", "x"),
    ] {
        let told = Question::new(&host, path).ask().await;
        assert_eq!(told.status, StatusCode::BAD_REQUEST, "{path}: {told:?}");
        assert!(told.error().contains(named), "{path}: {told:?}");
    }
    let long = Question::new(&host, &format!("/api/usage?{}=1", "x".repeat(5000))).ask().await;
    assert!(long.error().len() <= 256, "{long:?}");
}
