//! Record-level expiry (`spec/data.md 5.5`): a compaction leaves out rows whose time is too long ago.
//!
//! May import: `error`, `options`, `spec`.

use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType as ArrowType, Int64Type, TimeUnit};

use crate::error::{Error, Result};
use crate::options::TableOptions;
use crate::spec::binary_row::BinaryRow;
use crate::spec::datum::Datum;
use crate::spec::{DataFileMeta, DataType, TableSchema, TypeKind};

/// BIGINT times from here on are milliseconds, below seconds.
const MILLIS_FROM: i64 = 1_000_000_000_000;

/// Which rows have expired.
#[derive(Clone, Debug)]
pub(super) struct Expiry {
    column: usize,
    name: String,
    data_type: DataType,
    /// Rows of this second or earlier have expired.
    until: i64,
}

impl Expiry {
    /// What the options of a table say at `now`, in seconds; `None` when its rows do not expire.
    ///
    /// # Errors
    /// Invalid when the options name no column that holds a time.
    pub(super) fn of(schema: &TableSchema, options: &TableOptions, now: i64) -> Result<Option<Self>> {
        let Some(after) = options.value::<Duration>("record-level.expire-time")? else { return Ok(None) };
        let invalid = |why: String| Error::invalid(format!("option record-level.time-field {why}"));
        let name: String = options
            .value("record-level.time-field")?
            .ok_or_else(|| invalid("is missing, and record-level.expire-time is set".to_owned()))?;
        let column = schema.index_of(&name).ok_or_else(|| invalid(format!("names {name}, which is no column")))?;
        let data_type = schema.fields[column].data_type.clone();
        match data_type.kind {
            TypeKind::Int | TypeKind::BigInt | TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_) => {}
            _ => return Err(invalid(format!("names {name} of type {data_type}, which holds no time"))),
        }
        let after = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
        // A row stays as long as now <= time + after.
        Ok(Some(Self { column, name, data_type, until: now.saturating_sub(after).saturating_sub(1) }))
    }

    /// The column of the time.
    pub(super) fn column(&self) -> usize {
        self.column
    }

    /// Which of these times are too long ago; NULL never is.
    pub(super) fn expired(&self, times: &ArrayRef) -> Result<BooleanArray> {
        let is_number = matches!(times.data_type(), ArrowType::Int32 | ArrowType::Int64);
        let numbers = if is_number {
            cast(times, &ArrowType::Int64)?
        } else {
            cast(&cast(times, &ArrowType::Timestamp(TimeUnit::Second, None))?, &ArrowType::Int64)?
        };
        let numbers = numbers.as_primitive::<Int64Type>();
        let is_big = times.data_type() == &ArrowType::Int64;
        Ok(numbers.iter().map(|time| Some(time.is_some_and(|time| seconds(time, is_big) <= self.until))).collect())
    }

    /// Whether a file may hold rows that have expired, by its statistics.
    pub(super) fn may_hold_expired(&self, schema: &TableSchema, file: &DataFileMeta) -> bool {
        let position = match &file.value_stats_cols {
            Some(names) => names.iter().position(|name| *name == self.name),
            // The statistics are of the columns of the file's schema.
            None if schema.id == file.schema_id => Some(self.column),
            None => None,
        };
        let Some(position) = position else { return false };
        let Ok(least) =
            BinaryRow::from_serialized(&file.value_stats.min).and_then(|row| row.datum(position, &self.data_type))
        else {
            return false;
        };
        match least {
            Datum::Int(time) => i64::from(time) <= self.until,
            Datum::BigInt(time) => seconds(time, true) <= self.until,
            Datum::Timestamp { millis, .. } => millis.div_euclid(1000) <= self.until,
            _ => false,
        }
    }
}

fn seconds(time: i64, is_big: bool) -> i64 {
    if is_big && time >= MILLIS_FROM { time / 1000 } else { time }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, Int64Array, TimestampMillisecondArray};

    use super::*;

    #[test]
    fn expired_when_times_are_of_any_type_then_by_the_second() {
        let expiry = Expiry {
            column: 0,
            name: "t".to_owned(),
            data_type: DataType::nullable(TypeKind::Int),
            until: 2_000_000_000,
        };
        let expired = |times: ArrayRef| expiry.expired(&times).unwrap().values().iter().collect::<Vec<_>>();
        let ints = Int32Array::from(vec![Some(2_000_000_000), Some(2_000_000_001), None]);
        assert_eq!(expired(Arc::new(ints)), [true, false, false]);
        let longs = Int64Array::from(vec![2_000_000_000, 2_000_000_000_999, 2_000_000_001_000]);
        assert_eq!(expired(Arc::new(longs)), [true, true, false]);
        let times = TimestampMillisecondArray::from(vec![2_000_000_000_999, 2_000_000_001_000]);
        assert_eq!(expired(Arc::new(times)), [true, false]);
    }
}
