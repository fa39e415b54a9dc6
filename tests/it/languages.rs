//! Agents of every language: the journal, built from source, and a new agent of every template, each served and talked to
//! over both protocols. `make test-languages` builds the journals and runs this.

#![expect(unreachable_pub, reason = "one binary of many modules: what they share is public within it")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends where what it needs is not there")]

use std::{
    path::{Path, PathBuf},
    process::Output,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::timeout;

use support::{
    host::{Host, Setup},
    turn::Ask,
};

#[expect(dead_code, reason = "the other tests use the rest")]
mod support;

/// How long building a new agent may take: it fetches what it needs.
const BUILD_TIME: Duration = Duration::from_mins(15);

/// How long a component may take to be compiled that is a whole language runtime.
const COMPILE_TIME: Duration = Duration::from_mins(10);

/// The folder of the journals.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-examples");

/// The journal's component.
fn journal(language: &str) -> Vec<u8> {
    let path = match language {
        "rust" => PathBuf::from(EXAMPLES).join("target/wasm32-wasip2/release/journal.wasm"),
        other => PathBuf::from(EXAMPLES).join(other).join("build/journal.wasm"),
    };
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `make test-languages`", path.display()))
}

/// Waits until so many versions of an agent have become live, however long that takes.
async fn live(host: &Host, agent: &str, versions: usize) {
    host.logged_within(&format!("agent live agent={agent} "), versions, COMPILE_TIME).await;
}

/// What one turn showed, over Mythra.
#[derive(Debug, Default, PartialEq)]
struct Shown {
    think: String,
    chat: Vec<String>,
    /// The tools that were called, with their arguments.
    tools: Vec<(String, Value)>,
    fault: Option<String>,
}

/// Says these one after another in one session, over Mythra, and gives what each turn showed.
async fn over_mythra(host: &Host, agent: &str, said: &[&str]) -> Vec<Shown> {
    let mut command = Host::program(host.dir());
    command.args(["chat", agent, "--url", &host.http(""), "--json"]);
    let output = timeout(BUILD_TIME, command.args(said.iter().flat_map(|text| ["-m", text])).output()).await;
    let Output { stdout, stderr, .. } = output.unwrap().unwrap();
    let mut turns = Vec::new();
    let mut shown = Shown::default();
    for line in String::from_utf8(stdout).unwrap().lines() {
        let frame: Value = serde_json::from_str(line).unwrap();
        let text = || frame["content"].as_str().unwrap_or_default().to_owned();
        match (frame["type"].as_str().unwrap(), frame["event"].as_str().unwrap_or_default()) {
            ("think-output", "delta") => shown.think += &text(),
            ("chat-output", "delta") => shown.chat.push(text()),
            ("tool-call", "start") => {
                shown.tools.push((frame["func"].as_str().unwrap().to_owned(), frame["args"].clone()));
            }
            ("response-state", "end") => turns.push(std::mem::take(&mut shown)),
            (kind, _) if kind.contains("error") => shown.fault = Some(line.to_owned()),
            _ => {}
        }
    }
    assert_eq!(turns.len(), said.len(), "{}", String::from_utf8_lossy(&stderr));
    turns
}

/// What a journal of this language does, over both protocols.
async fn keeps_a_journal(language: &str) {
    let component = journal(language);
    let host = Setup::default()
        .plugin("journal.wasm", &component)
        .plugin("bare/journal.wasm", &component)
        .config("[tenants.default]\ntools = [\"workspace/*\"]\n[tenants.bare]\n")
        .start()
        .await;
    live(&host, "default/journal", 1).await;
    live(&host, "bare/journal", 1).await;
    let long = (0..3000).map(|n| format!("词{n:04}")).collect::<Vec<_>>().join(" ");
    // The path of the first turn's failed read, and of the next ones', is the same.
    let read = |_: &str| ("ReadFile".to_owned(), json!({ "filePath": "journal.md" }));
    let write = |content: &str| ("WriteFile".to_owned(), json!({ "filePath": "journal.md", "content": content }));
    let said = ["read", " buy  milk ", "喝\"茶\"\\", "read", "before", "fail", &long, "read"];
    let turns = over_mythra(&host, "journal", &said).await;
    let thinks: Vec<_> = turns.iter().map(|turn| turn.think.as_str()).collect();
    let entries: Vec<_> = (1..=8).map(|n| format!("Entry {n}.")).collect();
    assert_eq!(thinks, entries, "{language}");
    let chats: Vec<String> = turns.iter().map(|turn| turn.chat.concat()).collect();
    assert_eq!(
        chats[..5],
        [
            "The journal is empty.",
            "Kept: buy milk.",
            "Kept: 喝\"茶\"\\.",
            "1. buy  milk\n2. 喝\"茶\"\\\n",
            "Before this you said: read;  buy  milk ; 喝\"茶\"\\; read",
        ]
    );
    assert_eq!(turns[1].chat, ["Kept:", " buy", " milk", "."], "{language} says it piece by piece");
    assert_eq!(turns[3].chat.len(), 2, "{language}: {:?}", turns[3].chat);
    assert_eq!(turns[0].tools, [read("")]);
    assert_eq!(turns[2].tools, [read(""), write("buy  milk\n喝\"茶\"\\\n")]);
    assert!(turns[5].fault.as_ref().is_some_and(|fault| fault.contains("You asked me to fail.")), "{:?}", turns[5]);
    assert_eq!(chats[5], "");
    assert_eq!((turns[6].chat.len(), &chats[6]), (3002, &format!("Kept: {long}.")), "{language}");
    assert_eq!(chats[7], format!("1. buy  milk\n2. 喝\"茶\"\\\n3. {long}\n"));

    let ask = |tenant: &str| Ask::at(&host, tenant, "journal").conversation(language);
    assert_eq!(ask("default").text("read").answer().await.text, "The journal is empty.", "another session's");
    let kept = ask("default").text("tea").answer().await;
    assert_eq!(kept.text, "Kept: tea.");
    let follow_up = kept.frames.iter().find(|frame| frame["type"] == "follow_up").unwrap_or_else(|| panic!("{kept:?}"));
    assert_eq!(follow_up["follow_up"], json!(["read", "before"]));
    assert_eq!(ask("default").text("before").answer().await.text, "Before this you said: read; tea");
    assert_eq!(ask("default").image("https://h.example/a.png").answer().await.text, "I keep words only.");
    assert_eq!(ask("default").text("fail").answer().await.text, "You asked me to fail.");
    let denied = ask("bare").text("read").answer().await.text;
    assert!(denied.starts_with("I cannot read the journal: ReadFile is not granted"), "{language}: {denied}");
    let denied = ask("bare").text("tea").answer().await.text;
    assert!(denied.starts_with("I cannot keep that: "), "{language}: {denied}");
}

/// Tells a shell something in a folder.
async fn shell(folder: &Path, told: &str) {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_hostelry"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = tokio::process::Command::new("sh");
    // What cargo says to those that it runs is not for the cargo that is run here.
    let own = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("CARGO_"));
    own.fold(&mut command, |command, name| command.env_remove(name));
    command.args(["-c", told]).current_dir(folder).env("PATH", path).kill_on_drop(true);
    let Output { status, stdout, stderr } = timeout(BUILD_TIME, command.output()).await.unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "`{told}` in {}: {}{}", folder.display(), text(&stdout), text(&stderr));
}

/// What comes of `hostelry new` in this language passes its own test, builds, fits, and answers; and so does the agent that
/// the language's page shows.
async fn comes_to_life(language: &str, source: &str, mark: &str, own_test: &str) {
    let parent = TempDir::new().unwrap();
    shell(parent.path(), &format!("hostelry new 7-wonders --lang {language}")).await;
    let folder = parent.path().join("7-wonders");
    // The compilers that the journal of the same language was built with are there already.
    for tools in [".tools", ".venv"] {
        let there = Path::new(EXAMPLES).join(language).join(tools);
        if there.exists() {
            std::os::unix::fs::symlink(there.canonicalize().unwrap(), folder.join(tools)).unwrap();
        }
    }
    let toml: toml::Table = std::fs::read_to_string(folder.join("agent.toml")).unwrap().parse().unwrap();
    shell(&folder, toml["build"].as_str().unwrap()).await;
    shell(&folder, own_test).await;
    let component = folder.join(toml["component"].as_str().unwrap());
    let check = Host::program(&folder).args(["check", "--json"]).arg(&component).output().await.unwrap();
    let found: Value = serde_json::from_slice(&check.stdout).unwrap();
    assert_eq!((&found["fits"], &found["trial"]["outcome"]), (&json!(true), &json!("answered")), "{found}");

    let host = Setup::default().plugin("7-wonders.wasm", &std::fs::read(&component).unwrap()).start().await;
    live(&host, "default/7-wonders", 1).await;
    let turns = over_mythra(&host, "7-wonders", &["one", "two"]).await;
    let chats: Vec<String> = turns.iter().map(|turn| turn.chat.concat()).collect();
    assert_eq!(chats, ["Hello! You said: one", "Hello again! You said: two"]);
    assert_eq!(Ask::agent(&host, "7-wonders").text("one").answer().await.text, "Hello! You said: one");
    let image = Ask::agent(&host, "7-wonders").image("https://h.example/a.png").answer().await;
    assert_eq!(image.text, "Hello! That was no text.");

    // What the language's page shows takes the place of the template's agent, while the host serves.
    std::fs::write(folder.join(source), page_s_agent(language, mark)).unwrap();
    let manifest = folder.join("Cargo.toml");
    if manifest.exists() {
        let old = std::fs::read_to_string(&manifest).unwrap();
        let serde = "[dependencies]\nserde = { version = \"1\", features = [\"derive\"] }\n";
        std::fs::write(&manifest, old.replacen("[dependencies]\n", serde, 1)).unwrap();
    }
    shell(&folder, toml["build"].as_str().unwrap()).await;
    std::fs::copy(&component, host.plugin("7-wonders.wasm")).unwrap();
    live(&host, "default/7-wonders", 2).await;
    let turns = over_mythra(&host, "7-wonders", &["one"]).await;
    assert_eq!(turns[0].think, "Let me see.");
    assert!(turns[0].chat.concat().starts_with("No notes"), "{language}: {:?}", turns[0]);
    let image = Ask::agent(&host, "7-wonders").image("https://h.example/a.png").answer().await;
    assert_eq!(image.text, "I only read words.");
}

/// The agent that a language's page shows, which is the first of its blocks in that language.
fn page_s_agent(language: &str, mark: &str) -> String {
    let page = Path::new(EXAMPLES).join(format!("../docs/writing-an-agent/{language}.md"));
    let text = std::fs::read_to_string(page).unwrap();
    let (_, block) = text.split_once(&format!("\n```{mark}\n")).unwrap();
    block.split_once("\n```").unwrap().0.to_owned()
}

/// The tests of one language.
macro_rules! language {
    ($name:ident, $source:literal, $mark:literal, $test:literal) => {
        mod $name {
            #[tokio::test]
            async fn keeps_a_journal() {
                super::keeps_a_journal(stringify!($name)).await;
            }

            #[tokio::test]
            async fn a_new_agent_comes_to_life() {
                super::comes_to_life(stringify!($name), $source, $mark, $test).await;
            }
        }
    };
}

language!(rust, "src/lib.rs", "rust", "cargo test");
language!(python, "agent.py", "python", "python3 -m unittest");
language!(typescript, "src/agent.ts", "ts", "npm test");
language!(go, "agent.go", "go", "make test");
language!(c, "agent.c", "c", "make test");
language!(zig, "agent.zig", "zig", "make test");
