//! What a table's definition must obey when it is made or changed (`spec/metadata.md 2.8`).
//!
//! Every rule is checked of the whole schema, whatever a statement changes, and every breach is found. A table that another
//! engine or version made may break a rule already: [`check_change`] refuses only what a change breaks anew, so that such a
//! table can still be altered.
//!
//! ```text
//! columns   names, types, defaults, BLOBs; key and partition columns
//! buckets   bucket counts and keys, row tracking, data evolution, clustering
//! merge     sequence fields and groups, aggregate functions, merge engines
//! changes   changelogs, deletion vectors, snapshots, expiry, branches
//! files     formats and the types they hold, codecs, indexes, external paths
//! upkeep    what is done after commits, levels of compression
//! ```
//!
//! May import: `error`, `options`, `spec`, `table::{field_ids, merge_rules}`.

mod buckets;
mod changes;
mod columns;
mod files;
mod merge;
#[cfg(test)]
mod tests;
mod upkeep;

use std::collections::{BTreeMap, HashSet};

pub(crate) use columns::check_depth;

use crate::error::{Error, Result};
use crate::options::{TableOptions, check_readable, check_values, lookup};
use crate::spec::{DataField, TableSchema};

/// A definition under check.
struct Subject<'a> {
    schema: &'a TableSchema,
    options: &'a TableOptions,
}

impl Subject<'_> {
    fn has_key(&self) -> bool {
        self.schema.has_primary_key()
    }

    /// Whether a key may move from one partition to another.
    fn crosses_partitions(&self) -> bool {
        self.has_key() && self.schema.partition_keys.iter().any(|key| !self.schema.primary_keys.contains(key))
    }

    /// The value of a boolean option; false where its text is none, which is a breach of its own.
    fn flag(&self, key: &str) -> bool {
        self.options.value::<bool>(key).ok().flatten().unwrap_or(false)
    }

    /// The names that a list option holds.
    fn list(&self, key: &str) -> Vec<String> {
        self.options.value::<Vec<String>>(key).ok().flatten().unwrap_or_default()
    }

    /// The columns that list option `key` names; one that does not exist is a breach.
    fn named_columns(&self, key: &str, found: &mut Breaches) -> Vec<&DataField> {
        let mut columns = Vec::new();
        for name in self.list(key) {
            match self.schema.field(&name) {
                Some(field) => columns.push(field),
                None => found.missing_column(key, &name, self.schema),
            }
        }
        columns
    }
}

/// What was found to be wrong.
#[derive(Default)]
struct Breaches(Vec<Error>);

impl Breaches {
    fn invalid(&mut self, message: impl Into<String>) {
        self.0.push(Error::invalid(message));
    }

    fn take(&mut self, result: Result<()>) {
        self.0.extend(result.err());
    }

    fn missing_column(&mut self, option: &str, name: &str, schema: &TableSchema) {
        let columns: Vec<&str> = schema.fields.iter().map(|field| field.name.as_str()).collect();
        self.invalid(format!(
            "option {option} names column {name}, which the table does not have; its columns are {}",
            columns.join(", ")
        ));
    }
}

/// Everything that is wrong with a definition.
fn breaches(schema: &TableSchema) -> Vec<Error> {
    let mut found = Breaches::default();
    columns::check(schema, &mut found);
    found.take(check_values(&schema.options));
    found.take(check_readable(&schema.options));
    match TableOptions::new(&schema.options, &BTreeMap::new()) {
        Ok(options) => {
            let subject = Subject { schema, options: &options };
            columns::check_with_options(&subject, &mut found);
            buckets::check(&subject, &mut found);
            merge::check(&subject, &mut found);
            changes::check(&subject, &mut found);
            files::check(&subject, &mut found);
            upkeep::check(&subject, &mut found);
        }
        // A text that is no value; it is said already unless only the typed view looks at it.
        Err(error) if found.0.is_empty() => found.0.push(error),
        Err(_) => {}
    }
    found.0
}

/// Checks a whole definition.
///
/// # Errors
/// Invalid or unsupported: the first breach, with the column or option and the remedy.
pub(crate) fn check(schema: &TableSchema) -> Result<()> {
    breaches(schema).into_iter().next().map_or(Ok(()), Err)
}

/// Checks what a change makes of a definition; what was wrong with it before is not the change's fault.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_change(before: &TableSchema, after: &TableSchema) -> Result<()> {
    let new = breaches(after);
    if new.is_empty() {
        return Ok(());
    }
    let known: HashSet<String> = breaches(before).iter().map(ToString::to_string).collect();
    new.into_iter().find(|breach| !known.contains(&breach.to_string())).map_or(Ok(()), Err)
}

/// What an option asks for that nothing in this crate would do: why, and what to do instead.
type Unheeded = (&'static str, fn(&str) -> bool, &'static str);

const JAVA: &str =
    "it names classes of Java, which can't be called here; leave it out and act on the new snapshot yourself";
const ANY: fn(&str) -> bool = |value| !value.trim().is_empty();

const UNHEEDED: &[Unheeded] = &[
    ("path", ANY, "the catalog says where a table lies; leave it out"),
    ("branch", |value| value != "main", "a branch is part of a table's name; write `table$branch_<name>`"),
    ("commit.callbacks", ANY, JAVA),
    ("tag.callbacks", ANY, JAVA),
    ("partition.mark-done-action.custom.class", ANY, JAVA),
    (
        "metadata.iceberg.storage",
        |value| !value.eq_ignore_ascii_case("disabled"),
        "metadata for Iceberg is not written; leave it out, or let Java write the table",
    ),
];

/// Refuses options that a statement may not bring to a table.
///
/// # Errors
/// Unsupported, with the option and the remedy.
pub(crate) fn check_settable(options: &BTreeMap<String, String>) -> Result<()> {
    for (key, value) in options {
        let canonical = lookup(key).map_or(key.as_str(), |found| found.key);
        let unheeded = UNHEEDED.iter().find(|(option, when, _)| *option == canonical && when(value));
        if let Some((_, _, why)) = unheeded {
            return Err(Error::unsupported(format!("option {key} = '{value}': {why}")));
        }
    }
    Ok(())
}
