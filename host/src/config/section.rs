//! Reading a TOML table key by key, gathering every fault instead of stopping at the first.
//!
//! A [`Section`] hands out the values of the keys that its reader knows, checked and converted; what nobody asked for is
//! a fault too. Each fault names the file, the line and the key, and says what would be right.

use std::{cell::RefCell, collections::BTreeMap, ops::Range, time::Duration};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::text;

/// The faults of one file, and how a place in it is told.
pub(super) struct Page<'a> {
    name: &'a str,
    text: &'a str,
    faults: RefCell<Vec<(usize, String)>>,
}

impl<'a> Page<'a> {
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text, faults: RefCell::default() }
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    /// Adds a fault at a byte of the file.
    pub(super) fn fault(&self, span: Range<usize>, text: &str) {
        let line = self.line(span.start);
        self.faults.borrow_mut().push((span.start, format!("{}:{line}: {text}", self.name)));
    }

    /// Whether there is no fault yet.
    pub(super) fn is_clean(&self) -> bool {
        self.faults.borrow().is_empty()
    }

    /// All faults, in the order of the file.
    pub(super) fn faults(self) -> Vec<String> {
        let mut faults = self.faults.into_inner();
        faults.sort();
        faults.into_iter().map(|(_, fault)| fault).collect()
    }
}

/// One table of a page.
pub(super) struct Section<'p, 'a> {
    page: &'p Page<'a>,
    /// The keys that lead here, with a dot behind each.
    path: String,
    span: Range<usize>,
    values: BTreeMap<String, (Range<usize>, Spanned<DeValue<'a>>)>,
    known: Vec<&'static str>,
    /// Of these, the keys that are there.
    there: Vec<&'static str>,
}

impl<'p, 'a> Section<'p, 'a> {
    /// The whole file, as much of it as is TOML.
    pub(super) fn root(page: &'p Page<'a>) -> Self {
        let (table, errors) = DeTable::parse_recoverable(page.text);
        for error in errors {
            page.fault(error.span().unwrap_or(0..0), &format!("not TOML: {}", error.message()));
        }
        Self::new(page, String::new(), 0..0, table.into_inner())
    }

    fn new(page: &'p Page<'a>, path: String, span: Range<usize>, table: DeTable<'a>) -> Self {
        let values = table.into_iter().map(|(key, value)| {
            let span = key.span();
            (key.into_inner().into_owned(), (span, value))
        });
        Self { page, path, span, values: values.collect(), known: Vec::new(), there: Vec::new() }
    }

    /// Where the section stands.
    pub(super) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// Where a key stands, if it is there.
    pub(super) fn place(&self, key: &str) -> Range<usize> {
        self.values.get(key).map_or(0..0, |(span, _)| span.clone())
    }

    /// Adds a fault of this section.
    pub(super) fn fault(&self, span: Range<usize>, key: &str, text: &str) {
        self.page.fault(span, &format!("{}{key}: {text}", self.path));
    }

    fn take(&mut self, key: &'static str) -> Option<(Range<usize>, DeValue<'a>)> {
        self.known.push(key);
        let value = self.values.remove(key)?.1;
        self.there.push(key);
        Some((value.span(), value.into_inner()))
    }

    /// A value converted by `convert`, whose error says what would be right.
    fn value<T>(&mut self, key: &'static str, convert: impl FnOnce(DeValue<'a>) -> Result<T, String>) -> Option<T> {
        let (span, value) = self.take(key)?;
        convert(value).map_err(|why| self.fault(span, key, &why)).ok()
    }

    /// Text.
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        self.value(key, |value| match value {
            DeValue::String(text) => Ok(text.into_owned()),
            other => Err(format!("{} is not text", kind(&other))),
        })
    }

    /// Text that `parse` understands.
    pub(super) fn parsed<T>(&mut self, key: &'static str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        self.value(key, |value| match value {
            DeValue::String(text) => parse(&text),
            other => Err(format!("{} is not text", kind(&other))),
        })
    }

    /// A whole number of at least `least`.
    pub(super) fn number<T: TryFrom<u64>>(&mut self, key: &'static str, least: u64) -> Option<T> {
        let wanted = || format!("not a whole number of at least {least}");
        self.value(key, |value| match value {
            DeValue::Integer(number) => u64::from_str_radix(&number.as_str().replace('_', ""), number.radix())
                .ok()
                .filter(|number| *number >= least)
                .and_then(|number| T::try_from(number).ok())
                .ok_or_else(wanted),
            other => Err(format!("{} is {}", kind(&other), wanted())),
        })
    }

    /// A size in words, such as "64MiB", of at least `least` bytes.
    pub(super) fn size<T: TryFrom<u64>>(&mut self, key: &'static str, least: u64) -> Option<T> {
        self.parsed(key, |text| {
            let size: bytesize::ByteSize =
                text.parse().map_err(|_| format!("{text:?} is not a size; write it like \"64MiB\""))?;
            let size = size.as_u64();
            if size < least {
                return Err(format!(
                    "{text:?} is too small; at least {}",
                    bytesize::ByteSize::b(least).display().iec()
                ));
            }
            T::try_from(size).map_err(|_| format!("{text:?} is too large"))
        })
    }

    /// A duration in words, such as "2s", of at least a millisecond and at most ten years.
    pub(super) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        const LONGEST: Duration = Duration::from_hours(10 * 365 * 24);
        self.parsed(key, |text| {
            let time = humantime::parse_duration(text)
                .map_err(|_| format!("{text:?} is not a duration; write it like \"2s\" or \"500ms\""))?;
            if time < Duration::from_millis(1) {
                return Err(format!("{text:?} is too short; at least \"1ms\""));
            }
            if time > LONGEST {
                return Err(format!("{text:?} is too long"));
            }
            Ok(time)
        })
    }

    /// A point in time, such as 2027-01-31 (its midnight in UTC) or 2027-01-31T08:00:00Z.
    pub(super) fn time(&mut self, key: &'static str) -> Option<jiff::Timestamp> {
        self.value(key, |value| match value {
            DeValue::Datetime(time) => point(&time.to_string()),
            DeValue::String(text) => point(&text),
            other => Err(format!("{} is not a date", kind(&other))),
        })
    }

    /// True or false.
    pub(super) fn switch(&mut self, key: &'static str) -> Option<bool> {
        self.value(key, |value| match value {
            DeValue::Boolean(on) => Ok(on),
            other => Err(format!("{} is neither true nor false", kind(&other))),
        })
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        let items = self.list(key)?;
        let text = |(span, value)| match value {
            DeValue::String(text) => Some(text.into_owned()),
            other => {
                self.fault(span, key, &format!("{} is not text", kind(&other)));
                None
            }
        };
        Some(items.into_iter().filter_map(text).collect())
    }

    /// A list of anything, each with its place.
    pub(super) fn list(&mut self, key: &'static str) -> Option<Vec<(Range<usize>, DeValue<'a>)>> {
        self.value(key, |value| match value {
            DeValue::Array(items) => Ok(items.into_iter().map(|item| (item.span(), item.into_inner())).collect()),
            other => Err(format!("{} is not a list", kind(&other))),
        })
    }

    /// A table.
    pub(super) fn section(&mut self, key: &'static str) -> Option<Self> {
        let (span, value) = self.take(key)?;
        self.enter(key, span, value)
    }

    /// Every table that is left, by name; then nothing is.
    pub(super) fn sections(&mut self) -> Vec<(String, Self)> {
        let values = std::mem::take(&mut self.values);
        let sections = values.into_iter().filter_map(|(key, (_, value))| {
            let span = value.span();
            self.enter(&key, span, value.into_inner()).map(|section| (key, section))
        });
        sections.collect()
    }

    /// What a table that stands in a list holds.
    pub(super) fn enter(&self, key: &str, span: Range<usize>, value: DeValue<'a>) -> Option<Self> {
        match value {
            DeValue::Table(table) => Some(Self::new(self.page, format!("{}{key}.", self.path), span, table)),
            other => {
                self.fault(span, key, &format!("{} is not a table", kind(&other)));
                None
            }
        }
    }

    /// Says of each of these keys, all of which were asked for, that it is missing if it is.
    pub(super) fn need(&self, keys: &[&'static str]) {
        for key in keys.iter().filter(|key| !self.there.contains(*key)) {
            self.fault(self.span.clone(), key, "is missing");
        }
    }

    /// Says that every key which nobody asked for is unknown, and which one may be meant.
    pub(super) fn end(self) {
        for (key, (span, _)) in &self.values {
            let hint = match text::meant(key, self.known.iter().copied()) {
                Some(known) => format!("; did you mean `{known}`?"),
                _ if self.known.is_empty() => String::new(),
                _ => format!("; there are {}", self.known.join(", ")),
            };
            self.fault(span.clone(), key, &format!("unknown key{hint}"));
        }
    }
}

/// The point in time that a date or a time tells; what names no zone is in UTC.
pub(crate) fn point(text: &str) -> Result<jiff::Timestamp, String> {
    let utc = |civil: jiff::civil::DateTime| civil.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp());
    let time = text.parse::<jiff::Timestamp>();
    time.or_else(|_| text.parse::<jiff::civil::DateTime>().and_then(utc))
        .map_err(|_| format!("{text:?} is not a date; write it like 2027-01-31 or 2027-01-31T08:00:00Z"))
}

/// What a value is, in words.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
