//! From a snapshot to the live files of its buckets: manifest lists, manifests, entries.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use datafusion::common::ScalarValue;
use datafusion::common::runtime::SpawnedTask;
use futures::{StreamExt, TryStreamExt};

use super::bucket::BucketFilter;
use super::columns::{ColumnGroup, column_groups};
use super::file_index::IndexFilter;
use super::partition::{PartitionFilter, PartitionPredicate, only_columns};
use super::prune::{StatsPruner, StatsSource};
use super::section::{Section, SectionKind, sections};
use super::{DeletionRef, Partition, PlanCounters, PlannedFile, ScanPlan, ScanRequest};
use crate::error::{Error, Result};
use crate::options::{Level0, MergeEngine, TableOptions};
use crate::spec::file_index::IndexAnswer;
use crate::spec::index_manifest::{IndexEntry, decode_index_manifest};
use crate::spec::manifest::{DataFile, ManifestEntries, ManifestFile};
use crate::spec::manifest_list::{ManifestMeta, decode_manifest_list};
use crate::spec::types::ROW_ID;
use crate::spec::{DataType, FileIdentityRef, Snapshot, TableSchema};
use crate::store::cache::FileKey;
use crate::table::Table;

/// Manifests read and decoded at once. Decoding is what takes time, so a few more than there are cores.
const CONCURRENCY: usize = 8;

/// A manifest of which fewer entries than this share pass the partition and bucket filters is not decoded whole (and not
/// kept): the second phase then reads only the entries that pass.
const WHOLE_ABOVE: f64 = 0.25;

/// Plans a scan of `snapshot`.
///
/// # Errors
/// Errors of the store and of the files' bytes name the file; a filter on partitions that fails is an error.
pub async fn plan_scan(table: &Arc<Table>, snapshot: Option<Arc<Snapshot>>, request: &ScanRequest) -> Result<ScanPlan> {
    let started = Instant::now();
    let Some(snapshot) = snapshot else { return Ok(ScanPlan::default()) };
    let mut planner = Planner::try_new(table, request)?;
    let metas = Box::pin(planner.manifest_list(&snapshot)).await?;
    let metas = planner.prune_manifests(metas)?;
    let decoded = planner.read_manifests(&metas).await?;
    let files = planner.live_files(&decoded, &metas)?;
    let files = Box::pin(planner.attach_deletions(&snapshot, files)).await?;
    let mut plan = planner.cut(files).await?;
    plan.snapshot = Some(snapshot);
    plan.counters.elapsed = started.elapsed();
    Ok(plan)
}

pub(super) struct Planner<'a> {
    table: &'a Arc<Table>,
    schema: Arc<TableSchema>,
    options: &'a TableOptions,
    request: &'a ScanRequest,
    partitions: PartitionFilter,
    buckets: Option<BucketFilter>,
    /// Whether files of every level are wanted, whatever a read of the rows would leave out.
    every_level: bool,
    /// Whether the files of the postpone bucket are wanted, and no others.
    postponed: bool,
    counters: PlanCounters,
}

/// The entries of a manifest that may matter: all that are decoded pass the partition and bucket filters where `whole` is
/// false.
pub(super) struct Decoded {
    entries: Arc<ManifestEntries>,
    whole: bool,
}

impl Decoded {
    /// The entries.
    pub(super) fn entries(&self) -> &ManifestEntries {
        &self.entries
    }
}

impl<'a> Planner<'a> {
    pub(super) fn try_new(table: &'a Arc<Table>, request: &'a ScanRequest) -> Result<Self> {
        let schema = Arc::clone(table.schema());
        let options = table.settings();
        let partitions = PartitionFilter::try_new(
            &schema,
            &request.filters,
            options.partition_legacy_name,
            &options.partition_default_name,
        )?;
        let fixed_buckets = options.bucket > 0 || options.bucket == -2;
        let buckets = if fixed_buckets {
            BucketFilter::try_new(&schema, options.bucket_function, &request.filters)?
        } else {
            None
        };
        let counters = PlanCounters::default();
        Ok(Self {
            table,
            schema,
            options,
            request,
            partitions,
            buckets,
            every_level: false,
            postponed: false,
            counters,
        })
    }

    /// Takes the files of every level, of partitions that satisfy `wanted` too.
    pub(super) fn every_level(mut self, wanted: Option<PartitionPredicate>) -> Self {
        self.partitions = self.partitions.and(wanted);
        self.every_level = true;
        self
    }

    /// Takes the files of the postpone bucket instead of all others, if `postponed`.
    pub(super) fn postponed(self, postponed: bool) -> Self {
        Self { postponed, ..self }
    }

    /// A partition, with its values and folder.
    pub(super) fn describe(&self, partition: &Arc<[u8]>) -> Result<Arc<Partition>> {
        let described = self.partitions.describe(std::slice::from_ref(partition))?;
        described.into_iter().next().ok_or_else(|| Error::internal("a partition can't be described"))
    }

    /// The manifests of the snapshot, base before delta (`spec/metadata.md 3.2`).
    pub(super) async fn manifest_list(&mut self, snapshot: &Snapshot) -> Result<Vec<ManifestMeta>> {
        let (base, delta) = futures::try_join!(
            read_manifest_list(self.table, &snapshot.base_manifest_list, snapshot.base_manifest_list_size),
            read_manifest_list(self.table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)
        )?;
        let metas: Vec<ManifestMeta> = base.iter().chain(delta.iter()).cloned().collect();
        self.counters.manifests = metas.len();
        Ok(metas)
    }

    /// Counts manifests that are looked at.
    pub(super) fn count_manifests(&mut self, manifests: usize) {
        self.counters.manifests += manifests;
    }

    /// What was looked at.
    pub(super) fn into_counters(self) -> PlanCounters {
        self.counters
    }

    /// Leaves out files none of whose rows can satisfy the filters, where rows are not merged.
    pub(super) async fn prune_unmerged(&mut self, files: Vec<PlannedFile>) -> Result<Vec<PlannedFile>> {
        let schemas = self.schemas(&files).await?;
        let (schema, filters) = (&self.request.schema, &self.request.filters);
        let Some(pruner) = StatsPruner::try_new(&self.schema, schemas, schema, filters, StatsSource::Values)? else {
            return Ok(files);
        };
        let keep = pruner.keep(&files)?;
        self.counters.pruned_by_value += keep.iter().filter(|keep| !**keep).count();
        Ok(retain(files, &keep))
    }

    /// Leaves out manifests whose partitions, buckets or levels are all outside of what is asked.
    pub(super) fn prune_manifests(&mut self, metas: Vec<ManifestMeta>) -> Result<Vec<ManifestMeta>> {
        let kept = super::partition::manifests_in(&self.partitions, &metas)?;
        let kept: Vec<ManifestMeta> = metas
            .into_iter()
            .zip(kept)
            // Only postponed files have negative buckets; they are counted, so those manifests are read too.
            .filter(|(meta, kept)| *kept && (meta.num_added_files > 0 || meta.num_deleted_files > 0))
            .map(|(meta, _)| meta)
            .collect();
        self.counters.manifests_skipped = self.counters.manifests - kept.len();
        Ok(kept)
    }

    /// Reads and decodes manifests, in order, several at once.
    pub(super) async fn read_manifests(&mut self, metas: &[ManifestMeta]) -> Result<Vec<Decoded>> {
        let mut decoded = Vec::with_capacity(metas.len());
        let mut waiting = Vec::new();
        for (i, meta) in metas.iter().enumerate() {
            match self.table.caches().cached(&manifest_key(self.table, meta)?) {
                Some(entries) => {
                    self.counters.manifests_cached += 1;
                    decoded.push((i, Decoded { entries, whole: true }));
                }
                None => waiting.push(i),
            }
        }
        let filtered = !self.partitions.is_trivial() || self.buckets.is_some();
        let mut reads = futures::stream::iter(waiting)
            .map(|i| {
                let table = Arc::clone(self.table);
                let name = metas[i].file_name.clone();
                let size = metas[i].file_size;
                async move {
                    let bytes = read_manifest_file(&table, &name, Some(size)).await?;
                    let in_file = name.clone();
                    let result = SpawnedTask::spawn_blocking(move || open_manifest(bytes, filtered))
                        .join()
                        .await
                        .map_err(|error| Error::internal("a planning task failed").with_source(error))?;
                    Ok::<_, Error>((i, name, result.map_err(|error| error.with("manifest", in_file))?))
                }
            })
            .buffered(CONCURRENCY);
        while let Some((i, name, opened)) = reads.try_next().await? {
            let entries = match opened {
                Opened::Whole(entries) => {
                    let entries: Arc<ManifestEntries> = Arc::from(entries);
                    self.keep(&metas[i], &entries)?;
                    Decoded { entries, whole: true }
                }
                Opened::Heads(file) => {
                    self.second_phase(&metas[i], &file).map_err(|error| error.with("manifest", name))?
                }
            };
            decoded.push((i, entries));
        }
        drop(reads);
        decoded.sort_by_key(|(i, _)| *i);
        self.counters.entries += decoded.iter().map(|(_, decoded)| decoded.entries.len()).sum::<usize>();
        Ok(decoded.into_iter().map(|(_, decoded)| decoded).collect())
    }

    /// Keeps a decoded manifest for later plans.
    fn keep(&self, meta: &ManifestMeta, entries: &Arc<ManifestEntries>) -> Result<()> {
        self.table.caches().keep(manifest_key(self.table, meta)?, Arc::clone(entries), entries.memory());
        Ok(())
    }

    /// Decodes the file part of the entries that pass the filters; of all entries where most do, and keeps them then.
    fn second_phase(&mut self, meta: &ManifestMeta, file: &ManifestFile) -> Result<Decoded> {
        let heads = file.heads();
        let partitions = self.partitions.evaluate(&heads.partition.values)?;
        let mut rows = Vec::new();
        let (mut by_partition, mut by_bucket) = (0, 0);
        for row in 0..heads.kind.len() {
            if !partitions[heads.partition.keys[row] as usize] {
                by_partition += 1;
                continue;
            }
            if let Some(buckets) = &mut self.buckets
                && !buckets.allows(heads.bucket[row], heads.total_buckets[row])?
            {
                by_bucket += 1;
                continue;
            }
            rows.push(row as u32);
        }
        if rows.len() as f64 > heads.kind.len() as f64 * WHOLE_ABOVE {
            let entries = Arc::new(file.entries(None)?);
            self.keep(meta, &entries)?;
            return Ok(Decoded { entries, whole: true });
        }
        // What the second phase leaves out is counted as pruned here; entries that cancel each other may be among it.
        self.counters.entries += heads.kind.len() - rows.len();
        self.counters.pruned_by_partition += by_partition;
        self.counters.pruned_by_bucket += by_bucket;
        Ok(Decoded { entries: Arc::new(file.entries(Some(&rows))?), whole: false })
    }

    /// The ADD entries that no DELETE entry cancels and that pass the partition, bucket and level filters.
    pub(super) fn live_files(&mut self, decoded: &[Decoded], metas: &[ManifestMeta]) -> Result<Vec<PlannedFile>> {
        let mut deleted: HashSet<Identity<'_>> = HashSet::new();
        for (decoded, meta) in decoded.iter().zip(metas) {
            if meta.num_deleted_files == 0 && decoded.whole {
                // The count is exact (`spec/metadata.md 4.2`), but a wrong one must not bring rows back.
                if !decoded.entries.kind.contains(&DELETE) {
                    continue;
                }
            }
            let entries = &decoded.entries;
            deleted.extend(
                (0..entries.len()).filter(|&row| entries.kind[row] == DELETE).map(|row| Identity { entries, row }),
            );
        }
        let mut partitions = PartitionTable::default();
        let total: usize = decoded.iter().map(|decoded| decoded.entries.len()).sum();
        let mut files = Vec::with_capacity(if self.partitions.is_trivial() { total } else { 0 });
        for Decoded { entries, whole } in decoded {
            let described = partitions.of(entries, &self.partitions, self.request.except.as_deref())?;
            let level0_hidden = self.level0_hidden();
            for row in 0..entries.len() {
                if entries.kind[row] == DELETE {
                    continue;
                }
                let Some(partition) = &described[entries.partition.keys[row] as usize] else {
                    self.counters.pruned_by_partition += usize::from(*whole);
                    continue;
                };
                let bucket = entries.bucket[row];
                if (bucket < 0) != self.postponed {
                    self.counters.postponed += 1;
                    continue;
                }
                if let Some(buckets) = &mut self.buckets
                    && !buckets.allows(bucket, entries.total_buckets[row])?
                {
                    self.counters.pruned_by_bucket += 1;
                    continue;
                }
                if !deleted.is_empty() && deleted.contains(&Identity { entries, row }) {
                    self.counters.deleted += 1;
                    continue;
                }
                if self.request.created_since.is_some_and(|since| entries.creation_time[row] < since) {
                    self.counters.skipped_by_time += 1;
                    continue;
                }
                if (level0_hidden && entries.level[row] == 0)
                    || !self.request.levels.has(entries.level[row], self.options.num_levels)
                {
                    self.counters.skipped_by_level += 1;
                    continue;
                }
                files.push(PlannedFile {
                    file: DataFile { entries: Arc::clone(entries), row: row as u32 },
                    partition: Arc::clone(partition),
                    deletion: None,
                    scan: true,
                    candidates: None,
                });
            }
        }
        Ok(files)
    }

    /// Whether level 0 of this table is left out (`spec/data.md 4.4`).
    fn level0_hidden(&self) -> bool {
        if self.every_level {
            return false;
        }
        self.schema.has_primary_key()
            && self.request.level0 == Level0::Skip
            && (self.options.merge_engine == MergeEngine::FirstRow
                || (self.options.deletion_vectors_enabled && !self.options.deletion_vectors_merge_on_read))
            || self.options.pk_clustering_override
    }

    /// Gives each file its deletion vector (`spec/data.md 9`).
    pub(super) async fn attach_deletions(
        &mut self,
        snapshot: &Snapshot,
        mut files: Vec<PlannedFile>,
    ) -> Result<Vec<PlannedFile>> {
        let Some(name) = &snapshot.index_manifest else { return Ok(files) };
        let entries = read_index_manifest(self.table, name).await?;
        // Data file names hold a UUID, so that a name is enough within a partition and bucket.
        let mut vectors: HashMap<FileName, Arc<DeletionRef>> = HashMap::new();
        let mut partitions = PartitionTable::default();
        for entry in entries.iter() {
            if entry.index_type != "DELETION_VECTORS" {
                continue;
            }
            let Some(ranges) = &entry.dv_ranges else { continue };
            let folder = partitions.path(&entry.partition, &self.partitions)?;
            let path = self.table.files().index_path(
                &folder,
                entry.bucket,
                &entry.file_name,
                entry.external_path.as_deref(),
            )?;
            for range in ranges {
                let reference = Arc::new(DeletionRef { path: path.clone(), range: range.clone() });
                let key = (Arc::clone(&entry.partition), entry.bucket, range.data_file.clone());
                if vectors.insert(key, reference).is_some() {
                    return Err(Error::corrupt(format!("data file {} has two deletion vectors", range.data_file))
                        .with("index manifest", name.as_str()));
                }
            }
        }
        if vectors.is_empty() {
            return Ok(files);
        }
        for planned in &mut files {
            let key = (Arc::clone(planned.file.partition()), planned.file.bucket(), planned.file.name().to_owned());
            planned.deletion = vectors.get(&key).cloned();
        }
        Ok(files)
    }

    /// Prunes by statistics and cuts the files of each bucket into raw files and sections.
    async fn cut(mut self, files: Vec<PlannedFile>) -> Result<ScanPlan> {
        let mut plan = ScanPlan::default();
        let schemas = self.schemas(&files).await?;
        let pruner = |filters: &[_], source| {
            StatsPruner::try_new(&self.schema, schemas.clone(), &self.request.schema, filters, source)
        };
        if !self.schema.has_primary_key() {
            let on_ids = self.request.filters.iter().filter(|filter| only_columns(filter, |name| name == ROW_ID));
            let on_ids: Vec<_> = on_ids.map(Arc::clone).collect();
            let files = match pruner(&on_ids, StatsSource::Values)? {
                // The ids of its rows rule out a file whatever other files hold of them.
                Some(pruner) if self.options.data_evolution => {
                    let keep = pruner.keep(&files)?;
                    self.counters.pruned_by_value += keep.iter().filter(|keep| !**keep).count();
                    retain(files, &keep)
                }
                _ => files,
            };
            let keep = match pruner(&self.request.filters, StatsSource::Values)? {
                Some(pruner) => pruner.keep(&files)?,
                None => vec![true; files.len()],
            };
            if self.options.data_evolution {
                self.group_columns(files, keep, &mut plan)?;
            } else {
                plan.raw = retain(files, &keep);
                self.counters.pruned_by_value += keep.iter().filter(|keep| !**keep).count();
            }
            plan.raw = self.ask_indexes(std::mem::take(&mut plan.raw)).await?;
            if self.request.row_ids {
                for file in std::mem::take(&mut plan.raw) {
                    plan.groups.push(ColumnGroup::single(file)?);
                }
            }
            self.counters.files = plan.scanned().count();
            plan.counters = self.counters;
            return Ok(plan);
        }
        let keys = self.schema.trimmed_primary_keys();
        let is_key = |name: &str| {
            keys.iter().any(|key| key.name == name) || self.schema.partition_keys.iter().any(|key| key == name)
        };
        let on_keys: Vec<_> =
            self.request.filters.iter().filter(|filter| only_columns(filter, is_key)).map(Arc::clone).collect();
        // Files of such tables are sorted by other columns: their key bounds are bounds of those (`spec/data.md 6.6`).
        let clustered = self.options.pk_clustering_override;
        let files = match pruner(&on_keys, StatsSource::Keys)? {
            Some(pruner) if !clustered => {
                let keep = pruner.keep(&files)?;
                self.counters.pruned_by_key += keep.iter().filter(|keep| !**keep).count();
                retain(files, &keep)
            }
            _ => files,
        };
        let keep = match pruner(&self.request.filters, StatsSource::Values)? {
            Some(pruner) => pruner.keep(&files)?,
            None => vec![true; files.len()],
        };
        let key_types: Vec<DataType> = keys.iter().map(|key| key.data_type.clone()).collect();
        for (bucket, keep) in by_bucket(files, keep) {
            self.cut_bucket(bucket, &keep, &key_types, &mut plan)?;
        }
        plan.raw = self.ask_indexes(std::mem::take(&mut plan.raw)).await?;
        self.counters.files = plan.raw.len() + plan.sections.iter().map(|section| section.files.len()).sum::<usize>();
        self.counters.fan_in = plan.sections.iter().map(|section| section.runs.len()).max().unwrap_or(0);
        plan.counters = self.counters;
        Ok(plan)
    }

    /// Leaves out raw files, and rows of them, that their file indexes rule out (`spec/data.md 10`).
    async fn ask_indexes(&mut self, files: Vec<PlannedFile>) -> Result<Vec<PlannedFile>> {
        let Some(filter) = IndexFilter::try_new(&self.schema, self.options, &self.request.filters) else {
            return Ok(files);
        };
        let pruning = filter.prune(self.table, &files).await?;
        self.counters.pruned_by_index += pruning.skipped;
        self.counters.broken_indexes += pruning.broken_indexes;
        let mut kept = Vec::with_capacity(files.len());
        for (mut file, answer) in files.into_iter().zip(pruning.answers) {
            match answer {
                IndexAnswer::Skip => continue,
                IndexAnswer::Remain => {}
                IndexAnswer::Rows(rows) => file.candidates = Some(Arc::new(rows)),
            }
            kept.push(file);
        }
        Ok(kept)
    }

    /// Puts files that hold columns of the same rows into groups. What a file's statistics say of a column is no news where
    /// a newer file holds that column, so nothing of a group is left out; a file alone is as any other.
    fn group_columns(&mut self, files: Vec<PlannedFile>, keep: Vec<bool>, plan: &mut ScanPlan) -> Result<()> {
        for (mut files, keep) in by_bucket(files, keep) {
            for (file, keep) in files.iter_mut().zip(keep) {
                file.scan = keep;
            }
            for mut group in column_groups(files)? {
                match group.files.as_mut_slice() {
                    [only] if !only.scan => self.counters.pruned_by_value += 1,
                    [_] => plan.raw.append(&mut group.files),
                    files => {
                        files.iter_mut().for_each(|file| file.scan = true);
                        plan.groups.push(group);
                    }
                }
            }
        }
        Ok(())
    }

    /// The schemas that `files` were written with.
    async fn schemas(&self, files: &[PlannedFile]) -> Result<HashMap<i64, Arc<TableSchema>>> {
        let ids: HashSet<i64> = files.iter().map(|file| file.file.schema_id()).collect();
        let mut schemas = HashMap::with_capacity(ids.len());
        for id in ids {
            schemas.insert(id, self.table.schema_at(id).await?);
        }
        Ok(schemas)
    }

    fn cut_bucket(
        &mut self,
        files: Vec<PlannedFile>,
        keep: &[bool],
        key_types: &[DataType],
        plan: &mut ScanPlan,
    ) -> Result<()> {
        let kind = match self.options.merge_engine {
            MergeEngine::Deduplicate => SectionKind::Newest,
            MergeEngine::FirstRow => SectionKind::Oldest,
            MergeEngine::PartialUpdate | MergeEngine::Aggregation => SectionKind::Fold,
        };
        // Levels above 0 of these tables hold each key once, but for what deletion vectors mark (`spec/data.md 4.4`).
        let disjoint_levels = self.options.deletion_vectors_enabled || kind == SectionKind::Oldest;
        if disjoint_levels && files.iter().all(|file| file.file.level() > 0) {
            for (file, keep) in files.into_iter().zip(keep) {
                self.place_raw(file, *keep, kind, plan);
            }
            return Ok(());
        }
        let mut files: Vec<Option<PlannedFile>> = files
            .into_iter()
            .zip(keep)
            .map(|(mut file, keep)| {
                file.scan = *keep;
                Some(file)
            })
            .collect();
        let order: Vec<PlannedFile> = files.iter().flatten().cloned().collect();
        for runs in sections(&order, key_types)? {
            if let [run] = runs.as_slice() {
                for &index in run {
                    if let Some(file) = files[index].take() {
                        let keep = file.scan;
                        self.place_raw(file, keep, kind, plan);
                    }
                }
                continue;
            }
            self.place_section(kind, &runs, &mut files, plan);
        }
        Ok(())
    }

    /// Places a file that no other overlaps. It needs no merging; rows that retract have to be left out all the same.
    fn place_raw(&mut self, mut file: PlannedFile, keep: bool, kind: SectionKind, plan: &mut ScanPlan) {
        if !keep {
            self.counters.pruned_by_value += 1;
            return;
        }
        file.scan = true;
        if file.file.delete_rows() == Some(0) {
            plan.raw.push(file);
        } else {
            plan.sections.push(Section { kind, files: vec![file], runs: vec![vec![0]] });
        }
    }

    /// Places files that overlap. What is neither scanned nor newer than something scanned plays no part.
    fn place_section(
        &mut self,
        kind: SectionKind,
        runs: &[Vec<usize>],
        files: &mut [Option<PlannedFile>],
        plan: &mut ScanPlan,
    ) {
        let scanned =
            runs.iter().flatten().filter(|&&index| files[index].as_ref().is_some_and(|file| file.scan)).count();
        let all: usize = runs.iter().map(Vec::len).sum();
        if scanned == 0 && kind != SectionKind::Fold {
            self.counters.pruned_by_value += all;
            return;
        }
        self.counters.pruned_by_value += all - scanned;
        // Without `sequence.field` numbers tell which version is newer: what is older than all that is scanned can hide
        // nothing of it.
        let by_number = self.options.sequence_fields.is_empty() && !self.options.sequence_snapshot_ordering;
        let oldest_scanned = runs
            .iter()
            .flatten()
            .filter_map(|&index| files[index].as_ref())
            .filter(|file| file.scan)
            .map(|file| file.file.sequence_numbers().0)
            .min();
        let needed = |file: &PlannedFile| {
            file.scan
                || kind != SectionKind::Newest
                || !by_number
                || oldest_scanned.is_none_or(|oldest| file.file.sequence_numbers().1 >= oldest)
        };
        let mut section = Section { kind, files: Vec::with_capacity(all), runs: Vec::with_capacity(runs.len()) };
        for run in runs {
            let mut placed = Vec::with_capacity(run.len());
            for &index in run {
                if let Some(file) = files[index].take().filter(needed) {
                    placed.push(section.files.len());
                    section.files.push(file);
                }
            }
            if !placed.is_empty() {
                section.runs.push(placed);
            }
        }
        if section.runs.len() == 1 && section.files.iter().all(|file| file.file.delete_rows() == Some(0)) {
            plan.raw.extend(section.files.into_iter().filter(|file| file.scan));
            return;
        }
        plan.sections.push(section);
    }
}

/// What a manifest is known by in the cache of decoded files.
pub(crate) fn manifest_key(table: &Table, meta: &ManifestMeta) -> Result<FileKey> {
    let path = table.files().manifest_path(&meta.file_name)?;
    Ok(table.files().key(&path, u64::try_from(meta.file_size).unwrap_or_default()))
}

/// The bytes of a manifest, manifest list or index manifest.
/// A file of another size than was recorded has been cut or exchanged: what is left of it may well decode.
pub(crate) async fn read_manifest_file(table: &Table, name: &str, size: Option<i64>) -> Result<Bytes> {
    let bytes = table.files().read(&table.files().manifest_path(name)?).await?;
    match size {
        Some(size) if size > 0 && usize::try_from(size) != Ok(bytes.len()) => {
            Err(Error::corrupt(format!("the file has {} bytes, {size} are recorded", bytes.len()))
                .with("manifest", name.to_owned()))
        }
        _ => Ok(bytes),
    }
}

pub(crate) async fn read_index_manifest(table: &Table, name: &str) -> Result<Arc<Vec<IndexEntry>>> {
    let path = table.files().manifest_path(name)?;
    let load = async {
        let bytes = read_manifest_file(table, name, None).await?;
        let entries = decode_index_manifest(&bytes).map_err(|error| error.with("index manifest", name.to_owned()))?;
        let weight = bytes.len() * 4;
        Ok((entries, weight))
    };
    Ok(table.caches().decoded(table.files().key(&path, 0), load).await?.value)
}

pub(crate) async fn read_manifest_list(table: &Table, name: &str, size: Option<i64>) -> Result<Arc<Vec<ManifestMeta>>> {
    let path = table.files().manifest_path(name)?;
    let recorded = size;
    let size = size.and_then(|size| u64::try_from(size).ok()).unwrap_or_default();
    let load = async {
        let bytes = read_manifest_file(table, name, recorded).await?;
        let metas = decode_manifest_list(&bytes).map_err(|error| error.with("manifest list", name.to_owned()))?;
        let weight = bytes.len() * 4;
        Ok((metas, weight))
    };
    Ok(table.caches().decoded(table.files().key(&path, size), load).await?.value)
}

pub(super) const DELETE: u8 = 1;

/// Partition, bucket and name of a data file.
type FileName = (Arc<[u8]>, i32, String);

enum Opened {
    Whole(Box<ManifestEntries>),
    Heads(Box<ManifestFile>),
}

fn open_manifest(bytes: Bytes, filtered: bool) -> Result<Opened> {
    if filtered {
        Ok(Opened::Heads(Box::new(ManifestFile::open(bytes)?)))
    } else {
        Ok(Opened::Whole(Box::new(ManifestEntries::decode_bytes(bytes)?)))
    }
}

fn retain(files: Vec<PlannedFile>, keep: &[bool]) -> Vec<PlannedFile> {
    if keep.iter().all(|keep| *keep) {
        return files;
    }
    files.into_iter().zip(keep).filter(|(_, keep)| **keep).map(|(file, _)| file).collect()
}

/// Files of each (partition, bucket), in a stable order.
fn by_bucket(files: Vec<PlannedFile>, keep: Vec<bool>) -> Vec<(Vec<PlannedFile>, Vec<bool>)> {
    let mut position: HashMap<(*const Partition, i32), usize> = HashMap::new();
    let mut buckets: Vec<(Vec<PlannedFile>, Vec<bool>)> = Vec::new();
    for (file, keep) in files.into_iter().zip(keep) {
        let key = (Arc::as_ptr(&file.partition), file.file.bucket());
        let index = *position.entry(key).or_insert_with(|| {
            buckets.push(Default::default());
            buckets.len() - 1
        });
        buckets[index].0.push(file);
        buckets[index].1.push(keep);
    }
    buckets
}

/// Distinct partitions across manifests, each described once. `None` for those that the filter leaves out.
#[derive(Default)]
struct PartitionTable {
    known: HashMap<Arc<[u8]>, Option<Arc<Partition>>>,
}

impl PartitionTable {
    fn of(
        &mut self,
        entries: &ManifestEntries,
        filter: &PartitionFilter,
        except: Option<&HashSet<Vec<ScalarValue>>>,
    ) -> Result<Vec<Option<Arc<Partition>>>> {
        let fresh: Vec<Arc<[u8]>> =
            entries.partition.values.iter().filter(|row| !self.known.contains_key(*row)).map(Arc::clone).collect();
        if !fresh.is_empty() {
            let kept = filter.evaluate(&fresh)?;
            let described = filter.describe(&fresh)?;
            for ((row, kept), partition) in fresh.into_iter().zip(kept).zip(described) {
                let kept = kept && except.is_none_or(|except| !except.contains(&partition.values));
                self.known.insert(row, kept.then_some(partition));
            }
        }
        Ok(entries.partition.values.iter().map(|row| self.known.get(row).cloned().flatten()).collect())
    }

    fn path(&mut self, row: &Arc<[u8]>, filter: &PartitionFilter) -> Result<String> {
        let described = filter.describe(std::slice::from_ref(row))?;
        Ok(described.first().map(|partition| partition.path.clone()).unwrap_or_default())
    }
}

/// What tells a file from others (`spec/metadata.md 4.5`).
struct Identity<'a> {
    entries: &'a ManifestEntries,
    row: usize,
}

impl Identity<'_> {
    fn parts(&self) -> FileIdentityRef<'_> {
        FileIdentityRef::of_row(self.entries, self.row)
    }
}

impl PartialEq for Identity<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Identity<'_> {}

impl Hash for Identity<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}
