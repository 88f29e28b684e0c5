//! Which files a read needs: a snapshot's manifests, pruned as columns, become files to scan and sections to merge.
//!
//! ```text
//! manifest lists -> manifests            pruned by partition and bucket ranges          manifests.rs
//!   -> entries                           partition exactly, bucket, deleted entries     manifests.rs, partition.rs, bucket.rs
//!   -> files of a bucket                 key statistics, value statistics where allowed prune.rs
//!   -> sections and raw files            key-disjoint groups of sorted runs             section.rs
//!   -> column groups                     files with different columns of the same rows  columns.rs
//! ```
//!
//! Every step counts what it kept and dropped in [`PlanCounters`]; `EXPLAIN` shows them. A plan holds files by reference
//! into the decoded manifests, so a table of a million files is planned without a million objects.
//!
//! May import: `spec`, `options`, `store`, `table`.

mod bucket;
mod columns;
pub mod feed;
mod file_index;
mod incremental;
pub mod live;
mod manifests;
mod partition;
mod prune;
mod section;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use roaring::RoaringBitmap;

pub use columns::ColumnGroup;
pub use feed::{ChangeFeed, FeedStep};
pub use file_index::{IndexFilter, IndexPruning};
pub use incremental::{plan_changes, without_shared};
pub use manifests::plan_scan;
pub(crate) use manifests::{manifest_key, read_index_manifest, read_manifest_file, read_manifest_list};
pub use prune::StatsPruner;
pub(crate) use section::sections;
pub use section::{Section, SectionKind};

use crate::error::Result;
use crate::options::Level0;
use crate::spec::index_manifest::DvRange;
use crate::spec::manifest::DataFile;
use crate::spec::snapshot::Snapshot;
use crate::spec::types::arrow_schema;
use crate::store::TableFiles;
use crate::table::Table;

/// What a scan wants of a table.
#[derive(Clone, Debug)]
pub struct ScanRequest {
    /// Columns of the table as the filters see them.
    pub schema: SchemaRef,
    /// Conjuncts over `schema`. A file is left out only where no row of it can satisfy all of them.
    pub filters: Vec<Arc<dyn PhysicalExpr>>,
    /// Which level-0 files of deletion-vector and first-row tables are read.
    pub level0: Level0,
    /// The levels whose files are read (`t$ro`).
    pub levels: Levels,
    /// Whether the rows are given with their ids, which a file's place among the others tells: every file of a table
    /// without keys then becomes a column group.
    pub row_ids: bool,
    /// Only files that their writer made at this time of its wall clock or later, as milliseconds.
    pub created_since: Option<i64>,
    /// Partitions, by the values of their columns, that are read elsewhere.
    pub except: Option<Arc<HashSet<Vec<ScalarValue>>>>,
}

/// The levels of a key table whose files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Levels {
    /// All.
    #[default]
    All,
    /// Those above level 0.
    AboveZero,
    /// The highest one.
    Highest,
}

impl Levels {
    /// Whether `level` is one of them, of a table of `levels` levels.
    fn has(self, level: i32, levels: i32) -> bool {
        match self {
            Self::All => true,
            Self::AboveZero => level > 0,
            Self::Highest => level == levels - 1,
        }
    }
}

impl ScanRequest {
    /// All rows of `table`.
    pub fn everything(table: &Table, level0: Level0) -> Self {
        Self {
            schema: arrow_schema(&table.schema().fields),
            filters: Vec::new(),
            level0,
            levels: Levels::All,
            row_ids: false,
            created_since: None,
            except: None,
        }
    }
}

/// A partition that occurs in a plan.
#[derive(Debug)]
pub struct Partition {
    /// Serialized BinaryRow of the values.
    pub row: Arc<[u8]>,
    /// The values in partition column order, in the arrow types of the columns.
    pub values: Vec<ScalarValue>,
    /// Folder below the table, `k=v/` for each column; empty for an unpartitioned table.
    pub path: String,
}

/// Where the deletion vector of a data file lies.
#[derive(Clone, Debug)]
pub struct DeletionRef {
    /// Path of the index file in the store.
    pub path: object_store::path::Path,
    /// Its record.
    pub range: DvRange,
}

/// A file of a plan.
#[derive(Clone, Debug)]
pub struct PlannedFile {
    /// The manifest entry.
    pub file: DataFile,
    /// Its partition.
    pub partition: Arc<Partition>,
    /// Its deletion vector.
    pub deletion: Option<Arc<DeletionRef>>,
    /// False when the filters rule out all rows of the file, so that it only takes part in merging.
    pub scan: bool,
    /// The rows that a file index leaves, a superset of those that satisfy the filters; `None` for all.
    pub candidates: Option<Arc<RoaringBitmap>>,
}

impl PlannedFile {
    /// Where the file lies in the store.
    ///
    /// # Errors
    /// Unsupported for a file outside the table's store, corrupt for a name that is no file name.
    pub fn path(&self, files: &TableFiles) -> Result<object_store::path::Path> {
        let external = self.file.external_path().map(|path| path.as_ref());
        files.data_path(&self.partition.path, self.file.bucket(), self.file.name(), external)
    }
}

/// The files of a scan.
#[derive(Debug, Default)]
pub struct ScanPlan {
    /// The snapshot; `None` for a table without any.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Files whose rows are all live, but for their deletion vectors.
    pub raw: Vec<PlannedFile>,
    /// Groups of files that have to be merged.
    pub sections: Vec<Section>,
    /// Groups of files that hold different columns of the same rows, and files whose rows are given with their ids.
    pub groups: Vec<ColumnGroup>,
    /// What planning looked at.
    pub counters: PlanCounters,
}

impl ScanPlan {
    /// All files that are scanned.
    pub fn scanned(&self) -> impl Iterator<Item = &PlannedFile> {
        let sections = self.sections.iter().flat_map(|section| section.files.iter());
        let groups = self.groups.iter().flat_map(|group| group.files.iter());
        self.raw.iter().chain(sections).chain(groups).filter(|file| file.scan)
    }

    /// Bytes of all scanned files.
    pub fn scanned_bytes(&self) -> u64 {
        self.scanned().map(|file| file.file.size()).sum()
    }

    /// The exact number of rows, where it follows from the metadata: no merging, and every deletion vector counted.
    pub fn exact_rows(&self) -> Option<u64> {
        if !self.sections.is_empty() {
            return None;
        }
        let mut rows = 0;
        for file in &self.raw {
            if file.candidates.is_some() {
                return None;
            }
            let deleted = match &file.deletion {
                None => 0,
                Some(deletion) => u64::try_from(deletion.range.cardinality?).ok()?,
            };
            rows += file.file.rows().checked_sub(deleted)?;
        }
        for group in &self.groups {
            if group.files.iter().any(|file| file.deletion.is_some() || file.candidates.is_some()) {
                return None;
            }
            rows += group.rows;
        }
        Some(rows)
    }

    /// Physical rows of all scanned files: an upper bound of the rows of the answer.
    pub fn physical_rows(&self) -> u64 {
        let sections = self.sections.iter().flat_map(|section| section.files.iter());
        let files = self.raw.iter().chain(sections).filter(|file| file.scan).map(|file| file.file.rows());
        files.chain(self.groups.iter().map(|group| group.rows)).sum()
    }
}

/// What each step of planning kept and dropped. Counts of files unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct PlanCounters {
    /// Manifests of the snapshot.
    pub manifests: usize,
    /// Manifests left out by their partition, bucket and level ranges.
    pub manifests_skipped: usize,
    /// Manifests that were found decoded.
    pub manifests_cached: usize,
    /// Entries of the manifests that were read.
    pub entries: usize,
    /// Entries cancelled by DELETE entries.
    pub deleted: usize,
    /// Files left out by the partition filter.
    pub pruned_by_partition: usize,
    /// Files left out by the bucket filter.
    pub pruned_by_bucket: usize,
    /// Files left out by their level (`t$ro`, level 0 on request).
    pub skipped_by_level: usize,
    /// Files left out because they were made too early.
    pub skipped_by_time: usize,
    /// Files left out by key statistics.
    pub pruned_by_key: usize,
    /// Files left out or not scanned because of value statistics.
    pub pruned_by_value: usize,
    /// Files left out by a file index.
    pub pruned_by_index: usize,
    /// File indexes that could not be read and were not used.
    pub broken_indexes: usize,
    /// Files waiting in the postpone bucket, invisible until they are compacted.
    pub postponed: usize,
    /// Files of the plan.
    pub files: usize,
    /// The greatest number of sorted runs in a section.
    pub fan_in: usize,
    /// How long planning took.
    pub elapsed: Duration,
}

impl PlanCounters {
    /// Adds what another part of a plan looked at.
    pub(crate) fn add(&mut self, other: &Self) {
        self.manifests += other.manifests;
        self.manifests_skipped += other.manifests_skipped;
        self.manifests_cached += other.manifests_cached;
        self.entries += other.entries;
        self.deleted += other.deleted;
        self.pruned_by_partition += other.pruned_by_partition;
        self.pruned_by_bucket += other.pruned_by_bucket;
        self.skipped_by_level += other.skipped_by_level;
        self.skipped_by_time += other.skipped_by_time;
        self.pruned_by_key += other.pruned_by_key;
        self.pruned_by_value += other.pruned_by_value;
        self.pruned_by_index += other.pruned_by_index;
        self.broken_indexes += other.broken_indexes;
        self.postponed += other.postponed;
    }
}
