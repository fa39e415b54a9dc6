//! The process that compiles: what it may not do, seen from outside while it works.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::time::timeout;

use super::{assert_serves, bombs};
use crate::support::host::{Host, SOON, Setup};

/// A host whose compiler has a long piece of work before it, and the folder of `/proc` that shows it.
async fn working() -> (Host, PathBuf) {
    let config = "[reload]\nsettle = \"50ms\"\npoll = \"10m\"\ncompile-cpu = \"90s\"\ncompile-memory = \"1GiB\"\n";
    let host = Setup::serving(&["echo"]).config(config).start().await;
    fs::write(host.plugin("slow.wasm"), bombs::slow()).unwrap();
    let child = host.compiler().await;
    let folder = PathBuf::from(format!("/proc/{child}"));
    // It has bound itself once it has read what it compiles.
    let bound = async {
        while !fs::read_to_string(folder.join("limits")).unwrap().contains("Max core file size        0 ") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, bound).await.expect("it never binds itself");
    (host, folder)
}

#[tokio::test]
async fn the_compiler_is_bound_in_all_that_it_could_take() {
    let (host, child) = working().await;
    let read = |name: &str| fs::read_to_string(child.join(name)).unwrap();
    let limits = read("limits");
    let wanted = [
        ("Max cpu time", "90 95"),
        ("Max address space", "1073741824 1073741824"),
        ("Max core file size", "0 0"),
        ("Max file size", "0 0"),
        ("Max open files", "3 3"),
    ];
    let bound = |limits: &str| {
        let held = |(name, values): &&(&str, &str)| {
            let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().take(2).collect::<Vec<_>>().join(" ") == *values
        };
        wanted.iter().filter(held).count()
    };
    let all = async {
        while bound(&read("limits")) < wanted.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, all).await.unwrap_or_else(|_| panic!("{limits}"));
    // The 17th behind the name is the niceness.
    let stat = read("stat");
    assert_eq!(stat.rsplit_once(") ").unwrap().1.split(' ').nth(16), Some("19"), "{stat}");
    assert!(read("status").contains("NoNewPrivs:\t1"), "{}", read("status"));
    assert_eq!(read("oom_score_adj").trim(), "1000");
    assert_serves(&host).await;
}

#[tokio::test]
async fn the_compiler_inherits_nothing_but_its_three_pipes() {
    let (host, child) = working().await;
    let open = |process: &Path| {
        let open = fs::read_dir(process.join("fd")).unwrap();
        let open = open.filter_map(|entry| {
            let entry = entry.ok()?;
            let path = fs::read_link(entry.path()).ok()?.display().to_string();
            Some((entry.file_name().into_string().unwrap(), path))
        });
        open.collect::<BTreeSet<_>>()
    };
    // What whoever runs the tests left open goes through this process and the host.
    let (left, host_has) = (open(Path::new("/proc/self")), open(&PathBuf::from(format!("/proc/{}", host.pid()))));
    let own: Vec<_> = open(&child).difference(&left).cloned().collect();
    let names: Vec<_> = own.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["0", "1", "2"], "{own:?}");
    assert!(own.iter().all(|(_, path)| path.starts_with("pipe:")), "{own:?}");
    assert!(host_has.iter().any(|(_, path)| path.starts_with("socket:")), "{host_has:?}");
    let environment = fs::read(child.join("environ")).unwrap();
    let environment = String::from_utf8(environment).unwrap();
    let names: Vec<_> = environment.split('\0').filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert_eq!(names, ["RAYON_NUM_THREADS"]);
    assert_serves(&host).await;
}

#[tokio::test]
async fn the_compiler_ends_with_its_host() {
    let (host, child) = working().await;
    // The next start is not to wait for the same again.
    fs::remove_file(host.plugin("slow.wasm")).unwrap();
    let host = host.kill_and_restart().await;
    let ended = async {
        while child.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, ended).await.expect("the compiler of a host that is gone goes on");
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_compiler_that_is_killed_from_outside_is_not_the_files_fault() {
    let (host, child) = working().await;
    let pid = child.file_name().unwrap().to_str().unwrap().to_owned();
    assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let rest = host.logged("the compiler was killed from outside").await;
    assert!(rest.starts_with("; hint: touch the file to try again"), "{rest}");
    let file = fs::File::options().write(true).open(host.plugin("slow.wasm")).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
    host.compiler().await;
    assert_serves(&host).await;
}
