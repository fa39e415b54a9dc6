//! Does what the texts of the input say, one order a line, so that a test can drive an agent without writing one.
//!
//! TEXT is a JSON string when it begins with a double quote, else the rest of the line as it is. What an order "says"
//! is one chat delta. An order that is not in this list, or whose words do not fit, ends the turn with an error that
//! names it. A refused event is remembered and the next order follows; `closed` ends the turn with the error `closed`.
//! Messages other than texts hold no orders, and an empty line is none.
//!
//! Events
//! - `chat TEXT`, `chat-start`, `chat-end`, `think TEXT`, `think-start`, `think-end`
//! - `iteration-start LABEL`, `iteration-end LABEL`, `model-start`, `model-end` (LABEL is a TEXT)
//! - `run-start NAME ARGS`, `run-end NAME ARGS`: a tool that the agent runs itself; ARGS as it is, may be missing
//! - `follow-up ARRAY` (a JSON array of strings), `fault TEXT`, `custom NAME JSON`
//! - `flood N BYTES`: N chat deltas of BYTES bytes; of their refusals the first is remembered
//! - `refused`: says the text of the refused event that was remembered last, or `none`
//!
//! Tools
//! - `tool NAME ARGS`: calls it and says `ok:RESULT`, `unknown:TEXT`, `denied:TEXT`, `invalid-args:TEXT`, `timeout` or
//!   `failed:TEXT`; ARGS as it is, may be missing
//! - `tool-quiet NAME ARGS`: the same, saying nothing
//! - `tools`: says the names, joined with `,`
//! - `schema NAME`: says the tool's parameters, or `none`
//!
//! The turn
//! - `session`, `turn`, `user`: says the id; `none` where there is no user
//! - `input`: says the number of messages and their kinds, such as `2 text,image`
//! - `fact KEY`: says the value, or `none`
//! - `facts`: says the keys, sorted and joined with `,`
//! - `history N`: says the last N messages at most, such as `user:TEXT|agent:TEXT|user:image:URL|user:file:URL`, or
//!   `empty`
//!
//! Ends and misdeeds
//! - `err TEXT`: ends the turn with this error; `err-refused`: with the text of the refused event that was remembered
//! - `trap`, `panic TEXT`
//! - `spin`: loops for ever; `spin-ms MS`: computes for about that long; `sleep MS`
//! - `stack`: recurses for ever
//! - `alloc MIB`: allocates, fills and keeps it, and says `ok`, unless Rust's allocator gives up (a trap)
//! - `grow MIB`: grows the linear memory, and says `ok` or `refused`
//! - `count`: says how many turns this instance has seen: always 1, if each turn has a fresh one
//!
//! WASI and the log
//! - `log LEVEL TEXT`, `stdout TEXT`, `stderr TEXT` (the last two write a line)
//! - `env`: says the numbers of environment variables and of arguments, such as `0 0`
//! - `read PATH`: says `ok` or the kind of the error, such as `NotFound`
//! - `random N`: says N random bytes (256 at most) in hexadecimal digits
//! - `now-ms`: says the wall clock's milliseconds since 1970
//!
//! Others
//! - `repeat N ORDER`: gives the order N times
//! - `closed`: does nothing

use std::{
    fmt::Write as _,
    hint::black_box,
    iter,
    str::FromStr,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use test_guests::{
    Request,
    host::{call_tool, emit_event},
    log::{Level, log},
    outcome, turn,
    types::{Content, Custom, EmitError, Event, Iteration, Message, Output, Phase, Role, ToolRun},
};

test_guests::agent!(handle);

/// A page of linear memory.
const PAGE: usize = 64 * 1024;
const MIB: usize = 1024 * 1024;

static TURNS: AtomicU32 = AtomicU32::new(0);

fn handle(request: &Request) -> Result<(), String> {
    TURNS.fetch_add(1, Ordering::Relaxed);
    let mut puppet = Puppet { request, refused: None, held: Vec::new() };
    for message in &request.input {
        if let Content::Text(text) = &message.content {
            text.lines().filter(|line| !line.is_empty()).try_for_each(|order| puppet.obey(order))?;
        }
    }
    Ok(())
}

struct Puppet<'a> {
    request: &'a Request,
    /// Why an event was refused, the last time it was.
    refused: Option<String>,
    /// What `alloc` took.
    held: Vec<Vec<u8>>,
}

impl Puppet<'_> {
    #[expect(clippy::too_many_lines, reason = "a table: one order an arm")]
    fn obey(&mut self, order: &str) -> Result<(), String> {
        let (verb, rest) = split(order);
        match verb {
            "chat" => self.say(&text(rest)?),
            "chat-start" => self.emit(&Event::Chat(Output::Start)),
            "chat-end" => self.emit(&Event::Chat(Output::End)),
            "think" => self.emit(&Event::Think(Output::Delta(text(rest)?))),
            "think-start" => self.emit(&Event::Think(Output::Start)),
            "think-end" => self.emit(&Event::Think(Output::End)),
            "iteration-start" => self.iteration(Phase::Start, rest),
            "iteration-end" => self.iteration(Phase::End, rest),
            "model-start" => self.emit(&Event::ModelInvocation(Phase::Start)),
            "model-end" => self.emit(&Event::ModelInvocation(Phase::End)),
            "run-start" => self.tool_run(Phase::Start, rest),
            "run-end" => self.tool_run(Phase::End, rest),
            "follow-up" => {
                let questions = serde_json::from_str(rest).map_err(|error| format!("{order}: {error}"))?;
                self.emit(&Event::FollowUp(questions))
            }
            "fault" => self.emit(&Event::Fault(text(rest)?)),
            "custom" => {
                let (name, json) = split(rest);
                self.emit(&Event::Custom(Custom { name: name.to_owned(), json: json.to_owned() }))
            }
            "flood" => {
                let (count, bytes) = split(rest);
                self.flood(number(count)?, number(bytes)?)
            }
            "refused" => {
                let why = self.refused.clone().unwrap_or_else(none);
                self.say(&why)
            }

            "tool" => {
                let said = call(rest);
                self.say(&said)
            }
            "tool-quiet" => {
                call(rest);
                Ok(())
            }
            "tools" => {
                let names: Vec<_> = turn::tools().into_iter().map(|tool| tool.name).collect();
                self.say(&names.join(","))
            }
            "schema" => {
                let tool = turn::tools().into_iter().find(|tool| tool.name == rest);
                self.say(&tool.map_or_else(none, |tool| tool.parameters))
            }

            "session" => self.say(&self.request.session_id),
            "turn" => self.say(&self.request.turn_id),
            "user" => self.say(&self.request.user_id.clone().unwrap_or_else(none)),
            "input" => {
                let kinds: Vec<_> = self.request.input.iter().map(kind).collect();
                self.say(&format!("{} {}", kinds.len(), kinds.join(",")))
            }
            "fact" => self.say(&turn::get(rest).unwrap_or_else(none)),
            "facts" => self.say(&turn::keys().join(",")),
            "history" => {
                let said: Vec<_> = turn::history(number(rest)?).iter().map(line).collect();
                self.say(&if said.is_empty() { "empty".to_owned() } else { said.join("|") })
            }

            "err" => Err(text(rest)?),
            "err-refused" => Err(self.refused.clone().unwrap_or_else(none)),
            "trap" => core::arch::wasm32::unreachable(),
            "panic" => panic!("{}", text(rest)?),
            "spin" => loop {
                std::hint::spin_loop();
            },
            "spin-ms" => {
                spin_for(Duration::from_millis(number(rest)?));
                Ok(())
            }
            "sleep" => {
                thread::sleep(Duration::from_millis(number(rest)?));
                Ok(())
            }
            "stack" => self.say(&dive(1).to_string()),
            "alloc" => {
                self.held.push(black_box(vec![1; number::<usize>(rest)? * MIB]));
                self.say("ok")
            }
            "grow" => {
                let before = core::arch::wasm32::memory_grow::<0>(number::<usize>(rest)? * (MIB / PAGE));
                self.say(if before == usize::MAX { "refused" } else { "ok" })
            }
            "count" => self.say(&TURNS.load(Ordering::Relaxed).to_string()),

            "log" => {
                let (name, message) = split(rest);
                log(level(name)?, &text(message)?);
                Ok(())
            }
            "stdout" => {
                println!("{}", text(rest)?);
                Ok(())
            }
            "stderr" => {
                eprintln!("{}", text(rest)?);
                Ok(())
            }
            "env" => self.say(&format!("{} {}", std::env::vars_os().count(), std::env::args_os().count())),
            "read" => match std::fs::read(rest) {
                Ok(_) => self.say("ok"),
                Err(error) => self.say(&format!("{:?}", error.kind())),
            },
            "random" => {
                let mut digits = String::new();
                for byte in random(number(rest)?)? {
                    write!(digits, "{byte:02x}").map_err(|error| error.to_string())?;
                }
                self.say(&digits)
            }
            "now-ms" => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
                self.say(&now.as_millis().to_string())
            }

            "repeat" => {
                let (count, order) = split(rest);
                iter::repeat_n(order, number(count)?).try_for_each(|order| self.obey(order))
            }
            "closed" => Ok(()),
            _ => Err(format!("unknown order: {order}")),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), String> {
        self.emit(&Event::Chat(Output::Delta(text.to_owned())))
    }

    fn emit(&mut self, event: &Event) -> Result<(), String> {
        match emit_event(event) {
            Ok(()) => Ok(()),
            Err(EmitError::Closed) => Err("closed".to_owned()),
            Err(EmitError::Refused(why)) => {
                self.refused = Some(why);
                Ok(())
            }
        }
    }

    fn iteration(&mut self, phase: Phase, label: &str) -> Result<(), String> {
        self.emit(&Event::Iteration(Iteration { phase, label: text(label)? }))
    }

    fn tool_run(&mut self, phase: Phase, rest: &str) -> Result<(), String> {
        let (name, args) = split(rest);
        self.emit(&Event::ToolRun(ToolRun { phase, name: name.to_owned(), args: args.to_owned() }))
    }

    fn flood(&mut self, count: u32, bytes: usize) -> Result<(), String> {
        let before = self.refused.take();
        let mut first = None;
        let delta = Event::Chat(Output::Delta("x".repeat(bytes)));
        for _ in 0..count {
            self.emit(&delta)?;
            first = first.or_else(|| self.refused.take());
        }
        self.refused = first.or(before);
        Ok(())
    }
}

/// The first word, and what stands behind the blank after it.
fn split(line: &str) -> (&str, &str) {
    line.split_once(' ').unwrap_or((line, ""))
}

fn text(rest: &str) -> Result<String, String> {
    if rest.starts_with('"') {
        serde_json::from_str(rest).map_err(|error| format!("{rest}: {error}"))
    } else {
        Ok(rest.to_owned())
    }
}

fn number<N: FromStr>(word: &str) -> Result<N, String> {
    word.parse().map_err(|_| format!("not a number: {word}"))
}

fn level(name: &str) -> Result<Level, String> {
    match name {
        "debug" => Ok(Level::Debug),
        "info" => Ok(Level::Info),
        "warn" => Ok(Level::Warn),
        "error" => Ok(Level::Error),
        _ => Err(format!("unknown level: {name}")),
    }
}

fn none() -> String {
    "none".to_owned()
}

/// Calls the tool that `rest` begins with, and tells what came of it.
fn call(rest: &str) -> String {
    let (name, args) = split(rest);
    match outcome(call_tool(name, args)) {
        (kind, Some(text)) => format!("{kind}:{text}"),
        (kind, None) => kind.to_owned(),
    }
}

fn kind(message: &Message) -> &'static str {
    match message.content {
        Content::Text(_) => "text",
        Content::Image(_) => "image",
        Content::File(_) => "file",
    }
}

fn line(message: &Message) -> String {
    let role = match message.role {
        Role::User => "user",
        Role::Agent => "agent",
    };
    match &message.content {
        Content::Text(text) => format!("{role}:{text}"),
        Content::Image(url) => format!("{role}:image:{url}"),
        Content::File(file) => format!("{role}:file:{}", file.url),
    }
}

fn spin_for(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Ends only with the stack: what is done with the result keeps the call from becoming a jump.
#[inline(never)]
fn dive(depth: u64) -> u64 {
    if depth == 0 { 0 } else { dive(depth.wrapping_add(2)).rotate_left(7) ^ depth }
}

fn random(count: usize) -> Result<Vec<u8>, String> {
    unsafe extern "C" {
        /// Of the C library that std stands on; asks `wasi:random`.
        fn getentropy(buffer: *mut u8, length: usize) -> i32;
    }

    let mut bytes = vec![0; count];
    // SAFETY: the buffer is `bytes`, and as long as said.
    match unsafe { getentropy(bytes.as_mut_ptr(), bytes.len()) } {
        0 => Ok(bytes),
        _ => Err(format!("no {count} random bytes")),
    }
}
