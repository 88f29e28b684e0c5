//! The names of tags that are made by themselves (`spec/metadata.md 9.1`).
//!
//! May import: `error`, `options`.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, TimeDelta};

use crate::error::{Error, Result};
use crate::options::TableOptions;

/// What the names of a table's automatic tags look like: `9` stands for a digit. Names of one pattern are ordered as the
/// times that they tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(&'static str);

impl Pattern {
    /// The pattern of a table's options `tag.creation-period`, `tag.period-formatter` and `tag.creation-period-duration`.
    ///
    /// # Errors
    /// Invalid when one of them has a value that it can't have.
    pub(crate) fn of(options: &TableOptions) -> Result<Self> {
        if options.is_set("tag.creation-period-duration") {
            return Ok(Self("999999999999"));
        }
        let text = |key| options.value::<String>(key).map(|text| text.unwrap_or_default().to_ascii_lowercase());
        let daily = text("tag.creation-period")? == "daily";
        Ok(Self(match (daily, text("tag.period-formatter")?.as_str()) {
            (true, "with_dashes") => "9999-99-99",
            (true, _) => "99999999",
            (false, "with_dashes") => "9999-99-99 99",
            (false, "without_dashes") => "99999999 99",
            (false, _) => "9999999999",
        }))
    }

    /// Whether `name` can be the name of an automatic tag.
    pub(crate) fn fits(self, name: &str) -> bool {
        name.len() == self.0.len()
            && name.bytes().zip(self.0.bytes()).all(
                |(byte, wanted)| {
                    if wanted == b'9' { byte.is_ascii_digit() } else { byte == wanted }
                },
            )
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The periods that automatic tags stand for, in the wall clock that they are named by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Periods {
    pattern: Pattern,
    length: TimeDelta,
}

impl Periods {
    /// The periods that a table's options tell.
    ///
    /// # Errors
    /// As [`Pattern::of`]; invalid for a period of no or too much time.
    pub(crate) fn of(options: &TableOptions) -> Result<Self> {
        let pattern = Pattern::of(options)?;
        let length = match options.value::<Duration>("tag.creation-period-duration")? {
            Some(length) => TimeDelta::from_std(length).ok().filter(|length| length.num_milliseconds() > 0),
            None => {
                match options.value::<String>("tag.creation-period")?.unwrap_or_default().to_ascii_lowercase().as_str()
                {
                    "hourly" => Some(TimeDelta::hours(1)),
                    "two-hours" => Some(TimeDelta::hours(2)),
                    _ => Some(TimeDelta::days(1)),
                }
            }
        };
        let length = length.ok_or_else(|| Error::invalid("option tag.creation-period-duration can't be a period"))?;
        Ok(Self { pattern, length })
    }

    fn format(self) -> &'static str {
        match self.pattern.0 {
            "9999-99-99" => "%Y-%m-%d",
            "99999999" => "%Y%m%d",
            "9999-99-99 99" => "%Y-%m-%d %H",
            "99999999 99" => "%Y%m%d %H",
            "9999999999" => "%Y%m%d%H",
            _ => "%Y%m%d%H%M",
        }
    }

    /// The name of the tag of the period that begins at `time`.
    pub(crate) fn name(self, time: NaiveDateTime) -> String {
        time.format(self.format()).to_string()
    }

    /// When the period of a tag begins; `None` when `name` is not that of an automatic tag.
    pub(crate) fn time(self, name: &str) -> Option<NaiveDateTime> {
        if !self.pattern.fits(name) {
            return None;
        }
        // The parser wants a whole time.
        let (rest, format) = match self.pattern.0.len() - self.pattern.0.matches(['-', ' ']).count() {
            8 => (" 00:00", " %H:%M"),
            10 => (":00", ":%M"),
            _ => ("", ""),
        };
        NaiveDateTime::parse_from_str(&format!("{name}{rest}"), &format!("{}{format}", self.format())).ok()
    }

    /// The beginning of the period after that of `time`.
    pub(crate) fn next(self, time: NaiveDateTime) -> NaiveDateTime {
        time.checked_add_signed(self.length).unwrap_or(NaiveDateTime::MAX)
    }

    /// The beginning of the last period that is over at `time`.
    pub(crate) fn last_over(self, time: NaiveDateTime) -> NaiveDateTime {
        let (millis, length) = (time.and_utc().timestamp_millis(), self.length.num_milliseconds());
        let begin = millis.div_euclid(length).saturating_sub(1).saturating_mul(length);
        DateTime::from_timestamp_millis(begin).map_or(NaiveDateTime::MIN, |begin| begin.naive_utc())
    }
}

/// Whether a table makes tags by itself and `name` can be the name of one.
///
/// # Errors
/// As [`Pattern::of`].
pub(crate) fn is_automatic_tag(options: &TableOptions, name: &str) -> Result<bool> {
    let creation = options.value::<String>("tag.automatic-creation")?.unwrap_or_default().to_ascii_lowercase();
    // Tags of batch jobs have names of their own.
    Ok(!matches!(creation.as_str(), "" | "none" | "batch") && Pattern::of(options)?.fits(name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn periods_when_name_is_read_back_then_the_time_it_was_made_from() {
        let time = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap();
        let now = time("2024-03-01 05:35");
        for (options, name, next) in [
            (&[][..], "2024-02-29", "2024-03-01 00:00"),
            (&[("tag.period-formatter", "without_dashes")], "20240229", "2024-03-01 00:00"),
            (&[("tag.creation-period", "hourly")], "2024-03-01 04", "2024-03-01 05:00"),
            (
                &[("tag.creation-period", "two-hours"), ("tag.period-formatter", "without_dashes")],
                "20240301 02",
                "2024-03-01 04:00",
            ),
            (
                &[("tag.creation-period", "hourly"), ("tag.period-formatter", "without_dashes_and_spaces")],
                "2024030104",
                "2024-03-01 05:00",
            ),
            (&[("tag.creation-period-duration", "10 min")], "202403010520", "2024-03-01 05:30"),
        ] {
            let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let periods = Periods::of(&TableOptions::new(&options, &BTreeMap::new()).unwrap()).unwrap();
            let begin = periods.last_over(now);
            assert_eq!(periods.name(begin), name);
            assert_eq!(periods.time(name), Some(begin), "{name}");
            assert_eq!(periods.next(begin), time(next));
            assert_eq!(periods.time("x"), None);
        }
    }

    #[test]
    fn fits_when_options_tell_the_period_then_only_such_names() {
        for (options, name, other) in [
            (&[][..], "2024-12-01", "20241201"),
            (&[("tag.period-formatter", "without_dashes")], "20241201", "2024-12-01"),
            (&[("tag.creation-period", "hourly")], "2024-12-01 05", "2024-12-01"),
            (
                &[("tag.creation-period", "two-hours"), ("tag.period-formatter", "without_dashes_and_spaces")],
                "2024120105",
                "20241201 05",
            ),
            (&[("tag.creation-period-duration", "10 min")], "202412010510", "2024-12-01"),
        ] {
            let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            let pattern = Pattern::of(&TableOptions::new(&options, &BTreeMap::new()).unwrap()).unwrap();
            assert!(pattern.fits(name) && !pattern.fits(other) && !pattern.fits("x"), "{pattern}: {name}, {other}");
        }
    }
}
