//! The node that makes marked rows of an append table go: by deletion vectors where the table has them, else by files without
//! the rows (`spec/data.md 12.3`).
//!
//! Imports `write`, `plan`, `read`, the scan node and `vectors`.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::array::{BinaryArray, RecordBatch, UInt64Array};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{Result as EngineResult, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Distribution;
use datafusion::physical_plan::common::spawn_buffered;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use roaring::{RoaringBitmap, RoaringTreemap};

use super::vectors::{Bucket, Changes, Vectors};
use crate::error::{Error, Result};
use crate::options::Level0;
use crate::plan::{ColumnGroup, PlanCounters, PlannedFile, ScanPlan, ScanRequest, plan_scan};
use crate::read::deletion;
use crate::spec::deletion_vector::DeletionVector;
use crate::spec::{DataFileMeta, Snapshot};
use crate::sql::scan::LakeScanExec;
use crate::sql::scan::unit::{SystemColumns, UnitFactory};
use crate::write::{CommitMessage, RunSlot, WriteRun, WriteTarget, message_schema, one_input, when_done};

/// Buckets that are rewritten at once.
const CONCURRENCY: usize = 4;

/// Batches that are read ahead of a writer.
const BATCHES_AHEAD: usize = 2;

/// Lets messages of writers pass, and adds those about the rows that go.
#[derive(Debug)]
pub(super) struct LakeRemovalsExec {
    input: Arc<dyn ExecutionPlan>,
    target: Arc<WriteTarget>,
    slot: Arc<RunSlot>,
    /// The snapshot that the rows were read of.
    snapshot: Option<Arc<Snapshot>>,
    parquet: Arc<TableParquetOptions>,
    properties: Arc<PlanProperties>,
}

impl LakeRemovalsExec {
    pub(super) fn new(
        input: Arc<dyn ExecutionPlan>,
        target: Arc<WriteTarget>,
        slot: Arc<RunSlot>,
        snapshot: Option<Arc<Snapshot>>,
        parquet: Arc<TableParquetOptions>,
    ) -> Self {
        let properties = when_done(1, message_schema());
        Self { input, target, slot, snapshot, parquet, properties }
    }
}

impl DisplayAs for LakeRemovalsExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.target.table();
        let how = if table.settings().deletion_vectors_enabled { "deletion vectors" } else { "new files" };
        match t {
            DisplayFormatType::TreeRender => write!(f, "{}", table.identifier()),
            _ => write!(f, "LakeRemovalsExec: table={}, by={how}", table.identifier()),
        }
    }
}

impl ExecutionPlan for LakeRemovalsExec {
    one_input!(LakeRemovalsExec, |node, input| Self::new(
        input,
        Arc::clone(&node.target),
        Arc::clone(&node.slot),
        node.snapshot.clone(),
        Arc::clone(&node.parquet)
    ));

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> EngineResult<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("rows are removed in one partition, not {}", partition + 1);
        }
        let run = self.slot.current()?;
        let written = self.input.execute(0, Arc::clone(&context))?;
        let removal = Removal {
            run: Arc::clone(&run),
            snapshot: self.snapshot.clone(),
            parquet: Arc::clone(&self.parquet),
            context,
        };
        // All marks are there once the writers are done.
        let removed = futures::stream::once(async move {
            let messages = Box::pin(removal.messages()).await.map_err(|error| run.target().table().at(error))?;
            let bytes = messages.iter().map(CommitMessage::to_bytes).collect::<Result<Vec<_>>>()?;
            let rows = UInt64Array::from(vec![0; messages.len()]);
            let bytes = BinaryArray::from_iter_values(bytes);
            Ok(RecordBatch::try_new(message_schema(), vec![Arc::new(bytes), Arc::new(rows)])?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(message_schema(), written.chain(removed))))
    }
}

/// The rows of a statement that go.
struct Removal {
    run: Arc<WriteRun>,
    snapshot: Option<Arc<Snapshot>>,
    parquet: Arc<TableParquetOptions>,
    context: Arc<TaskContext>,
}

/// What is marked of one bucket.
#[derive(Default)]
struct Marked {
    /// Files with the rows of each that go.
    files: Vec<(PlannedFile, RoaringTreemap)>,
    /// The names of all files of the bucket.
    live: HashSet<String>,
}

impl Removal {
    async fn messages(&self) -> Result<Vec<CommitMessage>> {
        let marks = self.run.changes().take_marks();
        if marks.is_empty() {
            return Ok(Vec::new());
        }
        let table = self.run.target().table();
        let vectors = Vectors::read(table, self.snapshot.as_deref()).await?;
        let buckets = self.buckets(marks).await?;
        let (vectors, marks_only) = (&vectors, table.settings().deletion_vectors_enabled);
        futures::stream::iter(buckets)
            .map(|files| async move {
                match marks_only {
                    true => self.mark(files, vectors).await,
                    false => Box::pin(self.rewrite(files, vectors)).await,
                }
            })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await
    }

    /// The marked files, by partition and bucket.
    async fn buckets(&self, mut marks: BTreeMap<String, RoaringTreemap>) -> Result<Vec<Marked>> {
        let table = self.run.target().table();
        let request = ScanRequest { row_ids: true, ..ScanRequest::everything(table, Level0::Merge) };
        let plan = Box::pin(plan_scan(table, self.snapshot.clone(), &request)).await?;
        let mut buckets: BTreeMap<(Arc<[u8]>, i32), Marked> = BTreeMap::new();
        for file in plan.groups.into_iter().flat_map(|group| group.files) {
            let bucket = (Arc::clone(&file.partition.row), file.file.bucket());
            let bucket = buckets.entry(bucket).or_default();
            bucket.live.insert(file.file.name().to_owned());
            if let Some(rows) = marks.remove(file.file.name()) {
                bucket.files.push((file, rows));
            }
        }
        buckets.retain(|_, bucket| !bucket.files.is_empty());
        match marks.keys().next() {
            None => Ok(buckets.into_values().collect()),
            Some(name) => {
                Err(Error::internal("a row lies in a file that the table does not have").with("file", name.clone()))
            }
        }
    }

    fn message(&self, file: &PlannedFile) -> CommitMessage {
        CommitMessage {
            partition: file.partition.row.to_vec(),
            bucket: file.file.bucket(),
            total_buckets: Some(file.file.total_buckets()),
            ..CommitMessage::default()
        }
    }

    async fn change_vectors(
        &self,
        message: &mut CommitMessage,
        vectors: &Vectors,
        file: &PlannedFile,
        changes: Changes,
        live: HashSet<String>,
    ) -> Result<()> {
        let bucket = Bucket {
            partition: Arc::clone(&file.partition.row),
            path: file.partition.path.clone(),
            number: file.file.bucket(),
            live,
        };
        let replaced = vectors.change(&bucket, changes, self.run.own_files()).await?;
        message.new_index_files = replaced.new;
        message.deleted_index_files = replaced.old;
        Ok(())
    }

    /// Marks the rows of a bucket; files all of whose rows are gone go.
    async fn mark(&self, marked: Marked, vectors: &Vectors) -> Result<CommitMessage> {
        let Marked { files, live } = marked;
        let table = self.run.target().table();
        let Some((first, _)) = files.first() else { return Ok(CommitMessage::default()) };
        let first = first.clone();
        let mut message = self.message(&first);
        let mut changes = Changes::new();
        for (file, rows) in files {
            let mut vector = match deletion::load(table, &file).await? {
                Some(known) => known.as_ref().clone(),
                None => DeletionVector::new(table.settings().deletion_vectors_bitmap64),
            };
            for row in rows {
                vector.insert(row)?;
            }
            let name = file.file.name().to_owned();
            if vector.cardinality() >= file.file.rows() {
                message.deleted_files.push(DataFileMeta::from(&file.file));
                changes.insert(name, None);
            } else {
                changes.insert(name, Some(vector));
            }
        }
        self.change_vectors(&mut message, vectors, &first, changes, live).await?;
        Ok(message)
    }

    /// Writes the rows of a bucket's files that stay to new files.
    async fn rewrite(&self, marked: Marked, vectors: &Vectors) -> Result<CommitMessage> {
        let Marked { files, live } = marked;
        let target = self.run.target();
        let table = target.table();
        let Some((first, _)) = files.first() else { return Ok(CommitMessage::default()) };
        let first = first.clone();
        let mut message = self.message(&first);
        let mut changes = Changes::new();
        let mut kept = Vec::new();
        for (mut file, rows) in files {
            message.deleted_files.push(DataFileMeta::from(&file.file));
            changes.insert(file.file.name().to_owned(), None);
            let all = u32::try_from(file.file.rows())
                .map_err(|_| Error::unsupported("a file of more than 4294967295 rows can't be written anew"))?;
            let mut left = RoaringBitmap::new();
            left.insert_range(0..all);
            left -= rows.iter().filter_map(|row| u32::try_from(row).ok()).collect::<RoaringBitmap>();
            if !left.is_empty() {
                file.candidates = Some(Arc::new(left));
                kept.push(file);
            }
        }
        self.change_vectors(&mut message, vectors, &first, changes, live).await?;
        if kept.is_empty() {
            return Ok(message);
        }
        let tracked = table.settings().row_tracking;
        let mut writer = self.run.copy_writer(&first.partition.row, first.file.bucket(), tracked).await?;
        let scan = self.scan(kept, tracked).await?;
        for partition in 0..scan.properties().output_partitioning().partition_count() {
            // Read while what was read before is written.
            let mut rows = spawn_buffered(scan.execute(partition, Arc::clone(&self.context))?, BATCHES_AHEAD);
            while let Some(batch) = rows.try_next().await? {
                let batch = RecordBatch::try_new(Arc::clone(writer.schema()), batch.columns().to_vec())?;
                writer.write_rows(&batch).await?;
            }
        }
        message.new_files = writer.finish().await?;
        Ok(message)
    }

    /// The rows that stay of `files`, with their ids where the table has them.
    async fn scan(&self, files: Vec<PlannedFile>, tracked: bool) -> Result<LakeScanExec> {
        let table = self.run.target().table();
        let columns = if tracked { SystemColumns::RowIds } else { SystemColumns::None };
        let mut plan =
            ScanPlan { snapshot: self.snapshot.clone(), counters: PlanCounters::default(), ..ScanPlan::default() };
        for file in files {
            if tracked {
                let first_row_id = file.file.first_row_id().and_then(|id| u64::try_from(id).ok());
                plan.groups.push(ColumnGroup { rows: file.file.rows(), first_row_id, files: vec![file] });
            } else {
                plan.raw.push(file);
            }
        }
        let plan = Arc::new(plan);
        let runtime = self.context.runtime_env();
        let factory = UnitFactory::try_new(Arc::clone(table), columns, &runtime, self.parquet.as_ref().clone())?;
        let factory = Arc::new(factory);
        let units = factory.units(&plan, None, None).await?;
        Ok(LakeScanExec::new(Arc::clone(table), plan, factory, units, 1, None).ordered(true))
    }
}
