//! What must hold of the steps whatever a guest does, and what single events do.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::{
    bindings::types::{Custom, Iteration, ToolRun},
    script::Failure,
};

/// A step as a short word, with pairs by number, for comparing.
fn word(step: &Step<'_>) -> String {
    let edge = |edge: &Edge| if *edge == Edge::Start { "+" } else { "-" };
    match step {
        Step::Stream { pair, stream, edge: e } => format!("{stream:?}{}{}", edge(e), pair.0),
        Step::Delta { pair, text, .. } => format!("{text}@{}", pair.0),
        Step::Iteration { pair, edge: e, label } => format!("iteration {label}{}{}", edge(e), pair.0),
        Step::Model { pair, edge: e } => format!("model{}{}", edge(e), pair.0),
        Step::Tool { pair, edge: e, name, args } => format!("{name}{args}{}{}", edge(e), pair.0),
        Step::Device(command) => command.command.to_owned(),
        Step::Fault(text) => format!("fault {text}"),
        Step::Finish { outcome, failed, follow_up } => {
            let outcome = if **outcome == Outcome::Done { "done" } else { "failed" };
            let failed = failed.map(|pair| format!(" at {}", pair.0)).unwrap_or_default();
            format!("{outcome}{failed}{}", if follow_up.is_empty() { String::new() } else { format!(" {follow_up:?}") })
        }
    }
}

/// The steps of these events, then of an end.
fn play(events: &[Event], outcome: &Outcome) -> Vec<String> {
    let mut script = Script::new();
    let mut words = Vec::new();
    let mut out = |step: &Step<'_>| words.push(word(step));
    for event in events {
        script.event(event, &mut out).unwrap();
    }
    script.finish(outcome, &mut out);
    words
}

fn chat(text: &str) -> Event {
    Event::Chat(Output::Delta(text.to_owned()))
}

fn think(text: &str) -> Event {
    Event::Think(Output::Delta(text.to_owned()))
}

fn run(phase: Phase, name: &str, args: &str) -> Event {
    Event::ToolRun(ToolRun { phase, name: name.to_owned(), args: args.to_owned() })
}

fn iteration(phase: Phase, label: &str) -> Event {
    Event::Iteration(Iteration { phase, label: label.to_owned() })
}

#[test]
fn a_delta_opens_its_stream_and_the_end_closes_it() {
    assert_eq!(play(&[chat("a"), chat("b")], &Outcome::Done), ["Chat+1", "a@1", "b@1", "Chat-1", "done"]);
}

#[test]
fn a_stream_that_opens_closes_the_other() {
    assert_eq!(
        play(&[think("t"), chat("a"), think("u")], &Outcome::Done),
        ["Think+1", "t@1", "Think-1", "Chat+2", "a@2", "Chat-2", "Think+3", "u@3", "Think-3", "done"]
    );
}

#[test]
fn a_second_end_an_empty_delta_and_an_end_without_a_start_show_nothing() {
    let events = [Event::Think(Output::End), chat("a"), chat(""), Event::Chat(Output::End), Event::Chat(Output::End)];
    assert_eq!(play(&events, &Outcome::Done), ["Chat+1", "a@1", "Chat-1", "done"]);
}

#[test]
fn an_announced_tool_keeps_its_arguments_to_its_end() {
    let events = [run(Phase::Start, "Search", r#"{"q": 1}"#), run(Phase::End, "Search", "")];
    assert_eq!(play(&events, &Outcome::Done), [r#"Search{"q":1}+1"#, r#"Search{"q":1}-1"#, "done"]);
    let events = [run(Phase::End, "Search", "[1]"), run(Phase::End, "Search", "")];
    assert_eq!(
        play(&events, &Outcome::Done),
        [r#"Search{"value":[1]}+1"#, r#"Search{"value":[1]}-1"#, "done"],
        "a missing start is added, a second end dropped"
    );
}

#[test]
fn a_failure_closes_what_is_open_innermost_first_and_names_what_failed() {
    let events = [
        iteration(Phase::Start, "0"),
        Event::ModelInvocation(Phase::Start),
        Event::FollowUp(vec!["why?".to_owned()]),
        chat("a"),
    ];
    assert_eq!(
        play(&events, &Outcome::Failed(Failure::General(None))),
        ["iteration 0+1", "model+2", "Chat+3", "a@3", "Chat-3", "model-2", "iteration 0-1", "failed at 3"],
        "and asks nothing more"
    );
}

#[test]
fn the_last_follow_up_wins_and_comes_at_the_end() {
    let ask = |questions: &[&str]| Event::FollowUp(questions.iter().map(|&question| question.to_owned()).collect());
    let events = [ask(&["a", " ", "b"]), chat("x"), ask(&["c"; 20])];
    let words = play(&events, &Outcome::Done);
    assert_eq!(words.last().unwrap(), &format!("done {:?}", ["c"; FOLLOW_UP_MAX]));
}

#[test]
fn a_host_tool_is_ended_by_its_pair_even_beside_one_of_the_same_name() {
    let mut script = Script::new();
    let mut words = Vec::new();
    let mut out = |step: &Step<'_>| words.push(word(step));
    let first = script.tool_start("Read", "{}", &mut out).unwrap();
    script.event(&run(Phase::Start, "Read", "{}"), &mut out).unwrap();
    script.tool_end(first, &mut out);
    script.tool_end(first, &mut out);
    script.finish(&Outcome::Done, &mut out);
    script.tool_end(first, &mut out);
    assert_eq!(words, ["Read{}+1", "Read{}+2", "Read{}-1", "Read{}-2", "done"]);
}

#[test]
fn what_breaks_a_rule_is_refused_by_name_and_shows_nothing() {
    let mut script = Script::new();
    let mut steps = 0;
    let mut out = |_: &Step<'_>| steps += 1;
    for (event, named) in [
        (run(Phase::Start, "x", "{"), "tool-run.args"),
        (run(Phase::Start, &"x".repeat(NAME_BYTES_MAX + 1), ""), "tool-run.name"),
        (iteration(Phase::Start, &"x".repeat(NAME_BYTES_MAX + 1)), "iteration.label"),
        (Event::Fault(String::new()), "fault"),
        (Event::FollowUp(vec!["x".repeat(FOLLOW_UP_BYTES_MAX + 1)]), "follow-up[0]"),
        (Event::Custom(Custom { name: "x".to_owned(), json: "nope".to_owned() }), "custom.json"),
    ] {
        let refusal = script.event(&event, &mut out).unwrap_err();
        assert!(refusal.why.starts_with(named), "{refusal}");
    }
    assert_eq!(steps, 0);
}

#[test]
fn only_so_much_is_open_at_once() {
    let mut script = Script::new();
    let mut out = |_: &Step<'_>| {};
    for label in 0..OPEN_PAIRS_MAX {
        script.event(&iteration(Phase::Start, &label.to_string()), &mut out).unwrap();
    }
    assert!(script.event(&chat("a"), &mut out).is_err());
    script.event(&iteration(Phase::End, "0"), &mut out).unwrap();
    script.event(&chat("a"), &mut out).unwrap();
}

/// What a guest may do, and what may happen to it.
#[derive(Clone, Debug)]
enum Act {
    Emit(Event),
    ToolStart,
    ToolEnd(usize),
    Device,
}

fn act() -> impl Strategy<Value = Act> {
    let text = prop_oneof![Just(String::new()), "[a-c]{1,3}", Just("你\n\"".to_owned())];
    let output = || {
        prop_oneof![
            Just(Output::Start),
            prop_oneof![Just(String::new()), ".{0,3}"].prop_map(Output::Delta),
            Just(Output::End)
        ]
    };
    let phase = || prop_oneof![Just(Phase::Start), Just(Phase::End)];
    let args = prop_oneof![Just(""), Just("{}"), Just("[1]"), Just("{\"a\":\"b\"}"), Just("nope")];
    prop_oneof![
        output().prop_map(|output| Act::Emit(Event::Think(output))),
        output().prop_map(|output| Act::Emit(Event::Chat(output))),
        (phase(), "[ab]").prop_map(|(phase, label)| Act::Emit(iteration(phase, &label))),
        phase().prop_map(|phase| Act::Emit(Event::ModelInvocation(phase))),
        (phase(), "[ab]", args).prop_map(|(phase, name, args)| Act::Emit(run(phase, &name, args))),
        prop::collection::vec(text.clone(), 0..3).prop_map(|questions| Act::Emit(Event::FollowUp(questions))),
        text.prop_map(|text| Act::Emit(Event::Fault(text))),
        Just(Act::ToolStart),
        (0..4_usize).prop_map(Act::ToolEnd),
        Just(Act::Device),
    ]
}

/// Checks steps as they come: each start has one end, deltas stand inside their open stream, one stream at a time.
#[derive(Default)]
struct Judge {
    open: HashMap<PairId, String>,
    seen: u32,
    stream: Option<PairId>,
    finished: u32,
}

impl Judge {
    fn edge(&mut self, pair: PairId, edge: Edge, what: String) {
        match edge {
            Edge::Start => {
                assert!(pair.0 > self.seen, "a pair's number is used once");
                self.seen = pair.0;
                assert_eq!(self.open.insert(pair, what), None);
            }
            Edge::End => assert_eq!(self.open.remove(&pair), Some(what), "an end repeats its start"),
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        assert_eq!(self.finished, 0, "nothing comes after the end: {step:?}");
        match step {
            Step::Stream { pair, stream, edge } => {
                if *edge == Edge::Start {
                    assert_eq!(self.stream.replace(*pair), None, "two streams are open at once");
                } else {
                    assert_eq!(self.stream.take(), Some(*pair));
                }
                self.edge(*pair, *edge, format!("{stream:?}"));
            }
            Step::Delta { pair, text, stream } => {
                assert_eq!(self.stream, Some(*pair));
                assert_eq!(self.open[pair], format!("{stream:?}"));
                assert!(!text.is_empty());
            }
            Step::Iteration { pair, edge, label } => self.edge(*pair, *edge, format!("iteration {label}")),
            Step::Model { pair, edge } => self.edge(*pair, *edge, "model".to_owned()),
            Step::Tool { pair, edge, name, args } => {
                assert!(args.starts_with('{') && !args.contains('\n'));
                self.edge(*pair, *edge, format!("{name}{args}"));
            }
            Step::Device(_) | Step::Fault(_) => {}
            Step::Finish { .. } => {
                assert!(self.open.is_empty(), "still open: {:?}", self.open);
                self.finished += 1;
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_a_guest_does_every_stream_is_well_formed_to_its_end(
        acts in prop::collection::vec(act(), 0..60),
        outcome in prop_oneof![Just(Outcome::Done), Just(Outcome::Failed(Failure::General(None)))],
        after in prop::collection::vec(act(), 0..4),
    ) {
        let mut script = Script::new();
        let mut judge = Judge::default();
        let mut tools = Vec::new();
        let device = DeviceCommand { command: "take_photo", fields: Vec::new() };
        for (acts, over) in [(acts, false), (after, true)] {
            for act in acts {
                let mut out = |step: &Step<'_>| judge.step(step);
                match act {
                    // A refusal is an answer too; what matters is what was shown.
                    Act::Emit(event) => { let refused = script.event(&event, &mut out).is_err(); assert!(refused || !over); }
                    Act::ToolStart => tools.extend(script.tool_start("Read", "{}", &mut out).ok()),
                    Act::ToolEnd(index) => if let Some(pair) = tools.get(index) { script.tool_end(*pair, &mut out); },
                    Act::Device => script.device(&device, &mut out),
                }
            }
            script.finish(&outcome, &mut |step: &Step<'_>| judge.step(step));
        }
        prop_assert_eq!(judge.finished, 1);
    }
}
