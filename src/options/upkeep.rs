//! The options of upkeep, typed. Imports `error` and the rest of this room.

use std::time::Duration;

use super::view::TableOptions;
use crate::error::{Error, Result};

/// How much history stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// So many always stay.
    pub least: i64,
    /// More than so many go, whatever their age.
    pub most: i64,
    /// Between the two, what is younger than this stays.
    pub time: Duration,
}

/// What a table's options say of its upkeep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpkeepOptions {
    /// `write-only`: whoever writes leaves upkeep to others.
    pub write_only: bool,
    /// `snapshot.num-retained.min`, `.max` and `snapshot.time-retained`.
    pub snapshots: Keep,
    /// `changelog.num-retained.min`, `.max` and `changelog.time-retained`, each that of snapshots unless told.
    pub changelogs: Keep,
    /// `snapshot.expire.limit`: most snapshots that expire at once.
    pub limit: i64,
    /// `snapshot.expire.execution-mode` is `async`: a commit does not wait for expiry.
    pub in_background: bool,
    /// `snapshot.clean-empty-directories`.
    pub clean_folders: bool,
    /// `consumer.changelog-only`: consumers hold changelogs and not snapshots.
    pub consumers_hold_changelogs_only: bool,
    /// `consumer.expiration-time`: consumers that were idle for longer are forgotten.
    pub consumer_time: Option<Duration>,
    /// `end-input.check-partition-expire`: a batch commit looks for old partitions whatever the interval.
    pub partitions_at_end: bool,
    /// `partition.end-input-to-done`: a batch commit marks the partitions that it wrote as done.
    pub done_at_end: bool,
}

impl UpkeepOptions {
    /// Which snapshots are kept, whether that contradicts itself or not.
    ///
    /// # Errors
    /// Invalid for a value that is not what its option takes.
    pub fn snapshots_kept(options: &TableOptions) -> Result<Keep> {
        let number = |key| Ok::<_, Error>(options.value::<i32>(key)?.map(i64::from));
        Ok(Keep {
            least: number("snapshot.num-retained.min")?.unwrap_or(10),
            most: number("snapshot.num-retained.max")?.unwrap_or_else(|| i64::from(i32::MAX)),
            time: options.value("snapshot.time-retained")?.unwrap_or(Duration::from_secs(3600)),
        })
    }

    /// The options of a table's upkeep.
    ///
    /// # Errors
    /// Invalid for a value that is not what its option takes, and where the least number is above the greatest.
    pub fn new(options: &TableOptions) -> Result<Self> {
        let number = |key| Ok::<_, Error>(options.value::<i32>(key)?.map(i64::from));
        let flag = |key| Ok::<_, Error>(options.value::<bool>(key)?.unwrap_or(false));
        let snapshots = Self::snapshots_kept(options)?;
        let changelogs = Keep {
            least: number("changelog.num-retained.min")?.unwrap_or(snapshots.least),
            most: number("changelog.num-retained.max")?.unwrap_or(snapshots.most),
            time: options.value("changelog.time-retained")?.unwrap_or(snapshots.time),
        };
        for (what, keep) in [("snapshot", snapshots), ("changelog", changelogs)] {
            if keep.least > keep.most {
                return Err(Error::invalid(format!(
                    "{what}.num-retained.min is {}, and {what}.num-retained.max only {}; what is always kept can't be \
                     more than what is kept at all",
                    keep.least, keep.most
                )));
            }
        }
        let mode: Option<String> = options.value("snapshot.expire.execution-mode")?;
        Ok(Self {
            write_only: flag("write-only")?,
            snapshots,
            changelogs,
            limit: number("snapshot.expire.limit")?.unwrap_or(50),
            in_background: mode.is_some_and(|mode| mode.eq_ignore_ascii_case("async")),
            clean_folders: flag("snapshot.clean-empty-directories")?,
            consumers_hold_changelogs_only: flag("consumer.changelog-only")?,
            consumer_time: options.value("consumer.expiration-time")?,
            partitions_at_end: flag("end-input.check-partition-expire")?,
            done_at_end: flag("partition.end-input-to-done")?,
        })
    }

    /// Whether changelogs outlive their snapshots (`spec/metadata.md 9.4`).
    pub fn keeps_changelogs(&self) -> bool {
        self.changelogs.time > self.snapshots.time
            || self.changelogs.least > self.snapshots.least
            || self.changelogs.most > self.snapshots.most
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn view(pairs: &[(&str, &str)]) -> Result<UpkeepOptions> {
        let options = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        UpkeepOptions::new(&TableOptions::new(&options, &BTreeMap::new())?)
    }

    #[test]
    fn new_when_nothing_is_set_then_the_defaults_and_no_long_changelogs() {
        let options = view(&[]).unwrap();
        assert_eq!((options.snapshots.least, options.snapshots.most, options.limit), (10, 2_147_483_647, 50));
        assert_eq!(options.snapshots.time, Duration::from_secs(3600));
        assert_eq!(options.changelogs, options.snapshots);
        assert!(!options.keeps_changelogs() && !options.write_only && !options.in_background);
    }

    #[test]
    fn keeps_changelogs_when_any_of_their_limits_is_wider_then_true() {
        for (key, value, kept) in [
            ("changelog.time-retained", "2 h", true),
            ("changelog.num-retained.min", "11", true),
            ("changelog.num-retained.min", "9", false),
            ("changelog.time-retained", "1 h", false),
        ] {
            assert_eq!(view(&[(key, value)]).unwrap().keeps_changelogs(), kept, "{key} {value}");
        }
        assert!(
            view(&[("snapshot.num-retained.max", "20"), ("changelog.num-retained.max", "30")])
                .unwrap()
                .keeps_changelogs()
        );
    }

    #[test]
    fn new_when_least_is_above_most_then_error() {
        let error = view(&[("snapshot.num-retained.max", "5")]).unwrap_err();
        assert!(error.to_string().contains("snapshot.num-retained.min is 10"), "{error}");
    }
}
