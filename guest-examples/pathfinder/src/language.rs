//! The two languages that this agent speaks.

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Language {
    English,
    Chinese,
}

impl Language {
    /// Chinese when the glasses say so or the words are, else English.
    pub fn of(lang: Option<&str>, words: &str) -> Self {
        let han = |character| ('\u{4e00}'..='\u{9fff}').contains(&character);
        if lang.is_some_and(|lang| lang.starts_with("zh")) || words.chars().any(han) {
            Self::Chinese
        } else {
            Self::English
        }
    }

    pub fn pick<T>(self, english: T, chinese: T) -> T {
        match self {
            Self::English => english,
            Self::Chinese => chinese,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Language;

    #[test]
    fn follows_the_glasses_and_the_words() {
        assert_eq!(Language::of(None, "hello"), Language::English);
        assert_eq!(Language::of(Some("en-US"), "hello"), Language::English);
        assert_eq!(Language::of(Some("zh-CN"), "hello"), Language::Chinese);
        assert_eq!(Language::of(Some("en-US"), "你好"), Language::Chinese);
    }
}
