//! Telling a link `[label](target)` from brackets that are just brackets.
//!
//! Pure, and bounded: neither part may be longer than its bound, and no text is looked through more often than a fixed
//! number of times, whatever brackets it holds.

/// The longest label that is waited for, in bytes.
pub(super) const LABEL_MAX: usize = 256;
/// The longest target that is waited for, in bytes: what browsers take of an address.
pub(super) const TARGET_MAX: usize = 2048;
/// How deep brackets may nest in a label; each level is looked through once more if the outer one is no link.
const NESTED_MAX: usize = 8;

/// What stands at a `[`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Link<'a> {
    /// A link of `used` bytes.
    Whole {
        /// Its label.
        text: &'a str,
        /// Its length, from the beginning of the mark.
        used: usize,
    },
    /// No link, and none begins within `seen` bytes either.
    None {
        /// How far.
        seen: usize,
    },
}

/// What `rest`, which begins with a mark of `start` bytes, is. `None` if it takes more text to tell.
pub(super) fn find(rest: &str, start: usize, end: bool) -> Option<Link<'_>> {
    let mut depth = 1_usize;
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(start) {
        if c == '\n' || at >= start + LABEL_MAX {
            return Some(Link::None { seen: at });
        }
        match c {
            _ if escaped => {}
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        if depth > NESTED_MAX {
            return Some(Link::None { seen: at });
        }
        if depth == 0 {
            let text = rest.get(start..at).unwrap_or_default();
            return target(rest, text, at + 1, end);
        }
        escaped = c == '\\' && !escaped;
    }
    end.then_some(Link::None { seen: rest.len() })
}

/// Where in a target the search is.
#[derive(Clone, Copy)]
enum Part {
    Before,
    Address,
    Gap,
    Title(char),
}

/// The target behind a label that ends at `from`, if there is one.
fn target<'a>(rest: &str, text: &'a str, from: usize, end: bool) -> Option<Link<'a>> {
    let after = rest.get(from..).unwrap_or_default();
    let Some(inside) = after.strip_prefix('(') else {
        // There may be links within the brackets.
        return (!after.is_empty() || end).then_some(Link::None { seen: 0 });
    };
    let start = rest.len() - inside.len();
    let mut part = Part::Before;
    let mut depth = 0_usize;
    for (at, c) in inside.char_indices() {
        let none = Some(Link::None { seen: start + at });
        if c == '\n' || at >= TARGET_MAX {
            return none;
        }
        let blank = matches!(c, ' ' | '\t');
        part = match (part, c) {
            (Part::Title(quote), c) if c == quote => Part::Gap,
            (Part::Title(quote), _) => Part::Title(quote),
            (Part::Before | Part::Address | Part::Gap, ')') if depth == 0 => {
                return Some(Link::Whole { text, used: start + at + 1 });
            }
            (Part::Before, _) if blank => Part::Before,
            (Part::Address | Part::Gap, _) if blank && depth == 0 => Part::Gap,
            (Part::Gap, '"' | '\'') => Part::Title(c),
            (Part::Before | Part::Address, _) if !blank => {
                match c {
                    '(' => depth += 1,
                    ')' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                Part::Address
            }
            // More words than one are no address.
            (Part::Before | Part::Address | Part::Gap, _) => return none,
        };
    }
    end.then_some(Link::None { seen: rest.len() })
}
