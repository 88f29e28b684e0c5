//! The whole upkeep of one table, within a budget: what `tidelake maintain` does from time to time, and what a service of one's
//! own can call.
//!
//! ```text
//! findings (maintain::health) -> compact -> manifests -> partitions, tags, consumers -> snapshots, changelogs -> orphans
//! ```
//! What is kept is the table's own affair: its options say so. A step that fails does not keep the others from being done.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use datafusion::execution::TaskContext;

use crate::commit::TableCommit;
use crate::compact::append::{AppendRequest, compact_append};
use crate::error::{Error, Result};
use crate::maintain::automatic_tags::{self, WallClock};
use crate::maintain::consumers::expire_consumers;
use crate::maintain::expire_partitions::{PartitionExpiry, expire_partitions};
use crate::maintain::health::{Clock, Finding, Severity, table_health};
use crate::maintain::orphan_files::{DEFAULT_AGE_MILLIS, OrphanRequest, remove_orphan_files};
use crate::maintain::upkeep::expire;
use crate::options::UpkeepOptions;
use crate::table::Table;

/// Rounds of expiry at one table: each lets as many go as `snapshot.expire.limit` says.
const ROUNDS: usize = 1000;

/// What upkeep may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Bytes that compactions read; `None` for as many as it takes.
    pub bytes: Option<u64>,
    /// When no further step is begun.
    pub until: Option<Instant>,
    /// Whether files that nothing refers to stay: to find them all folders are listed.
    pub keeps_orphans: bool,
}

impl Budget {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// What.
    pub what: &'static str,
    /// What came of it, in words.
    pub told: String,
    /// Bytes that are no longer stored, or will no longer be once their snapshots have expired.
    pub saved: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// What was done at a table.
#[derive(Clone, Debug, Default)]
pub struct CareReport {
    /// The table.
    pub table: String,
    /// What was out of order before.
    pub findings: Vec<Finding>,
    /// What was done; nothing for a table in order.
    pub deeds: Vec<Deed>,
    /// Whether the budget ended before the work.
    pub is_cut_short: bool,
}

impl CareReport {
    /// Whether anything failed.
    pub fn has_failed(&self) -> bool {
        self.deeds.iter().any(|deed| deed.error.is_some())
    }

    /// Bytes that are no longer stored.
    pub fn saved(&self) -> u64 {
        self.deeds.iter().map(|deed| deed.saved).sum()
    }
}

impl fmt::Display for CareReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let findings = self.findings.iter().map(|finding| format!("{} {}", finding.check, finding.severity));
        let findings = findings.collect::<Vec<_>>().join(", ");
        write!(f, "{}: {}", self.table, if findings.is_empty() { "in order" } else { findings.as_str() })?;
        for deed in &self.deeds {
            let seconds = deed.took.as_secs_f64();
            match &deed.error {
                None => write!(f, "\n  {}: {} ({seconds:.1} s)", deed.what, deed.told)?,
                Some(error) => write!(f, "\n  {}: failed: {error}", deed.what)?,
            }
        }
        if self.is_cut_short {
            f.write_str("\n  the budget is used up; the rest is left to the next run")?;
        }
        Ok(())
    }
}

/// A number of bytes as people read it.
pub fn shown_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let (mut size, mut unit) = (bytes as f64, 0);
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{size:.1} {}", UNITS[unit]) }
}

/// What a step tells: nothing when there was nothing to do.
type Told = Option<(String, u64)>;

/// Takes care of one table at `now`. `clock` says what wall clocks show, as files and tags keep them.
///
/// # Errors
/// When the table cannot be looked at at all; what goes wrong later is in the report.
pub async fn care_for(
    table: &Arc<Table>,
    now: DateTime<Utc>,
    clock: &WallClock<'_>,
    budget: &mut Budget,
    context: &Arc<TaskContext>,
) -> Result<CareReport> {
    let mut report = CareReport { table: table.identifier().to_string(), ..CareReport::default() };
    let options = UpkeepOptions::new(table.settings()).map_err(|error| table.at(error))?;
    let offset = clock(None, now)?.and_utc().timestamp_millis() - now.timestamp_millis();
    let instant = move |shown: i64| shown.saturating_sub(offset);
    let health = Clock { now: now.timestamp_millis(), instant: &instant };
    let findings = Box::pin(table_health(table, &health)).await?;
    report.findings = findings.into_iter().filter(|finding| finding.severity > Severity::Ok).collect();
    let bad = |check: &str| report.findings.iter().any(|finding| finding.check == check);
    let many_manifests = bad("manifests") || bad("manifest_size");

    let mut work = Work { report: &mut report, budget };
    if !table.schema().has_primary_key() && !table.settings().data_evolution {
        let most_bytes = work.budget.bytes;
        work.step("compaction", Box::pin(compact_small_files(table, most_bytes, context))).await;
    }
    if many_manifests {
        work.step("manifests", Box::pin(compact_manifests(table))).await;
    }
    let expiry = PartitionExpiry::of(table.settings()).map_err(|error| table.at(error))?;
    if let Some(expiry) = expiry.filter(|_| !table.schema().partition_keys.is_empty()) {
        let shown = clock(None, now)?;
        work.step(
            "partitions",
            Box::pin(async move {
                let gone = expire_partitions(table, &expiry, shown).await?;
                Ok::<Told, Error>(
                    (!gone.is_empty()).then(|| (format!("{} expired: {}", gone.len(), gone.join("; ")), 0)),
                )
            }),
        )
        .await;
    }
    work.step(
        "tags",
        Box::pin(async move {
            let made = automatic_tags::after_commit(table, now, clock).await?;
            Ok::<Told, Error>((!made.is_empty()).then(|| (format!("made {}", made.join(", ")), 0)))
        }),
    )
    .await;
    if let Some(time) = options.consumer_time {
        work.step(
            "consumers",
            Box::pin(async move {
                let gone = expire_consumers(table, now, time).await?;
                Ok::<Told, Error>((!gone.is_empty()).then(|| (format!("forgot {}", gone.join(", ")), 0)))
            }),
        )
        .await;
    }
    let until = work.budget.until;
    work.step("snapshots", Box::pin(expire_all(table, &options, now, until))).await;
    if !work.budget.keeps_orphans {
        work.step("orphan files", Box::pin(clean(table, now))).await;
    }
    Ok(report)
}

/// The steps at one table.
struct Work<'a> {
    report: &'a mut CareReport,
    budget: &'a mut Budget,
}

impl Work<'_> {
    async fn step(&mut self, what: &'static str, work: impl Future<Output = Result<Told>>) {
        if self.budget.is_over() {
            self.report.is_cut_short = true;
            return;
        }
        let begun = Instant::now();
        let done = work.await;
        let took = begun.elapsed();
        match done {
            Ok(None) => {}
            Ok(Some((told, saved))) => {
                self.report.deeds.push(Deed { what, told, saved, error: None, took });
            }
            Err(error) => {
                let error = Some(error.to_string());
                self.report.deeds.push(Deed { what, told: String::new(), saved: 0, error, took });
            }
        }
    }
}

async fn compact_small_files(table: &Arc<Table>, most_bytes: Option<u64>, context: &Arc<TaskContext>) -> Result<Told> {
    let request = AppendRequest { most_bytes, ..AppendRequest::default() };
    let done = compact_append(table, &request, context).await?;
    if done.before.0 == 0 {
        return Ok(None);
    }
    let (before, after) = (done.before, done.after);
    let told =
        format!("{} files of {} became {} of {}", before.0, shown_bytes(before.1), after.0, shown_bytes(after.1));
    Ok(Some((told, 0)))
}

async fn compact_manifests(table: &Arc<Table>) -> Result<Told> {
    let commit = TableCommit::new(Arc::clone(table), TableCommit::new_user(table)?)?;
    let outcome = commit.compact_manifests().await?;
    Ok(outcome
        .snapshot()
        .map(|_| (format!("{} merged, {} written", outcome.manifests_merged, outcome.manifests_written), 0)))
}

async fn expire_all(
    table: &Arc<Table>,
    options: &UpkeepOptions,
    now: DateTime<Utc>,
    until: Option<Instant>,
) -> Result<Told> {
    let (mut snapshots, mut files, mut bytes) = (0, 0, 0u64);
    for _ in 0..ROUNDS {
        let expired = expire(table, options, now.timestamp_millis()).await?;
        snapshots += expired.snapshots;
        files += expired.files;
        bytes = bytes.saturating_add(expired.bytes);
        if expired.snapshots == 0 || until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
    }
    let told = || format!("{snapshots} expired, {files} files of {} deleted", shown_bytes(bytes));
    Ok((snapshots + files > 0).then(|| (told(), bytes)))
}

async fn clean(table: &Arc<Table>, now: DateTime<Utc>) -> Result<Told> {
    let now = now.timestamp_millis();
    let older_than = now.saturating_sub(DEFAULT_AGE_MILLIS);
    let found = remove_orphan_files(table, OrphanRequest { older_than, dry_run: false, parallelism: 0 }, now).await?;
    let told = || format!("{} of {} deleted", found.files, shown_bytes(found.bytes));
    Ok((found.files > 0).then(|| (told(), found.bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_bytes_when_large_then_in_units() {
        assert_eq!(shown_bytes(1023), "1023 bytes");
        assert_eq!(shown_bytes(1536), "1.5 KiB");
        assert_eq!(shown_bytes(5 << 40), "5.0 TiB");
    }

    #[test]
    fn display_when_deeds_differ_then_each_is_told() {
        let deed = |what, error: Option<&str>| Deed {
            what,
            told: "3 expired".to_owned(),
            saved: 5,
            error: error.map(str::to_owned),
            took: Duration::from_millis(1500),
        };
        let report = CareReport {
            table: "db.t".to_owned(),
            findings: Vec::new(),
            deeds: vec![deed("snapshots", None), deed("tags", Some("no store"))],
            is_cut_short: true,
        };
        assert_eq!(
            report.to_string(),
            "db.t: in order\n  snapshots: 3 expired (1.5 s)\n  tags: failed: no store\n  the budget is used up; the rest is \
             left to the next run"
        );
        assert!(report.has_failed());
        assert_eq!(report.saved(), 10);
    }
}
