//! The writer's merge against simple models.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int8Array, Int32Array, Int64Array};
use arrow::datatypes::Int32Type;
use proptest::prelude::*;
use serde_json::json;

use super::merge::{KeyMerger, KeyRows, Merged};
use super::target::WriteTarget;
use crate::store::Caches;
use crate::store::testing::{memory, put};
use crate::table::{Identifier, Table};

/// A row: key, sequence field, value, kind.
type Row = (i32, Option<i32>, Option<i32>, i8);
/// The values of a row, and the ordinal of the last one that went into it.
type Merging = ((Option<i32>, Option<i32>), i64);

/// A table (k INT, s INT, v INT) with primary key k.
fn target(options: &[(&str, &str)]) -> Arc<WriteTarget> {
    let fields: Vec<_> = ["k", "s", "v"]
        .iter()
        .enumerate()
        .map(|(id, name)| json!({"id": id, "name": name, "type": if id == 0 { "INT NOT NULL" } else { "INT" }}))
        .collect();
    let mut all = BTreeMap::from([("bucket", "1")]);
    all.extend(options.iter().copied());
    let schema = json!({
        "version": 3, "id": 0, "fields": fields, "highestFieldId": 2, "partitionKeys": [], "primaryKeys": ["k"],
        "options": all, "timeMillis": 5
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let root = memory("w/db.db/t");
        put(&root, "schema/schema-0", schema.to_string()).await;
        let table = Table::open(root, Identifier::new("db", "t"), Arc::new(Caches::default()), BTreeMap::new());
        WriteTarget::try_new(table.await.unwrap(), false, false, "test").unwrap()
    })
}

/// The rows sorted by key (and by nothing else), in batches of these sizes.
fn merge(target: &WriteTarget, rows: &[Row], sizes: &[usize]) -> Vec<Merged> {
    let mut sorted: Vec<(i64, Row)> = rows.iter().enumerate().map(|(at, row)| (at as i64, *row)).collect();
    // Backwards within a key: the order of a sort that is not stable must not matter.
    sorted.sort_by_key(|(at, row)| (row.0, -*at));
    let mut merger = KeyMerger::try_new(target).unwrap();
    let mut out = Vec::new();
    let mut sizes = sizes.iter().copied().cycle();
    let mut rest = sorted.as_slice();
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(sizes.next().unwrap_or(1).clamp(1, rest.len()));
        rest = later;
        let column = |value: fn(&Row) -> Option<i32>| -> ArrayRef {
            Arc::new(batch.iter().map(|(_, row)| value(row)).collect::<Int32Array>())
        };
        let rows = KeyRows {
            columns: vec![column(|row| Some(row.0)), column(|row| row.1), column(|row| row.2)],
            kinds: batch.iter().map(|(_, row)| Some(row.3)).collect::<Int8Array>(),
            ordinals: batch.iter().map(|(at, _)| Some(*at)).collect::<Int64Array>(),
        };
        merger.push(rows, &mut out).unwrap();
    }
    merger.finish(&mut out).unwrap();
    out
}

/// The rows of a layer, with their ordinals.
fn layer(merged: &[Merged], wanted: usize) -> Vec<(Row, i64)> {
    let mut found = Vec::new();
    for part in merged {
        if let Merged::Rows { layer, rows } = part
            && *layer == wanted
        {
            let value = |column: usize, row: usize| {
                let column = rows.columns[column].as_primitive::<Int32Type>();
                column.is_valid(row).then(|| column.value(row))
            };
            for row in 0..rows.len() {
                let key = value(0, row).unwrap();
                found.push(((key, value(1, row), value(2, row), rows.kinds.value(row)), rows.ordinals.value(row)));
            }
        }
    }
    found
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let kind = prop_oneof![4 => Just(0_i8), 1 => Just(2), 1 => Just(3)];
    prop::collection::vec((0..6, prop::option::of(0..4), prop::option::of(0..100), kind), 0..40)
}

proptest! {
    #[test]
    fn merge_when_engine_is_deduplicate_then_the_newest_row_of_each_key(
        rows in rows(),
        sizes in prop::collection::vec(1..9_usize, 1..5),
        by_sequence in any::<bool>(),
        descending in any::<bool>(),
    ) {
        let mut options = Vec::new();
        if by_sequence {
            options.push(("sequence.field", "s"));
        }
        if by_sequence && descending {
            options.push(("sequence.field.sort-order", "descending"));
        }
        let merged = merge(&target(&options), &rows, &sizes);
        let mut model: BTreeMap<i32, (Row, i64)> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            // NULL is oldest in both orders.
            let rank = |row: &Row| match (by_sequence, descending, row.1) {
                (false, _, _) => None,
                (true, false, s) => s,
                (true, true, s) => s.map(|s| -s),
            };
            let newer = model.get(&row.0).is_none_or(|(old, _)| rank(row) >= rank(old));
            if newer {
                model.insert(row.0, (*row, at as i64));
            }
        }
        prop_assert_eq!(layer(&merged, 0), model.into_values().collect::<Vec<_>>());
        prop_assert!(layer(&merged, 1).is_empty());
    }

    #[test]
    fn merge_when_engine_is_first_row_then_the_first_one(
        rows in rows(),
        sizes in prop::collection::vec(1..9_usize, 1..5),
    ) {
        let rows: Vec<Row> = rows.into_iter().filter(|row| row.3 == 0).collect();
        let merged = merge(&target(&[("merge-engine", "first-row")]), &rows, &sizes);
        let mut model: BTreeMap<i32, (Row, i64)> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            model.entry(row.0).or_insert((*row, at as i64));
        }
        prop_assert_eq!(layer(&merged, 0), model.into_values().collect::<Vec<_>>());
    }

    #[test]
    fn merge_when_engine_is_partial_update_then_the_last_value_of_each_column(
        rows in rows(),
        sizes in prop::collection::vec(1..9_usize, 1..5),
    ) {
        let rows: Vec<Row> = rows.into_iter().filter(|row| row.3 != 3).collect();
        let merged = merge(&target(&[("merge-engine", "partial-update")]), &rows, &sizes);
        let mut model: BTreeMap<i32, Merging> = BTreeMap::new();
        for (at, row) in rows.iter().enumerate() {
            let ((s, v), last) = model.entry(row.0).or_default();
            *s = row.1.or(*s);
            *v = row.2.or(*v);
            *last = at as i64;
        }
        let found: Vec<_> = layer(&merged, 0).into_iter().map(|((k, s, v, _), at)| (k, ((s, v), at))).collect();
        prop_assert_eq!(found, model.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn merge_when_a_retract_comes_first_then_it_is_a_row_of_its_own_and_sums_are_one() {
    let rows = [(1, None, Some(5), 3), (1, None, Some(7), 0), (1, None, Some(1), 0), (2, None, Some(9), 0)];
    let max = target(&[("merge-engine", "aggregation"), ("fields.v.aggregate-function", "last_non_null_value")]);
    let merged = merge(&max, &rows, &[10]);
    assert_eq!(layer(&merged, 0), [((1, None, Some(5), 3), 0), ((2, None, Some(9), 0), 3)]);
    assert_eq!(layer(&merged, 1), [((1, None, Some(1), 0), 2)]);

    let options =
        [("merge-engine", "aggregation"), ("fields.v.aggregate-function", "sum"), ("fields.s.ignore-retract", "true")];
    let merged = merge(&target(&options), &rows, &[10]);
    assert_eq!(layer(&merged, 0), [((1, None, Some(3), 0), 2), ((2, None, Some(9), 0), 3)]);
}

#[test]
fn merge_when_a_delete_removes_the_record_then_what_was_before_it_goes_and_it_stays() {
    let rows = [(1, None, Some(5), 0), (1, Some(8), Some(9), 3), (1, None, Some(1), 0)];
    let options = [("merge-engine", "partial-update"), ("partial-update.remove-record-on-delete", "true")];
    let merged = merge(&target(&options), &rows, &[10]);
    assert_eq!(layer(&merged, 0), [((1, None, None, 3), 1)]);
    assert_eq!(layer(&merged, 1), [((1, None, Some(1), 0), 2)]);
}

#[test]
fn merge_when_changelog_is_written_then_all_rows_in_merge_order_too() {
    let rows = [(1, None, Some(5), 0), (2, None, Some(6), 0), (1, None, Some(7), 2)];
    let merged = merge(&target(&[("changelog-producer", "input")]), &rows, &[10]);
    let raw: Vec<i64> = merged
        .iter()
        .flat_map(|part| match part {
            Merged::Raw(rows) => rows.ordinals.values().to_vec(),
            Merged::Rows { .. } => Vec::new(),
        })
        .collect();
    assert_eq!(raw, [0, 2, 1]);
    assert_eq!(layer(&merged, 0), [((1, None, Some(7), 2), 2), ((2, None, Some(6), 0), 1)]);
}
