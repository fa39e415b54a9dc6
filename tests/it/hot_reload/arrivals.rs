//! The ways in which a file comes, changes and goes.

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::symlink,
    time::Duration,
};

use reqwest::StatusCode;

use super::{assert_quiet, lines, live, polling, put, quick, standing};
use crate::support::{
    guests,
    host::Setup,
    turn::{Ask, ask},
};

#[tokio::test]
async fn a_new_file_is_live_without_a_restart() {
    let host = quick(&["one"]).start().await;
    assert_eq!(Ask::agent(&host, "two").text("x").refused().await.status, StatusCode::NOT_FOUND);
    put(&host.plugin("two.wasm"), &guests::bytes("two"));
    live(&host, "default/two", &guests::bytes("two"), 1).await;
    assert_eq!(ask(&host, "two", "x").await.text, "two");
    assert_eq!(ask(&host, "one", "x").await.text, "one");
    assert_quiet(&host);
}

#[tokio::test]
async fn a_file_that_is_written_in_place_is_taken() {
    let host = quick(&["one"]).start().await;
    fs::write(host.plugin("one.wasm"), guests::bytes("two")).unwrap();
    live(&host, "default/one", &guests::bytes("two"), 1).await;
    assert_eq!(ask(&host, "one", "x").await.text, "two");
    assert_quiet(&host);
}

#[tokio::test]
async fn a_file_that_is_renamed_over_another_is_taken() {
    let host = quick(&["one"]).start().await;
    put(&host.plugin("one.wasm"), &guests::bytes("two"));
    live(&host, "default/one", &guests::bytes("two"), 1).await;
    assert_eq!(ask(&host, "one", "x").await.text, "two");
    put(&host.plugin("one.wasm"), &guests::bytes("one"));
    live(&host, "default/one", &guests::bytes("one"), 2).await;
    assert_eq!(ask(&host, "one", "x").await.text, "one");
    assert_quiet(&host);
}

#[tokio::test]
async fn a_slow_copy_is_never_taken_by_halves_and_its_slowness_is_no_fault() {
    let host = quick(&["one"]).start().await;
    let bytes = guests::bytes("two");
    let mut file = File::create(host.plugin("one.wasm")).unwrap();
    for chunk in bytes.chunks(bytes.len() / 12 + 1) {
        file.write_all(chunk).unwrap();
        // Longer than a file must be left alone for: each piece looks settled.
        tokio::time::sleep(Duration::from_millis(150)).await;
        let text = ask(&host, "one", "x").await.text;
        assert!(text == "one" || text == "two", "{text}");
    }
    drop(file);
    live(&host, "default/one", &bytes, 1).await;
    assert_eq!(ask(&host, "one", "x").await.text, "two");
    assert_quiet(&host);
}

#[tokio::test]
async fn an_empty_file_that_is_filled_later_is_taken_then() {
    let host = quick(&["one"]).start().await;
    let mut file = File::create(host.plugin("two.wasm")).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(Ask::agent(&host, "two").text("x").refused().await.status, StatusCode::NOT_FOUND);
    file.write_all(&guests::bytes("two")).unwrap();
    live(&host, "default/two", &guests::bytes("two"), 1).await;
    assert_eq!(ask(&host, "two", "x").await.text, "two");
    assert_quiet(&host);
}

#[tokio::test]
async fn a_file_that_is_written_without_pause_is_taken_when_that_is_over() {
    let host = Setup::serving(&["one"]).config("[reload]\nsettle = \"400ms\"\npoll = \"10m\"").start().await;
    for n in 0..60 {
        fs::write(host.plugin("one.wasm"), guests::version_of("one", n)).unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    fs::write(host.plugin("one.wasm"), guests::bytes("two")).unwrap();
    live(&host, "default/one", &guests::bytes("two"), 1).await;
    assert_eq!(ask(&host, "one", "x").await.text, "two");
    assert!(lines(&host, "agent live agent=default/one") <= 10, "hardly one of the many was taken");
    assert_quiet(&host);
}

#[tokio::test]
async fn the_symlinks_of_a_mounted_volume_are_followed_when_they_swap() {
    let host = quick(&["echo"]).start().await;
    for (version, guest) in [("..v1", "one"), ("..v2", "two")] {
        fs::create_dir(host.plugin(version)).unwrap();
        fs::write(host.plugin(version).join("a.wasm"), guests::bytes(guest)).unwrap();
    }
    symlink("..v1", host.plugin("..data")).unwrap();
    symlink("..data/a.wasm", host.plugin("a.wasm")).unwrap();
    live(&host, "default/a", &guests::bytes("one"), 1).await;
    assert_eq!(ask(&host, "a", "x").await.text, "one");

    symlink("..v2", host.plugin("..next")).unwrap();
    fs::rename(host.plugin("..next"), host.plugin("..data")).unwrap();
    fs::remove_dir_all(host.plugin("..v1")).unwrap();
    live(&host, "default/a", &guests::bytes("two"), 1).await;
    assert_eq!(ask(&host, "a", "x").await.text, "two");
    assert_quiet(&host);
}

#[tokio::test]
async fn a_folder_that_is_replaced_as_a_whole_is_found_by_the_poll() {
    let host = polling(&["one", "echo"]).start().await;
    let next = host.dir().join("next");
    fs::create_dir(&next).unwrap();
    fs::write(next.join("one.wasm"), guests::bytes("two")).unwrap();
    fs::write(next.join("new.wasm"), guests::bytes("one")).unwrap();
    fs::rename(host.dir().join("plugins"), host.dir().join("old")).unwrap();
    // While there is no folder, what is live stays so.
    host.logged("cannot read the plugins folder").await;
    assert_eq!(ask(&host, "one", "x").await.text, "one");
    fs::rename(next, host.dir().join("plugins")).unwrap();
    live(&host, "default/one", &guests::bytes("two"), 1).await;
    live(&host, "default/new", &guests::bytes("one"), 1).await;
    host.logged("agent withdrawn: its file is gone agent=default/echo").await;
    assert_eq!(ask(&host, "one", "x").await.text, "two");

    put(&host.plugin("one.wasm"), &guests::bytes("one"));
    live(&host, "default/one", &guests::bytes("one"), 2).await;
    assert_eq!(ask(&host, "one", "x").await.text, "one");
    assert_eq!(lines(&host, "cannot read the plugins folder"), 1, "it is said once:\n{}", host.log());
}

#[tokio::test]
async fn a_folder_behind_a_link_that_is_turned_is_found_by_the_poll() {
    let dirs = tempfile::tempdir().unwrap();
    for (dir, guest) in [("a", "one"), ("b", "two")] {
        fs::create_dir(dirs.path().join(dir)).unwrap();
        fs::write(dirs.path().join(dir).join("x.wasm"), guests::bytes(guest)).unwrap();
    }
    let link = dirs.path().join("link");
    symlink("a", &link).unwrap();
    let host = polling(&[]).arg("--plugins").arg(link.to_str().unwrap()).start().await;
    assert_eq!(ask(&host, "x", "x").await.text, "one");
    symlink("b", dirs.path().join("next")).unwrap();
    fs::rename(dirs.path().join("next"), &link).unwrap();
    live(&host, "default/x", &guests::bytes("two"), 1).await;
    assert_eq!(ask(&host, "x", "x").await.text, "two");
    assert_quiet(&host);
}

#[tokio::test]
async fn a_file_that_goes_takes_its_agent_away_and_its_running_turn_ends_well() {
    let host = quick(&["puppet", "echo"]).start().await;
    let mut running = Ask::agent(&host, "puppet").text("chat begin\nsleep 2000\nchat ,end").open().await;
    running.said("begin").await;
    fs::remove_file(host.plugin("puppet.wasm")).unwrap();
    host.logged("agent withdrawn: its file is gone agent=default/puppet").await;
    assert_eq!(Ask::agent(&host, "puppet").text("x").refused().await.status, StatusCode::NOT_FOUND);
    assert_eq!(standing(&host, "default/puppet").await, serde_json::Value::Null);
    assert_eq!(running.rest().await.text, "begin,end");
    assert_eq!(ask(&host, "echo", "x").await.text, "x");

    put(&host.plugin("puppet.wasm"), &guests::bytes("puppet"));
    live(&host, "default/puppet", &guests::bytes("puppet"), 2).await;
    assert_eq!(ask(&host, "puppet", "chat back").await.text, "back");
}

#[tokio::test]
async fn a_turn_keeps_the_version_that_it_began_with() {
    let host = quick(&["puppet"]).start().await;
    let mut running = Ask::agent(&host, "puppet").text("chat begin\nsleep 2000\nchat ,end").open().await;
    running.said("begin").await;
    put(&host.plugin("puppet.wasm"), &guests::bytes("one"));
    live(&host, "default/puppet", &guests::bytes("one"), 1).await;
    assert_eq!(ask(&host, "puppet", "chat x").await.text, "one");
    assert_eq!(running.rest().await.text, "begin,end");
    assert_quiet(&host);
}

#[tokio::test]
async fn two_files_that_change_at_once_are_both_taken() {
    let host = quick(&["one", "two"]).start().await;
    fs::rename(host.plugin("one.wasm"), host.plugin(".x")).unwrap();
    fs::rename(host.plugin("two.wasm"), host.plugin("one.wasm")).unwrap();
    fs::rename(host.plugin(".x"), host.plugin("two.wasm")).unwrap();
    live(&host, "default/one", &guests::bytes("two"), 1).await;
    live(&host, "default/two", &guests::bytes("one"), 1).await;
    assert_eq!(ask(&host, "one", "x").await.text, "two");
    assert_eq!(ask(&host, "two", "x").await.text, "one");
    assert_quiet(&host);
}
