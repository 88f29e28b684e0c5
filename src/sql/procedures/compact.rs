//! The procedure that compacts a table.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use async_trait::async_trait;

use super::{Argument, Kind, Procedure, TABLE, Values, compact_append, partitions, success};
use crate::commit::PartitionSpec;
use crate::compact::append::AppendRequest;
use crate::compact::{self, CompactRequest};
use crate::error::{Error, Result};
use crate::plan::live::PartitionPredicate;
use crate::table::Table;

/// `compact`
pub(super) struct Compact;

#[async_trait]
impl Procedure for Compact {
    fn name(&self) -> &'static str {
        "compact"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                TABLE,
                Argument::optional("partitions", Kind::Text).also(&["partition"]),
                Argument::optional("order_strategy", Kind::Text),
                Argument::optional("order_by", Kind::Text),
                Argument::optional("options", Kind::Text),
                Argument::optional("where", Kind::Text),
                Argument::optional("partition_idle_time", Kind::Duration),
                Argument::optional("compact_strategy", Kind::Text),
                Argument::optional("buckets", Kind::Text),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let given = |name: &str| values.optional_text(name).map(str::trim).filter(|text| !text.is_empty());
        let options = given("options").map(options).transpose()?.unwrap_or_default();
        let table = values.target().await?.open_with(options).await?;
        let minor = match given("compact_strategy").map(str::to_ascii_lowercase).as_deref() {
            None | Some("full") => false,
            Some("minor") => true,
            Some(other) => {
                return Err(Error::invalid(format!("argument compact_strategy is full or minor, not {other}")));
            }
        };
        let partitions = chosen(values, &table, given("partitions"), given("where"))?;
        let buckets = given("buckets").map(buckets).transpose()?;
        if !table.schema().has_primary_key() {
            let request = AppendRequest { partitions, buckets, minor, ..AppendRequest::default() };
            return compact_append::run(values, &table, request).await;
        }
        let sorts = given("order_strategy").is_some_and(|strategy| !strategy.eq_ignore_ascii_case("none"));
        if sorts || given("order_by").is_some() {
            return Err(table.at(Error::invalid(
                "a table with a primary key is sorted by it; leave out order_strategy and order_by",
            )));
        }
        let idle = values.optional_duration("partition_idle_time");
        let request = CompactRequest { partitions, buckets, idle, minor };
        let context = values.session().context().task_ctx();
        Box::pin(compact::compact(&table, request, &context)).await?;
        success()
    }
}

/// The partitions that the arguments choose; `None` for all.
fn chosen(
    values: &Values<'_>,
    table: &Table,
    named: Option<&str>,
    condition: Option<&str>,
) -> Result<Option<PartitionPredicate>> {
    match (named, condition) {
        (Some(_), Some(_)) => Err(Error::invalid("partitions and where are both given; give one of them")),
        (Some(named), None) => PartitionSpec::predicate(table.schema(), &partitions::named(table, named)?).map(Some),
        (None, Some(condition)) => partitions::satisfying(values.session(), table, condition).map(Some),
        (None, None) => Ok(None),
    }
}

/// Options as a text: `key=value,key=value`.
fn options(text: &str) -> Result<BTreeMap<String, String>> {
    text.split(',')
        .map(|pair| match pair.split_once('=') {
            Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
            None => {
                Err(Error::invalid(format!("'{pair}' is no option; write key=value, several of them divided by ','")))
            }
        })
        .collect()
}

/// Buckets as a text: `0,2,5`.
fn buckets(text: &str) -> Result<BTreeSet<i32>> {
    let number = |text: &str| {
        let wrong = || Error::invalid(format!("'{text}' is no bucket; write numbers divided by ','"));
        text.trim().parse().map_err(|_| wrong())
    };
    text.split(',').map(number).collect()
}
