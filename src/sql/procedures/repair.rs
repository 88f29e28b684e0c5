//! Procedures that repair tables and make what their options ask for: missing files, hints, file indexes, bucket counts.

use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::logical_expr::{Expr, col, lit};
use futures::TryStreamExt;

use super::partitions::{self, chosen};
use super::{Argument, Kind, Procedure, TABLE, Values, success, text_column};
use crate::commit::{Committable, Operation, OverwriteScope, TableCommit};
use crate::error::{Error, Result};
use crate::maintain::file_indexes::rewrite_file_indexes;
use crate::maintain::repair::{remove_missing_files, repair_earliest_snapshot};
use crate::writer::TableWriter;

/// `remove_unexisting_files`
pub(super) struct RemoveUnexistingFiles;

#[async_trait]
impl Procedure for RemoveUnexistingFiles {
    fn name(&self) -> &'static str {
        "remove_unexisting_files"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::optional("dry_run", Kind::Flag), Argument::optional("parallelism", Kind::Number)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let parallelism = values.optional_number("parallelism")?.and_then(|number| usize::try_from(number).ok());
        let names = remove_missing_files(&table, values.flag("dry_run"), parallelism.unwrap_or(0)).await?;
        text_column("file", names)
    }
}

/// `remove_unexisting_manifests`
pub(super) struct RemoveUnexistingManifests;

#[async_trait]
impl Procedure for RemoveUnexistingManifests {
    fn name(&self) -> &'static str {
        "remove_unexisting_manifests"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE.also(&["table_id"]), Argument::optional("dry_run", Kind::Flag)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let user = TableCommit::new_user(&table)?;
        let commit = TableCommit::new(table, user)?;
        text_column("manifest", Box::pin(commit.remove_missing_manifests(values.flag("dry_run"))).await?)
    }
}

/// `repair_earliest_snapshot`
pub(super) struct RepairEarliestSnapshot;

#[async_trait]
impl Procedure for RepairEarliestSnapshot {
    fn name(&self) -> &'static str {
        "repair_earliest_snapshot"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::required("snapshot_id", Kind::Number)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        repair_earliest_snapshot(&table, values.number("snapshot_id")?).await?;
        success()
    }
}

/// `rewrite_file_index`
pub(super) struct RewriteFileIndex;

#[async_trait]
impl Procedure for RewriteFileIndex {
    fn name(&self) -> &'static str {
        "rewrite_file_index"
    }

    fn arguments(&self) -> &'static [Argument] {
        const { &[TABLE, Argument::optional("partitions", Kind::Text), Argument::optional("where", Kind::Text)] }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let table = values.table().await?;
        let partitions = chosen(values, &table)?;
        Box::pin(rewrite_file_indexes(&table, partitions)).await?;
        success()
    }
}

/// `rescale`: partitions are written anew with another number of buckets.
pub(super) struct Rescale;

#[async_trait]
impl Procedure for Rescale {
    fn name(&self) -> &'static str {
        "rescale"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                TABLE,
                Argument::optional("bucket_num", Kind::Number),
                Argument::optional("partition", Kind::Text).also(&["partitions"]),
                Argument::optional("scan_parallelism", Kind::Number),
                Argument::optional("sink_parallelism", Kind::Number),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let target = values.target().await?;
        let table = target.open().await?;
        let buckets = table.settings().bucket;
        if buckets <= 0 {
            return Err(table.at(Error::unsupported(
                "only a table with a fixed number of buckets is rescaled; postponed buckets are given to rows by compact",
            )));
        }
        if let Some(number) = values.optional_number("bucket_num")?.filter(|number| *number != i64::from(buckets)) {
            return Err(table.at(Error::invalid(format!(
                "the table's rows go to {buckets} buckets; ALTER TABLE .. SET ('bucket' = '{number}') first"
            ))));
        }
        let Some(snapshot) = table.snapshots().latest().await? else { return rescaled(0) };
        let named = values.optional_text("partition").filter(|text| !text.trim().is_empty());
        // One state is read, whatever others commit meanwhile: their commits are conflicts.
        let (catalog, database) = (&target.within.catalog_name, target.database());
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        let sql = format!(
            "SELECT * FROM {}.{}.{} /*+ OPTIONS('scan.snapshot-id' = '{}') */",
            quoted(catalog),
            quoted(database),
            quoted(&target.object.to_string()),
            snapshot.id
        );
        let mut rows = values.session().sql(&sql).await?;
        let scope = match named {
            None => OverwriteScope::Table,
            Some(text) => {
                let mut specs = partitions::named(&table, text)?;
                let (Some(spec), true) = (specs.pop(), specs.is_empty()) else {
                    return Err(table.at(Error::invalid("one partition is rescaled at a time")));
                };
                for (key, value) in partitions::parts(&table, text)?.into_iter().flatten() {
                    let column = col(datafusion::common::Column::from_name(key));
                    let condition: Expr = match value {
                        Some(value) => column.eq(lit(value)),
                        None => column.is_null(),
                    };
                    rows = rows.filter(condition)?;
                }
                OverwriteScope::Partitions(spec)
            }
        };
        let user = TableCommit::new_user(&table)?;
        let context = values.session().context().task_ctx();
        let mut writer = TableWriter::for_overwrite(&table, &user, context)?;
        let mut batches = Box::pin(rows.execute_stream()).await?;
        while let Some(batch) = batches.try_next().await? {
            writer.write(batch).await?;
        }
        let messages = writer.prepare_commit().await?;
        let commit = TableCommit::new(Arc::clone(&table), user)?.read_snapshot(Some(snapshot.id));
        let mut committable = Committable::batch(messages.clone());
        committable.operation = Some(Operation::Overwrite);
        if let Err(error) = Box::pin(commit.overwrite(&scope, committable)).await {
            if !crate::commit::outcome_is_unknown(&error) {
                Box::pin(commit.abort(&messages)).await?;
            }
            return Err(error);
        }
        rescaled(messages.len())
    }
}

fn rescaled(buckets: usize) -> Result<RecordBatch> {
    let schema = Schema::new(vec![
        Field::new("result", DataType::Utf8, false),
        Field::new("buckets_written", DataType::Int32, false),
    ]);
    let columns: Vec<arrow::array::ArrayRef> = vec![
        Arc::new(StringArray::from(vec!["Success"])),
        Arc::new(Int32Array::from(vec![i32::try_from(buckets).unwrap_or(i32::MAX)])),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}
