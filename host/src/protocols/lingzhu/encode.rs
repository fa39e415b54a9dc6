//! Steps of a turn as Lingzhu frames: which of them the wearer sees, and how the stream ends.
//!
//! Pure: no I/O and no clock. The comments and the progress text of a silent stream are `sse`'s.

use super::{
    markdown::Stripper,
    wire::{Event, Ids, Say},
};
use crate::{
    config::{AgentConfig, Markdown},
    script::{Edge, Encode, FOLLOW_UP_MAX, Failure, Frames, Outcome, Step, Stream},
    text,
};

/// The most bytes of text in one frame: several screens of the glasses, and little to hold on their side.
pub(super) const ANSWER_MAX: usize = 16 * 1024;

/// Shows one turn.
pub(super) struct Encoder {
    ids: Ids,
    stripper: Option<Stripper>,
    apology: String,
    nothing: String,
    /// Whether the wearer has seen anything yet.
    shown: bool,
}

impl Encoder {
    /// An encoder of answers under `ids`, with the agent's texts in the wearer's language.
    pub(super) fn new(ids: Ids, agent: &AgentConfig, lang: &str) -> Self {
        Self {
            ids,
            stripper: match agent.markdown {
                Markdown::Strip => Some(Stripper::new()),
                Markdown::Keep => None,
            },
            apology: agent.apology(lang).to_owned(),
            nothing: agent.nothing(lang).to_owned(),
            shown: false,
        }
    }

    fn chat(&mut self, text: &str, out: &mut Frames) {
        match &mut self.stripper {
            Some(stripper) => {
                let text = stripper.push(text);
                self.answer(&text, out);
            }
            None => self.answer(text, out),
        }
    }

    /// Shows what the stripper holds back, so that it stands before what comes next.
    fn flush(&mut self, out: &mut Frames) {
        if let Some(stripper) = &mut self.stripper {
            let rest = stripper.finish();
            self.answer(&rest, out);
        }
    }

    /// Text in as many frames as it needs; none for empty text.
    fn answer(&mut self, text: &str, out: &mut Frames) {
        for piece in text::pieces(text, ANSWER_MAX) {
            self.ids.frame(Event::Message, Say::Answer(piece), false, out);
        }
        self.shown |= !text.trim().is_empty();
    }

    /// Text that stands for itself, as it can be shown.
    fn plain(&self, text: &str) -> String {
        if self.stripper.is_some() { Stripper::strip(text) } else { text.to_owned() }
    }

    fn finish(&mut self, outcome: &Outcome, follow_up: &[String], out: &mut Frames) {
        self.flush(out);
        let said;
        let last = match outcome {
            Outcome::Done if !follow_up.is_empty() => {
                Say::FollowUp(follow_up.get(..FOLLOW_UP_MAX).unwrap_or(follow_up))
            }
            Outcome::Done if self.shown => Say::Answer(""),
            Outcome::Done => last_words(&self.nothing),
            Outcome::Failed(Failure::Said(text)) => {
                said = self.plain(text);
                last_words(if said.trim().is_empty() { &self.apology } else { &said })
            }
            Outcome::Failed(Failure::General(number)) => {
                said = text::numbered(&self.apology, number.as_deref());
                last_words(&said)
            }
            Outcome::Failed(Failure::ShuttingDown) => last_words(&self.apology),
        };
        self.ids.frame(Event::Message, last, true, out);
        self.ids.frame(Event::Done, Say::Answer(""), true, out);
    }
}

/// Only one frame may be the finished one, so that a text too long for it is cut.
fn last_words(text: &str) -> Say<'_> {
    Say::Answer(text::head(text, ANSWER_MAX))
}

impl Encode for Encoder {
    fn encode(&mut self, step: &Step<'_>, out: &mut Frames) {
        match step {
            Step::Delta { stream: Stream::Chat, text, .. } => self.chat(text, out),
            Step::Stream { stream: Stream::Chat, edge: Edge::End, .. } => self.flush(out),
            // The wearer sees the answer and nothing of how it came about.
            Step::Stream { stream: Stream::Chat, edge: Edge::Start, .. }
            | Step::Stream { stream: Stream::Think, .. }
            | Step::Delta { stream: Stream::Think, .. }
            | Step::Iteration { .. }
            | Step::Model { .. }
            | Step::Tool { .. } => {}
            Step::Device(command) => {
                self.flush(out);
                self.ids.frame(Event::Message, Say::ToolCall(command), false, out);
                self.shown = true;
            }
            // The protocol has no error of its own.
            Step::Fault(text) => {
                self.flush(out);
                let text = self.plain(text);
                self.answer(&text, out);
            }
            Step::Finish { outcome, failed: _, follow_up } => self.finish(outcome, follow_up, out),
        }
    }
}

#[cfg(test)]
mod tests;
