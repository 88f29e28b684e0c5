//! Options of upkeep: expiry, tags, partitions, the metastore.

use super::{BOOL, INT, POSITIVE, TEXT, TIME, UPKEEP};
use crate::options::def::{Kind::Enum, OptionDef, harmless};

pub(super) const OPTIONS: &[OptionDef] = &[
    harmless("snapshot.num-retained.min", POSITIVE, "snapshots which expiry always keeps", UPKEEP).or("10"),
    harmless("snapshot.num-retained.max", POSITIVE, "more snapshots than this expire regardless of age", UPKEEP)
        .or("2147483647"),
    harmless("snapshot.time-retained", TIME, "age which lets a snapshot expire", UPKEEP).or("1 h"),
    harmless(
        "snapshot.expire.execution-mode",
        Enum(&["sync", "async"]),
        "expiry inside the commit or in the background",
        UPKEEP,
    )
    .or("sync"),
    harmless("snapshot.expire.limit", POSITIVE, "most snapshots expired at once", UPKEEP).or("50"),
    harmless("snapshot.clean-empty-directories", BOOL, "remove directories emptied by expiry", UPKEEP)
        .or("false")
        .also(&["snapshot.expire.clean-empty-directories"]),
    harmless(
        "snapshot.watermark-idle-timeout",
        TIME,
        "the watermark goes on when a source is idle for this long",
        UPKEEP,
    ),
    harmless(
        "changelog.num-retained.min",
        POSITIVE,
        "changelogs that outlive their snapshots: those always kept",
        UPKEEP,
    ),
    harmless("changelog.num-retained.max", POSITIVE, "likewise: more changelogs than this expire", UPKEEP),
    harmless("changelog.time-retained", TIME, "likewise: age which lets a changelog expire", UPKEEP),
    harmless(
        "tag.automatic-creation",
        Enum(&["none", "process-time", "watermark", "batch"]),
        "make tags by time, watermark or batch job",
        UPKEEP,
    )
    .or("none"),
    harmless("tag.create-success-file", BOOL, "leave `<tag>_SUCCESS`", UPKEEP).or("false"),
    harmless(
        "tag.creation-period",
        Enum(&["daily", "hourly", "two-hours"]),
        "how often an automatic tag is made",
        UPKEEP,
    )
    .or("daily"),
    harmless("tag.creation-delay", TIME, "pause after the period before its tag is made", UPKEEP).or("0 ms"),
    harmless("tag.creation-period-duration", TIME, "free period, replaces `tag.creation-period`", UPKEEP),
    harmless(
        "tag.period-formatter",
        Enum(&["with_dashes", "without_dashes", "without_dashes_and_spaces"]),
        "look of automatic tag names",
        UPKEEP,
    )
    .or("with_dashes"),
    harmless("tag.num-retained-max", INT, "most automatic tags kept", UPKEEP),
    harmless("tag.default-time-retained", TIME, "life of new tags", UPKEEP),
    harmless("tag.time-expire-enabled", BOOL, "expire tags by age", UPKEEP).or("true"),
    harmless("tag.automatic-completion", BOOL, "tags of missed periods are made up for", UPKEEP).or("false"),
    harmless("tag.batch.customized-name", TEXT, "name of the batch tag", UPKEEP),
    harmless("tag.callbacks", TEXT, "Java classes called for new tags", UPKEEP),
    harmless("tag.callback.<class>.param", TEXT, "argument of such a class", UPKEEP),
    harmless("sink.watermark-time-zone", TEXT, "zone for watermark tags", UPKEEP).or("UTC"),
    harmless("sink.process-time-zone", TEXT, "zone for process-time tags", UPKEEP),
    harmless("partition.expiration-strategy", TEXT, "values-time, update-time or a custom name", UPKEEP)
        .or("values-time"),
    harmless("partition.expiration-time", TIME, "age of a partition to drop", UPKEEP),
    harmless("partition.expiration-check-interval", TIME, "how often to look for old partitions", UPKEEP).or("1 h"),
    harmless("partition.expiration-max-num", INT, "most partitions expired per run", UPKEEP).or("100"),
    harmless("partition.expiration-batch-size", INT, "partitions expired per commit", UPKEEP),
    harmless("partition.timestamp-formatter", TEXT, "pattern of the time in partition values", UPKEEP),
    harmless("partition.timestamp-pattern", TEXT, "`$col` text to make a time from partition columns", UPKEEP),
    harmless(
        "partition.timestamp-format.strict",
        BOOL,
        "fail on values that do not parse, instead of keeping them",
        UPKEEP,
    )
    .or("false"),
    harmless("partition.end-input-to-done", BOOL, "mark partitions done at end of input", UPKEEP).or("false"),
    harmless("partition.idle-time-to-report-statistic", TIME, "report partition statistics to the metastore", UPKEEP)
        .or("0 ms"),
    harmless(
        "partition.mark-done-action",
        TEXT,
        "success-file, done-partition, mark-event, http-report, custom",
        UPKEEP,
    )
    .or("success-file"),
    harmless("partition.mark-done-action.custom.class", TEXT, "Java class for custom", UPKEEP),
    harmless("partition.mark-done-action.http.url", TEXT, "address for http-report", UPKEEP),
    harmless("partition.mark-done-action.http.params", TEXT, "parameters for http-report", UPKEEP),
    harmless("end-input.check-partition-expire", BOOL, "look for old partitions at end of input", UPKEEP).or("false"),
    harmless("metastore.partitioned-table", BOOL, "partitions are entered in the metastore", UPKEEP).or("false"),
    harmless("metastore.tag-to-partition", TEXT, "tags look like partitions in Hive", UPKEEP),
    harmless(
        "metastore.tag-to-partition.preview",
        Enum(&["none", "process-time", "watermark", "batch"]),
        "tags to come look like partitions in Hive",
        UPKEEP,
    )
    .or("none"),
];
