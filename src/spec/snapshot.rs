//! Snapshot files (`spec/metadata.md 3.1`): `snapshot/snapshot-<id>`, the state of a table at a moment.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::document::to_document;
use crate::error::{Error, Result};

/// What kind of change made a snapshot (`spec/metadata.md 3.1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CommitKind {
    /// Files were added.
    Append,
    /// Files were rewritten; the rows are the same.
    Compact,
    /// Files were added and removed.
    Overwrite,
    /// Statistics were computed.
    Analyze,
}

impl CommitKind {
    /// The name in the snapshot file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Append => "APPEND",
            Self::Compact => "COMPACT",
            Self::Overwrite => "OVERWRITE",
            Self::Analyze => "ANALYZE",
        }
    }
}

/// One snapshot of a table. Field by field as `spec/metadata.md 3.1`; fields of other versions are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Version of the document; 3 since 0.4.
    #[serde(default = "first_version")]
    pub version: i32,
    /// Identity of this very snapshot; ids come back after a rollback, this does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Id, the suffix of the file; 1 or more.
    pub id: i64,
    /// The latest schema when the snapshot was committed.
    pub schema_id: i64,
    /// Manifest list of everything before this commit.
    pub base_manifest_list: String,
    /// Size of that file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_manifest_list_size: Option<i64>,
    /// Manifest list of what this commit changed.
    pub delta_manifest_list: String,
    /// Size of that file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delta_manifest_list_size: Option<i64>,
    /// Manifest list of the changelog files of this commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changelog_manifest_list: Option<String>,
    /// Size of that file in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changelog_manifest_list_size: Option<i64>,
    /// The complete index manifest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_manifest: Option<String>,
    /// Who committed.
    #[serde(default)]
    pub commit_user: String,
    /// Version of the writer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_version: Option<String>,
    /// Which commit of that user; `i64::MAX` for batch jobs.
    #[serde(default)]
    pub commit_identifier: i64,
    /// What kind of change this was.
    pub commit_kind: CommitKind,
    /// When, epoch milliseconds of the committer's clock.
    #[serde(default)]
    pub time_millis: i64,
    /// Rows in all live files, before merging.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub total_record_count: i64,
    /// Rows added minus rows removed by this commit.
    #[serde(default, deserialize_with = "null_is_zero")]
    pub delta_record_count: i64,
    /// Rows in the changelog files of this commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changelog_record_count: Option<i64>,
    /// Watermark; see [`Self::watermark`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<i64>,
    /// Statistics file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<String>,
    /// Properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<BTreeMap<String, String>>,
    /// The first row id that is not given yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_row_id: Option<i64>,
    /// The statement that made the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

fn first_version() -> i32 {
    1
}

fn null_is_zero<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(Option::<i64>::deserialize(deserializer)?.unwrap_or(0))
}

impl Snapshot {
    /// Reads a snapshot document.
    ///
    /// # Errors
    /// Corrupt when it is not JSON or lacks a field that every version has.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let snapshot: Self = serde_json::from_slice(bytes)
            .map_err(|error| Error::corrupt("the snapshot is not a valid document").with_source(error))?;
        if snapshot.id < 1 {
            return Err(Error::corrupt(format!("the snapshot id {} is not positive", snapshot.id)));
        }
        Ok(snapshot)
    }

    /// The snapshot document, byte for byte as Java 1.4 writes it: what is `None` is left out.
    ///
    /// # Errors
    /// None that a snapshot can cause.
    pub fn to_json(&self) -> Result<Vec<u8>> {
        to_document(self)
    }

    /// The watermark; the smallest number means none too (`spec/metadata.md 3.1`).
    pub fn watermark(&self) -> Option<i64> {
        self.watermark.filter(|watermark| *watermark != i64::MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_json_when_written_by_old_versions_then_nulls_and_unknown_fields_are_fine() {
        let snapshot = Snapshot::from_json(
            br#"{"version":3,"id":2,"schemaId":0,"baseManifestList":"a","deltaManifestList":"b",
                "changelogManifestList":null,"commitUser":"u","commitIdentifier":9223372036854775807,
                "commitKind":"APPEND","timeMillis":5,"logOffsets":{},"totalRecordCount":null,
                "watermark":-9223372036854775808}"#,
        )
        .unwrap();
        assert_eq!(snapshot.commit_kind, CommitKind::Append);
        assert_eq!(snapshot.commit_identifier, i64::MAX);
        assert_eq!(snapshot.total_record_count, 0);
        assert_eq!(snapshot.watermark(), None);
    }

    /// Snapshots that Java 1.4 wrote: one with everything that a streaming commit sets, one with statistics, and one with
    /// a changelog and an index.
    const JAVA14: [&str; 3] = [
        r#"{
  "version" : 3,
  "id" : 2,
  "schemaId" : 0,
  "baseManifestList" : "manifest-list-c8ab17ba-2cd9-4d1a-bfb0-a616bff7d96b-0",
  "baseManifestListSize" : 1110,
  "deltaManifestList" : "manifest-list-c8ab17ba-2cd9-4d1a-bfb0-a616bff7d96b-1",
  "deltaManifestListSize" : 1110,
  "commitUser" : "job",
  "commitIdentifier" : 2,
  "commitKind" : "APPEND",
  "timeMillis" : 1795985360313,
  "totalRecordCount" : 2,
  "deltaRecordCount" : 1,
  "watermark" : 3000,
  "properties" : {
    "note" : "second",
    "source.offset" : "17"
  },
  "nextRowId" : 0
}"#,
        r#"{
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
  "nextRowId" : 0
}"#,
        r#"{
  "version" : 3,
  "id" : 6,
  "schemaId" : 0,
  "baseManifestList" : "manifest-list-9725609f-f25d-4381-a214-f85c54e01dcf-2",
  "baseManifestListSize" : 1189,
  "deltaManifestList" : "manifest-list-9725609f-f25d-4381-a214-f85c54e01dcf-3",
  "deltaManifestListSize" : 1113,
  "changelogManifestList" : "manifest-list-9725609f-f25d-4381-a214-f85c54e01dcf-4",
  "changelogManifestListSize" : 1113,
  "indexManifest" : "index-manifest-1dffe1fd-56e7-4272-81cc-2affbbbe961c-0",
  "commitUser" : "app",
  "commitIdentifier" : 3,
  "commitKind" : "COMPACT",
  "timeMillis" : 1795985355447,
  "totalRecordCount" : 2,
  "deltaRecordCount" : -1,
  "changelogRecordCount" : 1,
  "nextRowId" : 0
}"#,
    ];

    #[test]
    fn to_json_when_java_14_wrote_it_then_same_bytes() {
        for text in JAVA14 {
            let snapshot = Snapshot::from_json(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(snapshot.to_json().unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn to_json_when_older_writers_made_it_then_same_snapshot() {
        // Flink 1.3: null and empty fields, and a watermark that is none.
        let text = br#"{"version":3,"id":1,"schemaId":0,"baseManifestList":"a","baseManifestListSize":884,
            "deltaManifestList":"b","deltaManifestListSize":989,"changelogManifestList":null,"commitUser":"u",
            "commitIdentifier":9223372036854775807,"commitKind":"OVERWRITE","timeMillis":1795985415582,"logOffsets":{},
            "totalRecordCount":1,"deltaRecordCount":-1,"changelogRecordCount":0,"watermark":-9223372036854775808,
            "nextRowId":0}"#;
        let snapshot = Snapshot::from_json(text).unwrap();
        assert_eq!(Snapshot::from_json(&snapshot.to_json().unwrap()).unwrap(), snapshot);
    }
}
