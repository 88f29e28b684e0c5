//! A compaction of one bucket (`spec/data.md 6.3`): which of its files are written anew, and which only change their level.
//!
//! ```text
//! files of a unit --sections--> key-disjoint groups
//!   several runs in a section  -> merged
//!   one run, file by file      small -> merged with its neighbours; large -> upgraded, unless it must be written anew
//! ```
//!
//! May import: `error`, `options`, `plan`, `spec`, `write`, rest of this room.

use std::sync::Arc;

use super::levels::Levels;
use super::merge::{Changes, Engine};
use super::pick::Unit;
use super::rewrite::Rewrite;
use super::rules::{Rules, may_retract};
use super::source::SourceFile;
use super::vectors::VectorChanges;
use crate::error::Result;
use crate::options::ChangelogProducer;
use crate::plan::{Partition, PlannedFile, sections};
use crate::spec::binary_row::KeyComparator;
use crate::spec::{DataFileMeta, IndexEntry};
use crate::write::{CommitMessage, DataFileContext};

/// The files of a bucket.
#[derive(Clone, Debug)]
pub(super) struct BucketFiles {
    pub partition: Arc<Partition>,
    pub bucket: i32,
    pub total_buckets: i32,
    pub files: Vec<PlannedFile>,
    /// The index file of its deletion vectors.
    pub index: Option<IndexEntry>,
}

impl BucketFiles {
    /// A message about the bucket.
    pub(super) fn message(&self) -> CommitMessage {
        CommitMessage {
            partition: self.partition.row.to_vec(),
            bucket: self.bucket,
            total_buckets: Some(self.total_buckets),
            ..CommitMessage::default()
        }
    }
}

/// Compacts what is due of a bucket, or all of it, and adds to its message what came of it. Whether anything was due.
///
/// # Errors
/// Errors of reading and writing files; invalid, with the key, where rows can't be folded.
pub(super) async fn compact(
    rules: &Rules,
    bucket: &BucketFiles,
    full: bool,
    message: &mut CommitMessage,
) -> Result<bool> {
    let levels = rules.levels(&bucket.files);
    let Some(unit) = rules.pick(&bucket.files, &levels, full) else { return Ok(false) };
    let (pool, own) = (Arc::clone(rules.context.memory_pool()), Arc::clone(&rules.own));
    let partition = Arc::clone(&bucket.partition.row);
    let context = DataFileContext::new(&rules.table, Arc::clone(&rules.write), partition, bucket.bucket, own, pool)?;
    let vectors = VectorChanges::default();
    let mut task = Task { rules, bucket, unit: &unit, levels: &levels, context, message: &mut *message, vectors };
    task.run().await?;
    let vectors = task.vectors;
    if rules.vectors
        && let Some((new, old)) = vectors.write(rules, bucket).await?
    {
        message.compact_new_index_files.push(new);
        message.compact_deleted_index_files.extend(old);
    }
    Ok(true)
}

struct Task<'a> {
    rules: &'a Rules,
    bucket: &'a BucketFiles,
    unit: &'a Unit,
    levels: &'a Levels,
    context: DataFileContext,
    message: &'a mut CommitMessage,
    vectors: VectorChanges,
}

/// Key-disjoint groups of runs, each run positions among the files of the bucket.
type Sections = Vec<Vec<Vec<usize>>>;

impl Task<'_> {
    async fn run(&mut self) -> Result<()> {
        if self.unit.each {
            for &file in &self.unit.files {
                self.write(vec![vec![vec![file]]], true).await?;
            }
            return Ok(());
        }
        let files: Vec<PlannedFile> = self.unit.files.iter().map(|&file| self.bucket.files[file].clone()).collect();
        let mut waiting: Sections = Vec::new();
        for section in sections(&files, &self.rules.key_types())? {
            let section: Vec<Vec<usize>> =
                section.into_iter().map(|run| run.into_iter().map(|index| self.unit.files[index]).collect()).collect();
            let [run] = section.as_slice() else {
                waiting.push(section);
                continue;
            };
            for &file in run {
                if self.bucket.files[file].file.size() < self.rules.small {
                    waiting.push(vec![vec![file]]);
                } else {
                    // What lies before it is written first, so that the files stay in the order of their keys.
                    self.write_waiting(std::mem::take(&mut waiting)).await?;
                    self.upgrade(file).await?;
                }
            }
        }
        self.write_waiting(waiting).await
    }

    async fn write_waiting(&mut self, waiting: Sections) -> Result<()> {
        match waiting.as_slice() {
            [] => Ok(()),
            // A lone file has no neighbour to be merged with.
            [section] if section.len() == 1 => {
                for &file in &section[0] {
                    self.upgrade(file).await?;
                }
                Ok(())
            }
            _ => self.write(waiting, true).await,
        }
    }

    /// Moves a file that overlaps nothing to the level of the unit; writes it anew where moving it would not do.
    async fn upgrade(&mut self, index: usize) -> Result<()> {
        let (rules, level) = (self.rules, self.unit.level);
        let file = &self.bucket.files[index];
        let alone = || vec![vec![vec![index]]];
        let is_top = level == self.levels.max_level();
        if (is_top && may_retract(file)) || rules.must_rewrite(file) {
            return self.write(alone(), true).await;
        }
        if file.file.level() == level {
            return Ok(());
        }
        if !rules.has_format_of(file, level)? {
            return self.write(alone(), true).await;
        }
        let is_new = file.file.level() == 0;
        if rules.looks_up && is_new {
            // `spec/data.md 7.3`: a merge with older rows may change what is in the file, unless there are none, or the newest
            // row is the whole truth.
            let newest_counts = matches!(rules.engine, Engine::Newest) && rules.merge.sequence_fields.is_empty();
            let stays = !(rules.vectors && may_retract(file)) && (is_top || newest_counts);
            let is_told = rules.producer == ChangelogProducer::Lookup || (rules.vectors && !is_top);
            if !stays || is_told {
                return self.write(alone(), !stays).await;
            }
        }
        if rules.producer == ChangelogProducer::FullCompaction && is_top {
            return self.write(alone(), false).await;
        }
        self.move_file(index);
        Ok(())
    }

    fn move_file(&mut self, index: usize) {
        let before = DataFileMeta::from(&self.bucket.files[index].file);
        self.message.compact_after.push(DataFileMeta { level: self.unit.level, ..before.clone() });
        self.message.compact_before.push(before);
    }

    /// Merges sections. `data`: into new files; else the files are moved, and only their changes are told.
    async fn write(&mut self, sections: Sections, data: bool) -> Result<()> {
        let rules = self.rules;
        let files: Vec<usize> = sections.iter().flatten().flatten().copied().collect();
        let level = self.unit.level;
        let has_new = level > 0 && files.iter().any(|&file| self.bucket.files[file].file.level() == 0);
        let changes = match rules.producer {
            ChangelogProducer::Lookup if has_new => Changes::ByLookup,
            ChangelogProducer::FullCompaction if level == self.levels.max_level() => Changes::ByLevel(level),
            _ => Changes::Untold,
        };
        // Sections hold keys of their own and are in order: their first runs are a run together, and so on.
        let fan_in = sections.iter().map(Vec::len).max().unwrap_or(0);
        let mut runs: Vec<Vec<SourceFile>> = vec![Vec::new(); fan_in];
        for section in sections {
            for (run, files) in runs.iter_mut().zip(section) {
                let source = |file: usize| SourceFile { planned: self.bucket.files[file].clone(), reference: false };
                run.extend(files.into_iter().map(source));
            }
        }
        if rules.looks_up && has_new {
            runs.extend(self.references(&files)?);
        }
        let drop_deletes = level != 0 && (level >= self.levels.highest_used() || rules.vectors);
        let rewrite = Rewrite { rules, context: &self.context, runs, level, drop_deletes, changes, data };
        let written = Box::pin(rewrite.run()).await?;
        self.message.compact_changelog_files.extend(written.changelog);
        for (file, row) in written.marks {
            self.vectors.marks.entry(file).or_default().push(row);
        }
        if !data {
            files.into_iter().for_each(|file| self.move_file(file));
            return Ok(());
        }
        for &file in &files {
            let meta = DataFileMeta::from(&self.bucket.files[file].file);
            self.vectors.removed.insert(meta.file_name.clone());
            self.message.compact_before.push(meta);
        }
        self.message.compact_after.extend(written.files);
        Ok(())
    }

    /// The runs of the levels above the unit's that may hold keys of the new files among `files`.
    fn references(&self, files: &[usize]) -> Result<Vec<Vec<SourceFile>>> {
        let keys = KeyComparator::new(&self.rules.key_types())?;
        let range = |file: &PlannedFile| -> Result<(Vec<u8>, Vec<u8>)> {
            let (mut min, mut max) = (Vec::new(), Vec::new());
            keys.sort_key(file.file.min_key(), &mut min)?;
            keys.sort_key(file.file.max_key(), &mut max)?;
            Ok((min, max))
        };
        let new: Vec<(Vec<u8>, Vec<u8>)> = files
            .iter()
            .map(|&file| &self.bucket.files[file])
            .filter(|file| file.file.level() == 0)
            .map(range)
            .collect::<Result<_>>()?;
        let mut runs = Vec::new();
        for run in self.levels.runs.iter().filter(|run| run.level > self.unit.level) {
            let mut found = Vec::new();
            for &file in &run.files {
                let planned = &self.bucket.files[file];
                let (min, max) = range(planned)?;
                if new.iter().any(|(least, greatest)| *least <= max && min <= *greatest) {
                    found.push((min, SourceFile { planned: planned.clone(), reference: true }));
                }
            }
            found.sort_by(|a, b| a.0.cmp(&b.0));
            if !found.is_empty() {
                runs.push(found.into_iter().map(|(_, file)| file).collect());
            }
        }
        Ok(runs)
    }
}
