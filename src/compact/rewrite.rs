//! Sorted runs are read, merged and written anew: three tasks, so that decoding, merging and encoding go on at once.
//!
//! ```text
//! run --source.rs--> chunks \
//! run --source.rs--> chunks  +--window.rs, merge.rs--> rows, changes, marks --RollingWriter--> files
//! files that stay -> chunks /
//! ```
//!
//! May import: `error`, `spec`, `write`, rest of this room.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::MemoryConsumer;
use tokio::sync::mpsc;

use super::merge::{Changes, KindRows, Merged, Merger};
use super::rules::Rules;
use super::source::{AHEAD, Chunk, Cursor, ReadPlan, SourceFile};
use super::window::Window;
use crate::error::{Error, Result};
use crate::options::MergeEngine;
use crate::spec::types::arrow_schema;
use crate::spec::{DataFileMeta, FileSource};
use crate::write::{DataFileContext, FileKind, RollingWriter};

/// Windows that wait to be written.
const WAITING: usize = 2;

/// Runs of one bucket that are merged.
pub(super) struct Rewrite<'a> {
    pub rules: &'a Rules,
    pub context: &'a DataFileContext,
    /// The runs, those that stay among them.
    pub runs: Vec<Vec<SourceFile>>,
    /// The level of the files that are written.
    pub level: i32,
    pub drop_deletes: bool,
    pub changes: Changes,
    /// Whether files are written; else only changes and marks are.
    pub data: bool,
}

/// What was written.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub files: Vec<DataFileMeta>,
    pub changelog: Vec<DataFileMeta>,
    /// Files that stay, and the rows of them that are not live any more.
    pub marks: Vec<(String, u64)>,
}

impl Rewrite<'_> {
    /// Reads, merges, writes.
    ///
    /// # Errors
    /// Errors of reading and writing files; exhausted when the memory pool is; invalid, with the key, where rows can't be
    /// folded.
    pub(super) async fn run(self) -> Result<Written> {
        let Self { rules, context, runs, level, drop_deletes, changes, data } = self;
        let schema = rules.table.schema();
        let arrow = arrow_schema(&schema.fields);
        let files: Vec<&SourceFile> = runs.iter().flatten().collect();
        let names: Vec<String> = files.iter().map(|file| file.planned.file.name().to_owned()).collect();
        let merger = Merger {
            keys: rules.merge.keys.iter().filter_map(|key| schema.index_of(&key.name)).collect(),
            schema: Arc::clone(schema),
            arrow: Arc::clone(&arrow),
            engine: rules.engine.clone(),
            lookup: rules.looks_up && rules.table.settings().merge_engine != MergeEngine::FirstRow,
            marks: rules.vectors,
            drop_deletes,
            changes,
            compared: rules.compared.clone(),
            levels: files.iter().map(|file| file.planned.file.level()).collect(),
            references: files.iter().map(|file| file.reference).collect(),
        };
        let positions_only = rules.needs_positions_only();
        let plan = ReadPlan::try_new(schema, &rules.merge, rules.expiry.clone(), positions_only, runs.len())?;
        let mut windows = windows(rules, merger, Arc::new(plan), runs);

        let kind = FileKind::KeyValue { level, source: FileSource::Compact };
        let mut rows = if data { Some(RollingWriter::new(context.clone(), kind)?) } else { None };
        let mut changelog = match changes {
            Changes::Untold => None,
            _ => Some(RollingWriter::new(context.clone(), FileKind::Changelog { level })?),
        };
        let mut written = Written::default();
        while let Some(merged) = windows.merged.recv().await {
            let merged = merged?;
            write(rows.as_mut(), merged.rows, &arrow).await?;
            write(changelog.as_mut(), merged.changelog, &arrow).await?;
            written.marks.extend(merged.marks.into_iter().map(|(file, row)| (names[file].clone(), row)));
        }
        windows.task.join().await.map_err(|error| Error::internal("a merging task failed").with_source(error))?;
        if let Some(rows) = rows {
            written.files = rows.finish().await?;
        }
        if let Some(changelog) = changelog {
            written.changelog = changelog.finish().await?;
        }
        Ok(written)
    }
}

async fn write(writer: Option<&mut RollingWriter>, rows: Option<KindRows>, schema: &SchemaRef) -> Result<()> {
    let (Some(writer), Some(rows)) = (writer, rows) else { return Ok(()) };
    let batch = RecordBatch::try_new(Arc::clone(schema), rows.columns)?;
    writer.write_key_values(&batch, &rows.sequence, &rows.kinds).await
}

/// A task that merges, and what it gives.
struct Windows {
    merged: mpsc::Receiver<Result<Merged>>,
    task: SpawnedTask<()>,
}

fn windows(rules: &Rules, merger: Merger, plan: Arc<ReadPlan>, runs: Vec<Vec<SourceFile>>) -> Windows {
    let (sender, merged) = mpsc::channel(WAITING);
    let reader = Arc::clone(&rules.reader);
    let reservation = MemoryConsumer::new("LakeCompact").register(rules.context.memory_pool());
    let mut next = 0;
    let numbered: Vec<Vec<(usize, SourceFile)>> = runs
        .into_iter()
        .map(|run| {
            let first = next;
            next += run.len();
            run.into_iter().enumerate().map(|(at, file)| (first + at, file)).collect()
        })
        .collect();
    let task = SpawnedTask::spawn(async move {
        let start = |run| Cursor::start(run, Arc::clone(&plan), Arc::clone(&reader));
        let mut cursors: Vec<Cursor> = numbered.into_iter().map(start).collect();
        loop {
            let next = async {
                for cursor in &mut cursors {
                    cursor.fill().await?;
                }
                let chunks: usize =
                    cursors.iter().filter_map(|cursor| cursor.chunk.as_deref()).map(Chunk::memory).sum();
                let Some(window) = Window::take(&mut cursors) else { return Ok(None) };
                let merged = merger.merge(&window)?;
                let made = [&merged.rows, &merged.changelog];
                let made: usize = made.into_iter().flatten().map(KindRows::memory).sum();
                reservation.try_resize(chunks * (AHEAD + 1) + made * WAITING)?;
                Ok::<_, Error>(Some(merged))
            };
            let step = next.await.transpose();
            let Some(step) = step else { return };
            let failed = step.is_err();
            if sender.send(step).await.is_err() || failed {
                return;
            }
        }
    });
    Windows { merged, task }
}
