//! Released versions of the contract are served for good: the component that was built against each when it was released
//! goes on working to the letter, and what its text says stays said.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::support::{
    host::Setup,
    turn::{Answer, Ask},
};

/// The released versions.
const VERSIONS: [&str; 1] = ["0.1.0"];

fn folder(version: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/contract")).join(version)
}

/// The item of a text that begins at a line: that line, or the block that it opens, without comments.
fn items(wit: &str) -> Vec<String> {
    let lines =
        wit.lines().map(|line| line.split("//").next().unwrap_or_default().trim()).filter(|line| !line.is_empty());
    let mut items = Vec::new();
    let mut open: Option<String> = None;
    for line in lines.filter(|line| !line.starts_with("package ") && !line.starts_with("interface ")) {
        let item = open.take().map_or_else(|| line.to_owned(), |item| format!("{item} {line}"));
        let depth = item.matches('{').count().saturating_sub(item.matches('}').count());
        if depth > 0 {
            open = Some(item);
        } else if item != "}" {
            items.push(item);
        }
    }
    items
}

#[test]
fn what_a_released_contract_says_stays_said() {
    for version in VERSIONS {
        for entry in std::fs::read_dir(folder(version).join("wit")).unwrap() {
            let released = entry.unwrap().path();
            let now = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit")).join(released.file_name().unwrap());
            let now = items(&std::fs::read_to_string(now).unwrap());
            let released = items(&std::fs::read_to_string(released).unwrap());
            assert!(!released.is_empty());
            for item in released {
                let is_use = item.starts_with("use ");
                assert!(is_use || now.contains(&item), "{version} had `{item}`, and wit/ has another or none");
            }
        }
    }
}

#[tokio::test]
async fn a_component_of_each_released_contract_is_served_to_the_letter() {
    for version in VERSIONS {
        let component = std::fs::read(folder(version).join("puppet.wasm")).unwrap();
        let host = Setup::default()
            .plugin("puppet.wasm", &component)
            .plugin("puppet.toml", b"markdown = \"keep\"")
            .config("[tenants.default]\ntools = [\"workspace/*\"]\n")
            .start()
            .await;
        let told = async |orders: &str| -> Answer {
            let ask = Ask::agent(&host, "puppet")
                .conversation("c")
                .user("u")
                .metadata(json!({ "context": { "lang": "en" } }));
            ask.text(orders).answer().await
        };
        let shown = "think t\niteration-start i\nmodel-start\nmodel-end\nrun-start r {}\nrun-end r {}\niteration-end i\n\
            chat-start\nchat one\nchat-end\ncustom c 1\nfollow-up [\"next\"]";
        let answer = told(shown).await;
        assert_eq!(answer.text, "one", "{version}: {}", answer.bytes);
        assert!(answer.bytes.contains("\"follow_up\":[\"next\"]"), "{version}: {}", answer.bytes);
        for (orders, says) in [
            ("tools", "WriteFile,ReadFile,ListFiles,DeleteFile"),
            ("tool WriteFile {\"filePath\":\"a\",\"content\":\"b\"}", "ok:{\"status\":\"written\",\"bytes\":1}"),
            ("tool ReadFile {\"filePath\":\"a\"}", "ok:{\"content\":\"b\"}"),
            ("tool nothing", "unknown:there is no tool `nothing` in this turn"),
            ("session", "c"),
            ("user", "u"),
            ("input", "1 text"),
            ("history 1", "agent:1 text"),
            ("fact nothing", "none"),
            ("err sorry", "sorry"),
        ] {
            let answer = told(orders).await;
            assert_eq!(answer.text, says, "{version}: {orders}");
        }
        let schema = told("schema ReadFile").await.text;
        assert!(schema.contains("filePath"), "{version}: {schema}");
        let denied = told("tool fetch_image {\"url\":\"https://h.example\"}").await.text;
        assert!(denied.starts_with("denied:fetch_image is not granted"), "{version}: {denied}");
        let wrong = told("tool ReadFile").await.text;
        assert!(wrong.starts_with("invalid-args:"), "{version}: {wrong}");
        assert!(told("facts").await.text.contains("now"), "{version}");
        let refused = told(&format!("iteration-start {}\nfault f\nrefused", "x".repeat(300))).await.text;
        assert!(refused.contains("label: longer than 256 bytes"), "{version}: {refused}");
        let failed = told("log info remembered\ntrap").await;
        assert!(failed.text.starts_with("Sorry") && failed.number.is_some(), "{version}: {}", failed.bytes);
        host.logged("remembered").await;
    }
}
