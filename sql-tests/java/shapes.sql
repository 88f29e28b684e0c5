-- Branches, tags, rollbacks, consumers, whole partitions and the rarer clauses and options, step by step: see matrix.sh.
-- @let keys key_plain key_vectors key_lookup key_input key_full key_first_field key_group key_formats key_layout key_mod
-- @let appends app_plain app_vectors app_tracked app_buckets
-- @let days key_days key_days_vectors app_days app_days_vectors app_days_tracked

-- @step make
CREATE DATABASE u;
CREATE TABLE u.key_plain (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2');
CREATE TABLE u.key_vectors (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'deletion-vectors.enabled' = 'true', 'changelog-producer' = 'lookup');
CREATE TABLE u.key_lookup (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'changelog-producer' = 'lookup', 'changelog-producer.row-deduplicate' = 'true', 'changelog-file.format' = 'avro', 'changelog-file.prefix' = 'log-');
CREATE TABLE u.key_input (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'input', 'changelog-file.format' = 'orc', 'changelog-file.compression' = 'snappy');
CREATE TABLE u.key_full (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'full-compaction', 'full-compaction.delta-commits' = '2');
CREATE TABLE u.key_first_field (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'sequence.field' = 'n,v', 'sequence.field.sort-order' = 'descending');
CREATE TABLE u.key_group (id INT, v STRING, n BIGINT, g INT, w STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'partial-update', 'fields.n.sequence-group' = 'v', 'fields.g.sequence-group' = 'w', 'fields.w.aggregate-function' = 'listagg', 'changelog-producer' = 'lookup');
CREATE TABLE u.key_formats (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'file.format' = 'avro', 'file.compression' = 'zstd', 'file.compression.zstd-level' = '3', 'manifest.compression' = 'null');
CREATE TABLE u.key_layout (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'data-file.path-directory' = 'files', 'data-file.prefix' = 'part-', 'file.suffix.include.compression' = 'true', 'index-file-in-data-file-dir' = 'true', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.key_mod (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '3', 'bucket-function.type' = 'mod');
CREATE TABLE u.app_plain (id INT, v STRING, n BIGINT);
CREATE TABLE u.app_vectors (id INT, v STRING, n BIGINT) WITH ('deletion-vectors.enabled' = 'true', 'compaction.min.file-num' = '3');
CREATE TABLE u.app_tracked (id INT, v STRING, n BIGINT) WITH ('row-tracking.enabled' = 'true', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.app_buckets (id INT, v STRING, n BIGINT) WITH ('bucket' = '2', 'bucket-key' = 'id,v', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.key_days (day DATE, name STRING, id INT, v STRING, n BIGINT, PRIMARY KEY (day, name, id) NOT ENFORCED) PARTITIONED BY (day, name) WITH ('bucket' = '1');
CREATE TABLE u.key_days_vectors (day DATE, name STRING, id INT, v STRING, n BIGINT, PRIMARY KEY (day, name, id) NOT ENFORCED) PARTITIONED BY (day, name) WITH ('bucket' = '-1', 'deletion-vectors.enabled' = 'true', 'changelog-producer' = 'lookup');
CREATE TABLE u.app_days (day DATE, name STRING, id INT, v STRING, n BIGINT) PARTITIONED BY (day, name) WITH ('partition.legacy-name' = 'false', 'partition.default-name' = 'none here');
CREATE TABLE u.app_days_vectors (day DATE, name STRING, id INT, v STRING, n BIGINT) PARTITIONED BY (day, name) WITH ('deletion-vectors.enabled' = 'true', 'deletion-vectors.bitmap64' = 'true');
CREATE TABLE u.app_days_tracked (day DATE, name STRING, id INT, v STRING, n BIGINT) PARTITIONED BY (day, name) WITH ('row-tracking.enabled' = 'true');
CREATE TABLE u.app_kinds (b BOOLEAN, s SMALLINT, l BIGINT, c DECIMAL(12, 2), ts TIMESTAMP(3), id INT, v STRING) PARTITIONED BY (b, s, l, c, ts) WITH ('deletion-vectors.enabled' = 'true');
CREATE TABLE u.key_default (id INT, v STRING DEFAULT 'none', n BIGINT DEFAULT 7, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE u.key_kinds (id INT, v STRING, k STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'rowkind.field' = 'k', 'changelog-producer' = 'input');
-- @for keys appends
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), CASE WHEN x % 7 = 0 THEN NULL ELSE concat('value ', x % 50) END, x * 10 FROM generate_series(1, 120) AS s(x);
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), concat('again ', x), x * 11 FROM generate_series(100, 140) AS s(x);
-- @for key_days key_days_vectors
INSERT INTO u.$t SELECT CAST('2024-02-27' AS DATE) + CAST(x % 4 AS INT), CASE WHEN x % 5 = 0 THEN 'a/b=c d' ELSE concat('n', x % 5) END, CAST(x AS INT), concat('value ', x), x * 10 FROM generate_series(1, 120) AS s(x);
-- @for app_days app_days_vectors app_days_tracked
INSERT INTO u.$t SELECT CASE WHEN x % 6 = 0 THEN NULL ELSE CAST('2024-02-27' AS DATE) + CAST(x % 4 AS INT) END, CASE WHEN x % 5 = 0 THEN 'a/b=c d' WHEN x % 5 = 1 THEN NULL ELSE concat('n', x % 5) END, CAST(x AS INT), concat('value ', x), x * 10 FROM generate_series(1, 120) AS s(x);
-- @for app_kinds
INSERT INTO u.$t SELECT x % 2 = 0, CASE WHEN x % 3 = 0 THEN NULL ELSE CAST(x % 3 AS SMALLINT) END, x % 2, CAST(x % 2 AS DECIMAL(12, 2)) / 4, CAST('2024-01-02 03:04:05.006' AS TIMESTAMP(3)), CAST(x AS INT), concat('v', x) FROM generate_series(1, 40) AS s(x);
-- @for key_default
INSERT INTO u.$t (id) VALUES (1), (2);
INSERT INTO u.$t VALUES (3, DEFAULT, 1), (4, 'x', DEFAULT);
-- @for key_kinds
INSERT INTO u.$t VALUES (1, 'a', '+I'), (2, 'b', '+I'), (3, 'c', '+I');
INSERT INTO u.$t VALUES (1, 'a', '-U'), (1, 'aa', '+U'), (2, 'b', '-D');

-- @step by_source
-- @for key_plain key_vectors key_lookup key_input key_full key_formats key_layout key_mod appends
MERGE INTO u.$t AS t USING (SELECT CAST(x AS INT) AS id, concat('s', x) AS v, x AS n FROM generate_series(20, 160, 2) AS s(x)) AS s ON t.id = s.id WHEN MATCHED AND s.id % 3 = 0 THEN UPDATE SET v = s.v, n = t.n + s.n WHEN MATCHED AND s.id > 130 THEN DELETE WHEN NOT MATCHED AND s.id > 150 THEN INSERT (id, v, n) VALUES (s.id, s.v, NULL) WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id < 10 THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.v IS NULL THEN UPDATE SET v = 'was null';
-- @for days
MERGE INTO u.$t AS t USING (SELECT CAST('2024-02-28' AS DATE) AS day, 'n2' AS name, CAST(x AS INT) AS id, concat('s', x) AS v, x AS n FROM generate_series(1, 160, 4) AS s(x)) AS s ON t.day = s.day AND t.name = s.name AND t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.day IS NULL AND t.id < 60 THEN DELETE WHEN NOT MATCHED BY SOURCE AND t.id % 9 = 0 THEN UPDATE SET n = -1;
-- @for
-- @dump key_vectors$audit_log --option incremental-between=0,6
-- @dump key_lookup$audit_log --option incremental-between=0,6
-- @dump key_input$audit_log --option incremental-between=0,3

-- @step move_rows
-- @for app_days app_days_vectors app_days_tracked
UPDATE u.$t SET day = day + 1, v = 'moved' WHERE id % 8 = 3;
UPDATE u.$t SET name = NULL WHERE name = 'a/b=c d' AND id < 50;
-- @for app_kinds
UPDATE u.$t SET s = NULL, c = c + 1 WHERE id % 4 = 1;
UPDATE u.$t SET ts = NULL, b = NOT b WHERE id = 8;
-- @for app_tracked app_buckets app_vectors
UPDATE u.$t SET id = id + 1000 WHERE id % 10 = 4;
-- @for
-- @dump app_tracked$row_tracking
-- @dump app_days_tracked$row_tracking

-- @step whole
-- @for days
DELETE FROM u.$t WHERE day = CAST('2024-02-28' AS DATE);
DELETE FROM u.$t WHERE day IS NULL AND name IS NULL;
DELETE FROM u.$t WHERE name = 'a/b=c d' OR (day > CAST('2024-02-29' AS DATE) AND name = 'n3');
-- @for app_kinds
DELETE FROM u.$t WHERE b AND s IS NULL;
DELETE FROM u.$t WHERE ts IS NULL;

-- @step refill
-- @for days
INSERT INTO u.$t SELECT day, name, id + 500, v, n FROM u.$t WHERE id % 3 = 0;
INSERT OVERWRITE u.$t PARTITION (day = '2024-03-01') SELECT name, id, 'over', n FROM u.$t WHERE name = 'n4';
CALL sys.compact(`table` => 'u.$t');
-- @for app_kinds
INSERT INTO u.$t SELECT b, s, l, c, ts, id + 100, v FROM u.$t;
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2');

-- @step branch
-- @for key_plain key_vectors key_lookup key_input key_full key_layout appends
CALL sys.create_tag('u.$t', 'before');
CALL sys.create_branch('u.$t', 'side', 'before');
INSERT INTO u.$t$branch_side (id, v, n) SELECT CAST(x AS INT), 'on the side', x FROM generate_series(1, 200, 3) AS s(x);
DELETE FROM u.$t$branch_side WHERE id % 5 = 0;
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), 'on main', x FROM generate_series(2, 200, 3) AS s(x);
UPDATE u.$t SET v = 'updated' WHERE id BETWEEN 40 AND 50;
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0');
CALL sys.compact(`table` => 'u.$t$branch_side', compact_strategy => 'full', options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0');
CALL sys.expire_snapshots(`table` => 'u.$t', retain_max => 1, retain_min => 1);
CALL sys.remove_orphan_files(`table` => 'u.$t', older_than => '2100-01-01 00:00:00');
-- @dump $t$branch_side
-- @dump $t --option scan.tag-name=before

-- @step branch_goes_on
-- @for key_plain key_vectors key_lookup key_input key_full key_layout appends
UPDATE u.$t$branch_side SET n = n + 1, v = 'late' WHERE id BETWEEN 60 AND 90;
CALL sys.expire_snapshots(`table` => 'u.$t$branch_side', retain_max => 1, retain_min => 1);
CALL sys.delete_tag('u.$t', 'before');
INSERT INTO u.$t (id, v, n) VALUES (60, 'main again', 0), (3000, 'main again', 0);
CALL sys.remove_orphan_files(`table` => 'u.$t', older_than => '2100-01-01 00:00:00');
-- @dump $t$branch_side

-- @step fast_forward
-- @for key_plain key_vectors app_vectors app_tracked
CALL sys.fast_forward('u.$t', 'side');
INSERT INTO u.$t (id, v, n) VALUES (61, 'forwarded', 0), (3001, 'forwarded', 0);
-- @for key_lookup key_full app_plain app_buckets
CALL sys.delete_branch('u.$t', 'side');
-- @for key_plain key_vectors key_lookup key_full appends
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0');
CALL sys.remove_orphan_files(`table` => 'u.$t', older_than => '2100-01-01 00:00:00');

-- @step rollback
-- @for keys appends
CALL sys.create_tag('u.$t', 'here');
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), 'to be lost', 100000 + x FROM generate_series(1, 100) AS s(x);
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0');
CALL sys.rollback_to(`table` => 'u.$t', tag => 'here');
CALL sys.remove_orphan_files(`table` => 'u.$t', older_than => '2100-01-01 00:00:00');
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), 'after the rollback', 200000 + x FROM generate_series(50, 70) AS s(x);
-- @for key_plain key_vectors key_lookup key_input appends
DELETE FROM u.$t WHERE id % 7 = 1;
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0');
-- @for
-- @dump app_tracked$row_tracking

-- @step consumer
-- @for key_lookup key_vectors key_input key_full app_plain
CALL sys.expire_snapshots(`table` => 'u.$t', retain_max => 1, retain_min => 1);
ALTER TABLE u.$t SET ('changelog.num-retained.min' = '20', 'changelog.num-retained.max' = '20');
INSERT INTO u.$t (id, v, n) VALUES (1, 'c1', 1), (2, 'c1', 1);
INSERT INTO u.$t (id, v, n) VALUES (1, 'c2', 2), (3, 'c2', 2);
UPDATE u.$t SET v = 'c3' WHERE id < 4;
CALL sys.expire_snapshots(`table` => 'u.$t', retain_max => 1, retain_min => 1);
CALL sys.delete_tag('u.$t', 'here');
INSERT INTO u.$t (id, v, n) VALUES (1, 'c4', 4);
CALL sys.expire_changelogs(`table` => 'u.$t', retain_max => 3, retain_min => 1);
CALL sys.remove_orphan_files(`table` => 'u.$t', older_than => '2100-01-01 00:00:00');
CALL sys.compact_manifest(`table` => 'u.$t');

-- @step partitions_expire
-- @for days
ALTER TABLE u.$t SET ('partition.expiration-time' = '100 d', 'partition.timestamp-pattern' = '$day', 'partition.timestamp-formatter' = 'yyyy-MM-dd');
CALL sys.expire_partitions(`table` => 'u.$t', expiration_time => '100 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$day', expire_strategy => 'values-time');
INSERT INTO u.$t VALUES (CAST('2099-01-01' AS DATE), 'x', 1, 'v', 1);
CALL sys.expire_snapshots(`table` => 'u.$t', retain_max => 1, retain_min => 1);
CALL sys.remove_orphan_files(`table` => 'u.$t', older_than => '2100-01-01 00:00:00');
