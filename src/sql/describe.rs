//! The answers of SHOW and DESCRIBE as batches, with the columns that Flink gives them. Imports `error` and `spec`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::Constraint;

use crate::error::Result;
use crate::spec::TableSchema;
use crate::spec::types::DataType as SpecType;

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

/// DESCRIBE of a table.
pub(crate) fn table(provider: &dyn TableProvider) -> Result<RecordBatch> {
    batch(&columns(provider))
}

/// DESCRIBE of a table whose schema is known: with the types as they were declared, and comments.
#[cfg_attr(not(test), expect(dead_code, reason = "asked for by tables that know their schema"))]
pub(crate) fn schema(schema: &TableSchema) -> Result<RecordBatch> {
    let key = (!schema.primary_keys.is_empty()).then(|| format!("PRI({})", schema.primary_keys.join(", ")));
    let columns: Vec<Column> = schema
        .fields
        .iter()
        .map(|field| Column {
            name: field.name.clone(),
            data_type: SpecType::nullable(field.data_type.kind.clone()).to_string(),
            nullable: field.data_type.nullable,
            key: if schema.primary_keys.contains(&field.name) { key.clone() } else { None },
            comment: field.description.clone(),
        })
        .collect();
    batch(&columns)
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
    let precision = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let nested = |field: &Field| {
        format!("{}{}", type_text(field.data_type()), if field.is_nullable() { "" } else { " NOT NULL" })
    };
    match data_type {
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INT".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "FLOAT".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "STRING".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTES".to_owned(),
        DataType::FixedSizeBinary(size) => format!("BINARY({size})"),
        DataType::Date32 => "DATE".to_owned(),
        DataType::Time32(unit) | DataType::Time64(unit) => format!("TIME({})", precision(unit)),
        DataType::Timestamp(unit, None) => format!("TIMESTAMP({})", precision(unit)),
        DataType::Timestamp(unit, Some(_)) => format!("TIMESTAMP({}) WITH LOCAL TIME ZONE", precision(unit)),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        DataType::List(element) | DataType::LargeList(element) => format!("ARRAY<{}>", nested(element)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                format!("MAP<{}, {}>", nested(&fields[0]), nested(&fields[1]))
            }
            other => other.to_string(),
        },
        DataType::Struct(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|field| format!("`{}` {}", field.name(), nested(field))).collect();
            format!("ROW<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::datasource::MemTable;

    use super::*;

    #[test]
    fn table_when_no_column_has_a_comment_then_there_is_no_comment_column() {
        let item = Field::new("item", DataType::Int32, false);
        let schema = Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("tags", DataType::List(Arc::new(item)), true),
        ]));
        let table = MemTable::try_new(schema, vec![vec![]]).unwrap();
        let batch = super::table(&table).unwrap();
        let names: Vec<String> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["name", "type", "null", "key", "extras", "watermark"]);
        let types = batch.column(1).as_any().downcast_ref::<StringArray>().unwrap();
        assert_eq!(types.iter().flatten().collect::<Vec<_>>(), ["BIGINT", "ARRAY<INT NOT NULL>"]);
    }

    #[test]
    fn schema_when_columns_have_keys_and_comments_then_they_are_shown() {
        let json = br#"{"version": 3, "id": 0, "fields": [
            {"id": 0, "name": "id", "type": "INT NOT NULL"},
            {"id": 1, "name": "d", "type": {"type": "ARRAY", "element": "CHAR(3) NOT NULL"}, "description": "some \"text\""}
        ], "highestFieldId": 1, "partitionKeys": [], "primaryKeys": ["id"], "options": {}, "timeMillis": 0}"#;
        let batch = super::schema(&TableSchema::from_json(json).unwrap()).unwrap();
        let text = arrow::util::pretty::pretty_format_batches(&[batch]).unwrap().to_string();
        let cells =
            |line: &str| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect::<Vec<_>>().join("|");
        let lines: Vec<String> = text.lines().filter(|line| line.starts_with('|')).map(cells).collect();
        assert_eq!(lines[1], "id|INT|false|PRI(id)");
        assert_eq!(lines[2], "d|ARRAY<CHAR(3) NOT NULL>|true|some \"text\"");
    }
}
