//! `hostelry new` as a process: the folders that it makes, what it says, and what it leaves alone.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use tempfile::TempDir;
use tokio::time::timeout;

use crate::support::host::{Host, SOON};

async fn run(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let command = Host::program(dir).arg("new").args(args).output();
    let Output { status, stdout, stderr } = timeout(SOON, command).await.expect("it does not end").unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// The languages that `--list` names.
async fn languages() -> Vec<String> {
    let (code, out, err) = run(Path::new("."), &["--list"]).await;
    assert_eq!((code, err.as_str()), (Some(0), ""));
    out.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn every_language_has_a_folder_with_no_placeholder_left_and_says_what_to_type_next() {
    for language in languages().await {
        let dir = TempDir::new().unwrap();
        for name in ["my-agent", "7up", "match"] {
            let (code, out, err) = run(dir.path(), &[name, "--lang", &language]).await;
            assert_eq!((code, err.as_str()), (Some(0), ""), "{language}: {out}");
            for step in [&format!("cd {name}"), "hostelry check ", &format!("PLUGINS/{name}.wasm"), "hostelry dev"] {
                assert!(out.contains(step), "{language}: {step} is not in {out}");
            }
            let at = dir.path().join(name);
            for path in files(&at) {
                let (file, text) = (path.display().to_string(), fs::read(&path).unwrap());
                let text = String::from_utf8_lossy(&text);
                for placeholder in ["{{name}}", "{{snake}}"] {
                    assert!(!text.contains(placeholder) && !file.contains(placeholder), "{language}: {file}");
                }
                assert!(!file.ends_with(".template"), "{language}: {file}");
            }
            let contract = |path: &Path| fs::read_to_string(path.join("wit/world.wit")).unwrap();
            assert_eq!(contract(&at), contract(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")));
        }
    }
}

#[tokio::test]
async fn what_is_wrong_is_told_and_nothing_is_written() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("taken"), "").unwrap();
    for (args, why) in [
        (&["Hello_World", "--lang", "rust"][..], "hint: `hello-world` does"),
        (&["hello", "--lang", "cobol"], "there is no template for `cobol`"),
        (&["hello"], "--lang"),
        (&["--lang", "rust"], "<NAME>"),
    ] {
        let (code, out, err) = run(dir.path(), args).await;
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}");
        assert!(err.contains(why), "{args:?}: {err}");
    }
    assert_eq!(files(dir.path()), [dir.path().join("taken")]);
}

#[tokio::test]
async fn a_folder_that_is_there_is_left_alone() {
    for language in languages().await {
        let dir = TempDir::new().unwrap();
        let folder = |name: &str| dir.path().join("agents").join(name);
        let make = async |name: &str| run(dir.path(), &[name, "--lang", &language, "--dir", "agents"]).await;
        let (code, _, err) = make("a").await;
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains("there is no folder agents"), "{err}");
        fs::create_dir_all(folder("empty")).unwrap();
        assert_eq!(make("empty").await.0, Some(0));
        let before = files(dir.path());
        let (code, _, err) = make("empty").await;
        assert_eq!(code, Some(2));
        assert!(err.contains("agents/empty is there already, and not empty"), "{err}");
        assert_eq!(files(dir.path()), before);
    }
}
