//! Partitions as arguments of procedures: named by their values (`dt=1,hh=2;dt=3`), or by a condition on their columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, ScalarValue};

use super::Values;
use crate::commit::PartitionSpec;
use crate::error::{Error, Result};
use crate::plan::live::PartitionPredicate;
use crate::spec::DataField;
use crate::spec::binary_row::decode_column;
use crate::sql::LakeSession;
use crate::table::Table;

/// Some partition columns with their values; NULL is `None`.
pub(super) type Named = Vec<(String, Option<String>)>;

/// The partitions that a text names: parts divided by `;`, in each of them values of columns divided by `,`, or by `/` as in the
/// names of folders.
///
/// # Errors
/// Invalid for a part that is no such list, a column that is no partition column, and when there is no part.
pub(super) fn parts(table: &Table, text: &str) -> Result<Vec<Named>> {
    let wrong = |message: String| Error::invalid(message);
    let default_name = &table.settings().partition_default_name;
    let mut partitions = Vec::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let mut named = Named::new();
        for pair in part.split(',').flat_map(folders).filter(|pair| !pair.trim().is_empty()) {
            let (column, value) = pair.split_once('=').ok_or_else(|| {
                wrong(format!(
                    "'{part}' names no partition; write column=value, several of them divided by ',', partitions divided by ';'"
                ))
            })?;
            let (column, value) = (column.trim(), value.trim());
            if !table.schema().partition_keys.iter().any(|known| known == column) {
                return Err(wrong(match table.schema().partition_keys.as_slice() {
                    [] => format!("{column} is not a partition column; the table has no partitions"),
                    known => format!("{column} is not one of the partition columns; they are {}", known.join(", ")),
                }));
            }
            let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
            named.push((column.to_owned(), Some(value).filter(|value| value != default_name).map(str::to_owned)));
        }
        partitions.push(named);
    }
    if partitions.is_empty() {
        return Err(wrong("no partition is named".to_owned()));
    }
    Ok(partitions)
}

/// The pairs of `a=1/b=2`; a value may have slashes of its own.
fn folders(pairs: &str) -> Vec<&str> {
    let split: Vec<&str> = pairs.split('/').collect();
    if split.iter().all(|pair| pair.contains('=')) { split } else { vec![pairs] }
}

/// The specifications of partitions that a text names.
///
/// # Errors
/// As [`parts`], and as [`PartitionSpec::new`].
pub(super) fn named(table: &Table, text: &str) -> Result<Vec<PartitionSpec>> {
    let parts = parts(table, text).map_err(|error| table.at(error))?;
    let specs = parts.into_iter().map(|named| {
        let values: BTreeMap<String, ScalarValue> =
            named.into_iter().map(|(column, value)| (column, ScalarValue::Utf8(value))).collect();
        PartitionSpec::new(table.schema(), &values).map_err(|error| table.at(error))
    });
    specs.collect()
}

/// The partitions that the arguments `partitions` and `where` choose; `None` for all.
///
/// # Errors
/// Invalid when both are given, and for what can't be read.
pub(super) fn chosen(values: &Values<'_>, table: &Table) -> Result<Option<PartitionPredicate>> {
    let given = |name: &str| values.optional_text(name).map(str::trim).filter(|text| !text.is_empty());
    match (given("partitions"), given("where")) {
        (Some(_), Some(_)) => Err(Error::invalid("partitions and where are both given; give one of them")),
        (Some(text), None) => PartitionSpec::predicate(table.schema(), &named(table, text)?).map(Some),
        (None, Some(condition)) => satisfying(values.session(), table, condition).map(Some),
        (None, None) => Ok(None),
    }
}

/// The partitions that satisfy a condition, written in SQL over the partition columns.
///
/// # Errors
/// Invalid for a condition that can't be read, or speaks of other columns.
pub(super) fn satisfying(session: &LakeSession, table: &Table, condition: &str) -> Result<PartitionPredicate> {
    let fields: Vec<DataField> = table.schema().partition_fields().into_iter().cloned().collect();
    if fields.is_empty() {
        return Err(table.at(Error::invalid("a condition chooses partitions, and the table has none")));
    }
    let columns: Vec<Field> = fields.iter().map(|field| field.to_arrow().with_nullable(true)).collect();
    let schema = Arc::new(Schema::new(columns));
    let wrong = |error: datafusion::error::DataFusionError| {
        let names = table.schema().partition_keys.join(", ");
        let message = format!("'{condition}' is no condition on the partition columns {names}");
        table.at(Error::invalid(message).with_source(error))
    };
    let named = DFSchema::try_from(schema.as_ref().clone()).map_err(wrong)?;
    let state = session.context().state();
    let expr = state.create_logical_expr(condition, &named).map_err(wrong)?;
    let expr = session.context().create_physical_expr(expr, &named).map_err(wrong)?;
    let text = condition.to_owned();
    Ok(Arc::new(move |rows: &[Arc<[u8]>]| {
        let columns = fields
            .iter()
            .enumerate()
            .map(|(index, field)| decode_column(rows.iter().map(|row| Some(row.as_ref())), index, &field.data_type))
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
        let kept = expr.evaluate(&batch)?.into_array(rows.len())?;
        let kept = kept.as_boolean_opt().ok_or_else(|| Error::invalid(format!("'{text}' is no condition")))?;
        Ok(kept.iter().map(|kept| kept == Some(true)).collect())
    }))
}
