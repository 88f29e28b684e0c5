//! Compaction of append tables (`spec/data.md 6.7`): small files of a bucket become large ones.
//!
//! ```text
//! live files --pick--> tasks: files of one bucket
//!   each task: files, without the rows that deletion vectors mark --> new files (kind COMPACT)
//! deletion vectors of files that stay are written to new index files
//! -> one commit of kind COMPACT; another commit that took a file away makes it give up
//! ```
//! Rows of one bucket stay in their order where the table promises one. Rows with ids keep them: the new files have them as
//! columns.
//!
//! May import: `error`, `options`, `spec`, `store`, `format`, `table`, `plan`, `read`, `write`, `commit`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::TaskContext;
use futures::{Stream, StreamExt, TryStreamExt};

use super::append_pick::{Limits, Piece, pick_batch, pick_bucketed, pick_full_bucketed};
use super::append_rows::open;
use super::append_sort::{SortBy, sorted};
use super::partitions_of;
use crate::commit::{CommitOutcome, Committable, TableCommit, outcome_is_unknown};
use crate::error::{Error, Result};
use crate::options::{MemorySize, WriteOptions};
use crate::plan::live::{LiveRequest, PartitionPredicate, index_entries, live_files, unlisted};
use crate::plan::{Partition, PlannedFile};
use crate::spec::deletion_vector::{DeletionVector, write_index_file};
use crate::spec::types::row_id_fields;
use crate::spec::{DataField, DataFileMeta, FileSource, IndexEntry, Snapshot, TypeKind};
use crate::table::Table;
use crate::write::{CommitMessage, DataFileContext, FileKind, OwnFiles, RollingWriter};

const DELETION_VECTORS: &str = "DELETION_VECTORS";

/// Which files of an append table are compacted.
#[derive(Clone, Default)]
pub struct AppendRequest {
    /// Partitions; `None` for all.
    pub partitions: Option<PartitionPredicate>,
    /// Buckets; `None` for all.
    pub buckets: Option<BTreeSet<i32>>,
    /// Only partitions that got no file for so long before the time that is given with it, a wall clock of writers in epoch
    /// milliseconds.
    pub idle: Option<(Duration, i64)>,
    /// Whether only what is due is compacted, as a writer would, in a table with buckets; else as much as there is of each.
    pub minor: bool,
    /// Whether two small files are enough to be packed, however many `compaction.min.file-num` asks for.
    pub any_number: bool,
    /// Bytes that are read at most, in all tasks together.
    pub most_bytes: Option<u64>,
    /// What all rows of a partition are sorted by; all its files are written anew then.
    pub sort: Option<SortBy>,
}

impl fmt::Debug for AppendRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendRequest")
            .field("buckets", &self.buckets)
            .field("idle", &self.idle)
            .field("minor", &self.minor)
            .field("any_number", &self.any_number)
            .field("most_bytes", &self.most_bytes)
            .field("sort", &self.sort)
            .finish_non_exhaustive()
    }
}

/// What a compaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppendCompacted {
    /// Files that were read and are gone, and their bytes.
    pub before: (u64, u64),
    /// Files that were written, and their bytes.
    pub after: (u64, u64),
    /// The commit; no snapshot when nothing was due.
    pub outcome: CommitOutcome,
}

/// Compacts an append table and commits what came of it (kind COMPACT). Nothing happens when nothing is due.
///
/// Others may write the table meanwhile. When another commit took away what this one read, nothing is committed and its files
/// are removed: compact again.
///
/// # Errors
/// Invalid for a table with a primary key, unsupported for one whose rows are spread over files with different columns,
/// conflict as above, errors of reading and writing files.
pub async fn compact_append(
    table: &Arc<Table>,
    request: &AppendRequest,
    context: &Arc<TaskContext>,
) -> Result<AppendCompacted> {
    let own = OwnFiles::new(Arc::clone(table.files()));
    let result = Box::pin(compact_owning(table, request, context, &own)).await;
    if result.as_ref().is_err_and(|error| !outcome_is_unknown(error)) {
        own.remove().await;
    }
    result.map_err(|error| if error.context().iter().any(|(key, _)| *key == "table") { error } else { table.at(error) })
}

/// Files of one bucket that become others.
struct Task {
    partition: Arc<Partition>,
    bucket: i32,
    files: Vec<PlannedFile>,
}

async fn compact_owning(
    table: &Arc<Table>,
    request: &AppendRequest,
    context: &Arc<TaskContext>,
    own: &Arc<OwnFiles>,
) -> Result<AppendCompacted> {
    check(table)?;
    if request.sort.is_some() && table.settings().bucket > 0 {
        return Err(Error::invalid("rows of a table with buckets stay in the order in which they were written"));
    }
    let Some(snapshot) = table.snapshots().latest().await? else { return Ok(AppendCompacted::default()) };
    let wanted = LiveRequest { partitions: request.partitions.clone(), deletions: true, ..LiveRequest::default() };
    let files = Box::pin(live_files(table, &snapshot, wanted)).await?;
    let tasks = tasks_of(table, files, request)?;
    if tasks.is_empty() {
        return Ok(AppendCompacted::default());
    }
    let mut done = rewrite_all(table, tasks, request.sort.as_ref(), own, context)?;
    let mut compacted = AppendCompacted::default();
    let mut messages: Vec<CommitMessage> = Vec::new();
    while let Some(message) = done.try_next().await? {
        let sum = |files: &[DataFileMeta]| {
            (files.len() as u64, files.iter().map(|file| file.file_size.max(0) as u64).sum::<u64>())
        };
        let (before, after) = (sum(&message.compact_before), sum(&message.compact_after));
        compacted.before = (compacted.before.0 + before.0, compacted.before.1 + before.1);
        compacted.after = (compacted.after.0 + after.0, compacted.after.1 + after.1);
        messages.push(message);
    }
    drop(done);
    add_vectors(table, &snapshot, &mut messages, own).await?;
    let commit = TableCommit::new(Arc::clone(table), TableCommit::new_user(table)?)?.owning(Arc::clone(own));
    compacted.outcome = Box::pin(commit.commit(Committable::batch(messages))).await?;
    Ok(compacted)
}

/// Compacts the buckets that a writer has added files to, as far as it is due (`spec/data.md 6.7`), and adds what came of it to
/// the messages of the writer; see [`after_write`](super::after_write).
pub(super) async fn after_write(
    table: &Arc<Table>,
    messages: &mut [CommitMessage],
    replaces: bool,
    context: &Arc<TaskContext>,
    own: &Arc<OwnFiles>,
) -> Result<()> {
    // A statement that takes rows out tells of files and vectors that the table does not have yet: the next one compacts.
    let is_wanted = |message: &CommitMessage| {
        let changes = message.deleted_files.len() + message.new_index_files.len() + message.deleted_index_files.len();
        message.bucket >= 0 && !message.new_files.is_empty() && changes == 0
    };
    let places: HashMap<(Vec<u8>, i32), usize> = messages
        .iter()
        .enumerate()
        .filter(|(_, message)| is_wanted(message))
        .map(|(place, message)| ((message.partition.clone(), message.bucket), place))
        .collect();
    if places.is_empty() || check(table).is_err() {
        return Ok(());
    }
    let snapshot = if replaces { None } else { table.snapshot(None).await? };
    let mut files = Vec::new();
    if let Some(snapshot) = &snapshot {
        let partitions = partitions_of(places.values().map(|place| &messages[*place]));
        let request = LiveRequest { partitions: Some(partitions), deletions: true, ..LiveRequest::default() };
        files = Box::pin(live_files(table, snapshot, request)).await?;
        files.retain(|file| places.contains_key(&(file.file.partition().to_vec(), file.file.bucket())));
    }
    for place in places.values() {
        let message = &messages[*place];
        let partition: Arc<[u8]> = Arc::from(message.partition.as_slice());
        let total = message.total_buckets.unwrap_or_else(|| table.settings().bucket);
        files.extend(unlisted(table, &partition, message.bucket, total, &message.new_files)?);
    }
    let tasks = tasks_of(table, files, &AppendRequest { minor: true, ..AppendRequest::default() })?;
    if tasks.is_empty() {
        return Ok(());
    }
    let mut done: Vec<CommitMessage> = rewrite_all(table, tasks, None, own, context)?.try_collect().await?;
    if let Some(snapshot) = &snapshot {
        add_vectors(table, snapshot, &mut done, own).await?;
    }
    for compacted in done {
        let Some(place) = places.get(&(compacted.partition.clone(), compacted.bucket)) else { continue };
        let message = &mut messages[*place];
        message.compact_before = compacted.compact_before;
        message.compact_after = compacted.compact_after;
        message.compact_new_index_files = compacted.compact_new_index_files;
        message.compact_deleted_index_files = compacted.compact_deleted_index_files;
    }
    Ok(())
}

/// Does tasks, several at once; a message for each.
fn rewrite_all(
    table: &Arc<Table>,
    tasks: Vec<Task>,
    sort: Option<&SortBy>,
    own: &Arc<OwnFiles>,
    context: &Arc<TaskContext>,
) -> Result<impl Stream<Item = Result<CommitMessage>> + Unpin + use<>> {
    let options = Arc::new(WriteOptions::new(table.settings(), false)?);
    let width = context.session_config().target_partitions().max(1);
    let (table, context, own, sort) = (Arc::clone(table), Arc::clone(context), Arc::clone(own), sort.cloned());
    let run = move |task| {
        let (table, context) = (Arc::clone(&table), Arc::clone(&context));
        let (own, options, sort) = (Arc::clone(&own), Arc::clone(&options), sort.clone());
        async move {
            let work = SpawnedTask::spawn(async move {
                Box::pin(rewrite(&table, task, &options, sort.as_ref(), &own, &context)).await
            });
            work.join().await.map_err(|error| Error::internal("a compaction ended early").with_source(error))?
        }
    };
    Ok(Box::pin(futures::stream::iter(tasks).map(run).buffer_unordered(width)))
}

/// Refuses what can't be compacted here.
fn check(table: &Table) -> Result<()> {
    if table.schema().has_primary_key() {
        return Err(Error::invalid("a table with a primary key is compacted level by level"));
    }
    if table.settings().data_evolution {
        return Err(Error::unsupported(
            "a table with data evolution has rows whose columns lie in several files; compact it with another engine",
        ));
    }
    if let Some(blob) = table.schema().fields.iter().find(|field| field.data_type.kind == TypeKind::Blob) {
        return Err(Error::unsupported(format!("the BLOB column {} can't be written anew", blob.name)));
    }
    Ok(())
}

/// What is due, bucket by bucket.
fn tasks_of(table: &Table, files: Vec<PlannedFile>, request: &AppendRequest) -> Result<Vec<Task>> {
    let options = table.settings();
    let bytes = |key| Ok::<_, Error>(options.value::<MemorySize>(key)?.map(|size| size.0));
    let limits = Limits {
        target: bytes("target-file-size")?.unwrap_or(256 << 20),
        small: options.value::<f64>("compaction.small-file-ratio")?.unwrap_or(0.7),
        open_cost: options.split_open_file_cost,
        least: match request.any_number {
            true => 2,
            false => options.value::<i32>("compaction.min.file-num")?.map_or(5, |count| count.max(1) as usize),
        },
        deleted: options.value::<f64>("compaction.delete-ratio-threshold")?.unwrap_or(0.2),
    };
    let with_buckets = options.bucket > 0;
    let mut buckets: HashMap<(Arc<[u8]>, i32), Vec<PlannedFile>> = HashMap::new();
    for file in files {
        let bucket = file.file.bucket();
        if request.buckets.as_ref().is_none_or(|wanted| wanted.contains(&bucket)) {
            buckets.entry((Arc::clone(&file.partition.row), bucket)).or_default().push(file);
        }
    }
    if let Some((idle, now)) = request.idle {
        let limit = now.saturating_sub(i64::try_from(idle.as_millis()).unwrap_or(i64::MAX));
        let mut youngest: HashMap<Arc<[u8]>, i64> = HashMap::new();
        for ((partition, _), files) in &buckets {
            let created = files.iter().map(|file| file.file.entries.creation_time[file.file.row as usize]).max();
            let known = youngest.entry(Arc::clone(partition)).or_insert(i64::MIN);
            *known = (*known).max(created.unwrap_or(i64::MIN));
        }
        buckets.retain(|(partition, _), _| youngest.get(partition).is_none_or(|created| *created < limit));
    }
    let mut ordered: Vec<_> = buckets.into_iter().collect();
    ordered.sort_by(|a, b| a.0.cmp(&b.0));
    let mut tasks = Vec::new();
    let mut left = request.most_bytes.unwrap_or(u64::MAX);
    for ((_, bucket), mut files) in ordered {
        files.sort_by(|a, b| {
            a.file.sequence_numbers().cmp(&b.file.sequence_numbers()).then(a.file.cmp_by_name(&b.file))
        });
        let pieces: Vec<Piece> = files.iter().map(piece).collect();
        let picked = match (with_buckets, request.minor) {
            _ if request.sort.is_some() => vec![(0..files.len()).collect()],
            (false, _) => pick_batch(&pieces, &limits),
            (true, true) => pick_bucketed(&pieces, &limits).into_iter().collect(),
            (true, false) => pick_full_bucketed(&pieces, &limits).into_iter().collect(),
        };
        for indexes in picked {
            let bytes: u64 = indexes.iter().map(|index| pieces[*index].bytes).sum();
            if bytes > left {
                continue;
            }
            left -= bytes;
            let files: Vec<PlannedFile> = indexes.into_iter().map(|index| files[index].clone()).collect();
            let Some(first) = files.first() else { continue };
            tasks.push(Task { partition: Arc::clone(&first.partition), bucket, files });
        }
    }
    Ok(tasks)
}

fn piece(file: &PlannedFile) -> Piece {
    Piece {
        bytes: file.file.size(),
        rows: file.file.rows(),
        deleted: file.deletion.as_ref().map(|deletion| {
            // Old writers did not say how many: as good as none.
            deletion.range.cardinality.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
        }),
        index: file.deletion.as_ref().map(|deletion| deletion.path.to_string()),
    }
}

/// Writes the rows of a task's files to new ones.
async fn rewrite(
    table: &Arc<Table>,
    task: Task,
    options: &Arc<WriteOptions>,
    sort: Option<&SortBy>,
    own: &Arc<OwnFiles>,
    context: &Arc<TaskContext>,
) -> Result<CommitMessage> {
    let row = Arc::clone(&task.partition.row);
    let pool = Arc::clone(context.memory_pool());
    let files = DataFileContext::new(table, Arc::clone(options), Arc::clone(&row), task.bucket, Arc::clone(own), pool)?;
    let columns: Option<Arc<[DataField]>> = table
        .settings()
        .row_tracking
        .then(|| table.schema().fields.iter().cloned().chain(row_id_fields()).collect::<Vec<_>>().into());
    let first_sequence = task.files.first().map_or(0, |file| file.file.sequence_numbers().0);
    let wanted: Arc<[DataField]> = match &columns {
        Some(columns) => Arc::clone(columns),
        None => table.schema().fields.as_slice().into(),
    };
    let kind = FileKind::Append { source: FileSource::Compact, first_sequence, columns };
    let mut writer = RollingWriter::new(files, kind)?;
    let batch_size = context.session_config().batch_size();
    let schema = Arc::clone(writer.schema());
    if let Some(by) = sort {
        let mut rows = sorted(table, task.files.clone(), &wanted, &schema, by, context)?;
        while let Some(batch) = rows.try_next().await? {
            writer.write_rows(&batch).await?;
        }
    }
    for file in task.files.iter().filter(|_| sort.is_none()) {
        let mut rows = Box::pin(open(table, file, &wanted, &schema, batch_size)).await?;
        while let Some(batch) = rows.try_next().await? {
            writer.write_rows(&batch).await?;
        }
    }
    let total = task.files.first().map(|file| file.file.total_buckets());
    Ok(CommitMessage {
        partition: row.to_vec(),
        bucket: task.bucket,
        total_buckets: total,
        compact_before: task.files.iter().map(|file| DataFileMeta::from(&file.file)).collect(),
        compact_after: writer.finish().await?,
        ..CommitMessage::default()
    })
}

/// Adds what becomes of the deletion vectors: index files with a vector of a file that is gone are replaced by ones with the
/// others.
async fn add_vectors(
    table: &Arc<Table>,
    snapshot: &Snapshot,
    messages: &mut [CommitMessage],
    own: &Arc<OwnFiles>,
) -> Result<()> {
    let gone: HashSet<(Vec<u8>, i32, String)> = messages
        .iter()
        .flat_map(|message| {
            let place = (&message.partition, message.bucket);
            message.compact_before.iter().map(move |file| (place.0.clone(), place.1, file.file_name.clone()))
        })
        .collect();
    let names = uuid::Uuid::new_v4();
    let mut count = 0;
    for entry in index_entries(table, snapshot).await?.iter().filter(|entry| entry.index_type == DELETION_VECTORS) {
        let Some(ranges) = &entry.dv_ranges else { continue };
        let is_gone = |name: &str| gone.contains(&(entry.partition.to_vec(), entry.bucket, name.to_owned()));
        if !ranges.iter().any(|range| is_gone(&range.data_file)) {
            continue;
        }
        let Some(message) = messages
            .iter_mut()
            .find(|message| *message.partition == *entry.partition && message.bucket == entry.bucket)
        else {
            continue;
        };
        message.compact_deleted_index_files.push(entry.clone());
        let kept: Vec<_> = ranges.iter().filter(|range| !is_gone(&range.data_file)).collect();
        // A table with buckets has an index file for each, empty when no vector is left.
        if kept.is_empty() && table.settings().bucket <= 0 {
            continue;
        }
        let vectors = read_vectors(table, entry, &kept).await?;
        let (bytes, ranges) = write_index_file(vectors.iter().map(|(name, vector)| (name.as_str(), vector)))?;
        let name = format!("index-{names}-{count}");
        count += 1;
        let path = table.files().index_path(&folder_of(table, entry)?, entry.bucket, &name, None)?;
        own.add(path.clone());
        let size = bytes.len();
        if !table.files().create(&path, bytes).await? {
            return Err(Error::internal("a new index file is there already").with("file", name));
        }
        message.compact_new_index_files.push(IndexEntry {
            file_name: name,
            file_size: i64::try_from(size).unwrap_or(i64::MAX),
            row_count: i64::try_from(ranges.len()).unwrap_or(i64::MAX),
            dv_ranges: Some(ranges),
            external_path: None,
            ..entry.clone()
        });
    }
    Ok(())
}

fn folder_of(table: &Table, entry: &IndexEntry) -> Result<String> {
    let (schema, options) = (table.schema(), table.settings());
    crate::spec::partition::partition_path(
        &entry.partition,
        &schema.partition_fields(),
        options.partition_legacy_name,
        &options.partition_default_name,
    )
}

async fn read_vectors(
    table: &Table,
    entry: &IndexEntry,
    kept: &[&crate::spec::DvRange],
) -> Result<Vec<(String, DeletionVector)>> {
    let path = table.files().index_path(
        &folder_of(table, entry)?,
        entry.bucket,
        &entry.file_name,
        entry.external_path.as_deref(),
    )?;
    let bytes = table.files().read(&path).await?;
    let at = |error: Error| error.with("index file", entry.file_name.clone());
    kept.iter()
        .map(|range| {
            let start = usize::try_from(range.offset).unwrap_or(usize::MAX);
            let record = bytes.get(start..).ok_or_else(|| at(Error::corrupt("the index file ends too early")))?;
            let length = u64::try_from(range.length).unwrap_or(0);
            Ok((range.data_file.clone(), DeletionVector::parse(record, length).map_err(at)?))
        })
        .collect()
}
