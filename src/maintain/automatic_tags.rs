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
                super::tags::mark_created(table, &name).await?;
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

    use proptest::prelude::*;

    use super::*;
    use crate::options::TableOptions;
    use crate::store::StoreLocation;
    use crate::store::testing::{memory, put, schema_json, snapshot_json};
    use crate::table::Identifier;

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

    const MINUTE: i64 = 60_000;

    /// A table of hourly tags whose snapshots were committed at `times`, in minutes.
    struct Lake {
        root: StoreLocation,
        options: BTreeMap<String, String>,
    }

    impl Lake {
        async fn new(options: &[(&str, &str)]) -> Self {
            let root = memory("wh/db.db/t");
            put(&root, "schema/schema-0", schema_json(0, &["a"])).await;
            let own = [("tag.automatic-creation", "process-time"), ("tag.creation-period", "hourly")];
            let options = own.iter().chain(options).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            Self { root, options: options.collect() }
        }

        async fn commit(&self, id: i64, minutes: i64) {
            put(&self.root, &format!("snapshot/snapshot-{id}"), snapshot_json(id, minutes * MINUTE)).await;
        }

        async fn table(&self) -> Arc<Table> {
            let options = self.options.clone();
            Table::open(self.root.clone(), Identifier::new("db", "t"), Arc::default(), options).await.unwrap()
        }

        async fn create_due_tags(&self) -> Vec<String> {
            let clock = |_: Option<&str>, instant: DateTime<Utc>| Ok(instant.naive_utc());
            create_due_tags(&*self.table().await, DateTime::UNIX_EPOCH, &clock).await.unwrap()
        }

        /// Hours since 1970 that have a tag, with the snapshot of each.
        async fn tags(&self) -> Vec<(i64, i64)> {
            let table = self.table().await;
            let periods = Periods::of(table.settings()).unwrap();
            let tags = table.tags().list().await.unwrap();
            let of = |tag: &Arc<Tag>| {
                (periods.time(&tag.name).unwrap().and_utc().timestamp_millis() / (60 * MINUTE), tag.snapshot.id)
            };
            let mut tags: Vec<_> = tags.iter().map(of).collect();
            tags.sort_unstable();
            tags
        }
    }

    /// What [`create_due_tags`] should come to: the hour and the snapshot of each tag.
    fn model(times: &[i64], delay: i64, completes: bool, most: usize) -> Vec<(i64, i64)> {
        let mut tags: Vec<(i64, i64)> = Vec::new();
        for (id, time) in (1..).zip(times) {
            let over = time / 60 - 1;
            match tags.last().copied() {
                None => tags.push((over, id)),
                // The hour after the tagged one is over, and the delay has passed since.
                Some((tagged, _)) if time - delay >= (tagged + 2) * 60 => {
                    tags.push((if completes { tagged + 1 } else { over }, id));
                }
                Some(_) => {}
            }
        }
        tags.split_off(tags.len().saturating_sub(most))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn create_due_tags_when_called_after_each_commit_or_after_all_then_as_the_model(
            gaps in prop::collection::vec(0_i64..200, 1..12),
            delay in prop::sample::select(vec![0_i64, 1, 30, 61]),
            completes: bool,
            most in prop::sample::select(vec![1_usize, 2, 100]),
            each in 1_usize..4,
        ) {
            let times: Vec<i64> = gaps.iter().scan(7_000, |time, gap| { *time += gap; Some(*time) }).collect();
            let (delay_text, completes_text, most_text) = (format!("{delay} min"), completes.to_string(), most.to_string());
            let options = [
                ("tag.creation-delay", delay_text.as_str()),
                ("tag.automatic-completion", completes_text.as_str()),
                ("tag.num-retained-max", most_text.as_str()),
            ];
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let tags = runtime.block_on(async {
                let lake = Lake::new(&options).await;
                for (id, time) in (1..).zip(&times) {
                    lake.commit(id, *time).await;
                    if (id as usize).is_multiple_of(each) {
                        lake.create_due_tags().await;
                    }
                }
                lake.create_due_tags().await;
                assert!(lake.create_due_tags().await.is_empty(), "nothing is due twice");
                lake.tags().await
            });
            prop_assert_eq!(tags, model(&times, delay, completes, most));
        }
    }

    #[tokio::test]
    async fn after_commit_when_tags_are_over_then_deleted_and_the_batch_is_tagged_anew() {
        let lake = Lake::new(&[("tag.automatic-creation", "batch"), ("tag.default-time-retained", "1 h")]).await;
        let clock = |_: Option<&str>, instant: DateTime<Utc>| Ok(instant.naive_utc());
        let at = |minutes: i64| DateTime::from_timestamp_millis(minutes * MINUTE).unwrap();
        lake.commit(1, 10).await;
        let table = lake.table().await;
        assert_eq!(after_commit(&table, at(10), &clock).await.unwrap(), ["batch-write-1970-01-01"]);
        lake.commit(2, 65).await;
        assert_eq!(after_commit(&table, at(65), &clock).await.unwrap(), ["batch-write-1970-01-01"]);
        let tag = table.tags().find("batch-write-1970-01-01").await.unwrap().unwrap();
        assert_eq!((tag.snapshot.id, tag.create_time), (2, Some(at(65).naive_utc())));
        // A day later the one of that day is made, and the one whose hour is over goes.
        lake.commit(3, 24 * 60).await;
        assert_eq!(after_commit(&table, at(24 * 60), &clock).await.unwrap(), ["batch-write-1970-01-02"]);
        assert_eq!(table.tags().names().await.unwrap(), ["batch-write-1970-01-02"]);
    }
}
