//! The options of commits, typed. Imports `error` and the rest of this room.

use std::time::Duration;

use super::value::MemorySize;
use super::view::TableOptions;
use crate::error::{Error, Result};

/// How changes of a table are committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitOptions {
    /// `commit.timeout`: no further attempt after this time; None: only the retries count.
    pub timeout: Option<Duration>,
    /// `commit.max-retries`: attempts after the first one.
    pub max_retries: u32,
    /// `commit.min-retry-wait`: the first pause; each further one is twice as long.
    pub min_retry_wait: Duration,
    /// `commit.max-retry-wait`: the longest pause.
    pub max_retry_wait: Duration,
    /// `commit.user-prefix`: a commit user is `<prefix>_<uuid>`.
    pub user_prefix: Option<String>,
    /// `commit.force-create-snapshot`: a commit that changes nothing makes a snapshot too.
    pub force_create_snapshot: bool,
    /// `snapshot.ignore-empty-commit`; None: ignored for batch commits, not for those of a stream.
    pub ignore_empty: Option<bool>,
    /// `commit.strict-mode.last-safe-snapshot` (`spec/metadata.md 7.6`). A negative one counts as not set.
    pub last_safe_snapshot: Option<i64>,
    /// `commit.discard-duplicate-files`: added files that are there already are left out.
    pub discard_duplicate_files: bool,
    /// `overwrite-upgrade`: files that replace all others of a bucket go to the top level.
    pub overwrite_upgrade: bool,
    /// `row-tracking.partition-group-on-commit`: row ids are given partition by partition.
    pub group_row_ids: bool,
    /// `write.sequence-number-init-mode` is `snapshot`: snapshots say the greatest sequence number.
    pub sequence_number_in_snapshot: bool,
    /// `manifest.target-file-size` in bytes.
    pub manifest_target_size: u64,
    /// `manifest.full-compaction-threshold-size` in bytes.
    pub manifest_full_size: u64,
    /// `manifest.merge-min-count`.
    pub manifest_merge_count: usize,
    /// `manifest.delete-file-drop-stats`: entries that delete a file have no value statistics.
    pub delete_drops_stats: bool,
    /// Codec of manifests and lists: `avro.codec`, else `manifest.compression`.
    pub manifest_codec: String,
    /// `file.compression.zstd-level`.
    pub zstd_level: i32,
}

impl CommitOptions {
    /// The options of commits to a table.
    ///
    /// # Errors
    /// Invalid for a value that is not what its option takes, unsupported for a `manifest.format` that is not written.
    pub fn new(options: &TableOptions) -> Result<Self> {
        let format: String = required(options, "manifest.format")?;
        if !format.eq_ignore_ascii_case("avro") {
            return Err(Error::unsupported(format!(
                "manifests of format {format} are read but not written: other engines expect all manifests of a table in its \
                 'manifest.format'; write the table with the engine that made it, or into a new one"
            )));
        }
        let size = |key| required::<MemorySize>(options, key).map(|size| size.0);
        let codec = match options.value::<String>("avro.codec")? {
            Some(codec) => codec,
            None => required(options, "manifest.compression")?,
        };
        let min_retry_wait: Duration = required(options, "commit.min-retry-wait")?;
        Ok(Self {
            timeout: options.value("commit.timeout")?,
            max_retries: u32::try_from(required::<i32>(options, "commit.max-retries")?).unwrap_or(0),
            min_retry_wait,
            max_retry_wait: required::<Duration>(options, "commit.max-retry-wait")?.max(min_retry_wait),
            user_prefix: options.value::<String>("commit.user-prefix")?.filter(|prefix| !prefix.trim().is_empty()),
            force_create_snapshot: required(options, "commit.force-create-snapshot")?,
            ignore_empty: options.value("snapshot.ignore-empty-commit")?,
            last_safe_snapshot: options
                .value::<i64>("commit.strict-mode.last-safe-snapshot")?
                .filter(|snapshot| *snapshot >= 0),
            discard_duplicate_files: required(options, "commit.discard-duplicate-files")?,
            overwrite_upgrade: required(options, "overwrite-upgrade")?,
            group_row_ids: required(options, "row-tracking.partition-group-on-commit")?,
            sequence_number_in_snapshot: required::<String>(options, "write.sequence-number-init-mode")?
                .eq_ignore_ascii_case("snapshot"),
            manifest_target_size: size("manifest.target-file-size")?.max(1),
            manifest_full_size: size("manifest.full-compaction-threshold-size")?.max(1),
            manifest_merge_count: usize::try_from(required::<i32>(options, "manifest.merge-min-count")?).unwrap_or(1),
            delete_drops_stats: required(options, "manifest.delete-file-drop-stats")?,
            manifest_codec: codec,
            zstd_level: required(options, "file.compression.zstd-level")?,
        })
    }
}

fn required<T: super::OptionValue>(options: &TableOptions, key: &str) -> Result<T> {
    options.value(key)?.ok_or_else(|| Error::internal(format!("option {key} has no default")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::error::ErrorKind;

    fn options(pairs: &[(&str, &str)]) -> Result<CommitOptions> {
        let map = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        CommitOptions::new(&TableOptions::new(&map, &BTreeMap::new())?)
    }

    #[test]
    fn new_when_nothing_is_set_then_the_defaults_of_the_format() {
        let options = options(&[]).unwrap();
        assert_eq!((options.timeout, options.max_retries), (None, 10));
        assert_eq!(
            (options.min_retry_wait, options.max_retry_wait),
            (Duration::from_millis(10), Duration::from_secs(10))
        );
        assert_eq!((options.manifest_target_size, options.manifest_full_size), (8 << 20, 16 << 20));
        assert_eq!(
            (options.manifest_merge_count, options.manifest_codec.as_str(), options.zstd_level),
            (30, "zstd", 1)
        );
        assert!(options.overwrite_upgrade && options.group_row_ids && !options.sequence_number_in_snapshot);
        assert_eq!((options.ignore_empty, options.last_safe_snapshot), (None, None));
    }

    #[test]
    fn new_when_set_then_taken_or_refused() {
        let set = options(&[
            ("commit.timeout", "3 s"),
            ("commit.min-retry-wait", "1 s"),
            ("commit.max-retry-wait", "10 ms"),
            ("avro.codec", "null"),
            ("write.sequence-number-init-mode", "snapshot"),
            ("commit.strict-mode.last-safe-snapshot", "-1"),
        ])
        .unwrap();
        assert_eq!(set.timeout, Some(Duration::from_secs(3)));
        assert_eq!(set.max_retry_wait, Duration::from_secs(1), "never less than the shortest");
        assert_eq!((set.manifest_codec.as_str(), set.last_safe_snapshot), ("null", None));
        assert!(set.sequence_number_in_snapshot);
        let error = options(&[("manifest.format", "orc")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("format orc"), "{error}");
    }
}
