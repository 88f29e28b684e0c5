//! Tags that a table gets by itself after commits (`spec/metadata.md 9.1`), and the end of those whose time is over.
//!
//! ```text
//! tag.automatic-creation = process-time | watermark   a tag for each period that is over   2024-12-01, 2024-12-01 05 ..
//!                          batch                      a tag for each writing statement     batch-write-2024-12-01
//! ```
//! A commit does not do this: who commits calls [`after_commit`], as the SQL statements that write do.
//!
//! May import: `error`, `options`, `spec`, `store`, `table`.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};

use super::tags::{Retention, expire_tags, tag};
use crate::error::Result;
use crate::spec::Snapshot;
use crate::store::Tag;
use crate::table::{Periods, Table};

/// What a wall clock shows at an instant: in the zone of the first argument, else in that of whoever asks.
pub type WallClock<'a> = dyn Fn(Option<&str>, DateTime<Utc>) -> Result<NaiveDateTime> + Send + Sync + 'a;

/// Makes the tags that are due now that a statement has committed, and deletes those whose retention is over. Gives the names
/// of the tags that were made.
///
/// # Errors
/// Errors of the store and of the table's files. The commit itself is not touched.
pub async fn after_commit(table: &Table, now: DateTime<Utc>, clock: &WallClock<'_>) -> Result<Vec<String>> {
    let made = async {
        let mut made = create_due_tags(table, now, clock).await?;
        let options = table.settings();
        let creation = options.value::<String>("tag.automatic-creation")?.unwrap_or_default();
        if creation.eq_ignore_ascii_case("batch") {
            made.extend(tag_batch(table, now, clock).await?);
        }
        if options.value::<bool>("tag.time-expire-enabled")?.unwrap_or(true) {
            let local = |instant: DateTime<Utc>| clock(None, instant).unwrap_or_else(|_| instant.naive_utc());
            expire_tags(table, clock(None, now)?, None, &local).await?;
        }
        Ok(made)
    };
    made.await.map_err(|error: crate::error::Error| table.at(error))
}

/// Makes the tags of periods that are over, by the option `tag.automatic-creation` of the table, and deletes the oldest above
/// `tag.num-retained-max`. Gives the names of the tags that were made.
///
/// # Errors
/// Errors of the store and of the table's files.
pub async fn create_due_tags(table: &Table, now: DateTime<Utc>, clock: &WallClock<'_>) -> Result<Vec<String>> {
    let made = async {
        let options = table.settings();
        let creation = options.value::<String>("tag.automatic-creation")?.unwrap_or_default().to_ascii_lowercase();
        if !matches!(creation.as_str(), "process-time" | "watermark") {
            return Ok(Vec::new());
        }
        let zone_key = if creation == "watermark" { "sink.watermark-time-zone" } else { "sink.process-time-zone" };
        let zone = options.value::<String>(zone_key)?;
        let delay = options.value::<Duration>("tag.creation-delay")?.unwrap_or_default();
        let rules = Rules {
            periods: Periods::of(options)?,
            delay: TimeDelta::from_std(delay).unwrap_or(TimeDelta::MAX),
            completes: options.value::<bool>("tag.automatic-completion")?.unwrap_or(false),
        };
        let last = last_automatic_tag(table, rules.periods).await?;
        let mut due = last.map(|(_, time)| rules.periods.next(time));
        let snapshots = table.snapshots();
        let Some(latest) = snapshots.latest_id().await? else { return Ok(Vec::new()) };
        let earliest = snapshots.earliest_id().await?.unwrap_or(latest);
        let mut made = Vec::new();
        for id in last.map_or(earliest, |(last, _)| last + 1).max(earliest)..=latest {
            let Some(snapshot) = snapshots.find(id).await? else { continue };
            let millis = if creation == "watermark" { snapshot.watermark() } else { Some(snapshot.time_millis) };
            let Some(instant) = millis.filter(|millis| *millis > i64::MIN).and_then(DateTime::from_timestamp_millis)
            else {
                continue;
            };
            let Some(period) = rules.due(clock(zone.as_deref(), instant)?, due) else { continue };
            let name = rules.periods.name(period);
            if table.tags().create(&tag_of(table, &name, &snapshot, now, clock)?).await? {
                made.push(name);
            }
            due = Some(rules.periods.next(period));
        }
        if !made.is_empty() {
            let tags = automatic_tags(table, rules.periods).await?;
            keep_last(table, tags.into_iter().map(|(_, name)| name).collect()).await?;
        }
        Ok(made)
    };
    made.await.map_err(|error: crate::error::Error| table.at(error))
}

/// When a period gets its tag.
#[derive(Clone, Copy, Debug)]
struct Rules {
    periods: Periods,
    delay: TimeDelta,
    /// Whether each period gets a tag, also when it passed without a snapshot.
    completes: bool,
}

impl Rules {
    /// The period that a snapshot of `time` is tagged for, where the period from `due` on waits for its tag.
    fn due(self, time: NaiveDateTime, due: Option<NaiveDateTime>) -> Option<NaiveDateTime> {
        let Some(due) = due else { return Some(self.periods.last_over(time)) };
        let settled = time.checked_sub_signed(self.delay).unwrap_or(NaiveDateTime::MIN);
        if settled < self.periods.next(due) {
            return None;
        }
        Some(if self.completes { due } else { self.periods.last_over(time) })
    }
}

/// The automatic tags of periods, the earliest period first.
async fn automatic_tags(table: &Table, periods: Periods) -> Result<Vec<(NaiveDateTime, String)>> {
    let names = table.tags().names().await?;
    let mut tags: Vec<_> = names.into_iter().filter_map(|name| Some((periods.time(&name)?, name))).collect();
    tags.sort_unstable();
    Ok(tags)
}

/// The latest snapshot that has an automatic tag, and the period that the tag stands for.
async fn last_automatic_tag(table: &Table, periods: Periods) -> Result<Option<(i64, NaiveDateTime)>> {
    let mut last = None;
    for (time, name) in automatic_tags(table, periods).await? {
        let tag = table.tags().find(&name).await?;
        last = last.max(tag.map(|tag| (tag.snapshot.id, time)));
    }
    Ok(last)
}

/// Deletes all but the last of `names`, as many as `tag.num-retained-max` lets stay.
async fn keep_last(table: &Table, names: Vec<String>) -> Result<()> {
    let Some(most) = table.settings().value::<i32>("tag.num-retained-max")? else { return Ok(()) };
    let most = usize::try_from(most).unwrap_or(0);
    for name in &names[..names.len().saturating_sub(most)] {
        table.tags().delete(name).await?;
    }
    Ok(())
}

/// Tags what a statement has written.
async fn tag_batch(table: &Table, now: DateTime<Utc>, clock: &WallClock<'_>) -> Result<Option<String>> {
    const PREFIX: &str = "batch-write-";
    let Some(snapshot) = table.snapshots().latest().await? else { return Ok(None) };
    let name = match table.settings().value::<String>("tag.batch.customized-name")? {
        Some(name) if !name.trim().is_empty() => name,
        _ => {
            let instant = DateTime::from_timestamp_millis(snapshot.time_millis).unwrap_or(now);
            format!("{PREFIX}{}", clock(None, instant)?.format("%Y-%m-%d"))
        }
    };
    table.tags().replace(&tag_of(table, &name, &snapshot, now, clock)?).await?;
    let names = table.tags().names().await?;
    // Tags that someone made by hand are not ours to delete.
    keep_last(table, names.into_iter().filter(|name| name.starts_with(PREFIX)).collect()).await?;
    Ok(Some(name))
}

fn tag_of(
    table: &Table,
    name: &str,
    snapshot: &Arc<Snapshot>,
    now: DateTime<Utc>,
    clock: &WallClock<'_>,
) -> Result<Tag> {
    tag(table, name, snapshot, Retention { created: clock(None, now)?, retained: None })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::options::TableOptions;

    fn at(text: &str) -> NaiveDateTime {
        NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M").unwrap()
    }

    #[test]
    fn due_when_period_is_over_and_settled_then_the_last_one_or_the_one_that_waits() {
        let options = BTreeMap::from([("tag.creation-period".to_owned(), "hourly".to_owned())]);
        let periods = Periods::of(&TableOptions::new(&options, &BTreeMap::new()).unwrap()).unwrap();
        let rules = |delay, completes| Rules { periods, delay: TimeDelta::minutes(delay), completes };
        let now = at("2024-01-01 05:10");
        // The first snapshot tags the hour before it.
        assert_eq!(rules(0, false).due(now, None), Some(at("2024-01-01 04:00")));
        for (delay, completes, due, expected) in [
            (0, false, "2024-01-01 05:00", None),
            (0, false, "2024-01-01 04:00", Some("2024-01-01 04:00")),
            (10, false, "2024-01-01 04:00", Some("2024-01-01 04:00")),
            (11, false, "2024-01-01 04:00", None),
            (0, false, "2024-01-01 02:00", Some("2024-01-01 04:00")),
            (0, true, "2024-01-01 02:00", Some("2024-01-01 02:00")),
        ] {
            assert_eq!(rules(delay, completes).due(now, Some(at(due))), expected.map(at), "{delay} {completes} {due}");
        }
    }
}
