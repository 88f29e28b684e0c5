//! Patterns of dates and times as Java, Flink and Spark write them (`yyyy-MM-dd HH:mm:ss`), in the engine's form. Imports `error`.

use crate::error::{Error, Result};

/// The engine's pattern for a Java pattern. What holds a `%` is the engine's already.
///
/// # Errors
/// For a letter that has no counterpart, and an open quote.
pub(super) fn engine_pattern(java: &str) -> Result<String> {
    if java.contains('%') {
        return Ok(java.to_owned());
    }
    let wrong = |what: String| Error::invalid(format!("the pattern '{java}' of a time cannot be used: {what}"));
    let mut out = String::new();
    let mut chars = java.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' {
            quoted(&mut chars, &mut out).ok_or_else(|| wrong("a quote is not closed".to_owned()))?;
        } else if c.is_ascii_alphabetic() {
            let mut count = 1;
            while chars.next_if_eq(&c).is_some() {
                count += 1;
            }
            let part =
                part(c, count).ok_or_else(|| wrong(format!("'{}' is not known", c.to_string().repeat(count))))?;
            out.push_str(part);
        } else {
            out.push(c);
        }
    }
    Ok(out)
}

/// The text up to the closing quote; two quotes are one.
fn quoted(chars: &mut std::iter::Peekable<std::str::Chars<'_>>, out: &mut String) -> Option<()> {
    if chars.next_if_eq(&'\'').is_some() {
        out.push('\'');
        return Some(());
    }
    loop {
        match chars.next()? {
            '\'' if chars.next_if_eq(&'\'').is_some() => out.push('\''),
            '\'' => return Some(()),
            c => out.push(c),
        }
    }
}

fn part(letter: char, count: usize) -> Option<&'static str> {
    Some(match (letter, count) {
        ('y' | 'u', 1 | 3 | 4) => "%Y",
        ('y' | 'u', 2) => "%y",
        ('M' | 'L', 1) => "%-m",
        ('M' | 'L', 2) => "%m",
        ('M' | 'L', 3) => "%b",
        ('M' | 'L', 4) => "%B",
        ('d', 1) => "%-d",
        ('d', 2) => "%d",
        ('D', 1) => "%-j",
        ('D', 3) => "%j",
        ('E', 1..=3) => "%a",
        ('E', 4) => "%A",
        ('H', 1) => "%-H",
        ('H', 2) => "%H",
        ('h', 1) => "%-I",
        ('h', 2) => "%I",
        ('m', 1) => "%-M",
        ('m', 2) => "%M",
        ('s', 1) => "%-S",
        ('s', 2) => "%S",
        ('S', 3) => "%3f",
        ('S', 6) => "%6f",
        ('S', 9) => "%9f",
        ('a', 1) => "%p",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_pattern_when_pattern_is_javas_then_each_part_is_translated() {
        for (java, engine) in [
            ("yyyy-MM-dd HH:mm:ss.SSS", "%Y-%m-%d %H:%M:%S.%3f"),
            ("d. MMM ''yy", "%-d. %b '%y"),
            ("yyyy-MM-dd'T'HH:mm 'o''clock'", "%Y-%m-%dT%H:%M o'clock"),
            ("%Y", "%Y"),
        ] {
            assert_eq!(engine_pattern(java).unwrap(), engine, "{java}");
        }
        assert!(engine_pattern("yyyy QQ").is_err());
        assert!(engine_pattern("yyyy 'open").is_err());
    }
}
