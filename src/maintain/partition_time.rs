//! The time that the values of a partition tell (`spec/metadata.md 10.4`): texts made of them by a pattern, read by a formatter
//! as Java's `DateTimeFormatter` knows them.
//!
//! May import: `error`.

use chrono::{NaiveDate, NaiveDateTime, NaiveTime};

use crate::error::{Error, Result};

/// How partition values become times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTime {
    /// Option `partition.timestamp-pattern`: a text with `$column` in it. Without one the first column is the time.
    pattern: Option<String>,
    /// Option `partition.timestamp-formatter`.
    formatter: Option<Vec<Item>>,
}

/// A part of a formatter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    /// A number: which one, in how many digits.
    Number(char, usize),
    /// Text as it is.
    Literal(String),
}

impl PartitionTime {
    /// Times of this pattern and formatter.
    ///
    /// # Errors
    /// Invalid for a formatter with letters that are not known here.
    pub fn new(pattern: Option<&str>, formatter: Option<&str>) -> Result<Self> {
        let formatter = formatter.map(items).transpose()?;
        Ok(Self { pattern: pattern.map(str::to_owned), formatter })
    }

    /// The time of a partition whose columns `keys` have the texts `values`; `None` when they tell none.
    pub fn of(&self, keys: &[String], values: &[String]) -> Option<NaiveDateTime> {
        let text = match &self.pattern {
            None => values.first()?.clone(),
            Some(pattern) => {
                let mut text = pattern.clone();
                // The longest names first, so that $day does not replace a part of $day_of_year.
                let mut order: Vec<usize> = (0..keys.len().min(values.len())).collect();
                order.sort_by_key(|i| std::cmp::Reverse(keys[*i].len()));
                for i in order {
                    text = text.replace(&format!("${}", keys[i]), &values[i]);
                }
                text
            }
        };
        match &self.formatter {
            None => lenient(&text),
            Some(items) => formatted(&text, items),
        }
    }
}

/// Takes a formatter apart.
fn items(pattern: &str) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut chars = pattern.chars().peekable();
    let mut literal = String::new();
    while let Some(c) = chars.next() {
        if c == '\'' {
            // Two of them stand for one, inside of quotes and outside.
            let mut is_empty = true;
            while let Some(quoted) = chars.next() {
                if quoted == '\'' {
                    if chars.peek() != Some(&'\'') {
                        break;
                    }
                    chars.next();
                }
                is_empty = false;
                literal.push(quoted);
            }
            if is_empty {
                literal.push('\'');
            }
        } else if c.is_ascii_alphabetic() {
            if !"yuMdHmsS".contains(c) {
                return Err(Error::invalid(format!(
                    "timestamp formatter '{pattern}': {c} is not known; there are y, M, d, H, m, s and S"
                )));
            }
            if !literal.is_empty() {
                items.push(Item::Literal(std::mem::take(&mut literal)));
            }
            let mut count = 1;
            while chars.peek() == Some(&c) {
                chars.next();
                count += 1;
            }
            items.push(Item::Number(if c == 'u' { 'y' } else { c }, count));
        } else {
            literal.push(c);
        }
    }
    if !literal.is_empty() {
        items.push(Item::Literal(literal));
    }
    Ok(items)
}

/// Fields of a date and time.
#[derive(Default)]
struct Fields {
    year: Option<i32>,
    month: Option<u32>,
    day: Option<u32>,
    hour: u32,
    minute: u32,
    second: u32,
    nanos: u32,
}

impl Fields {
    fn time(&self) -> Option<NaiveDateTime> {
        let date = NaiveDate::from_ymd_opt(self.year?, self.month?, self.day?)?;
        Some(date.and_time(NaiveTime::from_hms_nano_opt(self.hour, self.minute, self.second, self.nanos)?))
    }
}

fn formatted(text: &str, items: &[Item]) -> Option<NaiveDateTime> {
    let mut rest = text;
    let mut fields = Fields::default();
    for (i, item) in items.iter().enumerate() {
        match item {
            Item::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
            Item::Number(letter, count) => {
                // Digits that follow each other belong to the number that their count says.
                let next_is_number = matches!(items.get(i + 1), Some(Item::Number(..)));
                let (least, most) = match (letter, count) {
                    (_, count) if next_is_number => (*count, *count),
                    ('y', 2) => (2, 2),
                    ('y', count) => (*count, 9),
                    ('S', count) => (*count, *count),
                    (_, 1) => (1, 2),
                    (_, count) => (*count, *count),
                };
                let digits = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
                if digits < least {
                    return None;
                }
                let number: u32 = rest[..digits].parse().ok()?;
                rest = &rest[digits..];
                match letter {
                    'y' if *count == 2 => fields.year = Some(2000 + i32::try_from(number).ok()?),
                    'y' => fields.year = Some(i32::try_from(number).ok()?),
                    'M' => fields.month = Some(number),
                    'd' => fields.day = Some(number),
                    'H' => fields.hour = number,
                    'm' => fields.minute = number,
                    's' => fields.second = number,
                    _ => fields.nanos = number.checked_mul(10u32.checked_pow(9u32.checked_sub(digits as u32)?)?)?,
                }
            }
        }
    }
    if rest.is_empty() { fields.time() } else { None }
}

/// `yyyy-M-d`, with ` H:m:s` or that and a fraction behind it.
fn lenient(text: &str) -> Option<NaiveDateTime> {
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let numbers = |text: &str, separator| {
        let numbers: Option<Vec<u32>> = text
            .split(separator)
            .map(|part| {
                Some(part).filter(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
            })
            .collect();
        numbers
    };
    let date = numbers(date, '-')?;
    let &[year, month, day] = date.as_slice() else { return None };
    let mut fields = Fields { year: i32::try_from(year).ok(), month: Some(month), day: Some(day), ..Fields::default() };
    if let Some(time) = time {
        let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
        match *numbers(time, ':')?.as_slice() {
            [hour, minute] => (fields.hour, fields.minute) = (hour, minute),
            [hour, minute, second] => (fields.hour, fields.minute, fields.second) = (hour, minute, second),
            _ => return None,
        }
        if !fraction.is_empty() {
            let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 9)?;
            fields.nanos = fraction.parse::<u32>().ok()?.checked_mul(10u32.pow(9 - digits))?;
        }
    }
    fields.time()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(pattern: Option<&str>, formatter: Option<&str>, values: &[(&str, &str)]) -> Option<String> {
        let keys: Vec<String> = values.iter().map(|(key, _)| (*key).to_owned()).collect();
        let values: Vec<String> = values.iter().map(|(_, value)| (*value).to_owned()).collect();
        PartitionTime::new(pattern, formatter).unwrap().of(&keys, &values).map(|time| time.to_string())
    }

    #[test]
    fn of_when_pattern_and_formatter_differ_then_the_time_that_they_tell() {
        let day = |text: &str| Some(format!("{text} 00:00:00"));
        assert_eq!(time(None, None, &[("dt", "2024-01-02"), ("x", "?")]), day("2024-01-02"));
        assert_eq!(time(None, None, &[("dt", "2024-1-2")]), day("2024-01-02"));
        assert_eq!(time(None, None, &[("dt", "2024-01-02 3:04:05.5")]).unwrap(), "2024-01-02 03:04:05.500");
        assert_eq!(time(None, Some("yyyyMMdd"), &[("dt", "20240102")]), day("2024-01-02"));
        assert_eq!(
            time(Some("$dt $hm:00"), None, &[("dt", "2024-01-02"), ("hm", "05:06")]).unwrap(),
            "2024-01-02 05:06:00"
        );
        assert_eq!(
            time(Some("$day_$day_x"), Some("yyyyMMdd'_'HH"), &[("day", "20240102"), ("day_x", "07")]).unwrap(),
            "2024-01-02 07:00:00"
        );
        assert_eq!(time(None, Some("yyyy/M/d''H"), &[("dt", "2024/3/4'5")]).unwrap(), "2024-03-04 05:00:00");
    }

    #[test]
    fn of_when_values_tell_no_time_then_none() {
        for value in ["", "x", "2024-13-01", "2024-01", "__DEFAULT_PARTITION__", "2024-01-02 25:00:00", "-1-2-3"] {
            assert_eq!(time(None, None, &[("dt", value)]), None, "{value}");
        }
        for value in ["2024010", "202401022", "2024-1-2"] {
            assert_eq!(time(None, Some("yyyyMMdd"), &[("dt", value)]), None, "{value}");
        }
        assert!(PartitionTime::new(None, Some("EEE")).is_err());
    }
}
