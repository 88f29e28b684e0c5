//! Procedures that repair tables and make what their options ask for: missing files, hints, file indexes, bucket counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{col, lit};
use futures::TryStreamExt;

use super::partitions::{self, chosen, satisfying};
use super::{Argument, Kind, Procedure, TABLE, Values, success, text_column};
use crate::commit::{Committable, Operation, OverwriteScope, PartitionSpec, TableCommit};
use crate::error::{Error, Result};
use crate::maintain::file_indexes::rewrite_file_indexes;
use crate::maintain::repair::{remove_missing_files, repair_earliest_snapshot};
use crate::table::Table;
use crate::write::POSTPONE_BUCKET;
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
                Argument::optional("where", Kind::Text),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let target = values.target().await?;
        let table = target.open().await?;
        let buckets = new_buckets(&table, values.optional_number("bucket_num")?)?;
        let Some(snapshot) = table.snapshots().latest().await? else { return rescaled(0) };
        // One state is read, whatever others commit meanwhile: their commits are conflicts.
        let (catalog, database) = (&target.within.catalog_name, target.database());
        let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
        let state = |columns: &str| {
            format!(
                "SELECT {columns} FROM {}.{}.{} /*+ OPTIONS('scan.snapshot-id' = '{}') */",
                quoted(catalog),
                quoted(database),
                quoted(&target.object.to_string()),
                snapshot.id
            )
        };
        let given = |name: &str| values.optional_text(name).map(str::trim).filter(|text| !text.is_empty());
        let mut specs = match (given("partition"), given("where")) {
            (Some(_), Some(_)) => {
                return Err(table.at(Error::invalid("partition and where are both given; give one of them")));
            }
            (None, None) => None,
            (Some(text), None) => {
                let parts = partitions::parts(&table, text).map_err(|error| table.at(error))?;
                let texts =
                    |named: partitions::Named| named.into_iter().map(|(key, value)| (key, ScalarValue::Utf8(value)));
                Some(parts.into_iter().map(|named| texts(named).collect()).collect::<Vec<BTreeMap<_, _>>>())
            }
            (None, Some(condition)) => {
                // Columns that are no partition columns are refused.
                satisfying(values.session(), &table, condition)?;
                let keys = &table.schema().partition_keys;
                let columns = keys.iter().map(|key| quoted(key)).collect::<Vec<_>>().join(", ");
                let found = format!("{} WHERE {condition}", state(&format!("DISTINCT {columns}")));
                let mut specs = Vec::new();
                for batch in values.session().sql(&found).await?.collect().await? {
                    for row in 0..batch.num_rows() {
                        let value = |at: usize| ScalarValue::try_from_array(batch.column(at), row);
                        let spec = keys.iter().enumerate().map(|(at, key)| Ok((key.clone(), value(at)?)));
                        specs.push(spec.collect::<Result<BTreeMap<_, _>>>()?);
                    }
                }
                Some(specs)
            }
        };
        let (scope, condition) = match specs.as_mut().map(|specs| (specs.pop(), specs.len())) {
            None => (OverwriteScope::Table, None),
            Some((None, _)) => return rescaled(0),
            Some((Some(spec), 0)) => {
                let mut condition = lit(true);
                for (key, value) in &spec {
                    let column = col(datafusion::common::Column::from_name(key));
                    condition =
                        condition.and(if value.is_null() { column.is_null() } else { column.eq(lit(value.clone())) });
                }
                let spec = PartitionSpec::new(table.schema(), &spec).map_err(|error| table.at(error))?;
                (OverwriteScope::Partitions(spec), Some(condition))
            }
            Some(_) => return Err(table.at(Error::invalid("one partition is rescaled at a time"))),
        };
        let mut rows = values.session().sql(&state("*")).await?;
        if let Some(condition) = condition {
            rows = rows.filter(condition)?;
        }
        let user = TableCommit::new_user(&table)?;
        let context = values.session().context().task_ctx();
        let mut writer = match table.settings().bucket {
            POSTPONE_BUCKET => TableWriter::for_rescale(&table, buckets, &user, context)?,
            _ => TableWriter::for_overwrite(&table, &user, context)?,
        };
        let mut batches = Box::pin(rows.execute_stream()).await?;
        while let Some(batch) = batches.try_next().await? {
            writer.write(batch).await?;
        }
        let messages = writer.prepare_commit().await?;
        // Rows that were postponed are none of the state that was read.
        let commit = TableCommit::new(Arc::clone(&table), user)?.read_snapshot(Some(snapshot.id)).sparing_postponed();
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

/// How many buckets the rows of a partition go to.
fn new_buckets(table: &Table, wanted: Option<i64>) -> Result<i32> {
    let buckets = table.settings().bucket;
    let refused = |message: String| Err(table.at(Error::invalid(message)));
    match wanted {
        Some(number) if number < 1 || i32::try_from(number).is_err() => {
            refused(format!("bucket_num is a number of buckets, 1 or more, and no {number}"))
        }
        Some(number) if buckets == POSTPONE_BUCKET => Ok(i32::try_from(number).unwrap_or(i32::MAX)),
        None if buckets == POSTPONE_BUCKET => refused(
            "a table of postponed buckets has no number of its own; say bucket_num => .., the buckets that rows go to which have \
             theirs already"
                .to_owned(),
        ),
        Some(number) if buckets > 0 && number != i64::from(buckets) => refused(format!(
            "the table's rows go to {buckets} buckets; ALTER TABLE .. SET ('bucket' = '{number}') first"
        )),
        _ if buckets > 0 => Ok(buckets),
        _ => Err(table.at(Error::unsupported(
            "only a table with a fixed number of buckets, or with postponed ones, is rescaled",
        ))),
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
