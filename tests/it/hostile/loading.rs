//! Files that cost much to compile, or that come in a way that costs much to take.

use std::fs;

use serde_json::Value;
use tokio::time::{Duration, Instant};

use super::{assert_serves, bombs};
use crate::support::{
    guests,
    host::{Host, Setup},
    turn::{Ask, NOTHING, ask},
    wat,
};

/// How much more memory the host may take for a bomb than before it: what it reads of the file, and what allocators keep.
/// The bombs would take gigabytes.
const MARGIN: u64 = 64 * 1024 * 1024;

/// A host with little room for the compiler, so that what it does not survive ends soon.
fn strict(agents: &[&str]) -> Setup {
    Setup::serving(agents).config(
        "[reload]\nsettle = \"50ms\"\npoll = \"10m\"\ncompile-memory = \"1GiB\"\ncompile-cpu = \"6s\"\n\
         [tenants.default]\n[tenants.large]\n[tenants.small]\n",
    )
}

/// Puts a file in its place in one step.
fn put(host: &Host, name: &str, bytes: &[u8]) {
    let aside = host.plugin(".aside");
    fs::write(&aside, bytes).unwrap();
    fs::create_dir_all(host.plugin(name).parent().unwrap()).unwrap();
    fs::rename(aside, host.plugin(name)).unwrap();
}

/// Makes a file look changed.
fn touch(host: &Host, name: &str) {
    let file = fs::File::options().write(true).open(host.plugin(name)).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
}

/// Why an agent's newest file does not serve.
async fn fault(host: &Host, tenant: &str, agent: &str) -> String {
    let readyz = host.readyz().await;
    let agents = readyz["agents"].as_array().unwrap();
    let own = agents.iter().find(|entry| entry["tenant"] == tenant && entry["agent"] == agent);
    let own = own.unwrap_or_else(|| panic!("{tenant}/{agent} is not in {readyz}"));
    assert_eq!(own["version"], Value::Null);
    own["fault"].as_str().unwrap_or_else(|| panic!("{own}")).to_owned()
}

/// Asks for answers without pause until `done`, and gives back how many came.
async fn serving_until(host: &Host, done: impl Future<Output = ()>) -> usize {
    tokio::pin!(done);
    for answers in 0.. {
        tokio::select! {
            biased;
            () = &mut done => return answers,
            () = assert_serves(host) => {}
        }
    }
    0
}

#[tokio::test]
async fn every_bomb_is_refused_in_words_and_counted_while_others_are_served() {
    let bombs: [(&str, Vec<u8>, &str, Option<&str>); 11] = [
        ("nested", bombs::nested(), "more than 8 deep", Some("structure")),
        ("functions", bombs::functions(), "more than 100000 functions", Some("structure")),
        ("locals", bombs::locals(), "more than 10000 variables", Some("structure")),
        ("giant", bombs::giant(), "more than 2097152 bytes (bytes of code in one function)", Some("structure")),
        ("memories", bombs::memories(), "more than 4 memories", Some("structure")),
        ("jumps", bombs::jumps(), "more than 1073741824 bytes of memory (reload.compile-memory)", Some("compile")),
        ("slow", bombs::slow(), "more than 6s of CPU time (reload.compile-cpu)", Some("compile")),
        ("doubling-types", bombs::doubling_types(), "type size exceeds the limit", None),
        ("deep-types", bombs::deep_types(), "type nesting is too deep", None),
        ("globals", bombs::globals(), "not valid", None),
        ("tables", bombs::tables(), "tables count exceeds limit", None),
    ];
    let host = strict(&["echo"]).start().await;
    assert_serves(&host).await;
    let before = host.peak();
    for (name, bytes, words, limit) in bombs {
        let hits = match limit {
            Some(limit) => host.hits(limit).await,
            None => 0,
        };
        put(&host, &format!("large/{name}.wasm"), &bytes);
        let refused = async {
            host.logged(&format!("agent=large/{name}")).await;
        };
        let answers = serving_until(&host, refused).await;
        assert!(answers > 0, "{name}");
        let fault = fault(&host, "large", name).await;
        assert!(fault.contains(words), "{name}: {fault}");
        if let Some(limit) = limit {
            assert_eq!(host.hits(limit).await, hits + 1, "{name}");
        }
        assert_serves(&host).await;
    }
    let after = host.peak();
    assert!(after < before + MARGIN, "{before} bytes before, {after} after");
}

#[tokio::test]
async fn what_kills_its_compiler_is_refused_at_once_when_it_comes_again_also_after_a_restart() {
    let host = strict(&["echo"]).start().await;
    let bomb = bombs::jumps();
    put(&host, "bomb.wasm", &bomb);
    host.logged("reload.compile-memory").await;
    let deaths = "hostelry_compiles_total{outcome=\"deadly\"}";
    assert_eq!(host.counted(deaths).await, 1);

    // Another name, another tenant, another date: the same bytes.
    put(&host, "again.wasm", &bomb);
    host.logged("agent=default/again").await;
    put(&host, "large/bomb.wasm", &bomb);
    host.logged("agent=large/bomb").await;
    touch(&host, "bomb.wasm");
    host.logged_times("agent=default/bomb", 2).await;
    let why = fault(&host, "default", "again").await;
    assert!(why.contains("this same file is not tried again; hint: "), "{why}");
    assert_eq!(host.counted(deaths).await, 1);

    let host = host.kill_and_restart().await;
    host.logged("agent=large/bomb").await;
    host.logged("agent=default/again").await;
    assert_eq!(host.counted(deaths).await, 0, "nothing was compiled");
    assert_eq!(host.counted("hostelry_compiles_total{outcome=\"quarantined\"}").await, 3);
    assert_serves(&host).await;

    // The way out that the refusal names.
    let why = fault(&host, "default", "bomb").await;
    let entry = why.split("removes ").nth(1).unwrap().split(' ').next().unwrap();
    fs::remove_file(host.dir().join("data").join(entry)).unwrap();
    touch(&host, "bomb.wasm");
    host.logged_times("agent=default/bomb", 2).await;
    assert_eq!(host.counted(deaths).await, 1, "it was tried again");
    assert_serves(&host).await;
}

#[tokio::test]
async fn more_room_for_the_compiler_is_a_reason_to_try_again() {
    let host = strict(&["echo"]).plugin("bomb.wasm", &bombs::jumps()).start().await;
    assert!(fault(&host, "default", "bomb").await.contains("reload.compile-memory"));
    fs::write(host.dir().join("hostelry.toml"), "[reload]\ncompile-memory = \"1025MiB\"\n").unwrap();
    let host = host.stop_and_restart().await;
    assert!(fault(&host, "default", "bomb").await.contains("more than 1074790400 bytes"));
    assert_eq!(host.counted("hostelry_compiles_total{outcome=\"deadly\"}").await, 1);
}

#[tokio::test]
async fn what_takes_too_long_by_the_clock_is_tried_twice_and_not_for_ever() {
    let config = "[reload]\nsettle = \"50ms\"\npoll = \"10m\"\ncompile-time = \"1500ms\"\n";
    let host = Setup::serving(&["echo"]).config(config).start().await;
    put(&host, "slow.wasm", &bombs::slow());
    for times in 1..=2 {
        let rest = host.logged_times("compiling it took longer than 1.5s (reload.compile-time)", times).await;
        assert!(rest.starts_with("; hint: touch the file to try again"), "{rest}");
        touch(&host, "slow.wasm");
    }
    let rest = host.logged_times("compiling it took longer than 1.5s (reload.compile-time)", 3).await;
    assert!(rest.starts_with("; this same file is not tried again"), "{rest}");
    assert_eq!(host.counted("hostelry_compiles_total{outcome=\"failed\"}").await, 2);
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_file_that_the_host_did_not_survive_twice_is_not_compiled_a_third_time() {
    let config = "[reload]\nsettle = \"50ms\"\npoll = \"10m\"\n";
    let mut host = Setup::serving(&["echo"]).config(config).start().await;
    let bomb = bombs::slow();
    for _ in 0..2 {
        put(&host, "slow.wasm", &bomb);
        host.compiler().await;
        // As if the compile had taken the whole machine's memory; the next start is not to wait for the same again.
        fs::remove_file(host.plugin("slow.wasm")).unwrap();
        host = host.kill_and_restart().await;
    }
    put(&host, "slow.wasm", &bomb);
    let rest = host.logged("the host itself ended while it was being compiled").await;
    assert!(rest.starts_with("; this same file is not tried again"), "{rest}");
    assert_serves(&host).await;
}

#[tokio::test]
async fn a_host_that_goes_down_in_good_order_holds_that_against_no_file() {
    let config = "[reload]\nsettle = \"50ms\"\npoll = \"10m\"\n";
    let host = Setup::serving(&["echo"]).config(config).start().await;
    let quarantine = host.dir().join("data/code/quarantine");
    let entries = || fs::read_dir(&quarantine).unwrap().count();
    put(&host, "slow.wasm", &bombs::slow());
    host.compiler().await;
    assert_eq!(entries(), 1);
    fs::remove_file(host.plugin("slow.wasm")).unwrap();
    let host = host.stop_and_restart().await;
    assert_eq!(entries(), 0);
    assert_serves(&host).await;
}

#[tokio::test]
async fn one_tenants_deadly_files_keep_nobody_elses_waiting_for_more_than_one_of_them() {
    let host = strict(&["echo"]).start().await;
    let bomb = bombs::slow();
    for n in 0..12 {
        // A section that means nothing makes another file of each.
        put(&host, &format!("large/slow{n}.wasm"), &wat::padded(bomb.clone(), n));
    }
    host.compiler().await;
    // Compiled in their turn, or as they come: never behind twelve others of two seconds each.
    for n in 0..3 {
        put(&host, &format!("small/own{n}.wasm"), &guests::version_of("one", n));
    }
    put(&host, "valid.wasm", &guests::bytes("one"));
    for agent in ["small/own0", "small/own1", "small/own2", "default/valid"] {
        host.logged(&format!("agent live agent={agent}")).await;
    }
    let deaths = host.log().lines().filter(|line| line.contains("agent=large/")).count();
    assert!(deaths <= 5, "{deaths} of the others' came before");
    assert_eq!(Ask::at(&host, "small", "own2").text("x").answer().await.text, "one");
    assert_serves(&host).await;
}

#[tokio::test]
async fn what_needs_no_compiling_does_not_wait_for_what_does() {
    let host = Setup::serving(&["echo", "one"]).config("[reload]\nsettle = \"50ms\"\npoll = \"10m\"\n").start().await;
    put(&host, "slow.wasm", &bombs::slow());
    host.compiler().await;
    // One that is refused by its looks, one that is compiled already, one that goes.
    put(&host, "noise.wasm", b"noise");
    put(&host, "known.wasm", &guests::bytes("one"));
    fs::remove_file(host.plugin("one.wasm")).unwrap();
    host.logged("this is not WebAssembly").await;
    host.logged("agent live agent=default/known").await;
    host.logged("agent withdrawn: its file is gone agent=default/one").await;
    assert_eq!(ask(&host, "known", "x").await.text, "one");
    assert!(!host.log().contains("agent=default/slow"), "it is still being compiled:\n{}", host.log());
}

#[tokio::test]
async fn what_changes_while_it_is_compiled_is_taken_as_it_is_then() {
    let host = Setup::serving(&["echo"]).config("[reload]\nsettle = \"50ms\"\npoll = \"10m\"\ncompile-cpu = \"1s\"\n");
    let host = host.start().await;
    put(&host, "x.wasm", &bombs::slow());
    host.compiler().await;
    put(&host, "x.wasm", &guests::bytes("one"));
    host.logged("agent live agent=default/x").await;
    assert_eq!(ask(&host, "x", "x").await.text, "one");
    // What came of the file before it is not held against this one.
    assert!(!host.log().contains("reload.compile-cpu"), "{}", host.log());
    put(&host, "y.wasm", &wat::padded(bombs::slow(), 1));
    host.compiler().await;
    fs::remove_file(host.plugin("y.wasm")).unwrap();
    host.logged("agent withdrawn: its file is gone agent=default/y").await;
    put(&host, "z.wasm", &guests::bytes("two"));
    host.logged("agent live agent=default/z").await;
    assert_eq!(host.readyz().await["faulty"], 0);
}

#[tokio::test]
async fn a_thousand_files_at_once_are_all_served_and_so_are_the_others_meanwhile() {
    let host = strict(&["echo"]).start().await;
    assert_serves(&host).await;
    let before = host.peak();
    for n in 0..1000 {
        // Twenty different ones, so that there is something to compile.
        let body = format!("(drop (i32.const {}))", n % 20);
        put(&host, &format!("large/a{n}.wasm"), &wat::agent("", "", "", &body));
    }
    let began = Instant::now();
    let live = async {
        host.logged_times("agent live agent=large/a", 1000).await;
    };
    let answers = serving_until(&host, live).await;
    assert!(answers > 10, "{answers} answers in {:?}", began.elapsed());
    assert_eq!(host.readyz().await["live"], 1001);
    assert_eq!(Ask::at(&host, "large", "a999").text("x").answer().await.text, NOTHING);
    let after = host.peak();
    assert!(after < before + 4 * MARGIN, "{before} bytes before, {after} after");
}

#[tokio::test]
async fn large_files_of_one_tenant_keep_nobody_elses_from_being_read() {
    let host = strict(&["echo"]).start().await;
    fs::create_dir(host.plugin("large")).unwrap();
    for n in 0..60 {
        // As large as a file may be, and mostly a hole: it costs its owner nothing.
        let file = fs::File::create(host.plugin(&format!("large/a{n:02}.wasm"))).unwrap();
        file.set_len(64 * 1024 * 1024).unwrap();
    }
    host.logged("agent=large/a00").await;
    put(&host, "small/one.wasm", &guests::bytes("one"));
    let live = async {
        host.logged("agent live agent=small/one").await;
    };
    let answers = serving_until(&host, live).await;
    let read = host.log().lines().filter(|line| line.contains("agent=large/")).count();
    assert!(read < 60 && answers > 0, "{read} of the others' were read before, and {answers} answers given");
    assert_eq!(Ask::at(&host, "small", "one").text("x").answer().await.text, "one");
}

#[tokio::test]
async fn a_file_that_is_rewritten_a_hundred_times_a_second_costs_little_and_keeps_nobody_from_anything() {
    let host = strict(&["echo"]).start().await;
    let (before, began) = (host.cpu(), Instant::now());
    let mut writes = 0;
    let rewritten = async {
        while began.elapsed() < Duration::from_secs(3) {
            fs::write(host.plugin("x.wasm"), guests::version_of("one", writes)).unwrap();
            writes += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    rewritten.await;
    let used = host.cpu() - before;
    // The look itself, the poll and the clients are all there is to it: a third of a core would be a storm.
    assert!(used < 100, "{used} hundredths of a second for {writes} writes");
    put(&host, "two.wasm", &guests::bytes("two"));
    host.logged("agent live agent=default/two").await;
    let last = guests::version_of("one", writes - 1);
    let version = hostelry::runtime::compile::version(&last);
    host.logged(&format!("agent live agent=default/x version=\"{}", hostelry::text::head(&version, 12))).await;
    assert_eq!(ask(&host, "x", "x").await.text, "one");
    assert_serves(&host).await;
}

#[tokio::test]
async fn an_entry_of_the_cache_that_was_meddled_with_is_never_loaded() {
    let host = Setup::serving(&["echo", "one", "two"]).start().await;
    let code = host.dir().join("data/code");
    let entry = |agent: &str| {
        let version = hostelry::runtime::compile::version(&guests::bytes(agent));
        let entries = fs::read_dir(&code).unwrap().map(|entry| entry.unwrap().path());
        entries.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with(&version)).unwrap()
    };
    let (echo, one, two) = (entry("echo"), entry("one"), entry("two"));
    let whole = fs::read(&echo).unwrap();
    // Torn, and another agent's whole entry under this one's name.
    for path in [&echo, &one] {
        fs::remove_file(path).unwrap();
    }
    fs::write(&echo, &whole[..whole.len() / 2]).unwrap();
    fs::copy(&two, &one).unwrap();
    // Of an older engine: under a name that nobody asks for.
    fs::write(code.join(format!("{}-0123456789abcdef.code", "0".repeat(64))), b"old").unwrap();

    let host = host.stop_and_restart().await;
    host.logged_times("is not what was put there; compiling anew", 2).await;
    assert_eq!(ask(&host, "one", "x").await.text, "one");
    assert_eq!(ask(&host, "two", "x").await.text, "two");
    assert_serves(&host).await;
    assert_eq!(host.counted("hostelry_compiles_total{outcome=\"compiled\"}").await, 2);
    assert_eq!(host.counted("hostelry_compiles_total{outcome=\"cached\"}").await, 1);
}

#[tokio::test]
async fn what_is_no_finished_part_of_the_language_is_refused() {
    let proposals = [
        ("garbage-collection", "(type (struct (field i32)))"),
        ("exceptions", "(tag (param i32))"),
        ("memory64", "(memory i64 1)"),
        ("threads", "(memory 1 1 shared)"),
        ("multi-memory", "(memory 1) (memory 1)"),
        ("page-sizes", "(memory 1 (pagesize 1))"),
        ("relaxed-simd", "(func (param v128) (result v128) (i32x4.relaxed_trunc_f32x4_s (local.get 0)))"),
        ("wide", "(func (param i64) (result i64 i64) (i64.mul_wide_s (local.get 0) (local.get 0)))"),
        ("stack-switching", "(type $f (func)) (type (cont $f))"),
    ];
    let mut setup = Setup::serving(&["echo"]);
    for (name, module) in proposals {
        setup = setup.plugin(&format!("{name}.wasm"), &wat::parse(&format!("(component (core module {module}))")));
    }
    let host = setup.start().await;
    for (name, _) in proposals {
        let fault = fault(&host, "default", name).await;
        let is_refused = match name {
            // The engine itself needs the proposal, between two components.
            "multi-memory" => fault.contains("more than 1 memory (memories of one module)"),
            _ => fault.starts_with("the component is not valid: "),
        };
        assert!(is_refused, "{name}: {fault}");
    }
    assert_serves(&host).await;
}
