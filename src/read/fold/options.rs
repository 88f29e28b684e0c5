//! Reading of the options that a fold depends on.

use std::collections::BTreeMap;

use crate::error::{Error, Result};

/// The value of an option without blanks around it; an empty one counts as not given.
pub(super) fn option<'a>(options: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    options.get(key).map(|value| value.trim()).filter(|value| !value.is_empty())
}

/// A comma-separated list of names.
pub(super) fn list<'a>(options: &'a BTreeMap<String, String>, key: &str) -> Vec<&'a str> {
    names(option(options, key).unwrap_or_default())
}

/// The names of a comma-separated list.
pub(super) fn names(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// A boolean option, false when it is not given.
///
/// # Errors
/// Invalid when the value is neither true nor false.
pub(super) fn flag(options: &BTreeMap<String, String>, key: &str) -> Result<bool> {
    match option(options, key) {
        None => Ok(false),
        Some(value) if value.eq_ignore_ascii_case("true") => Ok(true),
        Some(value) if value.eq_ignore_ascii_case("false") => Ok(false),
        Some(value) => Err(Error::invalid(format!("option '{key}': {value} is neither true nor false"))),
    }
}
