//! Values of options: texts parsed as Java's options parse them. Imports `error`.

use std::time::Duration;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemorySize(
    /// The bytes.
    pub u64,
);

/// A type that an option's text can be read as.
pub trait OptionValue: Sized {
    /// Reads the text; None when it is not a value of this type.
    fn from_text(text: &str) -> Option<Self>;
}

impl OptionValue for bool {
    fn from_text(text: &str) -> Option<Self> {
        parse_bool(text)
    }
}

impl OptionValue for i32 {
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl OptionValue for i64 {
    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl OptionValue for f64 {
    fn from_text(text: &str) -> Option<Self> {
        text.trim().parse().ok().filter(|number: &Self| number.is_finite())
    }
}

impl OptionValue for String {
    fn from_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl OptionValue for MemorySize {
    fn from_text(text: &str) -> Option<Self> {
        parse_size(text).map(Self)
    }
}

impl OptionValue for Duration {
    fn from_text(text: &str) -> Option<Self> {
        parse_duration(text)
    }
}

/// A list of names; an empty text is an empty list.
impl OptionValue for Vec<String> {
    fn from_text(text: &str) -> Option<Self> {
        if text.trim().is_empty() {
            return Some(Self::new());
        }
        text.split(',').map(str::trim).map(|name| (!name.is_empty()).then(|| name.to_owned())).collect()
    }
}

/// Two texts parted by a comma.
impl OptionValue for (String, String) {
    fn from_text(text: &str) -> Option<Self> {
        let (start, end) = text.split_once(',')?;
        let (start, end) = (start.trim(), end.trim());
        (!start.is_empty() && !end.is_empty() && !end.contains(',')).then(|| (start.to_owned(), end.to_owned()))
    }
}

/// `true` or `false` in any case; nothing else, no blanks.
pub fn parse_bool(text: &str) -> Option<bool> {
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// A span of time: digits and a unit in any case, milliseconds without one (`1 h`, `10min`, `500`). No sign, no fraction, no
/// ISO form, as in Java.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let seconds = |unit: u64| number.checked_mul(unit).map(Duration::from_secs);
    match unit.as_str() {
        "d" | "day" | "days" => seconds(86_400),
        "h" | "hour" | "hours" => seconds(3_600),
        "min" | "m" | "minute" | "minutes" => seconds(60),
        "s" | "sec" | "secs" | "second" | "seconds" => seconds(1),
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => Some(Duration::from_millis(number)),
        "µs" | "micro" | "micros" | "microsecond" | "microseconds" => Some(Duration::from_micros(number)),
        "ns" | "nano" | "nanos" | "nanosecond" | "nanoseconds" => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

/// A memory size in bytes: digits and a unit in any case, bytes without one (`128 mb`, `64kb`, `500 bytes`). At most 2^63 - 1.
pub fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let shift = match unit.as_str() {
        "" | "b" | "bytes" => 0,
        "k" | "kb" | "kibibytes" => 10,
        "m" | "mb" | "mebibytes" => 20,
        "g" | "gb" | "gibibytes" => 30,
        "t" | "tb" | "tebibytes" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift).filter(|bytes| *bytes <= i64::MAX as u64)
}

/// Levels and their values, `0:avro,5:parquet`; an item may be empty.
pub(super) fn parse_levels(text: &str) -> Option<Vec<(i32, &str)>> {
    let mut levels = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (level, value) = item.split_once(':')?;
        levels.push((level.trim().parse().ok()?, value.trim()));
    }
    Some(levels)
}

fn number_and_unit(text: &str) -> Option<(u64, String)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number = number.parse::<u64>().ok().filter(|number| *number <= i64::MAX as u64)?;
    Some((number, unit.trim().to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_duration_when_java_accepts_then_same_span() {
        let cases = [
            ("1 h", 3_600_000),
            ("10 min", 600_000),
            ("2d", 172_800_000),
            ("5m", 300_000),
            ("1 M", 60_000),
            (" 10  s ", 10_000),
            ("3 secs", 3_000),
            ("7", 7),
            ("7 millis", 7),
            ("1 days", 86_400_000),
            ("365000 d", 31_536_000_000_000),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse_duration("8 µs"), Some(Duration::from_micros(8)));
        assert_eq!(parse_duration("9 nano"), Some(Duration::from_nanos(9)));
    }

    #[test]
    fn parse_duration_when_java_refuses_then_none() {
        for text in
            ["PT1H", "1.5 h", "-1 s", "", "  ", "h", "1 w", "99999999999999999999 s", "1 us", "9223372036854775807 d"]
        {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn parse_size_when_java_accepts_then_same_bytes() {
        let cases = [
            ("128 mb", 128 << 20),
            ("64kb", 64 << 10),
            ("1b", 1),
            ("500 bytes", 500),
            ("1 MB", 1 << 20),
            ("2g", 2 << 30),
            ("1 tebibytes", 1 << 40),
            ("5", 5),
            (" 3 kb ", 3 << 10),
            ("9223372036854775807 b", i64::MAX as u64),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn parse_size_when_java_refuses_then_none() {
        for text in ["1.5 mb", "-1", "", "x", "9999999999 tb", "1 pb", "1 byte", "9223372036854775808"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn parse_bool_when_not_true_or_false_then_none() {
        assert_eq!(parse_bool("TRUE"), Some(true));
        assert_eq!(parse_bool("False"), Some(false));
        for text in [" true", "1", "yes", ""] {
            assert_eq!(parse_bool(text), None, "{text}");
        }
    }

    #[test]
    fn parse_levels_when_blanks_and_empty_items_then_levels() {
        assert_eq!(parse_levels("0:avro, 5 : orc,"), Some(vec![(0, "avro"), (5, "orc")]));
        assert_eq!(parse_levels(""), Some(vec![]));
        assert_eq!(parse_levels("x:avro"), None);
        assert_eq!(parse_levels("0"), None);
    }

    #[test]
    fn list_when_a_name_is_empty_then_none() {
        assert_eq!(Vec::from_text(" a , b "), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(Vec::from_text(""), Some(vec![]));
        assert_eq!(<Vec<String>>::from_text("a,,b"), None);
    }

    #[test]
    fn pair_when_not_two_then_none() {
        assert_eq!(<(String, String)>::from_text("1, 3"), Some(("1".to_owned(), "3".to_owned())));
        for text in ["1", "1,", "1,2,3", ""] {
            assert_eq!(<(String, String)>::from_text(text), None, "{text}");
        }
    }
}
