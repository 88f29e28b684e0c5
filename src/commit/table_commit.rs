//! The committer of one table: what applications, statements and maintenance hold.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;

use super::base::Base;
use super::changes::{Changes, changes_of};
use super::merge::mergeable;
use super::new_files::{Names, NewFiles};
use super::scope::{OverwriteScope, PartitionSpec, Scope};
use super::source::{Draft, Source};
use super::{BATCH_IDENTIFIER, CommitOutcome, Committable, Operation};
use crate::error::{Error, ErrorKind, Result};
use crate::options::CommitOptions;
use crate::spec::{AvroCodec, CommitKind, Snapshot};
use crate::store::check_conditional_put;
use crate::table::Table;
use crate::write::OwnFiles;

/// Commits to one table on behalf of one user.
///
/// Any number of committers, in any number of processes, may work on a table at once. A commit either is there whole or not
/// at all; where the store did not say which, the error tells ([`super::outcome_is_unknown`]) and nothing is deleted.
#[derive(Debug)]
pub struct TableCommit {
    pub(super) table: Arc<Table>,
    pub(super) user: String,
    pub(super) options: CommitOptions,
    pub(super) codec: AvroCodec,
    pub(super) names: Names,
    /// The data files of the writers.
    pub(super) own: Option<Arc<OwnFiles>>,
    pub(super) ignore_empty: Option<bool>,
    pub(super) check_conflicts: bool,
    pub(super) read_snapshot: Option<i64>,
    /// The snapshot whose keys the rows were given their places by.
    pub(super) known_keys: Option<i64>,
    /// The identifier of what removes rows without writing any.
    identifier: Option<i64>,
    /// Whether an overwrite leaves the rows that were postponed.
    pub(super) spares_postponed: bool,
    /// Whether what is committed changes rows as they were in the snapshot that was read.
    pub(super) changes_rows: bool,
    /// Whether rows are added because the snapshot that was read did not have them.
    pub(super) adds_absent: bool,
    /// What the snapshots of a removal say made them.
    pub(super) operation: Option<Operation>,
    /// Strict mode looks at snapshots after this one (`spec/metadata.md 7.6`).
    pub(super) safe_snapshot: Mutex<Option<i64>>,
    /// The snapshot up to which [`Self::filter_committed`] knows what the user committed.
    pub(super) filtered_at: Mutex<Option<i64>>,
    /// The latest schema that was seen.
    pub(super) schema_id: Mutex<i64>,
    /// Whether the outcome of a commit is unknown.
    pub(super) unknown: AtomicBool,
}

/// Stores that proved to create files only if absent.
static PROVEN_STORES: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);

impl TableCommit {
    /// A committer for `table`. The user is whose commits these are: one that a stream keeps over restarts, or one of its own
    /// for a batch job, as [`Self::new_user`] gives it.
    ///
    /// # Errors
    /// Invalid or unsupported when an option of the table can't be followed.
    pub fn new(table: Arc<Table>, user: impl Into<String>) -> Result<Self> {
        let at = |error| table.at(error);
        let options = CommitOptions::new(table.settings()).map_err(at)?;
        let codec = AvroCodec::parse(&options.manifest_codec, options.zstd_level).map_err(at)?;
        Ok(Self {
            user: user.into(),
            codec,
            names: Names::new(),
            own: None,
            ignore_empty: options.ignore_empty,
            check_conflicts: false,
            read_snapshot: None,
            known_keys: None,
            identifier: None,
            spares_postponed: false,
            changes_rows: false,
            adds_absent: false,
            operation: None,
            safe_snapshot: Mutex::new(options.last_safe_snapshot),
            filtered_at: Mutex::new(None),
            schema_id: Mutex::new(table.schema().id),
            unknown: AtomicBool::new(false),
            options,
            table,
        })
    }

    /// A commit user that nobody else has, with the prefix of option `commit.user-prefix`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_user(table: &Table) -> Result<String> {
        let options = CommitOptions::new(table.settings()).map_err(|error| table.at(error))?;
        let uuid = uuid::Uuid::new_v4();
        Ok(options.user_prefix.map_or_else(|| uuid.to_string(), |prefix| format!("{prefix}_{uuid}")))
    }

    /// The files that the writers made. They are handed over while a snapshot is created, so that nobody deletes what may be
    /// referred to, and kept once it is; when a commit surely failed they are their owner's again.
    #[must_use]
    pub fn owning(mut self, files: Arc<OwnFiles>) -> Self {
        self.own = Some(files);
        self
    }

    /// Whether commits that change nothing make no snapshot. Unless told, option `snapshot.ignore-empty-commit` decides, and
    /// without it only commits of batch jobs are ignored.
    #[must_use]
    pub fn ignore_empty(mut self, ignore: bool) -> Self {
        self.ignore_empty = Some(ignore);
        self
    }

    /// Whether commits that only add files are checked against what others did, as all others always are.
    #[must_use]
    pub fn check_conflicts(mut self, check: bool) -> Self {
        self.check_conflicts = check;
        self
    }

    /// The snapshot that what is committed depends on, because the statement read it (0 for a table that had none). Commits
    /// after it that an overwrite would undo, and changes of the same columns of the same rows, are conflicts then.
    #[must_use]
    pub fn read_snapshot(mut self, snapshot: Option<i64>) -> Self {
        self.read_snapshot = snapshot;
        self
    }

    /// The snapshot whose keys the writer knew when it gave rows their partitions and buckets (0 for a table that had none).
    /// Commits after it that may hold the same keys are conflicts then (`spec/data.md 3.6`).
    #[must_use]
    pub fn known_keys(mut self, snapshot: Option<i64>) -> Self {
        self.known_keys = snapshot;
        self
    }

    /// Lets an overwrite leave what waits in the postpone bucket (`spec/data.md 3.7`).
    #[must_use]
    pub(crate) fn sparing_postponed(mut self) -> Self {
        self.spares_postponed = true;
        self
    }

    /// The identifier under which [`Self::truncate`] and [`Self::drop_partitions`] commit, which change nothing where the user
    /// has committed it or a greater one already.
    #[must_use]
    pub fn identified(mut self, identifier: Option<i64>) -> Self {
        self.identifier = identifier;
        self
    }

    /// The snapshot whose rows are changed (0 for a table that had none): that another commit since then brought rows whose
    /// keys lie between those that are changed is a conflict. What happened to files of tables without keys is always looked
    /// at.
    #[must_use]
    pub fn changed_rows_of(mut self, snapshot: i64) -> Self {
        self.read_snapshot = Some(snapshot);
        self.changes_rows = true;
        self
    }

    /// Rows are added because the snapshot of [`Self::changed_rows_of`] did not have them: in a table without keys, whose rows
    /// nothing tells apart, another commit since then that did the same is a conflict.
    #[must_use]
    pub fn adding_absent(mut self, adds_absent: bool) -> Self {
        self.adds_absent = adds_absent;
        self
    }

    /// The statement that the snapshots of [`Self::drop_partitions`] and [`Self::truncate`] name.
    #[must_use]
    pub fn operation(mut self, operation: Operation) -> Self {
        self.operation = Some(operation);
        self
    }

    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The commit user.
    pub fn user(&self) -> &str {
        &self.user
    }

    /// Commits what writers did: first what they added and removed (kind APPEND, or OVERWRITE where files or rows go), then
    /// what they compacted (kind COMPACT). When the second part fails after the first one is done, the outcome tells.
    ///
    /// # Errors
    /// Conflict when another commit took away what this one builds on, or always came first; Io when the store failed, see
    /// [`super::outcome_is_unknown`]; unsupported for a store that can't create files only if absent.
    pub async fn commit(&self, committable: Committable) -> Result<CommitOutcome> {
        let result = async {
            let buckets = self.table.settings().bucket;
            let (append, compact) = changes_of(self.table.schema(), buckets, &committable)?;
            let mut outcome = CommitOutcome::default();
            // A commit of a compaction alone is not an empty one.
            let allow_empty = self.allows_empty(&committable) && compact.is_empty();
            if !append.is_empty() || allow_empty {
                let check = self.check_conflicts || append.removes();
                let draft = draft(&committable, CommitKind::Append, Source::Fixed(append), check, allow_empty);
                outcome.add(self.run(&draft).await?);
            }
            self.commit_compaction(&committable, compact, outcome).await
        };
        self.finish(Box::pin(result).await)
    }

    async fn commit_compaction(
        &self,
        committable: &Committable,
        compact: Changes,
        mut outcome: CommitOutcome,
    ) -> Result<CommitOutcome> {
        if compact.is_empty() {
            return Ok(outcome);
        }
        let draft = draft(committable, CommitKind::Compact, Source::Fixed(compact), true, false);
        if outcome.snapshots.is_empty() {
            return self.run(&draft).await;
        }
        // The rows are there. Whoever was told now that the commit failed would commit them again.
        if let Some(own) = &self.own {
            own.keep_these(&self.paths_added(&committable.messages)?);
            own.take_back();
        }
        match self.run(&draft).await {
            Ok(compacted) => outcome.add(compacted),
            Err(error) => {
                if let Some(own) = &self.own {
                    own.remove().await;
                }
                outcome.compaction_failed = Some(error.to_string());
            }
        }
        Ok(outcome)
    }

    /// Commits what writers wrote in place of what is in `scope` (kind OVERWRITE), and then what they compacted. Changelog
    /// files are left out.
    ///
    /// # Errors
    /// Invalid when a new file lies outside of the scope, else as [`Self::commit`].
    pub async fn overwrite(&self, scope: &OverwriteScope, committable: Committable) -> Result<CommitOutcome> {
        let result = async {
            let schema = self.table.schema();
            let (mut append, compact) = changes_of(schema, self.table.settings().bucket, &committable)?;
            append.changelog.clear();
            if append.entries.iter().any(super::changes::Change::deleted) {
                return Err(Error::invalid("an overwrite replaces all files and can't name some that it removes"));
            }
            let scope = match scope {
                OverwriteScope::Dynamic if !schema.partition_keys.is_empty() => {
                    if append.entries.is_empty() {
                        return self.commit_compaction(&committable, compact, CommitOutcome::default()).await;
                    }
                    Scope::rows(schema, append.entries.iter().map(|entry| &**entry.partition()))?
                }
                OverwriteScope::Dynamic | OverwriteScope::Table => Scope::all(schema)?,
                OverwriteScope::Partitions(spec) => Scope::specs(schema, std::slice::from_ref(spec))?,
            };
            let partitions: Vec<_> = append.entries.iter().map(|entry| Arc::clone(entry.partition())).collect();
            if scope.allows(&partitions)?.contains(&false) {
                return Err(Error::invalid("rows were written to a partition that the overwrite does not replace"));
            }
            if compact.is_empty() {
                self.upgrade(&mut append)?;
            }
            let source = Source::Replace { scope, changes: append };
            let outcome = self.run(&draft(&committable, CommitKind::Overwrite, source, true, true)).await?;
            self.commit_compaction(&committable, compact, outcome).await
        };
        self.finish(Box::pin(result).await)
    }

    /// Removes the partitions that match any of these.
    ///
    /// # Errors
    /// Invalid without a specification, else as [`Self::commit`].
    pub async fn drop_partitions(&self, specs: &[PartitionSpec]) -> Result<CommitOutcome> {
        if specs.is_empty() {
            return Err(self.table.at(Error::invalid("no partition to drop is named")));
        }
        let result = async { self.remove(Scope::specs(self.table.schema(), specs)?).await };
        self.finish(result.await)
    }

    /// Removes everything.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn truncate(&self) -> Result<CommitOutcome> {
        let result = async { self.remove(Scope::all(self.table.schema())?).await };
        self.finish(result.await)
    }

    async fn remove(&self, scope: Scope) -> Result<CommitOutcome> {
        let nothing = match self.identifier {
            Some(identifier) if self.is_committed(identifier).await? => {
                return Ok(CommitOutcome { replayed: true, ..CommitOutcome::default() });
            }
            Some(identifier) => Committable::new(identifier, Vec::new()),
            None => Committable::batch(Vec::new()),
        };
        let nothing = Committable { operation: self.operation, ..nothing };
        let source = Source::Replace { scope, changes: Changes::default() };
        Box::pin(self.run(&draft(&nothing, CommitKind::Overwrite, source, true, true))).await
    }

    /// Commits statistics of the table (kind ANALYZE). `document` is the JSON of `spec/metadata.md 9.5`.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn commit_statistics(&self, document: impl Into<Bytes>) -> Result<CommitOutcome> {
        let document = document.into();
        let result = async {
            let files = NewFiles::new(self);
            let name = self.names.statistics();
            let path = self.table.files().statistics_path(&name)?;
            files.put(path, document).await?;
            let nothing = Committable::batch(Vec::new());
            let draft = draft(&nothing, CommitKind::Analyze, Source::Statistics(name), false, true);
            let outcome = Box::pin(self.run(&draft)).await;
            match &outcome {
                Err(error) if !super::outcome_is_unknown(error) => files.own.remove().await,
                _ => files.own.keep(),
            }
            outcome
        };
        self.finish(result.await)
    }

    /// Merges all small manifests and takes out what was deleted (kind COMPACT, without changes). No snapshot when there is
    /// nothing to gain.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn compact_manifests(&self) -> Result<CommitOutcome> {
        let nothing = Committable::batch(Vec::new());
        let draft = draft(&nothing, CommitKind::Compact, Source::Manifests, false, true);
        self.finish(Box::pin(self.run(&draft)).await)
    }

    /// How many manifests [`Self::compact_manifests`] would merge, and how many there are.
    ///
    /// # Errors
    /// Io when the store failed, corrupt when the lists can't be read.
    pub async fn mergeable_manifests(&self) -> Result<(usize, usize)> {
        let counted = async {
            let base = Base::read(&self.table, self.latest(None).await?).await?;
            Ok((mergeable(&base.manifests, &self.options), base.manifests.len()))
        };
        Box::pin(counted).await.map_err(|error| self.table.at(error))
    }

    /// Takes the manifests out that are not in the store, as a new snapshot (kind OVERWRITE), and gives their names; with
    /// `dry_run` they are only named. The files that they list are lost to the table, and files that they remove come back.
    ///
    /// # Errors
    /// As [`Self::commit`]; Io also where the store does not say whether a manifest is there.
    pub async fn remove_missing_manifests(&self, dry_run: bool) -> Result<Vec<String>> {
        let removed = async {
            let Some(latest) = self.latest(None).await? else { return Ok((Vec::new(), CommitOutcome::default())) };
            let base = Base::read(&self.table, Some(latest)).await?;
            let files = self.table.files();
            let asks: Vec<_> = base
                .manifests
                .iter()
                .map(|meta| async move {
                    let path = files.manifest_path(&meta.file_name)?;
                    // Asked twice: an answer that is wrong for a moment must not lose files.
                    let is_there = files.exists(&path).await? || files.exists(&path).await?;
                    Ok::<_, Error>((!is_there).then(|| meta.file_name.clone()))
                })
                .collect();
            let found: Vec<_> = futures::stream::iter(asks).buffered(16).try_collect().await?;
            let missing: Vec<String> = found.into_iter().flatten().collect();
            if dry_run || missing.is_empty() {
                return Ok((missing, CommitOutcome::default()));
            }
            let nothing = Committable::batch(Vec::new());
            let source = Source::Without(missing.iter().cloned().collect());
            let outcome = Box::pin(self.run(&draft(&nothing, CommitKind::Overwrite, source, false, true))).await?;
            Ok((missing, outcome))
        };
        match Box::pin(removed).await {
            Ok((missing, outcome)) => self.finish(Ok(outcome)).map(|_| missing),
            Err(error) => self.finish(Err(error)).map(|_| Vec::new()),
        }
    }

    /// Makes the table what it was in `target`, as a new snapshot (kind OVERWRITE). Its files must still be there.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn restore(&self, target: Arc<Snapshot>) -> Result<CommitOutcome> {
        let nothing = Committable::batch(Vec::new());
        let draft = draft(&nothing, CommitKind::Overwrite, Source::Restore(target), false, true);
        self.finish(Box::pin(self.run(&draft)).await)
    }

    /// An outcome or an error as it leaves the committer.
    fn finish(&self, result: Result<CommitOutcome>) -> Result<CommitOutcome> {
        match result {
            Ok(outcome) => {
                if let Some(own) = &self.own {
                    own.keep();
                }
                Ok(outcome)
            }
            Err(error) => {
                self.unknown.fetch_or(super::outcome_is_unknown(&error), Ordering::Relaxed);
                Err(self.table.at(error))
            }
        }
    }

    fn allows_empty(&self, committable: &Committable) -> bool {
        let ignored = self.ignore_empty.unwrap_or(committable.identifier == BATCH_IDENTIFIER);
        self.options.force_create_snapshot || !ignored
    }

    /// Whether the table's rows are in no buckets: an append table without a count of them.
    pub(super) fn is_without_buckets(&self) -> bool {
        !self.table.schema().has_primary_key() && self.table.settings().bucket == -1
    }

    /// Refuses a store that would let two committers overwrite each other's snapshot. Asked once a process.
    pub(super) async fn check_store(&self) -> Result<()> {
        let root = self.table.files().root();
        // Folders of one machine may lie on different file systems.
        let key = if root.url().scheme() == "file" { root.as_str().to_owned() } else { root.url().to_string() };
        if PROVEN_STORES.lock().contains(&key) {
            return Ok(());
        }
        check_conditional_put(root, &self.table.files().snapshot_dir()).await?;
        PROVEN_STORES.lock().insert(key);
        Ok(())
    }

    /// The latest snapshot; `floor` is an id that was there a moment ago, whatever hints and lists say.
    pub(super) async fn latest(&self, floor: Option<i64>) -> Result<Option<Arc<Snapshot>>> {
        let snapshots = self.table.snapshots();
        let mut latest = snapshots.latest().await?;
        let id = latest.as_ref().map_or(0, |snapshot| snapshot.id);
        if let Some(floor) = floor.filter(|floor| *floor > id) {
            let mut next = floor;
            while let Some(snapshot) = snapshots.find(next).await? {
                latest = Some(snapshot);
                next += 1;
            }
        }
        if latest.is_none()
            && let Some(id) = self.has_snapshot().await?
        {
            // The first one may just have come.
            latest = snapshots.latest().await?;
            if latest.is_some() {
                return Ok(latest);
            }
            let folder = self.table.files().location_of(&self.table.files().snapshot_dir());
            let message = format!("the store lists no snapshot, but snapshot {id} is there");
            return Err(Error::new(ErrorKind::Io, message).with("folder", folder).retryable());
        }
        Ok(latest)
    }

    /// A snapshot that a hint tells of. A store that lists none may be wrong, and a second first snapshot would hide all
    /// others.
    async fn has_snapshot(&self) -> Result<Option<i64>> {
        let files = self.table.files();
        for name in ["LATEST", "EARLIEST"] {
            let bytes = match files.read(&files.snapshot_dir().join(name)).await {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let hint = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse::<i64>().ok());
            if let Some(id) = hint.filter(|id| *id > 0)
                && files.exists(&files.snapshot_path(id)).await?
            {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// The id of the latest schema. Asks for what follows the last one that was seen instead of listing.
    pub(super) async fn latest_schema_id(&self) -> Result<i64> {
        let (table, schemas) = (&self.table, self.table.schemas());
        let known = *self.schema_id.lock();
        let next = table.files().schema_path(known + 1);
        let (schema, next) = futures::try_join!(schemas.find(known), table.files().exists(&next))?;
        let latest = match schema {
            Some(schema) if !next => schema,
            _ => schemas.latest().await?.ok_or_else(|| {
                Error::not_found("the table was dropped while its rows were written").with("schema", known.to_string())
            })?,
        };
        let ours = table.schema();
        let same_table = if latest.id == ours.id {
            latest == *ours
        } else {
            (&latest.primary_keys, &latest.partition_keys) == (&ours.primary_keys, &ours.partition_keys)
        };
        if !same_table {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!(
                    "the table has another schema {} than when its rows were written; run the statement again",
                    latest.id
                ),
            ));
        }
        *self.schema_id.lock() = latest.id;
        Ok(latest.id)
    }
}

/// One snapshot of a committable.
fn draft<'a>(
    committable: &'a Committable,
    kind: CommitKind,
    source: Source,
    check: bool,
    allow_empty: bool,
) -> Draft<'a> {
    Draft {
        kind,
        identifier: committable.identifier,
        watermark: committable.watermark,
        properties: &committable.properties,
        operation: committable.operation,
        source,
        check,
        allow_empty,
    }
}
