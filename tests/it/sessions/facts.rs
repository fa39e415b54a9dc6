//! What a client says of itself and its surroundings: the turn's facts, which outlive their turn.

use serde_json::json;

use super::{puppet, settled};
use crate::support::{host::Host, turn::Ask};

fn own(host: &Host) -> Ask {
    Ask::agent(host, "puppet").conversation("c").user("u1")
}

#[tokio::test]
async fn facts_are_the_clients_metadata_in_kebab_case_flat_or_nested() {
    let host = puppet("").start().await;
    let flat = json!({
        "lang": "en", "location": "here", "company_id": 1, "latitude": "30.2877", "currentTime": "2026-02-09 下午4:22:15",
        "battery": 85, "runningApp": "", "nothing": null,
    });
    let nested = json!({ "context": { "location": "here", "battery": 85 }, "lang": "en" });
    let orders = "fact lang\nchat ,\nfact location\nchat ,\nfact battery\nchat ,\nfact company-id\nchat ,\nfact current-time\nchat ,\nfact nothing";
    let ask = |metadata| Ask::agent(&host, "puppet").text(orders).metadata(metadata).answer();
    assert_eq!(ask(flat).await.text, "en,here,85,1,2026-02-09 下午4:22:15,none");
    assert_eq!(ask(nested).await.text, "en,here,85,none,none,none");
}

#[tokio::test]
async fn the_keys_of_facts_are_sorted_and_hold_the_hosts_own() {
    let host = puppet("").start().await;
    assert_eq!(settled(&host, own(&host).text("facts")).await.text, "now");
    let asked = own(&host).text("facts").metadata(json!({ "weather": "w", "battery": "9", "lang": "en" }));
    assert_eq!(settled(&host, asked).await.text, "battery,lang,now,weather");
}

#[tokio::test]
async fn now_is_the_time_and_no_client_says_otherwise() {
    let host = puppet("").start().await;
    let asked = own(&host).text("fact now").metadata(json!({ "now": "yesterday" }));
    let said = settled(&host, asked).await.text;
    let shape: String = said.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00Z");
}

#[tokio::test]
async fn a_fact_that_is_left_out_is_the_last_one_known_also_after_a_power_cut() {
    let host = puppet("").start().await;
    settled(&host, own(&host).text("closed").metadata(json!({ "location": "here", "lang": "en" }))).await;
    settled(&host, own(&host).text("closed").metadata(json!({ "location": "there" }))).await;
    let orders = "fact location\nchat ,\nfact lang\nchat ,\nfacts";
    assert_eq!(settled(&host, own(&host).text(orders)).await.text, "there,en,lang,location,now");
    let host = host.kill_and_restart().await;
    assert_eq!(settled(&host, own(&host).text(orders)).await.text, "there,en,lang,location,now");
    let stranger = Ask::agent(&host, "puppet").conversation("c").user("u2").text("fact location");
    assert_eq!(settled(&host, stranger).await.text, "none");
}
