//! Options about what a table is: keys, buckets, partitions, branches, kinds of tables.

use super::{ALTERS, BOOL, COMPACTS, INT, LIST, POSITIVE, POSITIVE_LONG, TEXT, TIME, WRITES, is_true};
use crate::options::def::{Kind, Kind::Enum, OptionDef, Refusal, harmless, honoured, refused};
use crate::options::names::BucketFunction;

const BUCKET: Kind = Kind::Form {
    accepts: "-1 (dynamic), -2 (postpone) or a bucket count of at least 1",
    check: |text| text.parse::<i32>().is_ok_and(|bucket| bucket >= -2 && bucket != 0),
};

const TYPE: Refusal = Refusal {
    when: |text, _| !text.eq_ignore_ascii_case("table"),
    why: "only tables of type 'table' are read: read the files of a format or object table as external tables, \
          and materialized, Lance and Iceberg tables with their own engine",
};
const CHAIN: Refusal = Refusal {
    // The branches of a chain table are tables like any other.
    when: |text, options| is_true(text) && options.get("branch").is_none_or(|branch| branch == "main"),
    why: "chains of a snapshot branch and a delta branch are not put together; \
          read the branches themselves, <table>$branch_<snapshot branch> and <table>$branch_<delta branch>",
};
const AUTH: Refusal = Refusal {
    when: |text, _| is_true(text),
    why: "row filters and column masks of the catalog are not applied, so the table would show more than it may; \
          ask the owner of the catalog for a table without it",
};
const CHAINED: &str = "it means something only with chain-table.enabled, which is refused by itself";
const MATERIALIZED: &str = "it says how another engine refreshes the table, not what is in it";
const FORMAT_TABLE: &str = "it means something only for format tables, which are refused by their type";

pub(super) const OPTIONS: &[OptionDef] = &[
    refused(
        "type",
        Enum(&["table", "format-table", "materialized-table", "object-table", "lance-table", "iceberg-table"]),
        "kind of table; only `table` is a Paimon table proper",
        TYPE,
    )
    .or("table")
    .immutable(),
    honoured("bucket", BUCKET, "bucket count; -1 dynamic (PK) or unaware (append), -2 postpone").or("-1"),
    honoured("bucket-key", LIST, "columns hashed into the bucket; default is the PK without partition columns")
        .immutable(),
    honoured("bucket-function.type", Enum(BucketFunction::NAMES), "which hash chooses the bucket")
        .or("default")
        .immutable(),
    harmless(
        "bucket-append-ordered",
        BOOL,
        "bucketed append: keep order within a bucket (false lets writers ignore it)",
        WRITES,
    )
    .or("true"),
    harmless("primary-key", LIST, "only in CREATE; moves to the schema's key list", "the schema lists the key itself")
        .immutable(),
    harmless(
        "partition",
        LIST,
        "only in CREATE; moves to the schema's partition list",
        "the schema lists the partition columns itself",
    )
    .immutable(),
    honoured("partition.default-name", TEXT, "directory value for NULL and blank partition values")
        .or("__DEFAULT_PARTITION__"),
    honoured("partition.legacy-name", BOOL, "partition text by toString (true) or by cast to string").or("true"),
    harmless("path", TEXT, "table location, set by the catalog", "the catalog knows where the table is"),
    honoured("branch", TEXT, "branch which is read and written").or("main"),
    honoured("scan.fallback-branch", TEXT, "partitions missing here are read from that branch"),
    honoured("scan.primary-branch", TEXT, "partitions there win over ours"),
    refused("chain-table.enabled", BOOL, "chain table: partitions made of a snapshot branch plus delta branch", CHAIN)
        .or("false"),
    harmless("scan.fallback-snapshot-branch", TEXT, "chain table: branch with full partitions", CHAINED),
    harmless("scan.fallback-delta-branch", TEXT, "chain table: branch with deltas", CHAINED),
    harmless(
        "chain-table.chain-partition-keys",
        LIST,
        "chain table: trailing partition columns that form the chain",
        CHAINED,
    ),
    honoured("row-tracking.enabled", BOOL, "append: rows have ids").or("false").immutable(),
    honoured("data-evolution.enabled", BOOL, "append: files may hold some columns only").or("false").immutable(),
    harmless("dynamic-bucket.target-row-num", POSITIVE_LONG, "rows wanted in a dynamic bucket", WRITES).or("2000000"),
    harmless("dynamic-bucket.initial-buckets", POSITIVE, "dynamic buckets to begin with", WRITES),
    harmless("dynamic-bucket.max-buckets", INT, "most dynamic buckets, -1 unbounded", WRITES).or("-1"),
    harmless("dynamic-bucket.assigner-parallelism", POSITIVE, "assigners of dynamic buckets", WRITES),
    harmless("cross-partition-upsert.index-ttl", TIME, "cross-partition: forget keys after this time", WRITES),
    harmless(
        "cross-partition-upsert.bootstrap-parallelism",
        POSITIVE,
        "cross-partition: threads that load the key index",
        WRITES,
    )
    .or("10"),
    harmless("postpone.batch-write-fixed-bucket", BOOL, "batch writes to postpone tables go to real buckets", WRITES)
        .or("true"),
    harmless(
        "postpone.batch-write-fixed-bucket.max-parallelism",
        POSITIVE,
        "most buckets of such a batch write",
        WRITES,
    )
    .or("2048"),
    harmless("postpone.default-bucket-num", POSITIVE, "buckets of a partition compacted for the first time", COMPACTS)
        .or("1"),
    harmless("upsert-key", LIST, "append table: INSERT becomes MERGE by these columns (Spark)", WRITES),
    harmless("auto-create", BOOL, "create storage on first use", WRITES).or("false"),
    harmless("alter-column-null-to-not-null.disabled", BOOL, "refuse ALTER to NOT NULL", ALTERS).or("true"),
    harmless("disable-explicit-type-casting", BOOL, "ALTER may only widen types", ALTERS).or("false"),
    harmless("add-column-before-partition", BOOL, "new columns go before the partition columns", ALTERS).or("false"),
    refused("query-auth.enabled", BOOL, "ask the catalog for row filters and masks", AUTH).or("false"),
    harmless("materialized-table.definition-query", TEXT, "Flink materialized tables", MATERIALIZED),
    harmless("materialized-table.interval-freshness", TEXT, "Flink materialized tables", MATERIALIZED),
    harmless(
        "materialized-table.interval-freshness.time-unit",
        Enum(&["SECOND", "MINUTE", "HOUR", "DAY"]),
        "Flink materialized tables",
        MATERIALIZED,
    ),
    harmless(
        "materialized-table.logical-refresh-mode",
        Enum(&["CONTINUOUS", "FULL", "AUTOMATIC"]),
        "Flink materialized tables",
        MATERIALIZED,
    ),
    harmless(
        "materialized-table.refresh-mode",
        Enum(&["CONTINUOUS", "FULL", "AUTOMATIC"]),
        "Flink materialized tables",
        MATERIALIZED,
    ),
    harmless(
        "materialized-table.refresh-status",
        Enum(&["INITIALIZING", "ACTIVATED", "SUSPENDED"]),
        "Flink materialized tables",
        MATERIALIZED,
    ),
    harmless("materialized-table.refresh-handler-description", TEXT, "Flink materialized tables", MATERIALIZED),
    harmless("materialized-table.refresh-handler-bytes", TEXT, "Flink materialized tables", MATERIALIZED),
    harmless("format-table.implementation", Enum(&["paimon", "engine"]), "format tables: who reads them", FORMAT_TABLE)
        .or("paimon"),
    harmless("format-table.partition-path-only-value", BOOL, "format tables: directories without `key=`", FORMAT_TABLE)
        .or("false"),
    harmless("format-table.file.compression", TEXT, "format tables: codec", FORMAT_TABLE).also(&["file.compression"]),
    harmless("format-table.commit-hive-sync-url", TEXT, "format tables: where commits are reported", FORMAT_TABLE),
];
