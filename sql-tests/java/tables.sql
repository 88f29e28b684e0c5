-- Tables of every kind and format that are written, for the matrix with Java: see matrix.sh.
CREATE DATABASE IF NOT EXISTS m;

CREATE TABLE m.source (id INT, v STRING, n BIGINT, d DOUBLE, b BOOLEAN, dt DATE, ts TIMESTAMP(3), s SMALLINT, raw BYTES);
INSERT INTO m.source SELECT CAST(x AS INT), CASE WHEN x % 7 = 0 THEN NULL ELSE concat('value ', x % 50) END, x * 1000, x / 4.0, x % 3 = 0, CAST(19700 + CAST(x % 40 AS INT) AS DATE), to_timestamp_millis(x * 60123 - 1000000), CAST(x % 100 AS SMALLINT), CAST(concat('b', x) AS BYTES) FROM generate_series(1, 300) AS t(x);

-- Key tables: format by bucket mode.
CREATE TABLE m.key_parquet (id INT, v STRING, n BIGINT, d DOUBLE, b BOOLEAN, dt DATE, ts TIMESTAMP(3), s SMALLINT, raw BYTES, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'file.format' = 'parquet');
INSERT INTO m.key_parquet SELECT * FROM m.source;
INSERT INTO m.key_parquet SELECT id, 'again', n, d, b, dt, ts, s, raw FROM m.source WHERE id < 100;
CREATE TABLE m.key_avro (id INT, v STRING, n BIGINT, d DOUBLE, b BOOLEAN, dt DATE, ts TIMESTAMP(3), s SMALLINT, raw BYTES, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'file.format' = 'avro');
INSERT INTO m.key_avro SELECT * FROM m.key_parquet;
CREATE TABLE m.key_orc (id INT, v STRING, n BIGINT, d DOUBLE, b BOOLEAN, dt DATE, s SMALLINT, raw BYTES, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2', 'file.format' = 'orc');
INSERT INTO m.key_orc SELECT id, v, n, d, b, dt, s, raw FROM m.key_parquet;
CREATE TABLE m.key_thin (id INT, v STRING, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'data-file.thin-mode' = 'true');
INSERT INTO m.key_thin SELECT id, v, n FROM m.source;
CREATE TABLE m.key_dynamic (dt DATE, id INT, v STRING, PRIMARY KEY (dt, id) NOT ENFORCED) PARTITIONED BY (dt) WITH ('dynamic-bucket.target-row-num' = '3');
INSERT INTO m.key_dynamic SELECT dt, id, v FROM m.source;
INSERT INTO m.key_dynamic SELECT dt, id, 'again' FROM m.source WHERE id % 2 = 0;
CREATE TABLE m.key_partitioned (dt DATE, id INT, v STRING, PRIMARY KEY (dt, id) NOT ENFORCED) PARTITIONED BY (dt) WITH ('bucket' = '2');
INSERT INTO m.key_partitioned SELECT dt, id, v FROM m.source;
INSERT OVERWRITE m.key_partitioned SELECT dt, id, 'over' FROM m.source WHERE dt = DATE '2024-01-05';
CREATE TABLE m.key_many (a STRING, b BIGINT, c DECIMAL(20, 3), v INT, PRIMARY KEY (a, b, c) NOT ENFORCED) WITH ('bucket' = '3');
INSERT INTO m.key_many SELECT concat('key ', id), n, CAST(d AS DECIMAL(20, 3)), id FROM m.source;

-- Merge engines.
CREATE TABLE m.partial (id INT, a INT, b STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'partial-update');
INSERT INTO m.partial SELECT id, CASE WHEN id % 2 = 0 THEN id END, v FROM m.source;
INSERT INTO m.partial SELECT id, CASE WHEN id % 2 = 1 THEN -id END, NULL FROM m.source;
CREATE TABLE m.sums (id INT, n BIGINT, m INT, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'merge-engine' = 'aggregation', 'fields.n.aggregate-function' = 'sum', 'fields.m.aggregate-function' = 'max');
INSERT INTO m.sums SELECT id % 20, n, id FROM m.source;
INSERT INTO m.sums SELECT id % 30, n, -id FROM m.source;
CREATE TABLE m.sequenced (id INT, s BIGINT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'sequence.field' = 's');
INSERT INTO m.sequenced SELECT id % 50, n, v FROM m.source;
INSERT INTO m.sequenced SELECT id % 50, -n, 'late' FROM m.source;
CREATE TABLE m.logged (id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'input');
INSERT INTO m.logged SELECT id % 50, v FROM m.source;

-- Append tables.
CREATE TABLE m.append_parquet (id INT, v STRING, c CHAR(4), t TIME, ts6 TIMESTAMP(6), ts9 TIMESTAMP(9), ltz TIMESTAMP_LTZ(3), dec DECIMAL(30, 5), arr ARRAY<INT>, r ROW<x INT, y STRING>, mp MAP<STRING, INT>) WITH ('file.format' = 'parquet');
INSERT INTO m.append_parquet SELECT id, v, 'ab', CAST('12:34:56.789' AS TIME), CAST(ts AS TIMESTAMP(6)), CAST(ts AS TIMESTAMP(9)), CAST(ts AS TIMESTAMP_LTZ(3)), CAST(d AS DECIMAL(30, 5)), ARRAY[id, NULL], ROW(id, v), MAP['k', id] FROM m.source;
CREATE TABLE m.append_avro (id INT, v STRING, dec DECIMAL(30, 5), arr ARRAY<INT>) WITH ('file.format' = 'avro');
INSERT INTO m.append_avro SELECT id, v, CAST(d AS DECIMAL(30, 5)), ARRAY[id, NULL] FROM m.source;
CREATE TABLE m.append_orc (id INT, v STRING, d DOUBLE, dt DATE) WITH ('file.format' = 'orc');
INSERT INTO m.append_orc SELECT id, v, d, dt FROM m.source;
CREATE TABLE m.append_bucketed (id INT, v STRING) WITH ('bucket' = '3', 'bucket-key' = 'id');
INSERT INTO m.append_bucketed SELECT id, v FROM m.source;
INSERT INTO m.append_bucketed SELECT id, v FROM m.source;
CREATE TABLE m.append_partitioned (v STRING, id INT, b BOOLEAN) PARTITIONED BY (v, b);
INSERT INTO m.append_partitioned SELECT v, id, b FROM m.source;
CREATE TABLE m.append_indexed (id INT, v STRING, n BIGINT) WITH ('file-index.bloom-filter.columns' = 'v', 'file-index.bitmap.columns' = 'id', 'file-index.bsi.columns' = 'n', 'file-index.range-bitmap.columns' = 'n', 'file-index.in-manifest-threshold' = '100 b');
INSERT INTO m.append_indexed SELECT id, v, n FROM m.source;
CREATE TABLE m.append_tracked (id INT, v STRING) WITH ('row-tracking.enabled' = 'true');
INSERT INTO m.append_tracked SELECT id, v FROM m.source;
INSERT INTO m.append_tracked SELECT id, v FROM m.source;
