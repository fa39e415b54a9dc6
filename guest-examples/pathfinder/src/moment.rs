//! A date and a time of day, in the form that the calendar of the glasses takes.

use std::fmt;

const FORM: &str = "0000-00-00 00:00";

/// Local to the wearer; it has no time zone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
}

impl Moment {
    /// The first `YYYY-MM-DD HH:mm` in a text, with what stands before and after it.
    pub fn find(text: &str) -> Option<(&str, Self, &str)> {
        text.char_indices().find_map(|(start, _)| {
            let end = start + FORM.len();
            let moment = Self::parse(text.get(start..end)?)?;
            Some((text.get(..start)?, moment, text.get(end..)?))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let fits = |(byte, form)| if form == b'0' { u8::is_ascii_digit(&byte) } else { byte == form };
        if !text.bytes().zip(FORM.bytes()).all(fits) {
            return None;
        }
        let mut numbers = text.split(['-', ' ', ':']).map_while(|number| number.parse().ok());
        let moment = Self {
            year: numbers.next()?,
            month: numbers.next()?,
            day: numbers.next()?,
            hour: numbers.next()?,
            minute: numbers.next()?,
        };
        let exists = (1..=12).contains(&moment.month)
            && (1..=moment.days_of_month()).contains(&moment.day)
            && moment.hour < 24
            && moment.minute < 60;
        exists.then_some(moment)
    }

    pub fn half_an_hour_later(mut self) -> Self {
        self.minute += 30;
        if self.minute >= 60 {
            self.minute -= 60;
            self.hour += 1;
        }
        if self.hour == 24 {
            self.hour = 0;
            self.day += 1;
        }
        if self.day > self.days_of_month() {
            self.day = 1;
            self.month += 1;
        }
        if self.month > 12 {
            self.month = 1;
            self.year += 1;
        }
        self
    }

    fn days_of_month(self) -> u32 {
        let leap = self.year.is_multiple_of(4) && !self.year.is_multiple_of(100) || self.year.is_multiple_of(400);
        match self.month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, hour, minute } = self;
        write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::Moment;

    #[test]
    fn finds_a_moment_in_a_text() {
        let (before, moment, after) = Moment::find("提醒我 2026-03-02 10:00 开会").unwrap();
        assert_eq!((before, moment.to_string().as_str(), after), ("提醒我 ", "2026-03-02 10:00", " 开会"));
        for text in ["", "tomorrow", "2026-3-2 10:00", "2026-02-29 10:00", "2026-03-02 24:00", "2026-03-02 10:0"] {
            assert_eq!(Moment::find(text), None, "{text}");
        }
    }

    #[test]
    fn passes_midnight() {
        for (start, end) in [
            ("2026-03-02 10:00", "2026-03-02 10:30"),
            ("2026-03-02 23:45", "2026-03-03 00:15"),
            ("2028-02-28 23:30", "2028-02-29 00:00"),
            ("2026-12-31 23:59", "2027-01-01 00:29"),
        ] {
            let (_, moment, _) = Moment::find(start).unwrap();
            assert_eq!(moment.half_an_hour_later().to_string(), end);
        }
    }
}
