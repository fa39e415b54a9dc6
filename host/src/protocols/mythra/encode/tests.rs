//! Tests of the frames: the exact bytes of the conformance cases, and the rules that hold for every turn.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    bindings::types::{Custom, Event as Emitted, Iteration, Output, Phase, ToolRun},
    script::Script,
};

/// What happens in a turn.
#[derive(Clone, Debug)]
enum Act {
    Emit(Emitted),
    /// The host runs a tool.
    Tool(&'static str, &'static str),
}

/// The frames of a turn in which `acts` happen; ids are `a`, `b`, … in order of need, the response's is `r`.
fn frames(acts: &[Act], outcome: &Outcome) -> Vec<String> {
    let mut next = b'a';
    let ids = move || {
        let id = char::from(next).to_string();
        next += 1;
        id
    };
    run(acts, outcome, Encoder::with_ids(ids, "r".to_owned(), "sorry".to_owned()))
}

fn run(acts: &[Act], outcome: &Outcome, mut encoder: impl Encode) -> Vec<String> {
    let mut script = Script::new();
    let mut out = Frames::default();
    let mut step = |step: &Step<'_>| encoder.encode(step, &mut out);
    for act in acts {
        match act {
            // A refused event shows nothing, which is all that matters here.
            Act::Emit(event) => drop(script.event(event, &mut step)),
            Act::Tool(name, args) => {
                let pair = script.tool_start(name, args, &mut step).unwrap();
                script.tool_end(pair, &mut step);
            }
        }
    }
    script.finish(outcome, &mut step);
    let mut start = 0;
    let ends = std::mem::take(&mut out.ends).into_iter();
    ends.map(|end| String::from_utf8(out.bytes[std::mem::replace(&mut start, end)..end].to_vec()).unwrap()).collect()
}

fn chat(text: &str) -> Act {
    Act::Emit(Emitted::Chat(Output::Delta(text.to_owned())))
}

fn think(text: &str) -> Act {
    Act::Emit(Emitted::Think(Output::Delta(text.to_owned())))
}

fn iteration(phase: Phase) -> Act {
    Act::Emit(Emitted::Iteration(Iteration { phase, label: "iteration 0".to_owned() }))
}

const END: &str = r#"{"id":"r","type":"response-state","event":"end"}"#;

#[test]
fn an_answer_is_a_chat_stream_and_the_end() {
    assert_eq!(
        frames(&[chat("你"), chat(""), chat("好。")], &Outcome::Done),
        [
            r#"{"id":"a","type":"chat-output","event":"start"}"#,
            r#"{"id":"a","type":"chat-output","event":"delta","content":"你"}"#,
            r#"{"id":"a","type":"chat-output","event":"delta","content":"好。"}"#,
            r#"{"id":"a","type":"chat-output","event":"end"}"#,
            END,
        ]
    );
}

#[test]
fn thoughts_end_before_the_answer_starts_under_another_id() {
    assert_eq!(
        frames(&[think("hm"), chat("ok")], &Outcome::Done),
        [
            r#"{"id":"a","type":"think-output","event":"start"}"#,
            r#"{"id":"a","type":"think-output","event":"delta","content":"hm"}"#,
            r#"{"id":"a","type":"think-output","event":"end"}"#,
            r#"{"id":"b","type":"chat-output","event":"start"}"#,
            r#"{"id":"b","type":"chat-output","event":"delta","content":"ok"}"#,
            r#"{"id":"b","type":"chat-output","event":"end"}"#,
            END,
        ]
    );
}

#[test]
fn rounds_carry_their_label_at_both_ends_and_models_carry_nothing() {
    let acts = [
        iteration(Phase::Start),
        Act::Emit(Emitted::ModelInvocation(Phase::Start)),
        Act::Emit(Emitted::ModelInvocation(Phase::End)),
        iteration(Phase::End),
    ];
    assert_eq!(
        frames(&acts, &Outcome::Done),
        [
            r#"{"id":"a","type":"iteration-state","event":"start","content":"iteration 0"}"#,
            r#"{"id":"b","type":"model-invocation-state","event":"start"}"#,
            r#"{"id":"b","type":"model-invocation-state","event":"end"}"#,
            r#"{"id":"a","type":"iteration-state","event":"end","content":"iteration 0"}"#,
            END,
        ]
    );
}

#[test]
fn a_tool_has_its_arguments_at_both_ends() {
    let args = r#"{"filePath":"/markdown/a.md"}"#;
    let own = ToolRun { phase: Phase::Start, name: "Own".to_owned(), args: " [1, null] ".to_owned() };
    assert_eq!(
        frames(&[Act::Tool("WriteFile", args), Act::Emit(Emitted::ToolRun(own))], &Outcome::Done),
        [
            r#"{"id":"a","type":"tool-call","event":"start","func":"WriteFile","args":{"filePath":"/markdown/a.md"}}"#,
            r#"{"id":"a","type":"tool-call","event":"end","func":"WriteFile","args":{"filePath":"/markdown/a.md"}}"#,
            r#"{"id":"b","type":"tool-call","event":"start","func":"Own","args":{"value":[1,null]}}"#,
            r#"{"id":"b","type":"tool-call","event":"end","func":"Own","args":{"value":[1,null]}}"#,
            END,
        ]
    );
}

#[test]
fn a_failure_closes_what_is_open_and_names_the_innermost() {
    let failed = |failure| Outcome::Failed(failure);
    assert_eq!(
        frames(&[iteration(Phase::Start), chat("x")], &failed(Failure::General(None))),
        [
            r#"{"id":"a","type":"iteration-state","event":"start","content":"iteration 0"}"#,
            r#"{"id":"b","type":"chat-output","event":"start"}"#,
            r#"{"id":"b","type":"chat-output","event":"delta","content":"x"}"#,
            r#"{"id":"b","type":"chat-output","event":"end"}"#,
            r#"{"id":"a","type":"iteration-state","event":"end","content":"iteration 0"}"#,
            r#"{"id":"b","type":"error","event":"error","content":"sorry"}"#,
            END,
        ]
    );
    let said = frames(&[], &failed(Failure::Said("no \"model\"".to_owned())));
    assert_eq!(said, [r#"{"id":"a","type":"error","event":"error","content":"no \"model\""}"#, END]);
    let down = frames(&[], &failed(Failure::ShuttingDown));
    assert_eq!(down, [r#"{"id":"a","type":"error","event":"error","content":"the server is shutting down"}"#, END]);
}

#[test]
fn an_agents_fault_is_an_error_that_ends_nothing_and_follow_ups_are_not_sent() {
    let fault = Act::Emit(Emitted::Fault("no map".to_owned()));
    let follow_up = Act::Emit(Emitted::FollowUp(vec!["more?".to_owned()]));
    assert_eq!(
        frames(&[chat("x"), fault, follow_up], &Outcome::Done),
        [
            r#"{"id":"a","type":"chat-output","event":"start"}"#,
            r#"{"id":"a","type":"chat-output","event":"delta","content":"x"}"#,
            r#"{"id":"b","type":"error","event":"error","content":"no map"}"#,
            r#"{"id":"a","type":"chat-output","event":"end"}"#,
            END,
        ]
    );
}

#[test]
fn a_long_delta_is_split_between_characters() {
    let text = "你".repeat(DELTA_MAX);
    let frames = frames(&[chat(&text)], &Outcome::Done);
    let mut joined = String::new();
    for frame in &frames {
        let frame: Value = serde_json::from_str(frame).unwrap();
        let piece = frame["content"].as_str().unwrap_or_default();
        assert!(piece.len() <= DELTA_MAX);
        joined.push_str(piece);
    }
    assert_eq!((frames.len(), joined), (7, text), "start, four pieces, end, end");
}

#[test]
fn real_ids_are_eleven_base_36_characters() {
    let frames = run(&[chat("x")], &Outcome::Done, Encoder::new(wire_id(), String::new()));
    for frame in frames {
        let frame: Value = serde_json::from_str(&frame).unwrap();
        let id = frame["id"].as_str().unwrap();
        assert!(id.len() == 11 && id.bytes().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase()), "{id}");
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), ".{1,8}", Just("\u{2028}\"\\\n\0😀".to_owned())]
}

fn any_phase() -> impl Strategy<Value = Phase> {
    prop_oneof![Just(Phase::Start), Just(Phase::End)]
}

fn any_output() -> impl Strategy<Value = Output> {
    prop_oneof![Just(Output::Start), any_text().prop_map(Output::Delta), Just(Output::End)]
}

fn any_act() -> impl Strategy<Value = Act> {
    let name = prop_oneof![Just("a".to_owned()), Just("b\"".to_owned())];
    let json = prop_oneof![Just(""), Just("{\"k\": [null]}"), Just("[1]"), Just("no JSON")].prop_map(str::to_owned);
    let emitted = prop_oneof![
        any_output().prop_map(Emitted::Think),
        any_output().prop_map(Emitted::Chat),
        (any_phase(), name.clone()).prop_map(|(phase, label)| Emitted::Iteration(Iteration { phase, label })),
        any_phase().prop_map(Emitted::ModelInvocation),
        (any_phase(), name.clone(), json.clone()).prop_map(|(phase, name, args)| Emitted::ToolRun(ToolRun {
            phase,
            name,
            args
        })),
        prop::collection::vec(any_text(), 0..3).prop_map(Emitted::FollowUp),
        any_text().prop_map(Emitted::Fault),
        (name, json).prop_map(|(name, json)| Emitted::Custom(Custom { name, json })),
    ];
    prop_oneof![8 => emitted.prop_map(Act::Emit), 1 => Just(Act::Tool("t", "{}"))]
}

fn any_outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Done),
        "x.{0,8}".prop_map(|text| Outcome::Failed(Failure::Said(text))),
        Just(Outcome::Failed(Failure::General(None))),
        Just(Outcome::Failed(Failure::ShuttingDown)),
    ]
}

/// Whether `value`'s own keys are in the document's order and hold no `null`.
fn is_well_formed(frame: &Value) -> bool {
    let order = ["id", "type", "event", "content", "func", "args"];
    let keys = frame.as_object().unwrap();
    let places: Vec<_> = keys.keys().map(|key| order.iter().position(|known| known == key).unwrap()).collect();
    places.is_sorted() && keys.values().all(|value| !value.is_null())
}

proptest! {
    #[test]
    fn whatever_a_guest_does_the_client_sees_a_well_formed_stream(
        acts in prop::collection::vec(any_act(), 0..40),
        outcome in any_outcome(),
    ) {
        let mut count = 0;
        let ids = move || { count += 1; format!("{count:011}") };
        let frames = run(&acts, &outcome, Encoder::with_ids(ids, "r".to_owned(), "sorry".to_owned()));
        let mut open = BTreeMap::new();
        let mut used = BTreeSet::new();
        let mut streams_open = 0;
        for (index, text) in frames.iter().enumerate() {
            let frame: Value = serde_json::from_str(text).unwrap();
            prop_assert!(is_well_formed(&frame), "{text}");
            prop_assert!(!text.contains('\n'), "{text}");
            let field = |name: &str| frame[name].as_str().unwrap_or_default().to_owned();
            let (id, kind, event) = (field("id"), field("type"), field("event"));
            let is_stream = i32::from(kind.ends_with("-output"));
            let rest = (kind.clone(), field("content"), frame.get("func").cloned(), frame.get("args").cloned());
            match event.as_str() {
                "start" => {
                    prop_assert!(used.insert(id.clone()), "{id} is used twice");
                    open.insert(id, rest);
                    streams_open += is_stream;
                }
                "delta" => {
                    prop_assert!(!rest.1.is_empty());
                    prop_assert_eq!(open.get(&id).map(|open| &open.0), Some(&kind));
                }
                "end" if kind == "response-state" => prop_assert_eq!((id.as_str(), index), ("r", frames.len() - 1)),
                "end" => {
                    prop_assert_eq!(open.remove(&id), Some(rest), "an end repeats its start");
                    streams_open -= is_stream;
                }
                "error" => prop_assert!(kind == "error" && !rest.1.is_empty()),
                other => prop_assert!(false, "{other}"),
            }
            prop_assert!(streams_open <= 1);
        }
        prop_assert!(open.is_empty(), "{open:?} never ended");
        prop_assert_eq!(frames.last().map(String::as_str), Some(END));
    }
}
