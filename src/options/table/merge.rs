//! Options about what becomes of rows with one key: merge engines, aggregates, order, deletion vectors.

use super::{ALTERS, BOOL, INT, LIST, POSITIVE, SIZE, SPEED, TEXT, TIME, WRITES};
use crate::options::def::{Kind::Enum, OptionDef, harmless, honoured};
use crate::options::names::MergeEngine;

const EXPIRES: &str = "rows expire when files are compacted, a read never filters";

pub(super) const OPTIONS: &[OptionDef] = &[
    honoured("merge-engine", Enum(MergeEngine::NAMES), "what becomes of rows with one key")
        .or("deduplicate")
        .immutable(),
    honoured("ignore-delete", BOOL, "drop -D (and -U) rows").or("false").also(&[
        "first-row.ignore-delete",
        "deduplicate.ignore-delete",
        "partial-update.ignore-delete",
    ]),
    honoured("ignore-update-before", BOOL, "drop -U rows").or("false"),
    honoured("sequence.field", LIST, "columns that decide which row of a key is newest"),
    honoured(
        "sequence.field.sort-order",
        Enum(&["ascending", "descending"]),
        "whether the larger or the smaller value is newest",
    )
    .or("ascending"),
    honoured("rowkind.field", TEXT, "column that holds the kind of an incoming row").immutable(),
    honoured("aggregation.remove-record-on-delete", BOOL, "aggregation: -D removes the row").or("false").immutable(),
    honoured("partial-update.remove-record-on-delete", BOOL, "partial-update: -D removes the row")
        .or("false")
        .immutable(),
    honoured(
        "partial-update.remove-record-on-sequence-group",
        LIST,
        "partial-update: -D for these groups removes the row",
    )
    .immutable(),
    honoured("fields.default-aggregate-function", TEXT, "aggregate for columns without their own"),
    honoured("deletion-vectors.enabled", BOOL, "mark replaced rows with deletion vectors").or("false"),
    harmless(
        "deletion-vectors.modifiable",
        BOOL,
        "deletion vectors may be switched on and off on a table with data",
        ALTERS,
    )
    .or("false"),
    harmless("deletion-vectors.bitmap64", BOOL, "64-bit vectors (v2)", "a deletion vector is told by its magic number")
        .or("false"),
    harmless("deletion-vector.index-file.target-size", SIZE, "size wanted for a vector file (append)", WRITES)
        .or("2 mb"),
    honoured("force-lookup", BOOL, "compaction looks up as with lookup changelog").or("false").immutable(),
    honoured("pk-clustering-override", BOOL, "PK table sorted by `clustering.columns` instead of the key")
        .or("false")
        .immutable(),
    honoured("clustering.columns", LIST, "columns to cluster by").also(&["sink.clustering.by-columns"]),
    harmless("record-level.expire-time", TIME, "compaction drops rows older than this", EXPIRES),
    harmless("record-level.time-field", TEXT, "column with the row's time", EXPIRES),
    honoured("num-levels", POSITIVE, "levels of a bucket; unset: the compaction trigger and one"),
    harmless(
        "sort-engine",
        Enum(&["min-heap", "loser-tree"]),
        "algorithm that merges sorted runs",
        "both ways to merge give the same rows",
    )
    .or("loser-tree"),
    harmless("sort-spill-threshold", INT, "more sorted readers than this spill first", SPEED),
    harmless("sort-spill-buffer-size", SIZE, "memory of the sort that spills", SPEED).or("64 mb"),
    harmless("spill-compression", TEXT, "codec of spill files", SPEED).or("zstd"),
    harmless("spill-compression.zstd-level", INT, "level of zstd for spill files", SPEED).or("1"),
    honoured("fields.<c>.aggregate-function", TEXT, "aggregate of the column (aggregation, partial-update)"),
    honoured("fields.<c>.ignore-retract", BOOL, "retract rows leave the column as it is").or("false"),
    honoured("fields.<c>.sequence-group", LIST, "partial-update: columns that follow the sequence columns in the key"),
    honoured("fields.<c>.distinct", BOOL, "collect, listagg: each value once").or("false"),
    honoured("fields.<c>.list-agg-delimiter", TEXT, "listagg: text between values").or(","),
    honoured("fields.<c>.nested-key", LIST, "nested_update: key columns of the nested rows"),
    honoured("fields.<c>.count-limit", INT, "nested_update: most nested rows").or("2147483647"),
    honoured("fields.<c>.ts-field", TEXT, "merge_map_with_keytime: field of the value row that holds its time"),
];
