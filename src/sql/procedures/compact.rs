//! The procedure that compacts a table.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;
use async_trait::async_trait;

use super::compact_append as append;
use super::{Argument, Kind, Procedure, TABLE, Values, partitions, success};
use crate::compact::append::{AppendRequest, compact_append};
use crate::compact::{self, CompactRequest};
use crate::error::{Error, Result};

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
        let table = values.target().await?.open_with(values.options()?).await?;
        let minor = is_minor(values)?;
        let partitions = partitions::chosen(values, &table)?;
        let buckets = given("buckets").map(buckets).transpose()?;
        if !table.schema().has_primary_key() {
            let request = AppendRequest { partitions, buckets, minor, ..AppendRequest::default() };
            return append::run(values, &table, request).await;
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

/// `materialize_deletion_vectors`: files with deleted rows are written anew without them.
pub(super) struct MaterializeDeletionVectors;

#[async_trait]
impl Procedure for MaterializeDeletionVectors {
    fn name(&self) -> &'static str {
        "materialize_deletion_vectors"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                TABLE,
                Argument::optional("partitions", Kind::Text),
                Argument::optional("options", Kind::Text),
                Argument::optional("where", Kind::Text),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let mut options = values.options()?;
        // No file is too small, and every deleted row is one too many.
        for key in ["compaction.small-file-ratio", "compaction.delete-ratio-threshold"] {
            options.entry(key.to_owned()).or_insert_with(|| "0".to_owned());
        }
        let table = values.target().await?.open_with(options).await?;
        if !table.settings().deletion_vectors_enabled {
            return Err(table.at(Error::invalid("the table has no deletion vectors")));
        }
        let partitions = partitions::chosen(values, &table)?;
        let context = values.session().context().task_ctx();
        if table.schema().has_primary_key() {
            let request = CompactRequest { partitions, ..CompactRequest::default() };
            Box::pin(compact::compact(&table, request, &context)).await?;
        } else {
            let request = AppendRequest { partitions, ..AppendRequest::default() };
            Box::pin(compact_append(&table, &request, &context)).await?;
        }
        success()
    }
}

/// Whether argument `compact_strategy` asks only for what is due.
///
/// # Errors
/// Invalid when it is neither full nor minor.
pub(super) fn is_minor(values: &Values<'_>) -> Result<bool> {
    match values.optional_text("compact_strategy").map(str::trim).map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "full") => Ok(false),
        Some("minor") => Ok(true),
        Some(other) => Err(Error::invalid(format!("argument compact_strategy is full or minor, not {other}"))),
    }
}

/// Buckets as a text: `0,2,5`.
fn buckets(text: &str) -> Result<BTreeSet<i32>> {
    let number = |text: &str| {
        let wrong = || Error::invalid(format!("'{text}' is no bucket; write numbers divided by ','"));
        text.trim().parse().map_err(|_| wrong())
    };
    text.split(',').map(number).collect()
}
