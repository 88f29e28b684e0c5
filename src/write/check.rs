//! What a row must satisfy to be written: defaults are filled in, NOT NULL and lengths are checked, times are cut to the
//! precision of their column (`spec/data.md 12`).
//!
//! The engine has cast the columns to the table's arrow types before; an arrow type does not tell lengths and precisions.
//!
//! May import: `error`, `options`, `spec`, `nested_lengths`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{
    DataType as ArrowType, Float32Type, Float64Type, SchemaRef, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType,
};
use arrow::util::display::array_value_to_string;

use super::nested_lengths::{TooLong, has_lengths_inside, too_long};
use crate::error::{Error, Result};
use crate::spec::types::arrow_schema;
use crate::spec::{DataField, TableSchema, TypeKind};

/// Why a row can't be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// Row of the batch.
    pub row: usize,
    /// The column, by its position in the table.
    pub column: usize,
    /// What is wrong, naming column and value.
    pub reason: String,
}

/// The rules of a table's columns.
#[derive(Debug)]
pub struct RowCheck {
    schema: SchemaRef,
    columns: Vec<ColumnCheck>,
}

#[derive(Debug)]
struct ColumnCheck {
    field: DataField,
    /// Part of the primary key: floats in it have one NaN.
    is_key: bool,
    /// One row with the default value, where there is one.
    default: Option<ArrayRef>,
}

impl RowCheck {
    /// The rules of `schema`. `defaults` gives the default value of a column as an array of one row.
    ///
    /// # Errors
    /// Those of `defaults`.
    pub fn try_new(
        schema: &TableSchema,
        mut defaults: impl FnMut(&DataField) -> Result<Option<ArrayRef>>,
    ) -> Result<Self> {
        let columns = schema
            .fields
            .iter()
            .map(|field| {
                let default = defaults(field)?;
                Ok(ColumnCheck { field: field.clone(), is_key: schema.primary_keys.contains(&field.name), default })
            })
            .collect::<Result<_>>()?;
        Ok(Self { schema: arrow_schema(&schema.fields), columns })
    }

    /// The arrow schema of checked batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The columns as they are written. `bad` gets the rows that can't be; of each the first reason, and what is written for
    /// them is undefined.
    ///
    /// # Errors
    /// Internal when the columns are not of the table's types.
    pub fn apply(&self, columns: &[ArrayRef], bad: &mut Vec<BadRow>) -> Result<Vec<ArrayRef>> {
        if columns.len() != self.columns.len() {
            return Err(Error::internal(format!("{} columns for a table of {}", columns.len(), self.columns.len())));
        }
        let checked: Vec<ArrayRef> = self
            .columns
            .iter()
            .zip(columns)
            .enumerate()
            .map(|(at, (rule, column))| rule.apply(column, at, bad))
            .collect::<Result<_>>()?;
        bad.sort_by_key(|bad| bad.row);
        bad.dedup_by_key(|bad| bad.row);
        Ok(checked)
    }

    /// A batch of checked columns.
    ///
    /// # Errors
    /// Internal when a column is not of its type.
    pub fn batch(&self, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

impl ColumnCheck {
    fn apply(&self, column: &ArrayRef, at: usize, bad: &mut Vec<BadRow>) -> Result<ArrayRef> {
        let mut column = Arc::clone(column);
        let wanted = self.field.data_type.to_arrow();
        if column.data_type() != &wanted {
            column = arrow::compute::cast(&column, &wanted)?;
        }
        if !self.field.data_type.nullable && column.null_count() > 0 {
            for row in (0..column.len()).filter(|&row| column.is_null(row)) {
                bad.push(BadRow {
                    row,
                    column: at,
                    reason: format!("column {} is NOT NULL, but the value is NULL", self.field.name),
                });
            }
        }
        // After the check (`spec/data.md 12.1`): an explicit NULL is an error where it is one, and the default elsewhere.
        if let Some(default) = &self.default
            && column.null_count() > 0
        {
            let is_null = BooleanArray::new(BooleanBuffer::collect_bool(column.len(), |row| column.is_null(row)), None);
            column = zip(&is_null, &arrow::array::Scalar::new(Arc::clone(default)), &column)?;
        }
        self.check_length(&column, at, bad);
        self.cut(column)
    }

    /// Refuses text and bytes that are longer than their column.
    fn check_length(&self, column: &ArrayRef, at: usize, bad: &mut Vec<BadRow>) {
        if has_lengths_inside(&self.field.data_type) && too_long(column, &self.field.data_type).is_some() {
            for row in 0..column.len() {
                if let Some(TooLong { value, length, data_type }) =
                    too_long(&column.slice(row, 1), &self.field.data_type)
                {
                    let name = &self.field.name;
                    let reason = format!("column {name}: '{value}' inside has {length}, more than {data_type} holds");
                    bad.push(BadRow { row, column: at, reason });
                }
            }
        }
        let (most, text) = match &self.field.data_type.kind {
            TypeKind::Char(length) | TypeKind::VarChar(length) => (*length as usize, true),
            TypeKind::Binary(length) | TypeKind::VarBinary(length) => (*length as usize, false),
            _ => return,
        };
        if most >= i32::MAX as usize {
            return;
        }
        let mut refuse = |row: usize, length: usize, unit: &str| {
            let value = array_value_to_string(column, row).unwrap_or_default();
            let value: String = value.chars().take(40).collect();
            let name = &self.field.name;
            let kind = self.field.data_type.to_string();
            let kind = kind.trim_end_matches(" NOT NULL");
            bad.push(BadRow {
                row,
                column: at,
                reason: format!("column {name}: '{value}' has {length} {unit}, more than {kind} holds"),
            });
        };
        if text {
            for (row, value) in column.as_string_view().iter().enumerate() {
                // Bytes are at least as many as characters.
                if let Some(value) = value.filter(|value| value.len() > most) {
                    let length = value.chars().count();
                    if length > most {
                        refuse(row, length, "characters");
                    }
                }
            }
        } else {
            for (row, value) in column.as_binary_view().iter().enumerate() {
                if let Some(value) = value.filter(|value| value.len() > most) {
                    refuse(row, value.len(), "bytes");
                }
            }
        }
    }

    /// Cuts times to the precision of the column, and makes every NaN of a key the same one.
    fn cut(&self, column: ArrayRef) -> Result<ArrayRef> {
        let (TypeKind::Timestamp(precision) | TypeKind::TimestampLtz(precision)) = self.field.data_type.kind else {
            return Ok(if self.is_key { one_nan(column) } else { column });
        };
        let ArrowType::Timestamp(unit, _) = column.data_type() else { return Ok(column) };
        let (unit, digits) = match unit {
            TimeUnit::Second => return Ok(column),
            TimeUnit::Millisecond => (TimeUnit::Millisecond, 3),
            TimeUnit::Microsecond => (TimeUnit::Microsecond, 6),
            TimeUnit::Nanosecond => (TimeUnit::Nanosecond, 9),
        };
        let Some(surplus) = u32::checked_sub(digits, u32::from(precision)).filter(|surplus| *surplus > 0) else {
            return Ok(column);
        };
        let step = 10_i64.pow(surplus);
        Ok(match unit {
            TimeUnit::Millisecond => cut_to::<TimestampMillisecondType>(&column, step),
            TimeUnit::Microsecond => cut_to::<TimestampMicrosecondType>(&column, step),
            _ => cut_to::<TimestampNanosecondType>(&column, step),
        })
    }
}

fn cut_to<T: ArrowPrimitiveType<Native = i64>>(column: &ArrayRef, step: i64) -> ArrayRef {
    let column: &PrimitiveArray<T> = column.as_primitive();
    if column.values().iter().all(|value| value % step == 0) {
        return Arc::new(column.clone());
    }
    // Towards the past, as a wall clock that shows fewer digits.
    Arc::new(column.unary::<_, T>(|value| value - value.rem_euclid(step)).with_data_type(column.data_type().clone()))
}

/// Keys compare in total order, where NaNs of other bits would be other keys.
fn one_nan(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        ArrowType::Float32 => {
            let floats = column.as_primitive::<Float32Type>();
            Arc::new(floats.unary::<_, Float32Type>(|value| if value.is_nan() { f32::NAN } else { value }))
        }
        ArrowType::Float64 => {
            let floats = column.as_primitive::<Float64Type>();
            Arc::new(floats.unary::<_, Float64Type>(|value| if value.is_nan() { f64::NAN } else { value }))
        }
        _ => column,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, StringViewArray, TimestampMillisecondArray};

    use super::*;
    use crate::spec::DataType;

    fn field(name: &str, data_type: DataType) -> DataField {
        DataField::new(0, name, data_type)
    }

    fn check(field: DataField, default: Option<ArrayRef>, column: &ArrayRef) -> (ArrayRef, Vec<BadRow>) {
        let rule = ColumnCheck { field, is_key: false, default };
        let mut bad = Vec::new();
        let column = rule.apply(column, 0, &mut bad).unwrap();
        (column, bad)
    }

    #[test]
    fn apply_when_null_is_not_allowed_then_the_row_is_bad() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let (_, bad) = check(field("a", DataType::not_null(TypeKind::Int)), None, &column);
        assert_eq!(bad.len(), 1);
        assert_eq!(bad[0].row, 1);
        assert!(bad[0].reason.contains("column a is NOT NULL"), "{}", bad[0].reason);
    }

    #[test]
    fn apply_when_there_is_a_default_then_nulls_get_it() {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), None]));
        let default: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let (column, bad) = check(field("a", DataType::nullable(TypeKind::Int)), Some(default), &column);
        assert!(bad.is_empty());
        assert_eq!(column.as_primitive::<arrow::datatypes::Int32Type>().values(), &[1, 7]);
    }

    #[test]
    fn apply_when_text_is_longer_than_its_column_then_bad_by_characters() {
        let column: ArrayRef = Arc::new(StringViewArray::from(vec!["äöü", "abcd"]));
        let (_, bad) = check(field("s", DataType::nullable(TypeKind::VarChar(3))), None, &column);
        assert_eq!(
            bad,
            [BadRow {
                row: 1,
                column: 0,
                reason: "column s: 'abcd' has 4 characters, more than VARCHAR(3) holds".to_owned()
            }]
        );
    }

    #[test]
    fn apply_when_time_is_finer_than_its_column_then_cut_towards_the_past() {
        let column: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1999, -1]));
        let (column, _) = check(field("t", DataType::nullable(TypeKind::Timestamp(0))), None, &column);
        assert_eq!(column.as_primitive::<TimestampMillisecondType>().values(), &[1000, -1000]);
    }
}
