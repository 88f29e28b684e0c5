//! Options of file indexes and of global indexes.

use super::{BOOL, ENTRY_SAYS, INT, LIST, LONG, POSITIVE, POSITIVE_LONG, SHARE, SIZE, TEXT};
use crate::options::def::{Kind, Kind::Enum, OptionDef, harmless, honoured};

const INDEX_SAYS: &str = "each index says by itself how it was made";
const GLOBAL_INDEX: &str = "reads find rows without global indexes, and so also those written after an index was built";

pub(super) const OPTIONS: &[OptionDef] = &[
    honoured("file-index.read.enabled", BOOL, "use file indexes when planning and reading").or("true"),
    harmless(
        "file-index.in-manifest-threshold",
        SIZE,
        "index this small goes into the manifest entry, else beside the data file",
        ENTRY_SAYS,
    )
    .or("500 bytes"),
    harmless("global-index.enabled", BOOL, "use global indexes in scans", GLOBAL_INDEX).or("true"),
    harmless("global-index.thread-num", POSITIVE, "threads that search global indexes", GLOBAL_INDEX),
    harmless("global-index.external-path", TEXT, "directory for global index files", GLOBAL_INDEX),
    harmless(
        "global-index.column-update-action",
        Enum(&["THROW_ERROR", "DROP_PARTITION_INDEX"]),
        "update of an indexed column: refuse, or drop that partition's index",
        GLOBAL_INDEX,
    )
    .or("THROW_ERROR"),
    harmless("global-index.row-count-per-shard", LONG, "rows per global index shard", GLOBAL_INDEX).or("100000"),
    harmless("global-index.build.max-shard", INT, "shards wanted at most", GLOBAL_INDEX).or("32"),
    harmless("global-index.build.max-parallelism", INT, "tasks that build a global index", GLOBAL_INDEX).or("4096"),
    harmless("file-index.bloom-filter.columns", LIST, "columns, or `map[key]`, with a bloom filter", ENTRY_SAYS),
    harmless("file-index.bloom-filter.<c>.items", POSITIVE_LONG, "values that the filter is made for", INDEX_SAYS)
        .or("1000000"),
    harmless("file-index.bloom-filter.<c>.fpp", SHARE, "share of false positives", INDEX_SAYS).or("0.1"),
    harmless("file-index.bitmap.columns", LIST, "columns, or `map[key]`, with a bitmap index", ENTRY_SAYS),
    harmless(
        "file-index.bitmap.<c>.version",
        Kind::Int { least: 1, most: 2 },
        "layout of the bitmap index",
        INDEX_SAYS,
    )
    .or("2"),
    harmless("file-index.bitmap.<c>.index-block-size", SIZE, "size of a block of the bitmap index", INDEX_SAYS)
        .or("16 kb"),
    harmless("file-index.bsi.columns", LIST, "columns, or `map[key]`, with a bit-sliced index", ENTRY_SAYS),
    harmless("file-index.range-bitmap.columns", LIST, "columns, or `map[key]`, with a range bitmap", ENTRY_SAYS),
    harmless("file-index.range-bitmap.<c>.chunk-size", SIZE, "size of a chunk of the dictionary", INDEX_SAYS)
        .or("16 kb"),
    harmless("btree-index.compression", TEXT, "codec of the blocks of a global B-tree index", GLOBAL_INDEX).or("none"),
    harmless("btree-index.compression-level", INT, "level of that codec", GLOBAL_INDEX).or("1"),
    harmless("btree-index.block-size", SIZE, "size of a block of a global B-tree index", GLOBAL_INDEX).or("64 kb"),
    harmless("btree-index.records-per-range", POSITIVE_LONG, "keys in one index file", GLOBAL_INDEX).or("1000000"),
    harmless("btree-index.cache-size", SIZE, "cache of index blocks", GLOBAL_INDEX).or("128 mb"),
    harmless("btree-index.high-priority-pool-ratio", SHARE, "share of the index cache for hot blocks", GLOBAL_INDEX)
        .or("0.1"),
    harmless("btree-index.build.max-parallelism", POSITIVE, "tasks that build an index", GLOBAL_INDEX).or("4096"),
];
