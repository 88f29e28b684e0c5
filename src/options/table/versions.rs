//! Options that Java 1.4.2 does not have: those of older tables and of later versions.

use super::{BOOL, COMPACTS, DOUBLE, INT, LIST, POSITIVE, POSITIVE_LONG, SIZE, SPEED, TEXT, WRITES, is_true};
use crate::options::def::{Kind::Enum, OptionDef, Refusal, harmless, honoured, refused};
use crate::options::names::NestedKeyNullStrategy;

const GONE: &str = "Java dropped it and it says nothing about files";
const EXTRA_INDEX: &str = "reads find rows without such indexes, and so also those written after an index was built";
const POSTPONED: Refusal = Refusal {
    when: |text, _| is_true(text),
    why: "rows that wait in the postpone bucket are not merged into reads; compact the table and set the option to 'false'",
};
const ONE_BUCKET: Refusal =
    Refusal { when: |_, _| true, why: "reads can't be held to one bucket; filter by the bucket key instead" };
const BLOB_VIEWS: Refusal = Refusal {
    when: |text, _| !text.trim().is_empty(),
    why: "BLOB columns that show another table's BLOBs are not followed; read that table",
};
const VIDEO: Refusal = Refusal {
    when: |text, _| !text.trim().is_empty(),
    why: "frames are not taken out of videos; read the BLOB column that holds the video",
};
const SIDECARS: Refusal = Refusal {
    when: |text, _| !text.eq_ignore_ascii_case("false"),
    why: "sidecar files of row groups are not read; rewrite the table without them",
};
const SHARED_SHREDDING: Refusal = Refusal {
    when: |text, _| text.eq_ignore_ascii_case("shared-shredding"),
    why: "MAP columns shredded into shared columns are not read; rewrite the table with layout 'default'",
};

pub(super) const OPTIONS: &[OptionDef] = &[
    // Gone since 1.3.1.
    harmless("log.*", TEXT, "log systems as a second store, until 1.3", GONE),
    harmless("lookup.local-file-type", TEXT, "kind of local lookup files, until 1.3", GONE),
    harmless("streaming-read-mode", TEXT, "streams of files or of a log, until 1.3", GONE),
    // To come after 1.4.2.
    honoured(
        "sequence.snapshot-ordering",
        BOOL,
        "rows of appended files are ordered by the snapshot that brought them",
    )
    .or("false")
    .immutable(),
    harmless("primary-key.nullable", BOOL, "key columns may hold NULL", "the schema says which columns may hold NULL")
        .or("false")
        .immutable(),
    harmless(
        "write.sequence-number-init-mode",
        Enum(&["scan", "snapshot"]),
        "where a writer finds its first sequence number",
        WRITES,
    )
    .or("scan"),
    harmless("write.merge-schema", BOOL, "columns of the input are added to the table", WRITES).or("false"),
    harmless(
        "write.merge-schema.explicit-cast",
        BOOL,
        "types of the table are changed where that needs a cast",
        WRITES,
    )
    .or("false"),
    harmless("manifest.merge-optimize.enabled", BOOL, "manifests are merged in fewer passes", WRITES).or("true"),
    harmless("manifest-sort.enabled", BOOL, "manifests are sorted by partition", WRITES).or("false"),
    harmless("manifest-sort.max-rewrite-size", SIZE, "most bytes sorted in one commit", WRITES).or("256 mb"),
    harmless("manifest-sort.partition-field", TEXT, "partition column to sort by", WRITES),
    harmless(
        "manifest.sidecar.enabled",
        BOOL,
        "files beside manifests to prune by",
        "manifests hold all that sidecars hold",
    ),
    harmless("row-tracking.partition-group-on-commit", BOOL, "row ids are given partition by partition", WRITES)
        .or("true"),
    honoured("deletion-vectors.merge-on-read", BOOL, "level 0 is merged with the levels marked by deletion vectors")
        .or("false"),
    refused("postpone.merge-on-read", BOOL, "rows in the postpone bucket are read as well", POSTPONED).or("false"),
    harmless(
        "postpone.target-row-num-per-bucket",
        POSITIVE_LONG,
        "rows wanted in a bucket made from the postpone bucket",
        COMPACTS,
    ),
    harmless(
        "postpone.target-size-per-bucket",
        SIZE,
        "bytes wanted in a bucket made from the postpone bucket",
        COMPACTS,
    )
    .or("1 gb"),
    harmless(
        "postpone.batch-write-fixed-bucket.rescale-load-factor",
        INT,
        "buckets of a batch write by its size",
        WRITES,
    )
    .or("32"),
    harmless("target-file-row-num", POSITIVE_LONG, "rows wanted in a data file", WRITES).or("9223372036854775807"),
    refused("scan.bucket", INT, "only one bucket is read", ONE_BUCKET),
    harmless("compaction.small-file-ratio", DOUBLE, "files below this share of the target size are small", COMPACTS)
        .or("0.7"),
    harmless("compaction.skip-expired-partitions", BOOL, "partitions about to be dropped are left alone", COMPACTS)
        .or("false"),
    refused("blob-view-field", LIST, "BLOB columns that show another table's BLOBs", BLOB_VIEWS).immutable(),
    harmless(
        "blob-view.resolve.enabled",
        BOOL,
        "blob views are followed",
        "it means something only with blob-view-field, which is refused by itself",
    ),
    harmless("blob.copy-buffer-size", SIZE, "buffer for copying BLOBs", SPEED),
    refused("video-frame-field", LIST, "columns that show frames of a video", VIDEO),
    refused("data-evolution.row-sidecar.*", TEXT, "rows of a file group in a sidecar file", SIDECARS),
    harmless("data-evolution.write-cols-optimization.enabled", BOOL, "fewer columns are written", WRITES),
    harmless("data-evolution.row-id-conflict-rewrite.max-size", SIZE, "most bytes rewritten after a conflict", WRITES),
    harmless("pk-bitmap.index.columns", LIST, "columns of a key table with a global bitmap index", EXTRA_INDEX),
    harmless("pk-btree.index.columns", LIST, "columns of a key table with a global B-tree index", EXTRA_INDEX),
    harmless("pk-full-text.index.columns", LIST, "columns of a key table with a full-text index", EXTRA_INDEX),
    harmless("pk-vector.index.columns", LIST, "columns of a key table with a vector index", EXTRA_INDEX),
    harmless("bitmap-index.*", TEXT, "layout of global bitmap indexes", EXTRA_INDEX),
    harmless("btree-index.bloom-filter.enabled", BOOL, "bloom filters in global B-tree indexes", EXTRA_INDEX),
    harmless("*.search-mode", TEXT, "how an index is searched", EXTRA_INDEX),
    harmless("sorted-index.records-per-file", POSITIVE_LONG, "keys in one index file", EXTRA_INDEX),
    refused(
        "fields.<c>.map.storage-layout",
        Enum(&["default", "shared-shredding"]),
        "physical layout of a MAP column",
        SHARED_SHREDDING,
    )
    .or("default"),
    harmless(
        "fields.<c>.map.shared-shredding.max-columns",
        POSITIVE,
        "most columns of a shared-shredding layout",
        WRITES,
    )
    .or("256"),
    harmless(
        "fields.<c>.map.shared-shredding.column-placement-policy",
        TEXT,
        "which keys get a column of a shared-shredding layout",
        WRITES,
    )
    .or("lru"),
    honoured("fields.<c>.nested-sequence-field", LIST, "nested_update: field that decides which nested row is newest"),
    honoured(
        "fields.<c>.nested-key-null-strategy",
        Enum(NestedKeyNullStrategy::NAMES),
        "nested_update: NULL in a nested key",
    )
    .or("merge"),
    harmless(
        "mosaic.*",
        TEXT,
        "handed to the Mosaic reader and writer",
        "files of that format are refused by themselves",
    ),
];
