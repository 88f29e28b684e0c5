//! The answers of SHOW and DESCRIBE as batches, with the columns that Flink gives them. Imports `error` and `spec`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray, new_null_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::Constraint;

use super::provider::LakeTable;
use super::types;
use crate::error::Result;
use crate::spec::TableSchema;
use crate::spec::types::DataType as SpecType;
use crate::table::Table;

/// One column of names.
pub(crate) fn names(title: &str, names: impl IntoIterator<Item = String>) -> Result<RecordBatch> {
    let schema = Arc::new(Schema::new(vec![Field::new(title, DataType::Utf8, false)]));
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    Ok(RecordBatch::try_new(schema, vec![names])?)
}

/// What DESCRIBE says of one column.
#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: String,
    data_type: String,
    nullable: bool,
    key: Option<String>,
    comment: Option<String>,
}

/// Two columns of text.
pub(crate) fn pairs(titles: (&str, &str), rows: Vec<(String, String)>) -> Result<RecordBatch> {
    let text = |title: &str| Field::new(title, DataType::Utf8, false);
    let schema = Arc::new(Schema::new(vec![text(titles.0), text(titles.1)]));
    let (left, right): (Vec<String>, Vec<String>) = rows.into_iter().unzip();
    Ok(RecordBatch::try_new(schema, vec![Arc::new(StringArray::from(left)), Arc::new(StringArray::from(right))])?)
}

/// DESCRIBE of the columns of a table that are asked for. Of a lake's own table the types are as they were declared, with
/// comments.
pub(crate) fn of_provider(provider: &dyn TableProvider, asked: impl Fn(&str) -> bool) -> Result<RecordBatch> {
    let mut columns = match provider.downcast_ref::<LakeTable>() {
        // With its row ids a table has columns that the schema does not know, and `$ro` has no key.
        Some(lake)
            if provider.schema().fields().len() == lake.table().schema().fields.len() && !lake.is_read_optimized() =>
        {
            of_schema(lake.table().schema())
        }
        _ => columns(provider),
    };
    columns.retain(|column| asked(&column.name));
    batch(&columns)
}

/// What DESCRIBE EXTENDED says of a table beside its columns.
pub(crate) fn extended(table: &Table) -> Vec<(String, String)> {
    let schema = table.schema();
    let identifier = table.identifier();
    let list = |names: &[String]| names.join(", ");
    let mut rows = vec![
        ("Database", identifier.database.clone()),
        ("Table", identifier.table.clone()),
        ("Location", table.files().root().as_str().to_owned()),
        ("Schema", schema.id.to_string()),
        ("Partition columns", list(&schema.partition_keys)),
        ("Primary key", list(&schema.primary_keys)),
        ("Comment", schema.comment.clone().unwrap_or_default()),
    ];
    rows.retain(|(_, value)| !value.is_empty());
    let options = schema.options.iter().map(|(key, value)| (format!("Option {key}"), value.clone()));
    rows.into_iter().map(|(title, value)| (title.to_owned(), value)).chain(options).collect()
}

/// DESCRIBE's rows with further ones behind them, which say `name` and `type` alone.
pub(crate) fn with_extras(columns: &RecordBatch, extras: Vec<(String, String)>) -> Result<RecordBatch> {
    let heading = [(String::new(), String::new()), ("# Table".to_owned(), String::new())];
    let (names, values): (Vec<String>, Vec<String>) = heading.into_iter().chain(extras).unzip();
    let fields: Vec<_> =
        columns.schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let arrays = columns.columns().iter().enumerate().map(|(i, column)| {
        let below: ArrayRef = match i {
            0 => Arc::new(StringArray::from(names.clone())),
            1 => Arc::new(StringArray::from(values.clone())),
            _ => new_null_array(column.data_type(), names.len()),
        };
        Ok(concat(&[column.as_ref(), below.as_ref()])?)
    });
    let arrays = arrays.collect::<Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

/// The columns of a schema.
fn of_schema(schema: &TableSchema) -> Vec<Column> {
    let key = (!schema.primary_keys.is_empty()).then(|| format!("PRI({})", schema.primary_keys.join(", ")));
    schema
        .fields
        .iter()
        .map(|field| Column {
            name: field.name.clone(),
            data_type: SpecType::nullable(field.data_type.kind.clone()).to_string(),
            nullable: field.data_type.nullable,
            key: if schema.primary_keys.contains(&field.name) { key.clone() } else { None },
            comment: field.description.clone(),
        })
        .collect()
}

/// `name, type, null, key, extras, watermark`, and `comment` when a column has one.
fn batch(columns: &[Column]) -> Result<RecordBatch> {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let mut fields = vec![
        text("name", false),
        text("type", false),
        Field::new("null", DataType::Boolean, false),
        text("key", true),
        text("extras", true),
        text("watermark", true),
    ];
    let nothing: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; columns.len()]));
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(columns.iter().map(|column| &column.name))),
        Arc::new(StringArray::from_iter_values(columns.iter().map(|column| &column.data_type))),
        Arc::new(BooleanArray::from_iter(columns.iter().map(|column| Some(column.nullable)))),
        Arc::new(StringArray::from_iter(columns.iter().map(|column| column.key.as_deref()))),
        Arc::clone(&nothing),
        nothing,
    ];
    if columns.iter().any(|column| column.comment.is_some()) {
        fields.push(text("comment", true));
        arrays.push(Arc::new(StringArray::from_iter(columns.iter().map(|column| column.comment.as_deref()))));
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn columns(provider: &dyn TableProvider) -> Vec<Column> {
    let schema = provider.schema();
    let keys = provider.constraints().and_then(|constraints| {
        constraints.iter().find_map(|constraint| match constraint {
            Constraint::PrimaryKey(columns) => Some(columns.clone()),
            Constraint::Unique(_) => None,
        })
    });
    let key_names = keys.as_ref().map(|keys| {
        keys.iter()
            .filter_map(|key| schema.fields().get(*key))
            .map(|field| field.name().clone())
            .collect::<Vec<_>>()
            .join(", ")
    });
    schema
        .fields()
        .iter()
        .enumerate()
        .map(|(i, field)| Column {
            name: field.name().clone(),
            data_type: type_text(field.data_type()),
            nullable: field.is_nullable(),
            key: keys
                .as_ref()
                .filter(|keys| keys.contains(&i))
                .and(key_names.as_ref())
                .map(|names| format!("PRI({names})")),
            comment: None,
        })
        .collect()
}

/// The Flink type that reads as `data_type`; the arrow type's name where there is none.
fn type_text(data_type: &DataType) -> String {
    types::from_arrow(data_type, true).map_or_else(|_| data_type.to_string(), |known| known.to_string())
}

#[cfg(test)]
mod tests {
    use datafusion::datasource::MemTable;

    use super::*;

    #[test]
    fn of_provider_when_no_column_has_a_comment_then_there_is_no_comment_column() {
        let item = Field::new("item", DataType::Int32, false);
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("tags", DataType::List(Arc::new(item)), true),
        ]));
        let table = MemTable::try_new(schema, vec![vec![]]).unwrap();
        let batch = of_provider(&table, |_| true).unwrap();
        let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["name", "type", "null", "key", "extras", "watermark"]);
        let types = batch.column(1).as_any().downcast_ref::<StringArray>().unwrap();
        assert_eq!(types.iter().flatten().collect::<Vec<_>>(), ["BIGINT", "ARRAY<INT NOT NULL>"]);
    }

    #[test]
    fn of_schema_when_columns_have_keys_and_comments_then_they_are_shown() {
        let json = br#"{"version": 3, "id": 0, "fields": [
            {"id": 0, "name": "id", "type": "INT NOT NULL"},
            {"id": 1, "name": "d", "type": {"type": "ARRAY", "element": "CHAR(3) NOT NULL"}, "description": "some \"text\""}
        ], "highestFieldId": 1, "partitionKeys": [], "primaryKeys": ["id"], "options": {}, "timeMillis": 0}"#;
        let batch = batch(&of_schema(&TableSchema::from_json(json).unwrap())).unwrap();
        let text = arrow::util::pretty::pretty_format_batches(&[batch]).unwrap().to_string();
        let cells =
            |line: &str| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|");
        let lines: Vec<String> = text.lines().filter(|line| line.starts_with('|')).map(cells).collect();
        assert_eq!(lines[1], "id|INT|false|PRI(id)");
        assert_eq!(lines[2], "d|ARRAY<CHAR(3) NOT NULL>|true|some \"text\"");
    }
}
