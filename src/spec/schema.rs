//! Schema files (`spec/metadata.md 2.1`): `schema/schema-<id>`, one immutable JSON document a version.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::types::DataField;
use crate::error::{Error, Result};

/// One version of a table's schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// Version of the document: 1 up to 0.7, 2 for 0.8, 3 since 0.9.
    pub version: i32,
    /// Id of the schema, the suffix of its file.
    pub id: i64,
    /// Columns in order.
    pub fields: Vec<DataField>,
    /// The greatest field id ever given, dropped and nested fields included; -1 when there is none.
    pub highest_field_id: i32,
    /// Partition columns in order.
    pub partition_keys: Vec<String>,
    /// Primary key columns in order, partition columns among them where the key names them. Empty for an append table.
    pub primary_keys: Vec<String>,
    /// Options, with the defaults that old documents imply filled in.
    pub options: BTreeMap<String, String>,
    /// Comment.
    pub comment: Option<String>,
    /// When the document was written, epoch milliseconds; 0 when unknown.
    pub time_millis: i64,
}

/// The version that this crate writes.
pub const SCHEMA_VERSION: i32 = 3;

impl TableSchema {
    /// Reads a schema document.
    ///
    /// # Errors
    /// Corrupt when the document is not what `spec/metadata.md 2.1` says, unsupported for an unknown data type.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt("the schema is not valid JSON").with_source(error))?;
        let object = value.as_object().ok_or_else(|| Error::corrupt("the schema is not a JSON object"))?;
        let version = object.get("version").and_then(Value::as_i64).unwrap_or(1) as i32;
        if !(1..=SCHEMA_VERSION).contains(&version) {
            return Err(Error::unsupported(format!("schema version {version} is newer than {SCHEMA_VERSION}")));
        }
        let id = object
            .get("id")
            .and_then(Value::as_i64)
            .ok_or_else(|| Error::corrupt("the schema has no id"))?;
        let json_fields = object
            .get("fields")
            .and_then(Value::as_array)
            .ok_or_else(|| Error::corrupt("the schema has no list of fields"))?;
        let mut next_id = 0;
        let mut fields = Vec::with_capacity(json_fields.len());
        for field in json_fields {
            fields.push(DataField::from_json(field, &mut next_id)?);
        }
        let partition_keys = names(object, "partitionKeys")?;
        let primary_keys = names(object, "primaryKeys")?;
        let mut options = BTreeMap::new();
        if let Some(json_options) = object.get("options").and_then(Value::as_object) {
            for (key, value) in json_options {
                let value = match value {
                    Value::String(text) => text.clone(),
                    Value::Null => continue,
                    other => other.to_string(),
                };
                options.insert(key.clone(), value);
            }
        }
        if version <= 1 {
            options.entry("bucket".to_owned()).or_insert_with(|| "1".to_owned());
        }
        if version <= 2 {
            options.entry("file.format".to_owned()).or_insert_with(|| "orc".to_owned());
        }
        let schema = Self {
            version,
            id,
            highest_field_id: object.get("highestFieldId").and_then(Value::as_i64).unwrap_or(-1) as i32,
            fields,
            partition_keys,
            primary_keys,
            options,
            comment: object.get("comment").and_then(Value::as_str).map(str::to_owned),
            time_millis: object.get("timeMillis").and_then(Value::as_i64).unwrap_or(0),
        };
        schema.check_names()?;
        Ok(schema)
    }

    /// The schema document, as Java writes it but for white space.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("version".to_owned(), json!(self.version));
        object.insert("id".to_owned(), json!(self.id));
        object.insert("fields".to_owned(), self.fields.iter().map(DataField::to_json).collect());
        object.insert("highestFieldId".to_owned(), json!(self.highest_field_id));
        object.insert("partitionKeys".to_owned(), json!(self.partition_keys));
        object.insert("primaryKeys".to_owned(), json!(self.primary_keys));
        object.insert("options".to_owned(), json!(self.options));
        if let Some(comment) = &self.comment {
            object.insert("comment".to_owned(), json!(comment));
        }
        object.insert("timeMillis".to_owned(), json!(self.time_millis));
        Value::Object(object)
    }

    /// The position of the column called `name`.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// The column called `name`.
    pub fn field(&self, name: &str) -> Option<&DataField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Whether the table has a primary key.
    pub fn has_primary_key(&self) -> bool {
        !self.primary_keys.is_empty()
    }

    /// Primary key columns that are not partition columns, in key order: what files are sorted by (`spec/data.md 1.1`).
    pub fn trimmed_primary_keys(&self) -> Vec<&DataField> {
        self.primary_keys
            .iter()
            .filter(|key| !self.partition_keys.contains(key))
            .filter_map(|key| self.field(key))
            .collect()
    }

    /// Partition columns in partition order.
    pub fn partition_fields(&self) -> Vec<&DataField> {
        self.partition_keys.iter().filter_map(|key| self.field(key)).collect()
    }

    /// Columns that decide the bucket, in order: option `bucket-key`, else the trimmed primary key (`spec/data.md 3.3`).
    pub fn bucket_key_fields(&self) -> Vec<&DataField> {
        match self.options.get("bucket-key") {
            Some(keys) if !keys.trim().is_empty() => {
                keys.split(',').filter_map(|key| self.field(key.trim())).collect()
            }
            _ => self.trimmed_primary_keys(),
        }
    }

    fn check_names(&self) -> Result<()> {
        for (what, names) in [("partition", &self.partition_keys), ("primary key", &self.primary_keys)] {
            if let Some(missing) = names.iter().find(|name| self.field(name).is_none()) {
                return Err(Error::corrupt(format!("the {what} column {missing} is not a column of the schema")));
            }
        }
        for (i, field) in self.fields.iter().enumerate() {
            if self.fields[..i].iter().any(|other| other.name == field.name) {
                return Err(Error::corrupt(format!("the column {} stands twice in the schema", field.name)));
            }
        }
        Ok(())
    }
}

fn names(object: &Map<String, Value>, key: &str) -> Result<Vec<String>> {
    let Some(value) = object.get(key) else { return Ok(Vec::new()) };
    let bad = || Error::corrupt(format!("{key} of the schema is not a list of names: {value}"));
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(bad)).collect()
        }
        _ => Err(bad()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_json_when_old_document_then_defaults_of_its_time() {
        let schema = TableSchema::from_json(
            br#"{"id":0,"fields":[{"id":0,"name":"a","type":"INT"}],"highestFieldId":0,"partitionKeys":[],
                "primaryKeys":[],"options":{}}"#,
        )
        .unwrap();
        assert_eq!(schema.options["bucket"], "1");
        assert_eq!(schema.options["file.format"], "orc");
    }

    #[test]
    fn from_json_when_key_is_no_column_then_error() {
        let error = TableSchema::from_json(
            br#"{"version":3,"id":0,"fields":[{"id":0,"name":"a","type":"INT"}],"highestFieldId":0,
                "partitionKeys":["p"],"primaryKeys":[],"options":{}}"#,
        )
        .unwrap_err();
        assert!(error.to_string().contains("column p"), "{error}");
    }
}
