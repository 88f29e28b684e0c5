-- What Flink adds to the tables of upkeep.sql and compacts, and how it sees them then; see matrix.sh.
-- @let keys k_plain k_vectors k_vectors64 k_input k_lookup k_lookup_vectors k_full k_avro k_orc k_levels k_thin k_sequence k_dynamic k_partial k_partial_lookup k_sums k_sums_vectors k_types k_types_avro k_nostats k_cow k_first
-- @let append a_plain a_vectors a_vectors64 a_buckets a_buckets_vectors a_avro a_orc a_indexed a_types
-- @let parted k_parts k_parts_vectors k_cross a_parts a_parts_vectors
-- @step flink
-- @batch
USE u;
-- @for keys append
INSERT INTO `$t` (id, v, n) VALUES (1, 'flink', CAST(1 AS BIGINT)), (30, 'flink', CAST(3000000 AS BIGINT)), (7000, 'new', CAST(NULL AS BIGINT));
-- @for parted
INSERT INTO `$t` (p, id, v, n) VALUES (1, 1, 'flink', CAST(1 AS BIGINT)), (0, 60, 'flink', CAST(3000000 AS BIGINT)), (3, 7000, 'new', CAST(NULL AS BIGINT));
-- @for k_plain k_vectors k_lookup k_dynamic k_full k_parts_vectors
DELETE FROM `$t` WHERE id = 30;
-- @for keys append parted
CALL sys.compact(`table` => 'u.$t');
-- @expect $t
SELECT * FROM `$t`;
