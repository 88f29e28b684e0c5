//! `TIMESTAMPADD(unit, count, time)`: Flink's addition of whole units. The front end writes the unit as a text.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};
use chrono::{DateTime, Months};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TimestampAdd {
    signature: Signature,
}

impl TimestampAdd {
    pub(super) fn new() -> Self {
        Self { signature: Signature::any(3, Volatility::Immutable) }
    }
}

/// What is added.
#[derive(Clone, Copy)]
enum Step {
    Seconds(i64),
    Months(i64),
}

fn step(unit: &str) -> Option<Step> {
    Some(match unit.to_ascii_uppercase().as_str() {
        "SECOND" => Step::Seconds(1),
        "MINUTE" => Step::Seconds(60),
        "HOUR" => Step::Seconds(3600),
        "DAY" => Step::Seconds(86_400),
        "WEEK" => Step::Seconds(7 * 86_400),
        "MONTH" => Step::Months(1),
        "QUARTER" => Step::Months(3),
        "YEAR" => Step::Months(12),
        _ => return None,
    })
}

/// The type of the sum: a date plus a part of a day is a time.
fn sum_type(time: &DataType) -> Result<DataType> {
    match time {
        DataType::Timestamp(..) => Ok(time.clone()),
        DataType::Date32 => Ok(DataType::Timestamp(TimeUnit::Millisecond, None)),
        other => plan_err!("timestampadd takes a date or a time of a day, not {other}"),
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn added(time: i64, count: i64, step: Step, per_second: i64) -> Option<i64> {
    match step {
        Step::Seconds(seconds) => time.checked_add(count.checked_mul(seconds)?.checked_mul(per_second)?),
        Step::Months(months) => {
            let (second, rest) = (time.div_euclid(per_second), time.rem_euclid(per_second));
            let date = DateTime::from_timestamp(second, 0)?;
            let months = count.checked_mul(months)?;
            let amount = Months::new(u32::try_from(months.unsigned_abs()).ok()?);
            let sum = if months < 0 { date.checked_sub_months(amount) } else { date.checked_add_months(amount) }?;
            sum.timestamp().checked_mul(per_second)?.checked_add(rest)
        }
    }
}

impl ScalarUDFImpl for TimestampAdd {
    fn name(&self) -> &str {
        "timestampadd"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [_, count, time] if count.is_integer() || count.is_null() => sum_type(time),
            _ => plan_err!("timestampadd takes a unit, a whole number and a time, not {arguments:?}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [ColumnarValue::Scalar(unit), count, time] = args.args.as_slice() else {
            return exec_err!("timestampadd takes a constant unit, a whole number and a time");
        };
        let (ScalarValue::Utf8(Some(unit)) | ScalarValue::Utf8View(Some(unit)) | ScalarValue::LargeUtf8(Some(unit))) =
            unit
        else {
            return exec_err!("the unit of timestampadd is a text");
        };
        let Some(step) = step(unit) else { return exec_err!("timestampadd does not know the unit {unit}") };
        let target = sum_type(&time.data_type())?;
        let DataType::Timestamp(resolution, _) = &target else { return exec_err!("timestampadd gives no time") };
        let per_second = per_second(*resolution);
        let counts = cast(&count.to_array(args.number_rows)?, &DataType::Int64)?;
        let times = cast(&cast(&time.to_array(args.number_rows)?, &target)?, &DataType::Int64)?;
        let (counts, times) = (counts.as_primitive::<Int64Type>(), times.as_primitive::<Int64Type>());
        let sums = times.iter().zip(counts).map(|(time, count)| {
            let (Some(time), Some(count)) = (time, count) else { return Ok(None) };
            match added(time, count, step, per_second) {
                Some(sum) => Ok(Some(sum)),
                None => exec_err!("timestampadd: {count} {unit} later or earlier is no time any more"),
            }
        });
        let sums: ArrayRef = Arc::new(sums.collect::<Result<Int64Array>>()?);
        Ok(ColumnarValue::Array(cast(&sums, &target)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_when_months_have_other_lengths_then_the_last_day_counts() {
        let day = |text: &str| DateTime::parse_from_rfc3339(&format!("{text}T01:02:03Z")).unwrap().timestamp_millis();
        let month = step("month").unwrap();
        assert_eq!(added(day("2024-01-31"), 1, month, 1000), Some(day("2024-02-29")));
        assert_eq!(added(day("1970-01-01"), -1, month, 1000), Some(day("1969-12-01")));
        assert_eq!(added(-1, 1, step("QUARTER").unwrap(), 1000), Some(day("1970-03-31") + 82_676_999));
        assert_eq!(added(0, -2, step("minute").unwrap(), 1000), Some(-120_000));
        assert_eq!(added(i64::MAX, 1, step("second").unwrap(), 1000), None);
        assert!(step("fortnight").is_none());
    }
}
