//! The names of tags that are made by themselves (`spec/metadata.md 9.1`).
//!
//! May import: `error`, `options`.

use std::fmt;

use crate::error::Result;
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
