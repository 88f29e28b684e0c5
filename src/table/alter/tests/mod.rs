//! Changes one by one (here), the ALTERs of the fixtures, whose schemas Java wrote (`replay`), and random ones, which must
//! leave schemas sound (`random`).

mod random;
mod replay;

use std::collections::BTreeMap;

use super::*;
use crate::spec::types::TypeKind;
use crate::spec::{DataField, DataType};
use crate::table::field_ids::ids;
use crate::table::{ColumnPosition, NewTable};

/// Reads types as Flink writes them.
struct TypeText<'a>(&'a str);

impl TypeText<'_> {
    fn parse(text: &str) -> DataType {
        let mut rest = TypeText(text);
        let parsed = rest.data_type();
        assert!(rest.0.trim().is_empty(), "{text}: {} is left", rest.0);
        parsed
    }

    fn take(&mut self, start: &str) -> bool {
        match self.0.trim_start().strip_prefix(start) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self) -> String {
        let text = self.0.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        self.0 = &text[end..];
        text[..end].to_owned()
    }

    fn data_type(&mut self) -> DataType {
        let kind = if self.take("ROW<") {
            let mut fields = Vec::new();
            while !self.take(">") {
                let name = self.word();
                fields.push(DataField::new(0, name, self.data_type()));
                self.take(",");
            }
            TypeKind::Row(fields)
        } else if self.take("ARRAY<") {
            let element = self.data_type();
            assert!(self.take(">"));
            TypeKind::Array(Box::new(element))
        } else if self.take("MAP<") {
            let key = self.data_type();
            assert!(self.take(","));
            let value = self.data_type();
            assert!(self.take(">"));
            TypeKind::Map(Box::new(key), Box::new(value))
        } else {
            let text = self.0.trim_start();
            let arguments = text.find('(').filter(|at| text[..*at].chars().all(|c| c.is_alphanumeric() || c == '_'));
            let end = match arguments {
                Some(at) => at + text[at..].find(')').unwrap() + 1,
                None => text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()),
            };
            self.0 = &text[end..];
            DataType::parse(&text[..end]).unwrap().kind
        };
        DataType { kind, nullable: !self.take("NOT NULL") }
    }
}

fn path(text: &str) -> Vec<String> {
    text.split('.').map(str::to_owned).collect()
}

/// Options as they are written down.
type Options<'a> = &'a [(&'a str, &'a str)];

fn schema(columns: &[(&str, &str)], keys: &[&str], options: &[(&str, &str)]) -> TableSchema {
    let new = NewTable {
        fields: columns.iter().map(|(name, text)| DataField::new(0, *name, TypeText::parse(text))).collect(),
        primary_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        options: options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..NewTable::default()
    };
    new.into_schema(&BTreeMap::new(), 0).unwrap()
}

fn small(options: &[(&str, &str)]) -> TableSchema {
    schema(&[("id", "INT"), ("p", "STRING"), ("v", "INT"), ("s", "STRING")], &["id"], options)
}

fn names(schema: &TableSchema) -> Vec<&str> {
    schema.fields.iter().map(|field| field.name.as_str()).collect()
}

fn set(key: &str, value: &str) -> SchemaChange {
    SchemaChange::SetOption { key: key.to_owned(), value: value.to_owned() }
}

fn reset(key: &str) -> SchemaChange {
    SchemaChange::RemoveOption { key: key.to_owned() }
}

fn add(at: &str, text: &str, position: Option<ColumnPosition>) -> SchemaChange {
    let data_type = TypeText::parse(text);
    SchemaChange::AddColumn { path: path(at), data_type, comment: None, default: None, position }
}

fn rename(from: &str, to: &str) -> SchemaChange {
    SchemaChange::RenameColumn { path: path(from), name: to.to_owned() }
}

fn drop(at: &str) -> SchemaChange {
    SchemaChange::DropColumn { path: path(at) }
}

fn retype(at: &str, text: &str) -> SchemaChange {
    SchemaChange::UpdateColumnType { path: path(at), data_type: TypeText::parse(text), keep_nullability: false }
}

fn nullable(at: &str, nullable: bool) -> SchemaChange {
    SchemaChange::UpdateColumnNullability { path: path(at), nullable }
}

fn default(at: &str, text: &str) -> SchemaChange {
    SchemaChange::UpdateColumnDefault { path: path(at), default: Some(text.to_owned()) }
}

fn reposition(at: &str, position: ColumnPosition) -> SchemaChange {
    SchemaChange::UpdateColumnPosition { path: path(at), position }
}

fn made(schema: &TableSchema, changes: &[SchemaChange]) -> TableSchema {
    alter(schema, changes, true, 7).unwrap().unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "changes are made where they are refused")]
fn refused(schema: &TableSchema, change: SchemaChange, part: &str) {
    let error = alter(schema, std::slice::from_ref(&change), true, 7).expect_err(&format!("{change:?}")).to_string();
    assert!(error.contains(part), "{change:?}\n  says {error}\n  not  {part}");
}

#[test]
fn alter_when_nothing_is_asked_then_no_schema() {
    assert_eq!(alter(&small(&[]), &[], true, 7).unwrap(), None);
    let next = made(&small(&[("write-only", "true")]), &[set("write-only", "true")]);
    assert_eq!((next.id, next.time_millis), (1, 7));
}

#[test]
fn add_when_position_is_given_then_there_with_a_new_id() {
    use ColumnPosition::{After, Before, First, Last};
    let schema = small(&[]);
    for (position, expected) in [
        (None, ["id", "p", "v", "s", "x"]),
        (Some(First), ["x", "id", "p", "v", "s"]),
        (Some(Last), ["id", "p", "v", "s", "x"]),
        (Some(After("p".to_owned())), ["id", "p", "x", "v", "s"]),
        (Some(Before("p".to_owned())), ["id", "x", "p", "v", "s"]),
    ] {
        let next = made(&schema, &[add("x", "INT", position)]);
        assert_eq!(names(&next), expected);
        assert_eq!((next.field("x").unwrap().id, next.highest_field_id), (4, 4));
    }
    let next = made(&schema, &[drop("v"), add("v", "ROW<a ROW<b INT>, c INT>", None)]);
    assert_eq!(ids(&next.fields), [0, 1, 3, 4, 6, 5, 7]);
    for (change, part) in [
        (add("v", "BIGINT", None), "column v exists already"),
        (add("V", "BIGINT", None), "column v exists already"),
        (add("x", "INT NOT NULL", None), "can't be added as NOT NULL"),
        (add("x", "INT", Some(After("zz".to_owned()))), "column zz does not exist; there are id, p, v, s"),
        (add("x", "INT", Some(After("x".to_owned()))), "column x does not exist"),
        (add("_KEY_x", "INT", None), "for itself"),
        (add("v.x", "INT", None), "column v is INT and has no fields"),
    ] {
        refused(&schema, change, part);
    }
}

#[test]
fn add_when_option_says_before_partitions_then_before_the_first() {
    let mut schema = small(&[("add-column-before-partition", "true")]);
    schema.partition_keys = vec!["s".to_owned(), "p".to_owned()];
    schema.primary_keys = ["id", "s", "p"].map(str::to_owned).to_vec();
    assert_eq!(names(&made(&schema, &[add("x", "INT", None)])), ["id", "x", "p", "v", "s"]);
    let last = Some(ColumnPosition::Last);
    assert_eq!(names(&made(&schema, &[add("x", "INT", last)])), ["id", "p", "v", "s", "x"]);
}

#[test]
fn drop_when_column_is_needed_then_refused() {
    let mut schema = small(&[]);
    assert_eq!(names(&made(&schema, &[drop("v"), drop("P")])), ["id", "s"]);
    refused(&schema, drop("id"), "part of the primary key");
    refused(&schema, drop("zz"), "column zz does not exist");
    schema.partition_keys = vec!["p".to_owned()];
    refused(&schema, drop("p"), "a partition column");
    let one = self::schema(&[("a", "INT"), ("r", "ROW<x INT>")], &[], &[]);
    refused(&made(&one, &[drop("r")]), drop("a"), "the last one of the table");
    refused(&one, drop("r.x"), "the last one of r");
    for options in [
        &[("sequence.field", "v")][..],
        &[("merge-engine", "aggregation"), ("fields.v.aggregate-function", "sum")],
        &[("file-index.bitmap.columns", "v")],
        &[("fields.v.stats-mode", "none")],
    ] {
        refused(&small(options), drop("v"), "names column v, which the table does not have");
    }
    let indexed = small(&[("file-index.bitmap.columns", "v")]);
    made(&indexed, &[reset("file-index.bitmap.columns"), drop("v")]);
}

#[test]
fn rename_when_options_name_the_column_then_they_follow() {
    let cases: &[(Options<'_>, Options<'_>)] = &[
        (
            &[
                ("merge-engine", "aggregation"),
                ("fields.v.aggregate-function", "sum"),
                ("fields.v.ignore-retract", "true"),
            ],
            &[
                ("merge-engine", "aggregation"),
                ("fields.w.aggregate-function", "sum"),
                ("fields.w.ignore-retract", "true"),
            ],
        ),
        (
            &[
                ("merge-engine", "partial-update"),
                ("fields.v,p.sequence-group", "s"),
                ("partial-update.remove-record-on-sequence-group", "v"),
            ],
            &[
                ("merge-engine", "partial-update"),
                ("fields.w,p.sequence-group", "s"),
                ("partial-update.remove-record-on-sequence-group", "w"),
            ],
        ),
        (
            &[("merge-engine", "partial-update"), ("fields.p.sequence-group", "s, v")],
            &[("merge-engine", "partial-update"), ("fields.p.sequence-group", "s,w")],
        ),
        (
            &[
                ("file-index.bitmap.columns", "s,v"),
                ("file-index.bitmap.v.version", "1"),
                ("file-index.bsi.columns", "v"),
            ],
            &[
                ("file-index.bitmap.columns", "s,w"),
                ("file-index.bitmap.w.version", "1"),
                ("file-index.bsi.columns", "w"),
            ],
        ),
        (
            &[("record-level.expire-time", "1 d"), ("record-level.time-field", "v")],
            &[("record-level.expire-time", "1 d"), ("record-level.time-field", "w")],
        ),
        (&[("sequence.field", "s,v")], &[("sequence.field", "s,w")]),
        (&[("sink.clustering.by-columns", "v,s")], &[("sink.clustering.by-columns", "w,s")]),
        (
            &[("changelog-producer", "lookup"), ("changelog-producer.row-deduplicate-ignore-fields", "v")],
            &[("changelog-producer", "lookup"), ("changelog-producer.row-deduplicate-ignore-fields", "w")],
        ),
    ];
    for (before, after) in cases {
        let next = made(&small(before), &[rename("v", "w")]);
        let expected: BTreeMap<_, _> = after.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert_eq!(next.options, expected);
    }
    let keyed = schema(&[("id", "INT"), ("k", "STRING")], &["id", "k"], &[("bucket", "2"), ("bucket-key", "k")]);
    let next = made(&keyed, &[rename("k", "key"), rename("id", "ident")]);
    assert_eq!(
        (next.primary_keys, next.options["bucket-key"].as_str()),
        (vec!["ident".to_owned(), "key".to_owned()], "key")
    );
    let kinds = small(&[("rowkind.field", "s")]);
    assert_eq!(made(&kinds, &[rename("s", "kind")]).options["rowkind.field"], "kind");
    // An option that a later version may know is a column's all the same.
    let mut later = small(&[]);
    later.options.insert("fields.v.later".to_owned(), "x".to_owned());
    assert!(made(&later, &[rename("v", "w")]).options.contains_key("fields.w.later"));
    let maps = schema(
        &[("m", "MAP<STRING, INT>")],
        &[],
        &[("file-index.bitmap.columns", "m[a],m[b]"), ("file-index.bitmap.m[a].version", "1")],
    );
    let next = made(&maps, &[rename("m", "n")]);
    assert_eq!(next.options["file-index.bitmap.columns"], "n[a],n[b]");
    assert_eq!(next.options["file-index.bitmap.n[a].version"], "1");
}

#[test]
fn rename_when_inside_a_container_then_its_options_follow() {
    let options = [
        ("merge-engine", "aggregation"),
        ("fields.r.aggregate-function", "nested_update"),
        ("fields.r.nested-key", "k,x"),
    ];
    let schema = schema(&[("id", "INT"), ("r", "ARRAY<ROW<k INT, x INT>>")], &["id"], &options);
    let next = made(&schema, &[rename("r.element.k", "key")]);
    assert_eq!(next.options["fields.r.nested-key"], "key,x");
    assert_eq!(next.fields[1].data_type.to_string(), "ARRAY<ROW<`key` INT, `x` INT>>");
    refused(&schema, rename("r.k", "key"), "those it may hold are r.element.<field>");
    refused(&schema, rename("r.element", "key"), "r.element.<field>");
}

#[test]
fn rename_when_it_would_break_something_then_refused() {
    let schema = small(&[]);
    refused(&schema, rename("v", "s"), "column s exists already");
    refused(&schema, rename("v", "S"), "column s exists already");
    refused(&schema, rename("v", "v"), "column v exists already");
    refused(&schema, rename("v", "_KEY_v"), "for itself");
    refused(&small(&[("fields.v.stats-mode", "none")]), rename("v", "w"), "named by option fields.v.stats-mode");
    assert_eq!(names(&made(&schema, &[rename("v", "V")])), ["id", "p", "V", "s"]);
    // C54: names may swap, the fields stay.
    let next = made(&schema, &[rename("p", "t"), rename("s", "p"), rename("t", "s")]);
    assert_eq!((names(&next), ids(&next.fields)), (vec!["id", "s", "v", "p"], vec![0, 1, 2, 3]));
    let mut partitioned = schema;
    partitioned.partition_keys = vec!["p".to_owned()];
    refused(&partitioned, rename("p", "q"), "a partition column");
}

#[test]
fn retype_when_container_then_by_what_it_holds() {
    let schema = schema(
        &[("r", "ROW<a INT, b STRING>"), ("l", "ARRAY<INT>"), ("m", "MAP<STRING, ROW<u INT>>"), ("v", "INT")],
        &[],
        &[],
    );
    let next = made(&schema, &[retype("r", "ROW<c ROW<d INT>, a BIGINT>")]);
    assert_eq!(next.fields[0].data_type.to_string(), "ROW<`c` ROW<`d` INT>, `a` BIGINT>");
    // `a` keeps its id, `c` and what it holds are new.
    assert_eq!(ids(&next.fields[..1]), [0, 7, 8, 1]);
    let next =
        made(&schema, &[retype("l", "ARRAY<BIGINT>"), retype("m.value.u", "STRING"), retype("l.element", "STRING")]);
    assert_eq!(next.fields[1].data_type.to_string(), "ARRAY<STRING>");
    assert_eq!(next.fields[2].data_type.to_string(), "MAP<STRING, ROW<`u` STRING>>");
    for (change, part) in [
        (retype("r", "STRING"), "a container changes by what it holds"),
        (retype("l", "STRING"), "a container changes by what it holds"),
        (retype("v", "ARRAY<INT>"), "a container changes by what it holds"),
        (retype("m", "MAP<INT, ROW<u INT>>"), "the keys of a MAP stay as they are"),
        (retype("m.key", "INT"), "keys stay as they are"),
        (retype("r", "ROW<z INT NOT NULL>"), "column r.z can't be added as NOT NULL"),
        (retype("r.a", "DATE"), "column r.a is INT and can't become DATE"),
        (retype("r.z", "DATE"), "column r.z does not exist; there are a, b"),
        (retype("v.z", "DATE"), "column v is INT and holds no z"),
        (retype("v", "INT NOT NULL"), "'alter-column-null-to-not-null.disabled' = 'false'"),
        (default("r", "1"), "not written as text"),
        (default("l.element", "1"), "neither name, comment nor default"),
    ] {
        refused(&schema, change, part);
    }
}

#[test]
fn retype_when_keys_or_options_forbid_then_refused() {
    let schema = schema(
        &[("id", "INT"), ("v", "BIGINT"), ("t", "STRING NOT NULL")],
        &["id"],
        &[("disable-explicit-type-casting", "true")],
    );
    refused(&schema, retype("id", "BIGINT"), "part of the primary key");
    refused(&schema, retype("v", "INT"), "'disable-explicit-type-casting' allows only");
    made(&schema, &[retype("v", "DOUBLE")]);
    made(&schema, &[reset("disable-explicit-type-casting"), retype("v", "INT")]);
    let keep = SchemaChange::UpdateColumnType {
        path: path("t"),
        data_type: TypeText::parse("VARCHAR(9)"),
        keep_nullability: true,
    };
    assert!(!made(&schema, &[keep]).fields[2].data_type.nullable);
    let options = [("bucket", "2"), ("bucket-key", "v")];
    let bucketed = self::schema(&[("id", "INT"), ("v", "INT")], &[], &options);
    refused(&bucketed, retype("v", "BIGINT"), "part of 'bucket-key'");
    assert!(alter(&bucketed, &[retype("v", "BIGINT")], false, 0).is_ok());
}

#[test]
fn defaults_comments_and_nullability_when_changed_then_checked() {
    let schema = small(&[]);
    let next = made(&schema, &[default("v", "5"), nullable("v", true)]);
    assert_eq!(next.field("v").unwrap().default_value.as_deref(), Some("5"));
    refused(&schema, default("v", "five"), "the default value of column v: 'five' can't be read as INT");
    refused(&made(&schema, &[default("s", "abc")]), retype("s", "INT"), "the default value of column s");
    let comment = SchemaChange::UpdateColumnComment { path: path("v"), comment: Some("c".to_owned()) };
    assert_eq!(made(&schema, &[comment]).field("v").unwrap().description.as_deref(), Some("c"));
    refused(&schema, nullable("id", true), "part of the primary key");
    refused(&schema, nullable("v", false), "may hold NULLs");
    let allowed = [set("alter-column-null-to-not-null.disabled", "false"), nullable("v", false)];
    assert!(!made(&schema, &allowed).field("v").unwrap().data_type.nullable);
}

#[test]
fn move_when_asked_then_order_changes_and_nothing_else() {
    use ColumnPosition::{After, Before, First, Last};
    let schema = small(&[]);
    for (at, position, expected) in [
        ("v", First, ["v", "id", "p", "s"]),
        ("v", After("s".to_owned()), ["id", "p", "s", "v"]),
        ("s", Before("id".to_owned()), ["s", "id", "p", "v"]),
        ("id", Last, ["p", "v", "s", "id"]),
        ("id", First, ["id", "p", "v", "s"]),
    ] {
        assert_eq!(names(&made(&schema, &[reposition(at, position)])), expected);
    }
    refused(&schema, reposition("v", After("v".to_owned())), "next to itself");
    refused(&schema, reposition("v", After("zz".to_owned())), "column zz does not exist");
}

#[test]
fn options_when_there_is_data_then_only_what_files_do_not_hang_on_may_change() {
    let cases: &[(Options<'_>, SchemaChange, &str)] = &[
        (&[], set("merge-engine", "first-row"), "from 'deduplicate' to 'first-row'"),
        (&[("bucket", "2")], set("bucket-key", "id"), "from unset to 'id'"),
        (&[("bucket", "2")], set("bucket", "-1"), "from '2' to '-1'"),
        (&[], set("bucket", "2"), "from '-1' to '2'"),
        (&[("bucket", "2")], reset("bucket"), "can't be reset"),
        (&[], set("deletion-vectors.enabled", "true"), "'deletion-vectors.modifiable' = 'true'"),
        (&[("deletion-vectors.enabled", "true")], reset("deletion-vectors.enabled"), "from 'true' to 'false'"),
        (&[], set("ignore-delete", "true"), "files"),
        (&[("first-row.ignore-delete", "true")], set("ignore-delete", "false"), "from 'true' to 'false'"),
        (&[("ignore-update-before", "true")], set("ignore-update-before", "false"), "left out"),
        (&[], set("partition.legacy-name", "false"), "folders"),
        (&[], set("primary-key", "v"), "for CREATE TABLE only"),
        (&[], set("path", "/x"), "the catalog says"),
        (&[], set("owner", "me"), "unknown option owner"),
        (&[], set("write-onyl", "true"), "did you mean write-only?"),
        (&[], set("write-only", "yes"), "must be true or false"),
        (&[], reset("write-onyl"), "did you mean write-only?"),
        (&[], set("snapshot.num-retained.max", "5"), "must not be larger"),
        (&[], SchemaChange::DropPrimaryKey, "holds data"),
        (&[], reset("merge-engine"), "can't be reset once the table holds data"),
    ];
    for (options, change, part) in cases {
        refused(&small(options), change.clone(), part);
    }
    let may: &[(Options<'_>, SchemaChange)] = &[
        (&[], set("merge-engine", "DEDUPLICATE")),
        (&[("bucket", "2")], set("bucket", "4")),
        (&[("bucket", "2")], set("bucket", "-2")),
        (&[], set("bucket", "-1")),
        (&[("deletion-vectors.modifiable", "true")], set("deletion-vectors.enabled", "true")),
        (&[], set("changelog-producer", "lookup")),
        (&[], set("sequence.field", "v")),
        (&[], set("file.format", "orc")),
        (&[], set("ignore-update-before", "true")),
        (&[("ignore-delete", "true")], set("ignore-delete", "TRUE")),
    ];
    for (options, change) in may {
        made(&small(options), std::slice::from_ref(change));
    }
    for (options, change, _) in &cases[..10] {
        if matches!(change, SchemaChange::SetOption { .. }) {
            alter(&small(options), std::slice::from_ref(change), false, 0).unwrap();
        }
    }
}

#[test]
fn options_when_set_under_another_spelling_then_the_new_one_holds() {
    let next = made(&small(&[("write-only", "true")]), &[set("write.compaction-skip", "false")]);
    assert_eq!(next.options.get("write-only"), None);
    assert_eq!(next.options["write.compaction-skip"], "false");
    let mut foreign = small(&[]);
    foreign.options.insert("owner".to_owned(), "root".to_owned());
    assert!(made(&foreign, &[reset("owner")]).options.is_empty());
}

#[test]
fn alter_when_table_is_of_an_old_version_then_goes_on_as_of_today() {
    let old = TableSchema::from_json(
        br#"{"id":3,"fields":[{"id":0,"name":"a","type":"INT"}],"highestFieldId":0,"partitionKeys":[],"primaryKeys":[],
            "options":{}}"#,
    )
    .unwrap();
    let next = made(&old, &[add("b", "INT", None)]);
    assert_eq!((next.version, next.id), (3, 4));
    assert_eq!((next.options["bucket"].as_str(), next.options["file.format"].as_str()), ("1", "orc"));
    assert_eq!(made(&next, &[add("c", "INT", None)]).id, 5);
}
