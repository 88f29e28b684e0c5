//! Tables as other engines left them, and what Java makes of them: the scripts of group `merge_functions` of the fixtures,
//! cases of public reports, and answers of the Java library 1.4.2.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::filter;
use arrow::datatypes::Schema;
use arrow::json::ReaderBuilder;
use serde_json::{Map, Value, json};

use super::{FoldBlock, FoldError, FoldInput, FoldOutput, FoldPlan, FoldState};
use crate::error::Result;
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
        FoldPlan::try_new(&self.schema, &self.schema.options, &outputs)
    }

    fn plan_all(&self) -> Result<FoldPlan> {
        FoldPlan::try_new(&self.schema, &self.schema.options, &(0..self.schema.fields.len()).collect::<Vec<_>>())
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
pub(super) fn rows(columns: &[&str], tuples: &[Value]) -> Vec<Value> {
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

macro_rules! rows {
    ($columns:expr; $([$($value:tt)*]),* $(,)?) => { rows($columns, &[$(json!([$($value)*])),*]) };
}

const PARTIAL: (&str, &str) = ("merge-engine", "partial-update");
const AGGREGATION: (&str, &str) = ("merge-engine", "aggregation");

#[test]
fn partial_update_when_one_group_then_newer_sequence_wins() {
    let c = &["id", "g", "a", "b", "c"];
    let table = Table::of(
        &[("g", "INT"), ("a", "INT"), ("b", "STRING"), ("c", "STRING")],
        &[PARTIAL, ("fields.g.sequence-group", "a,b")],
    );
    table.gives(
        &[
            rows!(c; [1, 1, 1, "b1", "c1"], [2, 5, 5, "b5", "c5"], [3, null, 3, "no g", "c3"], [4, 1, null, "b1", null]),
            rows!(c; [1, 2, 2, null, null], [2, 4, 4, "late", "c late"], [3, 1, null, "b", null],
                [4, 1, 4, null, "same seq"], [4, 1, 44, "x", null]),
            rows!(c; [1, null, 9, "skip", "c kept"], [2, 5, null, "equal", null], [3, 0, 7, "late", "c"]),
            rows!(c; [1, 3, null, "b3", null], [5, 7, 7, null, null], [2, 6, 6, "b6", null]),
        ],
        &rows!(c; [1, 3, null, "b3", "c kept"], [2, 6, 6, "b6", "c late"], [3, 1, null, "b", "c"],
            [4, 1, 44, "x", "same seq"], [5, 7, 7, null, null]),
    );
}

#[test]
fn partial_update_when_two_groups_then_each_follows_its_own_sequence() {
    let c = &["id", "g1", "g2", "g3", "x", "y", "z"];
    let table = Table::of(
        &[("g1", "INT"), ("g2", "INT"), ("g3", "STRING"), ("x", "STRING"), ("y", "INT"), ("z", "STRING")],
        &[PARTIAL, ("fields.g1.sequence-group", "x"), ("fields.g2,g3.sequence-group", "y,z")],
    );
    table.gives(
        &[
            rows!(c; [1, 1, 1, "a", "x1", 1, "z1"], [2, 3, 3, "m", "x3", 3, "z3"], [3, 1, null, null, "x1", 1, null]),
            rows!(c; [1, 2, null, null, "x2", 9, null], [2, 2, 3, "n", "late x", 4, "z3n"],
                [3, null, 1, null, "skipped", 2, "z"]),
            rows!(c; [1, 0, 1, "b", "late", 5, "z1b"], [2, 3, 3, "l", null, -1, "late z"],
                [3, 1, 1, "a", "x equal", null, null]),
            rows!(c; [2, 4, 4, null, "x4", 44, "z44"], [4, null, null, null, null, 4, null]),
        ],
        // Key 4 has one row here: a read never folds it, so only the group's rule shows.
        &rows!(c; [1, 2, 1, "b", "x2", 5, "z1b"], [2, 4, 4, null, "x4", 44, "z44"],
            [3, 1, 1, "a", "x equal", null, null], [4, null, null, null, null, null, null]),
    );
}

#[test]
fn partial_update_when_group_aggregates_then_late_rows_are_reversed() {
    let c = &["id", "g", "s", "m", "f", "l", "t", "o"];
    let columns = [
        ("g", "INT"),
        ("s", "BIGINT"),
        ("m", "INT"),
        ("f", "STRING"),
        ("l", "STRING"),
        ("t", "STRING"),
        ("o", "STRING"),
    ];
    let commits = [
        rows!(c; [1, 2, 10, 5, "f2", "l2", "t2", "o1"], [2, 1, 1, 1, "f1", null, "t1", null]),
        rows!(c; [1, 1, 3, 9, "f1", "l1", "t1", "o2"], [2, 2, null, 7, null, "l2", null, "o"],
            [3, null, 5, 5, "skip", "skip", "skip", "out"]),
        rows!(c; [1, 4, 100, 1, "f4", null, "t4", null], [2, 2, 5, null, "f2b", "l2b", "t2b", "o2"],
            [3, 1, 6, 6, "f", "l", "t", null]),
        rows!(c; [1, 3, 1000, 3, null, "l3", "t3", "o4"], [3, 1, 7, 2, "f1b", "l1b", "t1b", "o3"]),
    ];
    let group = ("fields.g.sequence-group", "s,m,f,l,t");
    let functions = |names: [&'static str; 5]| {
        let keys = ["s", "m", "f", "l", "t"].map(|column| format!("fields.{column}.aggregate-function"));
        let keys: Vec<&'static str> = keys.into_iter().map(|key| &*key.leak()).collect();
        let mut options = vec![PARTIAL, group];
        options.extend(keys.into_iter().zip(names));
        options
    };
    Table::of(&columns, &functions(["sum", "max", "first_value", "last_value", "listagg"])).gives(
        &commits,
        &rows!(c; [1, 4, 1113, 9, null, null, "t3,t1,t2,t4", "o4"], [2, 2, 6, 7, "f1", "l2b", "t1,t2b", "o2"],
            [3, 1, 13, 6, "f", "l1b", "t,t1b", "o3"]),
    );
    // A late NULL erases first_non_null_value (trap 34).
    Table::of(
        &columns,
        &functions(["min", "last_non_null_value", "first_non_null_value", "last_non_null_value", "first_value"]),
    )
    .gives(
        &commits,
        &rows!(c; [1, 4, 3, 1, null, "l2", "t3", "o4"], [2, 2, 1, 7, "f1", "l2b", "t1", "o2"],
            [3, 1, 6, 2, "f", "l1b", "t", "o3"]),
    );
}

#[test]
fn partial_update_when_default_function_then_all_followers_have_it() {
    let c = &["id", "g", "a", "b", "c"];
    Table::of(
        &[("g", "INT"), ("a", "INT"), ("b", "INT"), ("c", "STRING")],
        &[
            PARTIAL,
            ("fields.g.sequence-group", "a,b,c"),
            ("fields.default-aggregate-function", "last_non_null_value"),
            ("fields.b.aggregate-function", "sum"),
        ],
    )
    .gives(
        &[
            rows!(c; [1, 1, 1, 1, "x"], [2, 2, 2, 2, null]),
            rows!(c; [1, 2, null, 5, null], [2, 1, 9, 9, "late"]),
            rows!(c; [1, 1, 7, 7, "late"], [2, 3, null, null, "y"]),
        ],
        &rows!(c; [1, 2, 1, 13, "x"], [2, 3, 2, 11, "y"]),
    );
}

#[test]
fn partial_update_when_remove_on_delete_then_adds_build_on_the_delete() {
    let c = &["_kind", "id", "a", "b"];
    let options = [PARTIAL, ("partial-update.remove-record-on-delete", "true")];
    let table = Table::of(&[("a", "INT"), ("b", "STRING")], &options);
    table.gives(
        &[
            rows!(c; ["+I", 1, 1, "x"], ["+I", 2, 2, "y"], ["+I", 3, 3, "z"], ["+I", 4, 4, null], ["+I", 7, 1, "x"]),
            rows!(c; ["-D", 1, 77, "del"], ["-U", 2, 20, null], ["+U", 3, 30, null], ["-D", 5, 5, "never"],
                ["-D", 7, 7, "gone"]),
            rows!(c; ["+I", 1, null, "again"], ["+I", 2, null, "y2"], ["-D", 3, null, null], ["-U", 6, 1, "x"]),
            rows!(c; ["+I", 3, 333, null], ["+I", 6, null, "y"]),
        ],
        // 5 and 7 are gone; 6 starts from its first retract (Java 1.4.2).
        &rows!(&["id", "a", "b"]; [1, 77, "again"], [2, 2, "y2"], [3, 333, null], [4, 4, null], [6, 1, "y"]),
    );
    // The last row counts: a -U after the delete shows the delete's values (Java 1.4.2).
    table.gives(
        &[rows!(c; ["+I", 2, 1, "x"]), rows!(c; ["-D", 2, 2, "d"]), rows!(c; ["-U", 2, 7, "u"])],
        &rows!(&["id", "a", "b"]; [2, 2, "d"]),
    );
}

#[test]
fn partial_update_when_ignore_delete_then_retracts_change_nothing() {
    let c = &["_kind", "id", "a"];
    Table::of(&[("a", "INT")], &[PARTIAL, ("partial-update.ignore-delete", "true")]).gives(
        &[rows!(c; ["+I", 1, 1], ["-D", 2, 5]), rows!(c; ["-D", 1, 7], ["-U", 2, 6]), rows!(c; ["-U", 1, 8])],
        &rows!(&["id", "a"]; [1, 1]),
    );
}

#[test]
fn partial_update_when_retract_and_no_rule_then_error_with_group() {
    let c = &["_kind", "id", "a"];
    let table = Table::of(&[("a", "INT")], &[PARTIAL]);
    let error = table.fails(&[rows!(c; ["+I", 1, 1], ["+I", 2, 1]), rows!(c; ["-D", 2, 1])]);
    assert_eq!(error.group, Some(1));
    assert!(error.to_string().contains("ignore-delete"), "{error}");
}

#[test]
fn partial_update_when_not_null_column_is_left_out_then_error() {
    let table = Table::of(&[("a", "INT NOT NULL")], &[PARTIAL]);
    let error = table.fails(&[rows!(&["id", "a"]; [1, 1]), rows!(&["id", "a"]; [1, null])]);
    assert!(error.to_string().contains("column a"), "{error}");
}

#[test]
fn partial_update_when_retracts_in_groups_then_followers_clear_and_aggregates_retract() {
    let c = &["_kind", "id", "g1", "a", "s", "g2", "b"];
    let options = [
        PARTIAL,
        ("fields.g1.sequence-group", "a,s"),
        ("fields.g2.sequence-group", "b"),
        ("fields.s.aggregate-function", "sum"),
    ];
    let columns = [("g1", "INT"), ("a", "INT"), ("s", "INT"), ("g2", "INT"), ("b", "STRING")];
    let commits = [
        rows!(c; ["+I", 1, 1, 1, 1, 1, "b1"], ["+I", 2, 5, 5, 5, 5, "b5"], ["+I", 3, 1, 1, 1, 1, "b1"],
            ["+I", 4, 1, 4, 4, 1, "b"]),
        rows!(c; ["-D", 1, 2, 7, 2, null, null], ["-D", 2, 4, 1, 2, 6, "b6"], ["-D", 3, null, null, null, 2, null],
            ["-U", 4, 1, null, 1, 0, "late"]),
        rows!(c; ["+I", 1, 3, 3, 3, 2, "b2"], ["+I", 2, 6, null, 1, 5, "late"]),
        rows!(c; ["+I", 1, 2, 2, 20, 3, "b3"], ["+I", 3, 2, 30, 30, 2, "equal"]),
    ];
    let names = &["id", "g1", "a", "s", "g2", "b"];
    Table::of(&columns, &options).gives(
        &commits,
        &rows!(names; [1, 3, 3, 22, 3, "b3"], [2, 6, null, 4, 6, null], [3, 2, 30, 31, 2, "equal"],
            [4, 1, null, 3, 1, "b"]),
    );
    let mut removing = options.to_vec();
    removing.push(("partial-update.remove-record-on-sequence-group", "g2"));
    Table::of(&columns, &removing).gives(
        &commits,
        // 2 was removed by its -D and goes on from its values; so was 3, whose values were NULL.
        &rows!(names; [1, 3, 3, 22, 3, "b3"], [2, 6, null, 3, 6, "b6"], [3, 2, 30, 30, 2, "equal"],
            [4, 1, null, 3, 1, "b"]),
    );
}

#[test]
fn partial_update_when_first_row_is_retract_then_row_starts_from_it() {
    // As Java 1.4.2 answers.
    let c = &["_kind", "id", "g", "s", "p", "o"];
    Table::of(
        &[("g", "INT"), ("s", "INT"), ("p", "STRING"), ("o", "STRING")],
        &[PARTIAL, ("fields.g.sequence-group", "s,p"), ("fields.s.aggregate-function", "sum")],
    )
    .gives(
        &[
            rows!(c; ["-D", 1, 1, 5, "pd", "od"], ["-D", 2, null, 5, "pd", "od"], ["-D", 3, 5, 5, "pd", "od"],
                ["-U", 4, 5, 5, "pd", "od"]),
            rows!(c; ["+I", 1, 0, 3, "late", null], ["+I", 2, 1, 1, null, null], ["+I", 3, 6, 1, null, null],
                ["+I", 4, 4, 1, "x", null]),
        ],
        &rows!(&["id", "g", "s", "p", "o"]; [1, 1, 3, null, "od"], [2, 1, 6, null, "od"], [3, 6, 1, null, "od"],
            [4, 5, 1, null, "od"]),
    );
}

#[test]
fn partial_update_when_late_rows_meet_functions_then_as_java() {
    let c = &["id", "g", "c", "l", "s", "lv", "ln"];
    Table::new(
        &[
            ("g", json!("INT")),
            ("c", json!({"type": "ARRAY", "element": "INT"})),
            ("l", json!("STRING")),
            ("s", json!("INT")),
            ("lv", json!("STRING")),
            ("ln", json!("STRING")),
        ],
        &[
            PARTIAL,
            ("fields.g.sequence-group", "c,l,s,lv,ln"),
            ("fields.c.aggregate-function", "collect"),
            ("fields.l.aggregate-function", "listagg"),
            ("fields.l.distinct", "true"),
            ("fields.s.aggregate-function", "product"),
            ("fields.lv.aggregate-function", "last_value"),
            ("fields.ln.aggregate-function", "last_non_null_value"),
        ],
    )
    .gives(
        &[
            rows!(c; [1, 5, [1], "a,b", 3, "1", null]),
            rows!(c; [1, 3, [2], "b,c", 4, null, "2"]),
            rows!(c; [1, 4, null, null, null, "q", "q"]),
        ],
        &rows!(c; [1, 5, [1, 2], "b,c,a", 12, "1", "2"]),
    );
}

#[test]
fn case_34_when_rows_are_late_then_sum_adds_and_last_non_null_is_reversed() {
    let c = &["id", "g_1", "a", "b"];
    Table::of(
        &[("g_1", "INT"), ("a", "INT"), ("b", "INT")],
        &[
            PARTIAL,
            ("fields.g_1.sequence-group", "a,b"),
            ("fields.a.aggregate-function", "sum"),
            ("fields.b.aggregate-function", "last_non_null_value"),
        ],
    )
    .gives(&[rows!(c; [1, 1, 1, 1]), rows!(c; [1, 2, 2, 2]), rows!(c; [1, 1, 3, 3])], &rows!(c; [1, 2, 6, 2]));
}

#[test]
fn plan_when_groups_share_a_column_then_error_names_it() {
    let columns = [("s", "INT"), ("t", "INT"), ("a", "INT"), ("b", "INT")];
    let options = [PARTIAL, ("fields.s.sequence-group", "a"), ("fields.t,s.sequence-group", "b")];
    let error = Table::of(&columns, &options).plan(&["a"]).unwrap_err().to_string();
    assert!(error.contains("column s") && error.contains("sequence-group"), "{error}");
}

#[test]
fn plan_when_options_are_wrong_then_error_names_option_and_column() {
    let columns = [("s", "INT"), ("a", "INT"), ("t", "STRING")];
    for (options, words) in [
        (vec![AGGREGATION, ("fields.a.aggregate-function", "count")], ["column a", "count"]),
        (vec![AGGREGATION, ("fields.t.aggregate-function", "sum")], ["column t", "STRING"]),
        (vec![AGGREGATION, ("fields.a.aggregate-function", "listagg")], ["column a", "listagg"]),
        (vec![PARTIAL, ("fields.a.aggregate-function", "sum")], ["column a", "sequence group"]),
        (vec![PARTIAL, ("fields.default-aggregate-function", "sum")], ["column s", "sequence group"]),
        (vec![PARTIAL, ("fields.x.sequence-group", "a")], ["x", "not a column"]),
        (vec![PARTIAL, ("fields.s.sequence-group", "id")], ["id", "key column"]),
        (vec![PARTIAL, ("partial-update.remove-record-on-sequence-group", "a")], ["column a", "sequence column"]),
        (
            vec![PARTIAL, ("ignore-delete", "true"), ("partial-update.remove-record-on-delete", "true")],
            ["ignore-delete", "remove-record-on-delete"],
        ),
        (
            vec![PARTIAL, ("fields.s.sequence-group", "a"), ("partial-update.remove-record-on-delete", "true")],
            ["sequence-group", "remove-record-on-delete"],
        ),
        (
            vec![AGGREGATION, ("fields.a.ignore-retract", "true"), ("aggregation.remove-record-on-delete", "true")],
            ["ignore-retract", "remove-record-on-delete"],
        ),
        (vec![AGGREGATION, ("fields.a.ignore-retract", "perhaps")], ["ignore-retract", "perhaps"]),
        (vec![("merge-engine", "magic")], ["merge-engine", "magic"]),
    ] {
        let error = Table::of(&columns, &options).plan(&["id"]).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    }
}

#[test]
fn plan_when_columns_are_projected_then_sequences_are_read_too() {
    let columns = [("g", "INT"), ("a", "INT"), ("h", "INT"), ("b", "INT"), ("o", "INT")];
    let options = [PARTIAL, ("fields.g.sequence-group", "a"), ("fields.h.sequence-group", "b")];
    let table = Table::of(&columns, &options);
    assert_eq!(table.plan(&["o"]).unwrap().input_columns(), [5]);
    assert_eq!(table.plan(&["b", "id"]).unwrap().input_columns(), [4, 0, 3]);
    assert_eq!(table.plan(&["a", "g", "a"]).unwrap().input_columns(), [2, 1]);
    let mut removing = options.to_vec();
    removing.push(("partial-update.remove-record-on-sequence-group", "g"));
    let table = Table::of(&columns, &removing);
    assert_eq!(table.plan(&[]).unwrap().input_columns(), [1]);
    // Case C37: counting rows after +I and -D.
    let c = &["_kind", "id", "g", "a", "h", "b", "o"];
    let commits = [
        rows!(c; ["+I", 1, 1, 1, 1, 1, 1], ["+I", 2, 1, 1, 1, 1, 1]),
        rows!(c; ["-D", 1, 2, 2, null, null, null], ["-D", 2, 0, 1, 1, 1, 1]),
    ];
    let output = table.fold(table.plan(&[]).unwrap(), &commits).unwrap();
    assert_eq!(output.keep.iter().collect::<Vec<_>>(), [false, true]);
    // Case C38: another order of columns.
    let output = table.fold(table.plan(&["b", "o", "id", "a"]).unwrap(), &commits).unwrap();
    assert_eq!(output.keep.iter().collect::<Vec<_>>(), [false, true]);
    let all = table.fold(table.plan_all().unwrap(), &commits).unwrap();
    for (column, position) in output.columns.iter().zip([4, 5, 0, 2]) {
        assert_eq!(column, &all.columns[position]);
    }
}

#[test]
fn sum_and_product_when_every_type_then_as_java() {
    let c = &["id", "ti", "si", "i", "bi", "f", "d", "dc", "dw"];
    let columns = [
        ("ti", "TINYINT"),
        ("si", "SMALLINT"),
        ("i", "INT"),
        ("bi", "BIGINT"),
        ("f", "FLOAT"),
        ("d", "DOUBLE"),
        ("dc", "DECIMAL(10, 2)"),
        ("dw", "DECIMAL(30, 5)"),
    ];
    let n = Value::Null;
    let commits = [
        rows!(c; [1, 1, 2, 3, 4, 0.5, 1.5, "2.25", "1.00001"], [2, n, n, n, n, n, n, n, n],
            [3, -5, -5, -5, -5, -5.5, -5.25, "-5.05", "-12345678901234567890.5"]),
        rows!(c; [1, 2, 3, 4, 5, 0.25, -2.5, "-1.10", "2.5"], [2, 3, 3, 3, 3, 3, 3, "3", "3"],
            [3, n, n, 2, n, n, n, n, "0.00001"]),
        rows!(c; [1, 5, 7, n, 9, 2, 2, "0.01", n], [3, 2, 2, 2, 2, 2, 2, "2", "2"],
            [4, 7, 7, 7, 7, 7, 7, "7.77", "7.77777"], [4, 6, 6, 6, 6, 6, 6, "6.66", "6.66666"]),
        rows!(c; [2, -3, 4, -4, 4, -4, 4, "-4.44", "4.44444"], [3, 4, 4, 4, 4, 4, 4, "4", "4"]),
    ];
    Table::of(&columns, &[AGGREGATION, ("fields.default-aggregate-function", "sum")]).gives(
        &commits,
        &rows!(c; [1, 8, 12, 7, 18, 2.75, 1.0, "1.16", "3.50001"], [2, 0, 7, -1, 7, -1.0, 7.0, "-1.44", "7.44444"],
            [3, 1, 1, 3, 1, 0.5, 0.75, "0.95", "-12345678901234567884.49999"],
            [4, 13, 13, 13, 13, 13, 13, "14.43", "14.44443"]),
    );
    Table::of(&columns, &[AGGREGATION, ("fields.default-aggregate-function", "product")]).gives(
        &commits,
        &rows!(c; [1, 10, 42, 12, 180, 0.25, -7.5, "-0.02", "2.50003"],
            [2, -9, 12, -12, 12, -12, 12, "-13.32", "13.33332"],
            [3, -40, -40, -80, -40, -44, -42, "-40.40", "-987654312098765.43128"],
            [4, 42, 42, 42, 42, 42, 42, "51.75", "51.85175"]),
    );
    Table::of(&columns, &[AGGREGATION, ("fields.default-aggregate-function", "min")]).gives(
        &commits,
        &rows!(c; [1, 1, 2, 3, 4, 0.25, -2.5, "-1.10", "1.00001"], [2, -3, 3, -4, 3, -4, 3, "-4.44", "3"],
            [3, -5, -5, -5, -5, -5.5, -5.25, "-5.05", "-12345678901234567890.5"],
            [4, 6, 6, 6, 6, 6, 6, "6.66", "6.66666"]),
    );
}

#[test]
fn sum_and_product_when_result_does_not_fit_then_error_names_column_and_group() {
    for (data_type, function, values) in [
        ("TINYINT", "sum", [json!(127), json!(1)]),
        ("BIGINT", "sum", [json!(i64::MAX), json!(1)]),
        ("BIGINT", "product", [json!(i64::MAX), json!(2)]),
        ("INT", "product", [json!(i32::MIN), json!(-1)]),
        ("DECIMAL(5, 2)", "sum", [json!("999.99"), json!("0.02")]),
        ("DECIMAL(38, 0)", "sum", [json!("99999999999999999999999999999999999999"), json!("1")]),
        ("DECIMAL(5, 2)", "product", [json!("100.00"), json!("100.00")]),
        ("DECIMAL(38, 2)", "product", [json!("1000000000000000000000.00"), json!("1000000000000000000000.00")]),
    ] {
        let table = Table::of(&[("a", data_type)], &[AGGREGATION, ("fields.a.aggregate-function", function)]);
        let [one, other] = values;
        let error = table.fails(&[rows!(&["id", "a"]; [1, one], [2, one]), rows!(&["id", "a"]; [2, other])]);
        assert_eq!(error.group, Some(1), "{error}");
        assert!(error.to_string().contains("column a"), "{error}");
    }
    // A sum that fits at last is fine, whatever came between.
    Table::of(&[("a", "TINYINT")], &[AGGREGATION, ("fields.a.aggregate-function", "sum")]).gives(
        &[rows!(&["id", "a"]; [1, 127]), rows!(&["id", "a"]; [1, 100]), rows!(&["id", "a"]; [1, -120])],
        &rows!(&["id", "a"]; [1, 107]),
    );
}

#[test]
fn aggregation_when_retracts_then_as_java() {
    let c = &["_kind", "id", "s", "p", "dc", "l", "n", "mx"];
    let options = [
        AGGREGATION,
        ("fields.s.aggregate-function", "sum"),
        ("fields.p.aggregate-function", "product"),
        ("fields.dc.aggregate-function", "product"),
        ("fields.l.aggregate-function", "last_value"),
        ("fields.mx.aggregate-function", "max"),
        ("fields.mx.ignore-retract", "true"),
    ];
    let columns =
        [("s", "INT"), ("p", "DOUBLE"), ("dc", "DECIMAL(10, 2)"), ("l", "STRING"), ("n", "STRING"), ("mx", "INT")];
    Table::of(&columns, &options).gives(
        &[
            rows!(c; ["+I", 1, 10, 2.0, "10.00", "l", "n", 5], ["-D", 2, 5, 2.5, "1", "x", "x", 1],
                ["+I", 3, 7, 3.0, "10", "x", "x", 2]),
            rows!(c; ["-U", 1, 3, 4.0, "3", "a", "b", 9], ["+I", 2, 1, 1.0, "2", "y", null, 1],
                ["-D", 3, null, null, null, null, null, null]),
            rows!(c; ["+U", 1, 4, 8.0, "0.5", "c", null, 8]),
        ],
        &rows!(&["id", "s", "p", "dc", "l", "n", "mx"]; [1, 11, 4.0, "1.67", "c", null, 8],
            [2, -4, 1.0, "2", "y", null, 1], [3, 7, 3.0, "10", null, "x", 2]),
    );
    let table = Table::of(&[("m", "INT")], &[AGGREGATION, ("fields.m.aggregate-function", "max")]);
    let c = &["_kind", "id", "m"];
    let error = table.fails(&[rows!(c; ["+I", 1, 1], ["+I", 2, 2]), rows!(c; ["-D", 2, 5])]);
    assert_eq!(error.group, Some(1));
    assert!(error.to_string().contains("fields.m.ignore-retract"), "{error}");
}

#[test]
fn aggregation_when_remove_on_delete_then_adds_build_on_the_delete() {
    let c = &["_kind", "id", "s", "mx", "l"];
    let commits = [
        rows!(c; ["+I", 1, 10, 1, "a"], ["+I", 2, 20, 2, "b"], ["+I", 3, 30, 3, "c"]),
        rows!(c; ["-D", 1, 0, 0, "del"], ["+I", 2, 5, 5, "upd"], ["-D", 4, 4, 4, "never"]),
        rows!(c; ["+I", 1, 1, 1, null], ["-D", 2, 0, 0, "del"], ["+I", 3, 3, 9, "c3"]),
        rows!(c; ["+I", 3, 1, 1, "c4"], ["+I", 5, 5, 5, "e"], ["-D", 5, 0, 0, "e"], ["+I", 5, 1, 1, "e2"]),
    ];
    let columns = [("s", "INT"), ("mx", "INT"), ("l", "STRING")];
    let functions = [
        AGGREGATION,
        ("fields.s.aggregate-function", "sum"),
        ("fields.mx.aggregate-function", "max"),
        ("aggregation.remove-record-on-delete", "true"),
    ];
    Table::of(&columns, &functions)
        .gives(&commits, &rows!(&["id", "s", "mx", "l"]; [1, 1, 1, "del"], [3, 34, 9, "c4"], [5, 1, 1, "e2"]));
    // first_value keeps what it started with, also when that was removed (Java 1.4.2).
    let c = &["_kind", "id", "f", "s"];
    let functions = [
        AGGREGATION,
        ("fields.f.aggregate-function", "first_value"),
        ("fields.s.aggregate-function", "sum"),
        ("aggregation.remove-record-on-delete", "true"),
    ];
    Table::of(&[("f", "STRING"), ("s", "INT")], &functions).gives(
        &[
            rows!(c; ["+I", 1, "a", 1], ["-D", 2, "d", 1]),
            rows!(c; ["-D", 1, "d", 2], ["+I", 2, "b", 2]),
            rows!(c; ["+I", 1, "b", 3], ["+I", 2, "c", 3]),
        ],
        &rows!(&["id", "f", "s"]; [1, "d", 5], [2, "b", 6]),
    );
}

#[test]
fn first_and_last_when_nulls_then_as_java() {
    let c = &["id", "s", "d", "ts", "b", "tm", "y"];
    let n = Value::Null;
    Table::of(
        &[
            ("s", "STRING"),
            ("d", "DATE"),
            ("ts", "TIMESTAMP(6)"),
            ("b", "BOOLEAN"),
            ("tm", "TIME(0)"),
            ("y", "VARBINARY(10)"),
        ],
        &[
            AGGREGATION,
            ("fields.s.aggregate-function", "first_value"),
            ("fields.d.aggregate-function", "first_non_null_value"),
            ("fields.ts.aggregate-function", "last_value"),
            ("fields.b.aggregate-function", "last_non_null_value"),
            ("fields.tm.aggregate-function", "first_not_null_value"),
            ("fields.y.aggregate-function", "first_non_null_value"),
        ],
    )
    .gives(
        &[
            rows!(c; [1, "aß", "2023-12-31", "2024-01-01T00:00:00.000002", false, "11:59:59", "0b"],
                [2, "q", "2020-02-02", "2020-02-02T02:02:02", true, "02:02:02", "02"], [3, n, n, n, n, n, n]),
            rows!(c; [1, "m", "2024-01-01", "2024-01-01T00:00:00.000001", true, "12:00:00", "0a"],
                [2, n, n, n, n, n, n], [3, "z", "1969-01-01", "1969-01-01T00:00:00", false, "00:00:01", "ff"]),
            rows!(c; [1, n, n, n, n, n, n], [3, "zz", "1969-01-02", "1968-01-01T00:00:00", false, "00:00:02", "80"]),
            rows!(c; [2, "w", n, "2000-01-01T00:00:00", n, n, "77"], [3, "new", "2011-11-11", n, true, "03:03:03", n]),
        ],
        &rows!(c; [1, "aß", "2023-12-31", n, true, "11:59:59", "0b"],
            [2, "q", "2020-02-02", "2000-01-01T00:00:00", true, "02:02:02", "02"],
            [3, n, "1969-01-01", n, true, "00:00:01", "ff"]),
    );
}

#[test]
fn max_min_and_booleans_when_other_types_then_as_java() {
    let c = &["id", "s", "d", "ts", "b", "tm", "y", "f"];
    let columns = [
        ("s", "STRING"),
        ("d", "DATE"),
        ("ts", "TIMESTAMP(6)"),
        ("b", "BOOLEAN"),
        ("tm", "TIME(0)"),
        ("y", "BYTES"),
        ("f", "DOUBLE"),
    ];
    let n = Value::Null;
    let commits = [
        rows!(c; [1, "m", "2024-01-01", "2024-01-01T00:00:00.000001", true, "12:00:00", "7f", -0.0],
            [2, n, n, n, n, n, n, n], [3, "z", "1969-01-01", "1969-01-01T00:00:00", false, "00:00:01", "ff", 1.5]),
        rows!(c; [1, "aß", "2023-12-31", "2024-01-01T00:00:00.000002", false, "11:59:59", "80", 0.0],
            [2, "q", "2020-02-02", "2020-02-02T02:02:02", true, "02:02:02", "02", 1.0], [3, n, n, n, n, n, n, n]),
        rows!(c; [1, n, n, n, n, n, n, n],
            [3, "zz", "1969-01-02", "1968-01-01T00:00:00", false, "00:00:02", "80", -2.0]),
    ];
    Table::of(
        &columns,
        &[AGGREGATION, ("fields.default-aggregate-function", "max"), ("fields.b.aggregate-function", "bool_and")],
    )
    .gives(
        &commits,
        &rows!(c; [1, "m", "2024-01-01", "2024-01-01T00:00:00.000002", false, "12:00:00", "80", 0.0],
            [2, "q", "2020-02-02", "2020-02-02T02:02:02", true, "02:02:02", "02", 1.0],
            [3, "zz", "1969-01-02", "1969-01-01T00:00:00", false, "00:00:02", "ff", 1.5]),
    );
    Table::of(
        &columns,
        &[AGGREGATION, ("fields.default-aggregate-function", "min"), ("fields.b.aggregate-function", "bool_or")],
    )
    .gives(
        &commits,
        &rows!(c; [1, "aß", "2023-12-31", "2024-01-01T00:00:00.000001", true, "11:59:59", "7f", -0.0],
            [2, "q", "2020-02-02", "2020-02-02T02:02:02", true, "02:02:02", "02", 1.0],
            [3, "z", "1969-01-01", "1968-01-01T00:00:00", false, "00:00:01", "80", -2.0]),
    );
}

#[test]
fn listagg_when_blanks_and_duplicates_then_as_java() {
    let c = &["id", "l", "m", "n", "o"];
    let n = Value::Null;
    Table::of(
        &[("l", "STRING"), ("m", "STRING"), ("n", "STRING"), ("o", "STRING")],
        &[
            AGGREGATION,
            ("fields.default-aggregate-function", "listagg"),
            ("fields.m.list-agg-delimiter", " | "),
            ("fields.n.list-agg-delimiter", ";"),
            ("fields.n.distinct", "true"),
            ("fields.o.distinct", "true"),
        ],
    )
    .gives(
        &[
            rows!(c; [1, "a", "a", "a;b", "x"], [2, n, n, n, n], [3, "", " ", "", "p"], [4, n, n, n, "b,b"]),
            rows!(c; [1, "b", "b", "b;c;b", "x"], [2, "q", "q", "q", "q"], [3, "r", "r", " r", "p"],
                [4, "", n, n, "b,c,c, c"]),
            rows!(c; [1, n, "", "ab;a", n], [2, "", "q", " ", "q"], [3, "r", "r", "r; r", "p,q"],
                [4, n, n, n, ",,c,"]),
        ],
        &rows!(c; [1, "a,b", "a | b", "a;b;c;ab", "x"], [2, "q", "q | q", "q; ", "q"],
            [3, "r,r", "  | r | r", " r;r", "p,q"], [4, "", n, n, "b,b,c, c"]),
    );
}

fn list(element: Value) -> Value {
    json!({"type": "ARRAY", "element": element})
}

fn nested_row() -> Value {
    json!({"type": "ROW", "fields": [
        {"id": 50, "name": "k", "type": "INT"},
        {"id": 51, "name": "t", "type": "STRING"},
        {"id": 52, "name": "v", "type": "INT"}
    ]})
}

/// Nested rows from tuples; null stays null.
fn nested(tuples: Value) -> Value {
    let row = |tuple: &Value| match tuple {
        Value::Null => Value::Null,
        tuple => rows(&["k", "t", "v"], std::slice::from_ref(tuple)).remove(0),
    };
    match tuples {
        Value::Null => Value::Null,
        tuples => Value::Array(tuples.as_array().unwrap().iter().map(row).collect()),
    }
}

macro_rules! nested {
    ($($value:tt)*) => { nested(json!([$($value)*])) };
}

#[test]
fn collect_when_distinct_and_retracted_then_as_java() {
    let c = &["id", "c", "u", "s"];
    let table = Table::new(
        &[("c", list(json!("STRING"))), ("u", list(json!("INT"))), ("s", list(list(json!("INT"))))],
        &[
            AGGREGATION,
            ("fields.default-aggregate-function", "collect"),
            ("fields.u.distinct", "true"),
            ("fields.s.distinct", "true"),
        ],
    );
    table.gives(
        &[
            rows!(c; [1, ["a", "b"], [3, 3, null, null, 1], [[1], [1]]], [2, null, null, null]),
            rows!(c; [1, ["b", "c"], null, null], [2, ["x"], [3, 3], [[1], [1], null, null]]),
            rows!(c; [1, ["a"], [1, 2, 2], [[2, 1], [1]]], [2, null, null, null], [3, [], [], null]),
        ],
        &rows!(c; [1, ["a", "b", "b", "c", "a"], [3, null, 1, 2], [[1], [2, 1]]], [2, ["x"], [3], [[1], null]],
            [3, [], [], null]),
    );
    let c = &["_kind", "id", "c", "u", "s"];
    table.gives(
        &[
            rows!(c; ["+I", 1, ["x", "y", "x"], [1, 2], [[1], [2]]], ["-D", 2, ["x"], [1], null]),
            rows!(c; ["-D", 1, ["x", "zz", "y"], [2, 2], [[1], null]], ["+I", 2, ["y"], [2], null]),
        ],
        &rows!(&["id", "c", "u", "s"]; [1, ["x"], [1], [[2]]], [2, ["y"], [2], null]),
    );
}

#[test]
fn merge_map_when_merged_and_retracted_then_as_java() {
    let c = &["_kind", "id", "m"];
    let table = Table::new(
        &[("m", json!({"type": "MAP", "key": "STRING NOT NULL", "value": "INT"}))],
        &[AGGREGATION, ("fields.m.aggregate-function", "merge_map")],
    );
    table.gives(
        &[
            rows!(c; ["+I", 1, {"a": 1, "b": 2}], ["+I", 2, null], ["-D", 4, {"a": 1}], ["+I", 5, {"q": 1}]),
            rows!(c; ["+I", 1, {"b": 20, "c": 3}], ["+I", 2, {"x": 1}], ["+I", 4, {"b": 1}], ["-D", 5, {"q": 7}]),
            rows!(c; ["+I", 1, null], ["+I", 2, {"x": 2, "y": null}], ["+I", 3, {"k": 1}]),
            rows!(c; ["-U", 1, {"a": 9, "z": 1}]),
        ],
        &rows!(&["id", "m"]; [1, {"b": 20, "c": 3}], [2, {"x": 2, "y": null}], [3, {"k": 1}], [4, {"b": 1}], [5, {}]),
    );
}

#[test]
fn merge_map_with_keytime_when_times_differ_then_newer_wins() {
    let value = json!({"type": "ROW", "fields": [
        {"id": 60, "name": "v", "type": "INT"}, {"id": 61, "name": "ts", "type": "STRING"},
        {"id": 62, "name": "w", "type": "INT"}
    ]});
    let map = json!({"type": "MAP", "key": "STRING NOT NULL", "value": value});
    let options = [AGGREGATION, ("fields.m.aggregate-function", "merge_map_with_keytime"), ("fields.m.ts-field", "ts")];
    let table = Table::new(&[("m", map.clone())], &options);
    let at = |v: i32, ts: Value| json!({"v": v, "ts": ts, "w": v});
    let none = Value::Null;
    let c = &["id", "m"];
    table.gives(
        &[
            vec![
                json!({"id": 1, "m": {"a": at(1, json!("5")), "b": at(2, json!("5")), "c": at(3, none.clone()), "d": null,
                    "e": at(5, json!("9")), "h": at(7, json!("3"))}}),
                json!({"id": 2, "m": {"z": null, "y": at(1, none.clone())}}),
                json!({"id": 3, "m": {"c": at(3, none.clone()), "d": null}}),
            ],
            vec![
                json!({"id": 1, "m": {"a": at(10, json!("5")), "b": at(20, json!("10")), "c": at(30, json!("1")),
                    "d": at(40, json!("1")), "e": null, "f": at(6, none.clone()), "g": null, "h": at(8, json!("4"))}}),
                json!({"id": 2, "m": null}),
                json!({"id": 3, "m": {"c": at(10, none.clone()), "d": null}}),
            ],
        ],
        &rows(
            c,
            &[
                json!([1, {"a": at(1, json!("5")), "b": at(2, json!("5")), "c": at(30, json!("1")),
                    "d": at(40, json!("1")), "h": at(8, json!("4"))}]),
                json!([2, {"z": null, "y": at(1, none.clone())}]),
                json!([3, {"c": at(3, none)}]),
            ],
        ),
    );
    // The last field is the default, and it is no text.
    let error = Table::new(&[("m", map)], &options[..2]).plan(&["m"]).unwrap_err().to_string();
    assert!(error.contains("ts-field"), "{error}");
}

#[test]
fn nested_update_when_no_key_then_rows_are_appended_up_to_the_limit() {
    let c = &["id", "r", "l"];
    let columns = [("r", list(nested_row())), ("l", list(nested_row()))];
    let options = [AGGREGATION, ("fields.default-aggregate-function", "nested_update"), ("fields.l.count-limit", "3")];
    let table = Table::new(&columns, &options);
    let (one, two) = (nested!([1, "a", 1], [2, "b", 2]), nested!([1, "a", 10], [3, "c", 3]));
    let four = nested!([1, "a", 1], [2, "b", 2], [3, "c", 3], null);
    table.gives(
        &[
            rows!(c; [1, one, one], [2, null, null], [3, four, four], [4, [null], nested!([null, null, null])]),
            rows!(c; [1, two, two], [2, one, one], [3, one, one],
                [4, nested!(null, [1, "x", 9]), nested!(null, null, [1, "x", 9], [2, "x", 9], [3, "x", 9])]),
        ],
        &rows!(c;
            [1, nested!([1, "a", 1], [2, "b", 2], [1, "a", 10], [3, "c", 3]), nested!([1, "a", 1], [2, "b", 2], [1, "a", 10])],
            [2, one, one],
            [3, nested!([1, "a", 1], [2, "b", 2], [3, "c", 3], [1, "a", 1], [2, "b", 2]), four],
            [4, nested!([1, "x", 9]), nested!([null, null, null], [1, "x", 9], [2, "x", 9])]),
    );
    let c = &["_kind", "id", "r", "l"];
    table.gives(
        &[
            rows!(c; ["+I", 1, nested!([1, "a", 1], [2, "b", 2], [1, "a", 1], null), null]),
            rows!(c; ["-D", 1, nested!([1, "a", 1], [2, "b", 3]), nested!([1, "a", 1])]),
        ],
        &rows!(&["id", "r", "l"]; [1, nested!([2, "b", 2]), null]),
    );
}

#[test]
fn nested_update_when_key_then_rows_are_replaced() {
    let c = &["_kind", "id", "r"];
    let columns = [("r", list(nested_row()))];
    let options = [AGGREGATION, ("fields.r.aggregate-function", "nested_update"), ("fields.r.nested-key", "k")];
    Table::new(&columns, &options).gives(
        &[
            rows!(c; ["+I", 1, nested!([1, "a", 1], [2, "b", 2])], ["+I", 2, null],
                ["+I", 3, nested!([1, "x", 1], [1, "y", 2], [2, "z", 2])],
                ["+I", 4, nested!([1, "x", 1], [1, "y", 2], [null, "z", 3])]),
            rows!(c; ["+I", 1, nested!([1, "a", 10], [3, "c", 3])], ["+I", 2, nested!([5, "e", 5])],
                ["-D", 3, nested!([2, "other", 1], [9, "q", 1])],
                ["+I", 4, nested!([null, "w", 3], [2, "q", 1])]),
            rows!(c; ["+I", 1, nested!([2, "b", null], [4, "d", 4])], ["+I", 2, nested!([5, "f", 6], [5, "e", 7])]),
        ],
        &rows!(&["id", "r"]; [1, nested!([1, "a", 10], [2, "b", null], [3, "c", 3], [4, "d", 4])],
            [2, nested!([5, "e", 7])], [3, nested!([1, "y", 2])],
            [4, nested!([1, "y", 2], [null, "w", 3], [2, "q", 1])]),
    );
}

#[test]
fn nested_update_when_key_and_limit_then_limit_caps_new_keys_only() {
    // Case C47; Java cuts the input before it looks at keys.
    let c = &["id", "r"];
    Table::new(
        &[("r", list(nested_row()))],
        &[
            AGGREGATION,
            ("fields.r.aggregate-function", "nested_update"),
            ("fields.r.nested-key", "k"),
            ("fields.r.count-limit", "3"),
        ],
    )
    .gives(
        &[
            rows!(c; [1, nested!([1, "a", 1], [2, "b", 2])]),
            rows!(c; [1, nested!([1, "a", 10], [3, "c", 3])]),
            rows!(c; [1, nested!([4, "d", 4], [2, "b", null])]),
        ],
        &rows!(c; [1, nested!([1, "a", 10], [2, "b", null], [3, "c", 3])]),
    );
}

#[test]
fn nested_update_when_sequence_and_null_keys_then_as_said() {
    let c = &["id", "r"];
    let columns = [("r", list(nested_row()))];
    let options = |null: &'static str| {
        [
            AGGREGATION,
            ("fields.r.aggregate-function", "nested_update"),
            ("fields.r.nested-key", "k"),
            ("fields.r.nested-sequence-field", "v"),
            ("fields.r.nested-key-null-strategy", null),
        ]
    };
    let commits = [
        rows!(c; [1, nested!([1, "five", 5], [2, "null", null], [3, "equal", 3], [null, "n", 1])]),
        rows!(c; [1, nested!([1, "lower", 4], [2, "now", 0], [3, "later", 3], [null, "m", 1])]),
        rows!(c; [1, nested!([1, "null", null])]),
    ];
    Table::new(&columns, &options("merge"))
        .gives(&commits, &rows!(c; [1, nested!([1, "five", 5], [2, "now", 0], [3, "later", 3], [null, "m", 1])]));
    Table::new(&columns, &options("ignore"))
        .gives(&commits, &rows!(c; [1, nested!([1, "five", 5], [2, "now", 0], [3, "later", 3])]));
    let error = Table::new(&columns, &options("error")).fails(&commits);
    assert!(error.to_string().contains("column r"), "{error}");
}

#[test]
fn nested_partial_update_when_fields_are_null_then_kept() {
    let c = &["id", "r"];
    Table::new(
        &[("r", list(nested_row()))],
        &[AGGREGATION, ("fields.r.aggregate-function", "nested_partial_update"), ("fields.r.nested-key", "k")],
    )
    .gives(
        &[
            rows!(c; [1, nested!([1, "x", null], [1, null, 2], null, [2, "q", 1])],
                [2, nested!([1, "x", null], [1, null, 2], null)], [3, null]),
            rows!(c; [1, nested!([1, null, 7], [3, "n", null], [2, null, null], [3, null, 5])], [3, null]),
            rows!(c; [2, null], [1, nested!([2, "qq", null])]),
        ],
        &rows!(c; [1, nested!([1, "x", 7], [2, "qq", 1], [3, "n", 5])],
            [2, nested!([1, "x", null], [1, null, 2], null)], [3, null]),
    );
}

#[test]
fn sketches_when_joined_then_bytes_of_java() {
    let c = &["id", "x"];
    for (function, a, b, third, ab, bc) in [
        (
            "theta_sketch",
            "02030300001acc93030000000000803f15f97dcbbd86a105c397fc1281709d1eba40b3c1da06695d",
            "02030300001acc93020000000000803f40de2ee1c9db3d08ba40b3c1da06695d",
            "01030300003acc93d82d23774bb9357e",
            "02030300001acc93040000000000803f15f97dcbbd86a10540de2ee1c9db3d08c397fc1281709d1eba40b3c1da06695d",
            "02030300001acc93030000000000803f40de2ee1c9db3d08ba40b3c1da06695dd82d23774bb9357e",
        ),
        (
            "hll_sketch",
            "0201070c030803002bf2fb06862ff90d75816607",
            "0201070c030802007581660781bc5d06",
            "0301070c050800010c000000c3dd5104c4b59f07464ab704c87a2404ae3c8811b05b4612cef05b1ff671f206b83ff9076ec53406db522d\
             047c74b907",
            "0201070c030804007581660781bc5d062bf2fb06862ff90d",
            "0301070c050800010e0000007581660781bc5d06c3dd5104c4b59f07464ab704c87a2404ae3c8811b05b4612cef05b1ff671f206b83ff9\
             076ec53406db522d047c74b907",
        ),
        (
            "rbm32",
            "3a300000010000000000020010000000010005000900",
            "3a300000020000000000010001000000180000001c000000050006007011",
            "3b3000000100003100010064003100",
            "3a300000020000000000030001000000180000002000000001000500060009007011",
            "3b300100010000330001000000020005000100640031007011",
        ),
        (
            "rbm64",
            "01010000000000000004000000000000000000000000000000000001000000fe010000000102030000000100050009000100000000000000\
             0000000000000000",
            "010200000000000000000200030000000000010004000000000000000000000000000000000004000000000000012a0501000000000000\
             0001000000fe020000000102020000000500060001020100000000f202000000000000000000000001000000",
            "0102000000000000000002000200000000010004000000000000000000010000000000000004000000000001000000000000000000000001\
             000000fe020000000102010000000000010201000000070002000000000000000000000001000000",
            "010200000000000000000200030000000000010004000000000000000000000000000000000004000000000000012a0501000000000000\
             0001000000fe02000000010204000000010005000600090001020100000000f202000000000000000000000001000000",
            "01030000000000000000020002000000000100000200000000010004000000000000000000000000000000000004000000000000012a05\
             010000000000000004000000000001000000020000000000000001000000fe0300000001020300000005000600070001020100000000f2\
             010201000000000003000000000000000000000002000000",
        ),
    ] {
        let table = Table::of(&[("x", "VARBINARY(1000)")], &[AGGREGATION, ("fields.x.aggregate-function", function)]);
        table.gives(
            &[
                rows!(c; [1, a], [2, null], [4, third]),
                rows!(c; [1, b], [2, b]),
                rows!(c; [1, null], [2, third], [3, third], [4, third]),
            ],
            &rows!(c; [1, ab], [2, bc], [3, third], [4, third]),
        );
        let error = table.fails(&[rows!(c; [1, a], [2, "0102"]), rows!(c; [2, "0103"])]);
        assert_eq!((error.group, error.error.kind()), (Some(1), crate::ErrorKind::Corrupt), "{error}");
    }
}

#[test]
fn aggregation_when_sequence_field_then_its_column_is_the_last_value() {
    let c = &["_kind", "id", "q", "a"];
    Table::of(
        &[("q", "INT"), ("a", "INT")],
        &[AGGREGATION, ("sequence.field", "q"), ("fields.default-aggregate-function", "sum")],
    )
    .gives(
        &[rows!(c; ["+I", 1, 1, 1], ["+I", 2, 1, 1]), rows!(c; ["-D", 1, 2, 2], ["+I", 2, 5, 1])],
        &rows!(&["id", "q", "a"]; [1, null, -1], [2, 5, 2]),
    );
}

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
    let columns = [("g", json!("INT")), ("a", list(json!("INT"))), ("m", json!("STRING")), ("x", json!("BYTES"))];
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
