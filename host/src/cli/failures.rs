//! `hostelry failures`: the turns that failed, and what is known of why, read from a host's data folder, whether or not
//! the host runs. Nothing is changed there.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use anstyle::Style;
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use super::Exit;
use crate::{
    config::{self, Config},
    records::{Card, FAILURES_MAX, Failure, FailureQuery, PREFIX_MIN, Records},
    server::{FailureCard, Failures},
    text,
};

/// The configuration that is read if it is there and none is named.
const CONFIG: &str = "hostelry.toml";

/// The longest reason in the list, in bytes; all of it is with the failure itself.
const REASON_MAX: usize = 80;

/// The width of the left column of one failure.
const LABEL: usize = 16;

const DIM: Style = Style::new().dimmed();

/// What `failures` takes.
#[derive(Debug, Args)]
pub struct FailuresArgs {
    /// One failure, by its id or the first eight characters of it, as clients are shown them
    #[arg(value_name = "ID", conflicts_with_all = ["tenant", "agent", "limit"])]
    pub id: Option<String>,
    /// Only this tenant's
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// Only this agent's
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// How many, at most 1000
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
    /// The host's data folder [default: what the configuration says, or data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The host's configuration [default: hostelry.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Prints the failures, or the one.
pub(super) fn run(args: &FailuresArgs) -> Exit {
    let data = match data(args) {
        Ok(data) => data,
        Err(faults) => {
            for fault in &faults.0 {
                anstream::eprintln!("error: {}", text::visible(fault));
            }
            return Exit::Usage;
        }
    };
    match print(args, &data) {
        Ok(exit) => exit,
        Err(error) => {
            anstream::eprintln!("error: {error}");
            Exit::Failed
        }
    }
}

/// The folder to read.
fn data(args: &FailuresArgs) -> Result<PathBuf, config::Faults> {
    if let Some(data) = &args.data {
        return Ok(data.clone());
    }
    let config = match &args.config {
        Some(path) => config::read_file(path)?,
        None if Path::new(CONFIG).exists() => config::read_file(Path::new(CONFIG))?,
        None => Config::default(),
    };
    Ok(config.data)
}

fn print(args: &FailuresArgs, data: &Path) -> anyhow::Result<Exit> {
    let reader = Records::read(data)?;
    let Some(id) = &args.id else {
        let limit = usize::from(args.limit).min(FAILURES_MAX);
        let query = FailureQuery { tenant: args.tenant.clone(), agent: args.agent.clone(), limit };
        let failures = reader.failures(&query)?;
        if args.json {
            anstream::println!("{}", json(&Failures::from(failures))?);
        } else if failures.is_empty() {
            anstream::eprintln!("no turn has failed, as far as is kept in {}", shown(data));
        } else {
            anstream::print!("{}", list(&failures));
        }
        return Ok(Exit::Clean);
    };
    match reader.failure(id)? {
        Some(card) if args.json => anstream::println!("{}", json(&FailureCard::from(card))?),
        Some(card) => anstream::print!("{}", whole(&card)),
        None => {
            anstream::eprintln!(
                "error: no failure `{}` is kept in {}\nhint: say at least the first {PREFIX_MIN} characters of its id; \
                 `hostelry failures` lists those that are",
                text::visible(id),
                shown(data)
            );
            return Ok(Exit::Failed);
        }
    }
    Ok(Exit::Clean)
}

fn json(value: &impl Serialize) -> serde_json::Result<String> {
    serde_json::to_string(value)
}

fn shown(path: &Path) -> String {
    text::visible(&path.display().to_string())
}

/// A line for each: when, which, whose, what, and the beginning of why.
fn list(failures: &[Failure]) -> String {
    let agent = |failure: &Failure| text::visible(&format!("{}/{}", failure.tenant, failure.agent));
    let cause = |failure: &Failure| text::visible(&cause(failure));
    let width = |column: &dyn Fn(&Failure) -> String| {
        failures.iter().map(|failure| column(failure).chars().count()).max().unwrap_or(0)
    };
    let (agents, causes) = (width(&agent), width(&cause));
    let mut page = String::new();
    for failure in failures {
        let (agent, cause) = (agent(failure), cause(failure));
        let id: String = text::visible(&failure.id).chars().take(PREFIX_MIN).collect();
        let reason = failure.detail.lines().next().unwrap_or_default();
        let short = text::head(reason, REASON_MAX);
        let more = if short.len() < failure.detail.len() { "…" } else { "" };
        let line =
            format!("{}  {id}  {agent:agents$}  {cause:causes$}  {}{more}", time(failure.at), text::visible(short));
        page.push_str(line.trim_end());
        page.push('\n');
    }
    page
}

/// All that is kept of one.
fn whole(card: &Card) -> String {
    let failure = &card.failure;
    let mut page = String::new();
    let mut row = |label: &str, value: &str| {
        // Writing to a string cannot fail.
        let _infallible = writeln!(page, "{DIM}{label:LABEL$}{DIM:#}{}", text::visible(value));
    };
    row("turn", &failure.id);
    row("ended", &failure.at.to_string());
    row("agent", &format!("{}/{}", failure.tenant, failure.agent));
    row("version", &failure.version);
    row("protocol", &failure.protocol);
    row("cause", &cause(failure));
    row("took", &format!("{:?}, of it {:?} of CPU time", failure.took, failure.cpu));
    row("memory", &bytesize::ByteSize::b(failure.memory).display().iec().to_string());
    let counts =
        format!("{} events, {} bytes of text, {} tool calls", failure.events, failure.output, failure.tool_calls);
    row("used", &counts);
    if !card.limits.is_empty() {
        row("ran into", &card.limits.join(", "));
    }
    block(&mut page, "why", failure.detail.lines());
    block(&mut page, "backtrace, innermost first", card.backtrace.iter().map(String::as_str));
    block(&mut page, "last events, oldest first", card.last_events.iter().map(String::as_str));
    block(&mut page, "last host calls, oldest first", card.calls.iter().map(String::as_str));
    block(&mut page, "what was said", card.text.iter().flat_map(|text| text.lines()));
    page
}

/// A heading with lines below it; nothing if there are none.
fn block<'a>(page: &mut String, heading: &str, lines: impl Iterator<Item = &'a str>) {
    let lines: Vec<String> = lines.map(|line| format!("  {}\n", text::visible(line))).collect();
    if !lines.is_empty() {
        let _infallible = writeln!(page, "\n{DIM}{heading}{DIM:#}");
        page.extend(lines);
    }
}

/// What kind of failure, and the limit if one ended it.
fn cause(failure: &Failure) -> String {
    match &failure.limit {
        Some(limit) => format!("{} {limit}", failure.cause),
        None => failure.cause.clone(),
    }
}

/// A time to the second.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failure(id: &str, limit: Option<&str>, detail: &str) -> Failure {
        Failure {
            id: id.to_owned(),
            at: "2026-12-01T12:00:00.123Z".parse().unwrap(),
            tenant: "acme".to_owned(),
            agent: "echo".to_owned(),
            version: "0f0f".to_owned(),
            protocol: "mythra".to_owned(),
            cause: if limit.is_some() { "limit" } else { "trap" }.to_owned(),
            limit: limit.map(str::to_owned),
            took: Duration::from_millis(2013),
            cpu: Duration::from_secs(2),
            memory: 64 * 1024 * 1024,
            events: 3,
            output: 11,
            tool_calls: 1,
            detail: detail.to_owned(),
        }
    }

    #[test]
    fn the_list_has_a_line_for_each_that_no_text_of_a_guest_breaks() {
        let failures = [
            failure("abcdefgh01234567", Some("cpu-time"), "cpu-time: it used 2 s"),
            failure("bbcdefgh01234567", None, "unreachable\u{1b}[31m\nsecond line"),
        ];
        let expected = "2026-12-01T12:00:00Z  abcdefgh  acme/echo  limit cpu-time  cpu-time: it used 2 s\n\
            2026-12-01T12:00:00Z  bbcdefgh  acme/echo  trap            unreachable\\u{1b}[31m…\n";
        assert_eq!(list(&failures), expected);
        let long = list(&[failure("abcdefgh01234567", None, &"x".repeat(4096))]);
        assert!(long.len() < 200 && long.ends_with("x…\n"), "{long}");
    }

    #[test]
    fn one_failure_is_told_in_full() {
        let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let card = Card {
            failure: failure("abcdefgh01234567", Some("cpu-time"), "one\ntwo\u{7}"),
            limits: lines(&["log", "cpu-time"]),
            backtrace: lines(&["spin", "handle"]),
            last_events: Vec::new(),
            calls: lines(&["log"]),
            text: None,
        };
        let expected = "turn            abcdefgh01234567\n\
            ended           2026-12-01T12:00:00.123Z\n\
            agent           acme/echo\n\
            version         0f0f\n\
            protocol        mythra\n\
            cause           limit cpu-time\n\
            took            2.013s, of it 2s of CPU time\n\
            memory          64.0 MiB\n\
            used            3 events, 11 bytes of text, 1 tool calls\n\
            ran into        log, cpu-time\n\n\
            why\n  one\n  two\\u{7}\n\n\
            backtrace, innermost first\n  spin\n  handle\n\n\
            last host calls, oldest first\n  log\n";
        assert_eq!(anstream::adapter::strip_str(&whole(&card)).to_string(), expected);
    }
}
