//! How the options of a hint reach a table: as part of the name that the schema provider is asked for.
//!
//! `t /*+ OPTIONS('scan.snapshot-id' = '5') */` becomes the table `"t@opts:scan.snapshot-id=5"`. Nothing is registered
//! anywhere, so a plan can be kept, shown and sent to another process, and a stock session can write that name itself.
//! Pairs are joined by `&`, sorted by key; `%`, `&`, `=` and control characters are written `%XX`.
//! Imports only `error`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::error::{Error, Result};

/// Stands between the table's name and the options.
pub(crate) const OPTIONS_MARK: &str = "@opts:";

/// The suffix that gives a table `options`.
pub(crate) fn encode(options: &BTreeMap<String, String>) -> String {
    let mut out = String::from(OPTIONS_MARK);
    for (i, (key, value)) in options.iter().enumerate() {
        if i > 0 {
            out.push('&');
        }
        escape(key, &mut out);
        out.push('=');
        escape(value, &mut out);
    }
    out
}

/// A table's name without its options, and the options if it has some.
///
/// # Errors
/// When what follows `@opts:` is not what [`encode`] writes.
pub(crate) fn split_options(name: &str) -> Result<(&str, Option<BTreeMap<String, String>>)> {
    let Some((table, text)) = name.split_once(OPTIONS_MARK) else { return Ok((name, None)) };
    let wrong = || {
        Error::invalid(format!(
            "'{text}' are not the options of a table; write \"{table}{OPTIONS_MARK}key=value&key=value\""
        ))
    };
    let mut options = BTreeMap::new();
    for pair in text.split('&') {
        let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
        let (key, value) = (unescape(key).ok_or_else(wrong)?, unescape(value).ok_or_else(wrong)?);
        if key.is_empty() || options.insert(key, value).is_some() {
            return Err(wrong());
        }
    }
    Ok((table, Some(options)))
}

/// What an option that carries a column of INSERT's PARTITION clause starts with.
const PARTITION: &str = "insert.partition.";

/// The same for a column that is to be NULL.
const NULL_PARTITION: &str = "insert.null-partition.";

/// The options that carry the partition which `INSERT OVERWRITE t PARTITION (..)` names: columns and their values as text,
/// `None` for NULL. They are options of a name only, never of a table.
pub(crate) fn static_partition(partition: &BTreeMap<String, Option<String>>) -> BTreeMap<String, String> {
    let option = |(column, value): (&String, &Option<String>)| match value {
        Some(value) => (format!("{PARTITION}{column}"), value.clone()),
        None => (format!("{NULL_PARTITION}{column}"), String::new()),
    };
    partition.iter().map(option).collect()
}

/// The option of a name that makes it the target of an INSERT whose rows are looked at one by one, with NULL in any column. It
/// is never one of a table.
const CHECKED_ROWS: &str = "insert.checked-rows";

/// Adds to the options of a name that it is the target of rows that are looked at.
pub(crate) fn add_checked_rows(options: &mut BTreeMap<String, String>) {
    options.insert(CHECKED_ROWS.to_owned(), String::new());
}

/// Takes out what [`add_checked_rows`] added; false when it did not.
pub(crate) fn take_checked_rows(options: &mut BTreeMap<String, String>) -> bool {
    options.remove(CHECKED_ROWS).is_some()
}

/// Takes the partition of [`static_partition`] out of the options of a name; empty when there is none.
pub(crate) fn take_static_partition(options: &mut BTreeMap<String, String>) -> BTreeMap<String, Option<String>> {
    let mut partition = BTreeMap::new();
    options.retain(|key, value| {
        if let Some(column) = key.strip_prefix(PARTITION) {
            partition.insert(column.to_owned(), Some(std::mem::take(value)));
        } else if let Some(column) = key.strip_prefix(NULL_PARTITION) {
            partition.insert(column.to_owned(), None);
        } else {
            return true;
        }
        false
    });
    partition
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        if matches!(c, '%' | '&' | '=') || c.is_ascii_control() {
            let _ = write!(out, "%{:02X}", c as u32);
        } else {
            out.push(c);
        }
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('%') {
        out.push_str(plain);
        let code = u8::from_str_radix(escaped.get(..2)?, 16).ok()?;
        if !code.is_ascii() {
            return None;
        }
        out.push(code as char);
        rest = &escaped[2..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn split_options_when_name_has_options_then_both_parts_come_back() {
        let options =
            BTreeMap::from([("scan.mode".to_owned(), "a=b&c%\n".to_owned()), ("branch".to_owned(), "ü".to_owned())]);
        let name = format!("t$files{}", encode(&options));
        assert_eq!(name, "t$files@opts:branch=ü&scan.mode=a%3Db%26c%25%0A");
        assert_eq!(split_options(&name).unwrap(), ("t$files", Some(options)));
        assert_eq!(split_options("t@5").unwrap(), ("t@5", None));
    }

    #[test]
    fn take_static_partition_when_a_name_carries_one_then_it_comes_back_and_other_options_stay() {
        let partition = BTreeMap::from([("dt".to_owned(), Some("a=b".to_owned())), ("hh".to_owned(), None)]);
        let mut options = static_partition(&partition);
        options.insert("write-only".to_owned(), "true".to_owned());
        let name = format!("t{}", encode(&options));
        let mut back = split_options(&name).unwrap().1.unwrap();
        assert_eq!(take_static_partition(&mut back), partition);
        assert_eq!(back, BTreeMap::from([("write-only".to_owned(), "true".to_owned())]));
        assert!(take_static_partition(&mut back).is_empty());
    }

    #[test]
    fn split_options_when_text_is_wrong_then_error() {
        for name in ["t@opts:", "t@opts:a", "t@opts:a=1&a=2", "t@opts:a=%", "t@opts:a=%ü", "t@opts:a=%FF", "t@opts:=1"]
        {
            assert!(split_options(name).is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn split_options_when_options_are_any_text_then_it_inverts_encode(
            options in prop::collection::btree_map("\\PC{1,12}", "(?s).{0,12}", 1..4)
        ) {
            let name = format!("t{}", encode(&options));
            prop_assert_eq!(split_options(&name).unwrap(), ("t", Some(options)));
        }
    }
}
