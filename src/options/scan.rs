//! The options that say which state, or which changes, of a table a read returns (`spec/data.md` 7.6, 7.7 and 8), kept as
//! data: resolving them needs the table's snapshots and tags. Imports `error`, `names`, `view`.

use super::lookup::lookup;
use super::names::{IncrementalScanMode, Level0, ScanMode};
use super::view::Values;
use crate::error::{Error, Result};

/// Which state or which changes of a table a read returns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanOptions {
    /// `scan.mode` as given. [`Self::mode`] is what it comes to.
    pub requested_mode: ScanMode,
    /// `scan.snapshot-id`.
    pub snapshot_id: Option<i64>,
    /// `scan.tag-name`.
    pub tag_name: Option<String>,
    /// `scan.version`: a tag, else `watermark-<n>`, else a snapshot id.
    pub version: Option<String>,
    /// `scan.timestamp`: a local time in the session's zone.
    pub timestamp: Option<String>,
    /// `scan.timestamp-millis`: epoch milliseconds.
    pub timestamp_millis: Option<i64>,
    /// `scan.watermark`.
    pub watermark: Option<i64>,
    /// `scan.file-creation-time-millis`: epoch milliseconds.
    pub file_creation_time_millis: Option<i64>,
    /// `scan.creation-time-millis`: epoch milliseconds.
    pub creation_time_millis: Option<i64>,
    /// `incremental-between`: two snapshot ids or two tags, the first exclusive.
    pub incremental_between: Option<(String, String)>,
    /// `incremental-between-timestamp`: two times, epoch milliseconds or local times, the first exclusive.
    pub incremental_between_timestamp: Option<(String, String)>,
    /// `incremental-to-auto-tag`.
    pub incremental_to_auto_tag: Option<String>,
    /// `incremental-between-scan-mode`.
    pub incremental_mode: IncrementalScanMode,
    /// `incremental-between-tag-to-snapshot`: tags stand for their snapshot ids.
    pub incremental_tag_to_snapshot: bool,
    /// `paimon.scan.level0`.
    pub level0: Level0,
}

/// Options that choose a state or changes: one brought by a statement takes the place of all that the table carries.
pub(super) const TRAVEL: [&str; 12] = [
    "scan.mode",
    "scan.snapshot-id",
    "scan.tag-name",
    "scan.version",
    "scan.timestamp",
    "scan.timestamp-millis",
    "scan.watermark",
    "scan.file-creation-time-millis",
    "scan.creation-time-millis",
    "incremental-between",
    "incremental-between-timestamp",
    "incremental-to-auto-tag",
];

/// Whether an option, by any of its names, chooses a state or changes to read.
pub fn chooses_state(key: &str) -> bool {
    lookup(key).is_some_and(|found| TRAVEL.contains(&found.key))
}

impl ScanOptions {
    pub(super) fn new(values: &Values) -> Result<Self> {
        let chosen: Vec<&str> = TRAVEL[1..].iter().copied().filter(|key| values.is_set(key)).collect();
        if let [first, second, ..] = chosen.as_slice() {
            return Err(Error::invalid(format!("options {first} and {second} exclude each other; give one of them")));
        }
        let scan = Self {
            requested_mode: values.required("scan.mode")?,
            snapshot_id: values.value("scan.snapshot-id")?,
            tag_name: values.value("scan.tag-name")?,
            version: values.value("scan.version")?,
            timestamp: values.value("scan.timestamp")?,
            timestamp_millis: values.value("scan.timestamp-millis")?,
            watermark: values.value("scan.watermark")?,
            file_creation_time_millis: values.value("scan.file-creation-time-millis")?,
            creation_time_millis: values.value("scan.creation-time-millis")?,
            incremental_between: values.value("incremental-between")?,
            incremental_between_timestamp: values.value("incremental-between-timestamp")?,
            incremental_to_auto_tag: values.value("incremental-to-auto-tag")?,
            incremental_mode: values.required("incremental-between-scan-mode")?,
            incremental_tag_to_snapshot: values.required("incremental-between-tag-to-snapshot")?,
            level0: values.required("paimon.scan.level0")?,
        };
        scan.check_mode(chosen.first().copied())?;
        Ok(scan)
    }

    /// Where the read starts, with `default` resolved by the other options (`spec/data.md 7.6`) and the old name `full`
    /// replaced. Never [`ScanMode::Default`] or [`ScanMode::Full`].
    pub fn mode(&self) -> ScanMode {
        match self.requested_mode {
            ScanMode::Full => ScanMode::LatestFull,
            ScanMode::Default => self.implied_mode().unwrap_or(ScanMode::LatestFull),
            mode => mode,
        }
    }

    /// Whether the read is of the latest state as a whole, as without any of these options.
    pub fn is_latest(&self) -> bool {
        matches!(self.mode(), ScanMode::LatestFull | ScanMode::Latest)
    }

    fn implied_mode(&self) -> Option<ScanMode> {
        if self.timestamp.is_some() || self.timestamp_millis.is_some() {
            Some(ScanMode::FromTimestamp)
        } else if self.snapshot_id.is_some()
            || self.tag_name.is_some()
            || self.version.is_some()
            || self.watermark.is_some()
        {
            Some(ScanMode::FromSnapshot)
        } else if self.file_creation_time_millis.is_some() {
            Some(ScanMode::FromFileCreationTime)
        } else if self.creation_time_millis.is_some() {
            Some(ScanMode::FromCreationTimestamp)
        } else if self.incremental_between.is_some()
            || self.incremental_between_timestamp.is_some()
            || self.incremental_to_auto_tag.is_some()
        {
            Some(ScanMode::Incremental)
        } else {
            None
        }
    }

    /// The mode must be the one that the option beside it asks for: anything else would leave one of them unused.
    fn check_mode(&self, chosen: Option<&str>) -> Result<()> {
        let mode = self.mode();
        let implied = self.implied_mode();
        let fits = match mode {
            ScanMode::FromSnapshotFull => self.snapshot_id.is_some(),
            ScanMode::FromTimestamp
            | ScanMode::FromSnapshot
            | ScanMode::FromFileCreationTime
            | ScanMode::FromCreationTimestamp
            | ScanMode::Incremental => implied == Some(mode),
            _ => implied.is_none(),
        };
        if fits {
            return Ok(());
        }
        let beside =
            chosen.map_or_else(|| "without an option that says which".to_owned(), |key| format!("beside {key}"));
        Err(Error::invalid(format!(
            "option scan.mode = '{}' can't be read {beside}; leave scan.mode out, the other option implies it",
            self.requested_mode.name()
        )))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::options::TableOptions;

    fn scan(pairs: &[(&str, &str)]) -> Result<ScanOptions> {
        let options = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        TableOptions::new(&options, &BTreeMap::new()).map(|options| options.scan)
    }

    #[test]
    fn mode_when_default_then_the_other_option_decides() {
        let cases = [
            (("scan.timestamp", "2024-01-01"), ScanMode::FromTimestamp),
            (("log.scan.timestamp-millis", "5"), ScanMode::FromTimestamp),
            (("scan.snapshot-id", "5"), ScanMode::FromSnapshot),
            (("scan.tag-name", "a"), ScanMode::FromSnapshot),
            (("scan.version", "a"), ScanMode::FromSnapshot),
            (("scan.watermark", "5"), ScanMode::FromSnapshot),
            (("scan.file-creation-time-millis", "5"), ScanMode::FromFileCreationTime),
            (("scan.creation-time-millis", "5"), ScanMode::FromCreationTimestamp),
            (("incremental-between", "1,2"), ScanMode::Incremental),
            (("incremental-to-auto-tag", "t"), ScanMode::Incremental),
            (("scan.mode", "full"), ScanMode::LatestFull),
            (("scan.mode", "LATEST"), ScanMode::Latest),
            (("incremental-between-scan-mode", "diff"), ScanMode::LatestFull),
        ];
        for (option, mode) in cases {
            let scan = scan(&[option]).unwrap();
            assert_eq!(scan.mode(), mode, "{option:?}");
            assert_eq!(scan.is_latest(), matches!(mode, ScanMode::LatestFull | ScanMode::Latest), "{option:?}");
        }
    }

    #[test]
    fn new_when_two_states_are_asked_for_then_error() {
        let error = scan(&[("scan.snapshot-id", "1"), ("scan.tag-name", "a")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "options scan.snapshot-id and scan.tag-name exclude each other; give one of them"
        );
    }

    #[test]
    fn new_when_mode_and_option_disagree_then_error() {
        for pairs in [
            &[("scan.mode", "from-snapshot")][..],
            &[("scan.mode", "latest-full"), ("scan.snapshot-id", "1")],
            &[("scan.mode", "from-timestamp"), ("scan.snapshot-id", "1")],
            &[("scan.mode", "from-snapshot-full"), ("scan.tag-name", "a")],
        ] {
            assert!(scan(pairs).unwrap_err().to_string().contains("scan.mode"), "{pairs:?}");
        }
        scan(&[("scan.mode", "from-snapshot-full"), ("scan.snapshot-id", "1")]).unwrap();
        scan(&[("scan.mode", "from-timestamp"), ("scan.timestamp-millis", "1")]).unwrap();
    }
}
