//! What all compactions of a table follow: made once, shared by the tasks of all buckets.
//!
//! May import: `error`, `options`, `plan`, `read`, `spec`, `table`, `write`, rest of this room.

use std::sync::Arc;

use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::execution::TaskContext;

use super::expire::Expiry;
use super::levels::{FileFacts, Levels};
use super::merge::Engine;
use super::pick::{Picking, Unit, pick_full};
use crate::error::{Error, Result};
use crate::format::FileFormat;
use crate::options::{ChangelogProducer, FileRole, MergeEngine, WriteOptions};
use crate::plan::PlannedFile;
use crate::read::fold::FoldPlan;
use crate::read::key_reader::FileKeyReader;
use crate::read::parquet_reader::CheckedReaderFactory;
use crate::read::resolve::{KeyReader, MergeRules};
use crate::spec::{DataFileMeta, DataType};
use crate::table::Table;
use crate::write::{OwnFiles, check_writable, retracts_need_their_base};

/// Rules of a table, with what compactions of it read and write with.
pub(super) struct Rules {
    pub table: Arc<Table>,
    pub context: Arc<TaskContext>,
    /// The files that are made.
    pub own: Arc<OwnFiles>,
    pub write: Arc<WriteOptions>,
    pub merge: MergeRules,
    pub engine: Engine,
    /// Whether level 0 is compacted with what higher levels know of its keys (`spec/data.md 4.3`).
    pub looks_up: bool,
    /// `deletion-vectors.enabled`
    pub vectors: bool,
    /// `deletion-vectors.bitmap64`
    pub bitmap64: bool,
    pub producer: ChangelogProducer,
    /// Columns that tell whether a row changed, with `changelog-producer.row-deduplicate`.
    pub compared: Option<Vec<usize>>,
    pub expiry: Option<Expiry>,
    pub reader: Arc<dyn KeyReader>,
    picking: Picking,
    /// `compaction.force-rewrite-all-files`
    force_rewrite: bool,
    /// Files below this size are written anew together with their neighbours.
    pub small: u64,
    /// Whether rows that retract must not be folded before they meet the oldest version of their key.
    needs_base: bool,
}

impl Rules {
    /// Those of a key table.
    ///
    /// # Errors
    /// Unsupported for tables that can't be written, invalid for options that can't be followed.
    pub(super) fn new(table: &Arc<Table>, context: &Arc<TaskContext>, own: &Arc<OwnFiles>) -> Result<Self> {
        check_writable(table)?;
        Self::of(table, context, own).map_err(|error| table.at(error))
    }

    fn of(table: &Arc<Table>, context: &Arc<TaskContext>, own: &Arc<OwnFiles>) -> Result<Self> {
        let (schema, options) = (table.schema(), table.settings());
        if !schema.has_primary_key() {
            return Err(Error::internal("a table without key has no levels to compact"));
        }
        let flag = |key| -> Result<bool> { Ok(options.value::<bool>(key)?.unwrap_or(false)) };
        let write = Arc::new(WriteOptions::new(options, true)?);
        let engine = match options.merge_engine {
            MergeEngine::Deduplicate => Engine::Newest,
            MergeEngine::FirstRow => Engine::Oldest,
            MergeEngine::PartialUpdate | MergeEngine::Aggregation => {
                let all: Vec<usize> = (0..schema.fields.len()).collect();
                Engine::Fold(Arc::new(FoldPlan::try_new(schema, options, &all)?))
            }
        };
        let compared = if flag("changelog-producer.row-deduplicate")? {
            let ignored: Vec<String> =
                options.value("changelog-producer.row-deduplicate-ignore-fields")?.unwrap_or_default();
            let counts = |column: &usize| !ignored.contains(&schema.fields[*column].name);
            Some((0..schema.fields.len()).filter(counts).collect())
        } else {
            None
        };
        let ratio = options.value::<f64>("compaction.small-file-ratio")?.unwrap_or(0.7);
        let parquet = Arc::new(CachedParquetFileReaderFactory::new(
            Arc::clone(table.files().root().store()),
            context.runtime_env().cache_manager.get_file_metadata_cache(),
        ));
        let reader = FileKeyReader::new(Arc::clone(table), Arc::new(CheckedReaderFactory::new(parquet)));
        Ok(Self {
            context: Arc::clone(context),
            own: Arc::clone(own),
            merge: MergeRules::of(table),
            engine,
            looks_up: options.needs_lookup(),
            vectors: options.deletion_vectors_enabled,
            bitmap64: flag("deletion-vectors.bitmap64")?,
            producer: options.changelog_producer,
            compared,
            expiry: Expiry::of(schema, options, chrono::Utc::now().timestamp())?,
            reader: Arc::new(reader),
            picking: Picking::of(options)?,
            force_rewrite: flag("compaction.force-rewrite-all-files")?,
            small: (write.target_file_size as f64 * ratio) as u64,
            needs_base: retracts_need_their_base(table),
            write,
            table: Arc::clone(table),
        })
    }

    /// The types of the trimmed primary key.
    pub(super) fn key_types(&self) -> Vec<DataType> {
        self.merge.keys.iter().map(|key| key.data_type.clone()).collect()
    }

    /// The runs of a bucket.
    pub(super) fn levels(&self, files: &[PlannedFile]) -> Levels {
        let facts: Vec<FileFacts> = files.iter().map(FileFacts::of).collect();
        Levels::new(&facts, self.table.settings().num_levels)
    }

    /// What is compacted of a bucket next: all of it (`full`), or what is due.
    pub(super) fn pick(&self, files: &[PlannedFile], levels: &Levels, full: bool) -> Option<Unit> {
        if full {
            return pick_full(levels, |file| {
                self.must_rewrite(&files[file]) || (self.vectors && files[file].deletion.is_some())
            });
        }
        let unit = self.picking.pick(levels, chrono::Local::now().naive_local().and_utc().timestamp_millis())?;
        let retracts = unit.files.iter().any(|&file| may_retract(&files[file]));
        if self.needs_base && !self.looks_up && retracts && unit.files.len() < files.len() {
            return pick_full(levels, |_| false);
        }
        Some(unit)
    }

    /// Whether a file is written anew although nothing overlaps it.
    pub(super) fn must_rewrite(&self, file: &PlannedFile) -> bool {
        self.force_rewrite
            || self
                .expiry
                .as_ref()
                .is_some_and(|expiry| expiry.may_hold_expired(self.table.schema(), &DataFileMeta::from(&file.file)))
    }

    /// Whether a file has the format that files of `level` have.
    pub(super) fn has_format_of(&self, file: &PlannedFile, level: i32) -> Result<bool> {
        Ok(FileFormat::of_file(file.file.name())?.name() == self.write.format(FileRole::Data(level)))
    }

    /// Whether the old row of a key matters only by its place: there is nothing of it in what is written or told.
    pub(super) fn needs_positions_only(&self) -> bool {
        match self.engine {
            Engine::Newest => self.merge.sequence_fields.is_empty() && self.producer != ChangelogProducer::Lookup,
            Engine::Oldest => true,
            Engine::Fold(_) => false,
        }
    }
}

/// Whether a file has rows that retract, as far as is known.
pub(super) fn may_retract(file: &PlannedFile) -> bool {
    file.file.delete_rows() != Some(0)
}
