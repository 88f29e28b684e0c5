-- Tables of every kind whose rows are changed and whose files are compacted, cleaned and moved, step by step: see matrix.sh. `@let` names
-- tables, the statements behind `@for` are told for each of them, `$t`.
-- @let plain k_plain k_vectors k_vectors64 k_input k_lookup k_lookup_vectors k_full k_avro k_orc k_levels k_thin k_sequence k_dynamic k_postpone k_partial k_partial_lookup k_sums k_sums_vectors k_types k_types_avro k_nostats k_cow k_write_only
-- @let parted k_parts k_parts_vectors k_cross
-- @let first k_first
-- @let append a_plain a_vectors a_vectors64 a_buckets a_buckets_vectors a_tracked a_tracked_vectors a_avro a_orc a_indexed a_types
-- @let append_parted a_parts a_parts_vectors

-- @step make
CREATE DATABASE u;
CREATE TABLE u.k_plain (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2');
CREATE TABLE u.k_vectors (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.k_vectors64 (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'deletion-vectors.enabled' = 'true', 'deletion-vectors.bitmap64' = 'true');
CREATE TABLE u.k_input (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'changelog-producer' = 'input');
CREATE TABLE u.k_lookup (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'changelog-producer' = 'lookup');
CREATE TABLE u.k_lookup_vectors (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'changelog-producer' = 'lookup', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.k_full (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'full-compaction', 'full-compaction.delta-commits' = '1');
CREATE TABLE u.k_avro (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'file.format' = 'avro');
CREATE TABLE u.k_orc (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'file.format' = 'orc');
CREATE TABLE u.k_levels (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'file.format.per.level' = '0:avro,5:orc', 'file.compression.per.level' = '0:snappy,5:zstd');
CREATE TABLE u.k_thin (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'data-file.thin-mode' = 'true');
CREATE TABLE u.k_sequence (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'sequence.field' = 'n');
CREATE TABLE u.k_dynamic (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '-1', 'dynamic-bucket.target-row-num' = '50');
CREATE TABLE u.k_postpone (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '-2', 'postpone.default-bucket-num' = '2');
CREATE TABLE u.k_partial (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'partial-update', 'partial-update.remove-record-on-delete' = 'true');
CREATE TABLE u.k_partial_lookup (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'partial-update', 'changelog-producer' = 'lookup', 'partial-update.remove-record-on-delete' = 'true');
CREATE TABLE u.k_sums (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum', 'aggregation.remove-record-on-delete' = 'true');
CREATE TABLE u.k_sums_vectors (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'max', 'aggregation.remove-record-on-delete' = 'true', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.k_types (id INT, v STRING, n BIGINT, c CHAR(4), t TIME, ts6 TIMESTAMP(6), ts9 TIMESTAMP(9), ltz TIMESTAMP_LTZ(3), dec DECIMAL(30, 5), small DECIMAL(5, 2), raw BYTES, b BOOLEAN, f FLOAT, arr ARRAY<INT>, r ROW<x INT, y STRING>, mp MAP<STRING, INT>, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1');
CREATE TABLE u.k_types_avro (id INT, v STRING, n BIGINT, c CHAR(4), t TIME, ts6 TIMESTAMP(6), ltz TIMESTAMP_LTZ(3), dec DECIMAL(30, 5), small DECIMAL(5, 2), raw BYTES, b BOOLEAN, f FLOAT, arr ARRAY<INT>, r ROW<x INT, y STRING>, mp MAP<STRING, INT>, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'file.format' = 'avro');
CREATE TABLE u.k_nostats (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'metadata.stats-mode' = 'none', 'fields.n.stats-mode' = 'full', 'metadata.stats-mode.per.level' = '5:counts');
CREATE TABLE u.k_cow (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'full-compaction.delta-commits' = '1', 'file-index.bloom-filter.columns' = 'v', 'file-index.bitmap.columns' = 'n');
CREATE TABLE u.k_write_only (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'write-only' = 'true');
CREATE TABLE u.k_parts (p INT, id INT, v STRING, n BIGINT, PRIMARY KEY (p, id) NOT ENFORCED) PARTITIONED BY (p) WITH ('bucket' = '2');
CREATE TABLE u.k_parts_vectors (p INT, id INT, v STRING, n BIGINT, PRIMARY KEY (p, id) NOT ENFORCED) PARTITIONED BY (p) WITH ('bucket' = '-1', 'dynamic-bucket.target-row-num' = '20', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.k_cross (p INT, id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (p) WITH ('bucket' = '-1', 'dynamic-bucket.target-row-num' = '20');
CREATE TABLE u.k_first (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'merge-engine' = 'first-row', 'changelog-producer' = 'lookup');
CREATE TABLE u.a_plain (id INT, v STRING, n BIGINT);
CREATE TABLE u.a_vectors (id INT, v STRING, n BIGINT) WITH ('deletion-vectors.enabled' = 'true');
CREATE TABLE u.a_vectors64 (id INT, v STRING, n BIGINT) WITH ('deletion-vectors.enabled' = 'true', 'deletion-vectors.bitmap64' = 'true');
CREATE TABLE u.a_buckets (id INT, v STRING, n BIGINT) WITH ('bucket' = '3', 'bucket-key' = 'id');
CREATE TABLE u.a_buckets_vectors (id INT, v STRING, n BIGINT) WITH ('bucket' = '3', 'bucket-key' = 'id', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.a_tracked (id INT, v STRING, n BIGINT) WITH ('row-tracking.enabled' = 'true');
CREATE TABLE u.a_tracked_vectors (id INT, v STRING, n BIGINT) WITH ('row-tracking.enabled' = 'true', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.a_avro (id INT, v STRING, n BIGINT) WITH ('file.format' = 'avro');
CREATE TABLE u.a_orc (id INT, v STRING, n BIGINT) WITH ('file.format' = 'orc');
CREATE TABLE u.a_indexed (id INT, v STRING, n BIGINT) WITH ('file-index.bloom-filter.columns' = 'v', 'file-index.bitmap.columns' = 'id', 'file-index.bsi.columns' = 'n', 'file-index.in-manifest-threshold' = '100 b', 'deletion-vectors.enabled' = 'true');
CREATE TABLE u.a_types (id INT, v STRING, n BIGINT, c CHAR(4), t TIME, ts6 TIMESTAMP(6), ts9 TIMESTAMP(9), ltz TIMESTAMP_LTZ(3), dec DECIMAL(30, 5), small DECIMAL(5, 2), raw BYTES, b BOOLEAN, f FLOAT, arr ARRAY<INT>, r ROW<x INT, y STRING>, mp MAP<STRING, INT>);
CREATE TABLE u.a_parts (p INT, id INT, v STRING, n BIGINT) PARTITIONED BY (p);
CREATE TABLE u.a_parts_vectors (p INT, id INT, v STRING, n BIGINT) PARTITIONED BY (p) WITH ('deletion-vectors.enabled' = 'true');
-- @for plain first append
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), CASE WHEN x % 7 = 0 THEN NULL ELSE concat('value ', x % 50) END, x * 10 FROM generate_series(1, 200) AS s(x);
-- @for parted append_parted
INSERT INTO u.$t SELECT CAST(x % 4 AS INT), CAST(x AS INT), CASE WHEN x % 7 = 0 THEN NULL ELSE concat('value ', x % 50) END, x * 10 FROM generate_series(1, 200) AS s(x);

-- @step insert
-- @for plain first append
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), concat('again ', x % 9), x * 10 + 5 FROM generate_series(150, 260) AS s(x);
-- @for parted append_parted
INSERT INTO u.$t SELECT CAST(x % 4 AS INT), CAST(x AS INT), concat('again ', x % 9), x * 10 + 5 FROM generate_series(150, 260) AS s(x);
-- @for k_types a_types
INSERT INTO u.$t SELECT CAST(x AS INT), concat('t', x), x, 'ab', CAST('12:34:56.789' AS TIME), CAST(to_timestamp_millis(x * 60123 - 1000000) AS TIMESTAMP(6)), CAST(to_timestamp_millis(x * 60123 - 1000000) AS TIMESTAMP(9)), CAST(to_timestamp_millis(x * 60123) AS TIMESTAMP_LTZ(3)), CAST(x / 4.0 AS DECIMAL(30, 5)), CAST(-x / 4.0 AS DECIMAL(5, 2)), CAST(concat('b', x) AS BYTES), x % 3 = 0, CAST(x / 8.0 AS FLOAT), ARRAY[CAST(x AS INT), NULL], ROW(CAST(x AS INT), concat('y', x)), MAP['k', CAST(x AS INT)] FROM generate_series(1, 90) AS s(x);
-- @for k_types_avro
INSERT INTO u.$t SELECT CAST(x AS INT), concat('t', x), x, 'ab', CAST('12:34:56.789' AS TIME), CAST(to_timestamp_millis(x * 60123 - 1000000) AS TIMESTAMP(6)), CAST(to_timestamp_millis(x * 60123) AS TIMESTAMP_LTZ(3)), CAST(x / 4.0 AS DECIMAL(30, 5)), CAST(-x / 4.0 AS DECIMAL(5, 2)), CAST(concat('b', x) AS BYTES), x % 3 = 0, CAST(x / 8.0 AS FLOAT), ARRAY[CAST(x AS INT), NULL], ROW(CAST(x AS INT), concat('y', x)), MAP['k', CAST(x AS INT)] FROM generate_series(1, 90) AS s(x);

-- @step delete
-- @let deletes k_plain k_vectors k_vectors64 k_input k_lookup k_lookup_vectors k_full k_avro k_orc k_levels k_thin k_sequence k_dynamic k_partial k_partial_lookup k_sums k_sums_vectors k_types k_types_avro k_nostats k_cow k_write_only k_parts k_parts_vectors k_cross a_plain a_vectors a_vectors64 a_buckets a_buckets_vectors a_tracked a_tracked_vectors a_avro a_orc a_indexed a_types a_parts a_parts_vectors
-- @for deletes
DELETE FROM u.$t WHERE id % 11 = 0 OR v = 'value 3';
DELETE FROM u.$t WHERE id IN (SELECT id FROM u.a_plain WHERE n > 2550);

-- @step update
-- @let updates k_plain k_vectors k_vectors64 k_input k_lookup k_lookup_vectors k_full k_avro k_orc k_levels k_thin k_sequence k_dynamic k_partial k_types k_types_avro k_nostats k_cow k_write_only k_parts k_parts_vectors k_cross a_plain a_vectors a_vectors64 a_buckets a_buckets_vectors a_tracked a_tracked_vectors a_avro a_orc a_indexed a_types a_parts a_parts_vectors
-- @for updates
UPDATE u.$t SET v = concat(v, ' changed'), n = n + 1 WHERE id BETWEEN 20 AND 60;
-- @for k_cross a_parts a_parts_vectors
UPDATE u.$t SET p = p + 1 WHERE id BETWEEN 100 AND 110;

-- @step merge
-- @let merges k_plain k_vectors k_vectors64 k_input k_lookup k_lookup_vectors k_full k_avro k_orc k_levels k_thin k_sequence k_dynamic k_types k_types_avro k_nostats k_cow k_write_only a_vectors a_vectors64 a_buckets a_buckets_vectors a_tracked a_tracked_vectors a_avro a_orc a_indexed a_types
-- @for merges
MERGE INTO u.$t AS t USING (SELECT DISTINCT CASE WHEN id > 230 THEN id + 1000 ELSE id END AS id, v, n FROM u.a_plain WHERE id % 5 = 0 AND id NOT BETWEEN 150 AND 200) AS s ON t.id = s.id WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged', n = t.n + 3 WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.id, s.v, s.n);
-- @for k_parts k_parts_vectors k_cross a_parts a_parts_vectors
MERGE INTO u.$t AS t USING (SELECT DISTINCT id % 4 AS p, CASE WHEN id > 230 THEN id + 1000 ELSE id END AS id, v, n FROM u.a_plain WHERE id % 5 = 0 AND id NOT BETWEEN 150 AND 200) AS s ON t.p = s.p AND t.id = s.id WHEN MATCHED AND t.id % 2 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'merged', n = t.n + 3 WHEN NOT MATCHED THEN INSERT (p, id, v, n) VALUES (s.p, s.id, s.v, s.n);

-- @step compact_minor
-- @let all k_plain k_vectors k_vectors64 k_input k_lookup k_lookup_vectors k_full k_avro k_orc k_levels k_thin k_sequence k_dynamic k_postpone k_partial k_partial_lookup k_sums k_sums_vectors k_types k_types_avro k_nostats k_cow k_write_only k_parts k_parts_vectors k_cross k_first a_plain a_vectors a_vectors64 a_buckets a_buckets_vectors a_tracked a_tracked_vectors a_avro a_orc a_indexed a_types a_parts a_parts_vectors
-- @for all
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'minor');

-- @step compact_full
-- @for all
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0');

-- @step change_compacted
-- @for plain first append
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), concat('third ', x % 9), x * 10 + 7 FROM generate_series(5, 300, 5) AS s(x);
-- @for parted append_parted
INSERT INTO u.$t SELECT CAST(x % 4 AS INT), CAST(x AS INT), concat('third ', x % 9), x * 10 + 7 FROM generate_series(5, 300, 5) AS s(x);
-- @for deletes
DELETE FROM u.$t WHERE id % 13 = 0;
-- @for updates
UPDATE u.$t SET v = 'late', n = n + 1 WHERE id % 17 = 0;

-- @step expire
-- @for all
CALL sys.expire_snapshots(`table` => 'u.$t', retain_max => 1, retain_min => 1);
CALL sys.remove_orphan_files(`table` => 'u.$t');
CALL sys.compact_manifest(`table` => 'u.$t');

-- @step rescale
-- @for k_plain k_vectors k_vectors64 k_lookup k_lookup_vectors k_avro k_orc k_levels k_thin k_sequence k_partial k_sums_vectors k_first k_types a_buckets a_buckets_vectors
ALTER TABLE u.$t SET ('bucket' = '4');
CALL sys.rescale(`table` => 'u.$t');
INSERT INTO u.$t (id, v, n) SELECT CAST(x AS INT), 'rescaled', 3 * x FROM generate_series(1, 400, 40) AS s(x);

-- @step index
-- @for k_plain k_vectors k_thin k_dynamic k_parts k_types a_plain a_vectors a_buckets a_tracked a_parts a_types a_orc a_avro
ALTER TABLE u.$t SET ('file-index.bloom-filter.columns' = 'v', 'file-index.range-bitmap.columns' = 'n');
CALL sys.rewrite_file_index(`table` => 'u.$t');

-- @step columns
-- @for all
ALTER TABLE u.$t ADD COLUMN x DOUBLE;
-- @for a_plain a_vectors a_buckets_vectors a_tracked a_tracked_vectors a_avro a_orc a_types
INSERT INTO u.$t (x, id, v, n) VALUES (0.5, 2000, 'new', 1), (1.5, 3, 'new', NULL);
UPDATE u.$t SET x = n / 2.0 WHERE id < 30;
DELETE FROM u.$t WHERE x > 10;
-- @for k_plain k_vectors k_lookup k_full k_avro k_orc k_levels k_thin k_dynamic k_types k_nostats
INSERT INTO u.$t (x, id, v, n) VALUES (0.5, 2000, 'new', 1), (1.5, 3, 'new', NULL);
UPDATE u.$t SET x = n / 2.0 WHERE id < 30;
DELETE FROM u.$t WHERE x > 10;
-- @for k_lookup k_lookup_vectors k_full k_levels a_buckets_vectors a_tracked a_tracked_vectors
ALTER TABLE u.$t RENAME COLUMN v TO w;
INSERT INTO u.$t (id, w, n) VALUES (2001, 'renamed', 1), (4, 'renamed', NULL);
UPDATE u.$t SET w = concat(w, '!') WHERE id < 15;
ALTER TABLE u.$t RENAME COLUMN w TO v;
-- @for all
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=1,compaction.delete-ratio-threshold=0');

-- @step partitions
-- @for k_parts k_parts_vectors k_cross a_parts a_parts_vectors
ALTER TABLE u.$t DROP PARTITION (p = 1);
DELETE FROM u.$t WHERE p = 2;
INSERT OVERWRITE u.$t PARTITION (p = 3) SELECT id, v, n, x FROM u.$t WHERE p = 0 AND id > 50;

-- @step sort
-- @for a_plain a_vectors a_types a_orc a_avro
CALL sys.compact(`table` => 'u.$t', order_strategy => 'zorder', order_by => 'id,n');
-- @for a_parts a_parts_vectors
CALL sys.compact(`table` => 'u.$t', order_strategy => 'order', order_by => 'n');

-- @step overwrite
-- @for k_plain k_vectors k_lookup k_full k_dynamic k_levels k_thin a_vectors a_buckets_vectors a_tracked a_indexed
INSERT OVERWRITE u.$t SELECT * FROM u.$t WHERE id < 150;
DELETE FROM u.$t WHERE id = 100;
-- @for k_avro k_sums_vectors a_vectors64
TRUNCATE TABLE u.$t;
INSERT INTO u.$t (id, v, n) VALUES (1, 'one', 1), (2, NULL, 2);
