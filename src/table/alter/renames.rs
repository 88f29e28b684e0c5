//! Options that name a column follow it when it is renamed.

use super::Alteration;
use crate::error::{Error, Result};
use crate::options::lookup;
use crate::spec::types::TypeKind;

/// Options whose value is a column or a list of columns.
const COLUMNS: [&str; 14] = [
    "bucket-key",
    "sequence.field",
    "clustering.columns",
    "upsert-key",
    "changelog-producer.row-deduplicate-ignore-fields",
    "partial-update.remove-record-on-sequence-group",
    "rowkind.field",
    "record-level.time-field",
    "blob-field",
    "blob-descriptor-field",
    "blob-external-storage-field",
    "blob-view-field",
    "vector-field",
    "video-frame-field",
];

/// Options of a column whose value names fields of the rows that the column holds.
const INNER_FIELDS: [&str; 3] = ["nested-key", "nested-sequence-field", "ts-field"];

impl Alteration {
    /// Whether an index over the key of the table is of this column.
    pub(super) fn is_indexed_key(&self, name: &str) -> bool {
        self.next
            .options
            .iter()
            .filter(|(key, _)| key.starts_with("pk-") && key.ends_with(".index.columns"))
            .any(|(_, columns)| columns.split(',').any(|column| column.trim() == name))
    }

    /// Refuses to rename a column that is known by its name elsewhere.
    pub(super) fn refuse_rename(&self, path: &[String]) -> Result<()> {
        let Some(name) = self.top_level(path) else { return Ok(()) };
        let kind = self.next.field(&name).map(|field| &field.data_type.kind);
        if matches!(kind, Some(TypeKind::Blob)) {
            return Err(Error::invalid(format!(
                "column {name} is a BLOB, whose files know it by its name; it can't be renamed"
            )));
        }
        let refused = |option: &str| {
            Err(Error::invalid(format!(
                "column {name} is named by option {option} and can't be renamed; reset the option first, rename, and set it again"
            )))
        };
        // Of the options `fields.<c>.*` this one does not follow in Java, which refuses the rename instead.
        let stats_mode = format!("fields.{name}.stats-mode");
        if self.next.options.contains_key(&stats_mode) {
            return refused(&stats_mode);
        }
        if matches!(kind, Some(TypeKind::Variant)) {
            for option in ["variant.shreddingSchema", "parquet.variant.shreddingSchema"] {
                if self.next.options.contains_key(option) {
                    return refused(option);
                }
            }
        }
        Ok(())
    }

    /// Renames the column `old` in all options.
    pub(super) fn rename_in_options(&mut self, old: &str, new: &str) -> Result<()> {
        let mut renamed = std::collections::BTreeMap::new();
        for (key, value) in std::mem::take(&mut self.next.options) {
            let value = renamed_value(&key, &value, old, new);
            let new_key = renamed_key(&key, old, new);
            if let Some(other) = renamed.insert(new_key.clone(), value) {
                return Err(Error::invalid(format!(
                    "option {new_key} = '{other}' is there already, though no column has that name yet; reset it first"
                )));
            }
        }
        self.next.options = renamed;
        Ok(())
    }

    /// Renames a field of the rows that a column holds in that column's options. `path` leads to it: column, `element` or
    /// `value`, field.
    pub(super) fn rename_nested_in_options(&mut self, path: &[String], old: &str, new: &str) -> Result<()> {
        let [column, _, _] = path else { return Ok(()) };
        let Some(column) = self.top_level(std::slice::from_ref(column)) else { return Ok(()) };
        for option in INNER_FIELDS {
            if let Some(value) = self.next.options.get_mut(&format!("fields.{column}.{option}")) {
                *value = renamed_items(value, |item| (item == old).then(|| new.to_owned()));
            }
        }
        Ok(())
    }
}

/// The items of a list, renamed where `rename` says; blanks around the others stay.
fn renamed_items(list: &str, rename: impl Fn(&str) -> Option<String>) -> String {
    let items: Vec<String> =
        list.split(',').map(|item| rename(item.trim()).unwrap_or_else(|| item.to_owned())).collect();
    items.join(",")
}

/// A column, or a MAP column with one of its keys: `column[key]`.
fn renamed_indexed(item: &str, old: &str, new: &str) -> Option<String> {
    let rest = item.strip_prefix(old)?;
    (rest.is_empty() || (rest.starts_with('[') && rest.ends_with(']'))).then(|| format!("{new}{rest}"))
}

fn renamed_value(key: &str, value: &str, old: &str, new: &str) -> String {
    let plain = |item: &str| (item == old).then(|| new.to_owned());
    let Some(found) = lookup(key) else { return value.to_owned() };
    let option = found.def.key;
    if COLUMNS.contains(&option) || option == "fields.<c>.sequence-group" {
        return renamed_items(value, plain);
    }
    if option.starts_with("file-index.") && option.ends_with(".columns") {
        return renamed_items(value, |item| renamed_indexed(item, old, new));
    }
    value.to_owned()
}

fn renamed_key(key: &str, old: &str, new: &str) -> String {
    let Some(found) = lookup(key) else {
        // An option that a later version may know.
        let rest = key.strip_prefix("fields.").and_then(|rest| rest.strip_prefix(old));
        return match rest.filter(|rest| rest.starts_with('.')) {
            Some(rest) => format!("fields.{new}{rest}"),
            None => key.to_owned(),
        };
    };
    let (Some(captured), Some((before, after))) = (found.captured, found.def.key.split_once("<c>")) else {
        return key.to_owned();
    };
    let renamed = match found.def.key {
        "fields.<c>.sequence-group" => renamed_items(captured, |item| (item == old).then(|| new.to_owned())),
        option if option.starts_with("file-index.") => {
            renamed_indexed(captured, old, new).unwrap_or_else(|| captured.to_owned())
        }
        _ if captured == old => new.to_owned(),
        _ => captured.to_owned(),
    };
    format!("{before}{renamed}{after}")
}
