-- What we do to the tables of upkeep.sql after Flink; see matrix.sh.
-- @let keys k_plain k_vectors k_vectors64 k_input k_lookup k_lookup_vectors k_full k_avro k_orc k_levels k_thin k_sequence k_dynamic k_partial k_partial_lookup k_sums k_sums_vectors k_types k_types_avro k_nostats k_cow k_first
-- @let append a_plain a_vectors a_vectors64 a_buckets a_buckets_vectors a_tracked a_tracked_vectors a_avro a_orc a_indexed a_types
-- @let parted k_parts k_parts_vectors k_cross a_parts a_parts_vectors
-- @step change
-- @for keys append
INSERT INTO u.$t (id, v, n) VALUES (1, 'ours', 5), (7000, 'ours', 6), (7001, 'ours', 7);
-- @for parted
INSERT INTO u.$t (p, id, v, n) VALUES (1, 1, 'ours', 5), (3, 7000, 'ours', 6), (2, 7001, 'ours', 7);
-- @for k_plain k_vectors k_vectors64 k_lookup k_lookup_vectors k_full k_avro k_orc k_levels k_thin k_dynamic k_types k_nostats k_parts k_parts_vectors k_cross a_vectors a_vectors64 a_buckets a_buckets_vectors a_tracked a_tracked_vectors a_indexed a_parts_vectors
DELETE FROM u.$t WHERE id % 19 = 1 OR v = 'new';
-- @step compact
-- @for keys append parted
CALL sys.compact(`table` => 'u.$t', compact_strategy => 'full', options => 'compaction.min.file-num=2,compaction.delete-ratio-threshold=0');
