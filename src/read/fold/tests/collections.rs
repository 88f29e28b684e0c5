//! Functions of lists, maps and serialised sets.

use serde_json::{Value, json};

use super::{AGGREGATION, Table, objects};

fn list(element: &Value) -> Value {
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
        tuple => objects(&["k", "t", "v"], std::slice::from_ref(tuple)).remove(0),
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
        &[("c", list(&json!("STRING"))), ("u", list(&json!("INT"))), ("s", list(&list(&json!("INT"))))],
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
        &objects(
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
    let columns = [("r", list(&nested_row())), ("l", list(&nested_row()))];
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
    let columns = [("r", list(&nested_row()))];
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
        &[("r", list(&nested_row()))],
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
    let columns = [("r", list(&nested_row()))];
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
        &[("r", list(&nested_row()))],
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
