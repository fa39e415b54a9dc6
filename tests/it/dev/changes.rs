//! A change while the chat goes on: another version in the same conversation, or a reason why not.

use hostelry::text;

use super::{Folder, guests, wat};

#[tokio::test]
async fn a_change_is_built_and_serves_the_same_conversation() {
    let folder = Folder::of("puppet");
    let mut dev = folder.dev(&[]);
    dev.said("live: version", 1).await;
    dev.types("chat first").await;
    dev.said(" in all ", 1).await;
    let other = folder.path("other.wasm");
    std::fs::write(&other, guests::version_of("puppet", 2)).unwrap();
    folder.copies(&other);
    dev.said("changed: src/build.sh", 1).await;
    dev.said("live: version", 2).await;
    dev.types("history 9").await;
    dev.said(" in all ", 2).await;
    assert_eq!(dev.answers(), "first\nuser:chat first|agent:first\n");
    let version = hostelry::runtime::compile::version(&guests::version_of("puppet", 2));
    dev.said(&format!("memory 1.1 MiB · version {}", text::head(&version, 12)), 1).await;
    dev.types("/new").await;
    dev.types("history 9").await;
    dev.said(" in all ", 3).await;
    assert!(dev.answers().ends_with("\nempty\n"));
    dev.types("/quit").await;
    assert!(dev.ended().await.success());
}

#[tokio::test]
async fn a_build_that_fails_says_so_and_the_version_before_goes_on() {
    let folder = Folder::of("one");
    let mut dev = folder.dev(&[]);
    dev.said("live: version", 1).await;
    folder.builds("echo something is missing >&2; exit 3");
    dev.said("✗ exit status: 3\nsomething is missing\n", 1).await;
    dev.said("the version before goes on", 1).await;
    dev.types("hi").await;
    dev.said(" in all ", 1).await;
    let module = folder.path("module.wasm");
    std::fs::write(&module, wat::parse("(module)")).unwrap();
    folder.copies(&module);
    dev.said("does not fit", 1).await;
    dev.said("the version before goes on", 2).await;
    dev.types("hi").await;
    dev.said(" in all ", 2).await;
    folder.copies(&guests::path("one"));
    dev.said("✓", 3).await;
    dev.said("live: version", 2).await;
    folder.copies(&guests::path("two"));
    dev.said("live: version", 3).await;
    dev.types("hi").await;
    dev.said(" in all ", 3).await;
    assert_eq!(dev.answers(), "one\none\ntwo\n");
    assert!(dev.ended().await.success());
}

#[tokio::test]
async fn what_the_agent_asks_for_and_how_it_is_built_are_watched_too() {
    let folder = Folder::of("puppet");
    let mut dev = folder.dev(&[]);
    dev.said("live: version", 1).await;
    folder.write("toy.toml", "tools = [\"workspace/ReadFile\"]\n");
    dev.said("live: version", 2).await;
    dev.types("tools").await;
    dev.said(" in all ", 1).await;
    assert_eq!(dev.answers(), "ReadFile\n");
    let agent = |build: &str| format!("name = \"toy\"\nbuild = \"{build}\"\ncomponent = \"out/toy.wasm\"\n");
    folder.write("agent.toml", &agent(""));
    dev.said("agent.toml:2: build: is empty", 1).await;
    dev.said("what it said before goes on", 1).await;
    folder.write("agent.toml", &agent("echo another && exit 7"));
    dev.said("✗ exit status: 7\nanother", 1).await;
    folder.write("agent.toml", &agent("true").replace("toy\"\nbuild", "boy\"\nbuild"));
    dev.said("the agent is called boy now", 1).await;
    assert!(dev.ended().await.success());
}

#[tokio::test]
async fn a_build_that_changes_its_own_sources_comes_to_rest() {
    let folder = Folder::of("one");
    folder.builds(&format!("date +%N >> src/made; mkdir -p out; cp '{}' out/toy.wasm", guests::path("one").display()));
    let mut dev = folder.dev(&[]);
    dev.said("the build itself changes src/made, which is not built again for that", 1).await;
    dev.types("hi").await;
    dev.said(" in all ", 1).await;
    assert_eq!(dev.answers(), "one\n");
    folder.copies(&guests::path("two"));
    dev.said("changed: src/build.sh", 1).await;
    dev.said("live: version", 2).await;
    assert!(dev.ended().await.success());
}

#[tokio::test]
async fn other_clients_turns_are_shown_as_theirs() {
    let folder = Folder::of("one");
    let mut dev = folder.dev(&["--protocol", "lingzhu"]);
    dev.said("live: version", 1).await;
    let said = dev.err.borrow().clone();
    let url = said.split(" at ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let body = serde_json::json!({
        "message_id": "glasses", "agent_id": "toy", "message": [{ "role": "user", "type": "text", "text": "hi" }]
    });
    let answer = reqwest::Client::new().post(format!("{url}lingzhu")).json(&body).send().await.unwrap();
    assert!(answer.text().await.unwrap().contains("one"));
    dev.said("another client's turn, in its conversation glasses", 1).await;
    dev.said(" in all ", 1).await;
    dev.types("hi").await;
    dev.said(" in all ", 2).await;
    assert!(dev.ended().await.success());
}
