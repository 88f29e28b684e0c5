//! Tables as other engines left them, and what Java makes of them: the scripts of group `merge_functions` of the fixtures,
//! cases of public reports, and answers of the Java library 1.4.2.

/// Rows of columns: `rows!(names; [1, "a"], [2, null])`.
macro_rules! rows {
    ($columns:expr; $([$($value:tt)*]),* $(,)?) => {
        $crate::read::fold::tests::objects($columns, &[$(serde_json::json!([$($value)*])),*])
    };
}

mod aggregation;
mod collections;
mod model;
mod partial_update;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::filter;
use arrow::datatypes::Schema;
use arrow::json::ReaderBuilder;
use serde_json::{Map, Value, json};

use super::{FoldBlock, FoldError, FoldInput, FoldOutput, FoldPlan, FoldState};
use crate::error::Result;
use crate::options::TableOptions;
use crate::spec::types::arrow_schema;
use crate::spec::{DataField, DataType, TableSchema};

/// A table with the key `id INT`.
pub(super) struct Table {
    schema: TableSchema,
}

impl Table {
    pub(super) fn new(columns: &[(&str, Value)], options: &[(&str, &str)]) -> Self {
        let mut fields = vec![DataField::new(0, "id", DataType::parse("INT NOT NULL").unwrap())];
        for (name, data_type) in columns {
            fields.push(DataField::new(fields.len() as i32, *name, DataType::from_json(data_type).unwrap()));
        }
        let options: BTreeMap<String, String> =
            options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let schema = TableSchema {
            version: 3,
            id: 0,
            highest_field_id: fields.len() as i32,
            fields,
            partition_keys: Vec::new(),
            primary_keys: vec!["id".to_owned()],
            options,
            comment: None,
            time_millis: 0,
        };
        Self { schema }
    }

    /// `columns` all of one SQL type.
    pub(super) fn of(columns: &[(&str, &str)], options: &[(&str, &str)]) -> Self {
        let columns: Vec<_> = columns.iter().map(|(name, data_type)| (*name, json!(data_type))).collect();
        Self::new(&columns, options)
    }

    pub(super) fn plan(&self, outputs: &[&str]) -> Result<FoldPlan> {
        let outputs: Vec<usize> = outputs.iter().map(|name| self.schema.index_of(name).unwrap()).collect();
        FoldPlan::try_new(&self.schema, &self.options()?, &outputs)
    }

    fn options(&self) -> Result<TableOptions> {
        TableOptions::new(&self.schema.options, &BTreeMap::new())
    }

    fn plan_all(&self) -> Result<FoldPlan> {
        FoldPlan::try_new(&self.schema, &self.options()?, &(0..self.schema.fields.len()).collect::<Vec<_>>())
    }

    fn columns(&self, rows: &[Value], positions: &[usize]) -> Vec<ArrayRef> {
        let fields: Vec<DataField> = positions.iter().map(|&at| self.schema.fields[at].clone()).collect();
        // Expected rows may have NULL where a column is declared without.
        let schema: Vec<_> =
            arrow_schema(&fields).fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
        let mut decoder = ReaderBuilder::new(Arc::new(Schema::new(schema.clone())))
            .with_batch_size(rows.len() + 1)
            .build_decoder()
            .unwrap();
        decoder.serialize(rows).unwrap();
        match decoder.flush().unwrap() {
            Some(batch) => batch.columns().to_vec(),
            None => schema.iter().map(|field| arrow::array::new_empty_array(field.data_type())).collect(),
        }
    }

    /// Folds commits of rows; `_kind` is the kind of a row, +I when it is not given. Keys are numbered by their order.
    fn fold(&self, plan: FoldPlan, commits: &[Vec<Value>]) -> Result<FoldOutput, FoldError> {
        let mut ids: Vec<i64> = commits.iter().flatten().map(|row| row["id"].as_i64().unwrap()).collect();
        ids.sort_unstable();
        ids.dedup();
        let group_of = |rows: &[Value]| -> Vec<u32> {
            rows.iter().map(|row| ids.binary_search(&row["id"].as_i64().unwrap()).unwrap() as u32).collect()
        };
        let kinds = |rows: &[Value]| -> Vec<i8> {
            rows.iter()
                .map(|row| match row.get("_kind").and_then(Value::as_str) {
                    None | Some("+I") => 0,
                    Some("-U") => 1,
                    Some("+U") => 2,
                    Some("-D") => 3,
                    Some(other) => panic!("{other}"),
                })
                .collect()
        };
        let plan = Arc::new(plan);
        let mut state = FoldState::new(Arc::clone(&plan), ids.len())?;
        let mut result = Ok(());
        for rows in commits {
            let columns = self.columns(rows, plan.input_columns());
            let (group_of, kinds) = (group_of(rows), kinds(rows));
            result = result.and_then(|()| {
                state.update(&FoldBlock { group_of: &group_of, kinds: Some(&kinds), columns: &columns })
            });
        }
        let blockwise = result.and_then(|()| state.finish());
        // All at once gives the same.
        let rows: Vec<Value> = commits.concat();
        let columns = self.columns(&rows, plan.input_columns());
        let whole = plan.fold(&FoldInput {
            groups: ids.len(),
            group_of: &group_of(&rows),
            kinds: Some(&kinds(&rows)),
            columns: &columns,
            levels: None,
        });
        match (&blockwise, &whole) {
            (Ok(one), Ok(other)) => {
                assert_eq!((&one.keep, &one.kinds), (&other.keep, &other.kinds));
                assert_eq!(one.columns, other.columns);
            }
            (one, other) => assert_eq!(one.is_err(), other.is_err()),
        }
        blockwise
    }

    /// Folds all columns and compares the rows kept, in key order.
    pub(super) fn gives(&self, commits: &[Vec<Value>], expected: &[Value]) {
        let output = self.folds(commits).unwrap();
        let keep = BooleanArray::new(output.keep.clone(), None);
        let positions: Vec<usize> = (0..self.schema.fields.len()).collect();
        for (position, wanted) in self.columns(expected, &positions).iter().enumerate() {
            let found = filter(&output.columns[position], &keep).unwrap();
            assert_eq!(found.to_data(), wanted.to_data(), "column {}", self.schema.fields[position].name);
        }
    }

    /// Folds all columns.
    pub(super) fn folds(&self, commits: &[Vec<Value>]) -> Result<FoldOutput, FoldError> {
        self.fold(self.plan_all().unwrap(), commits)
    }

    fn fails(&self, commits: &[Vec<Value>]) -> FoldError {
        self.folds(commits).unwrap_err()
    }
}

/// Rows of `columns` from tuples.
fn objects(columns: &[&str], tuples: &[Value]) -> Vec<Value> {
    tuples
        .iter()
        .map(|tuple| {
            let values = tuple.as_array().unwrap();
            assert_eq!(values.len(), columns.len(), "{tuple}");
            Value::Object(
                columns.iter().map(|name| (*name).to_owned()).zip(values.iter().cloned()).collect::<Map<_, _>>(),
            )
        })
        .collect()
}

const PARTIAL: (&str, &str) = ("merge-engine", "partial-update");
const AGGREGATION: (&str, &str) = ("merge-engine", "aggregation");

#[test]
fn first_row_and_deduplicate_when_folded_then_one_row_as_it_is() {
    let c = &["_kind", "id", "a", "b"];
    let columns = [("a", "INT"), ("b", "STRING")];
    let commits = [
        rows!(c; ["+I", 1, 1, null], ["-D", 2, 2, "x"], ["+I", 3, 1, "x"]),
        rows!(c; ["+U", 1, 2, "two"], ["+I", 2, null, "y"], ["-D", 3, 3, "z"]),
    ];
    let names = &["id", "a", "b"];
    Table::of(&columns, &[]).gives(&commits, &rows!(names; [1, 2, "two"], [2, null, "y"]));
    Table::of(&columns, &[("ignore-delete", "true")])
        .gives(&commits, &rows!(names; [1, 2, "two"], [2, null, "y"], [3, 1, "x"]));
    Table::of(&columns, &[("merge-engine", "first-row"), ("ignore-delete", "true")])
        .gives(&commits, &rows!(names; [1, 1, null], [2, null, "y"], [3, 1, "x"]));
    let error = Table::of(&columns, &[("merge-engine", "first-row")]).fails(&commits);
    assert_eq!(error.group, Some(1));
    assert!(error.to_string().contains("ignore-delete"), "{error}");
}

#[test]
fn fold_when_levels_are_given_then_only_the_smallest_above_zero_counts() {
    let table = Table::of(&[("s", "INT")], &[AGGREGATION, ("fields.s.aggregate-function", "sum")]);
    let plan = table.plan(&["s"]).unwrap();
    let rows = rows!(&["s"]; [1], [10], [100], [1000], [5], [7], [9]);
    let input = FoldInput {
        groups: 3,
        group_of: &[0, 0, 0, 0, 1, 1, 2],
        kinds: None,
        columns: &table.columns(&rows, plan.input_columns()),
        levels: Some(&[5, 2, 0, 0, 5, 3, 4]),
    };
    let output = plan.fold(&input).unwrap();
    assert_eq!(output.columns, table.columns(&rows!(&["s"]; [1110], [7], [9]), plan.input_columns()));
    assert_eq!(output.kinds, [0, 0, 0]);
}

#[test]
fn fold_when_a_key_has_no_rows_then_not_kept_and_null() {
    let columns = [
        ("g", json!("INT")),
        ("a", json!({"type": "ARRAY", "element": "INT"})),
        ("m", json!("STRING")),
        ("x", json!("BYTES")),
    ];
    for engine in ["deduplicate", "first-row", "partial-update", "aggregation"] {
        let plan = Table::new(&columns, &[("merge-engine", engine)]).plan_all().unwrap();
        let state = FoldState::new(Arc::new(plan), 2).unwrap();
        let output = state.finish().unwrap();
        assert_eq!(output.keep.count_set_bits(), 0);
        assert!(output.columns.iter().all(|column| column.len() == 2 && column.null_count() == 2));
    }
}

#[test]
fn update_when_block_is_not_what_the_plan_asked_for_then_error() {
    let table = Table::of(&[("s", "INT")], &[PARTIAL]);
    let plan = Arc::new(table.plan(&["s"]).unwrap());
    let columns = table.columns(&rows!(&["s"]; [1], [2]), plan.input_columns());
    let mut state = FoldState::new(Arc::clone(&plan), 1).unwrap();
    for block in [
        FoldBlock { group_of: &[0, 1], kinds: None, columns: &columns },
        FoldBlock { group_of: &[0], kinds: None, columns: &columns },
        FoldBlock { group_of: &[0, 0], kinds: Some(&[0]), columns: &columns },
        FoldBlock { group_of: &[0, 0], kinds: None, columns: &[] },
    ] {
        assert!(state.update(&block).is_err());
    }
}
