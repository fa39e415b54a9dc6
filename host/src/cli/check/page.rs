//! A page of two columns, as `check` prints: labels on the left, values below one another on the right.

use std::{collections::BTreeMap, fmt::Write as _};

use anstyle::Style;

pub(super) const DIM: Style = Style::new().dimmed();

/// The width of the left column.
const LABEL: usize = 16;

/// How wide a line is, after which names go on on the next.
const WIDTH: usize = 100;

/// Names such as `wasi:cli/exit@0.2.6` by package and version, in the order in which each package comes first.
pub(super) fn packages(names: &[&str]) -> Vec<(String, Vec<String>)> {
    let mut order = Vec::new();
    let mut by_package: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in names {
        let (path, version) = name.split_once('@').unwrap_or((name, ""));
        let (package, interface) = path.split_once('/').unwrap_or((path, ""));
        let at = if version.is_empty() { "" } else { "@" };
        let package = format!("{package}{at}{version}");
        if !by_package.contains_key(&package) {
            order.push(package.clone());
        }
        by_package.entry(package).or_default().extend((!interface.is_empty()).then(|| interface.to_owned()));
    }
    let taken = order.into_iter().map(|package| {
        let interfaces = by_package.remove(&package).unwrap_or_default();
        (package, interfaces)
    });
    taken.collect()
}

/// A page of two columns.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: String,
}

impl Page {
    pub(super) fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// A label, and its values below one another; nothing if there are none.
    pub(super) fn row(&mut self, label: &str, values: &[String]) {
        let mut label = label;
        for value in values {
            let mut line = String::new();
            // Writing to a string cannot fail.
            let _infallible = write!(line, "  {DIM}{label:LABEL$}{DIM:#}{value}");
            self.line(&line);
            label = "";
        }
    }

    /// A label, a heading, and names beside one another; nothing if there are neither.
    pub(super) fn names(&mut self, label: &str, heading: &str, names: &[String]) {
        let room = WIDTH.saturating_sub(LABEL + 2);
        let indent = if heading.is_empty() { 0 } else { heading.chars().count() + 2 };
        let mut lines = vec![if indent == 0 { String::new() } else { format!("{heading}  ") }];
        for (index, name) in names.iter().enumerate() {
            let last = index + 1 == names.len();
            let piece = if last { name.clone() } else { format!("{name},") };
            let Some(line) = lines.last_mut() else { break };
            let (used, wanted) = (line.chars().count(), piece.chars().count());
            if used > indent && used + 1 + wanted > room {
                lines.push(format!("{:indent$}{piece}", ""));
            } else {
                let space = if used > indent { " " } else { "" };
                let _infallible = write!(line, "{space}{piece}");
            }
        }
        lines.retain(|line| !line.trim().is_empty());
        self.row(label, &lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_go_on_on_the_next_line() {
        let mut page = Page::default();
        let names: Vec<String> = (0..30).map(|n| format!("interface-{n}")).collect();
        page.names("from WASI", "wasi:cli@0.2.6", &names);
        assert!(page.text.lines().count() > 3);
        assert!(
            page.text.lines().all(|line| anstream::adapter::strip_str(line).to_string().len() <= WIDTH),
            "{}",
            page.text
        );
    }
}
