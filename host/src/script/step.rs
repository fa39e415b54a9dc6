//! What the script of a turn hands to a protocol: steps in an order that is always well-formed, and the trait by which
//! a protocol turns them into frames.

use bytes::BytesMut;

/// Which pair of start and end a step belongs to; unique within the turn. A protocol makes its own id of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PairId(pub u32);

/// The two streams of text an agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Thoughts, apart from the answer.
    Think,
    /// The answer.
    Chat,
}

/// The two ends of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// It begins.
    Start,
    /// It is over.
    End,
}

/// A command to the wearer's device, already checked: its name and its fields in the order in which they are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCommand {
    /// One of the commands that the protocol's document knows.
    pub command: &'static str,
    /// Name and value of each field that is there.
    pub fields: Vec<(&'static str, String)>,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The agent said so itself, in words for the user.
    Said(String),
    /// Anything else: a trap or a limit. The user gets a general text, and the number of the failure's record if it has
    /// one.
    General(Option<String>),
    /// The host is going down.
    ShuttingDown,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Done,
    /// Not well.
    Failed(Failure),
}

/// One step of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<'a> {
    /// A stream of text opens or closes.
    Stream {
        /// Which one.
        pair: PairId,
        /// Thoughts or answer.
        stream: Stream,
        /// Open or close.
        edge: Edge,
    },
    /// Text of the open stream; never empty.
    Delta {
        /// The stream's pair.
        pair: PairId,
        /// Thoughts or answer.
        stream: Stream,
        /// The text.
        text: &'a str,
    },
    /// A round of the agent's.
    Iteration {
        /// Which one.
        pair: PairId,
        /// Start or end.
        edge: Edge,
        /// Its name; the same at both ends.
        label: &'a str,
    },
    /// A language model at work.
    Model {
        /// Which one.
        pair: PairId,
        /// Start or end.
        edge: Edge,
    },
    /// A tool at work, the host's or the agent's own.
    Tool {
        /// Which one.
        pair: PairId,
        /// Start or end.
        edge: Edge,
        /// Its name.
        name: &'a str,
        /// A JSON object, compact; the same at both ends.
        args: &'a str,
    },
    /// A command to the wearer's device.
    Device(&'a DeviceCommand),
    /// An error that does not end the turn.
    Fault(&'a str),
    /// The last step, always there and only once. Nothing is open.
    Finish {
        /// How it ended.
        outcome: &'a Outcome,
        /// What was still open when it failed, innermost.
        failed: Option<PairId>,
        /// What the user may want to ask next; empty after a failure.
        follow_up: &'a [String],
    },
}

/// Frames that wait to be sent: their bytes, and where each ends.
#[derive(Debug, Default)]
pub struct Frames {
    /// All frames, one after another.
    pub bytes: BytesMut,
    /// The end of each frame in `bytes`.
    pub ends: Vec<usize>,
}

impl Frames {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Marks the end of the frame that was just written to `bytes`.
    pub fn end_frame(&mut self) {
        self.ends.push(self.bytes.len());
    }

    /// Takes everything that waits.
    #[must_use]
    pub fn take(&mut self) -> Self {
        Self { bytes: self.bytes.split(), ends: std::mem::take(&mut self.ends) }
    }
}

/// How a protocol shows the steps of one turn.
pub trait Encode: Send {
    /// Appends the frames of `step` to `out`: none, one or several.
    fn encode(&mut self, step: &Step<'_>, out: &mut Frames);
}
