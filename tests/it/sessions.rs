//! What the host remembers of a conversation: its messages, its facts and its workspace, for as long as it says, and for
//! nobody else.

use serde_json::json;

use crate::support::{
    guests,
    host::{Host, Setup},
    turn::{Answer, Ask},
};

mod facts;
mod files;

/// A puppet, whose words reach the client as they are, with these lines of configuration.
fn puppet(config: &str) -> Setup {
    Setup::serving(&["puppet"]).plugin("puppet.toml", b"markdown = \"keep\"").config(config)
}

/// Gives `orders` in conversation `id` of user `u1`, and waits until the host has written down what came of them.
async fn tell(host: &Host, id: &str, orders: &str) -> Answer {
    settled(host, Ask::agent(host, "puppet").conversation(id).user("u1").text(orders)).await
}

/// The answer to a turn that ends well, once the host has written it down.
async fn settled(host: &Host, ask: Ask) -> Answer {
    let before = host.log().matches("turn answered").count();
    let answer = ask.answer().await;
    host.logged_times("turn answered", before + 1).await;
    // The store answers in the order in which it was asked.
    assert_eq!(host.readyz().await["ready"], true);
    answer
}

#[tokio::test]
async fn a_conversation_is_remembered_oldest_first_as_it_was_said() {
    let host = puppet("").start().await;
    assert_eq!(tell(&host, "c", "history 10").await.text, "empty");
    tell(&host, "c", "chat one").await;
    tell(&host, "c", "chat two\nchat !").await;
    let all = "user:history 10|agent:empty|user:chat one|agent:one|user:chat two\nchat !|agent:two!";
    assert_eq!(tell(&host, "c", "history 10").await.text, all);
    assert_eq!(tell(&host, "c", "history 1").await.text, format!("agent:{all}"));
    assert_eq!(tell(&host, "c", "history 0").await.text, "empty");
}

#[tokio::test]
async fn thoughts_and_what_was_not_said_are_no_history() {
    let host = puppet("").start().await;
    tell(&host, "c", "think deep\nchat shown\nfollow-up [\"q\"]").await;
    tell(&host, "c", "closed").await;
    assert_eq!(
        tell(&host, "c", "history 10").await.text,
        "user:think deep\nchat shown\nfollow-up [\"q\"]|agent:shown|user:closed"
    );
}

#[tokio::test]
async fn a_turn_that_fails_is_remembered_with_what_it_said() {
    let host = puppet("").start().await;
    Ask::agent(&host, "puppet")
        .conversation("c")
        .user("u1")
        .text("chat half\ntrap")
        .answer()
        .await
        .assert_apology("half");
    host.logged("turn failed").await;
    assert_eq!(tell(&host, "c", "history 10").await.text, "user:chat half\ntrap|agent:half");
}

#[tokio::test]
async fn what_was_said_survives_a_stop() {
    let host = puppet("").start().await;
    tell(&host, "c", "chat one").await;
    let host = host.stop_and_restart().await;
    assert_eq!(tell(&host, "c", "history 10").await.text, "user:chat one|agent:one");
}

#[tokio::test]
async fn what_was_said_survives_a_power_cut() {
    let host = puppet("").start().await;
    for n in 0..5 {
        tell(&host, "c", &format!("chat {n}")).await;
    }
    // And one turn is in the middle of it.
    let mut running =
        Ask::agent(&host, "puppet").conversation("c").user("u1").text("chat cut\nsleep 600000").open().await;
    running.said("cut").await;
    // The store answers in the order in which it was asked.
    assert_eq!(host.readyz().await["ready"], true);
    let host = host.kill_and_restart().await;
    let history = tell(&host, "c", "history 100").await.text;
    let whole = "user:chat 0|agent:0|user:chat 1|agent:1|user:chat 2|agent:2|user:chat 3|agent:3|user:chat 4|agent:4";
    assert_eq!(
        history,
        format!("{whole}|user:chat cut\nsleep 600000"),
        "what the user said is there before the answer is"
    );
}

#[tokio::test]
async fn the_oldest_turns_go_first_when_there_are_too_many() {
    let host = puppet("sessions.turns = 2").start().await;
    for n in 0..4 {
        tell(&host, "c", &format!("chat {n}")).await;
    }
    let history = tell(&host, "c", "history 100").await.text;
    assert!(history.ends_with("user:chat 3|agent:3") && !history.contains("chat 1"), "{history}");
}

#[tokio::test]
async fn the_oldest_turns_go_first_when_they_are_too_long() {
    let host = puppet("sessions.bytes = \"2KiB\"").start().await;
    for n in 0..4 {
        tell(&host, "c", &format!("chat {n}{}", "x".repeat(400))).await;
    }
    let history = tell(&host, "c", "history 100").await.text;
    assert!(history.contains("chat 3x") && !history.contains("chat 0x"), "{history}");
    assert!(history.len() <= 2048 + 64, "{}", history.len());
}

#[tokio::test]
async fn an_idle_conversation_is_forgotten() {
    let host = puppet("sessions.idle = \"700ms\"").start().await;
    tell(&host, "c", "chat one").await;
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(tell(&host, "c", "history 10").await.text, "empty");
}

#[tokio::test]
async fn an_idle_conversation_is_forgotten_when_the_host_starts_again() {
    let host = puppet("sessions.idle = \"10h\"").start().await;
    tell(&host, "c", "chat one").await;
    let config = host.dir().join("hostelry.toml");
    std::fs::write(&config, "sessions.idle = \"1ms\"").unwrap();
    let host = host.stop_and_restart().await;
    assert_eq!(host.readyz().await["ready"], true);
    std::fs::write(&config, "sessions.idle = \"10h\"").unwrap();
    let host = host.stop_and_restart().await;
    assert_eq!(tell(&host, "c", "history 10").await.text, "empty");
}

#[tokio::test]
async fn no_other_user_conversation_agent_or_tenant_reaches_it() {
    let config = "[tenants.default]\n[tenants.acme]\n";
    let puppet = guests::bytes("puppet");
    let host = Setup::serving(&["puppet"])
        .plugin("other.wasm", &puppet)
        .plugin("acme/puppet.wasm", &puppet)
        .config(config)
        .start()
        .await;
    let own = || Ask::agent(&host, "puppet").conversation("c").user("u1");
    settled(&host, own().text("chat secret")).await;
    let strangers = [
        Ask::agent(&host, "puppet").conversation("c").user("u2"),
        Ask::agent(&host, "puppet").conversation("c"),
        Ask::agent(&host, "puppet").conversation("c").user("anon"),
        Ask::agent(&host, "puppet").conversation("C").user("u1"),
        // Parts that run together the same way.
        Ask::agent(&host, "puppet").conversation("1c").user("u"),
        Ask::agent(&host, "other").conversation("c").user("u1"),
        Ask::at(&host, "acme", "puppet").conversation("c").user("u1"),
    ];
    for (index, stranger) in strangers.into_iter().enumerate() {
        let said = settled(&host, stranger.text("history 100")).await.text;
        assert!(!said.contains("secret"), "stranger {index} reads {said:?}");
    }
    assert_eq!(settled(&host, own().text("history 100")).await.text, "user:chat secret|agent:secret");
}

#[tokio::test]
async fn ids_of_any_kind_are_one_session_each_and_reach_the_agent_as_they_are() {
    let host = puppet("").start().await;
    for id in ["../../etc", "a'; drop table sessions; --", "日本", "%00", &"x".repeat(200)] {
        tell(&host, id, "chat here").await;
        assert_eq!(tell(&host, id, "history 2").await.text, "user:chat here|agent:here", "{id}");
        assert_eq!(tell(&host, id, "session").await.text, id);
    }
    assert_eq!(tell(&host, "c", "user").await.text, "u1");
    assert_eq!(settled(&host, Ask::agent(&host, "puppet").text("user")).await.text, "none");
    let [one, two] = [tell(&host, "c", "turn").await.text, tell(&host, "c", "turn").await.text];
    assert!(one != two && one.len() == 16, "{one} {two}");
}

#[tokio::test]
async fn a_photo_comes_back_as_the_next_turn_of_its_conversation() {
    let host = puppet("").start().await;
    let own = || Ask::agent(&host, "puppet").conversation("1770625332").user("u1");
    let question = "chat let me see\ntool-quiet take_photo\nsleep 1500\nchat ,done";
    let mut first = own().text(question).metadata(json!({ "location": "Hangzhou" })).open().await;
    first.said("take_photo").await;
    // The image comes while the first stream is still open, with no text and no place.
    let url = "https://h.example/a.webp";
    let second = own().image(url).answer().await;
    assert_eq!(second.text, crate::support::turn::NOTHING);
    assert_eq!(first.rest().await.text, "let me see,done");
    host.logged_times("turn answered", 2).await;

    let asked = own().image(url).text("input\nchat ;\nfact location").answer().await;
    assert_eq!(asked.text, "2 image,text;Hangzhou");
    host.logged_times("turn answered", 3).await;
    let history = own().text("history 100").answer().await.text;
    assert!(history.contains(&format!("user:{question}")), "{history}");
    assert!(history.contains(&format!("user:image:{url}")), "{history}");
    assert!(history.contains("agent:let me see,done"), "{history}");
}
