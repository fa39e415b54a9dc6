//! Tools over the wire: which a turn has, what a call shows the client, and what a wrong call tells the agent.

use serde_json::{Value, json};

use crate::support::{
    guests,
    host::{Host, Setup},
    turn::{Answer, ask},
};

const DEVICE: &str = "control_calendar,notify_agent_off,take_navigation,take_photo";
const WORKSPACE: &str = "DeleteFile,ListFiles,ReadFile,WriteFile";

/// A puppet, whose words reach the client as they are, with these lines of configuration.
fn puppet(config: &str) -> Setup {
    Setup::serving(&["puppet"]).plugin("puppet.toml", b"markdown = \"keep\"").config(config)
}

/// The tools of a turn, sorted.
async fn tools(host: &Host, agent: &str) -> String {
    let mut names: Vec<_> = ask(host, agent, "tools").await.text.split(',').map(str::to_owned).collect();
    names.sort();
    names.join(",")
}

/// Checks that a call shows nothing to the device and tells the agent `said`.
#[track_caller]
fn assert_refused(answer: &Answer, said: &str) {
    assert!(answer.text.starts_with(said), "{said:?} is not what {:?} begins with", answer.text);
    assert_eq!(answer.device(), Vec::<&Value>::new(), "{}", answer.bytes);
}

#[tokio::test]
async fn a_device_command_is_a_frame_of_its_fields_in_order_and_the_agent_goes_on() {
    let host = puppet("").start().await;
    for (orders, command) in [
        ("tool take_photo", r#"{"command":"take_photo"}"#),
        ("tool take_photo {}", r#"{"command":"take_photo"}"#),
        ("tool notify_agent_off", r#"{"command":"notify_agent_off"}"#),
        (
            r#"tool take_navigation {"navi_type":1,"poi_name":"站","action":"open"}"#,
            r#"{"command":"take_navigation","action":"open","poi_name":"站","navi_type":"1"}"#,
        ),
        (r#"tool take_navigation {"action":"close"}"#, r#"{"command":"take_navigation","action":"close"}"#),
        (
            r#"tool control_calendar {"end_time":"2026-03-02 10:30","title":"T","start_time":"2026-03-02 10:00"}"#,
            r#"{"command":"control_calendar","action":"create","title":"T","start_time":"2026-03-02 10:00","end_time":"2026-03-02 10:30"}"#,
        ),
    ] {
        let answer = ask(&host, "puppet", orders).await;
        let frame =
            format!("\ndata: {{\"role\":\"agent\",\"type\":\"tool_call\",\"tool_call\":{command},\"message_id\":");
        assert_eq!(answer.bytes.matches(&frame).count(), 1, "{orders}: {}", answer.bytes);
        assert_eq!(answer.device().len(), 1, "{}", answer.bytes);
        assert_eq!(answer.text, r#"ok:{"status":"sent"}"#);
    }
}

#[tokio::test]
async fn a_wrong_argument_of_a_device_command_is_named_to_the_agent_and_shown_to_nobody() {
    let host = puppet("").start().await;
    for (orders, said) in [
        ("tool take_navigation", "invalid-args:poi_name: "),
        (r#"tool take_navigation {"action":"fly","poi_name":"P"}"#, "invalid-args:action: "),
        (r#"tool take_navigation {"poi_name":7}"#, "invalid-args:poi_name: "),
        (r#"tool take_navigation {"poi_name":"P","navi_type":9}"#, "invalid-args:navi_type: "),
        (r#"tool take_navigation {"poi_name":"P","by":"car"}"#, "invalid-args:by: "),
        (r#"tool control_calendar {"title":"T"}"#, "invalid-args:start_time: "),
        (r#"tool control_calendar {"title":"T","start_time":"tomorrow"}"#, "invalid-args:start_time: "),
        (
            r#"tool control_calendar {"title":"T","start_time":"2026-03-02 10:00","end_time":"2026-03-02 09:00"}"#,
            "invalid-args:end_time: ",
        ),
        ("tool take_photo {", "invalid-args:args: not JSON"),
        ("tool take_photo [1]", "invalid-args:args: "),
        (r#"tool take_photo {"quality":"best"}"#, "invalid-args:quality: "),
    ] {
        assert_refused(&ask(&host, "puppet", orders).await, said);
    }
}

#[tokio::test]
async fn a_command_that_no_glasses_have_is_unknown_and_shown_to_nobody() {
    let host = puppet("").plugin("toast.wasm", &guests::bytes("toast")).start().await;
    assert_refused(&ask(&host, "toast", "x").await, "unknown");
    let strange = "tool send_toast {\"text\":\"hi\"}\nchat ;\ntool ../take_photo\nchat ;\ntool TAKE_PHOTO";
    assert_refused(&ask(&host, "puppet", strange).await, "unknown:there is no tool `send_toast` in this turn;unknown:");
}

#[tokio::test]
async fn every_tool_shows_a_schema_that_a_model_can_be_given() {
    let host = puppet("[tenants.default]\ntools = [\"*\"]").start().await;
    let names = tools(&host, "puppet").await;
    assert_eq!(names.split(',').count(), 9, "{names}");
    for name in names.split(',') {
        let schema: Value = serde_json::from_str(&ask(&host, "puppet", &format!("schema {name}")).await.text).unwrap();
        assert_eq!(schema["type"], "object", "{name}: {schema}");
    }
}

#[tokio::test]
async fn without_a_file_there_are_the_tools_that_reach_no_network() {
    let host = puppet("").start().await;
    assert_eq!(tools(&host, "puppet").await, format!("{WORKSPACE},{DEVICE}"));
}

#[tokio::test]
async fn a_tenant_that_is_granted_nothing_has_no_tools_and_learns_what_would_grant_them() {
    let host = puppet("[tenants.default]\ntools = []").start().await;
    assert_eq!(tools(&host, "puppet").await, crate::support::turn::NOTHING, "an empty list is said as nothing");
    for (order, grant) in [
        ("tool take_photo", "\"device/take_photo\" or \"device/*\""),
        ("tool WriteFile {\"filePath\":\"a\"}", "\"workspace/WriteFile\" or \"workspace/*\""),
        ("tool fetch_image {\"url\":\"http://127.0.0.1/\"}", "\"http/fetch_image\" or \"http/*\""),
    ] {
        let answer = ask(&host, "puppet", order).await;
        assert_refused(&answer, "denied:");
        assert!(answer.text.contains(grant) && answer.text.contains("hostelry.toml"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_grant_holds_for_what_it_names_only() {
    let host = puppet("[tenants.default]\ntools = [\"workspace/Read*\", \"device/take_photo\"]").start().await;
    assert_eq!(tools(&host, "puppet").await, "ReadFile,take_photo");
    assert_refused(&ask(&host, "puppet", "tool notify_agent_off").await, "denied:");
    assert_eq!(ask(&host, "puppet", "tool take_photo").await.device(), [&json!({ "command": "take_photo" })]);
}

#[tokio::test]
async fn the_file_beside_a_component_narrows_what_its_tenant_may_and_never_widens_it() {
    let narrow = b"markdown = \"keep\"\ntools = [\"workspace/*\", \"http/*\"]";
    let setup = puppet("[tenants.default]\ntools = [\"device/*\", \"workspace/ReadFile\"]");
    let host = setup.plugin("narrow.wasm", &guests::bytes("puppet")).plugin("narrow.toml", narrow).start().await;
    assert_eq!(tools(&host, "puppet").await, format!("ReadFile,{DEVICE}"));
    assert_eq!(tools(&host, "narrow").await, "ReadFile");
    assert_refused(&ask(&host, "narrow", "tool take_photo").await, "denied:");
    assert_refused(&ask(&host, "narrow", "tool WriteFile {\"filePath\":\"a\"}").await, "denied:");
    assert_refused(&ask(&host, "narrow", "tool fetch_image {\"url\":\"http://127.0.0.1/\"}").await, "denied:");
}

#[tokio::test]
async fn one_tenants_grants_are_no_other_tenants() {
    let config = "[tenants.default]\ntools = [\"*\"]\n[tenants.acme]\n";
    let host = puppet(config).plugin("acme/puppet.wasm", &guests::bytes("puppet")).start().await;
    let own = crate::support::turn::Ask::at(&host, "acme", "puppet").text("tool take_photo").answer().await;
    assert_refused(&own, "denied:");
    assert_eq!(ask(&host, "puppet", "tool take_photo").await.device().len(), 1);
}

#[tokio::test]
async fn images_are_fetched_from_nowhere_that_is_not_granted() {
    let host = puppet("[tenants.default]\ntools = [\"http/*\"]\nhttp = [\"images.example\"]").start().await;
    for url in [
        "file:///etc/passwd",
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://0.0.0.0/",
        "http://localhost/",
        "http://LOCALHOST./",
        "http://user:secret@images.example/",
        "http://images.example.evil.example/",
        "http://images.example@evil.example/",
        "gopher://images.example/",
        "nonsense",
    ] {
        let answer = ask(&host, "puppet", &format!("tool fetch_image {{\"url\":\"{url}\"}}\nchat ;on")).await;
        let refused = answer.text.starts_with("denied:") || answer.text.starts_with("invalid-args:url");
        assert!(refused && answer.text.ends_with(";on"), "{url}: {}", answer.text);
    }
}
