-- What Flink adds to the tables of tables.sql, and how it sees them then; see matrix.sh.
-- @batch
USE m;
INSERT INTO key_parquet VALUES (1, 'flink', CAST(1 AS BIGINT), CAST(0.5 AS DOUBLE), TRUE, DATE '2024-01-01', TIMESTAMP '2024-01-01 01:02:03.004', CAST(7 AS SMALLINT), X'00ff'), (5000, 'new', CAST(NULL AS BIGINT), CAST(NULL AS DOUBLE), CAST(NULL AS BOOLEAN), CAST(NULL AS DATE), CAST(NULL AS TIMESTAMP(3)), CAST(NULL AS SMALLINT), CAST(NULL AS BYTES));
-- @expect key_parquet
SELECT * FROM key_parquet;
INSERT INTO key_avro SELECT * FROM key_parquet WHERE id < 20 OR id > 4000;
-- @expect key_avro
SELECT * FROM key_avro;
INSERT INTO key_orc SELECT id, 'flink', n, d, b, dt, s, raw FROM key_parquet WHERE id < 20 OR id > 4000;
-- @expect key_orc
SELECT * FROM key_orc;
INSERT INTO key_thin VALUES (3, 'flink', CAST(3 AS BIGINT)), (3000, 'new', CAST(NULL AS BIGINT));
-- @expect key_thin
SELECT * FROM key_thin;
INSERT INTO key_dynamic SELECT dt, id + 1, 'flink' FROM key_dynamic WHERE id > 250;
-- @expect key_dynamic
SELECT * FROM key_dynamic;
INSERT INTO key_partitioned SELECT dt, id + 1, 'flink' FROM key_partitioned WHERE id > 250;
-- @expect key_partitioned
SELECT * FROM key_partitioned;
INSERT INTO key_many SELECT a, b, c, -v FROM key_many WHERE v < 50;
-- @expect key_many
SELECT * FROM key_many;
INSERT INTO `partial` VALUES (1, 77, CAST(NULL AS STRING)), (900, CAST(NULL AS INT), 'flink');
-- @expect partial
SELECT * FROM `partial`;
INSERT INTO sums VALUES (1, CAST(1000000 AS BIGINT), 5000), (900, CAST(1 AS BIGINT), 1);
-- @expect sums
SELECT * FROM sums;
INSERT INTO sequenced VALUES (1, CAST(-5 AS BIGINT), 'loses'), (2, CAST(900000000 AS BIGINT), 'wins');
-- @expect sequenced
SELECT * FROM sequenced;
INSERT INTO logged VALUES (1, 'flink'), (900, 'new');
-- @expect logged
SELECT * FROM logged;
INSERT INTO append_avro SELECT id + 1000, 'flink', dec, arr FROM append_avro WHERE id < 10;
-- @expect append_avro
SELECT * FROM append_avro;
INSERT INTO append_orc SELECT id + 1000, 'flink', d, dt FROM append_orc WHERE id < 10;
-- @expect append_orc
SELECT * FROM append_orc;
INSERT INTO append_bucketed SELECT id + 1000, 'flink' FROM append_bucketed WHERE id < 10;
-- @expect append_bucketed
SELECT * FROM append_bucketed;
INSERT INTO append_partitioned SELECT v, id + 1000, b FROM append_partitioned WHERE id < 10;
-- @expect append_partitioned
SELECT * FROM append_partitioned;
INSERT INTO append_indexed SELECT id + 1000, 'flink', n FROM append_indexed WHERE id < 10;
-- @expect append_indexed
SELECT * FROM append_indexed;
