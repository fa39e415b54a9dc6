//! Markdown taken out of a stream of text, for a screen that cannot show it.
//!
//! A [`Stripper`] gives back at once what can be shown of each piece, and holds back only what may still turn out to be
//! a mark: a character or two of a `**`, at most [`link::LABEL_MAX`] and [`link::TARGET_MAX`] bytes of a link. However a text is cut
//! into pieces, the whole of what comes out is the same. This is no parser of Markdown: a mark that opens and never
//! closes is taken out all the same, because waiting for its end would hold the answer up.

use self::{
    blocks::{Block, Fence},
    link::Link,
};

mod blocks;
mod link;

/// The longest run of one character that is a mark; a longer one is a line or a row of stars.
const RUN_MAX: usize = 3;

/// Characters that a backslash makes plain.
const ESCAPED: &str = "*_~`[]|#>!\\";

/// Takes Markdown out of one text.
#[derive(Debug, Default)]
pub(super) struct Stripper {
    /// What may still be a mark.
    held: String,
    /// Where in its line the text is.
    block: Block,
    fence: Option<Fence>,
    row: Option<Row>,
    /// How many backticks the code span that is open began with.
    code: Option<usize>,
    /// The emphasis that is open, a bit for each kind of mark.
    open: u8,
    /// The last character that was read, shown or not.
    prev: Option<char>,
    /// For how many bytes no link begins, because one that seemed to begin before them does not.
    no_link: usize,
}

/// A table's row.
#[derive(Debug, Default)]
struct Row {
    /// Whether a blank stands before what comes next.
    owed: bool,
    /// Whether anything of the row is shown.
    any: bool,
}

/// What a run of a character is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Opens,
    Closes,
    Plain,
}

impl Stripper {
    /// A stripper at the beginning of a text.
    pub(super) fn new() -> Self {
        Self::default()
    }

    /// What is left of a whole text.
    pub(super) fn strip(text: &str) -> String {
        let mut stripper = Self::new();
        let mut out = stripper.push(text);
        out.push_str(&stripper.finish());
        out
    }

    /// Takes a piece, and gives back what can be shown now.
    pub(super) fn push(&mut self, text: &str) -> String {
        self.held.push_str(text);
        self.run(false)
    }

    /// What is held back. The text may go on all the same.
    pub(super) fn finish(&mut self) -> String {
        self.run(true)
    }

    fn run(&mut self, end: bool) -> String {
        let held = std::mem::take(&mut self.held);
        let mut out = String::with_capacity(held.len());
        let mut rest = held.as_str();
        while !rest.is_empty() {
            let Some(used) = self.step(rest, end, &mut out) else { break };
            let (read, after) = rest.split_at_checked(used).unwrap_or((rest, ""));
            self.prev = read.chars().next_back().or(self.prev);
            rest = after;
        }
        rest.clone_into(&mut self.held);
        out
    }

    /// Reads a beginning of `rest`, and tells how many bytes of it; none if it takes more text to tell what it is.
    /// What it makes of a beginning does not depend on what follows it, so that pieces make no difference.
    fn step(&mut self, rest: &str, end: bool, out: &mut String) -> Option<usize> {
        if let Some(fence) = self.fence {
            return self.in_fence(fence, rest, end, out);
        }
        match self.block {
            Block::Inside => self.inline(rest, end, out),
            Block::Start | Block::Number | Block::Mark => self.at_start(rest, end, out),
        }
    }

    fn inline(&mut self, rest: &str, end: bool, out: &mut String) -> Option<usize> {
        let used = self.token(rest, end, out)?;
        self.no_link = self.no_link.saturating_sub(used);
        Some(used)
    }

    fn token(&mut self, rest: &str, end: bool, out: &mut String) -> Option<usize> {
        let c = rest.chars().next()?;
        match c {
            '\n' => {
                out.push('\n');
                (self.row, self.code, self.block) = (None, None, Block::Start);
                Some(1)
            }
            '|' if self.row.is_some() => {
                self.code = None;
                self.owe();
                Some(1)
            }
            ' ' | '\t' | '\r' if self.row.is_some() => {
                self.owe();
                Some(1)
            }
            '`' => self.backticks(rest, end, out),
            _ if self.code.is_some() => Some(self.plain(rest, out)),
            '*' | '_' | '~' => self.emphasis(c, rest, end, out),
            '[' => self.link(rest, 1, end, out),
            '!' | '\\' if rest.len() == 1 && !end => None,
            '!' if rest.starts_with("![") => self.link(rest, 2, end, out),
            '\\' => {
                let plain = rest.get(1..2).filter(|next| ESCAPED.contains(next));
                self.show(plain.unwrap_or("\\"), out);
                Some(1 + plain.map_or(0, str::len))
            }
            _ => Some(self.plain(rest, out)),
        }
    }

    /// Shows the characters up to the next that may be a mark; at least one.
    fn plain(&mut self, rest: &str, out: &mut String) -> usize {
        let in_row = self.row.is_some();
        let in_code = self.code.is_some();
        let stops = |c: char| match c {
            '\n' | '`' => true,
            '|' | ' ' | '\t' | '\r' => in_row,
            '*' | '_' | '~' | '[' | '!' | '\\' => !in_code,
            _ => false,
        };
        let next = rest.char_indices().skip(1).find(|(_, c)| stops(*c));
        let used = next.map_or(rest.len(), |(at, _)| at);
        self.show(rest.get(..used).unwrap_or_default(), out);
        used
    }

    fn show(&mut self, text: &str, out: &mut String) {
        if text.is_empty() {
            return;
        }
        if let Some(row) = &mut self.row {
            if row.owed && row.any {
                out.push(' ');
            }
            *row = Row { owed: false, any: true };
        }
        out.push_str(text);
    }

    fn owe(&mut self) {
        if let Some(row) = &mut self.row {
            row.owed = true;
        }
    }

    /// A run of `c` at the beginning of `rest` that may be a mark, or `Err` with what is none: too long, or the rest of
    /// one that was too long. `None` if it may go on.
    fn mark(&self, c: char, rest: &str, end: bool) -> Option<Result<usize, usize>> {
        let run = run_of(c, rest);
        if self.prev == Some(c) || run > RUN_MAX {
            return Some(Err(run));
        }
        (run < rest.len() || end).then_some(Ok(run))
    }

    fn backticks(&mut self, rest: &str, end: bool, out: &mut String) -> Option<usize> {
        let mark = self.mark('`', rest, end)?;
        let run = mark.unwrap_or_else(|run| run);
        match (mark, self.code) {
            (Ok(_), None) => self.code = Some(run),
            (Ok(_), Some(open)) if open == run => self.code = None,
            _ => self.show(rest.get(..run).unwrap_or_default(), out),
        }
        Some(run)
    }

    fn emphasis(&mut self, c: char, rest: &str, end: bool, out: &mut String) -> Option<usize> {
        let mark = self.mark(c, rest, end)?;
        let run = mark.unwrap_or_else(|run| run);
        let bits = bits(c, run);
        let next = rest.get(run..).and_then(|after| after.chars().next());
        match mark.map_or(Mark::Plain, |_| self.flank(c, run, next)) {
            Mark::Opens => self.open |= bits,
            Mark::Closes => self.open &= !bits,
            Mark::Plain => self.show(rest.get(..run).unwrap_or_default(), out),
        }
        Some(run)
    }

    /// What a run of `c` between the character before it and `next` is.
    fn flank(&self, c: char, run: usize, next: Option<char>) -> Mark {
        let bits = bits(c, run);
        let blank = |c: Option<char>| c.is_none_or(char::is_whitespace);
        let both = |is: fn(&char) -> bool| self.prev.is_some_and(|c| is(&c)) && next.is_some_and(|c| is(&c));
        if bits == 0 {
            return Mark::Plain;
        }
        let within_word = c == '_' && next.is_some_and(char::is_alphanumeric);
        if self.open & bits != 0 && !blank(self.prev) && !within_word {
            return Mark::Closes;
        }
        // A path, an address or a formula, not a text with emphasis.
        let in_address = matches!(self.prev, Some('/' | '\\' | '=' | '&' | '@'));
        let in_name = match c {
            '_' => self.prev.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-')),
            '*' if run == 1 => both(char::is_ascii_alphanumeric),
            _ => both(char::is_ascii_digit),
        };
        if blank(next) || in_address || in_name { Mark::Plain } else { Mark::Opens }
    }

    /// A link or, where the label begins behind a `!`, an image: its label is shown.
    fn link(&mut self, rest: &str, label: usize, end: bool, out: &mut String) -> Option<usize> {
        let found = if self.no_link > 0 { Link::None { seen: 0 } } else { link::find(rest, label, end)? };
        match found {
            Link::Whole { text, used } => {
                // Marks within the label are its own.
                let mut inner = Self { block: Block::Inside, ..Self::default() };
                let mut text = inner.push(text);
                text.push_str(&inner.finish());
                self.show(&text, out);
                Some(used)
            }
            Link::None { seen } => {
                self.no_link = self.no_link.max(seen);
                self.show(rest.get(..label).unwrap_or_default(), out);
                Some(label)
            }
        }
    }
}

/// How many bytes of `rest` are the one-byte character `c` again and again.
fn run_of(c: char, rest: &str) -> usize {
    rest.bytes().take_while(|byte| char::from(*byte) == c).count()
}

/// Which kinds of emphasis a run is a mark of.
fn bits(c: char, run: usize) -> u8 {
    match (c, run) {
        ('*', 1) => 0b0_0001,
        ('*', 2) => 0b0_0010,
        ('*', 3) => 0b0_0011,
        ('_', 1) => 0b0_0100,
        ('_', 2) => 0b0_1000,
        ('_', 3) => 0b0_1100,
        ('~', 2) => 0b1_0000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
