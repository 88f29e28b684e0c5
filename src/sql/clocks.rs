//! Wall clocks and instants in a session whose zone is not UTC.
//!
//! A TIMESTAMP is what some clock shows, a TIMESTAMP_LTZ is an instant, and what turns one into the other is the zone of the
//! session, as in Flink and Spark. To the engine the instants of a table are in UTC, and so would be the clocks that it casts
//! them from and to by itself: in INSERT and UPDATE, in comparisons, in a CAST to text or DATE, in `date_trunc`. This rule, which
//! comes after the engine's coercion, gives these casts the session's zone.
//!
//! The casts are functions of their own then ([`ClockCast`]): the engine takes a CAST between timestamps for one that can be
//! undone in the other side of a comparison, whatever their zones are.
//!
//! Imports the types of the engine.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, PrimitiveArray, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{
    ArrowTimestampType, DataType, FieldRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::temporal_conversions::as_datetime;
use chrono::{NaiveDateTime, Offset, TimeDelta, TimeZone};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast, try_cast,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use super::types::in_zone;

/// The zone of instants as tables have them.
const OF_TABLES: &str = "UTC";

/// Functions that look at what a clock shows.
const CLOCK_FUNCTIONS: [&str; 6] = ["date_part", "date_trunc", "date_bin", "to_char", "to_date", "to_local_time"];

/// Casts between wall clocks and instants by the session's zone.
#[derive(Debug)]
pub(crate) struct SessionClocks;

impl AnalyzerRule for SessionClocks {
    fn name(&self) -> &'static str {
        "session_clocks"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let Some(zone) = other_zone(config) else { return Ok(plan) };
        plan.transform_up_with_subqueries(|node| {
            let mut schema = merge_schema(&node.inputs());
            if node.inputs().is_empty() {
                schema.merge(node.schema());
            }
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| rewritten(expr, &schema, zone))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })
        })
        .map(|transformed| transformed.data)
    }
}

/// The session's zone, where it is not that of tables.
pub(crate) fn other_zone(config: &ConfigOptions) -> Option<&str> {
    config.execution.time_zone.as_deref().filter(|zone| *zone != OF_TABLES)
}

fn rewritten(expr: Expr, schema: &DFSchema, zone: &str) -> Result<Transformed<Expr>> {
    match &expr {
        Expr::Cast(inner) => {
            let (Ok(from), to) = (inner.expr.get_type(schema), inner.field.data_type()) else {
                return Ok(Transformed::no(expr));
            };
            if !changes_clock(&from, to, zone) {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(clock_cast(inner.expr.as_ref().clone(), to, zone)))
        }
        Expr::TryCast(inner) => {
            let (Ok(from), to) = (inner.expr.get_type(schema), inner.field.data_type()) else {
                return Ok(Transformed::no(expr));
            };
            if !changes_clock(&from, to, zone) {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(match is_text(&from) {
                // What can't be read is NULL.
                true => cast(try_cast(inner.expr.as_ref().clone(), in_zone(to, zone)), to.clone()),
                false => clock_cast(inner.expr.as_ref().clone(), to, zone),
            }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            // As instants, so that files are still chosen by their smallest and greatest ones.
            let sides = match (instant_behind(left, schema, zone), instant_behind(right, schema, zone)) {
                (Some(instant), None) => clock_before(right, schema).map(|clock| (instant, clock, true)),
                (None, Some(instant)) => clock_before(left, schema).map(|clock| (instant, clock, false)),
                _ => None,
            };
            let Some((instant, clock, is_left)) = sides else { return Ok(Transformed::no(expr)) };
            let of_instant = instant.get_type(schema)?;
            if !keeps_precision(&clock.get_type(schema)?, &of_instant) {
                return Ok(Transformed::no(expr));
            }
            let clock = Box::new(clock_cast(clock, &of_instant, zone));
            let (left, right) = if is_left { (Box::new(instant), clock) } else { (clock, Box::new(instant)) };
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op: *op, right })))
        }
        Expr::ScalarFunction(call) if CLOCK_FUNCTIONS.contains(&call.name()) => {
            let Ok(was) = expr.get_type(schema) else { return Ok(Transformed::no(expr)) };
            let mut changed = false;
            let to_date = call.name() == "to_date";
            let args = call.args.iter().map(|arg| match arg.get_type(schema) {
                Ok(DataType::Timestamp(unit, Some(of))) if of.as_ref() != zone || to_date => {
                    changed = true;
                    match to_date {
                        true => clock_cast(arg.clone(), &DataType::Timestamp(unit, None), zone),
                        false => cast(arg.clone(), DataType::Timestamp(unit, Some(zone.into()))),
                    }
                }
                _ => arg.clone(),
            });
            let args = args.collect();
            if !changed {
                return Ok(Transformed::no(expr));
            }
            let call = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&call.func), args));
            let is = call.get_type(schema)?;
            Ok(Transformed::yes(if is == was { call } else { cast(call, was) }))
        }
        _ => Ok(Transformed::no(expr)),
    }
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// The instant whose clock a side of a comparison shows: of the cast that the engine made of it, or this rule already.
fn instant_behind(side: &Expr, schema: &DFSchema, zone: &str) -> Option<Expr> {
    let inner = match side {
        Expr::Cast(inner) => inner.expr.as_ref(),
        Expr::ScalarFunction(call) => {
            call.func.inner().downcast_ref::<ClockCast>()?;
            call.args.first()?
        }
        _ => return None,
    };
    let is_clock = matches!(side.get_type(schema).ok()?, DataType::Timestamp(_, None));
    let DataType::Timestamp(_, Some(of)) = inner.get_type(schema).ok()? else { return None };
    (is_clock && is_known(&of, zone)).then(|| inner.clone())
}

/// A side of a comparison of clocks as it was before the engine made it one of the other side's precision.
fn clock_before(side: &Expr, schema: &DFSchema) -> Option<Expr> {
    let is_clock = |expr: &Expr| {
        matches!(expr.get_type(schema), Ok(DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64))
    };
    match side {
        Expr::Cast(inner) if is_clock(&inner.expr) => Some(inner.expr.as_ref().clone()),
        side => is_clock(side).then(|| side.clone()),
    }
}

/// Whether clocks of the type `clock` are no more precise than instants of the type `instant`.
fn keeps_precision(clock: &DataType, instant: &DataType) -> bool {
    let digits = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    match (clock, instant) {
        (DataType::Timestamp(clock, _), DataType::Timestamp(instant, _)) => digits(clock) <= digits(instant),
        (DataType::Date32, _) => true,
        _ => false,
    }
}

/// Whether instants of a zone are those of tables, or of the session: others are of a zone that the statement names.
fn is_known(of: &str, zone: &str) -> bool {
    of == OF_TABLES || of == zone
}

/// Whether a cast goes from what a clock shows to an instant, or the other way, somewhere in a value.
fn changes_clock(from: &DataType, to: &DataType, zone: &str) -> bool {
    let inside = |from: &FieldRef, to: &FieldRef| changes_clock(from.data_type(), to.data_type(), zone);
    match (from, to) {
        (DataType::Dictionary(_, from), to) => changes_clock(from, to, zone),
        (DataType::Timestamp(_, Some(of)), _) | (_, DataType::Timestamp(_, Some(of))) if !is_known(of, zone) => false,
        (from, DataType::Timestamp(_, Some(_))) => {
            is_text(from) || matches!(from, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64)
        }
        (DataType::Timestamp(_, Some(_)), to) => {
            is_text(to)
                || matches!(
                    to,
                    DataType::Timestamp(_, None)
                        | DataType::Date32
                        | DataType::Date64
                        | DataType::Time32(_)
                        | DataType::Time64(_)
                )
        }
        (DataType::Struct(from), DataType::Struct(to)) => {
            from.len() == to.len() && from.iter().zip(to).any(|(from, to)| inside(from, to))
        }
        (DataType::Map(from, _), DataType::Map(to, _)) => inside(from, to),
        (
            DataType::List(from) | DataType::LargeList(from) | DataType::FixedSizeList(from, _),
            DataType::List(to) | DataType::LargeList(to) | DataType::FixedSizeList(to, _),
        ) => inside(from, to),
        _ => false,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn clock_cast(expr: Expr, to: &DataType, zone: &str) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(ClockCast { to: to.clone(), zone: zone.to_owned(), signature }).call(vec![expr])
}

/// The function that casts between clocks and instants.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClockCast {
    to: DataType,
    zone: String,
    signature: Signature,
}

impl ClockCast {
    /// What is cast where `expr` is such a cast, and the cast.
    pub(crate) fn of(expr: &dyn PhysicalExpr) -> Option<(&Arc<dyn PhysicalExpr>, &Self)> {
        let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
        let this = call.fun().inner().downcast_ref::<Self>()?;
        Some((call.args().first()?, this))
    }

    /// The type of the values.
    pub(crate) fn data_type(&self) -> &DataType {
        &self.to
    }

    /// The zone whose clocks are read.
    pub(crate) fn zone(&self) -> &str {
        &self.zone
    }
}

impl ScalarUDFImpl for ClockCast {
    fn name(&self) -> &'static str {
        "clock_cast"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else { return exec_err!("clock_cast takes one argument") };
        Ok(match value {
            ColumnarValue::Scalar(value) => {
                let cast = between_clocks(&value.to_array()?, &self.to, &self.zone)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&cast, 0)?)
            }
            ColumnarValue::Array(values) => ColumnarValue::Array(between_clocks(values, &self.to, &self.zone)?),
        })
    }
}

/// `values` cast to `to`, with clocks in `zone`.
///
/// # Errors
/// Those of the engine's casts.
pub(crate) fn between_clocks(values: &ArrayRef, to: &DataType, zone: &str) -> Result<ArrayRef> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    if !changes_clock(values.data_type(), to, zone) {
        return Ok(cast_with_options(values, to, &strict)?);
    }
    let shown = match (values.data_type(), to) {
        (DataType::Timestamp(unit, Some(_)), text) if is_text(text) => {
            cast_with_options(values, &DataType::Timestamp(*unit, Some(zone.into())), &strict)?
        }
        (DataType::Timestamp(unit, of), _) => moved(values, unit, zone.parse()?, of.is_some()),
        (DataType::Date32 | DataType::Date64, DataType::Timestamp(unit, _)) => {
            let midnight = cast_with_options(values, &DataType::Timestamp(*unit, None), &strict)?;
            moved(&midnight, unit, zone.parse()?, false)
        }
        (text, DataType::Timestamp(unit, _)) if is_text(text) => read(values, unit, zone)?,
        (DataType::Dictionary(_, inside), _) => {
            return between_clocks(&cast_with_options(values, inside, &strict)?, to, zone);
        }
        (DataType::Struct(given), DataType::Struct(fields)) => {
            let (parts, mut columns) = (values.as_struct(), Vec::with_capacity(fields.len()));
            for (at, field) in fields.iter().enumerate() {
                // By name, as the engine casts rows.
                let place = given.iter().position(|given| given.name() == field.name()).unwrap_or(at);
                columns.push(match parts.columns().get(place) {
                    Some(column) => between_clocks(column, field.data_type(), zone)?,
                    None => new_null_array(field.data_type(), parts.len()),
                });
            }
            return Ok(Arc::new(StructArray::try_new(fields.clone(), columns, parts.nulls().cloned())?));
        }
        (DataType::List(_), DataType::List(element)) => {
            let list = values.as_list::<i32>();
            let inner = between_clocks(list.values(), element.data_type(), zone)?;
            let list = ListArray::try_new(Arc::clone(element), list.offsets().clone(), inner, list.nulls().cloned())?;
            return Ok(Arc::new(list));
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let map = values.as_map();
            let inner: ArrayRef = Arc::new(map.entries().clone());
            // Keys and values by their places, whatever they are called.
            let DataType::Struct(fields) = entries.data_type() else { return exec_err!("a map has no entries") };
            let columns = inner.as_struct().columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| between_clocks(column, field.data_type(), zone));
            let pairs = StructArray::try_new(fields.clone(), columns.collect::<Result<_>>()?, None)?;
            let offsets = map.offsets().clone();
            return Ok(Arc::new(MapArray::try_new(
                Arc::clone(entries),
                offsets,
                pairs,
                map.nulls().cloned(),
                *sorted,
            )?));
        }
        _ => cast_with_options(values, &in_zone(to, zone), &strict)?,
    };
    Ok(cast_with_options(&shown, to, &strict)?)
}

/// The instants that texts tell, those without a zone by the clocks of `zone`.
fn read(texts: &ArrayRef, unit: &TimeUnit, zone: &str) -> Result<ArrayRef> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let to = DataType::Timestamp(*unit, Some(zone.into()));
    let Err(error) = cast_with_options(texts, &to, &strict) else {
        return Ok(cast_with_options(texts, &to, &strict)?);
    };
    if texts.len() != 1 {
        let each = (0..texts.len()).map(|row| read(&texts.slice(row, 1), unit, zone)).collect::<Result<Vec<_>>>()?;
        let each: Vec<&dyn Array> = each.iter().map(AsRef::as_ref).collect();
        return if each.is_empty() { Err(error.into()) } else { Ok(concat(&each)?) };
    }
    // An hour that clocks skip or show twice is no error to whoever has a rule for it.
    match cast_with_options(texts, &DataType::Timestamp(*unit, None), &strict) {
        Ok(clock) => Ok(cast_with_options(&moved(&clock, unit, zone.parse()?, false), &to, &strict)?),
        Err(_) => Err(error.into()),
    }
}

/// What a clock in `zone` shows at instants (`shown`), without a zone, or the instants at which it shows these values, in UTC.
fn moved(values: &ArrayRef, unit: &TimeUnit, zone: Tz, shown: bool) -> ArrayRef {
    match unit {
        TimeUnit::Second => moved_by::<TimestampSecondType>(values, zone, 1, shown),
        TimeUnit::Millisecond => moved_by::<TimestampMillisecondType>(values, zone, 1_000, shown),
        TimeUnit::Microsecond => moved_by::<TimestampMicrosecondType>(values, zone, 1_000_000, shown),
        TimeUnit::Nanosecond => moved_by::<TimestampNanosecondType>(values, zone, 1_000_000_000, shown),
    }
}

/// The same of values that are counted in `second`ths of a second.
fn moved_by<T: ArrowTimestampType>(values: &ArrayRef, zone: Tz, second: i64, shown: bool) -> ArrayRef {
    let values = values.as_primitive::<T>();
    let moved: PrimitiveArray<T> = values.unary(|value| match as_datetime::<T>(value) {
        Some(time) if shown => {
            let offset = i64::from(zone.offset_from_utc_datetime(&time).fix().local_minus_utc());
            value.saturating_add(offset * second)
        }
        Some(time) => value.saturating_sub(i64::from(offset_of_clock(zone, &time)) * second),
        // Beyond the calendar there are no clock changes.
        None => value,
    });
    Arc::new(moved.with_timezone_opt((!shown).then_some(OF_TABLES)))
}

/// The distance from UTC, in seconds, of a clock that shows `time`: the earlier of two where it shows that twice, and that of
/// before where it skips it, as in `java.time`.
fn offset_of_clock(zone: Tz, time: &NaiveDateTime) -> i32 {
    let known = zone.offset_from_local_datetime(time).earliest();
    let before =
        || time.checked_sub_signed(TimeDelta::days(1)).and_then(|day| zone.offset_from_local_datetime(&day).earliest());
    known.or_else(before).map_or(0, |offset| offset.fix().local_minus_utc())
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringArray, TimestampMillisecondArray};

    use super::*;

    const SHANGHAI: &str = "Asia/Shanghai";

    fn instants() -> DataType {
        DataType::Timestamp(TimeUnit::Millisecond, Some(OF_TABLES.into()))
    }

    #[test]
    fn between_clocks_when_text_names_no_zone_then_the_sessions_counts() {
        let texts: ArrayRef =
            Arc::new(StringArray::from(vec![Some("1970-01-01 08:00:00"), Some("1970-01-01T00:00:00Z"), None]));
        let cast = between_clocks(&texts, &instants(), SHANGHAI).unwrap();
        assert_eq!(cast.data_type(), &instants());
        let expected = TimestampMillisecondArray::from(vec![Some(0), Some(0), None]).with_timezone(OF_TABLES);
        assert_eq!(cast.as_primitive::<TimestampMillisecondType>(), &expected);
    }

    #[test]
    fn between_clocks_when_clocks_change_then_the_offset_of_the_instant_counts() {
        // 2024-03-31 00:59:59Z and 01:00:00Z, between which Berlin's clocks go from 2 to 3 o'clock.
        let values =
            TimestampMillisecondArray::from(vec![1_711_846_799_000, 1_711_846_800_000]).with_timezone(OF_TABLES);
        let values: ArrayRef = Arc::new(values);
        let naive = DataType::Timestamp(TimeUnit::Millisecond, None);
        let shown = between_clocks(&values, &naive, "Europe/Berlin").unwrap();
        let expected = TimestampMillisecondArray::from(vec![1_711_850_399_000, 1_711_854_000_000]);
        assert_eq!(shown.as_primitive::<TimestampMillisecondType>(), &expected);
        let back = between_clocks(&shown, &instants(), "Europe/Berlin").unwrap();
        assert_eq!(&back, &values);
        // Of half past two there are none on that day, and two in October.
        let clocks: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1_711_852_200_000, 1_729_996_200_000]));
        let expected =
            TimestampMillisecondArray::from(vec![1_711_848_600_000, 1_729_989_000_000]).with_timezone(OF_TABLES);
        let read = between_clocks(&clocks, &instants(), "Europe/Berlin").unwrap();
        assert_eq!(read.as_primitive::<TimestampMillisecondType>(), &expected);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["2024-03-31 02:30:00", "2024-10-27 02:30:00"]));
        let read = between_clocks(&texts, &instants(), "Europe/Berlin").unwrap();
        assert_eq!(read.as_primitive::<TimestampMillisecondType>(), &expected);
        let text = between_clocks(&values, &DataType::Utf8, "Europe/Berlin").unwrap();
        assert_eq!(text.as_string::<i32>().value(1), "2024-03-31T03:00:00+02:00");
    }
}
