//! What a text asks for, and the notes that a row of texts leaves behind.

#[derive(Debug, PartialEq)]
pub enum Order<'a> {
    Keep(&'a str),
    List,
    Clear,
    Other,
}

impl<'a> Order<'a> {
    pub fn of(text: &'a str) -> Self {
        let text = text.trim();
        if let Some((word, note)) = text.split_once([':', '：'])
            && matches!(word.trim().to_lowercase().as_str(), "note" | "记")
            && !note.trim().is_empty()
        {
            return Self::Keep(note.trim());
        }
        match text.trim_end_matches(['.', '!', '?', '。', '！', '？']).to_lowercase().as_str() {
            "list" | "notes" | "列表" => Self::List,
            "clear" | "清空" => Self::Clear,
            _ => Self::Other,
        }
    }
}

/// The notes kept since the last [`Order::Clear`].
pub fn notes(said: &[String]) -> Vec<&str> {
    let mut notes = Vec::new();
    for text in said {
        match Order::of(text) {
            Order::Keep(note) => notes.push(note),
            Order::Clear => notes.clear(),
            Order::List | Order::Other => {}
        }
    }
    notes
}

pub fn is_chinese(text: &str) -> bool {
    text.chars().any(|character| ('\u{4e00}'..='\u{9fff}').contains(&character))
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn reads_orders_in_both_languages() {
        for (text, order) in [
            ("note: milk", Order::Keep("milk")),
            (" Note : a: b ", Order::Keep("a: b")),
            ("记: 牛奶", Order::Keep("牛奶")),
            ("记：牛奶", Order::Keep("牛奶")),
            ("note:", Order::Other),
            ("List!", Order::List),
            ("notes", Order::List),
            ("列表。", Order::List),
            ("clear", Order::Clear),
            ("清空", Order::Clear),
            ("note milk", Order::Other),
            ("", Order::Other),
        ] {
            assert_eq!(Order::of(text), order, "{text}");
        }
    }
}
