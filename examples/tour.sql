-- A tour over the three tables of examples/warehouse, which Flink wrote:
--
--   cargo run --features cli -- --warehouse examples/warehouse -f examples/tour.sql

SHOW TABLES;

-- A key table with partitions and buckets. Flink inserted, updated and deleted rows, added the column `priority`,
-- compacted, and inserted once more.
DESCRIBE orders;
SELECT * FROM orders ORDER BY id;

-- Any snapshot, tag or branch by name, with the columns it had. Order 2 was changed and order 1 deleted since.
SELECT * FROM orders@1 ORDER BY id;
SELECT count(*) AS orders, sum(amount) AS amount FROM "orders@tag:opening";

-- The same snapshot by Flink's hint: it keeps today's columns.
SELECT * FROM orders /*+ OPTIONS('scan.snapshot-id'='1') */ ORDER BY id;

-- The funnel of a query: 5 files are live, the partition leaves 2 of them, statistics of values 1.
EXPLAIN SELECT id, note FROM orders WHERE region = 'north' AND amount > 60;

-- Before the compaction some rows of the files were dead: two sorted runs are resolved by their keys.
EXPLAIN SELECT region, note FROM orders@2;

-- Merge engine aggregation: `qty` is a sum, `price` a maximum, `d` a minimum, `name` the last one that is not NULL.
SELECT id, name, qty, price, d FROM stock WHERE qty > 60 ORDER BY qty DESC, id;

-- An append table of ORC files.
SELECT sensor, count(*) AS readings, max(val) AS most FROM readings GROUP BY sensor ORDER BY sensor;

-- What changed between two snapshots, and from one tag to another with the kind of each change.
SELECT id, amount, note FROM paimon_incremental_query('orders', 1, 3) ORDER BY id;
SELECT rowkind, id, amount, note FROM orders$audit_log /*+ OPTIONS('incremental-between' = 'opening,kept') */ ORDER BY id;
