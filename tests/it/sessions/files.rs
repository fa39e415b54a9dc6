//! The workspace of a session: files that live and die with it.

use super::{puppet, settled, tell};
use crate::support::turn::Ask;

const WRITE: &str = "tool WriteFile {\"filePath\":\"/notes/a.md\",\"content\":\"hello\"}";
const READ: &str = "tool ReadFile {\"filePath\":\"/notes/a.md\"}";
const CONTENT: &str = "ok:{\"content\":\"hello\"}";
const GONE: &str = "invalid-args:filePath: there is no such file";

#[tokio::test]
async fn a_file_is_there_in_the_next_turn_and_after_a_stop_and_after_a_power_cut() {
    let host = puppet("").start().await;
    assert_eq!(tell(&host, "c", WRITE).await.text, "ok:{\"status\":\"written\",\"bytes\":5}");
    assert_eq!(tell(&host, "c", READ).await.text, CONTENT);
    let host = host.stop_and_restart().await;
    assert_eq!(tell(&host, "c", READ).await.text, CONTENT);
    let host = host.kill_and_restart().await;
    assert_eq!(tell(&host, "c", READ).await.text, CONTENT);
    assert_eq!(
        tell(&host, "c", "tool DeleteFile {\"filePath\":\"/notes/a.md\"}").await.text,
        "ok:{\"status\":\"deleted\"}"
    );
    assert_eq!(tell(&host, "c", READ).await.text, GONE);
}

#[tokio::test]
async fn a_file_is_its_own_sessions_only() {
    let host = puppet("").start().await;
    tell(&host, "c", WRITE).await;
    assert_eq!(tell(&host, "d", READ).await.text, GONE);
    let stranger = Ask::agent(&host, "puppet").conversation("c").user("u2").text(READ);
    assert_eq!(settled(&host, stranger).await.text, GONE);
    assert_eq!(tell(&host, "c", READ).await.text, CONTENT);
}

#[tokio::test]
async fn a_file_dies_with_its_session() {
    let host = puppet("sessions.idle = \"700ms\"").start().await;
    tell(&host, "c", WRITE).await;
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(tell(&host, "c", READ).await.text, GONE);
}

#[tokio::test]
async fn a_workspace_is_no_place_on_the_hosts_own_file_system() {
    let host = puppet("").start().await;
    std::fs::write(host.dir().join("secret"), "s").unwrap();
    for path in ["/etc/passwd", "hostelry.toml", "secret", "/proc/self/environ", "plugins/puppet.wasm"] {
        assert_eq!(tell(&host, "c", &format!("tool ReadFile {{\"filePath\":\"{path}\"}}")).await.text, GONE, "{path}");
    }
    for path in ["../secret", "/../secret", "a/../../secret"] {
        let said = tell(&host, "c", &format!("tool ReadFile {{\"filePath\":\"{path}\"}}")).await.text;
        assert_eq!(said, "invalid-args:filePath: leads out of the workspace", "{path}");
    }
    tell(&host, "c", "tool WriteFile {\"filePath\":\"planted\",\"content\":\"x\"}").await;
    assert!(!host.dir().join("planted").exists());
}

#[tokio::test]
async fn the_files_of_a_workspace_are_listed_by_folder() {
    let host = puppet("").start().await;
    let orders = "tool-quiet WriteFile {\"filePath\":\"b/2.md\",\"content\":\"22\"}\ntool-quiet WriteFile {\"filePath\":\"a.md\",\"content\":\"1\"}\n\
                  tool ListFiles\nchat ;\ntool ListFiles {\"path\":\"b\"}";
    let said = tell(&host, "c", orders).await.text;
    let second = "{\"path\":\"/b/2.md\",\"bytes\":2}";
    assert_eq!(
        said,
        format!("ok:{{\"files\":[{{\"path\":\"/a.md\",\"bytes\":1}},{second}]}};ok:{{\"files\":[{second}]}}")
    );
}
