//! A hundred reloads while clients talk: no turn is lost, and nothing is left behind.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::time::timeout;

use super::{assert_quiet, live, put, quick};
use crate::support::{
    guests,
    host::{Host, SOON},
    turn::{Ask, ask},
};

/// How much larger the host may be after the hundredth reload than after the tenth: room for what allocators keep. One
/// compiled component is about a megabyte, so that ninety kept ones would show.
const MARGIN: u64 = 40 * 1024 * 1024;

/// How many clients talk at once.
const CLIENTS: usize = 4;

/// How long each pauses between two turns.
const PAUSE: Duration = Duration::from_millis(5);

/// How many files of compiled code may be open: those of what is live, and of what the slots of the engine's pool last
/// held, which they keep for the next turn of the same version.
const CODE_MAX: usize = 40;

/// Threads that come and go with what there is to do.
const IDLE_THREADS: usize = 4;

/// The names of the host's threads, sorted. One that ends meanwhile is not there.
fn threads(host: &Host) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", host.pid())).unwrap();
    let mut names: Vec<_> = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok()).collect();
    names.sort();
    names
}

/// What the host has open but compiled code, sorted; and how many files of that. One that is closed meanwhile is not
/// there.
fn files(host: &Host) -> (Vec<String>, usize) {
    let open = fs::read_dir(format!("/proc/{}/fd", host.pid())).unwrap();
    let open = open.filter_map(|file| Some(fs::read_link(file.ok()?.path()).ok()?.display().to_string()));
    let (code, mut others): (Vec<_>, Vec<_>) = open.partition(|path| path.contains("/data/code/"));
    others.sort();
    (others, code.len())
}

/// Puts versions `range` in place one after another while clients talk. Gives back how many turns they had.
async fn reload(host: &Arc<Host>, range: std::ops::RangeInclusive<u32>) -> usize {
    let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (host, stop, turns) = (Arc::clone(host), Arc::clone(&stop), Arc::clone(&turns));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    // One of them is always in the middle of something.
                    let (agent, orders, wanted) = match client {
                        0 => ("puppet", "chat a\nsleep 20\nchat b\nsleep 20\nchat c", "abc"),
                        1 => ("puppet", "chat a", "a"),
                        _ => ("x", "hello", ""),
                    };
                    let answer = Ask::agent(&host, agent).conversation("load").text(orders).answer().await;
                    let whole =
                        if wanted.is_empty() { ["one", "two"].contains(&&*answer.text) } else { answer.text == wanted };
                    assert!(whole, "{}", answer.bytes);
                    turns.fetch_add(1, Ordering::Relaxed);
                    // People pause; and a machine that is full of turns leaves none of itself for compiling.
                    tokio::time::sleep(PAUSE).await;
                }
            })
        })
        .collect();
    for n in range {
        let name = if n % 2 == 0 { "one" } else { "two" };
        let bytes = guests::version_of(name, n);
        put(&host.plugin("x.wasm"), &bytes);
        if n % 10 == 0 {
            put(&host.plugin("puppet.wasm"), &guests::version_of("puppet", n));
        }
        live(host, "default/x", &bytes, 1).await;
        assert_eq!(ask(host, "x", "hello").await.text, name, "what is live is what answers");
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        timeout(SOON, client).await.expect("a client hangs").unwrap();
    }
    turns.load(Ordering::Relaxed)
}

#[tokio::test]
async fn a_hundred_reloads_under_load_lose_no_turn_and_leave_nothing_behind() {
    let host = Arc::new(quick(&["puppet"]).plugin("x.wasm", &guests::bytes("one")).start().await);
    let early = reload(&host, 1..=10).await;
    let (resident, early_files, early_threads) = (host.resident(), files(&host).0, threads(&host));
    let late = reload(&host, 11..=100).await;
    assert!(early > 10 && late > 90, "the clients hardly talked: {early}, {late}");

    let now = host.resident();
    assert!(now < resident + MARGIN, "{resident} bytes after ten reloads, {now} after a hundred");
    // Threads for blocking work end when they have had nothing to do for a while.
    let settled = async {
        while files(&host).0.len() > early_files.len() || threads(&host).len() > early_threads.len() + IDLE_THREADS {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let settled = timeout(SOON, settled).await;
    let ((late_files, code), late_threads) = (files(&host), threads(&host));
    assert!(settled.is_ok(), "{early_threads:?}, then {late_threads:?}; {early_files:#?}, then {late_files:#?}");
    assert!(code <= CODE_MAX, "{code} files of compiled code are open");
    assert_quiet(&host);
}

#[tokio::test]
async fn a_host_that_has_nothing_to_do_does_nothing() {
    let host = quick(&["one"]).start().await;
    put(&host.plugin("one.wasm"), &guests::bytes("two"));
    live(&host, "default/one", &guests::bytes("two"), 1).await;
    assert_eq!(ask(&host, "one", "x").await.text, "two");
    let before = host.cpu();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let used = host.cpu() - before;
    assert!(used < 40, "{used} hundredths of a second in two seconds");
}
