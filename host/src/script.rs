//! The turn's script: a pure state machine between what a guest does and what a client sees.
//!
//! It knows which pairs are open and keeps every stream well-formed whatever the guest does: a missing start is added, a
//! second end is dropped, a stream that opens closes the other, and at the end of the turn everything open is closed,
//! innermost first. It knows nothing of protocols, time or sockets.

use crate::{
    bindings::types::{Event, Output, Phase},
    limit::Limit,
};

pub mod args;
mod outbox;
mod step;

pub use outbox::{ANSWER_KEPT_MAX, EmitFault, Outbox, Reader, WAITING_BYTES_MAX, outbox};
pub use step::{DeviceCommand, Edge, Encode, Failure, Frames, Outcome, PairId, Step, Stream};

/// The most pairs that may be open at once. A guest that opens and never closes would otherwise make the host keep a
/// name for each; no honest agent nests so deep. One more is refused.
pub const OPEN_PAIRS_MAX: usize = 64;

/// The longest label or tool name in bytes; the same text is kept until its pair closes.
pub const NAME_BYTES_MAX: usize = 256;

/// The most follow-up questions that are kept, and the longest in bytes: what fits on a screen, with room.
pub const FOLLOW_UP_MAX: usize = 8;
/// The longest follow-up question in bytes; a longer one is refused.
pub const FOLLOW_UP_BYTES_MAX: usize = 1024;

/// How many labels and names are remembered as ended, so that a second end is known for one.
const ENDED_MAX: usize = 256;

/// An event that breaks a rule: which one, in words for the agent's author.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Refusal {
    /// The words.
    pub why: String,
    /// The bound that was run into, if it is one.
    pub limit: Option<Limit>,
}

impl Refusal {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), limit: None }
    }

    fn of(limit: Limit, why: String) -> Self {
        Self { why, limit: Some(limit) }
    }
}

/// Where the steps go.
pub trait Steps {
    /// Takes one step.
    fn step(&mut self, step: &Step<'_>);
}

impl<F: FnMut(&Step<'_>)> Steps for F {
    fn step(&mut self, step: &Step<'_>) {
        self(step);
    }
}

/// What kind of pair is open, with what its end must repeat.
#[derive(Debug, PartialEq, Eq)]
enum Open {
    Stream(Stream),
    Iteration(String),
    Model,
    /// Name, arguments, and whether the agent runs it (and ends it by name) or the host (and ends it by pair).
    Tool {
        name: String,
        args: String,
        by_agent: bool,
    },
}

/// The state of one turn.
#[derive(Debug, Default)]
pub struct Script {
    open: Vec<(PairId, Open)>,
    last: u32,
    /// Labels of iterations and names of agent-run tools that have ended, newest last.
    ended: Vec<(&'static str, String)>,
    model_ended: bool,
    follow_up: Vec<String>,
    finished: bool,
}

impl Script {
    /// A turn that has just begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the last step has been made.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The guest emitted `event`.
    pub fn event(&mut self, event: &Event, out: &mut impl Steps) -> Result<(), Refusal> {
        if self.finished {
            return Err(Refusal::new("the turn is over"));
        }
        match event {
            Event::Think(output) => self.output(Stream::Think, output, out),
            Event::Chat(output) => self.output(Stream::Chat, output, out),
            Event::Iteration(iteration) => {
                bounded("iteration.label", &iteration.label)?;
                match iteration.phase {
                    Phase::Start => self.start(Open::Iteration(iteration.label.clone()), out).map(drop),
                    Phase::End => self.end_named("iteration", &iteration.label, "{}", out),
                }
            }
            Event::ModelInvocation(Phase::Start) => {
                self.end_where(|open| *open == Open::Model, out);
                self.start(Open::Model, out).map(drop)
            }
            Event::ModelInvocation(Phase::End) => {
                if !self.end_where(|open| *open == Open::Model, out) && !self.model_ended {
                    self.start(Open::Model, out)?;
                    self.end_where(|open| *open == Open::Model, out);
                }
                Ok(())
            }
            Event::ToolRun(run) => {
                bounded("tool-run.name", &run.name)?;
                let args = args::object(&run.args).map_err(|why| Refusal::new(format!("tool-run.args: {why}")))?;
                match run.phase {
                    Phase::Start => {
                        self.start(Open::Tool { name: run.name.clone(), args, by_agent: true }, out).map(drop)
                    }
                    Phase::End => self.end_named("tool-run", &run.name, &args, out),
                }
            }
            Event::FollowUp(questions) => {
                if let Some(index) = questions.iter().position(|question| question.len() > FOLLOW_UP_BYTES_MAX) {
                    let why = format!("follow-up[{index}]: longer than {FOLLOW_UP_BYTES_MAX} bytes");
                    return Err(Refusal::of(Limit::Names, why));
                }
                let said = questions.iter().filter(|question| !question.trim().is_empty());
                self.follow_up = said.take(FOLLOW_UP_MAX).cloned().collect();
                Ok(())
            }
            Event::Fault(text) => {
                if text.is_empty() {
                    return Err(Refusal::new("fault: the text is empty"));
                }
                out.step(&Step::Fault(text));
                Ok(())
            }
            Event::Custom(custom) => {
                bounded("custom.name", &custom.name)?;
                args::value(&custom.json).map_err(|why| Refusal::new(format!("custom.json: {why}")))?;
                Ok(())
            }
        }
    }

    /// The host begins to run a tool that the guest called.
    pub fn tool_start(&mut self, name: &str, args: &str, out: &mut impl Steps) -> Result<PairId, Refusal> {
        if self.finished {
            return Err(Refusal::new("the turn is over"));
        }
        self.start(Open::Tool { name: name.to_owned(), args: args.to_owned(), by_agent: false }, out)
    }

    /// The host's run of a tool is over.
    pub fn tool_end(&mut self, pair: PairId, out: &mut impl Steps) {
        if let Some(index) = self.open.iter().position(|(open, _)| *open == pair) {
            self.close(index, out);
        }
    }

    /// A checked command goes to the device.
    pub fn device(&mut self, command: &DeviceCommand, out: &mut impl Steps) {
        if !self.finished {
            out.step(&Step::Device(command));
        }
    }

    /// The turn is over. Closes what is open, innermost first, and makes the last step; a second call does nothing.
    pub fn finish(&mut self, outcome: &Outcome, out: &mut impl Steps) {
        if self.finished {
            return;
        }
        let failed = match outcome {
            Outcome::Failed(_) => self.open.last().map(|(pair, _)| *pair),
            Outcome::Done => None,
        };
        while !self.open.is_empty() {
            self.close(self.open.len() - 1, out);
        }
        self.finished = true;
        let follow_up: &[String] = if *outcome == Outcome::Done { &self.follow_up } else { &[] };
        out.step(&Step::Finish { outcome, failed, follow_up });
    }

    fn output(&mut self, stream: Stream, output: &Output, out: &mut impl Steps) -> Result<(), Refusal> {
        match output {
            Output::Start => self.start_stream(stream, out).map(drop),
            Output::Delta(text) if text.is_empty() => Ok(()),
            Output::Delta(text) => {
                let pair = match self.pair_of(stream) {
                    Some(pair) => pair,
                    None => self.start_stream(stream, out)?,
                };
                out.step(&Step::Delta { pair, stream, text });
                Ok(())
            }
            Output::End => {
                self.end_where(|open| *open == Open::Stream(stream), out);
                Ok(())
            }
        }
    }

    /// Opens a stream, which closes the one that is open.
    fn start_stream(&mut self, stream: Stream, out: &mut impl Steps) -> Result<PairId, Refusal> {
        self.end_where(|open| matches!(open, Open::Stream(_)), out);
        self.start(Open::Stream(stream), out)
    }

    fn pair_of(&self, stream: Stream) -> Option<PairId> {
        self.open.iter().find(|(_, open)| *open == Open::Stream(stream)).map(|(pair, _)| *pair)
    }

    fn start(&mut self, open: Open, out: &mut impl Steps) -> Result<PairId, Refusal> {
        if self.open.len() >= OPEN_PAIRS_MAX {
            let why = format!("more than {OPEN_PAIRS_MAX} things are open at once; end some first");
            return Err(Refusal::of(Limit::OpenPairs, why));
        }
        self.last += 1;
        let pair = PairId(self.last);
        out.step(&edge_of(pair, &open, Edge::Start));
        self.open.push((pair, open));
        Ok(pair)
    }

    /// Ends the innermost pair that `matches`; tells whether there was one.
    fn end_where(&mut self, matches: impl Fn(&Open) -> bool, out: &mut impl Steps) -> bool {
        match self.open.iter().rposition(|(_, open)| matches(open)) {
            Some(index) => {
                self.close(index, out);
                true
            }
            None => false,
        }
    }

    /// Ends an iteration or an agent-run tool by name. One that never started is started first; a second end is dropped.
    fn end_named(&mut self, kind: &'static str, name: &str, args: &str, out: &mut impl Steps) -> Result<(), Refusal> {
        let is_it = |open: &Open| match open {
            Open::Iteration(label) => kind == "iteration" && label == name,
            Open::Tool { name: open, by_agent: true, .. } => kind == "tool-run" && open == name,
            Open::Stream(_) | Open::Model | Open::Tool { .. } => false,
        };
        if self.end_where(is_it, out) || self.ended.iter().any(|(k, n)| *k == kind && n == name) {
            return Ok(());
        }
        let open = if kind == "iteration" {
            Open::Iteration(name.to_owned())
        } else {
            Open::Tool { name: name.to_owned(), args: args.to_owned(), by_agent: true }
        };
        self.start(open, out)?;
        self.end_where(is_it, out);
        Ok(())
    }

    fn close(&mut self, index: usize, out: &mut impl Steps) {
        let (pair, open) = self.open.remove(index);
        out.step(&edge_of(pair, &open, Edge::End));
        match open {
            Open::Iteration(label) => self.remember("iteration", label),
            Open::Tool { name, by_agent: true, .. } => self.remember("tool-run", name),
            Open::Model => self.model_ended = true,
            Open::Stream(_) | Open::Tool { .. } => {}
        }
    }

    fn remember(&mut self, kind: &'static str, name: String) {
        if !self.ended.iter().any(|(k, n)| *k == kind && *n == name) {
            if self.ended.len() >= ENDED_MAX {
                self.ended.remove(0);
            }
            self.ended.push((kind, name));
        }
    }
}

fn edge_of(pair: PairId, open: &Open, edge: Edge) -> Step<'_> {
    match open {
        Open::Stream(stream) => Step::Stream { pair, stream: *stream, edge },
        Open::Iteration(label) => Step::Iteration { pair, edge, label },
        Open::Model => Step::Model { pair, edge },
        Open::Tool { name, args, .. } => Step::Tool { pair, edge, name, args },
    }
}

fn bounded(field: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > NAME_BYTES_MAX {
        return Err(Refusal::of(Limit::Names, format!("{field}: longer than {NAME_BYTES_MAX} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
