//! Changes of a table's definition: the next schema from the latest one (`spec/metadata.md 2.5, 2.6`). All changes of a
//! statement happen or none; they are applied in order, each to what the ones before made.
//!
//! ```text
//! columns  add, drop, rename, move; comments, defaults, nullability; found by their path
//! types    the type of a column into another one: casts, and containers by what they hold
//! options  set and remove, and which may change once there is data
//! renames  options follow the columns they name
//! ```
//!
//! May import: `error`, `options`, `spec`, `table::{change, field_ids, validate}`.

mod columns;
mod options;
mod renames;
#[cfg(test)]
mod tests;
mod types;

use super::change::SchemaChange;
use super::field_ids::FieldIds;
use super::validate;
use crate::error::{Error, Result};
use crate::spec::TableSchema;
use crate::spec::schema::SCHEMA_VERSION;

/// The schema that comes after `schema`, the latest one, by `changes`; none when there are no changes. As in Java, changes that
/// leave everything as it is make a schema too. `has_snapshots` says whether anything was committed, which fixes what files
/// were written by; `time_millis` is now, in epoch milliseconds.
///
/// # Errors
/// Invalid or unsupported, with the column or option and the remedy, for a change that is not legal, that names what is not
/// there, or that breaks a rule of definitions (`spec/metadata.md 2.8`) which the table obeyed before.
pub fn alter(
    schema: &TableSchema,
    changes: &[SchemaChange],
    has_snapshots: bool,
    time_millis: i64,
) -> Result<Option<TableSchema>> {
    if changes.is_empty() {
        return Ok(None);
    }
    let mut alteration =
        Alteration { next: schema.clone(), ids: FieldIds::after(schema.highest_field_id), has_snapshots };
    for change in changes {
        alteration.apply(change)?;
    }
    let Alteration { mut next, ids, .. } = alteration;
    next.id = schema.id.checked_add(1).ok_or_else(|| Error::corrupt("the table has used up its schema ids"))?;
    next.highest_field_id = ids.highest().max(schema.highest_field_id);
    next.time_millis = time_millis;
    // With the version that it was read as: what that implies is not broken anew.
    validate::check_change(schema, &next)?;
    next.version = SCHEMA_VERSION;
    Ok(Some(next))
}

/// A schema on its way to the next one.
struct Alteration {
    next: TableSchema,
    ids: FieldIds,
    has_snapshots: bool,
}

impl Alteration {
    fn apply(&mut self, change: &SchemaChange) -> Result<()> {
        match change {
            SchemaChange::SetOption { key, value } => self.set_option(key, value),
            SchemaChange::RemoveOption { key } => self.remove_option(key),
            SchemaChange::UpdateComment { comment } => {
                self.next.comment.clone_from(comment);
                Ok(())
            }
            SchemaChange::AddColumn { path, data_type, comment, default, position } => {
                self.add_column(path, data_type, comment.as_deref(), default.as_deref(), position.as_ref())
            }
            SchemaChange::RenameColumn { path, name } => self.rename_column(path, name),
            SchemaChange::DropColumn { path } => self.drop_column(path),
            SchemaChange::UpdateColumnType { path, data_type, keep_nullability } => {
                self.update_type(path, data_type, *keep_nullability)
            }
            SchemaChange::UpdateColumnNullability { path, nullable } => self.update_nullability(path, *nullable),
            SchemaChange::UpdateColumnComment { path, comment } => {
                self.field(path)?.description.clone_from(comment);
                Ok(())
            }
            SchemaChange::UpdateColumnDefault { path, default } => {
                self.field(path)?.default_value.clone_from(default);
                Ok(())
            }
            SchemaChange::UpdateColumnPosition { path, position } => self.move_column(path, position),
            SchemaChange::DropPrimaryKey => self.drop_primary_key(),
        }
    }

    fn drop_primary_key(&mut self) -> Result<()> {
        if self.has_snapshots {
            return Err(Error::invalid(
                "the primary key can't be dropped from a table that holds data; create a table without one and insert into it \
                 from this one",
            ));
        }
        self.next.primary_keys.clear();
        Ok(())
    }

    /// A boolean option as it is now.
    fn flag(&self, key: &str, default: bool) -> bool {
        self.next.options.get(key).map_or(default, |value| value.eq_ignore_ascii_case("true"))
    }
}
