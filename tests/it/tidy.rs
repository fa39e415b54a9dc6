//! The rules that the tree keeps, checked over its files: sizes, names, the direction of dependencies, and that what
//! exists is tested and written about.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use hostelry::server::limits;

/// The longest that a Rust file may be.
const LINES_MAX: usize = 400;

/// Names that say nothing about what is in a file.
const EMPTY_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc"];

/// Where serde may be named: where a document's JSON or TOML is read or written, and nowhere else.
const SERDE: &[&str] = &[
    "config",
    "cli",
    "server",
    "capabilities/tools",
    "script/args.rs",
    "protocols/mythra/wire",
    "protocols/lingzhu/wire",
];

/// What stands above the turn, and what must not know it.
const ABOVE: &[&str] = &["server", "protocols", "cli"];
const BELOW: &[&str] = &[
    "turn",
    "script",
    "runtime",
    "capabilities",
    "records",
    "store",
    "bindings",
    "config",
    "tenants",
    "admission",
    "ids",
    "limit",
    "metrics",
    "text",
    "telemetry",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All files below `folder` with this ending, those that were built or brought left out.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_symlink() || name.starts_with('.') || name == "target" || name == "node_modules" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn rust_files() -> Vec<PathBuf> {
    ["host", "tests", "guest-examples"].iter().flat_map(|folder| files(&root().join(folder), ".rs")).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A path as it is told: from the root of the tree.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// Fails with every offender at once.
#[track_caller]
fn assert_none(offenders: &[String]) {
    assert!(offenders.is_empty(), "\n{}", offenders.join("\n"));
}

/// The files of the host that stand in a module of this list, each with its path below `host/src`.
fn host_files() -> Vec<(String, PathBuf)> {
    let source = root().join("host/src");
    let below = |path: &PathBuf| path.strip_prefix(&source).unwrap().to_string_lossy().into_owned();
    files(&source, ".rs").into_iter().map(|path| (below(&path), path)).collect()
}

/// Whether a path below `host/src` is one of these modules' or stands in one.
fn is_in(path: &str, modules: &[&str]) -> bool {
    modules
        .iter()
        .any(|module| path.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/'])))
}

#[test]
fn no_file_is_longer_than_400_lines() {
    let long = |path: &PathBuf| {
        let lines = read(path).lines().count();
        (lines > LINES_MAX).then(|| format!("{}: {lines} lines", shown(path)))
    };
    assert_none(&rust_files().iter().filter_map(long).collect::<Vec<_>>());
}

#[test]
fn every_file_opens_by_saying_what_it_is() {
    let silent = |path: &&PathBuf| !read(path).starts_with("//! ");
    assert_none(&rust_files().iter().filter(silent).map(|path| shown(path)).collect::<Vec<_>>());
}

#[test]
fn no_name_of_a_file_is_empty_of_meaning() {
    let empty = |path: &&PathBuf| EMPTY_NAMES.contains(&&*path.file_stem().unwrap().to_string_lossy());
    assert_none(&rust_files().iter().filter(empty).map(|path| shown(path)).collect::<Vec<_>>());
}

#[test]
fn every_member_is_linted_like_all() {
    let manifests = files(&root(), "Cargo.toml");
    let unlinted = |path: &&PathBuf| {
        let text = read(path);
        let linted =
            text.split_once("[lints]").is_some_and(|(_, rest)| rest.trim_start().starts_with("workspace = true"));
        // The SDK is copied into authors' workspaces, and says its own.
        let linted = linted || (text.contains("[lints.rust]") && text.contains("[lints.clippy]"));
        text.contains("[package]") && !linted
    };
    assert!(manifests.len() >= 8, "{manifests:?}");
    assert_none(&manifests.iter().filter(unlinted).map(|path| shown(path)).collect::<Vec<_>>());
}

#[test]
fn what_is_below_the_turn_knows_nothing_above_it() {
    let mut offenders = Vec::new();
    for (below, path) in host_files().iter().filter(|(below, _)| is_in(below, BELOW)) {
        let text = read(path);
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for above in ABOVE {
            let grouped = code.split("use crate::{").skip(1).filter_map(|rest| rest.split(';').next());
            let named = |group: &str| {
                group.split([',', '{', ' ']).any(|item| item == *above || item.starts_with(&format!("{above}::")))
            };
            if code.contains(&format!("crate::{above}")) || grouped.into_iter().any(named) {
                offenders.push(format!("{below}: {above}"));
            }
        }
    }
    assert_none(&offenders);
}

#[test]
fn only_the_edges_know_serde() {
    let mut offenders = Vec::new();
    for (below, path) in host_files().iter().filter(|(below, _)| !is_in(below, SERDE)) {
        let text = read(path);
        // Tests may look at frames as JSON.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_test = below.ends_with("/tests.rs") || below.contains("/tests/");
        if !is_test && code.lines().any(|line| !line.trim_start().starts_with("//") && line.contains("serde")) {
            offenders.push(below.clone());
        }
    }
    assert_none(&offenders);
}

#[test]
fn nothing_is_left_to_do_in_the_code() {
    let marks = ["TO", "FIX", "XX"].map(|start| {
        format!(
            "{start}{}",
            if start == "TO" {
                "DO"
            } else if start == "FIX" {
                "ME"
            } else {
                "X"
            }
        )
    });
    let marked = |path: &PathBuf| marks.iter().any(|mark| read(path).contains(mark)).then(|| shown(path));
    assert_none(&rust_files().iter().filter_map(marked).collect::<Vec<_>>());
}

#[test]
fn every_example_is_run_by_a_test() {
    let tests: Vec<String> = files(&root().join("tests/it"), ".rs").iter().map(|path| read(path)).collect();
    let mut untested = Vec::new();
    for entry in fs::read_dir(root().join("guest-examples")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        if folder.join("Cargo.toml").exists() && !tests.iter().any(|test| test.contains(&format!("\"{name}\""))) {
            untested.push(format!("guest-examples/{name}"));
        }
    }
    assert_none(&untested);
}

#[test]
fn every_guest_of_the_tests_is_run_by_a_test() {
    let manifest = read(&root().join("tests/guests/Cargo.toml"));
    let mut tests = String::new();
    for path in [files(&root().join("tests/it"), ".rs"), files(&root().join("tests/cases"), "")].concat() {
        tests.push_str(&read(&path));
    }
    let names = manifest.split("[[example]]").skip(1).filter_map(|example| example.split('"').nth(1));
    let unused: Vec<_> = names.filter(|name| !tests.contains(&format!("\"{name}\""))).map(str::to_owned).collect();
    assert_none(&unused);
}

#[test]
fn every_interface_of_the_contract_is_written_about() {
    let pages = read(&root().join("README.md")) + &read(&root().join("docs/architecture.md"));
    let mut silent = Vec::new();
    for path in files(&root().join("wit"), ".wit") {
        let text = read(&path);
        let interfaces = text.lines().filter_map(|line| line.strip_prefix("interface ")?.strip_suffix(" {"));
        let unnamed = interfaces.filter(|name| !pages.contains(&format!("`{name}`")));
        silent.extend(unnamed.map(|name| format!("{}: {name}", shown(&path))));
    }
    assert_none(&silent);
}

/// A page without what it shows as code.
fn prose(page: &str) -> String {
    // Every other piece between fences is code, and of the rest every other between backticks.
    let fenced = page.split("```").step_by(2);
    fenced.flat_map(|text| text.split('`').step_by(2)).collect()
}

#[test]
fn every_link_of_a_page_leads_somewhere() {
    let mut broken = Vec::new();
    let mut links = 0;
    for path in files(&root(), ".md") {
        let text = prose(&read(&path));
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets {
            links += 1;
            let file = target.split('#').next().unwrap_or_default();
            let outside = target.contains("://") || target.starts_with("mailto:");
            if !outside && !file.is_empty() && !path.parent().unwrap().join(file).exists() {
                broken.push(format!("{}: {target}", shown(&path)));
            }
        }
    }
    assert!(links > 20, "{links}");
    assert_none(&broken);
}

#[test]
fn the_page_of_limits_is_the_table_of_limits() {
    let path = root().join("docs/limits.md");
    let page = limits::page();
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let stale = "docs/limits.md is not what host/src/server/limits/ makes: write it anew with \
                 `UPDATE=1 cargo test -p hostelry --test it table_of_limits`";
    assert!(read(&path) == page, "{stale}");
}

#[test]
fn every_limit_is_proven_by_a_test_that_is_there() {
    let missing = |row: &&limits::Row| {
        let (file, function) = row.test.split_once("::").unwrap();
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        let heads = ["#[test]\nfn ", "#[tokio::test]\nasync fn "].map(|head| format!("\n{head}{function}() {{"));
        !heads.iter().any(|head| text.contains(head))
    };
    let missing = limits::rows().filter(missing).map(|row| format!("{}: there is no test {}", row.limit, row.test));
    assert_none(&missing.collect::<Vec<_>>());
}
