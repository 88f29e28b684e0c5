//! What happens once, before the first partition of a scan gives rows: deletion vectors are read, sections are resolved, and
//! the files go into the sources with their live rows.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, MetricBuilder, Time};
use datafusion_datasource::source::DataSourceExec;
use futures::future::{BoxFuture, Shared};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};

use super::LakeScanExec;
use super::column_stream::ColumnWork;
use super::fold_stream::FoldWork;
use super::unit::FilePlace;
use crate::error::Error;
use crate::plan::{PlannedFile, ScanPlan};
use crate::read::deletion;
use crate::read::key_reader::FileKeyReader;
use crate::read::live_rows::{FileRows, LiveRowsRef};
use crate::read::resolve::{MergeRules, resolve};
use crate::store::cache::FileKey;

/// The preparation of a scan, which all its partitions wait for.
pub(super) type Preparation = Shared<BoxFuture<'static, std::result::Result<Arc<Prepared>, Arc<DataFusionError>>>>;

/// A scan that is ready to give rows.
pub(super) struct Prepared {
    sources: Vec<Arc<DataSourceExec>>,
    fold: Option<FoldWork>,
    columns: Option<ColumnWork>,
}

impl Prepared {
    /// The rows of `partition`.
    pub(super) fn stream(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let mut streams: Vec<BoxStream<'static, Result<RecordBatch>>> = Vec::new();
        for source in &self.sources {
            if partition < source.properties().output_partitioning().partition_count() {
                streams.push(source.execute(partition, Arc::clone(&context))?.boxed());
            }
        }
        if let Some(fold) = &self.fold {
            streams.push(fold.stream(partition, Arc::clone(&context))?);
        }
        if let Some(columns) = &self.columns {
            streams.push(columns.stream(partition, context));
        }
        Ok(futures::stream::iter(streams).flatten().boxed())
    }
}

/// A clone of an error that several partitions meet.
pub(super) fn shared_error(error: Arc<DataFusionError>) -> DataFusionError {
    DataFusionError::Shared(error)
}

/// Starts the preparation; it runs when it is first waited for.
pub(super) fn start(scan: &LakeScanExec, context: Arc<TaskContext>) -> Preparation {
    let scan = scan.clone();
    let work = async move {
        let prepared = SpawnedTask::spawn(async move { prepare(scan, context).await })
            .join()
            .await
            .map_err(|error| DataFusionError::External(Box::new(error)))
            .and_then(|result| result);
        prepared.map(Arc::new).map_err(Arc::new)
    };
    work.boxed().shared()
}

struct Metrics {
    resolve_time: Time,
    sections_cached: Count,
    rows_dead: Count,
    rows_folded: Count,
}

async fn prepare(scan: LakeScanExec, context: Arc<TaskContext>) -> Result<Prepared> {
    let metrics = Metrics {
        resolve_time: MetricBuilder::new(&scan.metrics).subset_time("time_resolve", 0),
        sections_cached: MetricBuilder::new(&scan.metrics).counter("sections_cached", 0),
        rows_dead: MetricBuilder::new(&scan.metrics).counter("rows_dead", 0),
        rows_folded: MetricBuilder::new(&scan.metrics).counter("keys_folded", 0),
    };
    let timer = metrics.resolve_time.timer();
    let raw = raw_rows(&scan, &scan.plan).await?;
    let sections = resolve_sections(&scan, &scan.plan, &context, &metrics).await?;
    let minus = match &scan.minus {
        Some(plan) => Box::pin(known_rows(&scan, plan, &context, &metrics)).await?,
        None => KnownRows::default(),
    };
    timer.done();

    let config = context.session_config().options();
    let mut sources = Vec::with_capacity(scan.units.len());
    for unit in &scan.units {
        let mut files = Vec::with_capacity(unit.files.len());
        for place in &unit.files {
            let rows = match *place {
                FilePlace::Raw(index) => &raw[index],
                FilePlace::Section(section, index) => sections[section].of(index),
            };
            let file = place.file(&scan.plan);
            let rows = minus.left_of(file, rows);
            files.extend(scan.factory.partitioned_file(file, &rows)?);
        }
        let source =
            unit.with_files(files, scan.partitions, config.optimizer.repartition_file_min_size, scan.ordered)?;
        sources.push(Arc::new(DataSourceExec::new(source)));
    }
    let fold = if scan.fold { FoldWork::try_new(&scan, sections)? } else { None };
    let columns = ColumnWork::try_new(&scan).await?;
    Ok(Prepared { sources, fold, columns })
}

/// Rows of files, by what names a file.
#[derive(Default)]
struct KnownRows(HashMap<FileName, FileRows>);

/// Partition, bucket and name. Names hold a UUID.
type FileName = (String, i32, String);

fn file_name(file: &PlannedFile) -> FileName {
    (file.partition.path.clone(), file.file.bucket(), file.file.name().to_owned())
}

impl KnownRows {
    /// `rows` of `file` without the known ones.
    fn left_of<'a>(&self, file: &PlannedFile, rows: &'a FileRows) -> Cow<'a, FileRows> {
        if self.0.is_empty() {
            return Cow::Borrowed(rows);
        }
        match self.0.get(&file_name(file)) {
            Some(known) => Cow::Owned(rows.without(known)),
            None => Cow::Borrowed(rows),
        }
    }
}

/// The rows that are live in `plan` by themselves, of the files that the scan has too. Keys that are folded there are not
/// among them, so that both scans give what they are folded to.
async fn known_rows(
    scan: &LakeScanExec,
    plan: &Arc<ScanPlan>,
    context: &Arc<TaskContext>,
    metrics: &Metrics,
) -> Result<KnownRows> {
    let own: HashSet<FileName> = scan.plan.scanned().map(file_name).collect();
    let mut known = HashMap::new();
    let mut take = |file: &PlannedFile, rows: &FileRows| {
        let name = file_name(file);
        if own.contains(&name) {
            known.insert(name, rows.clone());
        }
    };
    for (file, rows) in plan.raw.iter().zip(raw_rows(scan, plan).await?) {
        take(file, &rows);
    }
    for (section, live) in plan.sections.iter().zip(resolve_sections(scan, plan, context, metrics).await?) {
        for (index, file) in section.files.iter().enumerate() {
            take(file, live.of(index));
        }
    }
    Ok(KnownRows(known))
}

/// The live rows of raw files: all but what their deletion vectors mark and what their indexes rule out.
async fn raw_rows(scan: &LakeScanExec, plan: &ScanPlan) -> Result<Vec<FileRows>> {
    let mut rows = vec![FileRows::All; plan.raw.len()];
    let marked: Vec<usize> = (0..rows.len())
        .filter(|&index| plan.raw[index].deletion.is_some() || plan.raw[index].candidates.is_some())
        .collect();
    let mut reads = futures::stream::iter(marked)
        .map(|index| {
            let table = Arc::clone(&scan.table);
            let file = plan.raw[index].clone();
            async move {
                let deleted = deletion::load(&table, &file).await?;
                let live = deletion::live_rows(deleted.as_deref(), file.candidates.as_deref(), file.file.rows())?;
                Ok::<_, Error>((index, live))
            }
        })
        .buffer_unordered(8);
    while let Some((index, live)) = reads.try_next().await? {
        rows[index] = live;
    }
    drop(reads);
    Ok(rows)
}

/// Resolves all sections, several at once; live rows that are known are not computed again.
async fn resolve_sections(
    scan: &LakeScanExec,
    plan: &Arc<ScanPlan>,
    context: &Arc<TaskContext>,
    metrics: &Metrics,
) -> Result<Vec<LiveRowsRef>> {
    let keep_retracts = scan.factory.system_columns().has_kinds() && !scan.table.settings().ignore_delete;
    let rules = Arc::new(MergeRules { keep_retracts, ..MergeRules::of(&scan.table) });
    let reader = Arc::new(FileKeyReader::new(Arc::clone(&scan.table), Arc::clone(scan.factory.reader_factory())));
    let pool = Arc::clone(context.memory_pool());
    let tasks = context.session_config().target_partitions().max(1);
    let mut resolved: Vec<(usize, LiveRowsRef)> = futures::stream::iter(0..plan.sections.len())
        .map(|index| {
            let plan = Arc::clone(plan);
            let table = Arc::clone(&scan.table);
            let rules = Arc::clone(&rules);
            let reader = Arc::clone(&reader);
            let pool = Arc::clone(&pool);
            let cached = metrics.sections_cached.clone();
            async move {
                let task = SpawnedTask::spawn(async move {
                    let section = &plan.sections[index];
                    let key = FileKey::new(rules.cache_key(&table, section), 0);
                    table
                        .caches()
                        .decoded(key, async {
                            let live = resolve(section, &rules, reader as _, &pool).await?;
                            let weight = live.memory();
                            Ok((live, weight))
                        })
                        .await
                });
                let live = task
                    .join()
                    .await
                    .map_err(|error| Error::internal("a resolving task failed").with_source(error))??;
                if live.hit {
                    cached.add(1);
                }
                Ok::<_, Error>((index, live.value))
            }
        })
        .buffer_unordered(tasks)
        .try_collect()
        .await?;
    resolved.sort_by_key(|(index, _)| *index);
    for (_, live) in &resolved {
        metrics.rows_dead.add(live.dead as usize);
        metrics.rows_folded.add(live.groups as usize);
    }
    Ok(resolved.into_iter().map(|(_, live)| live).collect())
}
