//! The story, and how it is cut into pieces.

/// As many as a model would send for a text of this length, more or less.
const PIECES: usize = 30;
/// The most characters of the user's words that the story repeats.
const MOST: usize = 40;

pub struct Story {
    /// What the user wants to hear about.
    subject: String,
    chinese: bool,
}

impl Story {
    /// In Chinese when `lang` says so or the words are, else in English.
    pub fn about(words: &str, lang: Option<&str>) -> Self {
        let chinese = lang.is_some_and(|lang| lang.starts_with("zh")) || words.chars().any(is_han);
        let subject = match subject(words) {
            "" if chinese => "一盏小灯".to_owned(),
            "" => "a small lamp".to_owned(),
            subject => subject.chars().take(MOST).collect(),
        };
        Self { subject, chinese }
    }

    pub fn thoughts(&self) -> Vec<String> {
        let subject = &self.subject;
        if self.chinese {
            vec![format!("他想听“{subject}”的故事。"), "放在海边的小镇吧，".to_owned(), "结尾要温暖一点。".to_owned()]
        } else {
            vec![
                format!("They would like to hear about {subject}. "),
                "A town by the sea might do, ".to_owned(),
                "and a warm end.".to_owned(),
            ]
        }
    }

    /// The story, cut into about [`PIECES`]: wherever it happens to be, as a model's tokens are, but never inside a
    /// character.
    pub fn pieces(&self) -> Vec<String> {
        let text: Vec<char> = self.text().chars().collect();
        text.chunks(text.len().div_ceil(PIECES)).map(|piece| piece.iter().collect()).collect()
    }

    fn text(&self) -> String {
        let subject = &self.subject;
        if self.chinese {
            format!(
                "很久以前，海边有一座小镇，镇上的客栈从不关门。一天夜里风雨很大，一位旅人走进来，只说了一句：“{subject}。”\
                 掌柜没有多问，添了一把柴，请大家围到火边坐下。渔夫说起他爷爷见过的{subject}，孩子们争着补上听来的部分，\
                 连墙角的老猫也竖起了耳朵。天快亮时雨停了，旅人笑着说，他找了一路的，原来就在这炉火旁边。\
                 从那以后，每到下雨的夜里，镇上的人都会讲起{subject}，客栈的灯也一直亮着。"
            )
        } else {
            format!(
                "Once there was a town by the sea whose inn never closed its door. One night of wind and rain a \
                 traveller came in and said only this: \"{subject}.\" The innkeeper did not ask; she put a log on the \
                 fire and bade everyone sit down. A fisherman told what his grandfather knew of {subject}, the \
                 children added what they had heard, and even the old cat in the corner raised an ear. By dawn the \
                 rain was over. \"All the way I was looking for this,\" said the traveller, \"and it was here, at \
                 your fire.\" Ever since, when it rains at night, the town tells of {subject}, and the lamp of the \
                 inn stays lit."
            )
        }
    }
}

/// "Tell me a story about X." is about X.
fn subject(words: &str) -> &str {
    let words = words.trim().trim_end_matches(['.', '!', '?', '。', '！', '？']);
    let subject = words
        .split_once("story about ")
        .or_else(|| words.split_once("story of "))
        .or_else(|| words.split_once("故事，关于"))
        .map_or(words, |(_, subject)| subject);
    subject.split_once("关于").map_or(subject, |(_, subject)| subject.trim_end_matches("的故事")).trim()
}

fn is_han(character: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&character)
}

#[cfg(test)]
mod tests {
    use super::{Story, subject};

    #[test]
    fn finds_the_subject() {
        for (words, expected) in [
            ("Tell me a story about a blue whale.", "a blue whale"),
            ("讲一个关于月亮的故事。", "月亮"),
            ("a dragon", "a dragon"),
            (" ", ""),
        ] {
            assert_eq!(subject(words), expected);
        }
    }

    #[test]
    fn is_told_in_the_language_of_the_user() {
        for (words, lang, chinese) in [
            ("a whale", None, false),
            ("a whale", Some("en-US"), false),
            ("a whale", Some("zh-CN"), true),
            ("鲸鱼", None, true),
        ] {
            assert_eq!(Story::about(words, lang).chinese, chinese);
        }
    }

    #[test]
    fn comes_in_many_pieces() {
        for words in ["", "你好", "a blue whale", &"long ".repeat(1000)] {
            for lang in ["en", "zh"] {
                let story = Story::about(words, Some(lang));
                assert!((20..=40).contains(&story.pieces().len()));
                assert_eq!(story.pieces().concat(), story.text());
            }
        }
    }
}
