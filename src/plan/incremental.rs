//! Which files tell what changed (`spec/data.md` 7.5 and 7.7).
//!
//! ```text
//! Changes::Made     snapshots of the range -> the files that each added, or its changelog files -> raw files of one plan
//! Changes::Between  both states -> the files that one of them has and the other has not -> a plan of either side
//! ```
//! The rows of [`plan_changes`] are not merged: a key comes once for every change, with its row kind. Statistics of values
//! therefore rule out any file.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt, TryStreamExt};

use super::manifests::{Planner, read_manifest_list};
use super::{PlanCounters, PlannedFile, ScanPlan, ScanRequest};
use crate::error::{Error, Result};
use crate::spec::{CommitKind, ManifestMeta, Snapshot};
use crate::table::{ChangeFiles, Table};

/// Snapshots whose manifests are read at once.
const CONCURRENCY: usize = 8;

/// The files that tell what the snapshots `after + 1 ..= until` changed, all of them raw.
///
/// # Errors
/// Not found when a snapshot of the range has expired and its changelog is not kept; unsupported for tables whose files hold
/// parts of rows; else as [`super::plan_scan`].
pub async fn plan_changes(
    table: &Arc<Table>,
    after: i64,
    until: i64,
    by: ChangeFiles,
    request: &ScanRequest,
) -> Result<ScanPlan> {
    let started = Instant::now();
    if table.settings().data_evolution {
        return Err(Error::unsupported(
            "with data-evolution.enabled = true a file may hold some columns of rows that are there already, so that what a \
             snapshot changed can't be read from the files it added; compare two states with \
             'incremental-between-scan-mode' = 'diff'",
        ));
    }
    let snapshots: Vec<Arc<Snapshot>> = futures::stream::iter(after + 1..=until)
        .map(|id| table.snapshot_or_changelog(id))
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    let told: Vec<Arc<Snapshot>> = snapshots.iter().filter(|snapshot| is_told(snapshot, by)).map(Arc::clone).collect();
    let plans: Vec<(Vec<PlannedFile>, PlanCounters)> = futures::stream::iter(told)
        .map(|snapshot| async move { Box::pin(changed_files(table, &snapshot, by, request)).await })
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    let mut plan = ScanPlan { snapshot: snapshots.last().map(Arc::clone), ..ScanPlan::default() };
    for (files, counters) in plans {
        plan.raw.extend(files);
        plan.counters.add(&counters);
    }
    plan.counters.files = plan.raw.len();
    plan.counters.elapsed = started.elapsed();
    Ok(plan)
}

/// Whether the files of a snapshot tell changes: compactions and overwrites only rewrite what was there, and an overwrite has
/// no changelog.
fn is_told(snapshot: &Snapshot, by: ChangeFiles) -> bool {
    match by {
        ChangeFiles::Delta => snapshot.commit_kind == CommitKind::Append,
        ChangeFiles::AnyDelta => true,
        ChangeFiles::Changelog => {
            snapshot.changelog_manifest_list.is_some() && snapshot.commit_kind != CommitKind::Overwrite
        }
    }
}

async fn changed_files(
    table: &Arc<Table>,
    snapshot: &Snapshot,
    by: ChangeFiles,
    request: &ScanRequest,
) -> Result<(Vec<PlannedFile>, PlanCounters)> {
    let (name, size) = match by {
        ChangeFiles::Delta | ChangeFiles::AnyDelta => {
            (&snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        }
        ChangeFiles::Changelog => match &snapshot.changelog_manifest_list {
            Some(name) => (name, snapshot.changelog_manifest_list_size),
            None => return Ok(Default::default()),
        },
    };
    let named = |error: Error| error.with("snapshot", snapshot.id.to_string());
    let metas = read_manifest_list(table, name, size).await.map_err(named)?;
    let planner = Planner::try_new(table, request)?;
    // A changelog file has the level of the compaction that made it.
    let mut planner = if by == ChangeFiles::Changelog { planner.every_level(None) } else { planner };
    let files = Box::pin(files_of(&mut planner, metas.to_vec())).await.map_err(named)?;
    let files = planner.prune_unmerged(files).await.map_err(named)?;
    Ok((files, planner.into_counters()))
}

async fn files_of(planner: &mut Planner<'_>, metas: Vec<ManifestMeta>) -> Result<Vec<PlannedFile>> {
    planner.count_manifests(metas.len());
    let metas = planner.prune_manifests(metas)?;
    let decoded = planner.read_manifests(&metas).await?;
    planner.live_files(&decoded, &metas)
}

/// The plans of two states without the files that both have and of which the same rows are live by themselves: raw files with
/// the same deletion vector, and groups of files that are merged with each other in both.
pub fn without_shared(before: &mut ScanPlan, after: &mut ScanPlan) {
    let raw = |plan: &ScanPlan| plan.raw.iter().map(file_key).collect::<HashSet<_>>();
    let (known_before, known_after) = (raw(before), raw(after));
    before.raw.retain(|file| !known_after.contains(&file_key(file)));
    after.raw.retain(|file| !known_before.contains(&file_key(file)));
    let groups = |plan: &ScanPlan| {
        let sections = plan.sections.iter().map(|section| group_key(&section.files));
        sections.chain(plan.groups.iter().map(|group| group_key(&group.files))).collect::<HashSet<_>>()
    };
    let (known_before, known_after) = (groups(before), groups(after));
    for (plan, known) in [(before, known_after), (after, known_before)] {
        plan.sections.retain(|section| !known.contains(&group_key(&section.files)));
        plan.groups.retain(|group| !known.contains(&group_key(&group.files)));
        plan.counters.files = plan.raw.len()
            + plan.sections.iter().map(|section| section.files.len()).sum::<usize>()
            + plan.groups.iter().map(|group| group.files.len()).sum::<usize>();
    }
}

/// What tells a file with its deletion vector from others. Names hold a UUID.
type FileKey = (String, i32, i32, String, Option<(String, i32)>);

fn file_key(file: &PlannedFile) -> FileKey {
    let deletion = file.deletion.as_ref().map(|deletion| (deletion.path.to_string(), deletion.range.offset));
    (file.partition.path.clone(), file.file.bucket(), file.file.level(), file.file.name().to_owned(), deletion)
}

fn group_key(files: &[PlannedFile]) -> Vec<FileKey> {
    let mut keys: Vec<FileKey> = files.iter().map(file_key).collect();
    keys.sort_unstable();
    keys
}
