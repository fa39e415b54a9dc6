//! Cutting and cleaning text that strangers wrote.

/// The longest beginning of `text` that is at most `max` bytes and ends between two characters.
pub fn head(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

/// `text` in pieces of at most `max` bytes, cut between characters; none for empty text. `max` is at least 4, a
/// character's longest form.
pub fn pieces(text: &str, max: usize) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let piece = head(rest, max.max(4));
        rest = rest.get(piece.len()..).unwrap_or_default();
        (!piece.is_empty()).then_some(piece)
    })
}

/// `text` with the number of a failure's record behind it, by which its author finds what went wrong.
pub fn numbered(text: &str, number: Option<&str>) -> String {
    number.map_or_else(|| text.to_owned(), |number| format!("{text} [{number}]"))
}

/// `text` with its control characters made visible, so that a line of a log stays one line and a terminal obeys
/// nothing in it.
pub fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

/// `projectId`, `project_id` and `project-id` as `project-id`: how a client's keys become the keys of facts.
pub fn kebab(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    let mut after_capital = true;
    let mut chars = key.trim().chars().peekable();
    while let Some(c) = chars.next() {
        if matches!(c, '_' | '-') || c.is_whitespace() {
            if !out.is_empty() && !out.ends_with('-') {
                out.push('-');
            }
            after_capital = true;
        } else if c.is_uppercase() {
            // A word begins at a capital after a small letter, and at the last of several capitals before one.
            let ends_capitals = after_capital && chars.peek().is_some_and(|next| next.is_lowercase());
            if !out.is_empty() && !out.ends_with('-') && (!after_capital || ends_capitals) {
                out.push('-');
            }
            out.extend(c.to_lowercase());
            after_capital = true;
        } else {
            out.push(c);
            after_capital = false;
        }
    }
    out.truncate(out.trim_end_matches('-').len());
    out
}

/// The word of `known` that was probably meant by `word`: the nearest, if it is near.
pub fn meant<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = known.into_iter().map(|known| (distance(word, known), known)).min();
    nearest.filter(|(distance, _)| *distance <= 2 && *distance < word.chars().count()).map(|(_, known)| known)
}

/// How many letters must be put in, taken out or changed to make one word of the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, a) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in b.iter().enumerate() {
            let change = row.get(j).copied().unwrap_or(0) + usize::from(a != *b);
            let take = row.get(j + 1).copied().unwrap_or(0) + 1;
            let put = next.last().copied().unwrap_or(0) + 1;
            next.push(change.min(take).min(put));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(head("你好", 4), "你");
        assert_eq!(head("ab", 9), "ab");
        assert_eq!(pieces("你好吗", 6).collect::<Vec<_>>(), ["你好", "吗"]);
        assert_eq!(pieces("", 6).count(), 0);
    }

    #[test]
    fn control_characters_become_visible() {
        assert_eq!(visible("a\n\u{1b}[31mb\u{2028}"), "a\\n\\u{1b}[31mb\\u{2028}");
        assert_eq!(visible("你好 é"), "你好 é");
    }

    #[test]
    fn keys_are_kebab_cased_however_they_were_spelt() {
        for key in ["companyId", "company_id", "company-id", "CompanyID", " company id "] {
            assert_eq!(kebab(key), "company-id", "{key}");
        }
        assert_eq!(kebab("HTTPServer"), "http-server");
        assert_eq!(kebab("__"), "");
    }
}
