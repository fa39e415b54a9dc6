//! How the selftest says what it found: a table for a person, an array of JSON for a script. Decides nothing.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::verdict::Verdict;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// What is said of one case.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Where it stands among the cases.
    pub(super) place: usize,
    /// Which group of tenants it is about; none is the server.
    pub(super) group: Option<usize>,
    /// Whose limit it is, as a heading.
    pub(super) whose: String,
    /// The limit.
    pub(super) limit: &'static str,
    /// What was tried.
    pub(super) what: String,
    /// The key to change; empty where there is none.
    pub(super) key: String,
    /// What is configured.
    pub(super) configured: String,
    /// What was measured.
    pub(super) measured: String,
    /// What it means.
    pub(super) verdict: Verdict,
}

impl Row {
    /// One line, as it is told while others are still tried.
    pub(super) fn line(&self) -> String {
        let style = style(&self.verdict);
        let word = self.verdict.word();
        format!("{}: {}: {style}{word}{style:#} ({})", self.limit, self.what, self.measured)
    }
}

/// One array; a script can rely on every key being there.
pub(super) fn json(rows: &[Row]) -> Value {
    let row = |row: &Row| {
        json!({
            "limit": row.limit,
            "attack": row.what,
            "whose": row.whose,
            "key": (!row.key.is_empty()).then_some(&row.key),
            "configured": row.configured,
            "measured": row.measured,
            "verdict": row.verdict.word(),
            "reason": row.verdict.why(),
        })
    };
    rows.iter().map(row).collect()
}

/// A table for a terminal, and what it comes to.
pub(super) fn text(rows: &[Row]) -> String {
    let mut out = String::new();
    let wide = |cell: &dyn Fn(&Row) -> &str| rows.iter().map(|row| cell(row).chars().count()).max().unwrap_or_default();
    let (limit, configured) = (wide(&|row| row.limit), wide(&|row| &row.configured));
    let (verdict, measured) = (wide(&|row| row.verdict.word()), wide(&|row| &row.measured));
    let mut whose = "";
    for row in rows {
        if row.whose != whose {
            line(&mut out, &format!("{}{}", if whose.is_empty() { "" } else { "\n" }, row.whose));
            whose = &row.whose;
        }
        let (style, word) = (style(&row.verdict), row.verdict.word());
        let cells = [format!("{:limit$}", row.limit), format!("{:configured$}", row.configured)].join("  ");
        let rest = format!("{:measured$}  {DIM}{}{DIM:#}", row.measured, row.what);
        line(&mut out, &format!("  {style}{word:verdict$}{style:#}  {cells}  {rest}"));
        if let Some(why) = row.verdict.why() {
            line(&mut out, &format!("  {:verdict$}  {why}", ""));
        }
    }
    line(&mut out, &format!("\n{}", sum(rows)));
    out
}

/// What the rows come to, in one line.
fn sum(rows: &[Row]) -> String {
    let count = |word: &str| rows.iter().filter(|row| row.verdict.word() == word).count();
    let words = ["enforced", "NOT ENFORCED", "WEAK", "NOT PROVEN", "not tried"];
    let counts = words.iter().map(|word| (count(word), word)).filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, word)| format!("{count} {word}")).collect();
    counts.join(", ")
}

fn style(verdict: &Verdict) -> Style {
    match verdict {
        Verdict::Enforced => GOOD,
        Verdict::NotTried(_) => DIM,
        _ => BAD,
    }
}

fn line(out: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _infallible = writeln!(out, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |place, whose: &str, limit, verdict| Row {
            place,
            group: None,
            whose: whose.to_owned(),
            limit,
            what: "a loop".to_owned(),
            key: format!("limits.{limit}"),
            configured: "2.00 s".to_owned(),
            measured: "ended after 2.01 s".to_owned(),
            verdict,
        };
        vec![
            row(0, "tenant acme", "cpu-time", Verdict::Enforced),
            row(1, "tenant acme", "log", Verdict::NotEnforced("it took it all".to_owned())),
            row(2, "the server", "queue", Verdict::NotTried("nothing to try".to_owned())),
        ]
    }

    #[test]
    fn a_table_has_a_heading_for_each_owner_aligned_columns_and_the_reasons() {
        let text = anstream::adapter::strip_str(&text(&rows())).to_string();
        let expected = "tenant acme\n  \
             enforced      cpu-time  2.00 s  ended after 2.01 s  a loop\n  \
             NOT ENFORCED  log       2.00 s  ended after 2.01 s  a loop\n                \
             it took it all\n\n\
             the server\n  \
             not tried     queue     2.00 s  ended after 2.01 s  a loop\n                \
             nothing to try\n\n\
             1 enforced, 1 NOT ENFORCED, 1 not tried\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_script_reads_the_same() {
        let json = json(&rows());
        assert_eq!(json[1]["verdict"], "NOT ENFORCED");
        assert_eq!((&json[0]["reason"], &json[0]["key"]), (&Value::Null, &json!("limits.cpu-time")));
        assert_eq!(json.as_array().unwrap().len(), 3);
    }
}
