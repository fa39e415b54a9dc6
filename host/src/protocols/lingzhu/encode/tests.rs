//! The exact bytes of a turn's frames, and what holds for any turn.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    bindings::types::{Event as GuestEvent, Iteration, Output, Phase, ToolRun},
    config::Texts,
    script::{DeviceCommand, Script},
};

/// What a turn does, in short.
#[derive(Debug)]
enum Does {
    Emits(GuestEvent),
    Commands(DeviceCommand),
    Ends(Outcome),
}

use Does::{Commands, Emits, Ends};

fn chat(text: &str) -> Does {
    Emits(GuestEvent::Chat(Output::Delta(text.to_owned())))
}

fn think(text: &str) -> Does {
    Emits(GuestEvent::Think(Output::Delta(text.to_owned())))
}

fn fault(text: &str) -> Does {
    Emits(GuestEvent::Fault(text.to_owned()))
}

fn follow_up(questions: &[&str]) -> Does {
    Emits(GuestEvent::FollowUp(questions.iter().map(|text| (*text).to_owned()).collect()))
}

fn command(command: &'static str, fields: &[(&'static str, &str)]) -> Does {
    let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Commands(DeviceCommand { command, fields })
}

fn done() -> Does {
    Ends(Outcome::Done)
}

fn failed(failure: Failure) -> Does {
    Ends(Outcome::Failed(failure))
}

fn encoder(agent: &AgentConfig, lang: &str) -> Encoder {
    Encoder::new(Ids { message_id: "M".to_owned(), agent_id: "G".to_owned() }, agent, lang)
}

fn frames(mut encoder: Encoder, turn: &[Does]) -> String {
    let (mut script, mut out) = (Script::new(), Frames::default());
    for does in turn {
        let mut steps = |step: &Step<'_>| encoder.encode(step, &mut out);
        match does {
            Emits(event) => script.event(event, &mut steps).unwrap(),
            Commands(command) => script.device(command, &mut steps),
            Ends(outcome) => script.finish(outcome, &mut steps),
        }
    }
    assert_eq!(out.ends.last().copied().unwrap_or_default(), out.bytes.len());
    String::from_utf8(out.bytes.to_vec()).unwrap()
}

#[track_caller]
fn check(turn: &[Does], expected: &[&str]) {
    assert_eq!(frames(encoder(&AgentConfig::default(), "zh-CN"), turn), expected.concat());
}

fn ans(text: &str, finish: bool) -> String {
    format!(
        "event: message\ndata: {{\"role\":\"agent\",\"type\":\"answer\",\"answer_stream\":\"{text}\",\"message_id\":\"M\",\
         \"agent_id\":\"G\",\"is_finish\":{finish}}}\n\n"
    )
}

fn tool(call: &str) -> String {
    format!(
        "event: message\ndata: {{\"role\":\"agent\",\"type\":\"tool_call\",\"tool_call\":{call},\"message_id\":\"M\",\
         \"agent_id\":\"G\",\"is_finish\":false}}\n\n"
    )
}

fn fup(questions: &str) -> String {
    format!(
        "event: message\ndata: {{\"role\":\"agent\",\"type\":\"follow_up\",\"follow_up\":{questions},\"message_id\":\"M\",\
         \"agent_id\":\"G\",\"is_finish\":true}}\n\n"
    )
}

const DONE: &str = "event: done\ndata: {\"role\":\"agent\",\"type\":\"answer\",\"answer_stream\":\"\",\"message_id\":\"M\",\
                    \"agent_id\":\"G\",\"is_finish\":true}\n\n";
const SORRY: &str = "抱歉，我现在无法回答，请稍后再试。";
const NOTHING: &str = "我暂时没有可以回答的内容。";

#[test]
fn an_answer_is_its_pieces_and_an_empty_end() {
    check(&[chat("你"), chat("好。"), done()], &[&ans("你", false), &ans("好。", false), &ans("", true), DONE]);
}

#[test]
fn device_commands_are_flat_and_never_the_finished_frame() {
    let end = ans("", true);
    check(&[command("take_photo", &[]), done()], &[&tool(r#"{"command":"take_photo"}"#), &end, DONE]);
    check(
        &[command("take_navigation", &[("action", "open"), ("poi_name", "P"), ("navi_type", "0")]), done()],
        &[&tool(r#"{"command":"take_navigation","action":"open","poi_name":"P","navi_type":"0"}"#), &end, DONE],
    );
    check(
        &[
            command(
                "control_calendar",
                &[
                    ("action", "create"),
                    ("title", "T"),
                    ("start_time", "2026-03-02 10:00"),
                    ("end_time", "2026-03-02 10:30"),
                ],
            ),
            done(),
        ],
        &[
            &tool(
                r#"{"command":"control_calendar","action":"create","title":"T","start_time":"2026-03-02 10:00","end_time":"2026-03-02 10:30"}"#,
            ),
            &end,
            DONE,
        ],
    );
    check(&[command("notify_agent_off", &[]), done()], &[&tool(r#"{"command":"notify_agent_off"}"#), &end, DONE]);
}

#[test]
fn what_is_held_back_goes_before_a_command() {
    check(
        &[chat("look! [a"), command("take_photo", &[]), chat("b"), done()],
        &[
            &ans("look! ", false),
            &ans("[a", false),
            &tool(r#"{"command":"take_photo"}"#),
            &ans("b", false),
            &ans("", true),
            DONE,
        ],
    );
}

#[test]
fn follow_up_questions_are_the_finished_frame() {
    check(&[chat("x"), follow_up(&["a", "b"]), done()], &[&ans("x", false), &fup(r#"["a","b"]"#), DONE]);
    check(&[follow_up(&["a"]), done()], &[&fup(r#"["a"]"#), DONE]);
    check(&[follow_up(&["a"]), failed(Failure::General(None))], &[&ans(SORRY, true), DONE]);
}

#[test]
fn nothing_of_how_an_answer_came_about_is_shown() {
    let iteration = |phase| Emits(GuestEvent::Iteration(Iteration { phase, label: "secret".to_owned() }));
    let run = ToolRun { phase: Phase::Start, name: "secret".to_owned(), args: String::new() };
    let turn = [
        iteration(Phase::Start),
        Emits(GuestEvent::ModelInvocation(Phase::Start)),
        think("secret"),
        Emits(GuestEvent::ToolRun(run)),
        chat("x"),
        iteration(Phase::End),
        done(),
    ];
    check(&turn, &[&ans("x", false), &ans("", true), DONE]);
}

#[test]
fn an_agent_that_says_nothing_is_spoken_for() {
    check(&[done()], &[&ans(NOTHING, true), DONE]);
    check(&[think("x"), done()], &[&ans(NOTHING, true), DONE]);
    check(&[chat(" "), done()], &[&ans(" ", false), &ans(NOTHING, true), DONE]);
    let english = encoder(&AgentConfig::default(), "en-GB");
    assert_eq!(frames(english, &[done()]), [&ans("I have nothing to say to that.", true), DONE].concat());
}

#[test]
fn a_failure_is_an_apology_or_the_agents_own_words() {
    check(&[chat("x"), failed(Failure::General(None))], &[&ans("x", false), &ans(SORRY, true), DONE]);
    check(&[failed(Failure::ShuttingDown)], &[&ans(SORRY, true), DONE]);
    check(&[failed(Failure::Said("**No** luck".to_owned()))], &[&ans("No luck", true), DONE]);
    check(&[failed(Failure::Said("![](x)".to_owned()))], &[&ans(SORRY, true), DONE]);
    check(
        &[chat("x"), fault("# no\nnews"), chat("y"), done()],
        &[&ans("x", false), &ans(r"no\nnews", false), &ans("y", false), &ans("", true), DONE],
    );
    let texts = Texts { apology: Some("Oops".to_owned()), nothing: None };
    let agent = AgentConfig { texts: BTreeMap::from([("en".to_owned(), texts)]), ..AgentConfig::default() };
    assert_eq!(frames(encoder(&agent, "en"), &[failed(Failure::General(None))]), [&ans("Oops", true), DONE].concat());
}

#[test]
fn markdown_is_stripped_unless_the_agent_keeps_it() {
    let turn = || [chat("**a"), chat("** [b](c"), chat(")"), done()];
    check(&turn(), &[&ans("a", false), &ans(" ", false), &ans("b", false), &ans("", true), DONE]);
    let keeps = AgentConfig { markdown: Markdown::Keep, ..AgentConfig::default() };
    assert_eq!(
        frames(encoder(&keeps, "en"), &turn()),
        [&ans("**a", false), &ans("** [b](c", false), &ans(")", false), &ans("", true), DONE].concat()
    );
}

#[test]
fn any_text_is_one_line_that_parses_back() {
    let text = "a\nb \"c\" \u{2028}\u{2029} 😀 \r\ndata: x\u{0}";
    let out = frames(encoder(&AgentConfig::default(), "en"), &[chat(text), done()]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("data:")).count(), 3);
    let first: Value = serde_json::from_str(lines[1].strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(first["answer_stream"], text);
    assert!(out.contains(r"a\nb \"), "a line's end is escaped");
}

#[test]
fn long_text_is_split_between_characters() {
    let out = frames(encoder(&AgentConfig::default(), "en"), &[chat(&"好".repeat(10_000)), done()]);
    let pieces: Vec<usize> = answers(&out).iter().map(String::len).collect();
    assert_eq!(pieces, [16_383, 13_617, 0]);
    let long = Failure::Said("x".repeat(ANSWER_MAX + 1));
    assert_eq!(answers(&frames(encoder(&AgentConfig::default(), "en"), &[failed(long)]))[0].len(), ANSWER_MAX);
}

/// The `answer_stream` of each `message` frame that has one.
fn answers(stream: &str) -> Vec<String> {
    let messages = stream.split_terminator("\n\n").filter_map(|frame| frame.strip_prefix("event: message\ndata: "));
    let objects = messages.map(|data| serde_json::from_str::<Value>(data).unwrap());
    objects.filter_map(|object| object["answer_stream"].as_str().map(str::to_owned)).collect()
}

fn any_turn() -> impl Strategy<Value = Vec<Does>> {
    let does = (0..8_u8, ".{0,12}").prop_map(|(kind, text)| match kind {
        0 => think(&text),
        1 => follow_up(&[&text]),
        2 => command("take_photo", &[]),
        3 => fault(&format!("f{text}")),
        4 => Emits(GuestEvent::Chat(Output::End)),
        _ => chat(&text),
    });
    let end = prop::sample::select(vec![0_u8, 1, 2, 3]).prop_map(|kind| match kind {
        0 => failed(Failure::General(None)),
        1 => failed(Failure::Said("s".to_owned())),
        _ => done(),
    });
    (prop::collection::vec(does, 0..20), end).prop_map(|(mut turn, end)| {
        turn.push(end);
        turn
    })
}

proptest! {
    #[test]
    fn every_stream_has_one_finished_message_the_last_and_then_done(turn in any_turn()) {
        let out = frames(encoder(&AgentConfig::default(), "en"), &turn);
        let mut finished = Vec::new();
        for frame in out.split_terminator("\n\n") {
            let (event, data) = frame.split_once("\ndata: ").unwrap();
            let object: Value = serde_json::from_str(data).unwrap();
            prop_assert_eq!(&object["role"], "agent");
            prop_assert_eq!(&object["message_id"], "M");
            prop_assert_eq!(&object["agent_id"], "G");
            prop_assert!(object["type"].is_string());
            finished.push((event.to_owned(), object["is_finish"].as_bool().unwrap()));
        }
        let (done, messages) = finished.split_last().unwrap();
        prop_assert_eq!(done, &("event: done".to_owned(), true));
        let (last, others) = messages.split_last().unwrap();
        prop_assert_eq!(last, &("event: message".to_owned(), true));
        prop_assert!(others.iter().all(|(event, finish)| event == "event: message" && !finish));
    }
}
