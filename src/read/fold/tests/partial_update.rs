//! Merge engine partial-update, and what a plan refuses.

use serde_json::json;

use super::{AGGREGATION, PARTIAL, Table};

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
        (vec![PARTIAL, ("fields.id.sequence-group", "s")], ["id", "key column"]),
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
