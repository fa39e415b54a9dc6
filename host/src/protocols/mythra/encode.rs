//! Steps of a turn as Mythra messages: which of them has one, and under which id.
//!
//! Pure: the ids come from outside. The `response-state` start is not made here, because it goes out when the input is
//! accepted, before there is a turn; its id is handed in for the end.

use std::collections::VecDeque;

use super::wire::{Event, Kind, Outgoing};
use crate::{
    ids,
    script::{Edge, Encode, Failure, Frames, OPEN_PAIRS_MAX, Outcome, PairId, Step, Stream},
    text,
};

/// The most bytes of text in one delta: what a client gets to show at once, and how long others wait behind it.
pub(super) const DELTA_MAX: usize = 64 * 1024;

/// What the user is told when the host goes down.
pub(super) const SHUTTING_DOWN: &str = "the server is shutting down";

/// A new id: 11 random base-36 characters, as the document's samples have them.
pub(super) fn wire_id() -> String {
    ids::base36::<11>()
}

/// Shows one turn. `I` makes ids.
pub(super) struct Encoder<I = fn() -> String> {
    ids: I,
    response: String,
    apology: String,
    /// The ids of the pairs that are open.
    open: Vec<(PairId, String)>,
    /// The ids of the pairs that ended last, newest first: a failure names one of those that it closed.
    ended: VecDeque<(PairId, String)>,
}

impl Encoder {
    /// An encoder for the answer `response`, which says `apology` where the agent failed without words of its own.
    pub(super) fn new(response: String, apology: String) -> Self {
        Self::with_ids(wire_id, response, apology)
    }
}

impl<I: FnMut() -> String> Encoder<I> {
    fn with_ids(ids: I, response: String, apology: String) -> Self {
        Self { ids, response, apology, open: Vec::new(), ended: VecDeque::new() }
    }

    /// One end of a pair, under the pair's id.
    fn edge(&mut self, pair: PairId, edge: Edge, message: Outgoing<'_>, out: &mut Frames) {
        let event = event_of(edge);
        match edge {
            Edge::Start => {
                let id = (self.ids)();
                write(&Outgoing { id: &id, event, ..message }, out);
                self.open.push((pair, id));
            }
            Edge::End => {
                let Some(index) = self.open.iter().rposition(|(open, _)| *open == pair) else { return };
                let (_, id) = self.open.remove(index);
                write(&Outgoing { id: &id, event, ..message }, out);
                self.ended.push_front((pair, id));
                self.ended.truncate(OPEN_PAIRS_MAX);
            }
        }
    }

    fn delta(&self, pair: PairId, stream: Stream, text: &str, out: &mut Frames) {
        let Some((_, id)) = self.open.iter().rfind(|(open, _)| *open == pair) else { return };
        for piece in text::pieces(text, DELTA_MAX) {
            write(&Outgoing { content: Some(piece), ..Outgoing::bare(id, kind_of(stream), Event::Delta) }, out);
        }
    }

    fn finish(&mut self, outcome: &Outcome, failed: Option<PairId>, out: &mut Frames) {
        if let Outcome::Failed(failure) = outcome {
            let numbered;
            let content = match failure {
                Failure::Said(text) => text,
                Failure::General(number) => {
                    numbered = text::numbered(&self.apology, number.as_deref());
                    &numbered
                }
                Failure::ShuttingDown => SHUTTING_DOWN,
            };
            let known = self.ended.iter().find(|(ended, _)| Some(*ended) == failed);
            let id = known.map_or_else(|| (self.ids)(), |(_, id)| id.clone());
            write(&Outgoing::error(&id, content), out);
        }
        write(&Outgoing::bare(&self.response, Kind::ResponseState, Event::End), out);
    }
}

impl<I: FnMut() -> String + Send> Encode for Encoder<I> {
    fn encode(&mut self, step: &Step<'_>, out: &mut Frames) {
        // The id and the event of a pair's ends are filled in by `edge`.
        let bare = |kind| Outgoing::bare("", kind, Event::Start);
        match *step {
            Step::Stream { pair, stream, edge } => self.edge(pair, edge, bare(kind_of(stream)), out),
            Step::Delta { pair, stream, text } => self.delta(pair, stream, text, out),
            Step::Iteration { pair, edge, label } => {
                let message = Outgoing { content: Some(label), ..bare(Kind::IterationState) };
                self.edge(pair, edge, message, out);
            }
            Step::Model { pair, edge } => self.edge(pair, edge, bare(Kind::ModelInvocationState), out),
            Step::Tool { pair, edge, name, args } => {
                self.edge(pair, edge, Outgoing::tool("", Event::Start, name, args), out);
            }
            // The client is no device, and the protocol has no message for one.
            Step::Device(_) => {}
            Step::Fault(text) => {
                let id = (self.ids)();
                write(&Outgoing::error(&id, text), out);
            }
            // The protocol has no message for follow-up questions.
            Step::Finish { outcome, failed, follow_up: _ } => self.finish(outcome, failed, out),
        }
    }
}

fn kind_of(stream: Stream) -> Kind {
    match stream {
        Stream::Think => Kind::ThinkOutput,
        Stream::Chat => Kind::ChatOutput,
    }
}

fn event_of(edge: Edge) -> Event {
    match edge {
        Edge::Start => Event::Start,
        Edge::End => Event::End,
    }
}

/// Appends `message` as one frame.
pub(super) fn write(message: &Outgoing<'_>, out: &mut Frames) {
    let start = out.bytes.len();
    match message.write(&mut out.bytes) {
        Ok(()) => out.end_frame(),
        // Text and numbers always fit into JSON; half a frame must not stand in the next one's place all the same.
        Err(error) => {
            out.bytes.truncate(start);
            tracing::error!(%error, "a frame could not be written");
        }
    }
}

#[cfg(test)]
mod tests;
