//! Expiry of partitions (`spec/metadata.md 10.4`): those whose time, by their values or by their youngest file, is too long ago.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`, `plan`, `commit`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use parking_lot::Mutex;

pub use super::partition_time::PartitionTime;
use crate::commit::{PartitionSpec, TableCommit};
use crate::error::{Error, Result};
use crate::options::TableOptions;
use crate::plan::Partition;
use crate::plan::live::{LiveRequest, live_files};
use crate::spec::partition::partition_values;
use crate::table::Table;

/// Where the time of a partition comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionAge {
    /// Its values.
    Values(PartitionTime),
    /// Its youngest file.
    Updated,
}

/// When partitions expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionExpiry {
    /// Where their time comes from.
    pub age: PartitionAge,
    /// `partition.expiration-time`: the age from which on they go.
    pub time: Duration,
    /// `partition.expiration-max-num`: most of them that go at once, the oldest first.
    pub most: usize,
    /// `partition.expiration-batch-size`: most of them that go in one commit.
    pub together: Option<usize>,
    /// `partition.timestamp-format.strict`: values that tell no time are an error; else such partitions stay.
    pub strict: bool,
}

impl PartitionExpiry {
    /// What a table's options say; `None` when its partitions do not expire.
    ///
    /// # Errors
    /// Invalid for a value that is not what its option takes, unsupported for a strategy that is not known.
    pub fn of(options: &TableOptions) -> Result<Option<Self>> {
        let Some(time) = options.value::<Duration>("partition.expiration-time")? else { return Ok(None) };
        let text = |key| options.value::<String>(key);
        let strategy = text("partition.expiration-strategy")?.unwrap_or_default();
        let (pattern, formatter) = (text("partition.timestamp-pattern")?, text("partition.timestamp-formatter")?);
        let count = |key| {
            let count = options.value::<i32>(key)?;
            Ok::<_, Error>(count.map(|count| usize::try_from(count).unwrap_or(0)))
        };
        Ok(Some(Self {
            age: Self::age(&strategy, pattern.as_deref(), formatter.as_deref())?,
            time,
            most: count("partition.expiration-max-num")?.unwrap_or(100),
            together: count("partition.expiration-batch-size")?.filter(|count| *count > 0),
            strict: options.value("partition.timestamp-format.strict")?.unwrap_or(false),
        }))
    }

    /// The time by a strategy's name.
    ///
    /// # Errors
    /// Unsupported for a strategy that is not known, invalid for a formatter that can't be read.
    pub fn age(strategy: &str, pattern: Option<&str>, formatter: Option<&str>) -> Result<PartitionAge> {
        match strategy.to_ascii_lowercase().as_str() {
            "" | "values-time" => Ok(PartitionAge::Values(PartitionTime::new(pattern, formatter)?)),
            "update-time" => Ok(PartitionAge::Updated),
            _ => Err(Error::unsupported(format!(
                "partition.expiration-strategy {strategy} is a class of Java; there are values-time and update-time"
            ))),
        }
    }
}

/// Drops the partitions that are too old when the wall clock shows `now`; gives them as `k=v, k2=v2`, the oldest first.
///
/// # Errors
/// Invalid for a table without partitions, and for values that tell no time where that is strict; else as
/// [`TableCommit::drop_partitions`].
pub async fn expire_partitions(
    table: &Arc<Table>,
    expiry: &PartitionExpiry,
    now: NaiveDateTime,
) -> Result<Vec<String>> {
    let keys = &table.schema().partition_keys;
    if keys.is_empty() {
        return Err(table.at(Error::invalid("the table has no partitions that could expire")));
    }
    let old = async {
        let Some(snapshot) = table.snapshots().latest().await? else { return Ok(Vec::new()) };
        let limit = TimeDelta::from_std(expiry.time).ok().and_then(|time| now.checked_sub_signed(time));
        let Some(limit) = limit else { return Ok(Vec::new()) };
        let files = Box::pin(live_files(table, &snapshot, LiveRequest::default())).await?;
        let mut partitions: HashMap<Arc<[u8]>, (Arc<Partition>, i64)> = HashMap::new();
        for file in files {
            let created = file.file.entries.creation_time[file.file.row as usize];
            let known = partitions
                .entry(Arc::clone(&file.partition.row))
                .or_insert_with(|| (Arc::clone(&file.partition), created));
            known.1 = known.1.max(created);
        }
        let mut old = Vec::new();
        for (partition, updated) in partitions.into_values() {
            let values = values_of(table, &partition)?;
            let time = match &expiry.age {
                PartitionAge::Updated => DateTime::from_timestamp_millis(updated).map(|time| time.naive_utc()),
                PartitionAge::Values(time) => match time.of(keys, &values) {
                    None if expiry.strict => {
                        let shown = shown(keys, &values);
                        return Err(Error::invalid(format!(
                            "partition {shown} tells no time; see partition.timestamp-pattern"
                        )));
                    }
                    time => time,
                },
            };
            if let Some(time) = time.filter(|time| *time < limit) {
                old.push((time, shown(keys, &values), partition));
            }
        }
        old.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        old.truncate(expiry.most);
        Ok(old)
    };
    let old = Box::pin(old).await.map_err(|error: Error| table.at(error))?;
    let mut gone = Vec::with_capacity(old.len());
    for together in old.chunks(expiry.together.unwrap_or(usize::MAX).max(1)) {
        let specs: Vec<PartitionSpec> = together
            .iter()
            .map(|(_, _, partition)| {
                let values: BTreeMap<_, _> = keys.iter().cloned().zip(partition.values.iter().cloned()).collect();
                PartitionSpec::new(table.schema(), &values)
            })
            .collect::<Result<_>>()
            .map_err(|error| table.at(error))?;
        let commit = TableCommit::new(Arc::clone(table), TableCommit::new_user(table)?)?;
        Box::pin(commit.drop_partitions(&specs)).await?;
        gone.extend(together.iter().map(|(_, shown, _)| shown.clone()));
    }
    Ok(gone)
}

/// The values of a partition as texts.
fn values_of(table: &Table, partition: &Partition) -> Result<Vec<String>> {
    let default_name = &table.settings().partition_default_name;
    partition_values(&partition.row, &table.schema().partition_fields(), false, default_name)
}

fn shown(keys: &[String], values: &[String]) -> String {
    keys.iter().zip(values).map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
}

/// When tables were looked at last, epoch milliseconds, by their location.
static LOOKED_AT: LazyLock<Mutex<HashMap<String, i64>>> = LazyLock::new(Mutex::default);

/// Whether it is time to look for old partitions of a table, by `partition.expiration-check-interval`. The first look of a
/// process is at a random moment within the interval, so that many jobs do not look at once.
///
/// # Errors
/// Invalid when the option is no time.
pub(super) fn is_due(table: &Table, now: DateTime<Utc>) -> Result<bool> {
    let interval = table.settings().value::<Duration>("partition.expiration-check-interval")?.unwrap_or_default();
    let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
    if interval == 0 {
        return Ok(true);
    }
    let now = now.timestamp_millis();
    let mut looked_at = LOOKED_AT.lock();
    let random = uuid::Uuid::new_v4().as_u128() as u64;
    let last = looked_at
        .entry(table.files().root().as_str().to_owned())
        .or_insert_with(|| now.saturating_sub((random % interval.unsigned_abs()) as i64));
    let is_due = now >= last.saturating_add(interval);
    if is_due {
        *last = now;
    }
    Ok(is_due)
}
