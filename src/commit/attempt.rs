//! One snapshot: attempt after attempt until it is there, or surely is not (`spec/metadata.md 7.3`).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;
use tokio::time::Instant;

use super::base::Base;
use super::changes::{Change, Changes};
use super::index::combine;
use super::merge::{Merged, merge};
use super::new_files::{List, NewFiles};
use super::scope::Scope;
use super::source::{Draft, Source};
use super::{BATCH_IDENTIFIER, CommitOutcome, TableCommit, fault, queue, stamps};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::{CommitKind, DataFile, Snapshot};

/// The version of the snapshots that are written.
const SNAPSHOT_VERSION: i32 = 3;

/// Looks for the answer to a create that got none, at least.
const MIN_CREATE_RETRIES: u32 = 8;

/// How long a commit that is done waits for its hints.
const HINT_PATIENCE: Duration = Duration::from_secs(10);

/// The property with the greatest sequence number of a table (`spec/metadata.md 7.3` 12).
const MAX_SEQUENCE_NUMBER: &str = "sequence.generation.max-sequence-number";

/// What earlier attempts left for later ones.
#[derive(Default)]
struct Progress<'a> {
    /// An id that is known to exist.
    floor: Option<i64>,
    /// The latest snapshot of the first attempt.
    since: Option<i64>,
    /// Delta lists of the attempts that came to creating a snapshot: what a snapshot of ours is known by.
    tried: HashSet<String>,
    merged: Option<Merged<'a>>,
    delta: Option<Delta<'a>>,
}

/// The delta and the changelog of a snapshot, written.
struct Delta<'a> {
    list: List,
    changelog: Option<List>,
    manifests: usize,
    files: NewFiles<'a>,
}

/// How an attempt ended.
enum Step {
    Done(Arc<Snapshot>),
    /// It was there already: an earlier attempt made it, or another committer of this user and identifier.
    Found {
        snapshot: Arc<Snapshot>,
        replayed: bool,
    },
    /// Nothing to do.
    Nothing,
    /// Another snapshot took the id.
    Lost,
}

/// How creating a snapshot ended.
enum Created {
    Ours,
    Lost,
}

/// Whether the error of a commit leaves open if there is a snapshot. Commit again with the same user and identifier, after
/// [`TableCommit::filter_committed`]; delete nothing.
pub fn outcome_is_unknown(error: &Error) -> bool {
    error.context().iter().any(|(key, _)| *key == UNKNOWN)
}

const UNKNOWN: &str = "outcome unknown of snapshot";

impl TableCommit {
    /// Brings about the snapshot of `draft`.
    pub(super) async fn run(&self, draft: &Draft<'_>) -> Result<CommitOutcome> {
        let deadline = self.options.timeout.map(|timeout| Instant::now() + timeout);
        let (mut outcome, mut progress) = (CommitOutcome::default(), Progress::default());
        let result = self.attempts(draft, deadline, &mut progress, &mut outcome).await;
        // What is not referred to by now is of no use. Files that may be referred to were handed over. Dropped, they go in
        // the background: a store that did not answer in time is not waited for again.
        if deadline.is_none_or(|deadline| Instant::now() < deadline) {
            if let Some(merged) = &progress.merged {
                merged.files.own.remove().await;
            }
            if let Some(delta) = &progress.delta {
                delta.files.own.remove().await;
            }
        }
        outcome.snapshots.extend(result?);
        fault::point("commit-done");
        Ok(outcome)
    }

    async fn attempts<'a>(
        &'a self,
        draft: &Draft<'_>,
        deadline: Option<Instant>,
        progress: &mut Progress<'a>,
        outcome: &mut CommitOutcome,
    ) -> Result<Option<Arc<Snapshot>>> {
        let mut retry = 0;
        loop {
            outcome.attempts += 1;
            let turn = queue::turn(&self.table).await;
            let step = Box::pin(self.attempt(draft, deadline, progress, outcome)).await;
            let error = match step {
                Ok(Step::Done(snapshot)) => {
                    for seen in [&self.safe_snapshot, &self.filtered_at] {
                        if let Some(seen) = &mut *seen.lock() {
                            *seen = snapshot.id.max(*seen);
                        }
                    }
                    let _ = tokio::time::timeout(HINT_PATIENCE, self.write_hints(&snapshot)).await;
                    fault::point("hint-written");
                    return Ok(Some(snapshot));
                }
                Ok(Step::Found { snapshot, replayed }) => {
                    outcome.replayed = replayed;
                    return Ok(Some(snapshot));
                }
                Ok(Step::Nothing) => return Ok(None),
                Ok(Step::Lost) => None,
                Err(error) if error.is_retryable() && !outcome_is_unknown(&error) => Some(error),
                Err(error) => return Err(error),
            };
            drop(turn);
            if retry >= self.options.max_retries || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(error.unwrap_or_else(|| self.gave_up(retry + 1)));
            }
            tokio::time::sleep(self.pause(retry)).await;
            retry += 1;
        }
    }

    fn gave_up(&self, attempts: u32) -> Error {
        Error::new(
            ErrorKind::Conflict,
            format!(
                "other commits came first {attempts} times and nothing was committed; commit again, or raise \
                 commit.max-retries or commit.timeout"
            ),
        )
        .retryable()
    }

    /// The pause before retry `retry`: twice as long each time, and a random fifth more so that committers part.
    fn pause(&self, retry: u32) -> Duration {
        let wait = self.options.min_retry_wait.saturating_mul(2u32.saturating_pow(retry));
        let wait = wait.min(self.options.max_retry_wait);
        let random = uuid::Uuid::new_v4().as_u128() as u32;
        wait + wait.mul_f64(f64::from(random) / f64::from(u32::MAX) / 5.0)
    }

    async fn attempt<'a>(
        &'a self,
        draft: &Draft<'_>,
        deadline: Option<Instant>,
        progress: &mut Progress<'a>,
        outcome: &mut CommitOutcome,
    ) -> Result<Step> {
        fault::point("commit-start");
        let files = NewFiles::new(self);
        let prepared = before(deadline, Box::pin(self.prepare(draft, progress, &files, outcome))).await;
        let snapshot = match prepared {
            Ok(Prepared::Snapshot(snapshot)) => snapshot,
            Ok(Prepared::End(step)) => return Ok(step),
            Err(error) => {
                if deadline.is_none_or(|deadline| Instant::now() < deadline) {
                    files.own.remove().await;
                }
                return Err(error);
            }
        };
        let bytes = Bytes::from(snapshot.to_json()?);
        progress.tried.insert(snapshot.delta_manifest_list.clone());
        fault::point("before-snapshot");
        let shared =
            [progress.merged.as_ref().map(|merged| &merged.files), progress.delta.as_ref().map(|delta| &delta.files)];
        let shared = shared.into_iter().flatten().map(|files| &files.own);
        let owners: Vec<_> = shared.chain([&files.own]).chain(&self.own).collect();
        owners.iter().for_each(|own| own.hand_over());
        let created = self.create(&snapshot, bytes, deadline).await;
        if !created.as_ref().is_err_and(outcome_is_unknown) && !matches!(created, Ok(Created::Ours)) {
            owners.iter().for_each(|own| own.take_back());
            files.own.remove().await;
        }
        match created? {
            Created::Ours => {
                fault::point("snapshot-created");
                Ok(Step::Done(Arc::from(snapshot)))
            }
            Created::Lost => {
                progress.floor = Some(snapshot.id);
                Ok(Step::Lost)
            }
        }
    }

    /// Everything up to the snapshot itself.
    async fn prepare<'a>(
        &'a self,
        draft: &Draft<'_>,
        progress: &mut Progress<'a>,
        files: &NewFiles<'a>,
        outcome: &mut CommitOutcome,
    ) -> Result<Prepared> {
        self.check_store().await?;
        let (latest, schema_id) = futures::try_join!(self.latest(progress.floor), self.latest_schema_id())?;
        if let Some((snapshot, replayed)) = self.find_ours(draft, progress, latest.as_deref()).await? {
            return Ok(Prepared::End(Step::Found { snapshot, replayed }));
        }
        let mut base = Base::read(&self.table, latest).await?;
        let id = base.id() + 1;
        if let Source::Without(names) = &draft.source {
            base.manifests.retain(|meta| !names.contains(&meta.file_name));
        }
        let mut plan = match self.plan(draft, &base).await? {
            Some(plan) => plan,
            None => return Ok(Prepared::End(Step::Nothing)),
        };
        Box::pin(self.check(draft, &plan, &base)).await?;
        let indexes = match &draft.source {
            Source::Restore(_) => None,
            _ => combine(&base.indexes, &plan.changes, self.is_without_buckets())?,
        };

        let settings = self.table.settings();
        let next_row_id = base.snapshot.as_ref().and_then(|snapshot| snapshot.next_row_id).unwrap_or(0);
        let group = self.options.group_row_ids;
        let next_row_id = if stamps::are_needed(settings) {
            stamps::stamp(&mut plan.changes.entries, settings, group, plan.kind, id, next_row_id)?
        } else {
            next_row_id
        };
        // Of a lost race the delta can be used again where it says nothing of the snapshot.
        let again = matches!(draft.source, Source::Fixed(_)) && !stamps::are_needed(settings) && !plan.is_reduced;

        let base_list = self.write_base(draft, progress.merged.take(), &base, files);
        let delta = async {
            match progress.delta.take() {
                Some(delta) if again => Ok(delta),
                Some(delta) => {
                    delta.files.own.remove().await;
                    self.write_delta(&plan.changes).await
                }
                None => self.write_delta(&plan.changes).await,
            }
        };
        let index = async {
            match indexes {
                Some(entries) => files.index_manifest(entries).await.map(Some),
                None => Ok(base.snapshot.as_ref().and_then(|snapshot| snapshot.index_manifest.clone())),
            }
        };
        // All of them come to an end, so that none writes a file after it was taken away.
        let (base_list, delta, index) = futures::join!(base_list, delta, index);
        let (list, merged) = match base_list {
            Ok((list, merged)) => (Ok(list), merged),
            Err((error, merged)) => (Err(error), merged),
        };
        progress.merged = merged;
        let (delta_list, changelog, manifests) = match delta {
            Ok(delta) => {
                let parts = (Ok(delta.list.clone()), delta.changelog.clone(), delta.manifests);
                progress.delta = Some(delta);
                parts
            }
            Err(error) => (Err(error), None, 0),
        };
        let (base_list, delta_list, index_manifest) = (list?, delta_list?, index?);
        if matches!(draft.source, Source::Manifests) && progress.merged.is_none() {
            files.own.remove().await;
            return Ok(Prepared::End(Step::Nothing));
        }
        fault::point("manifests-written");
        let merged = progress.merged.as_ref();
        outcome.manifests_merged = merged.map_or(0, |merged| merged.merged);
        outcome.manifests_written = manifests + merged.map_or(0, |merged| merged.written);

        let mut snapshot = Snapshot {
            version: SNAPSHOT_VERSION,
            uuid: None,
            id,
            schema_id,
            base_manifest_list: base_list.name,
            base_manifest_list_size: Some(base_list.size),
            delta_manifest_list: delta_list.name,
            delta_manifest_list_size: Some(delta_list.size),
            changelog_manifest_list: changelog.as_ref().map(|list| list.name.clone()),
            changelog_manifest_list_size: changelog.map(|list| list.size),
            index_manifest,
            commit_user: self.user.clone(),
            writer_version: None,
            commit_identifier: draft.identifier,
            commit_kind: plan.kind,
            time_millis: chrono::Utc::now().timestamp_millis(),
            total_record_count: 0,
            delta_record_count: rows(&plan.changes.entries),
            changelog_record_count: Some(rows(&plan.changes.changelog)).filter(|_| !plan.changes.changelog.is_empty()),
            watermark: draft.watermark,
            statistics: None,
            properties: Some(draft.properties.clone()),
            next_row_id: Some(next_row_id),
            operation: draft.operation.map(|operation| operation.name().to_owned()),
        };
        self.inherit(&mut snapshot, draft, &plan.changes, &base).await?;
        Ok(Prepared::Snapshot(Box::new(snapshot)))
    }

    /// What a snapshot takes over from the one before it.
    async fn inherit(&self, snapshot: &mut Snapshot, draft: &Draft<'_>, changes: &Changes, base: &Base) -> Result<()> {
        if let Some(latest) = &base.snapshot {
            snapshot.total_record_count = latest.total_record_count;
            snapshot.watermark = latest.watermark().max(snapshot.watermark.filter(|mark| *mark != i64::MIN));
            // Time travel searches times, which grow with ids whatever the clocks of the committers say.
            snapshot.time_millis = snapshot.time_millis.max(latest.time_millis);
            snapshot.statistics = match &latest.statistics {
                Some(file) if self.statistics_schema(file).await? == Some(snapshot.schema_id) => Some(file.clone()),
                _ => None,
            };
        }
        snapshot.total_record_count += snapshot.delta_record_count;
        let mut properties = snapshot.properties.take().unwrap_or_default();
        if self.options.sequence_number_in_snapshot && self.table.schema().has_primary_key() {
            let number = self.max_sequence_number(changes, base).await?;
            properties.insert(MAX_SEQUENCE_NUMBER.to_owned(), number.to_string());
        }
        match &draft.source {
            Source::Statistics(file) => snapshot.statistics = Some(file.clone()),
            Source::Manifests => properties = base_properties(base),
            Source::Without(_) => {
                let live = base.live(&self.table, &Scope::all(self.table.schema())?).await?;
                let rows: u64 = live.iter().map(DataFile::rows).sum();
                let before = snapshot.total_record_count;
                snapshot.total_record_count = i64::try_from(rows).unwrap_or(i64::MAX);
                snapshot.delta_record_count = snapshot.total_record_count.saturating_sub(before);
                properties = base_properties(base);
            }
            Source::Restore(target) => {
                snapshot.schema_id = target.schema_id;
                snapshot.index_manifest.clone_from(&target.index_manifest);
                snapshot.watermark = target.watermark();
                snapshot.statistics.clone_from(&target.statistics);
                snapshot.total_record_count = target.total_record_count;
                snapshot.next_row_id = snapshot.next_row_id.max(target.next_row_id);
                properties = target.properties.clone().unwrap_or_default();
            }
            Source::Fixed(_) | Source::Replace { .. } => {}
        }
        snapshot.properties = Some(properties).filter(|properties| !properties.is_empty());
        Ok(())
    }

    /// The schema that statistics were computed for; `None` when they are gone or say none.
    async fn statistics_schema(&self, file: &str) -> Result<Option<i64>> {
        let files = self.table.files();
        let path = files.statistics_path(file)?;
        let load = async {
            let bytes = match files.read(&path).await {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok((None, 0)),
                Err(error) => return Err(error),
            };
            let document = serde_json::from_slice::<serde_json::Value>(&bytes).unwrap_or_default();
            Ok((document.get("schemaId").and_then(serde_json::Value::as_i64), 100))
        };
        Ok(*self.table.caches().decoded::<Option<i64>, _>(files.key(&path, 0), load).await?.value)
    }

    /// The greatest sequence number after `changes`: that of the last snapshot, or of all files where it does not say one.
    async fn max_sequence_number(&self, changes: &Changes, base: &Base) -> Result<i64> {
        let added = changes.entries.iter().filter(|entry| !entry.deleted()).map(Change::max_sequence_number).max();
        let known = base
            .snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.properties.as_ref()?.get(MAX_SEQUENCE_NUMBER)?.parse::<i64>().ok());
        let before = match (known, &base.snapshot) {
            (Some(number), _) => Some(number),
            (None, None) => None,
            (None, Some(_)) => {
                let live = base.live(&self.table, &Scope::all(self.table.schema())?).await?;
                live.iter().map(|file| file.sequence_numbers().1).max()
            }
        };
        Ok(added.max(before).unwrap_or(0).max(0))
    }

    /// A snapshot since the first attempt that an attempt made, or another committer with our user and identifier, such as
    /// the process that was given up for dead and replaced by this one; and whether it is of such another.
    async fn find_ours(
        &self,
        draft: &Draft<'_>,
        progress: &mut Progress<'_>,
        latest: Option<&Snapshot>,
    ) -> Result<Option<(Arc<Snapshot>, bool)>> {
        let latest = latest.map_or(0, |latest| latest.id);
        let filtered = (*self.filtered_at.lock()).filter(|_| draft.identifier != BATCH_IDENTIFIER);
        let Some(since) = progress.since.or(filtered) else {
            progress.since = Some(latest);
            return Ok(None);
        };
        for id in since + 1..=latest {
            let Some(snapshot) = self.table.snapshots().find(id).await? else { continue };
            let replayed = draft.identifier != BATCH_IDENTIFIER
                && snapshot.commit_user == self.user
                && snapshot.commit_identifier == draft.identifier
                && (snapshot.commit_kind == draft.kind
                    || (draft.kind == CommitKind::Append && snapshot.commit_kind == CommitKind::Overwrite));
            let tried = progress.tried.contains(&snapshot.delta_manifest_list);
            if replayed || tried {
                return Ok(Some((snapshot, !tried)));
            }
        }
        progress.since = Some(latest);
        Ok(None)
    }

    /// Writes the list of what was there before, merged where it is time to.
    async fn write_base<'a>(
        &'a self,
        draft: &Draft<'_>,
        earlier: Option<Merged<'a>>,
        base: &Base,
        files: &NewFiles<'a>,
    ) -> Result<(List, Option<Merged<'a>>), (Error, Option<Merged<'a>>)> {
        let force = matches!(draft.source, Source::Manifests | Source::Restore(_));
        let (merged, manifests) = match earlier.map(|merged| (merged.apply(base), merged)) {
            Some((Some(manifests), merged)) => (Some(merged), manifests),
            // It took long enough to lose the race; the next commit will merge.
            Some((None, merged)) if !force => {
                merged.files.own.remove().await;
                (None, base.manifests.clone())
            }
            earlier => {
                if let Some((_, merged)) = earlier {
                    merged.files.own.remove().await;
                }
                match merge(self, base, force).await {
                    Ok(Some(merged)) => {
                        let manifests = merged.manifests.clone();
                        (Some(merged), manifests)
                    }
                    Ok(None) => (None, base.manifests.clone()),
                    Err(error) => return Err((error, None)),
                }
            }
        };
        match files.list(&manifests).await {
            Ok(list) => Ok((list, merged)),
            Err(error) => Err((error, merged)),
        }
    }

    /// Writes what a snapshot changes.
    async fn write_delta<'a>(&'a self, changes: &Changes) -> Result<Delta<'a>> {
        let files = NewFiles::new(self);
        let written = async {
            let (delta, changelog) =
                futures::join!(files.manifests(&changes.entries), files.manifests(&changes.changelog));
            let (delta, changelog) = (delta?, changelog?);
            let list = files.list(&delta).await?;
            let changelog_list = if changelog.is_empty() { None } else { Some(files.list(&changelog).await?) };
            Ok((list, changelog_list, delta.len() + changelog.len()))
        };
        match written.await {
            Ok((list, changelog, manifests)) => Ok(Delta { list, changelog, manifests, files }),
            Err(error) => {
                files.own.remove().await;
                Err(error)
            }
        }
    }

    /// Creates the snapshot file, and finds out whether it is ours. A create without an answer is made again: it can only
    /// succeed, or show whose file is there.
    ///
    /// # Errors
    /// One that [`outcome_is_unknown`] tells when there is no answer in time.
    async fn create(&self, snapshot: &Snapshot, bytes: Bytes, deadline: Option<Instant>) -> Result<Created> {
        let path = self.table.files().snapshot_path(snapshot.id);
        let mut retry = 0;
        loop {
            let error = match before(deadline, Box::pin(self.create_once(&path, snapshot, &bytes))).await {
                Ok(created) => return Ok(created),
                Err(error) => error,
            };
            if error.kind() == ErrorKind::Unsupported {
                return Err(error);
            }
            let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if late || retry >= self.options.max_retries.max(MIN_CREATE_RETRIES) {
                return Err(Error::new(
                    ErrorKind::Io,
                    "the store does not say whether the snapshot was created, so it may be there: see before committing \
                     again, and delete none of its files",
                )
                .with_source(error)
                .with(UNKNOWN, snapshot.id.to_string()));
            }
            tokio::time::sleep(self.pause(retry).min(Duration::from_secs(1))).await;
            retry += 1;
        }
    }

    async fn create_once(&self, path: &Path, snapshot: &Snapshot, bytes: &Bytes) -> Result<Created> {
        let files = self.table.files();
        let answer = files.create(path, bytes.clone()).await;
        match answer {
            Ok(true) => return Ok(Created::Ours),
            Err(error) if error.kind() == ErrorKind::Unsupported => return Err(error),
            _ => {}
        }
        match (files.read(path).await, answer) {
            (Ok(there), _) if there == *bytes => Ok(Created::Ours),
            (Ok(there), _) => {
                // Half of a file would be taken for another's.
                let there = Snapshot::from_json(&there).map_err(Error::retryable)?;
                Ok(if there == *snapshot { Created::Ours } else { Created::Lost })
            }
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    }

    /// Hints save readers a listing. A snapshot that is there is there without them.
    async fn write_hints(&self, snapshot: &Snapshot) {
        let files = self.table.files();
        let latest = files.snapshot_dir().join("LATEST");
        for retry in 0..3 {
            if files.overwrite(&latest, snapshot.id.to_string()).await.is_ok() {
                break;
            }
            tokio::time::sleep(self.pause(retry)).await;
        }
        if snapshot.id == 1 {
            let _ = files.overwrite(&files.snapshot_dir().join("EARLIEST"), snapshot.id.to_string()).await;
        }
    }
}

/// What is ready before the snapshot is created.
enum Prepared {
    Snapshot(Box<Snapshot>),
    End(Step),
}

/// `work`, given up at the deadline.
async fn before<T>(deadline: Option<Instant>, work: impl Future<Output = Result<T>>) -> Result<T> {
    match deadline {
        None => work.await,
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Io, "the store did not answer before commit.timeout").retryable())
        }),
    }
}

/// Rows added minus rows removed.
fn rows(entries: &[Change]) -> i64 {
    entries.iter().fold(0i64, |sum, entry| {
        if entry.deleted() { sum.saturating_sub(entry.rows()) } else { sum.saturating_add(entry.rows()) }
    })
}

fn base_properties(base: &Base) -> BTreeMap<String, String> {
    base.snapshot.as_ref().and_then(|snapshot| snapshot.properties.clone()).unwrap_or_default()
}
