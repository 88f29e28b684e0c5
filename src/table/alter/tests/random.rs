//! Random changes leave a schema sound: ids stay unique and are never given again, options stay with their columns.

use std::collections::HashSet;

use proptest::prelude::*;

use super::{TypeText, schema};
use crate::spec::types::TypeKind;
use crate::spec::{DataField, TableSchema};
use crate::table::field_ids::ids;
use crate::table::{ColumnPosition, SchemaChange, alter};

/// One step of a random history; numbers choose among what there is.
#[derive(Clone, Debug)]
enum Step {
    Add(usize, usize),
    Drop(usize),
    Rename(usize),
    Retype(usize, usize),
    Move(usize, usize),
    Set(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let two = || (0..1000_usize, 0..1000_usize);
    let step = prop_oneof![
        two().prop_map(|(a, b)| Step::Add(a, b)),
        (0..1000_usize).prop_map(Step::Drop),
        (0..1000_usize).prop_map(Step::Rename),
        two().prop_map(|(a, b)| Step::Retype(a, b)),
        two().prop_map(|(a, b)| Step::Move(a, b)),
        two().prop_map(|(a, b)| Step::Set(a, b)),
    ];
    proptest::collection::vec(step, 1..40)
}

/// The paths of all fields that can be reached, with the types they have.
fn reachable(fields: &[DataField], start: &[String], found: &mut Vec<Vec<String>>) {
    for field in fields {
        let mut path = start.to_vec();
        path.push(field.name.clone());
        found.push(path.clone());
        let mut data_type = &field.data_type;
        loop {
            match &data_type.kind {
                TypeKind::Array(inner) => {
                    path.push("element".to_owned());
                    data_type = inner;
                }
                TypeKind::Map(_, inner) => {
                    path.push("value".to_owned());
                    data_type = inner;
                }
                TypeKind::Row(fields) => {
                    reachable(fields, &path, found);
                    break;
                }
                _ => break,
            }
        }
    }
}

const RANDOM_TYPES: [&str; 8] = [
    "INT",
    "BIGINT",
    "STRING",
    "DOUBLE",
    "ROW<x INT, y ROW<z STRING, w INT>>",
    "ARRAY<ROW<x INT, k STRING>>",
    "MAP<STRING, ROW<x INT>>",
    "DATE",
];

fn change_of(step: &Step, schema: &TableSchema, fresh: &mut usize) -> SchemaChange {
    let mut paths = Vec::new();
    reachable(&schema.fields, &[], &mut paths);
    let any = |n: usize| paths[n % paths.len()].clone();
    let mut name = || {
        *fresh += 1;
        format!("n{fresh}")
    };
    match step {
        Step::Add(at, of) => {
            let mut path = any(*at);
            *path.last_mut().unwrap() = name();
            let data_type = TypeText::parse(RANDOM_TYPES[of % RANDOM_TYPES.len()]);
            SchemaChange::AddColumn { path, data_type, comment: None, default: None, position: None }
        }
        Step::Drop(at) => SchemaChange::DropColumn { path: any(*at) },
        Step::Rename(at) => SchemaChange::RenameColumn { path: any(*at), name: name() },
        Step::Retype(at, of) => SchemaChange::UpdateColumnType {
            path: any(*at),
            data_type: TypeText::parse(RANDOM_TYPES[of % RANDOM_TYPES.len()]),
            keep_nullability: true,
        },
        Step::Move(at, of) => {
            let position = [ColumnPosition::First, ColumnPosition::Last][of % 2].clone();
            SchemaChange::UpdateColumnPosition { path: any(*at), position }
        }
        Step::Set(at, of) => {
            let column = &schema.fields[at % schema.fields.len()].name;
            let (key, value) = match of % 5 {
                0 => (format!("fields.{column}.stats-mode"), "none".to_owned()),
                1 => ("file-index.bloom-filter.columns".to_owned(), column.clone()),
                2 => (format!("file-index.bloom-filter.{column}.items"), "10".to_owned()),
                3 => ("record-level.time-field".to_owned(), column.clone()),
                _ => (format!("fields.{column}.ignore-retract"), "true".to_owned()),
            };
            SchemaChange::SetOption { key, value }
        }
    }
}

/// The ids of the columns that options name, by the kind of option: what a rename must keep.
fn named_ids(schema: &TableSchema) -> Vec<(String, i32)> {
    let mut found = Vec::new();
    for (key, value) in &schema.options {
        let option = crate::options::lookup(key).unwrap();
        let names: Vec<&str> = match option.captured {
            Some(column) => vec![column],
            None if key.ends_with(".columns") || key.ends_with("-field") => value.split(',').collect(),
            None => Vec::new(),
        };
        for name in names {
            let id = schema.field(name).unwrap_or_else(|| panic!("{key} = {value} names nothing")).id;
            found.push((option.def.key.to_owned(), id));
        }
    }
    found.sort_unstable();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn alter_when_random_changes_then_ids_stay_unique_and_options_follow(steps in steps()) {
        let mut schema = schema(
            &[("id", "INT"), ("v", "INT"), ("s", "STRING"), ("r", "ROW<a INT, b ROW<c STRING>>"), ("l", "ARRAY<ROW<k INT>>")],
            &["id"],
            &[("bucket", "1"), ("fields.v.stats-mode", "none"), ("file-index.bloom-filter.columns", "v,s")],
        );
        let mut used: HashSet<i32> = ids(&schema.fields).into_iter().collect();
        let mut fresh = 0;
        for step in steps {
            let change = change_of(&step, &schema, &mut fresh);
            // What is refused leaves nothing behind; there is nothing to check.
            let Ok(Some(next)) = alter(&schema, std::slice::from_ref(&change), true, 0) else { continue };
            prop_assert_eq!(next.id, schema.id + 1);
            prop_assert!(next.highest_field_id >= schema.highest_field_id);
            let now = ids(&next.fields);
            let unique: HashSet<i32> = now.iter().copied().collect();
            prop_assert_eq!(unique.len(), now.len());
            let before: HashSet<i32> = ids(&schema.fields).into_iter().collect();
            for id in &now {
                prop_assert!(*id <= next.highest_field_id);
                // An id is there already or was never used.
                prop_assert!(before.contains(id) || used.insert(*id), "{:?} gives {} again", change, id);
            }
            if matches!(change, SchemaChange::RenameColumn { .. }) {
                prop_assert_eq!(named_ids(&next), named_ids(&schema));
                prop_assert_eq!(next.options.len(), schema.options.len());
            }
            let again = TableSchema::from_json(next.to_json().to_string().as_bytes()).unwrap();
            prop_assert_eq!(&again, &next);
            schema = next;
        }
    }
}
