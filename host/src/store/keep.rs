//! How much of what was said is kept: which turns, which messages of a turn that is too large, and what stands in for
//! an image that is too large. Pure; [`super::turns`] does what it says.

use crate::{
    bindings::types::{Content, Message},
    text,
};

/// The longest URL that is kept, in bytes. A longer one is a data URL, and a photo in each of fifty turns is what a
/// session's bytes are not for; the agent has seen it in its own turn.
pub(super) const URL_MAX: usize = 2 * 1024;

/// What an image with a longer URL is in the history. A model reads it as what the user said.
pub(super) const IMAGE_GONE: &str = "[an image that is no longer kept]";

/// What a file with a longer URL is in the history.
pub(super) const FILE_GONE: &str = "[a file that is no longer kept]";

/// What a message counts beside its text, in bytes, so that a session's bytes bound the number of its messages too.
pub(super) const MESSAGE_OVERHEAD: u64 = 64;

/// The longest media type that is kept, in bytes; a longer one is none.
const MEDIA_TYPE_MAX: usize = 255;

/// `message` as it is kept.
fn kept(message: &Message) -> Message {
    let content = match &message.content {
        Content::Image(url) if url.len() > URL_MAX => Content::Text(IMAGE_GONE.to_owned()),
        Content::File(file) if file.url.len() > URL_MAX => Content::Text(FILE_GONE.to_owned()),
        Content::File(file) => {
            let mut file = file.clone();
            file.media_type = file.media_type.filter(|media_type| media_type.len() <= MEDIA_TYPE_MAX);
            Content::File(file)
        }
        content => content.clone(),
    };
    Message { role: message.role, content }
}

/// What a message counts.
pub(super) fn size(message: &Message) -> u64 {
    let bytes = match &message.content {
        Content::Text(text) | Content::Image(text) => text.len(),
        Content::File(file) => file.url.len() + file.media_type.as_ref().map_or(0, String::len),
    };
    MESSAGE_OVERHEAD + bytes as u64
}

/// The last of `messages`, as they are kept, that fit into `bytes`; the text of the first of them may be cut.
pub(super) fn fit<'m>(messages: impl DoubleEndedIterator<Item = &'m Message>, bytes: u64) -> Vec<Message> {
    let mut room = bytes;
    let mut fitting = Vec::new();
    for message in messages.rev() {
        // An oversized text is cut before it is copied.
        let message = match &message.content {
            Content::Text(said) if size(message) > room => {
                let space = usize::try_from(room.saturating_sub(MESSAGE_OVERHEAD)).unwrap_or(usize::MAX);
                let head = text::head(said, space);
                if head.is_empty() {
                    break;
                }
                fitting.push(Message { role: message.role, content: Content::Text(head.to_owned()) });
                break;
            }
            _ => kept(message),
        };
        let Some(left) = room.checked_sub(size(&message)) else {
            break;
        };
        room = left;
        fitting.push(message);
    }
    fitting.reverse();
    fitting
}

/// How many of a session's turns are kept, given their sizes, newest first: as many as both bounds allow, and the
/// newest in any case, which [`fit`] makes fit.
pub(super) fn newest(sizes: impl IntoIterator<Item = u64>, turns: u32, bytes: u64) -> usize {
    let mut total = 0_u64;
    let fits = |(index, size): &(usize, u64)| {
        total = total.saturating_add(*size);
        *index == 0 || total <= bytes
    };
    sizes.into_iter().take(turns as usize).enumerate().take_while(fits).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bindings::types::{File, Role};

    fn said(text: &str) -> Message {
        Message { role: Role::User, content: Content::Text(text.to_owned()) }
    }

    fn texts(messages: &[Message]) -> Vec<String> {
        let text = |message: &Message| match &message.content {
            Content::Text(text) | Content::Image(text) => text.clone(),
            Content::File(file) => file.url.clone(),
        };
        messages.iter().map(text).collect()
    }

    #[test]
    fn an_image_or_a_file_of_a_long_url_is_only_named() {
        let data = format!("data:image/png;base64,{}", "A".repeat(URL_MAX));
        let messages = [
            Message { role: Role::User, content: Content::Image(data.clone()) },
            Message { role: Role::User, content: Content::Image("https://images.example/a.webp".to_owned()) },
            Message { role: Role::User, content: Content::File(File { url: data, media_type: None }) },
        ];
        let kept = fit(messages.iter(), u64::MAX);
        assert_eq!(texts(&kept), [IMAGE_GONE, "https://images.example/a.webp", FILE_GONE]);
    }

    #[test]
    fn a_turn_that_is_too_large_keeps_its_last_messages() {
        let messages = [said("first"), said("你好吗"), said("last")];
        let room = |text: u64| 2 * MESSAGE_OVERHEAD + text;
        assert_eq!(texts(&fit(messages.iter(), u64::MAX)), ["first", "你好吗", "last"]);
        assert_eq!(texts(&fit(messages.iter(), room(4 + 9))), ["你好吗", "last"]);
        assert_eq!(texts(&fit(messages.iter(), room(4 + 8))), ["你好", "last"]);
        assert_eq!(texts(&fit(messages.iter(), room(4 + 2))), ["last"], "no half character");
        assert_eq!(texts(&fit(messages.iter(), 10)), [""; 0]);
    }

    #[test]
    fn the_newest_turn_is_always_among_those_kept() {
        assert_eq!(newest([500, 1], 50, 100), 1);
        assert_eq!(newest([1, 500, 1], 50, 100), 1);
        assert_eq!(newest([1, 1, 1], 2, 100), 2);
        assert_eq!(newest([1, 1, 1], 0, 100), 0, "unless none is wanted");
        assert_eq!(newest([u64::MAX, u64::MAX], 50, u64::MAX - 1), 1, "sizes do not overflow");
    }

    proptest! {
        #[test]
        fn what_fits_is_the_end_of_what_was_said(
            parts in prop::collection::vec("\\PC{0,40}", 0..12), bytes in 0_u64..2000,
        ) {
            let messages: Vec<_> = parts.iter().map(|text| said(text)).collect();
            let kept = fit(messages.iter(), bytes);
            prop_assert!(kept.iter().map(size).sum::<u64>() <= bytes);
            let skipped = parts.len() - kept.len();
            for (index, (was, is)) in parts[skipped..].iter().zip(texts(&kept)).enumerate() {
                let same = if index == 0 { was.starts_with(&is) } else { *was == is };
                prop_assert!(same, "{} {}", was, is);
            }
        }
    }
}
