//! Options of writers and commits.

use super::{BOOL, COMPACTS, INT, LONG, NATURAL, POSITIVE, SIZE, SPEED, TEXT, TIME, WRITES};
use crate::options::def::{Kind, Kind::Enum, OptionDef, harmless};

const CLUSTERING: Kind = Enum(&["auto", "order", "zorder", "hilbert"]);
const BAD_RECORDS: Kind = Kind::Form {
    accepts: "'fail' or 'table:<name of a table>'",
    check: |text| text == "fail" || text.strip_prefix("table:").is_some_and(|table| !table.trim().is_empty()),
};

pub(super) const OPTIONS: &[OptionDef] = &[
    harmless("write-only", BOOL, "writer neither compacts nor expires", WRITES)
        .or("false")
        .also(&["write.compaction-skip"]),
    harmless("write-buffer-size", SIZE, "memory before a level-0 file is flushed", WRITES).or("256 mb"),
    harmless("write-buffer-spill.max-disk-size", SIZE, "disk for the write buffer", SPEED).or("9223372036854775807 b"),
    harmless("write-buffer-spillable", BOOL, "a full write buffer spills instead of flushing", WRITES).or("true"),
    harmless("write-buffer-for-append", BOOL, "append writers buffer too", WRITES).or("false"),
    harmless("write-max-writers-to-spill", INT, "open append writers above which they buffer and spill", WRITES)
        .or("10"),
    harmless("local-sort.max-num-file-handles", INT, "fan-in of the external sort", SPEED).or("128"),
    harmless("local-merge-buffer-size", SIZE, "merge rows before the shuffle", SPEED),
    harmless("page-size", SIZE, "size of a memory page", SPEED).or("64 kb"),
    harmless("cache-page-size", SIZE, "size of a page of caches", SPEED).or("64 kb"),
    harmless("write.batch-size", POSITIVE, "rows per write batch", SPEED).or("1024").also(&["orc.write.batch-size"]),
    harmless("write.batch-memory", SIZE, "bytes per write batch", SPEED).or("128 mb"),
    harmless("async-file-write", BOOL, "write in the background", SPEED).or("true"),
    harmless("file-operation.thread-num", POSITIVE, "threads for deletes and the like", SPEED)
        .also(&["delete-file.thread-num"]),
    harmless("partition.sink-strategy", Enum(&["NONE", "HASH"]), "shuffle rows by partition before writing", SPEED)
        .or("NONE"),
    harmless("dynamic-partition-overwrite", BOOL, "INSERT OVERWRITE replaces only partitions that get rows", WRITES)
        .or("true"),
    harmless("overwrite-upgrade", BOOL, "INSERT OVERWRITE of a PK table puts files at the top level", WRITES)
        .or("true"),
    harmless("delete.force-produce-changelog", BOOL, "DELETE statements write changelog", WRITES).or("false"),
    harmless("commit.force-compact", BOOL, "compact before each commit", WRITES).or("false"),
    harmless("commit.timeout", TIME, "give up retrying after this time", WRITES),
    harmless("commit.max-retries", NATURAL, "give up after this many retries", WRITES).or("10"),
    harmless("commit.min-retry-wait", TIME, "first pause between retries", WRITES).or("10 ms"),
    harmless("commit.max-retry-wait", TIME, "longest pause between retries", WRITES).or("10 s"),
    harmless("commit.user-prefix", TEXT, "commit user becomes `<prefix>_<uuid>`", WRITES),
    harmless("commit.force-create-snapshot", BOOL, "a commit without data makes a snapshot too", WRITES).or("false"),
    harmless("commit.strict-mode.last-safe-snapshot", LONG, "abort when others compacted or overwrote since", WRITES),
    harmless("commit.discard-duplicate-files", BOOL, "append: skip files which are committed already", WRITES)
        .or("false"),
    harmless("commit.callbacks", TEXT, "Java classes called for new snapshots", WRITES),
    harmless("commit.callback.<class>.param", TEXT, "argument of such a class", WRITES),
    harmless(
        "snapshot.ignore-empty-commit",
        BOOL,
        "no snapshot for an empty commit; unset: batch yes, streaming no",
        WRITES,
    ),
    harmless("visibility-callback.enabled", BOOL, "commit waits until compaction makes rows visible (DV)", WRITES)
        .or("false"),
    harmless("visibility-callback.timeout", TIME, "how long that commit waits", WRITES).or("30 min"),
    harmless("visibility-callback.check-interval", TIME, "how often that commit looks", WRITES).or("10 s"),
    harmless("clustering.strategy", CLUSTERING, "order, zorder, hilbert; auto by column count", WRITES)
        .or("auto")
        .also(&["sink.clustering.strategy"]),
    harmless(
        "clustering.incremental",
        BOOL,
        "append: clustered sorted runs kept by compaction",
        "rows of an append table are never merged, whatever the level of their file",
    )
    .or("false"),
    harmless(
        "clustering.incremental.mode",
        Enum(&["global-sort", "local-sort"]),
        "order over all files or within each",
        WRITES,
    )
    .or("global-sort"),
    harmless("clustering.incremental.optimize-write", BOOL, "cluster before writing", WRITES).or("false"),
    harmless("clustering.history-partition.limit", INT, "partitions clustered fully per run", COMPACTS).or("5"),
    harmless("clustering.history-partition.idle-to-full-sort", TIME, "when a partition counts as history", COMPACTS),
    harmless("sort-compaction.range-strategy", Enum(&["SIZE", "QUANTITY"]), "ranges by size or by count", COMPACTS)
        .or("SIZE"),
    harmless("sort-compaction.local-sample.magnification", INT, "samples taken to find the ranges", COMPACTS)
        .or("1000"),
    harmless("zorder.var-length-contribution", INT, "bytes of texts used in z-order", COMPACTS).or("8"),
    harmless("write.bad-records", BAD_RECORDS, "ours: what becomes of rows that do not fit the table", WRITES)
        .or("fail")
        .also(&["paimon.write.bad-records"]),
];
