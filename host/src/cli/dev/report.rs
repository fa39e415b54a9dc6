//! A turn's figures, where it would have passed a host's limits, and why it failed: in words for the agent's author.

use std::{fmt::Write as _, time::Duration};

use bytesize::ByteSize;

use super::paper::{BAD, DIM, WARN};
use crate::{
    config::Limits,
    records::{Cause, Wreck},
    text,
    turn::Ended,
};

/// How many digits of a version are shown, as in the host's log.
const VERSION: usize = 12;

/// How many of a guest's frames are shown unless all are asked for.
const FRAMES: usize = 12;

/// All that is said of a turn that has ended. `allowed` is what a host allows unless its operator says otherwise, and
/// `endpoint` the time that its Lingzhu endpoint does. `whole` asks for everything that is known of a failure.
pub(super) fn turn(ended: &Ended, allowed: &Limits, endpoint: Duration, whole: bool) -> String {
    let mut page = String::new();
    if let Some(wreck) = &ended.wreck {
        failure(&mut page, wreck, whole);
    }
    let time = if ended.record.protocol == "lingzhu" { allowed.turn_time.min(endpoint) } else { allowed.turn_time };
    for strike in strikes(ended, allowed, time) {
        // Writing to a string cannot fail.
        let _infallible = writeln!(page, "{WARN}{strike}{WARN:#}");
    }
    let _infallible = write!(page, "{DIM}{}{DIM:#}", figures(ended));
    page
}

/// One line: events by kind, times, memory, version.
fn figures(ended: &Ended) -> String {
    let record = &ended.record;
    let mut events: Vec<_> = ended.kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    events.extend((record.tool_calls > 0).then(|| format!("tool calls {}", record.tool_calls)));
    events.extend((ended.refused > 0).then(|| format!("not taken {}", ended.refused)));
    let events = if events.is_empty() { "no events".to_owned() } else { events.join(", ") };
    let first = ended.first.map_or_else(|| "nothing shown".to_owned(), |first| format!("first event {}", span(first)));
    format!(
        "{events} · {first} · {} in all · CPU {} · memory {} · version {}",
        span(record.took),
        span(record.cpu),
        size(record.memory),
        text::head(&record.version, VERSION)
    )
}

/// Where the turn went past what a host allows, and which bounds it ran into here.
fn strikes(ended: &Ended, allowed: &Limits, time: Duration) -> Vec<String> {
    let record = &ended.record;
    let mut all = Vec::new();
    let mut passed = |passes: bool, used: String, allows: String, key: &str| {
        if passes {
            all.push(format!("this turn {used}; a host allows {allows} (limits.{key})"));
        }
    };
    let taken = format!("took {} of CPU time", span(record.cpu));
    passed(record.cpu > allowed.cpu_time, taken, span(allowed.cpu_time), "cpu-time");
    let memory = allowed.memory as u64;
    passed(record.memory > memory, format!("held {} of memory", size(record.memory)), size(memory), "memory");
    passed(record.took > time, format!("took {}", span(record.took)), span(time), "turn-time");
    let events = u64::from(allowed.events);
    passed(record.events > events, format!("emitted {} events", record.events), events.to_string(), "events");
    let output = allowed.output as u64;
    passed(record.output > output, format!("showed {} of text", size(record.output)), size(output), "output");
    let calls = u64::from(allowed.tool_calls);
    passed(record.tool_calls > calls, format!("called {} tools", record.tool_calls), calls.to_string(), "tool-calls");
    let ended_by = match record.cause {
        Cause::Limit(limit) => Some(limit),
        _ => None,
    };
    let met: Vec<_> = ended.limits.iter().filter(|limit| Some(**limit) != ended_by).map(|limit| limit.name()).collect();
    if !met.is_empty() {
        all.push(format!("this turn ran into a limit: {}", met.join(", ")));
    }
    all
}

/// Why a turn failed, and where the guest was.
fn failure(page: &mut String, wreck: &Wreck, whole: bool) {
    let Wreck { detail, backtrace, events, calls, .. } = wreck;
    let mut line = |line: &str| page.extend([line, "\n"]);
    let mut lines = detail.lines();
    line(&format!("{BAD}✗ {}{BAD:#}", text::visible(lines.next().unwrap_or_default())));
    lines.for_each(|more| line(&format!("{BAD}  {}{BAD:#}", text::visible(more))));
    let most = if whole { backtrace.len() } else { FRAMES };
    backtrace.iter().take(most).for_each(|frame| line(&format!("    at {frame}")));
    if let Some(more) = backtrace.len().checked_sub(most).filter(|more| *more > 0) {
        line(&format!("    {DIM}and {more} more; -v shows all{DIM:#}"));
    }
    if !backtrace.is_empty() && backtrace.iter().all(|frame| is_nameless(frame)) {
        line(&format!("    {DIM}no function has a name: the build takes names out of the component (strip){DIM:#}"));
    }
    if whole {
        for (heading, items) in [("last events", events), ("last host calls", calls)] {
            if !items.is_empty() {
                line(&format!("  {DIM}{heading}, oldest first{DIM:#}"));
                for item in items {
                    line(&format!("    {DIM}{}{DIM:#}", text::visible(item)));
                }
            }
        }
    }
}

/// Whether a frame's function has no name but its number.
fn is_nameless(frame: &str) -> bool {
    frame.rsplit_once(": function ").is_some_and(|(_, number)| number.bytes().all(|digit| digit.is_ascii_digit()))
}

/// A time in the unit in which it is read at a glance.
pub(super) fn span(time: Duration) -> String {
    match time {
        time if time < Duration::from_millis(10) => format!("{:.1} ms", time.as_secs_f64() * 1000.0),
        time if time < Duration::from_secs(1) => format!("{} ms", time.as_millis()),
        time if time.subsec_millis() == 0 || time >= Duration::from_mins(2) => format!("{} s", time.as_secs()),
        time => format!("{:.1} s", time.as_secs_f64()),
    }
}

/// Bytes in the unit in which they are read at a glance.
pub(super) fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ids::AgentId, limit::Limit, records::TurnRecord};

    fn ended() -> Ended {
        let record = TurnRecord {
            id: "abcdefgh01234567".to_owned(),
            agent: AgentId { tenant: "default".to_owned(), agent: "hello".to_owned() },
            version: "0f".repeat(32),
            protocol: "mythra",
            at: jiff::Timestamp::UNIX_EPOCH,
            took: Duration::from_millis(45),
            cpu: Duration::from_micros(1234),
            memory: 1_114_112,
            events: 4,
            output: 12,
            tool_calls: 1,
            cause: Cause::Answered,
        };
        let (kinds, first) = (vec![("think", 1), ("chat", 3)], Some(Duration::from_micros(2900)));
        Ended { session: "s".to_owned(), record, kinds, refused: 0, first, limits: Vec::new(), wreck: None }
    }

    fn plain(ended: &Ended, whole: bool) -> String {
        let page = turn(ended, &Limits::default(), Duration::from_secs(45), whole);
        anstream::adapter::strip_str(&page).to_string()
    }

    #[test]
    fn a_good_turn_has_one_line() {
        let line = "think 1, chat 3, tool calls 1 · first event 2.9 ms · 45 ms in all · CPU 1.2 ms · memory 1.1 MiB · \
                    version 0f0f0f0f0f0f";
        assert_eq!(plain(&ended(), false), line);
        let silent = Ended { kinds: Vec::new(), refused: 2, first: None, ..ended() };
        assert!(plain(&silent, false).starts_with("tool calls 1, not taken 2 · nothing shown"));
    }

    #[test]
    fn what_a_host_would_not_have_allowed_is_said_with_its_key() {
        let mut greedy = ended();
        greedy.record.cpu = Duration::from_millis(3100);
        greedy.record.memory = 80 << 20;
        greedy.record.took = Duration::from_secs(50);
        greedy.record.events = 10_001;
        greedy.record.output = 5 << 20;
        greedy.record.tool_calls = 65;
        greedy.limits = vec![Limit::Log];
        let mythra = [
            "this turn took 3.1 s of CPU time; a host allows 2 s (limits.cpu-time)",
            "this turn held 80.0 MiB of memory; a host allows 64.0 MiB (limits.memory)",
            "this turn emitted 10001 events; a host allows 10000 (limits.events)",
            "this turn showed 5.0 MiB of text; a host allows 4.0 MiB (limits.output)",
            "this turn called 65 tools; a host allows 64 (limits.tool-calls)",
            "this turn ran into a limit: log",
        ];
        assert_eq!(plain(&greedy, false).lines().take(6).collect::<Vec<_>>(), mythra);
        greedy.record.protocol = "lingzhu";
        assert!(plain(&greedy, false).contains("this turn took 50 s; a host allows 45 s (limits.turn-time)"));
    }

    #[test]
    fn a_failure_is_told_with_its_frames_and_more_if_asked() {
        let frames = (0..14).map(|n| format!("hello: f{n} at src/lib.rs:{n}")).collect();
        let wreck = Wreck {
            detail: "the guest trapped: unreachable\u{1b}\nsecond".to_owned(),
            backtrace: frames,
            events: vec!["chat, 1 bytes: taken".to_owned()],
            ..Wreck::default()
        };
        let mut failed = Ended { wreck: Some(wreck), ..ended() };
        failed.record.cause = Cause::Trap;
        let page = plain(&failed, false);
        assert!(page.starts_with("✗ the guest trapped: unreachable\\u{1b}\n  second\n    at hello: f0 at"), "{page}");
        assert!(page.contains("and 2 more; -v shows all") && !page.contains("f13") && !page.contains("last events"));
        let page = plain(&failed, true);
        assert!(page.contains("f13") && page.contains("last events, oldest first\n    chat, 1 bytes: taken"), "{page}");
        if let Some(wreck) = &mut failed.wreck {
            wreck.backtrace = vec!["module: function 12".to_owned()];
        }
        assert!(plain(&failed, false).contains("no function has a name"));
    }

    #[test]
    fn the_limit_that_ended_a_turn_is_not_told_twice() {
        let mut struck = Ended { limits: vec![Limit::CpuTime], wreck: Some(Wreck::default()), ..ended() };
        struck.record.cause = Cause::Limit(Limit::CpuTime);
        assert!(!plain(&struck, false).contains("ran into"));
    }
}
