//! Options about files: formats, names, places, statistics, manifests, VARIANT, BLOB and VECTOR columns.

use super::{
    BOOL, DOUBLE, ENTRY_SAYS, FILE_SAYS, FORMAT, FORMAT_LEVELS, INT, LIST, POSITIVE, SIZE, SPEED, STATS, STATS_LEVELS,
    TEXT, TEXT_LEVELS, WRITES, is_true,
};
use crate::options::def::{Kind::Enum, OptionDef, Refusal, harmless, honoured, refused};

const UNREAD_NAMES: [&str; 3] = ["lance", "vortex", "mosaic"];
const UNREAD: &str = "files of the formats lance, vortex and mosaic are not read; \
                      rewrite the table with file.format 'parquet', 'orc' or 'avro'";
const UNREAD_FORMAT: Refusal = Refusal { when: |text, _| is_unread(text), why: UNREAD };
const UNREAD_FORMATS: Refusal = Refusal {
    when: |text, _| text.split(',').filter_map(|level| level.split_once(':')).any(|(_, format)| is_unread(format)),
    why: UNREAD,
};
const DESCRIPTOR_FIELDS: Refusal = Refusal {
    when: |text, _| !text.trim().is_empty(),
    why: "the descriptors in BLOB columns are not followed to the bytes they point to; \
          read these columns through Java, or store the bytes themselves",
};
const AS_DESCRIPTOR: Refusal = Refusal {
    when: |text, _| is_true(text),
    why: "BLOB columns are read as their bytes, not as descriptors; set the option to 'false'",
};
const VECTOR_FILES: Refusal = Refusal {
    when: |text, _| !text.trim().is_empty(),
    why: "VECTOR columns in files of their own are not read; rewrite the table without the option",
};
const BLOB_DESCRIPTORS: &str = "it means something only with blob-descriptor-field, which is refused by itself";
const WHOLE_NAMES: &str = "entries hold whole file names";
const WHOLE_PATHS: &str = "the entry of a file outside the table holds its whole path";
const VARIANTS: &str = "each file says by itself whether and how its VARIANT columns are shredded";

pub(super) const OPTIONS: &[OptionDef] = &[
    refused(
        "file.format",
        FORMAT,
        "format of new data files: parquet, orc, avro (csv, json, text where allowed)",
        UNREAD_FORMAT,
    )
    .or("parquet"),
    refused("file.format.per.level", FORMAT_LEVELS, "format by LSM level, `0:avro,5:parquet`", UNREAD_FORMATS).or(""),
    harmless("file.compression", TEXT, "codec of data files", FILE_SAYS).or("zstd"),
    harmless("file.compression.per.level", TEXT_LEVELS, "codec by LSM level, `0:lz4,1:zstd`", FILE_SAYS).or(""),
    harmless("file.compression.zstd-level", INT, "zstd level", FILE_SAYS).or("1"),
    harmless("file.suffix.include.compression", BOOL, "codec becomes part of the file name", WHOLE_NAMES).or("false"),
    harmless("file.block-size", SIZE, "row group / stripe size", FILE_SAYS),
    harmless("data-file.prefix", TEXT, "start of data file names", WHOLE_NAMES).or("data-"),
    honoured("data-file.path-directory", TEXT, "directory between table root and partitions").immutable(),
    harmless("data-file.external-paths", TEXT, "roots outside the table for new data files", WHOLE_PATHS),
    harmless(
        "data-file.external-paths.strategy",
        Enum(&["none", "specific-fs", "round-robin", "entropy-inject", "weight-robin"]),
        "how a writer chooses among the external roots",
        WHOLE_PATHS,
    )
    .or("none"),
    harmless("data-file.external-paths.specific-fs", TEXT, "scheme to use with `specific-fs`", WHOLE_PATHS),
    harmless("data-file.external-paths.weights", TEXT, "comma list of weights for `weight-robin`", WHOLE_PATHS),
    harmless(
        "data-file.thin-mode",
        BOOL,
        "no `_KEY_` columns in data files",
        "key columns are found among the value columns of every file",
    )
    .or("false"),
    harmless("target-file-size", SIZE, "size wanted for a data file; 128 MB with PK, 256 MB append", WRITES),
    harmless("changelog-file.prefix", TEXT, "start of changelog file names", WHOLE_NAMES).or("changelog-"),
    refused("changelog-file.format", FORMAT, "format of changelog files, else `file.format`", UNREAD_FORMAT),
    harmless("changelog-file.compression", TEXT, "codec of changelog files, else `file.compression`", FILE_SAYS),
    harmless(
        "changelog-file.stats-mode",
        STATS,
        "statistics of changelog files, else `metadata.stats-mode`",
        ENTRY_SAYS,
    ),
    harmless("metadata.stats-mode", STATS, "none, counts, truncate(n), full", ENTRY_SAYS).or("truncate(16)"),
    harmless("metadata.stats-mode.per.level", STATS_LEVELS, "statistics by level, `0:none`", ENTRY_SAYS).or(""),
    harmless("metadata.stats-dense-store", BOOL, "leave columns without statistics out", ENTRY_SAYS).or("true"),
    harmless("metadata.stats-keep-first-n-columns", INT, "only the first n columns get statistics", ENTRY_SAYS)
        .or("-1"),
    harmless(
        "manifest.format",
        TEXT,
        "format of manifests and lists: avro, orc or parquet",
        "a manifest is told by its first bytes",
    )
    .or("avro"),
    harmless("manifest.compression", TEXT, "codec of manifests and lists", FILE_SAYS).or("zstd"),
    harmless("manifest.target-file-size", SIZE, "size wanted for a manifest", WRITES).or("8 mb"),
    harmless(
        "manifest.full-compaction-threshold-size",
        SIZE,
        "small and dirty manifests above this sum are rewritten entirely",
        WRITES,
    )
    .or("16 mb"),
    harmless("manifest.merge-min-count", POSITIVE, "that many small manifests are merged", WRITES).or("30"),
    harmless(
        "manifest.delete-file-drop-stats",
        BOOL,
        "DELETE entries carry no statistics",
        "statistics of removed files are never looked at",
    )
    .or("false"),
    honoured("index-file-in-data-file-dir", BOOL, "index files lie in the bucket directory").or("false").immutable(),
    harmless("variant.shreddingSchema", TEXT, "ROW type (JSON) to shred VARIANT columns by", VARIANTS)
        .also(&["parquet.variant.shreddingSchema"]),
    harmless("variant.inferShreddingSchema", BOOL, "find the shredding schema from the first rows of a file", VARIANTS)
        .or("false"),
    harmless("variant.shredding.maxSchemaWidth", INT, "inferred: most fields", VARIANTS).or("300"),
    harmless("variant.shredding.maxSchemaDepth", INT, "inferred: deepest nesting", VARIANTS).or("50"),
    harmless(
        "variant.shredding.minFieldCardinalityRatio",
        DOUBLE,
        "inferred: share of rows which must have a field",
        VARIANTS,
    )
    .or("0.1"),
    harmless("variant.shredding.maxInferBufferRow", INT, "inferred: rows looked at", VARIANTS).or("4096"),
    harmless(
        "blob-field",
        LIST,
        "BYTES columns of the DDL to store as BLOB",
        "the schema's types say which columns are BLOB",
    ),
    refused("blob-descriptor-field", LIST, "BLOB columns kept as descriptors inside the data file", DESCRIPTOR_FIELDS)
        .also(&["blob.stored-descriptor-fields"])
        .immutable(),
    refused("blob-as-descriptor", BOOL, "BLOB values are read (and taken) as descriptors", AS_DESCRIPTOR).or("false"),
    harmless("blob-external-storage-path", TEXT, "where raw bytes of the next option go", BLOB_DESCRIPTORS).immutable(),
    harmless("blob-external-storage-field", LIST, "descriptor columns whose bytes are copied there", BLOB_DESCRIPTORS)
        .immutable(),
    harmless("blob.target-file-size", SIZE, "size wanted for a blob file", WRITES),
    harmless("blob.split-by-file-size", BOOL, "count blob bytes when making splits", SPEED),
    harmless(
        "vector-field",
        LIST,
        "ARRAY columns of the DDL to store as VECTOR",
        "the schema's types say which columns are VECTOR",
    ),
    refused("vector.file.format", TEXT, "format of separate vector files", VECTOR_FILES),
    harmless("vector.target-file-size", SIZE, "size wanted for a vector file", WRITES),
    harmless("fields.<c>.stats-mode", STATS, "statistics of the column, over `metadata.stats-mode`", ENTRY_SAYS),
    harmless("blob-descriptor.*", TEXT, "settings of the file system that BLOB descriptors point to", BLOB_DESCRIPTORS),
];

fn is_unread(format: &str) -> bool {
    UNREAD_NAMES.iter().any(|name| name.eq_ignore_ascii_case(format.trim()))
}
