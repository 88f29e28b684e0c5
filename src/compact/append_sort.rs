//! Sorted compaction of append tables: all rows of a partition in the order of some columns, or along a curve through them, so
//! that files have narrow ranges of values.
//!
//! ```text
//! files --append_rows.rs--> rows --key column--> the engine's sort, which spills --> rows without the key
//!   order     the columns themselves, NULL first
//!   zorder    the bits of the columns' values, taken in turns
//!   hilbert   the place of the values on a Hilbert curve, where neighbours are neighbours
//! ```
//! A value is taken by its first 8 bytes in its order.
//!
//! May import: `error`, `spec`, `table`, `plan`, rest of this room.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, UInt64Array};
use arrow::compute::{SortOptions, cast};
use arrow::datatypes::{DataType as ArrowType, Field, Float64Type, Int64Type, Schema, SchemaRef};
use datafusion::common::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::{StreamExt, TryStreamExt};

use super::append_rows::open;
use crate::error::{Error, Result};
use crate::plan::PlannedFile;
use crate::spec::DataField;
use crate::table::Table;

/// The name of the column that rows are sorted by along a curve.
const KEY: &str = "_SORT_KEY";

/// How rows are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortStrategy {
    /// By the columns, the first one first.
    Order,
    /// Along a Z-shaped curve.
    ZOrder,
    /// Along a Hilbert curve.
    Hilbert,
}

impl FromStr for SortStrategy {
    type Err = Error;

    /// Invalid for a name that is none of the three.
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "order" => Ok(Self::Order),
            "zorder" => Ok(Self::ZOrder),
            "hilbert" => Ok(Self::Hilbert),
            _ => Err(Error::invalid(format!("order_strategy is order, zorder or hilbert, not {text}"))),
        }
    }
}

/// What rows are sorted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortBy {
    strategy: SortStrategy,
    /// Positions of the columns in the table's.
    columns: Vec<usize>,
}

impl SortBy {
    /// Sorting by columns of a table.
    ///
    /// # Errors
    /// Invalid without columns, for one that the table does not have, and for one that a curve can't go through.
    pub fn new(table: &Table, strategy: SortStrategy, columns: &[String]) -> Result<Self> {
        if columns.is_empty() {
            return Err(Error::invalid("order_strategy needs order_by, the columns to sort by"));
        }
        let fields = &table.schema().fields;
        let positions = columns.iter().map(|name| {
            let position = fields.iter().position(|field| field.name == *name);
            let position = position.ok_or_else(|| Error::invalid(format!("order_by: there is no column {name}")))?;
            if fields[position].data_type.to_arrow().is_nested() {
                return Err(Error::invalid(format!("order_by: rows can't be sorted by the nested column {name}")));
            }
            Ok(position)
        });
        Ok(Self { strategy, columns: positions.collect::<Result<_>>()? })
    }
}

/// The rows of `files`, sorted: the columns `wanted` in the types of `schema`.
///
/// # Errors
/// As reading the files; exhausted when there is no memory to sort in.
pub(super) fn sorted(
    table: &Arc<Table>,
    files: Vec<PlannedFile>,
    wanted: &Arc<[DataField]>,
    schema: &SchemaRef,
    by: &SortBy,
    context: &Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let with_key = by.strategy != SortStrategy::Order;
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().map(Arc::clone).collect();
    if with_key {
        fields.push(Arc::new(Field::new(KEY, ArrowType::Binary, false)));
    }
    let input_schema = Arc::new(Schema::new(fields));
    let rows = Rows {
        table: Arc::clone(table),
        files,
        wanted: Arc::clone(wanted),
        file_schema: Arc::clone(schema),
        schema: Arc::clone(&input_schema),
        by: by.clone(),
    };
    let source = StreamingTableExec::try_new(
        Arc::clone(&input_schema),
        vec![Arc::new(rows)],
        None,
        Vec::<LexOrdering>::new(),
        false,
        None,
    )?;
    let options = SortOptions { descending: false, nulls_first: true };
    let column = |position: usize| {
        let name = input_schema.field(position).name();
        let expr: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, position));
        PhysicalSortExpr { expr, options }
    };
    let exprs: Vec<_> = match with_key {
        true => vec![column(schema.fields().len())],
        false => by.columns.iter().copied().map(column).collect(),
    };
    let ordering = LexOrdering::new(exprs).ok_or_else(|| Error::internal("rows are sorted by no column"))?;
    let sort = SortExec::new(ordering, Arc::new(source));
    let sorted = sort.execute(0, Arc::clone(context))?;
    let width = schema.fields().len();
    let places: Vec<usize> = (0..width).collect();
    let rows = sorted.map(move |batch| Ok::<_, DataFusionError>(batch?.project(&places)?));
    Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), rows)))
}

/// The rows of some files, with their keys.
struct Rows {
    table: Arc<Table>,
    files: Vec<PlannedFile>,
    wanted: Arc<[DataField]>,
    file_schema: SchemaRef,
    schema: SchemaRef,
    by: SortBy,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files of {}", self.files.len(), self.table.identifier())
    }
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (table, wanted) = (Arc::clone(&self.table), Arc::clone(&self.wanted));
        let (file_schema, schema, by) = (Arc::clone(&self.file_schema), Arc::clone(&self.schema), self.by.clone());
        let batch_size = context.session_config().batch_size();
        let opened = futures::stream::iter(self.files.clone()).then(move |file| {
            let (table, wanted, schema) = (Arc::clone(&table), Arc::clone(&wanted), Arc::clone(&file_schema));
            async move { open(&table, &file, &wanted, &schema, batch_size).await }
        });
        let rows = opened.try_flatten();
        let keyed = rows.map(move |batch| {
            let batch = batch.map_err(DataFusionError::from)?;
            with_key(&batch, &schema, &by).map_err(DataFusionError::from)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), keyed))
    }
}

fn with_key(batch: &RecordBatch, schema: &SchemaRef, by: &SortBy) -> Result<RecordBatch> {
    if by.strategy == SortStrategy::Order {
        return Ok(batch.clone());
    }
    let values = by.columns.iter().map(|column| ordinals(batch.column(*column))).collect::<Result<Vec<_>>>()?;
    let mut point = vec![0; values.len()];
    let keys = BinaryArray::from_iter_values((0..batch.num_rows()).map(|row| {
        for (place, column) in point.iter_mut().zip(&values) {
            *place = column.value(row);
        }
        if by.strategy == SortStrategy::Hilbert {
            to_hilbert(&mut point);
        }
        interleaved(&point)
    }));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(keys));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// The values of a column as numbers of the same order; NULL is the least.
fn ordinals(column: &ArrayRef) -> Result<UInt64Array> {
    let by_sign = |value: i64| (value as u64) ^ (1 << 63);
    let of_bytes = |bytes: &[u8]| {
        let mut first = [0; 8];
        let count = bytes.len().min(8);
        first[..count].copy_from_slice(&bytes[..count]);
        u64::from_be_bytes(first)
    };
    // Nothing is less than NULL, not even the least value.
    let above_null = |value: u64| value.saturating_add(1);
    Ok(match column.data_type() {
        ArrowType::Utf8 | ArrowType::Utf8View | ArrowType::LargeUtf8 => {
            let texts = cast(column, &ArrowType::Utf8View)?;
            let texts = texts.as_string_view();
            texts.iter().map(|text| Some(text.map_or(0, |text| above_null(of_bytes(text.as_bytes()))))).collect()
        }
        ArrowType::Binary | ArrowType::BinaryView | ArrowType::LargeBinary | ArrowType::FixedSizeBinary(_) => {
            let bytes = cast(column, &ArrowType::BinaryView)?;
            let bytes = bytes.as_binary_view();
            bytes.iter().map(|bytes| Some(bytes.map_or(0, |bytes| above_null(of_bytes(bytes))))).collect()
        }
        ArrowType::Float32 | ArrowType::Float64 | ArrowType::Decimal128(..) => {
            let numbers = cast(column, &ArrowType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            let order = |number: f64| {
                let bits = number.to_bits();
                if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
            };
            numbers.iter().map(|number| Some(number.map_or(0, |number| above_null(order(number))))).collect()
        }
        _ => {
            let column = match column.data_type() {
                // Days and milliseconds are not cast to 64 bits in one step.
                ArrowType::Date32 | ArrowType::Time32(_) => cast(column, &ArrowType::Int32)?,
                _ => Arc::clone(column),
            };
            let numbers = cast(&column, &ArrowType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            numbers.iter().map(|number| Some(number.map_or(0, |number| above_null(by_sign(number))))).collect()
        }
    })
}

/// The bits of all coordinates, the highest of each first.
fn interleaved(point: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0u8; point.len() * 8];
    let mut at = 0;
    for bit in (0..64).rev() {
        for coordinate in point {
            bytes[at / 8] |= (((coordinate >> bit) & 1) as u8) << (7 - at % 8);
            at += 1;
        }
    }
    bytes
}

/// Turns a point into its place on a Hilbert curve, with the bits of the place spread over the coordinates as
/// [`interleaved`] reads them (Skilling, "Programming the Hilbert curve", 2004).
fn to_hilbert(point: &mut [u64]) {
    let last = point.len() - 1;
    let mut bit = 1u64 << 63;
    while bit > 1 {
        let below = bit - 1;
        for i in 0..point.len() {
            if point[i] & bit != 0 {
                point[0] ^= below;
            } else {
                let exchanged = (point[0] ^ point[i]) & below;
                point[0] ^= exchanged;
                point[i] ^= exchanged;
            }
        }
        bit >>= 1;
    }
    for i in 1..point.len() {
        point[i] ^= point[i - 1];
    }
    let mut flip = 0;
    let mut bit = 1u64 << 63;
    while bit > 1 {
        if point[last] & bit != 0 {
            flip ^= bit - 1;
        }
        bit >>= 1;
    }
    point.iter_mut().for_each(|coordinate| *coordinate ^= flip);
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int32Array, StringArray};

    use super::*;

    #[test]
    fn ordinals_when_values_ascend_then_numbers_ascend_and_null_is_least() {
        let columns: [ArrayRef; 3] = [
            Arc::new(Int32Array::from(vec![None, Some(i32::MIN), Some(-1), Some(0), Some(7)])),
            Arc::new(Float64Array::from(vec![None, Some(f64::NEG_INFINITY), Some(-0.5), Some(0.0), Some(1e9)])),
            Arc::new(StringArray::from(vec![None, Some(""), Some("a"), Some("ab"), Some("b")])),
        ];
        for column in &columns {
            let numbers = ordinals(column).unwrap();
            let numbers: Vec<u64> = numbers.values().to_vec();
            assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        }
    }

    #[test]
    fn interleaved_when_two_coordinates_then_their_bits_in_turns() {
        let key = interleaved(&[0b11, 0b01]);
        assert_eq!(key.len(), 16);
        assert_eq!(key[15], 0b1011);
        assert!(key[..15].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn to_hilbert_when_grid_is_walked_then_each_step_goes_to_a_neighbour() {
        // The curve through the highest three bits of two coordinates.
        let mut cells: Vec<(Vec<u8>, i64, i64)> = Vec::new();
        for x in 0..8u64 {
            for y in 0..8u64 {
                let mut point = [x << 61, y << 61];
                to_hilbert(&mut point);
                cells.push((interleaved(&point), x as i64, y as i64));
            }
        }
        cells.sort();
        for pair in cells.windows(2) {
            let distance = (pair[0].1 - pair[1].1).abs() + (pair[0].2 - pair[1].2).abs();
            assert_eq!(distance, 1, "{pair:?}");
        }
    }
}
