//! What the wearer wants, read from their words. A real agent would ask a language model; the shape stays the same.

use crate::moment::Moment;

#[derive(Debug, PartialEq)]
pub enum Intent<'a> {
    /// To know what is before their eyes.
    Look,
    /// To know what is on the photo that has just come; the question may be empty.
    Explain {
        question: &'a str,
    },
    /// To be guided. The place is empty when they did not say where.
    Navigate {
        place: &'a str,
        by: Way,
    },
    StopNavigation,
    /// A calendar entry.
    Remind {
        title: String,
        start: Option<Moment>,
    },
    Leave,
    Weather,
    Battery,
    Place,
    Time,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Way {
    Drive,
    Walk,
    Ride,
}

const STOP: &[&str] = &[
    "stop navigation",
    "stop navigating",
    "end navigation",
    "停止导航",
    "结束导航",
    "取消导航",
    "退出导航",
    "关闭导航",
];
const REMIND: &[&str] = &["remind me", "提醒我"];
const WAYS: &[(Way, &[&str])] = &[
    (Way::Walk, &["walk to", "步行到", "步行去", "走到", "走去"]),
    (Way::Ride, &["ride to", "cycle to", "骑行到", "骑行去", "骑车到", "骑车去"]),
    (Way::Drive, &["navigate to", "drive to", "导航到", "导航去", "开车到", "开车去"]),
];
const LEAVE: &[&str] = &["bye", "再见", "拜拜", "退出"];
const LOOK: &[&str] = &[
    "what is this",
    "what's this",
    "what is that",
    "what's that",
    "what am i looking at",
    "look at this",
    "take a photo",
    "take a picture",
    "看看",
    "看一下",
    "这是什么",
    "那是什么",
    "拍照",
    "拍张照",
];
const WEATHER: &[&str] = &["weather", "天气"];
const BATTERY: &[&str] = &["battery", "电量", "电池"];
const PLACE: &[&str] = &["where am i", "我在哪", "在什么地方"];
const TIME: &[&str] = &["what time", "几点"];

impl<'a> Intent<'a> {
    /// The order matters: "remind me to walk to the park" is no walk yet.
    pub fn of(text: &'a str) -> Self {
        let says = |phrases| after(text, phrases).is_some();
        if says(STOP) {
            return Self::StopNavigation;
        }
        if let Some(what) = after(text, REMIND) {
            return remind(what);
        }
        if let Some((place, by)) = WAYS.iter().find_map(|(way, phrases)| Some((after(text, phrases)?, *way))) {
            return Self::Navigate { place: bare(place), by };
        }
        match () {
            () if says(LEAVE) => Self::Leave,
            () if says(LOOK) => Self::Look,
            () if says(WEATHER) => Self::Weather,
            () if says(BATTERY) => Self::Battery,
            () if says(PLACE) => Self::Place,
            () if says(TIME) => Self::Time,
            () => Self::Other,
        }
    }
}

/// What follows the first of the phrases that the text holds, in whatever case.
fn after<'a>(text: &'a str, phrases: &[&str]) -> Option<&'a str> {
    let lower = text.to_ascii_lowercase(); // ASCII alone, so that every byte stays in its place
    phrases.iter().find_map(|phrase| text.get(lower.find(phrase)? + phrase.len()..))
}

/// "to call home at 2026-03-02 10:00" is "call home", then.
fn remind<'a>(what: &str) -> Intent<'a> {
    let (title, start) = match Moment::find(what) {
        Some((before, moment, after)) => (format!("{} {}", unlinked(before), unlinked(after)), Some(moment)),
        None => (unlinked(what).to_owned(), None),
    };
    Intent::Remind { title: bare(&title).to_owned(), start }
}

/// Without the words that tie a title to its time.
fn unlinked(part: &str) -> &str {
    let part = bare(part);
    let part = part.strip_prefix("to ").unwrap_or(part);
    let end = part.trim_end_matches(['在', '于']);
    ["at", "on"].iter().find_map(|word| ends_with_word(end, word)).unwrap_or(end).trim()
}

fn ends_with_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.strip_suffix(word).filter(|rest| rest.is_empty() || rest.ends_with(' '))
}

/// Without blanks and punctuation around it.
fn bare(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_whitespace() || ".,!?:;。，！？：；".contains(character))
}

#[cfg(test)]
mod tests {
    use super::{Intent, Moment, Way};

    #[test]
    fn reads_simple_wishes() {
        for (text, intent) in [
            ("What is this?", Intent::Look),
            ("帮我看看", Intent::Look),
            ("stop navigation", Intent::StopNavigation),
            ("退出导航", Intent::StopNavigation),
            ("Goodbye", Intent::Leave),
            ("退出", Intent::Leave),
            ("how is the weather", Intent::Weather),
            ("还有多少电量", Intent::Battery),
            ("我在哪里", Intent::Place),
            ("What time is it?", Intent::Time),
            ("hello", Intent::Other),
            ("", Intent::Other),
        ] {
            assert_eq!(Intent::of(text), intent, "{text}");
        }
    }

    #[test]
    fn reads_where_to_and_how() {
        for (text, place, by) in [
            ("Navigate to Hongqiao Station.", "Hongqiao Station", Way::Drive),
            ("please WALK TO the park", "the park", Way::Walk),
            ("ride to İstanbul!", "İstanbul", Way::Ride),
            ("导航到上海虹桥火车站", "上海虹桥火车站", Way::Drive),
            ("我想骑车去西湖。", "西湖", Way::Ride),
            ("navigate to", "", Way::Drive),
        ] {
            assert_eq!(Intent::of(text), Intent::Navigate { place, by }, "{text}");
        }
    }

    #[test]
    fn reads_reminders() {
        let (_, start, _) = Moment::find("2026-03-02 10:00").unwrap();
        for (text, title, start) in [
            ("remind me to call home at 2026-03-02 10:00", "call home", Some(start)),
            ("Remind me at 2026-03-02 10:00 to walk to the park.", "walk to the park", Some(start)),
            ("提醒我 2026-03-02 10:00 开会", "开会", Some(start)),
            ("提醒我在2026-03-02 10:00开会。", "开会", Some(start)),
            ("提醒我 喝水 at 2026-03-02 10:00", "喝水", Some(start)),
            ("remind me to look at that", "look at that", None),
            ("remind me 2026-03-02 10:00", "", Some(start)),
        ] {
            assert_eq!(Intent::of(text), Intent::Remind { title: title.to_owned(), start }, "{text}");
        }
    }
}
