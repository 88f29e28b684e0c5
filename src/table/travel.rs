//! Time travel (`spec/data.md 8`): from a version to a snapshot, and what to say when there is none.
//!
//! May import: `error`, `spec`, `store`.

use std::sync::Arc;

use chrono::{DateTime, Duration, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone};

use super::identifier::VersionSpec;
use crate::error::{Error, Result};
use crate::spec::Snapshot;
use crate::store::{Snapshots, Tags};

/// The snapshot that `version` names.
pub(crate) async fn resolve(snapshots: &Snapshots, tags: &Tags, version: &VersionSpec) -> Result<Arc<Snapshot>> {
    match version {
        VersionSpec::Snapshot(id) => match snapshots.find(*id).await? {
            Some(snapshot) => Ok(snapshot),
            None => Err(missing_snapshot(snapshots, tags, *id).await),
        },
        VersionSpec::Tag(name) => match tags.find(name).await? {
            Some(tag) => Ok(Arc::new(tag.snapshot.clone())),
            None => Err(missing_tag(tags, name).await),
        },
        VersionSpec::Timestamp(text) => at_or_before(snapshots, timestamp_millis(text, &chrono::Utc)?).await,
    }
}

/// The latest snapshot that is not later than `millis`.
pub(crate) async fn at_or_before(snapshots: &Snapshots, millis: i64) -> Result<Arc<Snapshot>> {
    if let Some(snapshot) = snapshots.at_or_before(millis).await? {
        return Ok(snapshot);
    }
    let range = range(snapshots).await?;
    Err(Error::not_found(match range {
        Some((_, _, range)) => format!("there was no snapshot at {} yet: {range}", time(millis)),
        None => "the table has no snapshot".to_owned(),
    }))
}

/// The first snapshot whose watermark is `watermark` or later; snapshots without a watermark say nothing.
pub(super) async fn at_watermark(snapshots: &Snapshots, watermark: i64) -> Result<Arc<Snapshot>> {
    if let Some(snapshot) = snapshots.at_watermark(watermark).await? {
        return Ok(snapshot);
    }
    let latest = snapshots.latest().await?;
    Err(Error::not_found(match latest {
        None => "the table has no snapshot".to_owned(),
        Some(latest) => match latest.watermark() {
            Some(reached) => {
                format!("no snapshot has reached the watermark {watermark} yet: the latest is at {reached}")
            }
            None => format!("no snapshot has reached the watermark {watermark}: the latest has no watermark"),
        },
    }))
}

/// The latest snapshot whose watermark is `watermark` or earlier.
pub(super) async fn below_watermark(snapshots: &Snapshots, watermark: i64) -> Result<Arc<Snapshot>> {
    if let Some(snapshot) = snapshots.below_watermark(watermark).await? {
        return Ok(snapshot);
    }
    Err(Error::not_found(format!("there is no snapshot with a watermark of {watermark} or earlier")))
}

/// What to say when there is no snapshot at `millis` or later.
pub(super) async fn none_since(snapshots: &Snapshots, millis: i64) -> Error {
    match range(snapshots).await {
        Ok(Some((_, _, range))) => Error::not_found(format!("there is no snapshot since {}: {range}", time(millis))),
        Ok(None) => Error::not_found("the table has no snapshot"),
        Err(error) => error,
    }
}

/// The snapshot that `scan.version` names: a tag, else `watermark-<n>`, else a snapshot id (`spec/data.md 8`).
pub(super) async fn resolve_text(snapshots: &Snapshots, tags: &Tags, text: &str) -> Result<Arc<Snapshot>> {
    if let Some(tag) = tags.find(text).await? {
        return Ok(Arc::new(tag.snapshot.clone()));
    }
    if let Some(watermark) = text.strip_prefix("watermark-").and_then(|digits| digits.parse().ok()) {
        return at_watermark(snapshots, watermark).await;
    }
    match text.parse() {
        Ok(id) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            resolve(snapshots, tags, &VersionSpec::Snapshot(id)).await
        }
        _ => Err(missing_tag(tags, text).await),
    }
}

/// Snapshot `id`, from its file or from a tag that keeps it.
pub(super) async fn resolve_or_tagged(snapshots: &Snapshots, tags: &Tags, id: i64) -> Result<Arc<Snapshot>> {
    if let Some(snapshot) = snapshots.find(id).await? {
        return Ok(snapshot);
    }
    match tags.list().await?.iter().find(|tag| tag.snapshot.id == id) {
        Some(tag) => Ok(Arc::new(tag.snapshot.clone())),
        None => Err(missing_snapshot(snapshots, tags, id).await),
    }
}

/// Ids of the first and the last snapshot, and a text that says them with their times.
async fn range(snapshots: &Snapshots) -> Result<Option<(i64, i64, String)>> {
    let ends = futures::future::try_join(snapshots.earliest(), snapshots.latest()).await?;
    let (Some(earliest), Some(latest)) = ends else { return Ok(None) };
    let text = format!(
        "the earliest is {} of {}, the latest {} of {}",
        earliest.id,
        time(earliest.time_millis),
        latest.id,
        time(latest.time_millis)
    );
    Ok(Some((earliest.id, latest.id, text)))
}

/// Whether the snapshot has expired or never was, what there is, and which tags still keep it.
pub(super) async fn missing_snapshot(snapshots: &Snapshots, tags: &Tags, id: i64) -> Error {
    let range = match range(snapshots).await {
        Ok(range) => range,
        Err(error) => return error,
    };
    Error::not_found(match range {
        None => format!("snapshot {id} does not exist: the table has no snapshot"),
        Some((earliest, _, range)) if (1..earliest).contains(&id) => {
            // The tags only make the advice better.
            let keep = tags.list().await.unwrap_or_default();
            let keep = keep.iter().find(|tag| tag.snapshot.id == id).map(|tag| format!("; tag {} keeps it", tag.name));
            format!(
                "snapshot {id} has expired ({range}){}",
                keep.as_deref().unwrap_or("; use a tag or a later snapshot")
            )
        }
        Some((_, _, range)) => format!("snapshot {id} does not exist ({range})"),
    })
}

pub(super) async fn missing_tag(tags: &Tags, name: &str) -> Error {
    const SHOWN: usize = 10;
    let names = match tags.names().await {
        Ok(names) => names,
        Err(error) => return error,
    };
    let there_are = match names.len() {
        0 => "the table has no tag".to_owned(),
        count if count <= SHOWN => format!("there are {}", names.join(", ")),
        count => format!("there are {} and {} more", names[..SHOWN].join(", "), count - SHOWN),
    };
    Error::not_found(format!("tag {name} does not exist; {there_are}"))
}

/// Epoch milliseconds as text in UTC.
fn time(millis: i64) -> String {
    match DateTime::from_timestamp_millis(millis) {
        Some(time) => time.format("%Y-%m-%d %H:%M:%S%.3fZ").to_string(),
        None => format!("{millis} ms"),
    }
}

/// Epoch milliseconds of a text: digits are milliseconds already; else a date, with or without a time (`10:00`, `10:00:00`,
/// `10:00:00.123`, after a blank or `T`), in its own zone (`Z`, `+02:00`) or in `zone`. A local time that a clock change
/// skips is read as if the clock had not changed yet, one that comes twice is the first, as Java does.
///
/// # Errors
/// Invalid when the text is neither.
pub fn timestamp_millis<Z: TimeZone>(text: &str, zone: &Z) -> Result<i64> {
    let text = text.trim();
    let bad = || {
        Error::invalid(format!(
            "{text:?} is not a time; write epoch milliseconds or 2024-01-02 10:00:00.000, with a zone such as Z or +02:00 if \
             it is not the session's"
        ))
    };
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_err(|_| bad());
    }
    for format in ["%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M%#z", "%Y-%m-%d %H:%M%#z"] {
        if let Ok(time) = DateTime::parse_from_str(text, format) {
            return Ok(time.timestamp_millis());
        }
    }
    for format in ["%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"] {
        if let Ok(local) = NaiveDateTime::parse_from_str(text, format) {
            return local_millis(local, zone).ok_or_else(bad);
        }
    }
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").map_err(|_| bad())?;
    local_millis(date.and_time(NaiveTime::MIN), zone).ok_or_else(bad)
}

fn local_millis<Z: TimeZone>(local: NaiveDateTime, zone: &Z) -> Option<i64> {
    match zone.from_local_datetime(&local) {
        LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => Some(time.timestamp_millis()),
        LocalResult::None => {
            // Skipped times are short and far apart: a few hours earlier the old offset holds.
            let before = local.checked_sub_signed(Duration::hours(6))?;
            let offset = zone.offset_from_local_datetime(&before).earliest()?.fix();
            Some(local.and_utc().timestamp_millis() - i64::from(offset.local_minus_utc()) * 1000)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use chrono_tz::Europe::Berlin;
    use object_store::path::Path;

    use super::*;
    use crate::error::ErrorKind;
    use crate::store::TableFiles;
    use crate::store::chaos::{ChaosStore, Fate, Operation};
    use crate::store::testing::{memory, put, schema_json, snapshot_json};
    use crate::table::{Identifier, Table};

    async fn table(ids: &[i64], tags: &[(&str, i64)]) -> (Snapshots, Tags) {
        let root = memory("t");
        for id in ids {
            put(&root, &format!("snapshot/snapshot-{id}"), snapshot_json(*id, id * 1000)).await;
        }
        for (name, id) in tags {
            put(&root, &format!("tag/tag-{name}"), snapshot_json(*id, id * 1000)).await;
        }
        let files = Arc::new(TableFiles::new(root, None).unwrap());
        (Snapshots::new(Arc::clone(&files), Arc::default()), Tags::new(files, Arc::default()))
    }

    #[tokio::test]
    async fn resolve_when_version_is_there_then_its_snapshot() {
        let (snapshots, tags) = table(&[7, 9], &[("old", 2), ("8", 7)]).await;
        for (version, id) in [
            (VersionSpec::Snapshot(7), 7),
            (VersionSpec::Tag("old".to_owned()), 2),
            (VersionSpec::Tag("8".to_owned()), 7),
            (VersionSpec::Timestamp("8999".to_owned()), 7),
            (VersionSpec::Timestamp("1970-01-01 00:00:09".to_owned()), 9),
            (VersionSpec::Timestamp("2999-01-01".to_owned()), 9),
        ] {
            assert_eq!(resolve(&snapshots, &tags, &version).await.unwrap().id, id, "{version}");
        }
    }

    #[tokio::test]
    async fn resolve_when_version_is_missing_then_what_there_is() {
        let there = "the earliest is 7 of 1970-01-01 00:00:07.000Z, the latest 9 of 1970-01-01 00:00:09.000Z";
        let (snapshots, tags) = table(&[7, 9], &[("old", 2), ("older", 1)]).await;
        for (version, message) in [
            (VersionSpec::Snapshot(3), format!("snapshot 3 has expired ({there}); use a tag or a later snapshot")),
            (VersionSpec::Snapshot(2), format!("snapshot 2 has expired ({there}); tag old keeps it")),
            (VersionSpec::Snapshot(8), format!("snapshot 8 does not exist ({there})")),
            (VersionSpec::Snapshot(77), format!("snapshot 77 does not exist ({there})")),
            (VersionSpec::Snapshot(0), format!("snapshot 0 does not exist ({there})")),
            (VersionSpec::Tag("new".to_owned()), "tag new does not exist; there are old, older".to_owned()),
            (
                VersionSpec::Timestamp("6999".to_owned()),
                format!("there was no snapshot at 1970-01-01 00:00:06.999Z yet: {there}"),
            ),
        ] {
            let error = resolve(&snapshots, &tags, &version).await.unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::NotFound, message.as_str()));
        }
        let (snapshots, tags) = table(&[], &[]).await;
        for (version, message) in [
            (VersionSpec::Snapshot(1), "snapshot 1 does not exist: the table has no snapshot"),
            (VersionSpec::Tag("x".to_owned()), "tag x does not exist; the table has no tag"),
            (VersionSpec::Timestamp("5".to_owned()), "the table has no snapshot"),
        ] {
            assert_eq!(resolve(&snapshots, &tags, &version).await.unwrap_err().message(), message);
        }
    }

    #[tokio::test]
    async fn open_when_there_are_many_snapshots_then_a_version_takes_few_reads_and_no_listing() {
        const COUNT: i64 = 4096;
        let root = memory("wh/db.db/t");
        put(&root, "schema/schema-0", schema_json(0, &["a"])).await;
        for id in 1..=COUNT {
            put(&root, &format!("snapshot/snapshot-{id}"), snapshot_json(id, id * 1000)).await;
        }
        put(&root, "snapshot/EARLIEST", "1".to_owned()).await;
        put(&root, "snapshot/LATEST", COUNT.to_string()).await;
        put(&root, "tag/tag-early", snapshot_json(5, 5000)).await;
        for (version, id, most) in [
            (VersionSpec::Snapshot(5), 5, 5),
            (VersionSpec::Tag("early".to_owned()), 5, 5),
            (VersionSpec::Timestamp("1000500".to_owned()), 1000, 24),
        ] {
            let (reads, lists) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (seen_reads, seen_lists) = (Arc::clone(&reads), Arc::clone(&lists));
            let decide = move |operation, path: &Path| {
                match operation {
                    Operation::List if path.as_ref().ends_with("snapshot") => seen_lists.fetch_add(1, Ordering::SeqCst),
                    Operation::List => 0,
                    _ => seen_reads.fetch_add(1, Ordering::SeqCst),
                };
                Fate::Works
            };
            let counted = ChaosStore::over(&root, Box::new(decide));
            let table =
                Table::open(counted, Identifier::new("db", "t"), Arc::default(), BTreeMap::new()).await.unwrap();
            let snapshot = table.snapshot(Some(&version)).await.unwrap().unwrap();
            assert_eq!(snapshot.id, id);
            table.with_schema_of(&snapshot).await.unwrap();
            assert!(reads.load(Ordering::SeqCst) <= most, "{version}: {reads:?}");
            assert_eq!(lists.load(Ordering::SeqCst), 0, "{version}");
        }
    }

    #[test]
    fn timestamp_millis_when_every_form_then_millis() {
        for (text, millis) in [
            ("1700000000000", 1_700_000_000_000),
            ("-5", -5),
            ("1970-01-02", 86_400_000),
            ("1970-01-01 00:01", 60_000),
            ("1970-01-01T00:00:01", 1_000),
            (" 1970-01-01 00:00:01.5 ", 1_500),
            ("1970-01-01 00:00:00.123456789", 123),
            ("1970-01-01T01:00:00Z", 3_600_000),
            ("1970-01-01 01:00:00+01:00", 0),
            ("1970-01-01 01:00+0100", 0),
            ("1969-12-31 23:59:59.999", -1),
        ] {
            assert_eq!(timestamp_millis(text, &chrono::Utc).unwrap(), millis, "{text}");
        }
        for text in ["", "-", "yesterday", "2024-13-01", "2024-01-01 25:00", "10:00", "99999999999999999999"] {
            assert_eq!(timestamp_millis(text, &chrono::Utc).unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        }
    }

    #[test]
    fn timestamp_millis_when_clocks_change_then_as_java() {
        let utc = |text| timestamp_millis(text, &chrono::Utc).unwrap();
        for (local, expected) in [
            ("2024-01-01 12:00", "2024-01-01 11:00"),
            ("2024-03-31 02:30", "2024-03-31 01:30"),
            ("2024-10-27 02:30", "2024-10-27 00:30"),
        ] {
            assert_eq!(timestamp_millis(local, &Berlin).unwrap(), utc(expected), "{local}");
        }
    }
}
