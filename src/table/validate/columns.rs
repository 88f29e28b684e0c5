//! Rules of columns: names, types, defaults, BLOBs, and those of key and partition columns.

use std::collections::{HashMap, HashSet};

use super::{Breaches, Subject};
use crate::error::{Error, Result};
use crate::spec::literal::check_text;
use crate::spec::types::{KEY_PREFIX, MAX_DEPTH, ROW_ID, SEQUENCE_NUMBER, SYSTEM_FIELD_ID_START, TypeKind, VALUE_KIND};
use crate::spec::{DataField, DataType, TableSchema};
use crate::table::field_ids::ids;

/// Names of the columns that files and system tables have beside a table's own.
const RESERVED: [&str; 5] = [SEQUENCE_NUMBER, VALUE_KIND, "_LEVEL", "rowkind", ROW_ID];

pub(super) fn check(schema: &TableSchema, found: &mut Breaches) {
    if schema.fields.is_empty() {
        found.invalid("a table needs at least one column");
    }
    check_siblings(&schema.fields, "", found);
    for field in &schema.fields {
        if let Err(error) = check_depth(field) {
            found.0.push(error);
            continue;
        }
        found.take(check_name(&field.name));
        check_type(&field.name, &field.data_type, found);
        check_default(&field.name, field, found);
    }
    check_ids(schema, found);
    check_key("primary key", &schema.primary_keys, schema, found);
    check_key("partition", &schema.partition_keys, schema, found);
    let only_partitions =
        schema.has_primary_key() && schema.primary_keys.iter().all(|key| schema.partition_keys.contains(key));
    if only_partitions {
        found.invalid(format!(
            "the primary key ({}) holds nothing but partition columns, so that a partition could have one row only; add a column \
             to the key or drop the partitioning",
            schema.primary_keys.join(", ")
        ));
    }
}

pub(super) fn check_with_options(subject: &Subject<'_>, found: &mut Breaches) {
    let schema = subject.schema;
    if subject.flag("primary-key.nullable") && !schema.has_primary_key() {
        found.invalid("option primary-key.nullable needs a primary key");
    }
    let is_blob = |field: &&DataField| matches!(field.data_type.kind, TypeKind::Blob);
    let blobs: Vec<&DataField> = schema.fields.iter().filter(is_blob).collect();
    let Some(first) = blobs.first() else { return };
    if !subject.options.data_evolution {
        found.invalid(format!(
            "column {} is a BLOB, which lies in files of its own; set 'row-tracking.enabled' = 'true' and \
             'data-evolution.enabled' = 'true', or use BYTES",
            first.name
        ));
    }
    if blobs.len() == schema.fields.len() {
        found.invalid("a table with BLOB columns needs a column of another type");
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.trim().is_empty() {
        return Err(Error::invalid(format!("{name:?} can't be the name of a column: it is blank")));
    }
    if RESERVED.contains(&name) || name.starts_with(KEY_PREFIX) {
        return Err(Error::invalid(format!(
            "{name} can't be the name of a column: the format uses it for itself; choose another name"
        )));
    }
    Ok(())
}

/// Names of one level: as engines that do not mind case would read them, each stands for one column.
fn check_siblings(fields: &[DataField], path: &str, found: &mut Breaches) {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for field in fields {
        match seen.insert(field.name.to_lowercase(), &field.name) {
            Some(other) if *other == field.name => {
                found.invalid(format!("column {path}{} stands twice in the table", field.name));
            }
            Some(other) => found.invalid(format!(
                "the columns {path}{other} and {path}{} differ only in case, which most engines do not tell apart; rename one",
                field.name
            )),
            None => {}
        }
    }
}

/// Refuses a type that is nested deeper than a schema file is read.
///
/// # Errors
/// Invalid, with the column.
pub(crate) fn check_depth(field: &DataField) -> Result<()> {
    fn fits(data_type: &DataType, left: usize) -> bool {
        let Some(left) = left.checked_sub(1) else { return false };
        match &data_type.kind {
            TypeKind::Array(inner) | TypeKind::Multiset(inner) | TypeKind::Vector(inner, _) => fits(inner, left),
            TypeKind::Map(key, value) => fits(key, left) && fits(value, left),
            TypeKind::Row(fields) => fields.iter().all(|field| fits(&field.data_type, left)),
            _ => true,
        }
    }
    if fits(&field.data_type, MAX_DEPTH) {
        return Ok(());
    }
    Err(Error::invalid(format!("the type of column {} is nested deeper than {MAX_DEPTH} levels", field.name)))
}

fn check_type(path: &str, data_type: &DataType, found: &mut Breaches) {
    // Ranges that the texts of types can't leave, but types made by a program can.
    let in_range = match &data_type.kind {
        TypeKind::Decimal(precision, scale) => (1..=38).contains(precision) && scale <= precision,
        TypeKind::Char(length)
        | TypeKind::VarChar(length)
        | TypeKind::Binary(length)
        | TypeKind::VarBinary(length)
        | TypeKind::Vector(_, length) => i32::try_from(*length).is_ok_and(|length| length > 0),
        TypeKind::Time(precision) | TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision) => {
            *precision <= 9
        }
        _ => true,
    };
    if !in_range {
        found.invalid(format!("column {path}: {data_type} is not a type of the format (`spec/metadata.md 2.3`)"));
    }
    match &data_type.kind {
        TypeKind::Row(fields) => {
            if fields.is_empty() {
                found.invalid(format!("column {path} is a ROW without fields, which no file can hold"));
            }
            let inner = format!("{path}.");
            check_siblings(fields, &inner, found);
            for field in fields {
                let path = format!("{inner}{}", field.name);
                if field.name.trim().is_empty() {
                    found.invalid(format!("column {path}: the name of a field is blank"));
                }
                check_inside(&path, &field.data_type, found);
                check_default(&path, field, found);
            }
        }
        TypeKind::Array(inner) | TypeKind::Multiset(inner) => check_inside(&format!("{path}.element"), inner, found),
        TypeKind::Map(key, value) => {
            check_inside(&format!("{path}.key"), key, found);
            check_inside(&format!("{path}.value"), value, found);
        }
        TypeKind::Vector(inner, _) => {
            use TypeKind as K;
            let element = &inner.kind;
            if !matches!(element, K::Boolean | K::TinyInt | K::SmallInt | K::Int | K::BigInt | K::Float | K::Double) {
                found.invalid(format!("column {path}: a VECTOR holds numbers or booleans, not {inner}"));
            }
        }
        _ => {}
    }
}

fn check_inside(path: &str, data_type: &DataType, found: &mut Breaches) {
    if matches!(data_type.kind, TypeKind::Blob) {
        found.invalid(format!("{path} is a BLOB inside another type; BLOBs are columns of their own"));
    }
    check_type(path, data_type, found);
}

fn check_default(path: &str, field: &DataField, found: &mut Breaches) {
    if let Some(default) = &field.default_value
        && let Err(error) = check_text(default, &field.data_type)
    {
        found.0.push(Error::new(error.kind(), format!("the default value of column {path}: {}", error.message())));
    }
}

fn check_ids(schema: &TableSchema, found: &mut Breaches) {
    let mut seen = HashSet::new();
    for id in ids(&schema.fields) {
        if !seen.insert(id) {
            found.invalid(format!("the schema is broken: two fields have id {id}"));
        }
        if !(0..SYSTEM_FIELD_ID_START).contains(&id) || id > schema.highest_field_id {
            found.invalid(format!(
                "the schema is broken: a field has id {id}, and the greatest given is {}",
                schema.highest_field_id
            ));
        }
    }
}

fn check_key(what: &str, names: &[String], schema: &TableSchema, found: &mut Breaches) {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            found.invalid(format!("the {what} names column {name} twice"));
            continue;
        }
        let Some(field) = schema.field(name) else {
            let columns: Vec<&str> = schema.fields.iter().map(|field| field.name.as_str()).collect();
            found.invalid(format!(
                "the {what} names column {name}, which the table does not have; its columns are {}",
                columns.join(", ")
            ));
            continue;
        };
        if !can_be_key(&field.data_type.kind) {
            found.invalid(format!(
                "column {name} of the {what} is {}; such values have no order and can't tell rows apart",
                field.data_type
            ));
        }
    }
}

fn can_be_key(kind: &TypeKind) -> bool {
    use TypeKind as K;
    !matches!(
        kind,
        K::Array(_)
            | K::Map(..)
            | K::Row(_)
            | K::Multiset(_)
            | K::Vector(..)
            | K::Variant
            | K::Blob
            | K::Geometry(_)
            | K::Geography(_)
    )
}

/// Whether values of a type can be put in order, as sequence columns must.
pub(super) fn is_ordered(kind: &TypeKind) -> bool {
    can_be_key(kind)
}
