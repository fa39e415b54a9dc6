//! What a person sees of a chat, or, with `--json`, what a script reads of it. It knows no protocol and no connection.
//!
//! Whatever the host sent is somebody else's text: its control characters are made visible before a terminal sees them.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use anstyle::{AnsiColor, Style};
use serde_json::Value;

use super::frames::Piece;
use crate::text;

const DIM: Style = Style::new().dimmed();
const RED: Style = AnsiColor::Red.on_default();
const CYAN: Style = AnsiColor::Cyan.on_default();

/// How much of a tool's arguments is shown, in bytes: a few lines of a terminal. `--json` shows all.
const ARGS_SHOWN_MAX: usize = 512;

/// Where what comes back of a turn is shown.
pub(in crate::cli) trait Show {
    /// Shows a frame: as it is, or what it tells.
    fn frame(&mut self, frame: &Value, piece: Piece) -> io::Result<()>;

    /// Says something beside the answer.
    fn hint(&mut self, text: &str) -> io::Result<()>;
}

/// Where the answer and its side remarks go.
pub(in crate::cli) struct Screen<O, E> {
    out: O,
    err: E,
    detail: Detail,
    /// The stream that the last text was of, if nothing else has been shown since.
    stream: Option<Stream>,
    /// Whether the line that the cursor is on has text.
    open: bool,
    follow_up: Vec<String>,
}

/// What of the frames is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Detail {
    /// What a person wants to see.
    Talk,
    /// Iterations and model states as well.
    Work,
    /// The frames themselves as lines of JSON, and nothing else.
    Frames,
}

/// A stream of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Thought,
    Answer,
}

impl<O: Write, E: Write> Screen<O, E> {
    /// An empty screen.
    pub(in crate::cli) fn new(out: O, err: E, detail: Detail) -> Self {
        Self { out, err, detail, stream: None, open: false, follow_up: Vec::new() }
    }

    /// Closes a turn: ends the line, and lists what may be asked next.
    pub(in crate::cli) fn end_turn(&mut self) -> io::Result<()> {
        self.end_line()?;
        for question in std::mem::take(&mut self.follow_up) {
            writeln!(self.out, "  {CYAN}›{CYAN:#} {}", text::visible(&question))?;
        }
        self.out.flush()
    }

    /// Asks for the next line.
    pub(in crate::cli) fn prompt(&mut self) -> io::Result<()> {
        write!(self.out, "> ")?;
        self.out.flush()
    }

    /// Takes the prompt away again, so that something else can stand in its place.
    pub(in crate::cli) fn take_prompt(&mut self) -> io::Result<()> {
        write!(self.out, "\r\x1b[K")?;
        self.out.flush()
    }

    /// Ends a line that a person or an interrupt left open.
    pub(in crate::cli) fn new_line(&mut self) -> io::Result<()> {
        writeln!(self.out)?;
        self.out.flush()
    }

    /// Says what went wrong.
    pub(in crate::cli) fn error(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        writeln!(self.err, "{RED}error: {}{RED:#}", legible(text))?;
        self.err.flush()
    }

    /// Says something that has nothing to do with the answer, in its own style; where both go to one terminal, on a line
    /// of its own.
    pub(in crate::cli) fn aside(&mut self, lines: &str, one_terminal: bool) -> io::Result<()> {
        if one_terminal {
            self.end_line()?;
        }
        writeln!(self.err, "{lines}")?;
        self.err.flush()
    }

    /// Shows more of a stream; another stream begins on its own line.
    fn text(&mut self, stream: Stream, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let begins = self.stream != Some(stream);
        if begins {
            self.end_line()?;
            self.stream = Some(stream);
        }
        let text = legible(text);
        match stream {
            // Where there is no colour, thoughts must still look other than an answer.
            Stream::Thought => write!(self.out, "{DIM}{}{text}{DIM:#}", if begins { "… " } else { "" })?,
            Stream::Answer => write!(self.out, "{text}")?,
        }
        self.open = !text.ends_with('\n');
        self.out.flush()
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.stream = None;
        if std::mem::take(&mut self.open) {
            writeln!(self.out)?;
            self.out.flush()?;
        }
        Ok(())
    }
}

impl<O: Write, E: Write> Show for Screen<O, E> {
    fn frame(&mut self, frame: &Value, piece: Piece) -> io::Result<()> {
        if self.detail == Detail::Frames {
            writeln!(self.out, "{}", json_line(frame))?;
            return self.out.flush();
        }
        match piece {
            Piece::Think(text) => self.text(Stream::Thought, &text),
            Piece::Answer(text) => self.text(Stream::Answer, &text),
            Piece::Stand(text) => {
                self.end_line()?;
                self.text(Stream::Answer, &text)?;
                self.hint("the agent failed, or said nothing; the host's log says why")
            }
            Piece::Break => self.end_line(),
            Piece::Tool { name, args } => {
                let shown = text::head(&args, ARGS_SHOWN_MAX);
                let cut = if shown.len() < args.len() { "…" } else { "" };
                let (name, args) = (text::visible(&name), text::visible(shown));
                self.end_line()?;
                writeln!(self.out, "{CYAN}⚙ {name}{CYAN:#} {DIM}{args}{cut}{DIM:#}")?;
                self.out.flush()
            }
            Piece::State(text) if self.detail == Detail::Work => {
                self.end_line()?;
                writeln!(self.out, "{DIM}· {}{DIM:#}", text::visible(&text))?;
                self.out.flush()
            }
            Piece::Error(text) => self.error(&text),
            Piece::FollowUp(questions) => {
                self.follow_up = questions;
                Ok(())
            }
            Piece::Begin | Piece::State(_) | Piece::Silent | Piece::End => Ok(()),
        }
    }

    fn hint(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        writeln!(self.err, "{DIM}{}{DIM:#}", legible(text))?;
        self.err.flush()
    }
}

/// `text` with all its control characters made visible but line feeds and tabs.
fn legible(text: &str) -> String {
    text.split_inclusive(['\n', '\t']).fold(String::with_capacity(text.len()), |mut out, part| {
        let end = part.chars().next_back().filter(|c| matches!(c, '\n' | '\t'));
        out.push_str(&text::visible(part.strip_suffix(['\n', '\t']).unwrap_or(part)));
        out.extend(end);
        out
    })
}

/// `frame` as one line of JSON in which no character is a terminal's to obey. JSON has them inside strings only, where
/// each may stand as an escape with the same meaning.
fn json_line(frame: &Value) -> String {
    frame.to_string().chars().fold(String::new(), |mut line, c| {
        let mut buffer = [0; 4];
        let own: &str = c.encode_utf8(&mut buffer);
        if text::visible(own) == own {
            line.push(c);
        } else {
            // Writing to a string cannot fail.
            let _infallible = write!(line, "\\u{:04x}", u32::from(c));
        }
        line
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What the screen shows of `pieces`, without colours: its output and its remarks.
    fn shown(detail: Detail, pieces: &[Piece]) -> (String, String) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let plain = (anstream::StripStream::new(&mut out), anstream::StripStream::new(&mut err));
        let mut screen = Screen::new(plain.0, plain.1, detail);
        for piece in pieces {
            screen.frame(&Value::Null, piece.clone()).unwrap();
        }
        screen.end_turn().unwrap();
        drop(screen);
        (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    #[test]
    fn streams_tools_and_questions_each_have_their_own_lines() {
        let pieces = [
            Piece::Begin,
            Piece::State("iteration 0 start".to_owned()),
            Piece::Think("let me".to_owned()),
            Piece::Think(" see".to_owned()),
            Piece::Break,
            Piece::Tool { name: "WriteFile".to_owned(), args: r#"{"filePath":"/a"}"#.to_owned() },
            Piece::Answer("one\n".to_owned()),
            Piece::Answer("two".to_owned()),
            Piece::FollowUp(vec!["next?".to_owned()]),
            Piece::End,
        ];
        let (out, err) = shown(Detail::Talk, &pieces);
        assert_eq!(out, "… let me see\n⚙ WriteFile {\"filePath\":\"/a\"}\none\ntwo\n  › next?\n");
        assert_eq!(err, "");
        assert!(shown(Detail::Work, &pieces).0.starts_with("· iteration 0 start\n… let me"));
    }

    #[test]
    fn errors_go_beside_the_answer_on_a_line_of_their_own() {
        let (out, err) =
            shown(Detail::Talk, &[Piece::Answer("x".to_owned()), Piece::Error("the agent failed".to_owned())]);
        assert_eq!((out.as_str(), err.as_str()), ("x\n", "error: the agent failed\n"));
    }

    #[test]
    fn a_terminal_obeys_nothing_that_the_host_sent() {
        assert_eq!(legible("a\tb\n\u{1b}[2Jc\r\u{9b}\u{202e}\n"), "a\tb\n\\u{1b}[2Jc\\r\\u{9b}\\u{202e}\n");
        let (out, _) = shown(Detail::Talk, &[Piece::Tool { name: "a\nb".to_owned(), args: "\u{1b}c".to_owned() }]);
        assert_eq!(out, "⚙ a\\nb \\u{1b}c\n");
    }

    #[test]
    fn json_lines_hold_the_frame_and_nothing_else() {
        let frame = json!({ "type": "x", "content": "你\n\u{9b}\u{7f}" });
        let line = json_line(&frame);
        assert_eq!(line, "{\"type\":\"x\",\"content\":\"你\\n\\u009b\\u007f\"}");
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), frame);
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, io::sink(), Detail::Frames);
        screen.frame(&json!({ "a": 1 }), Piece::Answer("x".to_owned())).unwrap();
        screen.end_turn().unwrap();
        drop(screen);
        assert_eq!(out, b"{\"a\":1}\n");
    }

    #[test]
    fn long_arguments_are_cut() {
        let (out, _) = shown(Detail::Talk, &[Piece::Tool { name: "f".to_owned(), args: "x".repeat(5000) }]);
        assert!(out.len() < 600 && out.ends_with("x…\n"), "{out}");
    }
}
