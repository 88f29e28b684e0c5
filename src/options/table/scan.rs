//! Options of reads: changelog, time travel, incremental and streaming reads.

use super::{BOOL, COMPACTS, INT, LIST, LONG, PAIR, POSITIVE, SIZE, SPEED, STREAMS, TEXT, TIME, UPKEEP};
use crate::options::def::{Kind::Enum, OptionDef, Refusal, harmless, honoured, refused};
use crate::options::names::{ChangelogProducer, IncrementalScanMode, Level0, ScanMode};

const BATCH_SCAN: Refusal = Refusal {
    when: |text, _| !text.eq_ignore_ascii_case("none"),
    why: "it is internal to Java's compaction jobs; remove it",
};
const NOTHING_SKIPPED: &str = "a broken or missing file is always an error, so that no rows go missing unseen";

pub(super) const OPTIONS: &[OptionDef] = &[
    honoured("changelog-producer", Enum(ChangelogProducer::NAMES), "who writes changelog files").or("none"),
    harmless("changelog-producer.row-deduplicate", BOOL, "no -U/+U when nothing changed", COMPACTS).or("false"),
    harmless(
        "changelog-producer.row-deduplicate-ignore-fields",
        LIST,
        "columns that row-deduplicate does not compare",
        COMPACTS,
    ),
    honoured("table-read.sequence-number.enabled", BOOL, "audit_log and binlog show `_SEQUENCE_NUMBER`").or("false"),
    harmless(
        "key-value.sequence_number.enabled",
        BOOL,
        "internal twin of table-read.sequence-number.enabled",
        "Java sets it for itself while it reads",
    )
    .or("false"),
    honoured("scan.mode", Enum(ScanMode::NAMES), "where a read starts").or("default").also(&["log.scan"]),
    honoured("scan.timestamp", TEXT, "start or travel time as text, session zone"),
    honoured("scan.timestamp-millis", LONG, "start or travel time in epoch millis")
        .also(&["log.scan.timestamp-millis"]),
    honoured("scan.watermark", LONG, "travel to the first snapshot at or after a watermark"),
    honoured("scan.snapshot-id", LONG, "start or travel snapshot"),
    honoured("scan.tag-name", TEXT, "travel to a tag"),
    honoured("scan.version", TEXT, "`VERSION AS OF`: tag name first, then snapshot id (or `watermark-<n>`)"),
    honoured("scan.file-creation-time-millis", LONG, "only files created after this time"),
    honoured("scan.creation-time-millis", LONG, "start for `from-creation-timestamp`"),
    harmless("scan.bounded.watermark", LONG, "end of a bounded stream", STREAMS),
    harmless("scan.plan-sort-partition", BOOL, "splits in partition order", "rows of a SQL table have no order")
        .or("false"),
    harmless("scan.ignore-corrupt-files", BOOL, "skip files which do not parse", NOTHING_SKIPPED).or("false"),
    harmless("scan.ignore-lost-files", BOOL, "skip files which are missing", NOTHING_SKIPPED).or("false"),
    harmless("scan.manifest.parallelism", INT, "threads that read manifests", SPEED),
    harmless("scan.max-splits-per-task", INT, "splits a Flink source keeps per task", SPEED).or("10"),
    honoured("source.split.target-size", SIZE, "size wanted for a split").or("128 mb"),
    honoured("source.split.open-file-cost", SIZE, "size counted for opening a file").or("4 mb"),
    harmless("read.batch-size", POSITIVE, "rows per read batch", SPEED).or("1024"),
    harmless("file-reader-async-threshold", SIZE, "read larger files in the background", SPEED).or("10 mb"),
    honoured("incremental-between", PAIR, "changes between two snapshots or tags `a,b`, a exclusive"),
    honoured(
        "incremental-between-scan-mode",
        Enum(IncrementalScanMode::NAMES),
        "delta, changelog or diff; auto: changelog if the table makes it",
    )
    .or("auto"),
    honoured("incremental-between-timestamp", PAIR, "changes between two times `t1,t2`, t1 exclusive"),
    honoured("incremental-between-tag-to-snapshot", BOOL, "tags in `incremental-between` stand for their snapshot ids")
        .or("false"),
    honoured("incremental-to-auto-tag", TEXT, "changes from the automatic tag before this one to this one"),
    refused("batch-scan-mode", Enum(&["none", "compact"]), "internal: how compaction jobs scan", BATCH_SCAN).or("none"),
    harmless(
        "stream-scan-mode",
        Enum(&["none", "compact-bucket-table", "file-monitor"]),
        "internal: how compaction jobs scan",
        STREAMS,
    )
    .or("none"),
    harmless("continuous.discovery-interval", TIME, "pause between looks for a new snapshot when streaming", STREAMS)
        .or("10 s"),
    harmless("streaming.read.snapshot.delay", TIME, "stream only snapshots older than this", STREAMS),
    harmless("streaming-read-overwrite", BOOL, "stream changes of OVERWRITE snapshots (PK)", STREAMS).or("false"),
    harmless("streaming-read-append-overwrite", BOOL, "stream added files of OVERWRITE snapshots (append)", STREAMS)
        .or("false"),
    harmless("consumer-id", TEXT, "keep stream progress under this name", STREAMS),
    harmless(
        "consumer.mode",
        Enum(&["exactly-once", "at-least-once"]),
        "when the progress of a consumer is saved",
        STREAMS,
    )
    .or("exactly-once"),
    harmless("consumer.ignore-progress", BOOL, "start anew although progress is saved", STREAMS).or("false"),
    harmless("consumer.expiration-time", TIME, "drop consumers unchanged for this long", UPKEEP),
    harmless("consumer.changelog-only", BOOL, "consumers hold back changelogs, not snapshots", UPKEEP).or("false"),
    // An option of Java's Flink source, which the hints of streaming queries carry.
    harmless("scan.remove-normalize", BOOL, "Flink: streams give the rows of files as they are", STREAMS).or("false"),
    honoured(
        "paimon.scan.level0",
        Enum(Level0::NAMES),
        "ours: level-0 files of deletion-vector and first-row tables are merged, or left out as in Java",
    )
    .or("merge")
    .also(&["scan.level0"]),
];
