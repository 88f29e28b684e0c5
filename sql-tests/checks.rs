//! Trials of the runner itself: a suite that compares wrongly is worse than none.

use std::env;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::builder::{Int32Builder, MapBuilder, StringBuilder};
use datafusion::arrow::array::types::Int32Type;
use datafusion::arrow::array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float32Array,
    Float64Array, Int8Array, Int32Array, Int64Array, ListArray, RecordBatch, StringArray, StringViewArray, StructArray,
    Time32MillisecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use libtest_mimic::{Failed, Trial};
use tidelake::spec::{TableSchema, types::arrow_schema};

use crate::answer::{Answer, Asked};
use crate::cells;
use crate::compare::{compare, order_of};
use crate::fixtures::{self, Group, entries, file_name};
use crate::json::Json;
use crate::list::{Listed, TruthList};
use crate::values::{Value, from_array, from_json};

/// All trials of the runner.
pub fn trials(groups: &[Group], list: &TruthList) -> Vec<Trial> {
    let mut trials: Vec<Trial> = [
        ("value_equals_its_text_in_an_answer", value_equals_its_text_in_an_answer as fn()),
        ("value_differs_in_its_last_bit", value_differs_in_its_last_bit),
        ("nested_value_equals_its_text_in_an_answer", nested_value_equals_its_text_in_an_answer),
        ("json_text_equals_itself_written_otherwise", json_text_equals_itself_written_otherwise),
        ("value_of_another_type_does_not_fit", value_of_another_type_does_not_fit),
        ("rows_without_order_by_are_a_bag", rows_without_order_by_are_a_bag),
        ("rows_with_order_by_follow_its_columns", rows_with_order_by_follow_its_columns),
        ("set_column_has_no_order_inside", set_column_has_no_order_inside),
        ("names_must_be_those_of_the_answer", names_must_be_those_of_the_answer),
        ("order_by_is_found_at_the_outermost_level", order_by_is_found_at_the_outermost_level),
        ("first_line_tells_how_it_was_asked", first_line_tells_how_it_was_asked),
        ("json_keeps_order_and_digits", json_keeps_order_and_digits),
        ("list_knows_names_wildcards_and_sets", list_knows_names_wildcards_and_sets),
        ("cells_follow_the_conventions", cells_follow_the_conventions),
        ("ignored_part_stands_for_any_text", ignored_part_stands_for_any_text),
    ]
    .into_iter()
    .map(|(name, check)| {
        let run = move || {
            check();
            Ok(())
        };
        Trial::test(format!("runner::{name}"), run)
    })
    .collect();
    let groups: Arc<[Group]> = groups.into();
    let (all, whole) = (Arc::clone(&groups), Arc::clone(&groups));
    trials.push(Trial::test("runner::every_answer_can_be_read", move || told(&unreadable_answers(&all))));
    trials.push(Trial::test("runner::answers_of_whole_tables_fit_their_schemas", move || told(&unfit_answers(&whole))));
    if env::var_os(fixtures::FOLDERS).is_none() {
        let list = list.clone();
        trials.push(Trial::test("runner::every_line_of_the_list_names_an_answer", move || {
            told(&list.idle_lines(&answer_names(&groups)))
        }));
    }
    trials
}

fn told(complaints: &[String]) -> Result<(), Failed> {
    if complaints.is_empty() { Ok(()) } else { Err(Failed::from(complaints.join("\n"))) }
}

fn answer_names(groups: &[Group]) -> Vec<String> {
    let names = |group: &Group| {
        let names: Vec<String> = group.answers.iter().map(|(name, _)| format!("{}::{name}", group.name)).collect();
        names
    };
    groups.iter().flat_map(names).collect()
}

fn unreadable_answers(groups: &[Group]) -> Vec<String> {
    let answers = groups.iter().flat_map(|group| &group.answers);
    answers
        .filter_map(|(_, path)| {
            let answer = Answer::read(path);
            answer.and_then(|answer| order_of(&answer.sql).map_err(|e| format!("{}: {e}", path.display()))).err()
        })
        .collect()
}

/// Values of answers that cannot stand in the column they are given for: of `SELECT * FROM t`, by t's latest schema.
fn unfit_answers(groups: &[Group]) -> Vec<String> {
    let mut complaints = vec![];
    for group in groups {
        for (name, path) in &group.answers {
            let Ok(answer) = Answer::read(path) else { continue };
            let Some(schema) = whole_table(&answer).and_then(|table| latest_schema(group, table)) else { continue };
            // A variant is shown as JSON, and held as two binaries.
            let fields = schema
                .fields()
                .iter()
                .zip(0..)
                .filter(|(f, _)| !matches!(f.data_type(), DataType::Struct(s) if s.find("metadata").is_some()));
            for (field, i) in fields {
                let values = answer.rows.iter().filter_map(|row| Some(from_json(row.get(i)?, field.data_type())));
                complaints
                    .extend(values.filter(is_unfit).map(|v| format!("{}::{name} {}: {v}", group.name, field.name())));
            }
        }
    }
    complaints
}

fn is_unfit(value: &Value) -> bool {
    match value {
        Value::Unfit(_) => true,
        Value::List(values) => values.iter().any(is_unfit),
        Value::Map(entries) => entries.iter().any(|(key, value)| is_unfit(key) || is_unfit(value)),
        _ => false,
    }
}

fn whole_table(answer: &Answer) -> Option<&str> {
    let from = answer.sql.strip_prefix("SELECT * FROM ").filter(|_| answer.asked == Asked::Plain)?;
    let table = from.split_whitespace().next()?;
    let table = table.rsplit('.').next().unwrap_or(table);
    let of_today = !["AS OF", "OPTIONS"].iter().any(|word| answer.sql.contains(word));
    (of_today && !table.contains(['$', '`'])).then_some(table)
}

fn latest_schema(group: &Group, table: &str) -> Option<Arc<Schema>> {
    let folder = group.warehouse.join(format!("{}.db", group.database)).join(table).join("schema");
    let ids = entries(&folder).ok()?.into_iter().filter_map(|path| {
        let id: u64 = file_name(&path).strip_prefix("schema-")?.parse().ok()?;
        Some((id, path))
    });
    let (_, path) = ids.max()?;
    let schema = TableSchema::from_json(&std::fs::read(path).ok()?).ok()?;
    Some(arrow_schema(&schema.fields))
}

fn parsed(json: &str, data_type: &DataType) -> Value {
    from_json(&Json::parse(json).unwrap(), data_type)
}

/// Asserts that the only value of the array is the one that the JSON text tells.
fn assert_equal(array: impl Array + 'static, json: &str) {
    let array: ArrayRef = Arc::new(array);
    assert_eq!(from_array(&array, 0), parsed(json, array.data_type()), "{json} as {}", array.data_type());
}

fn assert_unequal(array: impl Array + 'static, json: &str) {
    let array: ArrayRef = Arc::new(array);
    assert_ne!(from_array(&array, 0), parsed(json, array.data_type()), "{json} as {}", array.data_type());
}

fn value_equals_its_text_in_an_answer() {
    assert_equal(BooleanArray::from(vec![true]), "true");
    assert_equal(Int8Array::from(vec![-128]), "-128");
    assert_equal(Int64Array::from(vec![i64::MIN]), "-9223372036854775808");
    assert_equal(UInt64Array::from(vec![3]), "3");
    assert_equal(Int32Array::from(vec![None]), "null");
    assert_equal(Float32Array::from(vec![0.1]), "0.1");
    assert_equal(Float32Array::from(vec![f32::MAX]), "3.4028235E38");
    assert_equal(Float32Array::from(vec![1e-45]), "1.4E-45");
    assert_equal(Float64Array::from(vec![5e-324]), "4.9E-324");
    assert_equal(Float64Array::from(vec![-0.0]), "-0.0");
    assert_equal(Float64Array::from(vec![f64::NAN]), "\"NaN\"");
    assert_equal(Float64Array::from(vec![f64::NEG_INFINITY]), "\"-Infinity\"");
    let decimal = |value, precision, scale| {
        Decimal128Array::from(vec![value]).with_precision_and_scale(precision, scale).unwrap()
    };
    assert_equal(decimal(150, 5, 2), "\"1.50\"");
    assert_equal(decimal(-1, 38, 10), "\"-0.0000000001\"");
    assert_equal(decimal(7, 18, 0), "\"7\"");
    assert_equal(StringArray::from(vec!["é😀\n\"\\"]), r#""é\ud83d\ude00\n\"\\""#);
    assert_equal(StringViewArray::from(vec!["blank "]), "\"blank \"");
    assert_equal(BinaryViewArray::from(vec![[0u8, 255].as_slice()]), "\"0x00ff\"");
    assert_equal(Date32Array::from(vec![19_724]), "\"2024-01-02\"");
    assert_equal(Date32Array::from(vec![-719_162]), "\"0001-01-01\"");
    assert_equal(Date32Array::from(vec![2_932_897]), "\"+10000-01-01\"");
    assert_equal(Time32MillisecondArray::from(vec![36_660_000]), "\"10:11\"");
    assert_equal(Time32MillisecondArray::from(vec![36_672_120]), "\"10:11:12.120\"");
    assert_equal(TimestampMillisecondArray::from(vec![-1]), "\"1969-12-31T23:59:59.999\"");
    assert_equal(TimestampMillisecondArray::from(vec![0]), "\"1970-01-01T00:00\"");
    assert_equal(TimestampMicrosecondArray::from(vec![1]), "\"1970-01-01T00:00:00.000001\"");
    assert_equal(TimestampNanosecondArray::from(vec![-1]), "\"1969-12-31T23:59:59.999999999\"");
    let instant = TimestampMicrosecondArray::from(vec![1_500_000]).with_timezone("UTC");
    assert_equal(instant, "\"1970-01-01T00:00:01.500Z\"");
    assert_equal(TimestampMillisecondArray::from(vec![0]).with_timezone("UTC"), "\"1970-01-01T00:00:00Z\"");
    let dictionary: DictionaryArray<Int32Type> = vec!["a"].into_iter().collect();
    assert_equal(dictionary, "\"a\"");
}

fn value_differs_in_its_last_bit() {
    assert_unequal(Float64Array::from(vec![0.1 + 0.2]), "0.3");
    assert_unequal(Float64Array::from(vec![0.0]), "-0.0");
    assert_unequal(Float32Array::from(vec![16_777_216.0]), "1.6777218E7");
    assert_unequal(StringArray::from(vec!["a"]), "\"a \"");
    assert_unequal(StringArray::from(vec![""]), "null");
    assert_unequal(TimestampNanosecondArray::from(vec![1]), "\"1970-01-01T00:00\"");
    assert_unequal(Decimal128Array::from(vec![150]).with_precision_and_scale(5, 2).unwrap(), "\"1.5\"");
}

fn numbers(lists: Vec<Option<Vec<Option<i32>>>>) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists))
}

fn nested_value_equals_its_text_in_an_answer() {
    assert_equal(numbers(vec![Some(vec![Some(1), None])]), "[1,null]");
    assert_equal(numbers(vec![Some(vec![])]), "[]");
    assert_equal(numbers(vec![None]), "null");
    assert_unequal(numbers(vec![Some(vec![Some(1), Some(2)])]), "[2,1]");
    let row = StructArray::from(vec![
        (Arc::new(Field::new("a", DataType::Int32, true)), Arc::new(Int32Array::from(vec![7])) as ArrayRef),
        (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(StringArray::from(vec![None::<&str>])) as ArrayRef),
    ]);
    assert_equal(row.clone(), "[7,null]");
    assert_unequal(row, "null");
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    for (key, value) in [("b", Some(20)), ("a", None)] {
        map.keys().append_value(key);
        map.values().append_option(value);
    }
    map.append(true).unwrap();
    let map: ArrayRef = Arc::new(map.finish());
    assert_equal(Arc::clone(&map), r#"{"map":[["a",null],["b",20]]}"#);
    assert_unequal(map, r#"{"map":[["a",null],["b",21]]}"#);
}

fn json_text_equals_itself_written_otherwise() {
    let text = |text: &str| from_array(&(Arc::new(StringArray::from(vec![text])) as ArrayRef), 0);
    assert_eq!(text(r#"{"b":1,"a":[true]}"#), text(r#"{ "a": [true], "b": 1 }"#));
    assert_ne!(text(r#"{"a":1}"#), text(r#"{"a":2}"#));
    assert_ne!(text("[1,2]"), text("[2,1]"));
    assert_ne!(text("{x, y}"), text("{x,y}"));
}

fn value_of_another_type_does_not_fit() {
    for (json, data_type) in [
        ("1.5", DataType::Int32),
        ("\"1\"", DataType::Int64),
        ("1", DataType::Utf8),
        ("1", DataType::Decimal128(5, 2)),
        ("\"1.0\"", DataType::Float64),
        ("[1]", DataType::Int32),
    ] {
        assert!(matches!(parsed(json, &data_type), Value::Unfit(_)), "{json} as {data_type}");
    }
}

/// Two columns, `id` and `v`.
fn two_columns(rows: &[(i32, &str)]) -> (Arc<Schema>, Vec<RecordBatch>) {
    let (ids, texts): (Vec<i32>, Vec<&str>) = rows.iter().copied().unzip();
    let schema = Schema::new(vec![Field::new("id", DataType::Int32, true), Field::new("v", DataType::Utf8, true)]);
    let schema = Arc::new(schema);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(ids)), Arc::new(StringArray::from(texts))];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    // Several batches, as a result may come.
    let batches = (0..batch.num_rows()).map(|row| batch.slice(row, 1)).collect();
    (schema, batches)
}

fn compared(answer: &str, rows: &[(i32, &str)]) -> Result<(), String> {
    let answer = Answer::parse(answer).unwrap();
    let (schema, batches) = two_columns(rows);
    compare(&answer, &answer.sql, &schema, &batches, &[])
}

fn rows_without_order_by_are_a_bag() {
    let answer = "// SELECT * FROM t\n{\"id\":1,\"v\":\"a\"}\n{\"id\":2,\"v\":\"b\"}\n{\"id\":2,\"v\":\"b\"}\n";
    assert_eq!(compared(answer, &[(2, "b"), (1, "a"), (2, "b")]), Ok(()));
    let fewer = compared(answer, &[(2, "b"), (1, "a")]).unwrap_err();
    assert!(fewer.contains("expected 3 rows, got 2") && fewer.contains("missing (2, \"b\")"), "{fewer}");
    let twice = compared(answer, &[(2, "b"), (1, "a"), (1, "a")]).unwrap_err();
    assert!(twice.contains("missing (2, \"b\")") && twice.contains("unexpected (1, \"a\")"), "{twice}");
    let value = compared(answer, &[(2, "b"), (1, "x"), (2, "b")]).unwrap_err();
    assert!(value.contains("column v: expected \"a\", got \"x\""), "{value}");
    assert!(compared("// SELECT * FROM t\n", &[(1, "a")]).is_err());
    assert_eq!(compared("// SELECT * FROM t\n", &[]), Ok(()));
}

fn rows_with_order_by_follow_its_columns() {
    let rows = "{\"id\":1,\"v\":\"b\"}\n{\"id\":1,\"v\":\"a\"}\n{\"id\":2,\"v\":\"c\"}\n";
    let by_id = format!("// SELECT * FROM t ORDER BY id\n{rows}");
    assert_eq!(compared(&by_id, &[(1, "a"), (1, "b"), (2, "c")]), Ok(()), "rows of one id may change places");
    assert!(compared(&by_id, &[(2, "c"), (1, "b"), (1, "a")]).is_err());
    let by_both = format!("// SELECT * FROM t ORDER BY `id`, t.v DESC\n{rows}");
    assert!(compared(&by_both, &[(1, "a"), (1, "b"), (2, "c")]).is_err());
    let by_unseen = format!("// SELECT id, v FROM t ORDER BY length(v)\n{rows}");
    assert!(compared(&by_unseen, &[(1, "a"), (1, "b"), (2, "c")]).is_err(), "then every row has its place");
}

fn set_column_has_no_order_inside() {
    let answer = Answer::parse("// SELECT * FROM t\n{\"s\":[3,1,2]}\n").unwrap();
    let array = numbers(vec![Some(vec![Some(1), Some(2), Some(3)])]);
    let batch = RecordBatch::try_from_iter([("s", array)]).unwrap();
    let schema = batch.schema();
    let batches = [batch];
    assert!(compare(&answer, &answer.sql, &schema, &batches, &[]).is_err());
    assert_eq!(compare(&answer, &answer.sql, &schema, &batches, &["s".to_string()]), Ok(()));
}

fn names_must_be_those_of_the_answer() {
    assert_eq!(compared("// SELECT ID, V FROM t\n{\"ID\":1,\"V\":\"a\"}\n", &[(1, "a")]), Ok(()));
    assert_eq!(compared("// SELECT id, f(v) FROM t\n{\"id\":1,\"EXPR$1\":\"a\"}\n", &[(1, "a")]), Ok(()));
    assert!(compared("// SELECT v, id FROM t\n{\"v\":1,\"id\":\"a\"}\n", &[(1, "a")]).is_err());
    assert!(compared("// SELECT id FROM t\n{\"id\":1}\n", &[(1, "a")]).is_err());
}

fn order_by_is_found_at_the_outermost_level() {
    let keys = |sql: &str| order_of(sql).unwrap().map(|keys| keys.join("|"));
    assert_eq!(keys("SELECT 'x ORDER BY y' FROM t"), None);
    assert_eq!(keys("SELECT * FROM (SELECT * FROM t ORDER BY a)"), None);
    assert_eq!(keys("SELECT row_number() OVER (ORDER BY a) FROM t"), None);
    assert_eq!(keys("SELECT * FROM t /* ORDER BY z */ order by a desc, b.`c` NULLS LAST LIMIT 3").unwrap(), "a|c");
    assert_eq!(keys("SELECT * FROM t ORDER BY id, w[1]").unwrap(), "id|w[");
    assert_eq!(keys("SELECT * FROM t ORDER BY 2").unwrap(), "2");
}

fn first_line_tells_how_it_was_asked() {
    let read = |line: &str| {
        let answer = Answer::parse(line).unwrap();
        (answer.asked, answer.sql)
    };
    assert_eq!(read("// SELECT 'a: b'"), (Asked::Plain, "SELECT 'a: b'".to_string()));
    assert_eq!(read("// streaming: SELECT 1\n"), (Asked::Streaming, "SELECT 1".to_string()));
    assert_eq!(read("// earlier state: SELECT 1"), (Asked::EarlierState, "SELECT 1".to_string()));
    assert_eq!(
        read("// zone Asia/Shanghai: SELECT 1"),
        (Asked::Zone("Asia/Shanghai".to_string()), "SELECT 1".to_string())
    );
    assert_eq!(read("// not SQL: raw t"), (Asked::NotSql, "raw t".to_string()));
    assert!(Answer::parse("SELECT 1").is_err());
    assert!(Answer::parse("// SELECT 1\n{\"a\":1}\n{\"b\":1}").is_err());
}

fn json_keeps_order_and_digits() {
    let json = Json::parse(r#" {"b": [1.10, -0.0, true], "a": {"x": null}} "#).unwrap();
    let Json::Object(fields) = json else { panic!("an object was expected") };
    assert_eq!(fields[0].0, "b");
    let list = vec![Json::Number("1.10".to_string()), Json::Number("-0.0".to_string()), Json::Bool(true)];
    assert_eq!(fields[0].1, Json::List(list));
    for broken in ["", "{", "[1,]", "{\"a\" 1}", "nul", "1 2", "\"a", "\"\\x\"", "\"\\ud800\"", "--1"] {
        assert!(Json::parse(broken).is_err(), "{broken}");
    }
}

fn list_knows_names_wildcards_and_sets() {
    let text =
        "# a note\n\ng::a  later  comes later\ng::a*  differs  other rows are right\ng::b  set:u,v  collect distinct\n";
    let list = TruthList::parse(text, Path::new("ours")).unwrap();
    assert_eq!(list.verdict("g::a").listed, Some(Listed::Later));
    assert_eq!(list.verdict("g::a").reason, "comes later");
    assert_eq!(list.verdict("g::ab").listed, Some(Listed::Differs));
    assert_eq!(list.verdict("g::ab").ours, Path::new("ours/g/ab"));
    assert_eq!(list.verdict("g::b").listed, None);
    assert_eq!(list.verdict("g::b").sets, ["u", "v"]);
    assert_eq!(list.verdict("h::a").listed, None);
    assert_eq!(list.idle_lines(&["g::a".to_string()]), ["line 5: g::b"]);
    for broken in ["g::a later", "g::a", "g::a sometimes x", "g::a later x\ng::a differs y"] {
        assert!(TruthList::parse(broken, Path::new("ours")).is_err(), "{broken}");
    }
}

fn cells_follow_the_conventions() {
    let float = |value: f64| cells_of(Arc::new(Float64Array::from(vec![value])));
    assert_eq!(float(1.0), "1");
    assert_eq!(float(-0.0), "0");
    assert_eq!(float(0.1 + 0.2), "0.3");
    assert_eq!(float(1e21), "1000000000000000000000");
    assert_eq!(float(9.999_999_999_999_9), "10");
    assert_eq!(float(-1.5e-20), "0");
    assert_eq!(float(f64::NAN), "NaN");
    assert_eq!(float(f64::NEG_INFINITY), "-Infinity");
    assert_eq!(cells_of(Arc::new(Float32Array::from(vec![0.1]))), "0.1");
    assert_eq!(cells_of(Arc::new(Decimal128Array::from(vec![150]).with_precision_and_scale(5, 2).unwrap())), "1.50");
    assert_eq!(cells_of(Arc::new(StringViewArray::from(vec![""]))), "(empty)");
    assert_eq!(cells_of(Arc::new(StringArray::from(vec!["a\n"]))), "a");
    assert_eq!(cells_of(Arc::new(Int32Array::from(vec![None]))), "NULL");
    assert_eq!(cells_of(numbers(vec![Some(vec![Some(1), None])])), "[1, NULL]");
    assert_eq!(cells_of(Arc::new(TimestampMillisecondArray::from(vec![1]))), "1970-01-01T00:00:00.001");
    let plan = StringArray::from(vec!["Projection: a\n  TableScan: t"]);
    assert_eq!(cells_of(Arc::new(plan)), "/01)Projection: a/02)--TableScan: t");
}

/// The cells of a one-column result, rows separated by slashes.
fn cells_of(array: ArrayRef) -> String {
    let batch = RecordBatch::try_from_iter_with_nullable([("c", array, true)]).unwrap();
    cells::rows(&[batch]).unwrap().iter().map(|row| row.join(" ")).collect::<Vec<_>>().join("/")
}

fn ignored_part_stands_for_any_text() {
    let matches = |line: &str, expected: &str| {
        cells::rows_match(cells::normalized, &[vec![line.to_string()]], &[expected.to_string()])
    };
    assert!(matches("took 3 ms, read 10 B ", "took <slt:ignore>, read <slt:ignore> B"));
    assert!(matches("a", "<slt:ignore>"));
    assert!(!matches("took 3 ms", "took <slt:ignore> s"));
    assert!(!matches("it took 3 ms", "took <slt:ignore>"));
    assert!(!matches("took", "took it"));
    assert!(!cells::rows_match(cells::normalized, &[vec!["a".to_string()]], &["a".to_string(), "b".to_string()]));
}
