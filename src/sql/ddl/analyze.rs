//! Runs `ANALYZE TABLE .. COMPUTE STATISTICS`: one pass over the rows, committed as a document beside the latest snapshot
//! (`spec/metadata.md 9.5`).

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::functions::expr_fn::{character_length, octet_length};
use datafusion::functions_aggregate::expr_fn::{avg, count, count_distinct, max, min};
use datafusion::logical_expr::{Expr, ident, lit};
use datafusion::prelude::DataFrame;
use serde_json::{Map, Value, json};

use super::alter::path_of;
use super::data::{changed, committing};
use super::statement::{AnalyzedColumns, Name};
use crate::error::{Error, Result};
use crate::spec::partition::{double_text, float_text};
use crate::spec::{DataField, TypeKind};
use crate::sql::{LakeSession, LakeTable};
use crate::table::Table;

impl LakeSession {
    pub(super) async fn analyze(&self, name: &Name, columns: &AnalyzedColumns) -> Result<DataFrame> {
        let target = self.only_lake_target(name, "ANALYZE TABLE").await?;
        let table = Box::pin(changed(&target, "ANALYZE TABLE")).await?;
        let fields: Vec<DataField> = match columns {
            AnalyzedColumns::None => Vec::new(),
            AnalyzedColumns::All => table.schema().fields.clone(),
            AnalyzedColumns::Named(names) => {
                let field = |name| {
                    let path = path_of(&table.schema().fields, std::slice::from_ref(name))?.remove(0);
                    let found = table.schema().field(&path).cloned();
                    found.ok_or_else(|| table.at(Error::not_found(format!("there is no column {name}"))))
                };
                names.iter().map(field).collect::<Result<_>>()?
            }
        };
        let Some(snapshot) = table.snapshot(None).await? else {
            // Of no rows there is nothing to tell.
            return Ok(self.nothing());
        };
        let provider = LakeTable::at(Arc::clone(&table), Arc::clone(&snapshot));
        let rows = self.context.read_table(Arc::new(provider))?;
        let numbers = Box::pin(aggregated(rows, &fields)).await?;
        let document = document(&table, snapshot.id, &fields, &numbers).map_err(|error| table.at(error))?;
        Box::pin(committing(&table)?.commit_statistics(document)).await?;
        Ok(self.nothing())
    }
}

/// How a column is counted.
struct Counted {
    distinct: bool,
    bounds: bool,
    /// The length of a value.
    length: Option<fn(Expr) -> Expr>,
}

fn counted(field: &DataField) -> Counted {
    let of = |distinct, bounds, length| Counted { distinct, bounds, length };
    match field.data_type.kind {
        TypeKind::Char(_) | TypeKind::VarChar(_) => of(true, false, Some(character_length)),
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => of(true, false, Some(octet_length)),
        TypeKind::Boolean => of(true, false, None),
        TypeKind::TinyInt
        | TypeKind::SmallInt
        | TypeKind::Int
        | TypeKind::BigInt
        | TypeKind::Float
        | TypeKind::Double
        | TypeKind::Decimal(..)
        | TypeKind::Date
        | TypeKind::Time(_)
        | TypeKind::Timestamp(_)
        | TypeKind::TimestampLtz(_) => of(true, true, None),
        _ => of(false, false, None),
    }
}

/// The row of all numbers, by name.
async fn aggregated(rows: DataFrame, fields: &[DataField]) -> Result<Map<String, Value>> {
    let mut exprs = vec![count(lit(1)).alias("rows")];
    for (i, field) in fields.iter().enumerate() {
        let column = || ident(&field.name);
        let Counted { distinct, bounds, length } = counted(field);
        exprs.push(count(column()).alias(format!("{i} values")));
        if distinct {
            exprs.push(count_distinct(column()).alias(format!("{i} distinct")));
        }
        if bounds {
            exprs.extend([min(column()).alias(format!("{i} min")), max(column()).alias(format!("{i} max"))]);
        }
        if let Some(length) = length {
            exprs.push(avg(length(column())).alias(format!("{i} average")));
            exprs.push(max(length(column())).alias(format!("{i} longest")));
        }
    }
    let batches = Box::pin(rows.aggregate(Vec::new(), exprs)?.collect()).await?;
    let batch = batches
        .iter()
        .find(|batch| batch.num_rows() > 0)
        .ok_or_else(|| Error::internal("an aggregate over all rows gave no row"))?;
    let mut numbers = Map::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        numbers.insert(field.name().clone(), number(&ScalarValue::try_from_array(column, 0)?)?);
    }
    Ok(numbers)
}

/// Counts as numbers, bounds as the texts that other engines write.
fn number(value: &ScalarValue) -> Result<Value> {
    Ok(match value {
        value if value.is_null() => Value::Null,
        ScalarValue::Int64(Some(count)) => json!(count),
        ScalarValue::Int8(Some(number)) => json!(number.to_string()),
        ScalarValue::Int16(Some(number)) => json!(number.to_string()),
        ScalarValue::Int32(Some(number))
        | ScalarValue::Date32(Some(number))
        | ScalarValue::Time32Millisecond(Some(number)) => json!(number.to_string()),
        ScalarValue::Float32(Some(number)) => json!(float_text(*number)),
        ScalarValue::Float64(Some(number)) => json!(double_text(*number)),
        ScalarValue::Decimal128(..) => json!(shortened(&value.to_string())),
        ScalarValue::TimestampMillisecond(..)
        | ScalarValue::TimestampMicrosecond(..)
        | ScalarValue::TimestampNanosecond(..) => {
            let text = value.cast_to(&arrow::datatypes::DataType::Utf8)?.to_string();
            json!(text.trim_end_matches('Z').replace(' ', "T"))
        }
        other => json!(other.to_string()),
    })
}

/// A decimal without the zeros at its end, but with one digit behind the point.
fn shortened(text: &str) -> String {
    match text.split_once('.') {
        Some((whole, fraction)) => {
            let fraction = fraction.trim_end_matches('0');
            format!("{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
        }
        None => format!("{text}.0"),
    }
}

/// The document of `spec/metadata.md 9.5`. The size of the rows is not counted.
fn document(table: &Table, snapshot: i64, fields: &[DataField], numbers: &Map<String, Value>) -> Result<Vec<u8>> {
    let get = |name: String| numbers.get(&name).filter(|value| !value.is_null()).cloned();
    let rows = numbers.get("rows").and_then(Value::as_i64).unwrap_or_default();
    let mut columns = Map::new();
    for (i, field) in fields.iter().enumerate() {
        let mut column = Map::new();
        column.insert("colId".to_owned(), json!(field.id));
        let values = get(format!("{i} values")).and_then(|value| value.as_i64()).unwrap_or_default();
        // A bound of a BIGINT is a number out of the aggregate, and a text in the document.
        let text = |value: Value| match value {
            Value::Number(number) => json!(number.to_string()),
            other => other,
        };
        let average = get(format!("{i} average")).and_then(|value| value.as_str()?.parse::<f64>().ok());
        let parts = [
            ("distinctCount", get(format!("{i} distinct"))),
            ("min", get(format!("{i} min")).map(text)),
            ("max", get(format!("{i} max")).map(text)),
            ("nullCount", Some(json!(rows - values))),
            ("avgLen", average.map(|average| json!(average.round() as i64))),
            (
                "maxLen",
                get(format!("{i} longest")).and_then(|value| value.as_str()?.parse::<i64>().ok()).map(|n| json!(n)),
            ),
        ];
        column.extend(parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        columns.insert(field.name.clone(), Value::Object(column));
    }
    let document = json!({
        "snapshotId": snapshot,
        "schemaId": table.schema().id,
        "mergedRecordCount": rows,
        "mergedRecordSize": -1,
        "colStats": columns,
    });
    serde_json::to_vec_pretty(&document)
        .map_err(|error| Error::internal("statistics are not written as JSON").with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_when_values_are_bounds_then_they_are_texts_of_other_engines() {
        for (value, expected) in [
            (ScalarValue::Int64(Some(3)), json!(3)),
            (ScalarValue::Int32(Some(-3)), json!("-3")),
            (ScalarValue::Date32(Some(-1)), json!("-1")),
            (ScalarValue::Decimal128(Some(-500), 8, 2), json!("-5.0")),
            (ScalarValue::Decimal128(Some(125), 8, 2), json!("1.25")),
            (ScalarValue::Decimal128(Some(7), 8, 0), json!("7.0")),
            (ScalarValue::Float64(Some(1.0)), json!("1.0")),
            (ScalarValue::TimestampMillisecond(Some(1500), None), json!("1970-01-01T00:00:01.500")),
            (ScalarValue::TimestampMillisecond(Some(0), Some("UTC".into())), json!("1970-01-01T00:00:00")),
            (ScalarValue::Int32(None), Value::Null),
        ] {
            assert_eq!(number(&value).unwrap(), expected, "{value:?}");
        }
    }
}
