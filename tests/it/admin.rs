//! The admin listener: what it tells of turns, tenants and agents, and to whom.

mod access;
mod failures;
mod openapi;
mod usage;

use reqwest::StatusCode;
use serde_json::json;

use crate::support::{
    admin::{Question, get, metric, metrics},
    host::Setup,
    turn::{Ask, ask},
};

#[tokio::test]
async fn metrics_count_turns_in_the_form_that_prometheus_reads() {
    let host = Setup::serving(&["puppet"]).start().await;
    let turns =
        |outcome: &str| format!(r#"hostelry_turns_total{{tenant="default",protocol="lingzhu",outcome="{outcome}"}}"#);
    assert_eq!(metric(&host, &turns("answered")).await, 0);
    ask(&host, "puppet", "chat well").await;
    ask(&host, "puppet", "chat well").await;
    ask(&host, "puppet", "trap").await;
    assert_eq!((metric(&host, &turns("answered")).await, metric(&host, &turns("trap")).await), (2, 1));
    assert_eq!(metric(&host, r#"hostelry_turn_duration_seconds_count{protocol="lingzhu"}"#).await, 3);
    assert_eq!(metric(&host, r#"hostelry_turns_in_flight{tenant="default"}"#).await, 0);

    let mut running = Ask::agent(&host, "puppet").text("chat on\nsleep 60000").open().await;
    running.said("on").await;
    assert_eq!(metric(&host, r#"hostelry_turns_in_flight{tenant="default"}"#).await, 1);

    let told = Question::new(&host, "/metrics").ask().await;
    assert_eq!(told.content_type(), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let text = metrics(&host).await;
    assert!(text.ends_with("# EOF\n"), "{text}");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("hostelry_") && value.parse::<f64>().is_ok(), "{line}");
    }
}

#[tokio::test]
async fn a_tenant_is_told_with_what_it_may_use_and_what_it_has_used() {
    let digest = "0123456789abcdef".repeat(4);
    let config = format!(
        "[tenants.default]\ntools = [\"device/*\"]\nlimits.memory = \"32MiB\"\nturns-per-minute = 600\n\
         budget.day.turns = 100\nbudget.month.cpu-time = \"1h\"\n\
         [tenants.acme]\nkeys = [\"sha256:{digest}\", {{ hash = \"sha256:{}\", agent = \"echo\" }}]\n",
        "f".repeat(64)
    );
    let host = Setup::serving(&["puppet"]).config(&config).start().await;
    ask(&host, "puppet", "chat hello").await;
    ask(&host, "puppet", "trap").await;
    let tenant = get(&host, "/api/tenants/default").await;
    assert_eq!((&tenant["name"], &tenant["open"], &tenant["agents"]), (&json!("default"), &json!(true), &json!(1)));
    assert_eq!((&tenant["concurrent_turns"], &tenant["turns_per_minute"]), (&json!(64), &json!(600)));
    assert_eq!((&tenant["tools"], &tenant["limits"]["memory_bytes"]), (&json!(["device/*"]), &json!(32 << 20)));
    assert_eq!((&tenant["budget"]["day"]["turns"], &tenant["budget"]["day"]["cpu_ms"]), (&json!(100), &json!(null)));
    assert_eq!(tenant["budget"]["month"]["cpu_ms"], json!(3_600_000));
    for period in ["day", "month"] {
        let spent = &tenant["spent"][period];
        assert_eq!((&spent["turns"], &spent["events"], &spent["output_bytes"]), (&json!(2), &json!(1), &json!(5)));
    }
    assert_eq!(tenant["turns_running"], json!(0));

    let mut running = Ask::agent(&host, "puppet").text("chat on\nsleep 60000").open().await;
    running.said("on").await;
    let tenants = get(&host, "/api/tenants").await;
    let names: Vec<_> = tenants["tenants"].as_array().unwrap().iter().map(|tenant| tenant["name"].clone()).collect();
    assert_eq!(names, ["acme", "default"]);
    let [acme, default] = [0, 1].map(|n| &tenants["tenants"][n]);
    assert_eq!((&default["turns_running"], &default["spent"]["day"]["turns"]), (&json!(1), &json!(3)));
    assert_eq!(acme["open"], json!(false));
    assert_eq!(
        acme["keys"],
        json!([
            { "id": "01234567", "agent": null, "expires": null, "expired": false },
            { "id": "ffffffff", "agent": "echo", "expires": null, "expired": false },
        ])
    );
    assert_eq!(acme["spent"]["month"]["turns"], json!(0));
    let told = Question::new(&host, "/api/tenants/nobody").ask().await;
    assert_eq!(
        (told.status, told.error().as_str()),
        (StatusCode::NOT_FOUND, "there is no such tenant; /api/tenants lists them")
    );
}

#[tokio::test]
async fn an_agent_is_told_with_its_version_and_the_faults_of_its_file() {
    let host = Setup::serving(&["echo"]).plugin("broken.wasm", b"no component").start().await;
    let agents = get(&host, "/api/agents?tenant=default").await;
    let names: Vec<_> = agents["agents"].as_array().unwrap().iter().map(|agent| agent["agent"].clone()).collect();
    assert_eq!(names, ["broken", "echo"]);
    assert_eq!(get(&host, "/api/agents?tenant=acme").await["agents"], json!([]));
    let echo = get(&host, "/api/agents/default/echo").await;
    assert_eq!((&echo["version"], &echo["fault"]), (&agents["agents"][1]["version"], &json!(null)));
    assert!(echo["version"].as_str().is_some_and(|version| version.len() == 64), "{echo}");
    let versions = get(&host, "/api/agents/default/echo/versions").await;
    assert_eq!(versions["versions"].as_array().unwrap().len(), 1, "{versions}");
    assert_eq!(
        (&versions["versions"][0]["version"], &versions["versions"][0]["since"]),
        (&echo["version"], &echo["since"])
    );
    let broken = get(&host, "/api/agents/default/broken").await;
    assert_eq!((&broken["version"], &broken["since"]), (&json!(null), &json!(null)));
    assert!(broken["fault"].as_str().is_some_and(|fault| !fault.is_empty()), "{broken}");
    for nobody in ["/api/agents/default/nobody", "/api/agents/acme/echo/versions", "/api/agents/default/%ff"] {
        let told = Question::new(&host, nobody).ask().await;
        assert_eq!(told.status, StatusCode::NOT_FOUND, "{nobody}");
        assert_eq!(told.error(), "there is no such agent; /api/agents lists them");
    }
}

#[tokio::test]
async fn limits_are_listed_with_how_often_they_were_run_into() {
    let host = Setup::serving(&["puppet"]).config("limits.events = 2").start().await;
    let hits = async |name: &str| {
        let limits = get(&host, "/api/limits").await;
        let limits = limits["limits"].as_array().unwrap().clone();
        limits.iter().find(|limit| limit["name"] == name).unwrap_or_else(|| panic!("{name}"))["hits"].clone()
    };
    assert_eq!(hits("events").await, json!(0));
    ask(&host, "puppet", "chat a\nchat b\nchat c\nchat d").await;
    assert_eq!(hits("events").await, json!(1), "once a turn");
    assert_eq!(hits("memory").await, json!(0));
}
