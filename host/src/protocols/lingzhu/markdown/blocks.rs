//! What only the beginning of a line can be: headings, quotes, rows of tables, list bullets and code fences.

use super::{Row, Stripper, run_of};

/// How many blanks may stand before a mark at the beginning of a line: those of nested lists.
const INDENT_MAX: usize = 16;
/// How many blanks may stand before a heading or a quote; with more it is code.
const CODE_INDENT: usize = 3;
/// The longest line that is looked at as a fence, in bytes: backticks and the name of a language.
const FENCE_LINE_MAX: usize = 64;
/// The longest line that is looked at as the rule of a table, in bytes.
const RULE_MAX: usize = 256;

/// Where in its line the text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Block {
    /// Before anything but blanks, quotes and bullets.
    #[default]
    Start,
    /// Behind digits that may number a list's item.
    Number,
    /// Behind what is a bullet if a blank follows.
    Mark,
    /// Behind anything else.
    Inside,
}

/// A code block that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    length: usize,
}

/// What a line that may be the last of a code block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closer {
    Yes,
    No,
    /// So far.
    Maybe,
}

impl Stripper {
    /// Reads what stands at the beginning of a line.
    pub(super) fn at_start(&mut self, rest: &str, end: bool, out: &mut String) -> Option<usize> {
        let indent = rest.bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r')).count();
        if self.block != Block::Start {
            return self.behind_bullet(rest, indent, end, out);
        }
        let (blanks, rest) = rest.split_at_checked(indent)?;
        let Some(c) = rest.chars().next().filter(|_| indent <= INDENT_MAX) else {
            // Blanks only, so far.
            if indent <= INDENT_MAX && !end {
                return None;
            }
            self.show(blanks, out);
            self.block = if indent <= INDENT_MAX { Block::Start } else { Block::Inside };
            return Some(indent);
        };
        let mark = match c {
            '#' if indent <= CODE_INDENT => heading(rest, end)?,
            '>' if indent <= CODE_INDENT => quote(rest, end)?,
            '`' | '~' => self.opening(c, rest, end)?,
            '|' => self.table(rest, end)?,
            _ => 0,
        };
        if mark > 0 {
            if c == '#' {
                self.block = Block::Inside;
            }
            return Some(indent + mark);
        }
        let bullet = match c {
            '*' if rest.len() == 1 && !end => return None,
            '*' => usize::from(rest.starts_with("* ")),
            '-' | '+' => 1,
            c if c.is_ascii_digit() => 1,
            _ => 0,
        };
        self.show(blanks, out);
        self.block = match c {
            '\n' => {
                // A paragraph is over, and with it what was open.
                self.open = 0;
                Block::Start
            }
            c if c.is_ascii_digit() => Block::Number,
            _ if bullet > 0 => Block::Mark,
            _ => Block::Inside,
        };
        let used = if c == '\n' { 1 } else { bullet };
        self.show(rest.get(..used).unwrap_or_default(), out);
        if indent + used > 0 { Some(indent + used) } else { self.step(rest, end, out) }
    }

    /// Reads on behind what may be a bullet. All of it is shown; the question is whether a line begins behind it.
    fn behind_bullet(&mut self, rest: &str, blanks: usize, end: bool, out: &mut String) -> Option<usize> {
        let c = rest.chars().next()?;
        self.block = match (self.block, c) {
            (Block::Mark, _) if blanks > 0 => Block::Start,
            (Block::Number, '.' | ')') => Block::Mark,
            (Block::Number, c) if c.is_ascii_digit() => Block::Number,
            _ => Block::Inside,
        };
        if self.block == Block::Inside {
            return self.step(rest, end, out);
        }
        self.show(rest.get(..1).unwrap_or_default(), out);
        Some(1)
    }

    /// The length of a line that opens a code block; 0 if it does not.
    fn opening(&mut self, mark: char, rest: &str, end: bool) -> Option<usize> {
        let length = run_of(mark, rest);
        if length < 3 {
            return if length == rest.len() && !end { None } else { Some(0) };
        }
        let newline = rest.bytes().take(FENCE_LINE_MAX).position(|byte| byte == b'\n');
        let line = rest.get(length..newline.unwrap_or(rest.len())).unwrap_or_default();
        if line.contains('`') {
            return Some(0);
        }
        match newline {
            None if rest.len() >= FENCE_LINE_MAX => return Some(0),
            None if !end => return None,
            None | Some(_) => self.fence = Some(Fence { mark, length }),
        }
        Some(newline.map_or(rest.len(), |at| at + 1))
    }

    /// Reads within a code block: everything is shown as it is but the line that closes it.
    pub(super) fn in_fence(&mut self, fence: Fence, rest: &str, end: bool, out: &mut String) -> Option<usize> {
        let newline = rest.bytes().position(|byte| byte == b'\n').map(|at| at + 1);
        if self.block == Block::Start {
            let line = newline.filter(|used| *used <= FENCE_LINE_MAX);
            let text = rest.get(..line.unwrap_or(rest.len())).unwrap_or_default();
            let closer = if line.is_none() && rest.len() >= FENCE_LINE_MAX { Closer::No } else { fence.closer(text) };
            match closer {
                Closer::Maybe if line.is_none() && !end => return None,
                Closer::Yes => {
                    if line.is_none() && !end {
                        return None;
                    }
                    self.fence = None;
                    return Some(text.len());
                }
                Closer::Maybe | Closer::No => {}
            }
        }
        let used = newline.unwrap_or(rest.len());
        self.block = if newline.is_some() { Block::Start } else { Block::Inside };
        out.push_str(rest.get(..used).unwrap_or_default());
        Some(used)
    }

    /// The length of a table's rule, or of the pipe that begins a row.
    fn table(&mut self, rest: &str, end: bool) -> Option<usize> {
        let other =
            rest.bytes().take(RULE_MAX).position(|byte| !matches!(byte, b'|' | b'-' | b':' | b' ' | b'\t' | b'\r'));
        let line = match other {
            Some(at) => rest.get(..at).filter(|_| rest.as_bytes().get(at) == Some(&b'\n')),
            None if rest.len() >= RULE_MAX => None,
            None if !end => return None,
            None => Some(rest),
        };
        if let Some(line) = line.filter(|line| ["--", ":-", "-:"].iter().any(|mark| line.contains(mark))) {
            return Some(rest.len().min(line.len() + 1));
        }
        self.row = Some(Row::default());
        self.block = Block::Inside;
        Some(1)
    }
}

impl Fence {
    fn closer(self, line: &str) -> Closer {
        let line = line.trim_end_matches('\n');
        let text = line.trim_start_matches([' ', '\t']);
        let run = run_of(self.mark, text);
        let tail = text.get(run..).unwrap_or_default();
        if line.len() - text.len() > INDENT_MAX || !tail.trim_matches([' ', '\t', '\r']).is_empty() {
            return Closer::No;
        }
        match (run >= self.length, tail.is_empty()) {
            (true, _) => Closer::Yes,
            (false, true) => Closer::Maybe,
            (false, false) => Closer::No,
        }
    }
}

/// The length of a heading's mark with the blanks behind it; 0 if it is none.
fn heading(rest: &str, end: bool) -> Option<usize> {
    let length = run_of('#', rest);
    let tail = rest.get(length..).unwrap_or_default();
    if length > 6 {
        return Some(0);
    }
    let blanks = tail.bytes().take(INDENT_MAX).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    match tail.chars().next() {
        None if !end => None,
        // Nothing comes behind it: a heading of nothing, or just these characters.
        None => Some(0),
        Some('\n' | '\r') => Some(length),
        Some(_) if blanks == 0 => Some(0),
        Some(_) if blanks == tail.len() && blanks < INDENT_MAX && !end => None,
        Some(_) => Some(length + blanks),
    }
}

/// The length of a quote's mark with the blank behind it; 0 if it is none.
fn quote(rest: &str, end: bool) -> Option<usize> {
    match rest.chars().nth(1) {
        None if !end => None,
        Some(' ') => Some(2),
        None | Some('>') => Some(1),
        Some(c) if c.is_whitespace() => Some(1),
        Some(_) => Some(0),
    }
}
