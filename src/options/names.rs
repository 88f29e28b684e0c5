//! Options whose values are names. Imports `value`.

use super::value::OptionValue;

/// An enumeration whose variants have names in options; names are matched without regard to case.
macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $type {
            /// The names of all variants.
            pub const NAMES: &'static [&'static str] = &[$($name),+];

            /// The name in options.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl OptionValue for $type {
            fn from_text(text: &str) -> Option<Self> {
                $(if text.eq_ignore_ascii_case($name) {
                    return Some(Self::$variant);
                })+
                None
            }
        }
    };
}

names! {
    /// What becomes of the rows with one key (`spec/data.md 5`).
    MergeEngine {
        /// The newest row stays.
        Deduplicate = "deduplicate",
        /// Columns that are not NULL overwrite.
        PartialUpdate = "partial-update",
        /// Columns are aggregated.
        Aggregation = "aggregation",
        /// The oldest row stays.
        FirstRow = "first-row",
    }
}

names! {
    /// Who writes changelog files (`spec/data.md 7.1`).
    ChangelogProducer {
        /// Nobody.
        None = "none",
        /// The writer, from its input.
        Input = "input",
        /// Full compactions.
        FullCompaction = "full-compaction",
        /// Compactions that look older rows up.
        Lookup = "lookup",
    }
}

names! {
    /// Which hash chooses the bucket (`spec/data.md 3.3`).
    BucketFunction {
        /// The hash of the bucket key as a binary row.
        Default = "default",
        /// The only column of the bucket key, modulo the buckets.
        Mod = "mod",
        /// Hive's hash.
        Hive = "hive",
    }
}

names! {
    /// Where a read starts (`spec/data.md 7.6`).
    ScanMode {
        /// What the other options say, else the latest snapshot.
        Default = "default",
        /// The latest snapshot.
        LatestFull = "latest-full",
        /// Old name of `latest-full`.
        Full = "full",
        /// Batch: the latest snapshot. Stream: what comes after it.
        Latest = "latest",
        /// The changes of the latest snapshot.
        LatestDelta = "latest-delta",
        /// The latest compacted snapshot.
        CompactedFull = "compacted-full",
        /// The snapshot at a time.
        FromTimestamp = "from-timestamp",
        /// The snapshot after a time, else only files made since.
        FromCreationTimestamp = "from-creation-timestamp",
        /// Files of the latest snapshot that were made since a time.
        FromFileCreationTime = "from-file-creation-time",
        /// A snapshot, tag, version or watermark.
        FromSnapshot = "from-snapshot",
        /// A snapshot; a stream reads it whole first.
        FromSnapshotFull = "from-snapshot-full",
        /// The changes between two snapshots.
        Incremental = "incremental",
    }
}

names! {
    /// What an incremental read returns (`spec/data.md 7.7`).
    IncrementalScanMode {
        /// The changelog if the table has one, else the delta; the difference between two tags.
        Auto = "auto",
        /// Rows of files that were added.
        Delta = "delta",
        /// Rows of changelog files.
        Changelog = "changelog",
        /// The difference between both states.
        Diff = "diff",
    }
}

names! {
    /// What a read does with level-0 files of tables whose readers in Java leave them out until compaction: those with deletion
    /// vectors and those of merge engine first-row (`spec/data.md 4.4`).
    Level0 {
        /// They are merged, so that a committed row is visible at once.
        Merge = "merge",
        /// They are left out, as Java does.
        Skip = "skip",
    }
}

names! {
    /// What `nested_update` does with a nested row whose key holds NULL (`spec/data.md 5.3`).
    NestedKeyNullStrategy {
        /// NULL is a key like any other.
        Merge = "merge",
        /// The nested row is left out.
        Ignore = "ignore",
        /// It is an error.
        Error = "error",
    }
}
