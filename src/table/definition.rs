//! The first schema of a table, from what a statement asks for (`spec/metadata.md 2.1-2.4`).
//!
//! ```text
//! NewTable + the catalog's `table-default.*`
//!   -> options: known, of the right form, `primary-key` and `partition` moved to their lists
//!   -> columns: ids, keys without NULL, BYTES named by `blob-field` as BLOB
//!   -> TableSchema 0, which passes every rule of `validate`
//! ```
//!
//! May import: `error`, `options`, `spec`, `table::{change, field_ids, validate}`.

use std::collections::BTreeMap;

use super::change::NewTable;
use super::field_ids::FieldIds;
use super::validate;
use crate::error::{Error, Result};
use crate::options::{check_known, lookup};
use crate::spec::schema::SCHEMA_VERSION;
use crate::spec::types::{MAX_LENGTH, TypeKind};
use crate::spec::{DataField, TableSchema};

/// Options that become lists of the schema.
const PRIMARY_KEY: &str = "primary-key";
const PARTITION: &str = "partition";

impl NewTable {
    /// Schema 0 of the table. `defaults` are options that hold where the table does not set them (the catalog's
    /// `table-default.<option>`), `time_millis` is the time of creation in epoch milliseconds.
    ///
    /// # Errors
    /// Invalid or unsupported, with the column or option and the remedy, for an option that is not known, a column or an
    /// option that breaks a rule (`spec/metadata.md 2.8`), and for what this version does not have.
    pub fn into_schema(mut self, defaults: &BTreeMap<String, String>, time_millis: i64) -> Result<TableSchema> {
        check_known(&self.options)?;
        add_defaults(&mut self.options, defaults);
        validate::check_settable(&self.options)?;
        self.primary_keys = take_list(&mut self.options, PRIMARY_KEY, self.primary_keys)?;
        self.partition_keys = take_list(&mut self.options, PARTITION, self.partition_keys)?;
        // What ids are given to must not be nested without end.
        self.fields.iter().try_for_each(validate::check_depth)?;
        let blobs = names(self.options.get("blob-field"));
        let mut ids = FieldIds::after(-1);
        let mut fields = Vec::with_capacity(self.fields.len());
        for field in self.fields {
            fields.push(ids.column(as_blob(field, &blobs)?)?);
        }
        let mut schema = TableSchema {
            version: SCHEMA_VERSION,
            id: 0,
            fields,
            highest_field_id: ids.highest(),
            partition_keys: self.partition_keys,
            primary_keys: self.primary_keys,
            options: self.options,
            // Engines write an empty one where there is none.
            comment: Some(self.comment.unwrap_or_default()),
            time_millis,
        };
        set_key_nullability(&mut schema);
        validate::check(&schema)?;
        Ok(schema)
    }
}

/// Makes key columns NOT NULL, or nullable with option `primary-key.nullable` (`spec/metadata.md 2.4`).
fn set_key_nullability(schema: &mut TableSchema) {
    let nullable = schema.options.get("primary-key.nullable").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    for field in &mut schema.fields {
        if schema.primary_keys.contains(&field.name) {
            field.data_type.nullable = nullable;
        }
    }
}

/// Adds what the table does not set, under whatever spelling it does.
fn add_defaults(options: &mut BTreeMap<String, String>, defaults: &BTreeMap<String, String>) {
    fn canonical(key: &str) -> &str {
        lookup(key).map_or(key, |found| found.key)
    }
    for (key, value) in defaults {
        if !options.keys().any(|set| canonical(set) == canonical(key)) {
            options.insert(key.clone(), value.clone());
        }
    }
}

/// The list that a statement says, or that an option says in its place.
fn take_list(options: &mut BTreeMap<String, String>, key: &str, said: Vec<String>) -> Result<Vec<String>> {
    let Some(value) = options.remove(key) else { return Ok(said) };
    let listed = names(Some(&value));
    if said.is_empty() {
        return Ok(listed);
    }
    Err(Error::invalid(format!(
        "option {key} = '{value}' says again what the statement says ({}); leave one of them out",
        said.join(", ")
    )))
}

fn names(list: Option<&String>) -> Vec<String> {
    list.map_or_else(Vec::new, |list| {
        list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    })
}

/// A BYTES column that option `blob-field` names is a BLOB: dialects without that type say so in this way.
fn as_blob(mut field: DataField, blobs: &[String]) -> Result<DataField> {
    if !blobs.contains(&field.name) {
        return Ok(field);
    }
    match field.data_type.kind {
        TypeKind::VarBinary(MAX_LENGTH) => field.data_type.kind = TypeKind::Blob,
        TypeKind::Blob => {}
        _ => {
            return Err(Error::invalid(format!(
                "option blob-field names column {}, which is {}; only a BYTES column can be stored as BLOB",
                field.name, field.data_type
            )));
        }
    }
    Ok(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::spec::DataType;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn table(columns: &[(&str, &str)], options: &[(&str, &str)]) -> NewTable {
        NewTable {
            fields: columns
                .iter()
                .map(|(name, text)| DataField::new(0, *name, DataType::parse(text).unwrap()))
                .collect(),
            options: map(options),
            ..NewTable::default()
        }
    }

    #[test]
    fn into_schema_when_keys_stand_in_options_then_moved_to_their_lists() {
        let new = table(
            &[("id", "INT"), ("dt", "STRING"), ("v", "INT")],
            &[("primary-key", "dt, id"), ("partition", "dt"), ("bucket", "2")],
        );
        let schema = new.clone().into_schema(&map(&[]), 5).unwrap();
        assert_eq!((schema.version, schema.id, schema.time_millis, schema.highest_field_id), (3, 0, 5, 2));
        assert_eq!(schema.primary_keys, ["dt", "id"]);
        assert_eq!(schema.partition_keys, ["dt"]);
        assert_eq!(schema.options, map(&[("bucket", "2")]));
        let nullable: Vec<_> = schema.fields.iter().map(|field| field.data_type.nullable).collect();
        assert_eq!(nullable, [false, false, true]);

        let twice = NewTable { primary_keys: vec!["id".to_owned()], ..new };
        let error = twice.into_schema(&map(&[]), 5).unwrap_err();
        assert!(error.to_string().contains("primary-key = 'dt, id'"), "{error}");
    }

    #[test]
    fn into_schema_when_key_may_be_null_then_nullable_columns() {
        let options = [("primary-key", "id"), ("primary-key.nullable", "true"), ("bucket", "1")];
        let schema = table(&[("id", "INT NOT NULL")], &options).into_schema(&map(&[]), 0).unwrap();
        assert!(schema.fields[0].data_type.nullable);
    }

    #[test]
    fn into_schema_when_catalog_has_defaults_then_added_where_unset() {
        let defaults = map(&[("file.format", "orc"), ("write-only", "true"), ("bucket", "4")]);
        let new = table(&[("id", "INT")], &[("write.compaction-skip", "false"), ("bucket", "-1")]);
        let schema = new.into_schema(&defaults, 0).unwrap();
        let expected = map(&[("bucket", "-1"), ("file.format", "orc"), ("write.compaction-skip", "false")]);
        assert_eq!(schema.options, expected);
    }

    #[test]
    fn into_schema_when_option_is_unknown_then_nearest_is_named() {
        let error = table(&[("id", "INT")], &[("bukcet", "1")]).into_schema(&map(&[]), 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), "unknown option bukcet; did you mean bucket?");
    }

    #[test]
    fn into_schema_when_bytes_are_blobs_then_blob_type() {
        let options = [("blob-field", "b"), ("row-tracking.enabled", "true"), ("data-evolution.enabled", "true")];
        let schema = table(&[("id", "INT"), ("b", "BYTES")], &options).into_schema(&map(&[]), 0).unwrap();
        assert_eq!(schema.fields[1].data_type.kind, TypeKind::Blob);
        let error = table(&[("id", "INT"), ("b", "STRING")], &options).into_schema(&map(&[]), 0).unwrap_err();
        assert!(error.to_string().contains("column b, which is STRING"), "{error}");
    }

    #[test]
    fn into_schema_when_nested_without_end_then_refused() {
        let mut data_type = DataType::nullable(TypeKind::Int);
        for _ in 0..100 {
            data_type = DataType::nullable(TypeKind::Array(Box::new(data_type)));
        }
        let new = NewTable { fields: vec![DataField::new(0, "a", data_type)], ..NewTable::default() };
        let error = new.into_schema(&map(&[]), 0).unwrap_err();
        assert!(error.to_string().contains("column a"), "{error}");
    }
}
