//! What Markdown becomes, whole and in pieces.

use proptest::prelude::*;

use super::{link::LABEL_MAX, *};

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(Stripper::strip(text), expected, "{text:?}");
    let mut stripper = Stripper::new();
    let mut out: String = text.chars().map(|c| stripper.push(&c.to_string())).collect();
    out.push_str(&stripper.finish());
    assert_eq!(out, expected, "{text:?}, a character at a time");
}

#[test]
fn emphasis_goes_and_its_text_stays() {
    check("a *b* **c** ***d*** e", "a b c d e");
    check("这是**重点**内容", "这是重点内容");
    check("_a_ __b__ ~~c~~, **a _b_ c**!", "a b c, a b c!");
    check("**第一**：*二*。", "第一：二。");
    check("**a\nb** c", "a\nb c");
}

#[test]
fn what_only_looks_like_emphasis_stays() {
    for text in [
        "2 * 3 = 6",
        "2*3*4",
        "2**10",
        "snake_case_name and a__b",
        "~5 分钟, 3~5 天",
        "* * *",
        "***",
        "138****5678",
        "https://h.example/_next/a_b?x=*y",
        "_",
        "**",
    ] {
        check(text, text);
    }
    check(r"\*a\* \_b\_ c\d \\", r"*a* _b_ c\d \");
}

#[test]
fn inline_code_loses_its_backticks_and_keeps_its_marks() {
    check("use `a_b *c*` and ``d`e``", "use a_b *c* and d`e");
    check("it`s **bold**\nand **bold**", "its **bold**\nand bold");
    check("````", "");
}

#[test]
fn headings_quotes_and_bullets() {
    check("# A\n## B *c*\n###### D\n####### E", "A\nB c\nD\n####### E");
    check("#tag and C# #1", "#tag and C# #1");
    check("> a\n> > **b**\n>\n>=5", "a\nb\n\n>=5");
    check("- a\n* **b**\n+ c\n  - d\n1. *e*", "- a\n* b\n+ c\n  - d\n1. e");
    check("- # a\n12) > b", "- a\n12) b");
    check("-5°C 2026年 --- 1.5", "-5°C 2026年 --- 1.5");
    check("    # code", "    # code");
    check("a\n\n   b  \n", "a\n\n   b  \n");
}

#[test]
fn a_code_blocks_fences_go_and_its_content_stays() {
    check("a\n```rust\nlet *x* = 1; // # y\n\n  | z |\n```\n**b**", "a\nlet *x* = 1; // # y\n\n  | z |\nb");
    check("~~~\n```\n~~~~\nb", "```\nb");
    check("  ```js\r\n  a\r\n  ```\r\nb", "  a\r\nb");
    check("- ```\n  a\n  ```\n- b", "-   a\n- b");
    check("```a``` b", "a b");
    check("```\nno end", "no end");
    check("```\na\n```", "a\n");
    check("```python", "");
}

#[test]
fn tables_lose_their_pipes_and_their_rule() {
    check("| a | b |\n|---|:-:|\n| **c**  | `d`|\n", "a b\nc d\n");
    check("|a||b|\r\n| - | - |\n", "a b\n- -\n");
    check("a | b", "a | b");
    check("| [x](https://h.example/) and y |", "x and y");
}

#[test]
fn links_and_images_become_their_labels() {
    check("see [the *docs*](https://h.example/a_(b)?c=d \"T\")!", "see the docs!");
    check("![a cat](data:image/png;base64,AA) and ![](x)", "a cat and ");
    check("[![alt](i.png)](https://h.example/)", "alt");
    check("[见 [注](a)]", "[见 注]");
    check("[1] [a] (b) [x](two words) ![", "[1] [a] (b) [x](two words) ![");
    check("[a\nb](c) [ ] [d](e\n)", "[a\nb](c) [ ] [d](e\n)");
}

#[test]
fn nothing_is_held_back_for_long() {
    let mut stripper = Stripper::new();
    assert_eq!(stripper.push("你"), "你");
    assert_eq!(stripper.push("好, wor"), "好, wor");
    assert_eq!(stripper.push(" **Hel"), " Hel", "a word is shown before its emphasis closes");
    assert_eq!(stripper.push("*"), "");
    assert_eq!(stripper.push("* [no"), " ");
    let long = "x".repeat(LABEL_MAX);
    assert_eq!(stripper.push(&long), format!("[no{long}"));
    assert_eq!(stripper.push("a!"), "a");
    assert_eq!(stripper.finish(), "!");
    assert_eq!(stripper.finish(), "");
}

#[test]
fn hostile_brackets_cost_no_more_than_others() {
    let began = tokio::time::Instant::now();
    for text in ["[", "![", "[](", "[](a", "[a] ", "[[a]](", "*", "`", "`a", "|", "#", ">", "- ", "\\", "| -"] {
        let text = text.repeat(1024 * 1024 / text.len());
        assert!(Stripper::strip(&text).len() <= text.len());
    }
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

/// Text with all the marks there are, in places that make sense and in others.
fn marked() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "*",
        "**",
        "***",
        "_",
        "__",
        "~~",
        "~",
        "`",
        "``",
        "```",
        "````",
        "#",
        "##",
        ">",
        "|",
        "|---|",
        "-",
        "- ",
        "1.",
        "[",
        "]",
        "(",
        ")",
        "](",
        "![",
        "!",
        "\\",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "  ",
        "\t",
        ":",
        "\"",
        "a",
        "b",
        "你",
        "好",
        "é",
        "😀",
        "12",
        "```rust\n",
        "\n```\n",
        "[a](b)",
        "![a](b)",
        "| a | b |\n",
        "| - |",
        "https://h.example/a_b",
    ]);
    prop::collection::vec(words, 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn pieces_make_no_difference(text in marked(), sizes in prop::collection::vec(1_usize..9, 1..40)) {
        let whole = Stripper::strip(&text);
        let mut stripper = Stripper::new();
        let mut out = String::new();
        let mut rest = text.as_str();
        for size in sizes.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let piece = crate::text::head(rest, (*size).max(4));
            out.push_str(&stripper.push(piece));
            rest = rest.split_at(piece.len()).1;
        }
        out.push_str(&stripper.finish());
        prop_assert_eq!(out, whole);
    }

    #[test]
    fn long_texts_in_pieces_make_no_difference(
        text in prop::collection::vec(marked(), 0..40).prop_map(|parts| parts.concat()),
        size in 4_usize..300,
    ) {
        let mut stripper = Stripper::new();
        let mut out: String = crate::text::pieces(&text, size).map(|piece| stripper.push(piece)).collect();
        out.push_str(&stripper.finish());
        prop_assert_eq!(out, Stripper::strip(&text));
    }

    #[test]
    fn plain_text_is_unchanged_and_never_held_back(pieces in prop::collection::vec("[a-zA-Z你好，。？][a-zA-Z0-9你好，。？ .:;()'/=+-]{0,20}", 0..20)) {
        let mut stripper = Stripper::new();
        for piece in &pieces {
            prop_assert_eq!(&stripper.push(piece), piece);
        }
        prop_assert_eq!(stripper.finish(), "");
    }

    #[test]
    fn any_text_is_only_ever_made_shorter(text in any::<String>()) {
        let stripped = Stripper::strip(&text);
        prop_assert!(stripped.len() <= text.len());
    }
}
