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
CALL sys.remove_orphan_files(`table` => 'u.$t');
-- @dump $t$branch_side
-- @dump $t --option scan.tag-name=before

-- @step branch_goes_on
-- @for key_plain key_vectors key_lookup key_input key_full key_layout appends
UPDATE u.$t$branch_side SET n = n + 1, v = 'late' WHERE id BETWEEN 60 AND 90;
CALL sys.delete_tag('u.$t', 'before');
-- @for key_lookup key_input key_full key_layout app_plain app_buckets
CALL sys.expire_snapshots(`table` => 'u.$t$branch_side', retain_max => 1, retain_min => 1);
-- @for key_plain key_vectors key_lookup key_input key_full key_layout appends
INSERT INTO u.$t (id, v, n) VALUES (60, 'main again', 0), (3000, 'main again', 0);
CALL sys.remove_orphan_files(`table` => 'u.$t');
-- @dump $t$branch_side

-- @step fast_forward
-- @for key_plain key_vectors app_vectors app_tracked
CALL sys.fast_forward('u.$t', 'side');
INSERT INTO u.$t (id, v, n) VALUES (61, 'forwarded', 0), (3001, 'forwarded', 0);
-- @for key_lookup key_full app_plain app_buckets
CALL sys.delete_branch('u.$t', 'side');
-- @for key_plain key_vectors key_lookup key_full appends
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0');
CALL sys.remove_orphan_files(`table` => 'u.$t');

-- @step rollback
-- @for keys appends
CALL sys.create_tag('u.$t', 'here');
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), 'to be lost', 100000 + x FROM generate_series(1, 100) AS s(x);
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0');
CALL sys.rollback_to(`table` => 'u.$t', tag => 'here');
CALL sys.remove_orphan_files(`table` => 'u.$t');
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
CALL sys.remove_orphan_files(`table` => 'u.$t');
CALL sys.compact_manifest(`table` => 'u.$t');

-- @step partitions_expire
-- @for days
ALTER TABLE u.$t SET ('partition.expiration-time' = '100 d', 'partition.timestamp-pattern' = '$day', 'partition.timestamp-formatter' = 'yyyy-MM-dd');
CALL sys.expire_partitions(`table` => 'u.$t', expiration_time => '100 d', timestamp_formatter => 'yyyy-MM-dd', timestamp_pattern => '$day', expire_strategy => 'values-time');
INSERT INTO u.$t VALUES (CAST('2099-01-01' AS DATE), 'x', 1, 'v', 1);
CALL sys.expire_snapshots(`table` => 'u.$t', retain_max => 1, retain_min => 1);
CALL sys.remove_orphan_files(`table` => 'u.$t');

-- @step schemas
-- @let changing key_plain key_vectors key_lookup key_full key_formats app_plain app_vectors app_tracked app_buckets
-- @for changing
ALTER TABLE u.$t MODIFY n DECIMAL(20, 2);
ALTER TABLE u.$t ADD COLUMN extra ROW<a INT, b STRING>;
INSERT INTO u.$t (id, v, n, extra) SELECT CAST(x AS INT), 'wide', 12345678901.25, ROW(CAST(x AS INT), 'b') FROM generate_series(95, 105) AS s(x);
UPDATE u.$t SET n = n + 0.5 WHERE id BETWEEN 90 AND 100;
ALTER TABLE u.$t ADD COLUMN extra.c BIGINT FIRST;
DELETE FROM u.$t WHERE extra.a = 96;
-- @for app_plain app_vectors app_tracked
ALTER TABLE u.$t DROP COLUMN v;
ALTER TABLE u.$t ADD COLUMN v INT AFTER id;
INSERT INTO u.$t (id, v, n) VALUES (20001, 5, 1), (20002, NULL, 2);
UPDATE u.$t SET v = id WHERE id < 30;
ALTER TABLE u.$t MODIFY v BIGINT FIRST;
-- @for
-- @dump app_tracked$row_tracking

-- @step schemas_compacted
-- @for changing
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=1,compaction.delete-ratio-threshold=0');
INSERT INTO u.$t (id, n) VALUES (97, 1.25), (30000, -0.01);
DELETE FROM u.$t WHERE id % 10 = 3;
-- @for
-- @dump app_tracked$row_tracking

-- @step as_latest
-- @for changing
CALL sys.create_tag('u.$t', 'old');
TRUNCATE TABLE u.$t;
CALL sys.rollback_to_as_latest(`table` => 'u.$t', tag => 'old');
INSERT INTO u.$t (id, n) VALUES (98, 2.25), (30001, 3);
CALL sys.replace_tag('u.$t', 'old');
ANALYZE TABLE u.$t COMPUTE STATISTICS FOR ALL COLUMNS;
CALL sys.compact_manifest(`table` => 'u.$t');
-- @dump $t --option scan.tag-name=old

-- @step vectors_applied
-- @for app_vectors app_buckets app_days_vectors app_kinds
CALL sys.materialize_deletion_vectors('u.$t');

-- @step engines
CREATE TABLE u.agg_lookup (id INT, s BIGINT, m INT, l STRING, f DOUBLE, c ARRAY<INT>, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'aggregation', 'fields.s.aggregate-function' = 'sum', 'fields.m.aggregate-function' = 'max', 'fields.l.aggregate-function' = 'listagg', 'fields.f.aggregate-function' = 'last_non_null_value', 'fields.c.aggregate-function' = 'collect', 'changelog-producer' = 'lookup', 'aggregation.remove-record-on-delete' = 'true');
CREATE TABLE u.agg_vectors (id INT, s DECIMAL(12, 2), p BIGINT, a BOOLEAN, o BOOLEAN, x STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'merge-engine' = 'aggregation', 'fields.s.aggregate-function' = 'sum', 'fields.p.aggregate-function' = 'product', 'fields.a.aggregate-function' = 'bool_and', 'fields.o.aggregate-function' = 'bool_or', 'fields.x.aggregate-function' = 'first_value', 'deletion-vectors.enabled' = 'true', 'fields.p.ignore-retract' = 'true', 'fields.a.ignore-retract' = 'true', 'fields.o.ignore-retract' = 'true', 'fields.x.ignore-retract' = 'true');
CREATE TABLE u.pu_groups (id INT, a INT, b STRING, ga BIGINT, c INT, d INT, gc BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'merge-engine' = 'partial-update', 'fields.ga.sequence-group' = 'a,b', 'fields.gc.sequence-group' = 'c,d', 'fields.c.aggregate-function' = 'sum', 'partial-update.remove-record-on-sequence-group' = 'ga', 'changelog-producer' = 'lookup');
CREATE TABLE u.pu_vectors (id INT, a INT, b STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'partial-update', 'sequence.field' = 'n', 'ignore-delete' = 'true', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.first_parts (p INT, id INT, v STRING, PRIMARY KEY (p, id) NOT ENFORCED) PARTITIONED BY (p) WITH ('bucket' = '-1', 'dynamic-bucket.target-row-num' = '10', 'merge-engine' = 'first-row', 'changelog-producer' = 'lookup');
CREATE TABLE u.dedup_ignore (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'ignore-delete' = 'true', 'changelog-producer' = 'full-compaction', 'full-compaction.delta-commits' = '1');
CREATE TABLE u.dedup_expire (id INT, t INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'record-level.expire-time' = '30 d', 'record-level.time-field' = 't');
CREATE TABLE u.evolving (id INT, v STRING, n BIGINT) WITH ('row-tracking.enabled' = 'true', 'data-evolution.enabled' = 'true');
INSERT INTO u.agg_lookup SELECT CAST(x % 40 AS INT), x, CAST(x AS INT), concat('l', x % 3), x / 8.0, ARRAY[CAST(x % 4 AS INT)] FROM generate_series(1, 100) AS s(x);
INSERT INTO u.agg_lookup SELECT CAST(x % 60 AS INT), -x, CAST(x AS INT), CASE WHEN x % 2 = 0 THEN NULL ELSE concat('m', x % 3) END, CASE WHEN x % 3 = 0 THEN NULL ELSE x / 8.0 END, ARRAY[CAST(x % 6 AS INT), NULL] FROM generate_series(1, 100) AS s(x);
DELETE FROM u.agg_lookup WHERE id % 8 = 3;
INSERT INTO u.agg_vectors SELECT CAST(x % 40 AS INT), CAST(x AS DECIMAL(12, 2)) / 4, x % 3 + 1, x % 5 <> 0, x % 5 = 0, concat('x', x) FROM generate_series(1, 100) AS s(x);
INSERT INTO u.agg_vectors SELECT CAST(x % 60 AS INT), NULL, x % 3 + 1, NULL, x % 7 = 0, concat('y', x) FROM generate_series(1, 100) AS s(x);
INSERT INTO u.pu_groups SELECT CAST(x % 50 AS INT), CAST(x AS INT), concat('b', x), x, CAST(x AS INT), NULL, 100 - x FROM generate_series(1, 100) AS s(x);
INSERT INTO u.pu_groups (id, c, d, gc) SELECT CAST(x % 70 AS INT), 1, CAST(x AS INT), x FROM generate_series(1, 100) AS s(x);
INSERT INTO u.pu_groups (id, a, ga) SELECT CAST(x AS INT), NULL, 95 FROM generate_series(1, 30) AS s(x);
INSERT INTO u.pu_vectors (id, a, n) SELECT CAST(x % 50 AS INT), CAST(x AS INT), x FROM generate_series(1, 100) AS s(x);
INSERT INTO u.pu_vectors (id, b, n) SELECT CAST(x % 70 AS INT), concat('b', x), 90 FROM generate_series(1, 100) AS s(x);
INSERT INTO u.first_parts SELECT CAST(x % 3 AS INT), CAST(x % 50 AS INT), concat('v', x) FROM generate_series(1, 100) AS s(x);
INSERT INTO u.first_parts SELECT CAST(x % 3 AS INT), CAST(x % 80 AS INT), concat('w', x) FROM generate_series(1, 100) AS s(x);
INSERT INTO u.dedup_ignore SELECT CAST(x AS INT), concat('v', x) FROM generate_series(1, 100) AS s(x);
INSERT INTO u.dedup_ignore SELECT CAST(x AS INT), concat('w', x) FROM generate_series(50, 150) AS s(x);
INSERT INTO u.dedup_expire SELECT CAST(x AS INT), CASE WHEN x % 3 = 0 THEN 1000000000 WHEN x % 3 = 1 THEN NULL ELSE 2000000000 END, concat('v', x) FROM generate_series(1, 100) AS s(x);
INSERT INTO u.evolving SELECT CAST(x AS INT), concat('v', x), x FROM generate_series(1, 50) AS s(x);
INSERT INTO u.evolving (id, n) SELECT CAST(x AS INT), x FROM generate_series(51, 90) AS s(x);
-- @dump agg_lookup$audit_log --option incremental-between=0,4
-- @dump pu_groups$audit_log --option incremental-between=0,4
-- @dump first_parts$audit_log --option incremental-between=0,4
-- @dump dedup_ignore$audit_log --option incremental-between=0,4

-- @step engines_compacted
-- @let engines agg_lookup agg_vectors pu_groups pu_vectors first_parts dedup_ignore dedup_expire
-- @for engines
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2');
-- @for
-- @dump evolving$row_tracking

-- @step engines_again
-- @for engines
CALL sys.expire_snapshots(`table` => 'u.$t', retain_max => 1, retain_min => 1);
-- @for engines evolving
ALTER TABLE u.$t ADD COLUMN late INT;
-- @for engines
CALL sys.compact(`table` => 'u.$t');
CALL sys.remove_orphan_files(`table` => 'u.$t');
-- @for agg_lookup agg_vectors pu_groups pu_vectors dedup_ignore dedup_expire evolving
INSERT INTO u.$t (id, late) SELECT CAST(x AS INT), CAST(x AS INT) FROM generate_series(10, 12) AS s(x);
-- @for first_parts
INSERT INTO u.$t (p, id, late) VALUES (1, 1, 1), (2, 500, 2);
