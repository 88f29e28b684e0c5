//! From a column's whole new type to the changes that make it: a ROW, ARRAY or MAP changes by its parts (`spec/metadata.md 2.5`),
//! which keep their ids where they keep their names.

use crate::error::{Error, Result};
use crate::spec::{DataField, DataType, TypeKind};
use crate::table::{ColumnPosition, SchemaChange};

/// The changes that turn the type `old` of the column at `path` into `new`.
///
/// # Errors
/// Invalid when a MAP's key or the order of fields would change; these cannot be changed.
pub(super) fn changes(path: &[String], old: &DataType, new: &DataType) -> Result<Vec<SchemaChange>> {
    let mut changes = Vec::new();
    collect(path, old, new, &mut changes)?;
    Ok(changes)
}

fn collect(path: &[String], old: &DataType, new: &DataType, changes: &mut Vec<SchemaChange>) -> Result<()> {
    let below = |name: &str| path.iter().cloned().chain([name.to_owned()]).collect::<Vec<_>>();
    match (&old.kind, &new.kind) {
        (TypeKind::Row(old_fields), TypeKind::Row(new_fields)) => rows(path, old_fields, new_fields, changes)?,
        (TypeKind::Array(old), TypeKind::Array(new)) => collect(&below("element"), old, new, changes)?,
        (TypeKind::Map(old_key, old), TypeKind::Map(new_key, new)) => {
            if !same_shape(old_key, new_key) {
                return Err(Error::unsupported(format!(
                    "the key of the MAP in column {} cannot change",
                    path.join(".")
                )));
            }
            collect(&below("value"), old, new, changes)?;
        }
        (old_kind, new_kind) if old_kind != new_kind => changes.push(SchemaChange::UpdateColumnType {
            path: path.to_vec(),
            data_type: new.clone(),
            keep_nullability: true,
        }),
        _ => {}
    }
    if old.nullable != new.nullable {
        changes.push(SchemaChange::UpdateColumnNullability { path: path.to_vec(), nullable: new.nullable });
    }
    Ok(())
}

fn rows(path: &[String], old: &[DataField], new: &[DataField], changes: &mut Vec<SchemaChange>) -> Result<()> {
    let below = |name: &str| path.iter().cloned().chain([name.to_owned()]).collect::<Vec<_>>();
    // New fields come first, so that a ROW of which every field is replaced is never without one.
    let mut last: Option<&str> = None;
    let mut place = 0;
    for field in new {
        match old.iter().position(|old| old.name == field.name) {
            Some(at) => {
                if at < place {
                    return Err(Error::unsupported(format!(
                        "the fields in column {} cannot change their order",
                        path.join(".")
                    )));
                }
                place = at;
                collect(&below(&field.name), &old[at].data_type, &field.data_type, changes)?;
                if field.description.is_some() && field.description != old[at].description {
                    changes.push(SchemaChange::UpdateColumnComment {
                        path: below(&field.name),
                        comment: field.description.clone(),
                    });
                }
            }
            None => changes.push(SchemaChange::AddColumn {
                path: below(&field.name),
                data_type: field.data_type.clone(),
                comment: field.description.clone(),
                default: None,
                position: Some(last.map_or(ColumnPosition::First, |last| ColumnPosition::After(last.to_owned()))),
            }),
        }
        last = Some(&field.name);
    }
    for gone in old.iter().filter(|field| new.iter().all(|kept| kept.name != field.name)) {
        changes.push(SchemaChange::DropColumn { path: below(&gone.name) });
    }
    Ok(())
}

/// Whether two types are the same but for the ids of their fields.
fn same_shape(one: &DataType, other: &DataType) -> bool {
    one.to_string() == other.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{tokens, types};

    fn told(old: &str, new: &str) -> Result<String> {
        let read = |text: &str| types::parse(&tokens::tokenize(text)?).map(|(data_type, _)| data_type);
        let told = changes(&["c".to_owned()], &read(old)?, &read(new)?)?.into_iter().map(|change| match change {
            SchemaChange::AddColumn { path, data_type, position, .. } => {
                format!("+{} {data_type} {position:?}", path.join("."))
            }
            SchemaChange::DropColumn { path } => format!("-{}", path.join(".")),
            SchemaChange::UpdateColumnType { path, data_type, .. } => format!("{} {data_type}", path.join(".")),
            SchemaChange::UpdateColumnNullability { path, nullable } => format!("{} null {nullable}", path.join(".")),
            other => format!("{other:?}"),
        });
        Ok(told.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn changes_when_a_nested_type_is_written_anew_then_only_its_parts_change() {
        for (old, new, expected) in [
            ("INT", "INT", ""),
            ("INT", "BIGINT NOT NULL", "c BIGINT NOT NULL; c null false"),
            ("ROW<a INT, b STRING>", "ROW<a BIGINT, b STRING>", "c.a BIGINT"),
            (
                "ROW<a INT, b STRING>",
                "ROW<x INT, b STRING, y DATE>",
                "+c.x INT Some(First); +c.y DATE Some(After(\"b\")); -c.a",
            ),
            ("ARRAY<ROW<a INT>>", "ARRAY<ROW<a INT, b INT>>", "+c.element.b INT Some(After(\"a\"))"),
            ("MAP<STRING, ROW<a INT>>", "MAP<STRING, ROW<a INT NOT NULL>>", "c.value.a null false"),
            ("ARRAY<INT>", "STRING", "c STRING"),
            ("MULTISET<INT>", "MULTISET<INT>", ""),
        ] {
            assert_eq!(told(old, new).unwrap(), expected, "{old} to {new}");
        }
        for (old, new) in [("MAP<INT, INT>", "MAP<BIGINT, INT>"), ("ROW<a INT, b INT>", "ROW<b INT, a INT>")] {
            assert!(told(old, new).is_err(), "{old} to {new}");
        }
    }
}
