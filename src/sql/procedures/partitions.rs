//! Partitions as arguments of procedures: named by their values (`dt=1,hh=2;dt=3`), or by a condition on their columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema};
use datafusion::common::{DFSchema, ScalarValue};

use crate::commit::PartitionSpec;
use crate::error::{Error, Result};
use crate::plan::live::PartitionPredicate;
use crate::spec::DataField;
use crate::spec::binary_row::decode_column;
use crate::sql::LakeSession;
use crate::table::Table;

/// The partitions that a text names: parts divided by `;`, in each of them values of columns divided by `,`.
///
/// # Errors
/// Invalid for a part that is no such list, and as [`PartitionSpec::new`].
pub(super) fn named(table: &Table, text: &str) -> Result<Vec<PartitionSpec>> {
    let default_name = &table.settings().partition_default_name;
    let mut specs = Vec::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let mut values = BTreeMap::new();
        for pair in part.split(',') {
            let Some((column, value)) = pair.split_once('=') else {
                return Err(Error::invalid(format!(
                    "'{part}' names no partition; write column=value, several of them divided by ',', partitions divided by ';'"
                )));
            };
            let (column, value) = (column.trim(), value.trim());
            let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
            let value = if value == default_name { ScalarValue::Null } else { ScalarValue::from(value) };
            values.insert(column.to_owned(), value);
        }
        specs.push(PartitionSpec::new(table.schema(), &values).map_err(|error| table.at(error))?);
    }
    Ok(specs)
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
