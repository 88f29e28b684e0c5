//! Merge engine aggregation: functions of single values.

use serde_json::{Value, json};

use super::{AGGREGATION, Table};

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
