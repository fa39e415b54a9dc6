//! The plugins folder: whatever way a file comes, it is taken whole or not at all, in one step, without a restart, and
//! no turn is touched by it.

use std::{fs, path::Path};

use hostelry::text;
use serde_json::Value;

use crate::support::host::{Host, Setup};

mod arrivals;
mod beside;
mod faults;
mod load;
mod rules;
mod strays;

/// A host that takes files quickly, by the file system's own hints: the poll comes too late for any test.
fn quick(agents: &[&str]) -> Setup {
    Setup::serving(agents).config("[reload]\nsettle = \"50ms\"\npoll = \"10m\"")
}

/// A host that takes files by looking often.
fn polling(agents: &[&str]) -> Setup {
    Setup::serving(agents).config("[reload]\nsettle = \"50ms\"\npoll = \"100ms\"")
}

/// Puts a file in its place in one step, as one should.
fn put(path: &Path, bytes: &[u8]) {
    let aside = path.with_file_name(".aside");
    fs::write(&aside, bytes).unwrap();
    fs::rename(aside, path).unwrap();
}

/// Waits until `bytes` went live as `agent` (`TENANT/AGENT`) for the `times`th time.
async fn live(host: &Host, agent: &str, bytes: &[u8], times: usize) {
    let version = hostelry::runtime::compile::version(bytes);
    host.logged_times(&format!("agent live agent={agent} version=\"{}", text::head(&version, 12)), times).await;
}

/// How an agent stands, of those that `/readyz` lists.
async fn standing(host: &Host, agent: &str) -> Value {
    let readyz = host.readyz().await;
    let agents = readyz["agents"].as_array().unwrap();
    let id = |entry: &Value| format!("{}/{}", entry["tenant"].as_str().unwrap(), entry["agent"].as_str().unwrap());
    agents.iter().find(|entry| id(entry) == agent).cloned().unwrap_or_default()
}

/// How many lines of the log hold `text`.
fn lines(host: &Host, text: &str) -> usize {
    host.log().lines().filter(|line| line.contains(text)).count()
}

/// Checks that nothing was logged that an operator would have to look at.
fn assert_quiet(host: &Host) {
    assert_eq!(lines(host, " WARN ") + lines(host, " ERROR "), 0, "{}", host.log());
}
