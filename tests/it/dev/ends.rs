//! What `dev` refuses to begin, and how it ends: with no process left behind.

use std::fs;

use tokio::time::timeout;

use super::{Folder, Host, SOON};

/// Whether a process runs; one that nobody has waited for does not.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[tokio::test]
async fn a_signal_ends_it_and_the_build_with_all_its_children() {
    for (signal, code) in [("INT", 0), ("TERM", 0), ("HUP", 0)] {
        let folder = Folder::of("one");
        let mut dev = folder.dev(&["-v"]);
        dev.said("live: version", 1).await;
        folder.builds("sleep 600 & echo $! > child; echo begun; wait");
        dev.said("begun", 1).await;
        let child = fs::read_to_string(folder.path("child")).unwrap();
        assert!(is_alive(&child));
        dev.signal(signal);
        let stdin = dev.stdin.take();
        assert_eq!(dev.ended().await.code(), Some(code), "{signal}");
        drop(stdin);
        let gone = async {
            while is_alive(&child) {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, gone).await.expect("a child of the build lives on");
    }
}

#[tokio::test]
async fn what_is_typed_before_anything_is_live_waits_and_the_end_of_it_is_the_end() {
    let folder = Folder::of("one");
    let mut dev = folder.dev(&[]);
    dev.types("hi").await;
    assert_eq!(dev.ended().await.code(), Some(0));
    assert_eq!(dev.answers(), "one\n");
    folder.builds("exit 1");
    let mut dev = folder.dev(&[]);
    dev.types("hi").await;
    assert_eq!(dev.ended().await.code(), Some(1));
    dev.said("nothing is live yet", 1).await;
}

#[tokio::test]
async fn faults_are_a_matter_of_usage() {
    let folder = Folder::of("one");
    folder.write("agent.toml", "name = \"toy\"\nbuilt = \"x\"\ncomponent = \"out/toy.wasm\"\n");
    let ran = folder.says(&[], &["hi"]).await;
    assert_eq!(ran.code, Some(2));
    ran.said("agent.toml:1: build: is missing");
    ran.said("agent.toml:2: built: unknown key; did you mean `build`?");
    fs::remove_file(folder.path("agent.toml")).unwrap();
    let ran = folder.says(&[], &["hi"]).await;
    assert_eq!(ran.code, Some(2));
    ran.said("hint: make a new agent with `hostelry new`, or write agent.toml:");
    assert!(!folder.path(".hostelry").exists());
}

#[tokio::test]
async fn one_runs_in_a_folder_and_listens_on_this_machine_only() {
    let folder = Folder::of("one");
    let mut dev = folder.dev(&[]);
    dev.said("live: version", 1).await;
    let ran = folder.says(&[], &["hi"]).await;
    assert_eq!(ran.code, Some(1));
    ran.said("another `hostelry dev` runs in this folder");
    assert!(dev.ended().await.success());
    let ran = folder.says(&["--listen", "0.0.0.0:0"], &["hi"]).await;
    assert_eq!(ran.code, Some(1));
    ran.said("not a loopback address");
}

#[tokio::test]
async fn a_folder_is_told_by_its_makefile_and_may_be_elsewhere() {
    let folder = Folder::of("one");
    fs::remove_file(folder.path("agent.toml")).unwrap();
    let name = folder.dir.path().file_name().unwrap().to_string_lossy().to_lowercase().replace('.', "");
    let name = name.trim_start_matches('-');
    let guest = super::guests::path("one");
    folder.write("Makefile", &format!("all:\n\tmkdir -p build && cp {} build/{name}.wasm\n", guest.display()));
    let dir = folder.dir.path().to_str().unwrap();
    let mut command = Host::program(std::env::temp_dir().as_path());
    let output = timeout(SOON, command.args(["dev", dir, "-m", "hi"]).output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "one\n", "{said}");
    assert!(said.contains("there is no agent.toml; the agent is told from Makefile"), "{said}");
}
