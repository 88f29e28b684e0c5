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
use arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    ArrowTimestampType, DataType, FieldRef, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow::temporal_conversions::as_datetime;
use chrono::{Offset, TimeZone};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast,
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
            if !changes_clock(&from, to) {
                return Ok(Transformed::no(expr));
            }
            Ok(Transformed::yes(clock_cast(inner.expr.as_ref().clone(), to, zone)))
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

/// Whether a cast goes from what a clock shows to an instant, or the other way, somewhere in a value.
fn changes_clock(from: &DataType, to: &DataType) -> bool {
    let inside = |from: &FieldRef, to: &FieldRef| changes_clock(from.data_type(), to.data_type());
    match (from, to) {
        (DataType::Dictionary(_, from), to) => changes_clock(from, to),
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
    if !changes_clock(values.data_type(), to) {
        return Ok(cast_with_options(values, to, &strict)?);
    }
    let shown = match (values.data_type(), to) {
        (DataType::Timestamp(unit, Some(_)), text) if is_text(text) => {
            cast_with_options(values, &DataType::Timestamp(*unit, Some(zone.into())), &strict)?
        }
        (DataType::Timestamp(unit, Some(_)), _) if !matches!(to, DataType::Timestamp(_, Some(_))) => {
            let zone: Tz = zone.parse()?;
            match unit {
                TimeUnit::Second => local::<TimestampSecondType>(values, zone, 1),
                TimeUnit::Millisecond => local::<TimestampMillisecondType>(values, zone, 1_000),
                TimeUnit::Microsecond => local::<TimestampMicrosecondType>(values, zone, 1_000_000),
                TimeUnit::Nanosecond => local::<TimestampNanosecondType>(values, zone, 1_000_000_000),
            }
        }
        _ => cast_with_options(values, &in_zone(to, zone), &strict)?,
    };
    Ok(cast_with_options(&shown, to, &strict)?)
}

/// What a clock in `zone` shows at instants that are counted in `second`ths of a second.
fn local<T: ArrowTimestampType>(values: &ArrayRef, zone: Tz, second: i64) -> ArrayRef {
    let shown: PrimitiveArray<T> = values.as_primitive::<T>().unary(|instant| match as_datetime::<T>(instant) {
        Some(utc) => {
            let offset = i64::from(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc());
            instant.saturating_add(offset * second)
        }
        // Beyond the calendar there are no clock changes.
        None => instant,
    });
    Arc::new(shown)
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
        let text = between_clocks(&values, &DataType::Utf8, "Europe/Berlin").unwrap();
        assert_eq!(text.as_string::<i32>().value(1), "2024-03-31T03:00:00+02:00");
    }
}
