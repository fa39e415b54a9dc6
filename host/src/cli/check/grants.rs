//! What a component would have to be granted: the host's tools that its code names, and the limits that a trial turn of it
//! passed, as lines that are ready for `hostelry.toml`.

use std::fmt::Write as _;

use super::trial::Trial;
use crate::{
    capabilities::tools,
    config::{Limits, TenantConfig},
};

/// Room above what one turn took, as a part of it: turns differ.
const ROOM: u64 = 2;

/// The step in which memory is proposed.
const MIB: u64 = 1024 * 1024;

/// What a component would use, and what of it its tenant does not grant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Grants {
    /// Tools that its code names, or that it called in its trial turn, as `group/tool`.
    pub(super) named: Vec<String>,
    /// Those of them that it may not call.
    pub(super) missing: Vec<String>,
    /// Lines for `hostelry.toml` that grant what is missing; empty if nothing is.
    pub(super) lines: Vec<String>,
}

impl Grants {
    /// What `bytes` names, and its trial turn took, beside what `tenant` grants. `may` are the tools that it may call.
    pub(super) fn new(bytes: &[u8], trial: Option<&Trial>, tenant: (&str, &TenantConfig), may: &[String]) -> Self {
        let tool = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let named: Vec<String> = tools::paths()
            .into_iter()
            .filter(|path| {
                let name = tool(path);
                holds(bytes, name.as_bytes()) || trial.is_some_and(|trial| trial.tools.contains(&name))
            })
            .collect();
        let missing: Vec<String> = named.iter().filter(|path| !may.contains(&tool(path))).cloned().collect();
        let (name, config) = tenant;
        let mut lines = Vec::new();
        if !missing.is_empty() {
            let all: Vec<String> = config.tools.iter().chain(&missing).map(|path| format!("{path:?}")).collect();
            lines.push(format!("tools = [{}]", all.join(", ")));
        }
        if missing.iter().any(|path| path == "http/fetch_image") && config.http.is_empty() {
            lines.push("http = [\"images.example.com\"]  # the hosts that it may fetch images from".to_owned());
        }
        lines.extend(trial.map(|trial| limits(trial, &config.limits)).unwrap_or_default());
        if !lines.is_empty() {
            lines.insert(0, format!("[tenants.{name}]"));
        }
        Self { named, missing, lines }
    }
}

/// The limits that a turn passed, raised so that it has room.
fn limits(trial: &Trial, limits: &Limits) -> Vec<String> {
    let mut lines = Vec::new();
    if trial.memory > limits.memory as u64 {
        lines.push(format!("limits.memory = \"{}\"", memory_for(trial.memory)));
    }
    if trial.cpu > limits.cpu_time {
        let mut line = String::new();
        // Writing to a string cannot fail.
        let _infallible = write!(line, "limits.cpu-time = \"{}s\"", trial.cpu.as_secs() * ROOM + 1);
        lines.push(line);
    }
    lines
}

/// A limit under which so much memory has room.
pub(super) fn memory_for(bytes: u64) -> String {
    format!("{}MiB", (bytes * ROOM).div_ceil(MIB).next_power_of_two())
}

/// Whether `name` stands anywhere in `bytes`. Compilers put texts side by side, so that nothing tells where one begins.
fn holds(bytes: &[u8], name: &[u8]) -> bool {
    bytes.windows(name.len().max(1)).any(|window| window == name)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::check::trial::End;

    fn trial(memory: u64, cpu: Duration) -> Trial {
        Trial { end: End::Answered, took: cpu, first: None, cpu, memory, events: 1, tools: Vec::new() }
    }

    #[test]
    fn what_is_named_and_not_granted_is_ready_to_be_pasted() {
        let tenant = TenantConfig { tools: vec!["device/*".to_owned()], ..TenantConfig::default() };
        let may = ["take_photo".to_owned()];
        let bytes = b"..take_photoReadFilefetch_image..";
        let grants = Grants::new(bytes, None, ("acme", &tenant), &may);
        assert_eq!(grants.named, ["device/take_photo", "workspace/ReadFile", "http/fetch_image"]);
        assert_eq!(grants.missing, ["workspace/ReadFile", "http/fetch_image"]);
        assert_eq!(
            grants.lines[..2],
            ["[tenants.acme]", "tools = [\"device/*\", \"workspace/ReadFile\", \"http/fetch_image\"]"]
        );
        assert!(grants.lines[2].starts_with("http = "));
        assert_eq!(Grants::new(b"take_photo", None, ("acme", &tenant), &may).lines, Vec::<String>::new());
    }

    #[test]
    fn limits_that_a_turn_passed_are_raised() {
        let tenant = TenantConfig::default();
        let small = trial(64 * MIB, Duration::from_secs(2));
        assert_eq!(Grants::new(b"", Some(&small), ("acme", &tenant), &[]).lines, Vec::<String>::new());
        let large = trial(65 * MIB, Duration::from_millis(2500));
        let lines = Grants::new(b"", Some(&large), ("acme", &tenant), &[]).lines;
        assert_eq!(lines, ["[tenants.acme]", "limits.memory = \"256MiB\"", "limits.cpu-time = \"5s\""]);
    }
}
