//! Options of catalogs.

use super::{BOOL, INT, LONG, SIZE, TEXT, TIME};
use crate::options::def::{Kind::Enum, OptionDef, Refusal, harmless, honoured, refused};

const METASTORE: Refusal = Refusal {
    when: |text, _| !text.eq_ignore_ascii_case("filesystem"),
    why: "only the filesystem catalog is built; give the warehouse directory with metastore 'filesystem'",
};
const OTHER_CATALOGS: &str = "it means something only for catalogs that are refused by their metastore";
const LOCKS: &str = "commits are atomic without a lock";
const CACHES: &str = "caches are sized by the session";
const STORES: &str = "stores are found by the scheme of a path";

pub(super) const OPTIONS: &[OptionDef] = &[
    honoured("warehouse", TEXT, "root directory"),
    refused("metastore", Enum(&["filesystem", "hive", "jdbc", "rest"]), "kind of catalog", METASTORE).or("filesystem"),
    harmless("uri", TEXT, "address of the metastore", OTHER_CATALOGS),
    harmless("table.type", Enum(&["managed", "external"]), "whether dropping a table drops its files", OTHER_CATALOGS)
        .or("managed"),
    harmless("lock.enabled", BOOL, "lock around commits", LOCKS),
    harmless("lock.type", TEXT, "kind of lock", LOCKS),
    harmless("lock-check-max-sleep", TIME, "longest pause while waiting for a lock", LOCKS).or("8 s"),
    harmless("lock-acquire-timeout", TIME, "longest wait for a lock", LOCKS).or("8 min"),
    harmless("client-pool-size", INT, "connections to the metastore", OTHER_CATALOGS).or("2"),
    harmless("cache-enabled", BOOL, "cache databases, tables, manifests, partitions", CACHES).or("true"),
    harmless("cache.expire-after-access", TIME, "idle time of cached objects", CACHES)
        .or("10 min")
        .also(&["cache.expiration-interval"]),
    harmless("cache.expire-after-write", TIME, "age of cached objects", CACHES).or("30 min"),
    harmless("cache.partition.max-num", LONG, "cached partitions", CACHES).or("0"),
    harmless("cache.manifest.small-file-memory", SIZE, "cache of small manifests", CACHES).or("128 mb"),
    harmless("cache.manifest.small-file-threshold", SIZE, "what counts as small", CACHES).or("1 mb"),
    harmless("cache.manifest.max-memory", SIZE, "cache of manifests", CACHES),
    harmless("cache.snapshot.max-num-per-table", INT, "cached snapshots of a table", CACHES).or("20"),
    harmless("cache.deletion-vectors.max-num", INT, "cached deletion vectors", CACHES).or("100000"),
    honoured("case-sensitive", BOOL, "whether names differ by case").also(&["allow-upper-case"]),
    harmless("sync-all-properties", BOOL, "options are copied to the metastore", OTHER_CATALOGS).or("true"),
    harmless("format-table.enabled", BOOL, "format tables are shown", OTHER_CATALOGS).or("true"),
    harmless("resolving-file-io.enabled", BOOL, "choose the file system by path", STORES).or("false"),
    harmless("file-io.allow-cache", BOOL, "keep file systems open", STORES).or("true"),
    honoured("table-default.<option>", TEXT, "put into every new table which does not set it"),
    harmless("catalog-key", TEXT, "JDBC: name of the catalog", OTHER_CATALOGS).or("jdbc"),
    harmless("lock-key-max-length", INT, "JDBC: longest lock name", OTHER_CATALOGS).or("255"),
    harmless("hive-conf-dir", TEXT, "Hive: configuration directory", OTHER_CATALOGS),
    harmless("hadoop-conf-dir", TEXT, "Hive: configuration directory of Hadoop", OTHER_CATALOGS),
    harmless("metastore.client.class", TEXT, "Hive: client", OTHER_CATALOGS),
    harmless("location-in-properties", BOOL, "Hive: the location is a property", OTHER_CATALOGS).or("false"),
    harmless("client-pool-cache.eviction-interval-ms", LONG, "Hive: idle time of connections", OTHER_CATALOGS)
        .or("300000"),
    harmless("client-pool-cache.keys", TEXT, "Hive: what tells connections apart", OTHER_CATALOGS),
    harmless("token.provider", TEXT, "REST: kind of login", OTHER_CATALOGS),
    harmless("token", TEXT, "REST: token to log in with", OTHER_CATALOGS),
    harmless("dlf.*", TEXT, "REST: settings of DLF", OTHER_CATALOGS),
    harmless("header.*", TEXT, "REST: headers of requests", OTHER_CATALOGS),
    harmless("data-token.enabled", BOOL, "REST: tokens for the store", OTHER_CATALOGS),
    harmless("io-cache.enabled", BOOL, "REST: cache files", OTHER_CATALOGS).or("false"),
    harmless("io-cache.whitelist-path", TEXT, "REST: what is cached", OTHER_CATALOGS),
    harmless("io-cache.policy", TEXT, "REST: when it is cached", OTHER_CATALOGS),
    harmless("prefix", TEXT, "REST: start of paths", OTHER_CATALOGS),
];
