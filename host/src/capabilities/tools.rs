//! `call-tool`: which tools a turn has, and how a call of one goes: announced, checked, run within its time, and its end
//! announced, whatever came of it.

use std::sync::LazyLock;

use serde_json::Value;
use tokio::time::Instant;

use self::schema::{Schema, ToolSpec};
use super::TurnState;
use crate::{
    bindings::types::{Tool, ToolError},
    config::{AgentConfig, TenantConfig},
    limit::Limit,
    script::{self, EmitFault},
};

pub mod device;
pub mod image;
pub mod schema;
pub mod workspace;

/// The longest name of a tool, as models require it.
const NAME_MAX: usize = 64;

/// The groups of tools that the host brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Device,
    Workspace,
    Http,
}

impl Group {
    const fn name(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Workspace => "workspace",
            Self::Http => "http",
        }
    }
}

/// One tool that the host brings.
struct Entry {
    group: Group,
    spec: &'static ToolSpec,
    schema: Schema,
}

/// All tools that the host brings, by group.
static ENTRIES: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let groups = [(Group::Device, device::TOOLS), (Group::Workspace, workspace::TOOLS), (Group::Http, image::TOOLS)];
    let all = groups.into_iter().flat_map(|(group, specs)| specs.iter().map(move |spec| (group, spec)));
    all.map(|(group, spec)| Entry { group, spec, schema: Schema::new(spec) }).collect()
});

/// The tools of one turn.
pub struct ToolBox {
    granted: Vec<&'static Entry>,
    hosts: Vec<String>,
    device: bool,
}

impl ToolBox {
    /// What the tenant's entry allows of what the agent asks for. Device tools are there only where a device is.
    pub fn new(tenant: &TenantConfig, agent: &AgentConfig, device: bool) -> Self {
        let granted = ENTRIES.iter().filter(|entry| {
            let path = format!("{}/{}", entry.group.name(), entry.spec.name);
            let asked = agent.tools.as_ref().is_none_or(|patterns| any_matches(patterns, &path));
            (device || entry.group != Group::Device) && asked && any_matches(&tenant.tools, &path)
        });
        let asked = |host: &&String| agent.http.as_ref().is_none_or(|hosts| hosts.contains(host));
        let hosts = tenant.http.iter().filter(asked).cloned().collect();
        Self { granted: granted.collect(), hosts, device }
    }

    /// The tools, as the contract shows them.
    pub fn list(&self) -> Vec<Tool> {
        let tool = |entry: &&Entry| Tool {
            name: entry.spec.name.to_owned(),
            description: entry.spec.description.to_owned(),
            parameters: entry.spec.parameters.to_owned(),
        };
        self.granted.iter().map(tool).collect()
    }

    /// The tool of this name, or why this turn has none.
    fn find(&self, name: &str) -> Result<&'static Entry, ToolError> {
        if let Some(entry) = self.granted.iter().find(|entry| entry.spec.name == name) {
            return Ok(entry);
        }
        let known = ENTRIES.iter().find(|entry| entry.spec.name == name);
        match known.as_ref().filter(|entry| self.device || entry.group != Group::Device) {
            Some(entry) => Err(ToolError::Denied(format!(
                "{name} is not granted; hint: add \"{group}/{name}\" or \"{group}/*\" to `tools` of the tenant's entry \
                 in hostelry.toml, and of the file beside the component if it lists tools",
                group = entry.group.name(),
            ))),
            None if known.is_some() => {
                Err(ToolError::Unknown(format!("{name} is a device's tool, and this client is no device")))
            }
            None => Err(ToolError::Unknown(format!("there is no tool `{name}` in this turn"))),
        }
    }
}

/// Every tool that the host brings, as patterns name it: `group/tool`.
pub fn paths() -> Vec<String> {
    ENTRIES.iter().map(|entry| format!("{}/{}", entry.group.name(), entry.spec.name)).collect()
}

/// Whether a pattern means any tool that the host brings.
pub fn is_known(pattern: &str) -> bool {
    paths().iter().any(|path| matches(pattern, path))
}

/// Whether one of the patterns matches: `*` stands for any text.
fn any_matches(patterns: &[String], path: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, path))
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some((head, tail)) => path.strip_prefix(head).is_some_and(|rest| {
            let mut ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
            ends.any(|at| rest.get(at..).is_some_and(|rest| matches(tail, rest)))
        }),
    }
}

/// Whether `name` can be a tool's: `[A-Za-z0-9_-]{1,64}`.
fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
}

/// Calls a tool for a guest.
pub(super) async fn call(state: &mut TurnState, name: &str, args: &str) -> Result<String, ToolError> {
    if !is_name(name) {
        let shown = crate::text::visible(crate::text::head(name, NAME_MAX));
        return Err(ToolError::Unknown(format!("`{shown}` is no tool's name: those match [A-Za-z0-9_-]{{1,64}}")));
    }
    if state.tool_calls >= state.limits.tool_calls {
        state.tally.strike(Limit::ToolCalls);
        return Err(ToolError::Denied(format!("tool-calls: a turn may call {} tools", state.limits.tool_calls)));
    }
    state.tool_calls += 1;
    state.tally.tool_call();
    let object = script::args::object(args);
    let shown = object.as_deref().unwrap_or("{}");
    // Shown at the start and at the end.
    let output = state.output.saturating_add(2 * (name.len() + shown.len()));
    if output > state.limits.output {
        state.tally.strike(Limit::Output);
        return Err(ToolError::Denied(format!("output: a turn may show {} bytes of text", state.limits.output)));
    }
    state.tally.shown(output.saturating_sub(state.output));
    state.output = output;
    let pair = state.outbox.tool_start(name, shown).await.map_err(|fault| match fault {
        EmitFault::Closed => ToolError::Failed("the client is gone".to_owned()),
        EmitFault::Refused(refusal) => ToolError::Denied(state.told(refusal)),
    })?;
    let time = state.limits.tool_time;
    let began = Instant::now();
    let result = match object {
        Ok(_) => tokio::time::timeout(time, run(state, name, args)).await.unwrap_or_else(|_| {
            state.tally.strike(Limit::ToolTime);
            Err(ToolError::Timeout)
        }),
        Err(why) => Err(ToolError::InvalidArgs(format!("args: {why}"))),
    };
    let result = result.and_then(|answer| {
        let most = state.limits.tool_result;
        if answer.len() <= most {
            return Ok(answer);
        }
        state.tally.strike(Limit::ToolResult);
        Err(ToolError::Failed(format!("tool-result: the answer has {} bytes; a turn may take {most}", answer.len())))
    });
    state.outbox.tool_end(pair);
    // A name that nobody gave the guest may be anything that it was told.
    let known = ENTRIES.iter().any(|entry| entry.spec.name == name);
    let call = if known { format!("call-tool {name}") } else { "call-tool".to_owned() };
    state.tally.called(call, outcome(&result), began.elapsed());
    tracing::debug!(tool = name, outcome = outcome(&result), "tool called");
    result
}

/// Finds, checks and runs a tool.
async fn run(state: &mut TurnState, name: &str, args: &str) -> Result<String, ToolError> {
    let entry = state.ctx.tools.find(name)?;
    let text = if args.trim().is_empty() { "{}" } else { args };
    let args: Value = serde_json::from_str(text).map_err(|why| ToolError::InvalidArgs(format!("args: {why}")))?;
    entry.schema.check(&args).map_err(ToolError::InvalidArgs)?;
    let answer = match entry.group {
        Group::Device => {
            let command = device::command(name, &args).map_err(ToolError::InvalidArgs)?;
            state.outbox.device(&command);
            serde_json::json!({ "status": "sent" })
        }
        Group::Workspace => {
            let work_dir = state.fact("work-dir").await;
            workspace::run(name, &args, &state.ctx, work_dir.as_deref(), &state.tally).await?
        }
        Group::Http => image::run(&args, &state.ctx.tools.hosts, &state.ctx.http).await?,
    };
    Ok(answer.to_string())
}

fn outcome(result: &Result<String, ToolError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(ToolError::Unknown(_)) => "unknown",
        Err(ToolError::Denied(_)) => "denied",
        Err(ToolError::InvalidArgs(_)) => "invalid-args",
        Err(ToolError::Timeout) => "timeout",
        Err(ToolError::Failed(_)) => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_in_a_grant_stands_for_any_text() {
        for (pattern, path, fits) in [
            ("workspace/*", "workspace/WriteFile", true),
            ("workspace/*", "device/take_photo", false),
            ("*", "device/take_photo", true),
            ("device/take_*", "device/take_photo", true),
            ("*/take_photo", "device/take_photo", true),
            ("device/take_photo", "device/take_photo2", false),
            ("", "device/take_photo", false),
        ] {
            assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn a_turn_has_what_its_tenant_allows_of_what_its_agent_asks_for() {
        let tenant =
            TenantConfig { tools: vec!["workspace/*".to_owned(), "device/*".to_owned()], ..TenantConfig::default() };
        let mut agent = AgentConfig::default();
        let names = |tools: &ToolBox| tools.list().into_iter().map(|tool| tool.name).collect::<Vec<_>>();
        assert!(names(&ToolBox::new(&tenant, &agent, true)).contains(&"take_photo".to_owned()));
        assert!(!names(&ToolBox::new(&tenant, &agent, false)).contains(&"take_photo".to_owned()));
        agent.tools = Some(vec!["workspace/ReadFile".to_owned(), "http/*".to_owned()]);
        let tools = ToolBox::new(&tenant, &agent, true);
        assert_eq!(names(&tools), ["ReadFile"]);
        assert!(matches!(tools.find("WriteFile"), Err(ToolError::Denied(why)) if why.contains("workspace/WriteFile")));
        assert!(matches!(tools.find("send_toast"), Err(ToolError::Unknown(_))));
        assert!(matches!(ToolBox::new(&tenant, &agent, false).find("take_photo"), Err(ToolError::Unknown(_))));
    }

    #[test]
    fn every_tool_has_a_name_that_models_take_and_no_two_share_one() {
        let mut names: Vec<_> = ENTRIES.iter().map(|entry| entry.spec.name).collect();
        assert!(names.iter().all(|name| is_name(name)));
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
