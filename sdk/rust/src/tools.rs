//! The host's tools: what they are, and why one gave no result.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// A tool that a turn may call. As JSON it is what language models take for a function.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tool {
    /// `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// What it does, in words for a model.
    pub description: String,
    /// A JSON Schema of the arguments.
    pub parameters: Value,
}

/// Of which kind a tool's failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolErrorKind {
    /// There is no such tool in this turn.
    Unknown,
    /// This call of it is not allowed.
    Denied,
    /// An argument is wrong.
    InvalidArgs,
    /// It did not answer in time.
    Timeout,
    /// It failed by itself.
    Failed,
    /// Its answer, or the arguments, are not what the agent took them for.
    Shape,
}

/// Why a tool gave no result; as text, in safe words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    /// Of which kind.
    pub kind: ToolErrorKind,
    /// Which tool, argument or rule, and what would help.
    pub text: String,
}

impl ToolError {
    /// A failure of this kind.
    pub fn new(kind: ToolErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn shape(error: &serde_json::Error) -> Self {
        Self::new(ToolErrorKind::Shape, format!("the JSON is of another shape: {error}"))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for ToolError {}
