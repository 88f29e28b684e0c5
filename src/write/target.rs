//! What is written to: a table, how its rows find their place, and what one run of a write shares.
//!
//! May import: `error`, `options`, `plan`, `read`, `spec`, `table`, rest of this room.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::assign::{Assigner, DynamicBuckets};
use super::check::RowCheck;
use super::data_file::check_files;
use super::default::default_value;
use super::existing::ExistingBuckets;
use super::mode::{BucketMode, check_writable};
use super::row_changes::RowChanges;
use super::{CommitMessage, DataFileContext, FileKind, OwnFiles, RollingWriter};
use crate::error::{Error, Result};
use crate::options::{ChangelogProducer, MergeEngine, WriteOptions};
use crate::spec::partition::{partition_path, partition_spec};
use crate::spec::types::{ROW_ID, SEQUENCE_NUMBER, row_id_fields};
use crate::spec::{DataField, DataType, FileSource, Snapshot};
use crate::table::Table;

/// Position of a row among all rows of a write; sequence numbers follow it.
pub(crate) const ORDINAL: &str = "_ORDINAL";
/// The row kind (`spec/data.md 1.2`).
pub(crate) const KIND: &str = "_VALUE_KIND";
/// The bucket.
pub(crate) const BUCKET: &str = "_BUCKET";

/// A table that is written to, with everything that does not change from run to run.
pub struct WriteTarget {
    table: Arc<Table>,
    mode: BucketMode,
    /// Whether what is written takes the place of all that lies in its partitions.
    replaces: bool,
    check: RowCheck,
    /// Whether the input has a column of row kinds behind the table's columns.
    with_kinds: bool,
    /// Whether the input has the ids of rows behind them, for rows that have one already.
    with_ids: bool,
    rows: SchemaRef,
    options: Arc<WriteOptions>,
    /// Who writes, as names of postponed files tell.
    user: String,
}

impl fmt::Debug for WriteTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteTarget")
            .field("table", self.table.identifier())
            .field("mode", &self.mode)
            .field("replaces", &self.replaces)
            .finish_non_exhaustive()
    }
}

impl WriteTarget {
    /// The table as a target. `with_kinds`: the input brings a column of row kinds (INT8, `spec/data.md 1.2`) behind the
    /// columns of the table. `replaces`: the rows take the place of all that lies in their partitions.
    /// `user` is who will commit.
    ///
    /// # Errors
    /// Unsupported for tables that can't be written, invalid when their options contradict each other.
    pub fn try_new(table: Arc<Table>, replaces: bool, with_kinds: bool, user: &str) -> Result<Arc<Self>> {
        Self::build(table, replaces, with_kinds, false, user)
    }

    /// An append table as a target of rows that bring their ids, `_ROW_ID` and `_SEQUENCE_NUMBER`, behind all other columns.
    /// Rows without one get theirs at the commit, as ever.
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub(crate) fn taking_ids(table: Arc<Table>, user: &str) -> Result<Arc<Self>> {
        Self::build(table, false, false, true, user)
    }

    fn build(table: Arc<Table>, replaces: bool, with_kinds: bool, with_ids: bool, user: &str) -> Result<Arc<Self>> {
        check_writable(&table)?;
        let named = |error: Error| table.at(error);
        let mode = BucketMode::of(&table).map_err(named)?;
        let check = RowCheck::try_new(table.schema(), default_value).map_err(named)?;
        let mut fields: Vec<Arc<Field>> = check.schema().fields().iter().map(Arc::clone).collect();
        fields.push(Arc::new(Field::new(KIND, ArrowType::Int8, false)));
        fields.push(Arc::new(Field::new(ORDINAL, ArrowType::Int64, false)));
        if with_ids {
            fields.extend([ROW_ID, SEQUENCE_NUMBER].map(|name| Arc::new(Field::new(name, ArrowType::Int64, true))));
        }
        fields.push(Arc::new(Field::new(BUCKET, ArrowType::Int32, false)));
        let rows = Arc::new(Schema::new(fields));
        let has_key = table.schema().has_primary_key();
        let options = Arc::new(WriteOptions::new(table.settings(), has_key).map_err(named)?);
        check_files(&table, &options).map_err(named)?;
        let user = user.to_owned();
        Ok(Arc::new(Self { table, mode, replaces, check, with_kinds, with_ids, rows, options, user }))
    }

    /// A table of postponed buckets as a target of rows that get theirs now: `buckets` of them in a partition. The input brings
    /// row kinds.
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub(crate) fn of_postponed(table: Arc<Table>, buckets: i32, user: &str) -> Result<Arc<Self>> {
        Self::with_buckets(table, buckets, (false, true), user)
    }

    /// A table of postponed buckets as a target of rows that have theirs and get others: they take the place of what lies in
    /// their partitions.
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub(crate) fn of_rescaled(table: Arc<Table>, buckets: i32, user: &str) -> Result<Arc<Self>> {
        Self::with_buckets(table, buckets, (true, false), user)
    }

    fn with_buckets(
        table: Arc<Table>,
        buckets: i32,
        (replaces, with_kinds): (bool, bool),
        user: &str,
    ) -> Result<Arc<Self>> {
        let target = Arc::into_inner(Self::try_new(table, replaces, with_kinds, user)?)
            .ok_or_else(|| Error::internal("a new target is shared"))?;
        let function = target.table.settings().bucket_function;
        Ok(Arc::new(Self { mode: BucketMode::Fixed { buckets, function }, ..target }))
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Who will commit.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// How rows find their bucket.
    pub fn mode(&self) -> BucketMode {
        self.mode
    }

    /// Whether what is written takes the place of all that lies in its partitions.
    pub fn replaces(&self) -> bool {
        self.replaces
    }

    /// Whether the input has a column of row kinds.
    pub(crate) fn with_kinds(&self) -> bool {
        self.with_kinds
    }

    /// Whether the input has the ids of rows.
    pub(crate) fn with_ids(&self) -> bool {
        self.with_ids
    }

    /// The columns of the table, as rows to be written must have them.
    pub fn table_schema(&self) -> &SchemaRef {
        self.check.schema()
    }

    pub(crate) fn check(&self) -> &RowCheck {
        &self.check
    }

    /// The schema of prepared rows: the table's columns, then kind, ordinal, ids where there are any, and bucket.
    pub(crate) fn rows(&self) -> &SchemaRef {
        &self.rows
    }

    /// The number of columns of the table.
    pub(crate) fn width(&self) -> usize {
        self.check.schema().fields().len()
    }

    pub(crate) fn partition_columns(&self) -> Vec<usize> {
        positions(&self.table, &self.table.schema().partition_fields())
    }

    pub(crate) fn key_columns(&self) -> Vec<usize> {
        positions(&self.table, &self.table.schema().trimmed_primary_keys())
    }

    /// The whole primary key, partition columns among it where it names them.
    pub(crate) fn primary_key_columns(&self) -> Vec<usize> {
        let schema = self.table.schema();
        schema.primary_keys.iter().filter_map(|key| schema.index_of(key)).collect()
    }

    pub(crate) fn bucket_key_columns(&self) -> Vec<usize> {
        positions(&self.table, &self.table.schema().bucket_key_fields())
    }

    pub(crate) fn sequence_columns(&self) -> Vec<usize> {
        let schema = self.table.schema();
        self.table.settings().sequence_fields.iter().filter_map(|name| schema.index_of(name)).collect()
    }

    /// Whether rows are sorted by key before they are written.
    pub(crate) fn is_sorted(&self) -> bool {
        self.table.schema().has_primary_key() && self.mode != BucketMode::Postpone
    }

    /// Whether all rows go to one bucket.
    pub(crate) fn is_single_bucket(&self) -> bool {
        self.table.schema().partition_keys.is_empty() && matches!(self.mode, BucketMode::Fixed { buckets: 1, .. })
    }

    /// Whether what lies in the buckets matters: greatest sequence numbers, bucket counts, hash indexes. Keys keep their dynamic
    /// bucket when their rows are replaced.
    fn needs_existing(&self) -> bool {
        match self.mode {
            BucketMode::Unaware | BucketMode::Postpone => false,
            BucketMode::Dynamic => true,
            BucketMode::Fixed { .. } | BucketMode::CrossPartition => !self.replaces,
        }
    }

    /// Whether the raw rows go to changelog files too.
    pub(crate) fn writes_changelog(&self) -> bool {
        self.table.schema().has_primary_key()
            && self.table.settings().changelog_producer == ChangelogProducer::Input
            && self.mode != BucketMode::Postpone
            // Changelog files of an overwrite are not committed (`spec/metadata.md 7.2`).
            && !self.replaces
    }

    /// Whether the first row of a key is the one that stays.
    pub(crate) fn keeps_first(&self) -> bool {
        self.table.settings().merge_engine == MergeEngine::FirstRow
    }

    pub(crate) fn types(&self, columns: &[usize]) -> Vec<DataType> {
        columns.iter().map(|column| self.table.schema().fields[*column].data_type.clone()).collect()
    }

    /// The folder of a partition, below the table's.
    pub(crate) fn partition_path(&self, partition: &[u8]) -> Result<String> {
        let options = self.table.settings();
        let fields = self.table.schema().partition_fields();
        partition_path(partition, &fields, options.partition_legacy_name, &options.partition_default_name)
    }

    /// A partition for messages.
    pub(crate) fn describe_partition(&self, partition: &[u8]) -> String {
        let fields = self.table.schema().partition_fields();
        if fields.is_empty() {
            return "the table".to_owned();
        }
        match partition_spec(partition, &fields, &self.table.settings().partition_default_name) {
            Ok(spec) => format!("partition {spec}"),
            Err(_) => "a partition".to_owned(),
        }
    }
}

fn positions(table: &Table, fields: &[&DataField]) -> Vec<usize> {
    fields.iter().filter_map(|field| table.schema().index_of(&field.name)).collect()
}

/// Keys of each bucket, by partition.
type KeyCounts = HashMap<Arc<[u8]>, HashMap<i32, u64>>;

/// One run of a write: from its first row to its commit.
pub struct WriteRun {
    target: Arc<WriteTarget>,
    own: Arc<OwnFiles>,
    state: OnceCell<RunState>,
    next_ordinal: AtomicI64,
    assigner: Option<tokio::sync::Mutex<Assigner>>,
    /// Keys of each bucket, by partition: of tables whose keys have no index, once all keys were read.
    key_counts: Mutex<KeyCounts>,
    hashes: MemoryReservation,
    changes: RowChanges,
    context: Arc<TaskContext>,
}

#[derive(Clone, Debug, Default)]
struct RunState {
    snapshot: Option<Arc<Snapshot>>,
    existing: ExistingBuckets,
}

/// What a run leaves for the run after it: the sequence numbers and hash indexes of files that may not be committed yet.
#[derive(Debug, Default)]
pub struct RunLegacy(RunState);

impl fmt::Debug for WriteRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteRun").field("target", &self.target).finish_non_exhaustive()
    }
}

impl WriteRun {
    /// Begins a run with the memory and settings of `context`.
    ///
    /// # Errors
    /// Invalid when the options for buckets can't be read.
    pub fn start(target: Arc<WriteTarget>, context: Arc<TaskContext>) -> Result<Arc<Self>> {
        let own = OwnFiles::new(Arc::clone(target.table.files()));
        Self::start_owning(target, context, own)
    }

    /// The same, of files that are somebody's already.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_owning(
        target: Arc<WriteTarget>,
        context: Arc<TaskContext>,
        own: Arc<OwnFiles>,
    ) -> Result<Arc<Self>> {
        Self::new(target, context, own).map(Arc::new)
    }

    fn new(target: Arc<WriteTarget>, context: Arc<TaskContext>, own: Arc<OwnFiles>) -> Result<Self> {
        let assigner = match target.mode {
            BucketMode::Dynamic | BucketMode::CrossPartition => {
                let limits = DynamicBuckets::of(&target.table)?;
                Some(tokio::sync::Mutex::new(Assigner::new(limits, target.replaces)))
            }
            _ => None,
        };
        let hashes = MemoryConsumer::new("LakeDynamicBuckets").register(context.memory_pool());
        let (state, next_ordinal, key_counts) = (OnceCell::new(), AtomicI64::new(0), Mutex::default());
        let changes = RowChanges::new(context.memory_pool());
        Ok(Self { target, own, state, next_ordinal, assigner, key_counts, hashes, changes, context })
    }

    /// Begins a run that comes after another one of the same writer, whose files may not be committed yet.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub fn follow(target: Arc<WriteTarget>, context: Arc<TaskContext>, legacy: RunLegacy) -> Result<Arc<Self>> {
        let own = OwnFiles::new(Arc::clone(target.table.files()));
        let mut run = Self::new(target, context, own)?;
        run.state = OnceCell::new_with(Some(legacy.0));
        Ok(Arc::new(run))
    }

    /// What the next run has to know, with the messages of this one. `None` when the run looked at nothing.
    pub fn legacy(self: Arc<Self>, messages: &[CommitMessage]) -> Option<RunLegacy> {
        // Nodes that are done may not have let go of the run yet.
        let mut state = match Arc::try_unwrap(self) {
            Ok(run) => run.state.into_inner()?,
            Err(run) => run.state.get()?.clone(),
        };
        messages.iter().for_each(|message| state.existing.apply(message));
        Some(RunLegacy(state))
    }

    /// What is written to.
    pub fn target(&self) -> &Arc<WriteTarget> {
        &self.target
    }

    /// The files of the run.
    pub fn own_files(&self) -> &Arc<OwnFiles> {
        &self.own
    }

    /// What a statement that changes rows notes.
    pub(crate) fn changes(&self) -> &RowChanges {
        &self.changes
    }

    pub(crate) fn context(&self) -> &Arc<TaskContext> {
        &self.context
    }

    /// Numbers for `rows` rows, the first of them.
    pub(crate) fn ordinals(&self, rows: usize) -> i64 {
        self.next_ordinal.fetch_add(rows as i64, Ordering::Relaxed)
    }

    async fn state(&self) -> Result<&RunState> {
        let load = || async {
            let table = &self.target.table;
            if !self.target.needs_existing() {
                return Ok(RunState { snapshot: None, existing: ExistingBuckets::default() });
            }
            let snapshot = table.snapshot(None).await?;
            let existing = ExistingBuckets::load(table, snapshot.as_deref(), self.assigner.is_some())
                .await
                .map_err(|e| table.at(e))?;
            Ok(RunState { snapshot, existing })
        };
        self.state.get_or_try_init(load).await
    }

    /// What lies in the buckets, at the snapshot that the run found first.
    pub(crate) async fn existing(&self) -> Result<&ExistingBuckets> {
        Ok(&Box::pin(self.state()).await?.existing)
    }

    /// The snapshot whose buckets the run has looked at; `None` when it did not look, or there was none.
    pub fn read_snapshot(&self) -> Option<i64> {
        Some(self.state.get()?.snapshot.as_ref()?.id)
    }

    /// The id of the snapshot by which new keys got their buckets, 0 where there was none; `None` when they need no look.
    pub(crate) fn keys_read_at(&self) -> Option<i64> {
        // Where rows replace others, keys of partitions that stay matter only.
        let looks = match self.target.mode {
            BucketMode::Dynamic => !self.target.replaces,
            mode => mode == BucketMode::CrossPartition,
        };
        let state = self.state.get().filter(|_| looks)?;
        Some(state.snapshot.as_ref().map_or(0, |snapshot| snapshot.id))
    }

    /// The snapshot that the run works on, the latest when it is first asked for.
    pub(crate) async fn snapshot(&self) -> Result<Option<Arc<Snapshot>>> {
        Ok(Box::pin(self.state()).await?.snapshot.clone())
    }

    fn files_of(&self, partition: &Arc<[u8]>, bucket: i32) -> Result<DataFileContext> {
        let (own, pool) = (Arc::clone(&self.own), Arc::clone(self.context.memory_pool()));
        let options = Arc::clone(&self.target.options);
        DataFileContext::new(&self.target.table, options, Arc::clone(partition), bucket, own, pool)
    }

    /// Writes data files of a key table: level 0, or rows that wait for a bucket.
    pub(super) fn key_writer(&self, partition: &Arc<[u8]>, bucket: i32) -> Result<RollingWriter> {
        let mut files = self.files_of(partition, bucket)?;
        if self.target.mode == BucketMode::Postpone {
            files = files.with_writer(&self.target.user, 0);
        }
        RollingWriter::new(files, FileKind::KeyValue { level: 0, source: FileSource::Append })
    }

    /// Writes the changelog files that come with data files of level 0.
    pub(super) fn changelog_writer(&self, partition: &Arc<[u8]>, bucket: i32) -> Result<RollingWriter> {
        RollingWriter::new(self.files_of(partition, bucket)?, FileKind::Changelog { level: 0 })
    }

    /// Writes data files of an append table.
    pub(super) fn append_writer(&self, partition: &Arc<[u8]>, bucket: i32, first: i64) -> Result<RollingWriter> {
        let kind = FileKind::Append { source: FileSource::Append, first_sequence: first, columns: None };
        RollingWriter::new(self.files_of(partition, bucket)?, kind)
    }

    /// Writes rows of an append table that have ids: `_ROW_ID` and `_SEQUENCE_NUMBER` are columns of the files.
    pub(super) fn id_writer(&self, partition: &Arc<[u8]>, bucket: i32, first: i64) -> Result<RollingWriter> {
        let own = self.target.table.schema().fields.iter().cloned();
        let columns: Arc<[DataField]> = own.chain(row_id_fields()).collect();
        let kind = FileKind::Append { source: FileSource::Append, first_sequence: first, columns: Some(columns) };
        RollingWriter::new(self.files_of(partition, bucket)?, kind)
    }

    /// Writes rows that lie in the bucket already to new files, as they are; with their ids behind the table's columns when
    /// `with_ids`.
    ///
    /// # Errors
    /// Conflict when the bucket is another one by now.
    pub(crate) async fn copy_writer(
        &self,
        partition: &Arc<[u8]>,
        bucket: i32,
        with_ids: bool,
    ) -> Result<RollingWriter> {
        let first = match self.target.mode {
            BucketMode::Unaware => 0,
            _ => Box::pin(self.existing()).await?.next_sequence(partition, bucket),
        };
        if with_ids { self.id_writer(partition, bucket, first) } else { self.append_writer(partition, bucket, first) }
    }

    /// Notes keys that the table holds in a bucket.
    pub(crate) fn add_keys(&self, partition: &[u8], bucket: i32, keys: u64) {
        let mut counts = self.key_counts.lock();
        if !counts.contains_key(partition) {
            counts.insert(Arc::from(partition), HashMap::new());
        }
        if let Some(buckets) = counts.get_mut(partition) {
            *buckets.entry(bucket).or_default() += keys;
        }
    }

    /// The bucket that a new key of a partition gets in a table whose keys have no index (`spec/data.md 3.6`), by how many keys
    /// its buckets hold.
    pub(crate) async fn assign_bucket(&self, partition: &[u8], hash: i32) -> Result<i32> {
        let mut assigner = self.counting_assigner(partition).await?;
        assigner.assign(partition, hash, &self.hashes)
    }

    /// A key has left a bucket, which has room for another.
    pub(crate) async fn release_bucket(&self, partition: &[u8], bucket: i32) -> Result<()> {
        self.counting_assigner(partition).await?.release(partition, bucket);
        Ok(())
    }

    async fn counting_assigner(&self, partition: &[u8]) -> Result<tokio::sync::MutexGuard<'_, Assigner>> {
        let Some(assigner) = &self.assigner else {
            return Err(Error::internal("a write to dynamic buckets has no one who assigns them"));
        };
        let mut assigner = assigner.lock().await;
        if !assigner.knows(partition) {
            let counts = self.key_counts.lock().get(partition).cloned().unwrap_or_default();
            assigner.add_counts(&Arc::from(partition), counts);
        }
        Ok(assigner)
    }

    pub(crate) fn assigner(&self) -> Option<&tokio::sync::Mutex<Assigner>> {
        self.assigner.as_ref()
    }

    pub(crate) fn hash_memory(&self) -> &MemoryReservation {
        &self.hashes
    }
}

/// Where the nodes of a plan find the run they belong to: the node that commits begins one each time it is executed.
#[derive(Debug, Default)]
pub struct RunSlot(Mutex<Option<Arc<WriteRun>>>);

impl RunSlot {
    /// Begins a run.
    ///
    /// # Errors
    /// As [`WriteRun::start`].
    pub fn start(&self, target: &Arc<WriteTarget>, context: Arc<TaskContext>) -> Result<Arc<WriteRun>> {
        let run = WriteRun::start(Arc::clone(target), context)?;
        *self.0.lock() = Some(Arc::clone(&run));
        Ok(run)
    }

    /// Takes a run that was begun elsewhere.
    pub fn set(&self, run: Arc<WriteRun>) {
        *self.0.lock() = Some(run);
    }

    /// Forgets the run.
    pub fn clear(&self) {
        *self.0.lock() = None;
    }

    /// The run that was begun last.
    ///
    /// # Errors
    /// Internal when none was.
    pub fn current(&self) -> Result<Arc<WriteRun>> {
        self.0.lock().clone().ok_or_else(|| Error::internal("a write is executed without the node that commits it"))
    }
}
