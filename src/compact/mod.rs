//! Compaction: files are written anew so that there are fewer of them. Append tables: [`append`], [`append_sort`]. Key tables:
//! sorted runs are merged, level by level, and what changed is told (`spec/data.md 6`, `7`, `9.2`).
//!
//! ```text
//! live files of a bucket --levels.rs--> runs --pick.rs--> unit: which runs, to which level
//!   unit --bucket.rs--> files that only change their level, and sections to be written anew
//!   sections --rewrite.rs: source.rs, window.rs, merge.rs--> files, changelog files, deletion vectors (vectors.rs)
//!   -> CommitMessage.compact_*, committed as COMPACT
//! ```
//!
//! [`compact`] compacts a key table by itself; [`after_write`] what a writer has just written to a key table or to the buckets of an
//! append table, so that both are committed together.
//!
//! May import: `error`, `options`, `spec`, `store`, `format`, `table`, `plan`, `read`, `write`, `commit`.

pub mod append;
mod append_pick;
mod append_rows;
pub mod append_sort;
mod bucket;
mod expire;
mod levels;
mod merge;
mod pick;
mod postpone;
mod rewrite;
mod rules;
mod source;
mod vectors;
mod window;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::TaskContext;
use futures::{StreamExt, TryStreamExt};

use self::bucket::BucketFiles;
use self::rules::Rules;
use self::vectors::DELETION_VECTORS;
use crate::commit::{CommitOutcome, Committable, TableCommit};
use crate::error::{Error, Result};
use crate::options::ChangelogProducer;
use crate::plan::live::{LiveRequest, PartitionPredicate, index_entries, live_files, unlisted};
use crate::spec::{IndexEntry, Snapshot};
use crate::table::Table;
use crate::write::{CommitMessage, OwnFiles, POSTPONE_BUCKET};

/// What is compacted of a table.
#[derive(Clone, Default)]
pub struct CompactRequest {
    /// Partitions; `None` for all.
    pub partitions: Option<PartitionPredicate>,
    /// Buckets; `None` for all.
    pub buckets: Option<BTreeSet<i32>>,
    /// Only partitions that got no file for so long.
    pub idle: Option<Duration>,
    /// Whether only what is due is compacted, as a writer would; else everything of a bucket.
    pub minor: bool,
}

impl fmt::Debug for CompactRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactRequest")
            .field("buckets", &self.buckets)
            .field("idle", &self.idle)
            .field("minor", &self.minor)
            .finish_non_exhaustive()
    }
}

/// Compacts a key table and commits what came of it (kind COMPACT). No snapshot when nothing is due.
///
/// Others may write the table meanwhile. When another compaction or overwrite took away what this one read, nothing is
/// committed and its files are removed: compact again.
///
/// # Errors
/// Unsupported for tables that can't be written, conflict as above, errors of reading and writing files.
pub async fn compact(table: &Arc<Table>, request: CompactRequest, context: &Arc<TaskContext>) -> Result<CommitOutcome> {
    let own = OwnFiles::new(Arc::clone(table.files()));
    let result = Box::pin(compact_owning(table, request, context, &own)).await;
    if result.as_ref().is_err_and(|error| !crate::commit::outcome_is_unknown(error)) {
        own.remove().await;
    }
    result
}

async fn compact_owning(
    table: &Arc<Table>,
    request: CompactRequest,
    context: &Arc<TaskContext>,
    own: &Arc<OwnFiles>,
) -> Result<CommitOutcome> {
    let rules = Arc::new(Rules::new(table, context, own)?);
    let Some(snapshot) = table.snapshot(None).await? else { return Ok(CommitOutcome::default()) };
    if table.settings().bucket == POSTPONE_BUCKET {
        // A bucket that gets rows is compacted as after any write.
        let messages = Box::pin(postpone::place(&rules, &snapshot, request.partitions)).await;
        return commit(table, messages.map_err(|error| table.at(error))?, own).await;
    }
    let mut buckets = buckets_of(table, &snapshot, request.partitions).await.map_err(|error| table.at(error))?;
    buckets.retain(|bucket| request.buckets.as_ref().is_none_or(|wanted| wanted.contains(&bucket.bucket)));
    if let Some(idle) = request.idle {
        buckets = idle_buckets(buckets, idle);
    }
    let jobs = buckets.into_iter().map(|bucket| (bucket.message(), bucket)).collect();
    let looked_up = rules.looks_up.then_some(snapshot.id);
    let mut messages = compact_all(rules, jobs, !request.minor).await.map_err(|error| table.at(error))?;
    messages.iter_mut().for_each(|message| message.compact_looked_up = looked_up);
    commit(table, messages, own).await
}

/// Commits compactions; no snapshot where nothing was compacted.
async fn commit(table: &Arc<Table>, messages: Vec<CommitMessage>, own: &Arc<OwnFiles>) -> Result<CommitOutcome> {
    let messages: Vec<CommitMessage> = messages.into_iter().filter(|message| !message.is_empty()).collect();
    if messages.is_empty() {
        return Ok(CommitOutcome::default());
    }
    let user = TableCommit::new_user(table)?;
    let commit = TableCommit::new(Arc::clone(table), user)?.owning(Arc::clone(own));
    Box::pin(commit.commit(Committable::batch(messages))).await
}

/// The partitions that messages of a writer are about.
fn partitions_of<'a>(messages: impl Iterator<Item = &'a CommitMessage>) -> PartitionPredicate {
    let touched: HashSet<Vec<u8>> = messages.map(|message| message.partition.clone()).collect();
    Arc::new(move |rows: &[Arc<[u8]>]| Ok(rows.iter().map(|row| touched.contains(&**row)).collect()))
}

/// Compacts the buckets that a writer has added files to, as far as it is due, and adds what came of it to the messages of the
/// writer. `replaces`: the new files take the place of all others. `own` are the writer's files, and those of the compaction
/// are added to them.
///
/// # Errors
/// As [`compact`], but for conflicts.
pub async fn after_write(
    table: &Arc<Table>,
    messages: &mut [CommitMessage],
    replaces: bool,
    context: &Arc<TaskContext>,
    own: &Arc<OwnFiles>,
) -> Result<()> {
    if !is_due_after_writes(table)? {
        return Ok(());
    }
    if !table.schema().has_primary_key() {
        let compacted = Box::pin(append::after_write(table, messages, replaces, context, own)).await;
        return compacted.map_err(|error| table.at(error));
    }
    let is_wanted = |message: &CommitMessage| message.bucket >= 0 && !message.new_files.is_empty();
    if !messages.iter().any(is_wanted) {
        return Ok(());
    }
    let mut rules = Rules::new(table, context, own)?;
    if replaces {
        // Overwrites tell no changes (`spec/metadata.md 7.2`).
        rules.producer = ChangelogProducer::None;
    }
    let rules = Arc::new(rules);
    let mut known: HashMap<(Arc<[u8]>, i32), BucketFiles> = HashMap::new();
    let snapshot = if replaces { None } else { table.snapshot(None).await? };
    let looked_up = (rules.looks_up && !replaces).then(|| snapshot.as_ref().map_or(0, |snapshot| snapshot.id));
    if let Some(snapshot) = snapshot {
        let partitions = partitions_of(messages.iter().filter(|message| is_wanted(message)));
        let found = buckets_of(table, &snapshot, Some(partitions)).await.map_err(|error| table.at(error))?;
        known.extend(found.into_iter().map(|files| ((Arc::clone(&files.partition.row), files.bucket), files)));
    }
    let mut places = Vec::new();
    let mut jobs = Vec::new();
    for (place, message) in messages.iter().enumerate().filter(|(_, message)| is_wanted(message)) {
        let partition: Arc<[u8]> = Arc::from(message.partition.as_slice());
        let total = message.total_buckets.unwrap_or_else(|| table.settings().bucket);
        let new = unlisted(table, &partition, message.bucket, total, &message.new_files)?;
        let mut bucket = match known.remove(&(Arc::clone(&partition), message.bucket)) {
            Some(bucket) => bucket,
            None => {
                let described = new.first().map(|file| Arc::clone(&file.partition));
                let partition = described.ok_or_else(|| Error::internal("a message without its files"))?;
                BucketFiles { partition, bucket: message.bucket, total_buckets: total, files: Vec::new(), index: None }
            }
        };
        bucket.files.extend(new);
        places.push(place);
        jobs.push((message.clone(), bucket));
    }
    let full = compacts_fully(table);
    let done = compact_all(rules, jobs, full).await.map_err(|error| table.at(error))?;
    for (place, mut message) in places.into_iter().zip(done) {
        message.compact_looked_up = looked_up.filter(|_| !message.has_no_compaction());
        messages[place] = message;
    }
    Ok(())
}

/// Whether a writer of the table compacts what it has written: rows with keys, and those of append tables with buckets.
pub(crate) fn is_due_after_writes(table: &Table) -> Result<bool> {
    let options = table.settings();
    let write_only = options.value::<bool>("write-only")?.unwrap_or(false);
    let has_buckets = table.schema().has_primary_key() || options.bucket > 0;
    Ok(has_buckets && !write_only && !options.pk_clustering_override)
}

/// Whether a writer compacts all of a bucket (`spec/data.md 7.4`).
fn compacts_fully(table: &Table) -> bool {
    let options = table.settings();
    options.changelog_producer == ChangelogProducer::FullCompaction || options.full_compaction_delta_commits.is_some()
}

/// The buckets of partitions whose newest file is at least so old.
fn idle_buckets(buckets: Vec<BucketFiles>, idle: Duration) -> Vec<BucketFiles> {
    let now = chrono::Local::now().naive_local().and_utc().timestamp_millis();
    let until = now.saturating_sub(i64::try_from(idle.as_millis()).unwrap_or(i64::MAX));
    let created = |bucket: &BucketFiles| {
        bucket.files.iter().map(|file| file.file.entries.creation_time[file.file.row as usize]).max()
    };
    let busy: HashSet<Arc<[u8]>> = buckets
        .iter()
        .filter(|bucket| created(bucket).is_some_and(|created| created > until))
        .map(|bucket| Arc::clone(&bucket.partition.row))
        .collect();
    buckets.into_iter().filter(|bucket| !busy.contains(&bucket.partition.row)).collect()
}

/// Compacts buckets, several at once; their messages in the same order.
async fn compact_all(
    rules: Arc<Rules>,
    jobs: Vec<(CommitMessage, BucketFiles)>,
    full: bool,
) -> Result<Vec<CommitMessage>> {
    let tasks = rules.context.session_config().target_partitions().max(1);
    let run = |(mut message, bucket): (CommitMessage, BucketFiles)| {
        let rules = Arc::clone(&rules);
        async move {
            let task = SpawnedTask::spawn(async move {
                let at = |error: Error| {
                    error.with("bucket", bucket.bucket.to_string()).with("partition", bucket.partition.path.clone())
                };
                Box::pin(bucket::compact(&rules, &bucket, full, &mut message)).await.map_err(at)?;
                Ok::<_, Error>(message)
            });
            task.join().await.map_err(|error| Error::internal("a compacting task failed").with_source(error))?
        }
    };
    futures::stream::iter(jobs).map(run).buffered(tasks).try_collect().await
}

/// The live files of a snapshot, bucket by bucket, with their deletion vectors.
async fn buckets_of(
    table: &Arc<Table>,
    snapshot: &Snapshot,
    partitions: Option<PartitionPredicate>,
) -> Result<Vec<BucketFiles>> {
    let mut vectors: HashMap<(Arc<[u8]>, i32), IndexEntry> = HashMap::new();
    if table.settings().deletion_vectors_enabled {
        for entry in index_entries(table, snapshot).await?.iter().filter(|entry| entry.index_type == DELETION_VECTORS) {
            vectors.insert((Arc::clone(&entry.partition), entry.bucket), entry.clone());
        }
    }
    let request = LiveRequest { partitions, deletions: true, postponed: false };
    let mut places: HashMap<(Arc<[u8]>, i32), usize> = HashMap::new();
    let mut buckets: Vec<BucketFiles> = Vec::new();
    for planned in Box::pin(live_files(table, snapshot, request)).await? {
        let place = (Arc::clone(planned.file.partition()), planned.file.bucket());
        let index = *places.entry(place.clone()).or_insert_with(|| {
            buckets.push(BucketFiles {
                partition: Arc::clone(&planned.partition),
                bucket: planned.file.bucket(),
                total_buckets: planned.file.total_buckets(),
                files: Vec::new(),
                index: vectors.remove(&place),
            });
            buckets.len() - 1
        });
        buckets[index].files.push(planned);
    }
    Ok(buckets)
}
