//! What is out of order in a table, and what would put it right.
//!
//! ```text
//! table, clock --measure--> Figures --findings--> one Finding for each check, with the statement that cures it
//! ```
//! Where a table has an option for a threshold, that is taken; the other thresholds are the constants below.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`, `plan`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::options::MemorySize;
use crate::plan::PlannedFile;
use crate::plan::live::{LiveRequest, PartitionPredicate, all_manifests, first_creation, live_files};
use crate::spec::partition::partition_tuple;
use crate::spec::{CommitKind, Snapshot};
use crate::store::{Snapshots, TableFiles, Tags};
use crate::table::Table;

/// Files of a bucket from which on there are too many.
const FILES_PER_BUCKET: f64 = 50.0;
/// The share of dead rows from which on a rewrite pays.
const DEAD_SHARE: f64 = 0.1;
/// Commits an hour from which on they are too many: one that writes and one that compacts, each half a minute.
const COMMITS_PER_HOUR: f64 = 240.0;
/// Seconds between a commit's first file and the commit from which on it takes long.
const COMMIT_SECONDS: f64 = 600.0;
/// Files that may be orphans from which on it is worth to remove them.
const ORPHANS: f64 = 10.0;
/// Snapshots that the commit duration is taken from.
const DURATION_WINDOW: i64 = 10;
/// Buckets that are listed to look for orphans: to list them all would take as long as to remove them.
const SAMPLED: usize = 16;
/// Files that are listed of a bucket.
const LISTED: usize = 10_000;
const MINUTE_MILLIS: i64 = 60 * 1000;
/// Before the latest snapshot: what the commit rate is taken from.
const HOUR_MILLIS: i64 = 60 * MINUTE_MILLIS;
/// Files that are younger may belong to a commit that is under way.
const DAY_MILLIS: i64 = 24 * HOUR_MILLIS;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Past the threshold.
    Notice,
    /// Twice the threshold: reads or storage suffer.
    Warning,
    /// Many times the threshold, or past a limit where writers stop.
    Critical,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was found; `None` where it can't be told.
    pub figure: Option<f64>,
    /// Where it begins to matter.
    pub threshold: Option<f64>,
    /// What the figure and the threshold count.
    pub unit: &'static str,
    /// The finding in words, with the place where it is worst.
    pub detail: String,
    /// The statement that puts it right; `None` where all is well, or none does and `detail` says what would.
    pub cure: Option<String>,
}

/// The clocks that a check goes by.
pub struct Clock<'a> {
    /// Now, in epoch milliseconds.
    pub now: i64,
    /// The instant of a wall clock of the table's writers, which is what files keep; both in milliseconds.
    pub instant: &'a (dyn Fn(i64) -> i64 + Sync),
}

/// The findings of a table, those that are fine too.
///
/// # Errors
/// Errors of the store and of the table's metadata.
pub async fn table_health(table: &Arc<Table>, clock: &Clock<'_>) -> Result<Vec<Finding>> {
    let measured = async {
        let limits = Limits::of(table)?;
        let figures = measure(table, &limits, clock).await?;
        Ok(findings(&figures, &limits))
    };
    Box::pin(measured).await.map_err(|error| table.at(error))
}

/// What the table's options say.
#[derive(Debug)]
struct Limits {
    name: String,
    keyed: bool,
    small_file: i64,
    small_files: f64,
    runs: f64,
    stop_runs: f64,
    manifests: f64,
    manifest_bytes: f64,
    retained_min: i64,
    retained_max: i64,
    retained: Duration,
    consumers_expire: bool,
}

impl Limits {
    fn of(table: &Table) -> Result<Self> {
        let options = table.settings();
        let count = |key, default: i32| Ok::<_, crate::error::Error>(options.value::<i32>(key)?.unwrap_or(default));
        let bytes = |key| options.value::<MemorySize>(key).map(|size| size.map(|size| size.0));
        let keyed = table.schema().has_primary_key();
        let target = bytes("target-file-size")?.unwrap_or(if keyed { 128 << 20 } else { 256 << 20 });
        let ratio = options.value::<f64>("compaction.small-file-ratio")?.unwrap_or(0.7);
        let runs = count("num-sorted-run.compaction-trigger", 5)?;
        Ok(Self {
            name: format!("{}.{}", table.identifier().database, table.identifier().table),
            keyed,
            small_file: (target as f64 * ratio) as i64,
            small_files: f64::from(count("compaction.min.file-num", 5)?),
            runs: f64::from(runs),
            stop_runs: f64::from(count("num-sorted-run.stop-trigger", runs.saturating_add(3))?),
            manifests: f64::from(count("manifest.merge-min-count", 30)?),
            manifest_bytes: bytes("manifest.full-compaction-threshold-size")?.unwrap_or(16 << 20) as f64,
            retained_min: i64::from(count("snapshot.num-retained.min", 10)?),
            retained_max: i64::from(count("snapshot.num-retained.max", i32::MAX)?),
            retained: options.value::<Duration>("snapshot.time-retained")?.unwrap_or(Duration::from_secs(3600)),
            consumers_expire: options.is_set("consumer.expiration-time"),
        })
    }

    fn call(&self, procedure: &str, rest: &str) -> Option<String> {
        Some(format!("CALL sys.{procedure}(`table` => '{}'{rest})", self.name.replace('\'', "''")))
    }
}

/// The largest of many figures and the bucket where it is.
#[derive(Debug, Default)]
struct Worst {
    figure: f64,
    place: String,
}

/// What a table looks like.
#[derive(Debug, Default)]
struct Figures {
    /// The id of the latest snapshot.
    latest: i64,
    buckets: i64,
    files: i64,
    small_files: Worst,
    all_small_files: i64,
    bucket_files: Worst,
    runs: Worst,
    level0_files: i64,
    level0_rows: i64,
    rows: i64,
    dead_rows: i64,
    manifests: i64,
    manifest_bytes: i64,
    snapshots: i64,
    wanted_snapshots: i64,
    consumer: Option<(String, i64)>,
    commits_per_hour: Option<f64>,
    commit_seconds: Option<f64>,
    orphans: i64,
    orphan_bytes: i64,
    /// Buckets that were looked at for orphans.
    looked_at: i64,
}

/// What the live files of a bucket add up to.
#[derive(Debug, Default)]
struct BucketSums {
    files: i64,
    small: i64,
    level0: i64,
    levels: HashSet<i32>,
}

async fn measure(table: &Arc<Table>, limits: &Limits, clock: &Clock<'_>) -> Result<Figures> {
    let mut figures = Figures::default();
    let snapshots = table.snapshots();
    let Some(latest) = snapshots.latest().await? else { return Ok(figures) };
    let request = LiveRequest { deletions: true, ..LiveRequest::default() };
    let files = Box::pin(live_files(table, &latest, request)).await?;
    figures.add_files(table, &files, limits)?;
    for manifest in all_manifests(table, &latest).await? {
        figures.manifests += 1;
        figures.manifest_bytes += manifest.file_size;
    }
    let earliest = snapshots.earliest().await?.unwrap_or_else(|| Arc::clone(&latest));
    figures.add_history(&snapshots, &earliest, &latest, limits, clock).await?;
    let first = latest.id.saturating_sub(DURATION_WINDOW - 1).max(earliest.id);
    let mut seconds = Vec::new();
    for id in first..=latest.id {
        if let Some(snapshot) = snapshots.find(id).await?
            && snapshot.commit_kind == CommitKind::Append
            && let Some(begun) = first_creation(table, &snapshot).await?
        {
            seconds.push((snapshot.time_millis - (clock.instant)(begun)).max(0) as f64 / 1000.0);
        }
    }
    if !seconds.is_empty() {
        figures.commit_seconds = Some(seconds.iter().sum::<f64>() / seconds.len() as f64);
    }
    let consumers = table.consumers().list().await?;
    let oldest = consumers.into_iter().min_by_key(|consumer| consumer.next_snapshot);
    figures.consumer = oldest.map(|consumer| (consumer.id, consumer.next_snapshot));
    figures.add_orphans(table, &files, &earliest, clock.now).await?;
    Ok(figures)
}

impl Figures {
    fn add_files(&mut self, table: &Table, files: &[PlannedFile], limits: &Limits) -> Result<()> {
        let mut buckets: HashMap<(&Arc<[u8]>, i32), BucketSums> = HashMap::new();
        for file in files {
            let (entries, row) = (&*file.file.entries, file.file.row as usize);
            let sums = buckets.entry((&file.partition.row, file.file.bucket())).or_default();
            let level = entries.level[row];
            sums.files += 1;
            sums.small += i64::from(entries.file_size[row] < limits.small_file && (!limits.keyed || level > 0));
            self.rows = self.rows.saturating_add(entries.row_count[row]);
            let deleted = file.deletion.as_ref().and_then(|deletion| deletion.range.cardinality).unwrap_or(0);
            let retracts = entries.delete_row_count[row].max(0);
            self.dead_rows = self.dead_rows.saturating_add(deleted).saturating_add(retracts);
            match level {
                0 => {
                    sums.level0 += 1;
                    self.level0_rows = self.level0_rows.saturating_add(entries.row_count[row]);
                }
                level => {
                    sums.levels.insert(level);
                }
            }
        }
        self.files = files.len() as i64;
        self.buckets = buckets.len() as i64;
        let fields = table.schema().partition_fields();
        let place = |key: &(&Arc<[u8]>, i32)| match fields.is_empty() {
            true => Ok(format!("bucket {}", key.1)),
            false => Ok::<_, crate::error::Error>(format!(
                "partition {}, bucket {}",
                partition_tuple(key.0, &fields)?,
                key.1
            )),
        };
        let worst = |figure: &dyn Fn(&BucketSums) -> i64| -> Result<Worst> {
            let found =
                buckets.iter().map(|(key, sums)| (figure(sums), key)).max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(a.1)));
            match found {
                Some((figure, key)) => Ok(Worst { figure: figure as f64, place: place(key)? }),
                None => Ok(Worst::default()),
            }
        };
        self.small_files = worst(&|sums| if sums.small > 1 { sums.small } else { 0 })?;
        self.bucket_files = worst(&|sums| sums.files)?;
        self.all_small_files = buckets.values().map(|sums| sums.small).filter(|small| *small > 1).sum();
        if limits.keyed {
            self.runs = worst(&|sums| sums.level0 + sums.levels.len() as i64)?;
            self.level0_files = buckets.values().map(|sums| sums.level0).sum();
        }
        Ok(())
    }

    async fn add_history(
        &mut self,
        snapshots: &Snapshots,
        earliest: &Snapshot,
        latest: &Snapshot,
        limits: &Limits,
        clock: &Clock<'_>,
    ) -> Result<()> {
        self.latest = latest.id;
        self.snapshots = latest.id - earliest.id + 1;
        let retained = i64::try_from(limits.retained.as_millis()).unwrap_or(i64::MAX);
        let young = match snapshots.at_or_after(clock.now.saturating_sub(retained)).await? {
            Some(first) => latest.id - first.id + 1,
            None => 0,
        };
        self.wanted_snapshots = young.max(limits.retained_min).min(limits.retained_max.max(limits.retained_min));
        let begin = latest.time_millis.saturating_sub(HOUR_MILLIS);
        if let Some(first) = snapshots.at_or_after(begin).await? {
            let commits = (latest.id - first.id + 1) as f64;
            // What expired of the hour is as what is left of it.
            let is_whole = earliest.id == 1 || earliest.id < first.id;
            let hours = (latest.time_millis - first.time_millis).max(MINUTE_MILLIS) as f64 / HOUR_MILLIS as f64;
            self.commits_per_hour = Some(if is_whole { commits } else { commits / hours });
        }
        Ok(())
    }

    /// Estimates how many data files no snapshot, tag or branch has, by what lies in a few buckets: what was written before
    /// the earliest snapshot and is not a part of that one, of the latest or of what has a name, is never read again.
    async fn add_orphans(
        &mut self,
        table: &Arc<Table>,
        live: &[PlannedFile],
        earliest: &Snapshot,
        now: i64,
    ) -> Result<()> {
        let old = now.saturating_sub(DAY_MILLIS).min(earliest.time_millis);
        let prefix = table.settings().value::<String>("data-file.prefix")?.unwrap_or_else(|| "data-".to_owned());
        let files = table.files();
        let folders = sampled(live);
        self.looked_at = folders.len() as i64;
        let mut candidates = HashMap::new();
        for (path, bucket) in &folders {
            for file in files.list_some(&files.bucket_dir(path, *bucket)?, LISTED).await? {
                let Some(name) = file.location.filename().filter(|name| name.starts_with(&prefix)) else { continue };
                if file.last_modified.timestamp_millis() < old {
                    candidates.insert(name.to_owned(), file.size);
                }
            }
        }
        for file in live {
            candidates.remove(file.file.name());
        }
        if candidates.is_empty() {
            return Ok(());
        }
        let rows: HashSet<Arc<[u8]>> = live
            .iter()
            .filter(|file| folders.contains(&(&*file.partition.path, file.file.bucket())))
            .map(|file| Arc::clone(&file.partition.row))
            .collect();
        let wanted: PartitionPredicate =
            Arc::new(move |partitions: &[Arc<[u8]>]| Ok(partitions.iter().map(|row| rows.contains(row)).collect()));
        for snapshot in named_states(table, earliest).await? {
            let request = LiveRequest { partitions: Some(Arc::clone(&wanted)), ..LiveRequest::default() };
            for file in Box::pin(live_files(table, &snapshot, request)).await? {
                candidates.remove(file.file.name());
            }
            if candidates.is_empty() {
                break;
            }
        }
        let share = |found: i64| found.saturating_mul(self.buckets) / self.looked_at.max(1);
        self.orphans = share(candidates.len() as i64);
        self.orphan_bytes = share(candidates.values().map(|size| *size as i64).sum());
        Ok(())
    }
}

/// The folders of a few buckets, spread over all that have files.
fn sampled(live: &[PlannedFile]) -> BTreeSet<(&str, i32)> {
    let all: BTreeSet<(&str, i32)> = live.iter().map(|file| (&*file.partition.path, file.file.bucket())).collect();
    let step = all.len().div_ceil(SAMPLED).max(1);
    all.into_iter().step_by(step).collect()
}

/// The earliest state, those of tags, and of every branch the earliest, latest and tagged ones.
async fn named_states(table: &Table, earliest: &Snapshot) -> Result<Vec<Snapshot>> {
    let mut states = vec![earliest.clone()];
    states.extend(table.tags().list().await?.iter().map(|tag| tag.snapshot.clone()));
    let names = table.branches().names().await?;
    for name in std::iter::once(None).chain(names.iter().map(|name| Some(name.as_str()))) {
        let branch: Arc<TableFiles> = Arc::new(table.files().with_branch(name)?);
        let snapshots = Snapshots::new(Arc::clone(&branch), Arc::clone(table.caches()));
        states.extend(snapshots.earliest().await?.map(|snapshot| snapshot.as_ref().clone()));
        states.extend(snapshots.latest().await?.map(|snapshot| snapshot.as_ref().clone()));
        let tags = Tags::new(branch, Arc::clone(table.caches())).list().await?;
        states.extend(tags.iter().map(|tag| tag.snapshot.clone()));
    }
    let mut seen = HashSet::new();
    states.retain(|snapshot| seen.insert(snapshot.base_manifest_list.clone() + &snapshot.delta_manifest_list));
    Ok(states)
}

/// How bad it is to reach `figure` where `threshold` is fine.
fn graded(figure: f64, threshold: f64) -> Severity {
    match figure {
        figure if figure <= threshold => Severity::Ok,
        figure if figure <= 2.0 * threshold => Severity::Notice,
        figure if figure <= 10.0 * threshold => Severity::Warning,
        _ => Severity::Critical,
    }
}

fn size(bytes: i64) -> String {
    match bytes {
        ..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

/// The findings of a table that looks like `figures`.
fn findings(figures: &Figures, limits: &Limits) -> Vec<Finding> {
    let mut all = Vec::new();
    let mut add = |check, figure: Option<f64>, threshold: f64, unit, detail: String, cure: Option<String>| {
        let figure = figure.map(|figure| (figure * 1000.0).round() / 1000.0);
        let severity = figure.map_or(Severity::Ok, |figure| graded(figure, threshold));
        let cure = cure.filter(|_| severity > Severity::Ok);
        all.push(Finding { check, severity, figure, threshold: Some(threshold), unit, detail, cure });
    };
    let at = |worst: &Worst| if worst.figure <= 0.0 { String::new() } else { format!(", most in {}", worst.place) };
    let full = limits.call("compact", ", compact_strategy => 'full'");
    add(
        "small_files",
        Some(figures.small_files.figure),
        limits.small_files,
        "files of a bucket",
        format!(
            "{} of {} files are smaller than {}{}",
            figures.all_small_files,
            figures.files,
            size(limits.small_file),
            at(&figures.small_files)
        ),
        full.clone(),
    );
    add(
        "files_per_bucket",
        Some(figures.bucket_files.figure),
        FILES_PER_BUCKET,
        "files of a bucket",
        format!("{} files in {} buckets{}", figures.files, figures.buckets, at(&figures.bucket_files)),
        limits.call("compact", ""),
    );
    if limits.keyed {
        add(
            "sorted_runs",
            Some(figures.runs.figure),
            limits.runs,
            "sorted runs of a bucket",
            format!("writers stop at {}{}", limits.stop_runs, at(&figures.runs)),
            limits.call("compact", ""),
        );
        add(
            "level0_backlog",
            Some(figures.level0_files as f64),
            limits.runs * figures.buckets.max(1) as f64,
            "files",
            format!("{} rows wait in level 0 of {} buckets", figures.level0_rows, figures.buckets),
            limits.call("compact", ""),
        );
    }
    let dead = if figures.rows > 0 { figures.dead_rows as f64 / figures.rows as f64 } else { 0.0 };
    add(
        "dead_rows",
        Some(dead),
        DEAD_SHARE,
        "share of rows",
        format!("{} of {} rows are deleted or tell of a deletion", figures.dead_rows, figures.rows),
        full,
    );
    let manifests = limits.call("compact_manifest", "");
    add(
        "manifests",
        Some(figures.manifests as f64),
        limits.manifests,
        "manifests",
        format!("{} manifests tell of {} files", figures.manifests, figures.files),
        manifests.clone(),
    );
    add(
        "manifest_size",
        Some(figures.manifest_bytes as f64),
        limits.manifest_bytes,
        "bytes",
        format!("{} of manifests are read to plan a query", size(figures.manifest_bytes)),
        manifests,
    );
    add(
        "snapshots",
        Some(figures.snapshots as f64),
        figures.wanted_snapshots.max(limits.retained_min) as f64,
        "snapshots",
        format!(
            "{} snapshots, of which {} are to be kept",
            figures.snapshots,
            figures.wanted_snapshots.min(figures.snapshots)
        ),
        limits.call("expire_snapshots", ""),
    );
    let lag = |next: i64, latest: i64| (latest + 1 - next).max(0) as f64;
    let kept = figures.wanted_snapshots.max(limits.retained_min) as f64;
    match &figures.consumer {
        None => add("consumers", Some(0.0), kept, "snapshots", "there are no consumers".to_owned(), None),
        Some((id, next)) => add(
            "consumers",
            Some(lag(*next, figures.latest)),
            kept,
            "snapshots",
            format!(
                "consumer {id} is the furthest behind and keeps the snapshots from {next} on{}",
                if limits.consumers_expire { "" } else { "; consumer.expiration-time is not set" }
            ),
            limits.call("reset_consumer", &format!(", consumer_id => '{}'", id.replace('\'', "''"))),
        ),
    }
    add(
        "commit_rate",
        figures.commits_per_hour,
        COMMITS_PER_HOUR,
        "commits an hour",
        "in the hour before the latest snapshot; where there are too many, commit more at once".to_owned(),
        None,
    );
    add(
        "commit_duration",
        figures.commit_seconds,
        COMMIT_SECONDS,
        "seconds",
        "from a commit's first file to its snapshot, of late".to_owned(),
        None,
    );
    add(
        "orphan_files",
        Some(figures.orphans as f64),
        ORPHANS,
        "files",
        match figures.orphans {
            0 => format!("none was found in {} of {} buckets", figures.looked_at, figures.buckets),
            _ => format!(
                "about {} of files that are older than a day and belong to no snapshot, tag or branch, by {} of {} buckets; \
                 remove_orphan_files with dry_run => true counts them",
                size(figures.orphan_bytes),
                figures.looked_at,
                figures.buckets,
            ),
        },
        limits.call("remove_orphan_files", ""),
    );
    if let Some(runs) = all.iter_mut().find(|finding| finding.check == "sorted_runs")
        && figures.runs.figure >= limits.stop_runs
    {
        runs.severity = Severity::Critical;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            name: "db.it's".to_owned(),
            keyed: true,
            small_file: 70 << 20,
            small_files: 5.0,
            runs: 5.0,
            stop_runs: 8.0,
            manifests: 30.0,
            manifest_bytes: f64::from(16 << 20),
            retained_min: 10,
            retained_max: i64::MAX,
            retained: Duration::from_secs(3600),
            consumers_expire: false,
        }
    }

    fn of<'a>(findings: &'a [Finding], check: &str) -> &'a Finding {
        findings.iter().find(|finding| finding.check == check).unwrap()
    }

    #[test]
    fn findings_when_there_is_nothing_then_all_is_well_and_nothing_to_cure() {
        let found = findings(&Figures::default(), &limits());
        assert_eq!(found.len(), 12);
        for finding in found {
            assert_eq!((finding.severity, finding.cure), (Severity::Ok, None), "{}", finding.check);
        }
    }

    #[test]
    fn findings_when_figures_pass_thresholds_then_graded_with_a_cure() {
        let runs = |figure| Figures {
            runs: Worst { figure, place: "bucket 3".to_owned() },
            consumer: Some(("o'1".to_owned(), 80)),
            latest: 100,
            wanted_snapshots: 15,
            ..Figures::default()
        };
        for (figure, severity) in
            [(5.0, Severity::Ok), (6.0, Severity::Notice), (8.0, Severity::Critical), (60.0, Severity::Critical)]
        {
            let all = findings(&runs(figure), &limits());
            let found = of(&all, "sorted_runs");
            assert_eq!(found.severity, severity, "{figure}");
            assert_eq!(found.detail, "writers stop at 8, most in bucket 3");
            let cure = (severity > Severity::Ok).then(|| "CALL sys.compact(`table` => 'db.it''s')".to_owned());
            assert_eq!(found.cure, cure);
        }
        let all = findings(&runs(0.0), &limits());
        let consumers = of(&all, "consumers");
        assert_eq!((consumers.figure, consumers.threshold), (Some(21.0), Some(15.0)));
        assert_eq!(consumers.severity, Severity::Notice);
        let cure = "CALL sys.reset_consumer(`table` => 'db.it''s', consumer_id => 'o''1')";
        assert_eq!(consumers.cure.as_deref(), Some(cure));
    }
}
