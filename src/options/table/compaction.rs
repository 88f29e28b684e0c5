//! Options of compaction and of the lookups it makes.

use super::{BOOL, COMPACTS, DOUBLE, HOUR, INT, POSITIVE, SHARE, SIZE, SPEED, TEXT, TIME, WRITES};
use crate::options::def::{Kind::Enum, OptionDef, harmless, honoured};

const EXTRA_FILES: &str = "lookup files are extra files of a data file, which reads leave alone";

pub(super) const OPTIONS: &[OptionDef] = &[
    honoured("num-sorted-run.compaction-trigger", POSITIVE, "sorted runs that start a compaction").or("5"),
    harmless(
        "num-sorted-run.stop-trigger",
        INT,
        "sorted runs that block the writer; unset: the trigger and three",
        COMPACTS,
    ),
    harmless(
        "compaction.max-size-amplification-percent",
        INT,
        "newer runs over this share of the oldest start a full compaction",
        COMPACTS,
    )
    .or("200"),
    harmless("compaction.size-ratio", INT, "percent by which the next run may be larger and still join", COMPACTS)
        .or("1"),
    harmless("compaction.force-up-level-0", BOOL, "each compaction takes all of level 0", COMPACTS).or("false"),
    harmless(
        "compaction.force-rewrite-all-files",
        BOOL,
        "full compaction also rewrites files that need nothing",
        COMPACTS,
    )
    .or("false"),
    harmless("compaction.offpeak.start.hour", HOUR, "hour from which the off-peak ratio holds", COMPACTS).or("-1"),
    harmless("compaction.offpeak.end.hour", HOUR, "hour until which the off-peak ratio holds", COMPACTS).or("-1"),
    harmless("compaction.offpeak-ratio", INT, "size ratio off peak", COMPACTS).or("0"),
    harmless("compaction.optimization-interval", TIME, "full compaction at least this often", COMPACTS),
    harmless("compaction.total-size-threshold", SIZE, "smaller buckets are always compacted fully", COMPACTS),
    harmless("compaction.incremental-size-threshold", SIZE, "more new data than this: full compaction", COMPACTS),
    harmless("compaction.min.file-num", INT, "append: small files needed for a compaction", COMPACTS).or("5"),
    harmless("compaction.file-num-limit", INT, "append: most files looked at in one compaction scan", COMPACTS)
        .or("100000"),
    harmless(
        "compaction.delete-ratio-threshold",
        SHARE,
        "append with DV: share of deleted rows that forces a rewrite",
        COMPACTS,
    )
    .or("0.2"),
    honoured("full-compaction.delta-commits", POSITIVE, "full compaction every n commits"),
    harmless("lookup-wait", BOOL, "the commit waits for the lookup compaction", WRITES)
        .or("true")
        .also(&["changelog-producer.lookup-wait"]),
    harmless(
        "lookup-compact",
        Enum(&["RADICAL", "GENTLE"]),
        "radical: compactions take level 0 always; gentle: only sometimes",
        COMPACTS,
    )
    .or("RADICAL"),
    harmless("lookup-compact.max-interval", INT, "gentle: at least every n commits", COMPACTS),
    harmless("lookup.hash-load-factor", DOUBLE, "fill of lookup hash files", SPEED).or("0.75"),
    harmless("lookup.cache-file-retention", TIME, "life of local lookup files", SPEED).or("1 h"),
    harmless("lookup.cache-max-disk-size", SIZE, "disk for local lookup files", SPEED).or("9223372036854775807 b"),
    harmless("lookup.cache-max-memory-size", SIZE, "memory of the lookup cache", SPEED).or("256 mb"),
    harmless("lookup.cache-spill-compression", TEXT, "codec of local lookup files", SPEED).or("zstd"),
    harmless("lookup.cache.high-priority-pool-ratio", DOUBLE, "share of the lookup cache for hot blocks", SPEED)
        .or("0.25"),
    harmless("lookup.cache.bloom.filter.enabled", BOOL, "bloom filters of lookup files", SPEED).or("true"),
    harmless("lookup.cache.bloom.filter.fpp", SHARE, "false positives of those bloom filters", SPEED).or("0.05"),
    harmless("lookup.merge-buffer-size", SIZE, "buffer for one key's rows in lookup", SPEED).or("8 mb"),
    harmless("lookup.merge-records-threshold", INT, "rows of one key above which lookup buffers them as bytes", SPEED)
        .or("1024"),
    harmless(
        "lookup.remote-file.enabled",
        BOOL,
        "lookup files are stored as extra files beside data files",
        EXTRA_FILES,
    )
    .or("false"),
    harmless("lookup.remote-file.level-threshold", INT, "least level of files that get a lookup file", EXTRA_FILES)
        .or("-2147483648"),
];
