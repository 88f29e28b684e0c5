//! `compact` of append tables.

use std::sync::Arc;

use arrow::array::RecordBatch;
use chrono::Utc;

use super::{Values, success};
use crate::compact::append::{AppendRequest, compact_append};
use crate::compact::append_sort::{SortBy, SortStrategy};
use crate::error::{Error, Result};
use crate::table::Table;

/// Compacts an append table as the arguments of `compact` say; partitions and buckets are chosen by `request`.
///
/// # Errors
/// Invalid for arguments that contradict each other, else as [`compact_append`].
pub(super) async fn run(values: &Values<'_>, table: &Arc<Table>, request: AppendRequest) -> Result<RecordBatch> {
    let given = |name: &str| values.optional_text(name).map(str::trim).filter(|text| !text.is_empty());
    let strategy = given("order_strategy").filter(|strategy| !strategy.eq_ignore_ascii_case("none"));
    let sort = match (strategy, given("order_by")) {
        (None, None) => None,
        (None, Some(_)) => return Err(table.at(Error::invalid("order_by needs order_strategy"))),
        (Some(strategy), columns) => {
            let columns: Vec<String> = columns
                .unwrap_or_default()
                .split(',')
                .map(str::trim)
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect();
            let strategy: SortStrategy = strategy.parse().map_err(|error| table.at(error))?;
            Some(SortBy::new(table, strategy, &columns).map_err(|error| table.at(error))?)
        }
    };
    let idle = match values.optional_duration("partition_idle_time") {
        Some(idle) => Some((idle, values.wall_clock(Utc::now())?.and_utc().timestamp_millis())),
        None => None,
    };
    let request = AppendRequest { sort, idle, ..request };
    let context = values.session().context().task_ctx();
    Box::pin(compact_append(table, &request, &context)).await?;
    success()
}
