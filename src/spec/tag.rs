//! Tag files (`spec/metadata.md 9.1`): `tag/tag-<name>`, a snapshot in full, and how long it is kept.

use std::time::Duration;

use chrono::{Datelike, NaiveDate, NaiveDateTime, Timelike};
use serde::Deserialize;

use super::snapshot::Snapshot;
use crate::error::{Error, Result};

/// What a tag file says.
#[derive(Clone, Debug, PartialEq)]
pub struct TagDocument {
    /// The snapshot that the tag keeps.
    pub snapshot: Snapshot,
    /// When it was made, wall clock of its maker; written only with a retention.
    pub create_time: Option<NaiveDateTime>,
    /// How long it is kept after that; without end when not written.
    pub time_retained: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Retention {
    tag_create_time: Option<Vec<u32>>,
    tag_time_retained: Option<f64>,
}

impl TagDocument {
    /// Reads a tag document.
    ///
    /// # Errors
    /// Corrupt when it is no snapshot, or its retention is no time.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let snapshot = Snapshot::from_json(bytes)?;
        let retention: Retention = serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt("the tag's retention is not a valid document").with_source(error))?;
        let create_time = match &retention.tag_create_time {
            Some(parts) => Some(
                local_time(parts).ok_or_else(|| Error::corrupt(format!("tagCreateTime {parts:?} is not a time")))?,
            ),
            None => None,
        };
        let time_retained = match retention.tag_time_retained {
            Some(seconds) => Some(Duration::try_from_secs_f64(seconds).map_err(|error| {
                Error::corrupt(format!("tagTimeRetained {seconds} is not a duration")).with_source(error)
            })?),
            None => None,
        };
        Ok(Self { snapshot, create_time, time_retained })
    }

    /// The tag document, byte for byte as Java writes it. Without retention it is that of the snapshot.
    ///
    /// # Errors
    /// None that a tag can cause.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        let mut text = self.snapshot.to_json()?;
        let mut fields = String::new();
        if let Some(time) = self.create_time {
            let mut parts = vec![time.year().to_string()];
            parts.extend([time.month(), time.day(), time.hour(), time.minute()].map(|part| part.to_string()));
            let (second, nanos) = (time.second(), time.nanosecond());
            if second > 0 || nanos > 0 {
                parts.push(second.to_string());
            }
            if nanos > 0 {
                parts.push(nanos.to_string());
            }
            fields += &format!(",\n  \"tagCreateTime\" : [ {} ]", parts.join(", "));
        }
        if let Some(retained) = self.time_retained {
            let (seconds, nanos) = (retained.as_secs(), retained.subsec_nanos());
            fields += &format!(",\n  \"tagTimeRetained\" : {seconds}.{nanos:09}");
        }
        if !fields.is_empty() {
            // The document ends with a line of its own for the brace.
            text.truncate(text.len() - 2);
            text.extend_from_slice(fields.as_bytes());
            text.extend_from_slice(b"\n}");
        }
        Ok(text)
    }
}

/// Year, month, day, hour, minute, second, nanoseconds; parts at the end that are zero may be left out.
fn local_time(parts: &[u32]) -> Option<NaiveDateTime> {
    let part = |at: usize| parts.get(at).copied();
    if parts.len() > 7 {
        return None;
    }
    let date = NaiveDate::from_ymd_opt(i32::try_from(part(0)?).ok()?, part(1)?, part(2)?)?;
    let [hour, minute, second, nanos] = [3, 4, 5, 6].map(|at| part(at).unwrap_or(0));
    date.and_hms_nano_opt(hour, minute, second, nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A tag that Java 1.4 wrote.
    const KEPT: &str = r#"{
  "version" : 3,
  "id" : 7,
  "schemaId" : 0,
  "baseManifestList" : "manifest-list-eed2f297-ddf8-4c50-9a1a-5f9d639685bb-0",
  "baseManifestListSize" : 1144,
  "deltaManifestList" : "manifest-list-eed2f297-ddf8-4c50-9a1a-5f9d639685bb-1",
  "deltaManifestListSize" : 1109,
  "commitUser" : "8fcd68dd-4cfd-458b-9c98-453ae8723449",
  "commitIdentifier" : 9223372036854775807,
  "commitKind" : "APPEND",
  "timeMillis" : 1795985361786,
  "totalRecordCount" : 4,
  "deltaRecordCount" : 1,
  "statistics" : "stat-52b6746d-1f20-4e4a-989c-344e5898f93e-0",
  "nextRowId" : 0,
  "tagCreateTime" : [ 2026, 11, 29, 20, 49, 21, 795958186 ],
  "tagTimeRetained" : 315360000.000000000
}"#;

    #[test]
    fn to_json_when_java_14_wrote_it_then_same_bytes() {
        let tag = TagDocument::from_json(KEPT.as_bytes()).unwrap();
        assert_eq!(tag.snapshot.id, 7);
        assert_eq!(tag.create_time.unwrap().to_string(), "2026-11-29 20:49:21.795958186");
        assert_eq!(tag.time_retained, Some(Duration::from_secs(315_360_000)));
        assert_eq!(String::from_utf8(tag.to_json().unwrap()).unwrap(), KEPT);
    }

    #[test]
    fn to_json_when_no_retention_then_the_snapshot_alone() {
        let mut tag = TagDocument::from_json(KEPT.as_bytes()).unwrap();
        (tag.create_time, tag.time_retained) = (None, None);
        assert_eq!(tag.to_json().unwrap(), tag.snapshot.to_json().unwrap());
        assert_eq!(TagDocument::from_json(&tag.to_json().unwrap()).unwrap(), tag);
    }

    #[test]
    fn to_json_when_parts_of_the_time_are_zero_then_left_out_as_java_does() {
        let mut tag = TagDocument::from_json(KEPT.as_bytes()).unwrap();
        for (nanos, retained, text) in [
            ((0, 0, 0, 0), 500_000_000, "[ 2026, 1, 2, 0, 0 ],\n  \"tagTimeRetained\" : 0.500000000\n}"),
            ((23, 0, 7, 0), 1, "[ 2026, 1, 2, 23, 0, 7 ],\n  \"tagTimeRetained\" : 0.000000001\n}"),
            ((0, 1, 0, 5), 5_000_000_000, "[ 2026, 1, 2, 0, 1, 0, 5 ],\n  \"tagTimeRetained\" : 5.000000000\n}"),
        ] {
            let (hour, minute, second, nano) = nanos;
            let date = NaiveDate::from_ymd_opt(2026, 1, 2).unwrap();
            tag.create_time = date.and_hms_nano_opt(hour, minute, second, nano);
            tag.time_retained = Some(Duration::from_nanos(retained));
            let json = String::from_utf8(tag.to_json().unwrap()).unwrap();
            assert!(json.ends_with(text), "{json}");
            assert_eq!(TagDocument::from_json(json.as_bytes()).unwrap(), tag);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn from_json_when_bytes_flip_then_error_or_a_tag_that_is_written_again(
            flips in prop::collection::vec((0..KEPT.len(), 0..8), 1..4),
        ) {
            let mut bytes = KEPT.as_bytes().to_vec();
            for (at, bit) in flips {
                bytes[at] ^= 1u8 << bit;
            }
            if let Ok(tag) = TagDocument::from_json(&bytes) {
                prop_assert_eq!(TagDocument::from_json(&tag.to_json().unwrap()).unwrap(), tag);
            }
        }
    }
}
