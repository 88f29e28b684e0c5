//! The ALTERs of the fixtures' scripts, and the schemas that Java wrote for them.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::{TypeText, path};
use crate::spec::{DataType, TableSchema};
use crate::table::{ColumnPosition, SchemaChange, alter};

/// A column as ADD and MODIFY have it: `name TYPE [COMMENT 'c'] [FIRST | AFTER other]`.
struct ColumnText {
    name: String,
    data_type: DataType,
    comment: Option<String>,
    position: Option<ColumnPosition>,
}

fn column(text: &str) -> ColumnText {
    let (name, rest) = text.trim().split_once(' ').unwrap();
    let mut rest = TypeText(rest);
    let data_type = rest.data_type();
    let comment = rest.take("COMMENT '").then(|| {
        let (comment, left) = rest.0.split_once('\'').unwrap();
        rest.0 = left;
        comment.to_owned()
    });
    let position = if rest.take("FIRST") {
        Some(ColumnPosition::First)
    } else if rest.take("AFTER") {
        Some(ColumnPosition::After(rest.word()))
    } else {
        None
    };
    assert!(rest.0.trim().is_empty(), "{text}: {}", rest.0);
    ColumnText { name: name.to_owned(), data_type, comment, position }
}

/// Splits at commas outside of brackets and quotes.
fn items(text: &str) -> Vec<String> {
    let (mut depth, mut quoted, mut found) = (0, false, vec![String::new()]);
    for c in text.chars() {
        match c {
            '\'' => quoted = !quoted,
            '<' | '(' if !quoted => depth += 1,
            '>' | ')' if !quoted => depth -= 1,
            ',' if depth == 0 && !quoted => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        found.last_mut().unwrap().push(c);
    }
    found
}

/// The changes of `ALTER TABLE t <text>`, as Flink makes them.
fn changes(text: &str) -> Vec<SchemaChange> {
    let inner = |text: &str| text.trim().trim_start_matches('(').to_owned();
    if let Some(text) = text.strip_prefix("ADD ") {
        let text = inner(text);
        return items(text.strip_suffix(')').unwrap())
            .iter()
            .map(|item| {
                let ColumnText { name, data_type, comment, position } = column(item);
                SchemaChange::AddColumn { path: vec![name], data_type, comment, default: None, position }
            })
            .collect();
    }
    if let Some(text) = text.strip_prefix("SET ") {
        let text = inner(text);
        return items(text.strip_suffix(')').unwrap())
            .iter()
            .map(|item| {
                let (key, value) = item.split_once('=').unwrap();
                let text = |quoted: &str| quoted.trim().trim_matches('\'').to_owned();
                SchemaChange::SetOption { key: text(key), value: text(value) }
            })
            .collect();
    }
    if let Some(text) = text.strip_prefix("RENAME ") {
        let (old, new) = text.split_once(" TO ").unwrap();
        return vec![SchemaChange::RenameColumn { path: path(old), name: new.to_owned() }];
    }
    if let Some(text) = text.strip_prefix("DROP ") {
        return vec![SchemaChange::DropColumn { path: path(text) }];
    }
    let ColumnText { name, data_type, comment, position } = column(text.strip_prefix("MODIFY ").unwrap());
    let path = vec![name];
    let mut changes = vec![SchemaChange::UpdateColumnType { path: path.clone(), data_type, keep_nullability: false }];
    if let Some(comment) = comment {
        changes.push(SchemaChange::UpdateColumnComment { path: path.clone(), comment: Some(comment) });
    }
    changes.extend(position.map(|position| SchemaChange::UpdateColumnPosition { path, position }));
    changes
}

/// The schemas that Java wrote, by table and id.
fn written(group: &str) -> BTreeMap<(String, i64), TableSchema> {
    let archive = folder(group).join("tables.tar.zst");
    let bytes = zstd::decode_all(std::fs::File::open(archive).unwrap()).unwrap();
    let mut found = BTreeMap::new();
    for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let Some((table, id)) = name.split_once("/schema/schema-") else { continue };
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        let table = table.rsplit('/').next().unwrap().to_owned();
        found.insert((table, id.parse().unwrap()), TableSchema::from_json(&bytes).unwrap());
    }
    found
}

fn folder(group: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sql-tests/fixtures").join(group)
}

/// What Flink refuses by itself, and the format allows: a key column and a field of a ROW can be renamed.
const FLINK_REFUSES: [&str; 2] = ["rename_key RENAME id TO ident", "nested_rename RENAME r.a TO aa"];

/// Replays the ALTERs of a group's script and compares each schema with the one that Java wrote.
fn replay(group: &str) -> usize {
    let written = written(group);
    let script = std::fs::read_to_string(folder(group).join("script.sql")).unwrap();
    let mut tables: BTreeMap<String, TableSchema> = BTreeMap::new();
    let mut filled = HashSet::new();
    let (mut fails, mut altered, mut wrong) = (false, 0, Vec::new());
    for line in script.lines() {
        if line == "-- @fails" {
            fails = true;
        }
        if line.starts_with("--") {
            continue;
        }
        let statement = line.trim().trim_end_matches(';');
        if let Some(table) =
            statement.strip_prefix("INSERT INTO ").or_else(|| statement.strip_prefix("INSERT OVERWRITE "))
        {
            filled.insert(table.split([' ', '(']).next().unwrap().to_owned());
        }
        let call = "CALL sys.alter_column_default_value(`table` => '";
        let (table, changes) = if let Some(text) = statement.strip_prefix("ALTER TABLE ") {
            let (table, text) = text.split_once(' ').unwrap();
            if FLINK_REFUSES.contains(&format!("{table} {text}").as_str()) {
                fails = false;
                continue;
            }
            (table.to_owned(), changes(text))
        } else if let Some(text) = statement.strip_prefix(call) {
            let parts: Vec<&str> = text.split('\'').collect();
            let table = parts[0].rsplit('.').next().unwrap().to_owned();
            let (path, default) = (vec![parts[2].to_owned()], Some(parts[4].to_owned()));
            (table, vec![SchemaChange::UpdateColumnDefault { path, default }])
        } else {
            fails = false;
            continue;
        };
        let before = tables.entry(table.clone()).or_insert_with(|| written[&(table.clone(), 0)].clone());
        let expected = written.get(&(table.clone(), before.id + 1));
        let time = expected.map_or(0, |schema| schema.time_millis);
        let result = alter(before, &changes, filled.contains(&table), time);
        match (result, fails) {
            (Ok(Some(next)), false) => {
                match expected {
                    Some(expected) if next.to_json() == expected.to_json() => {}
                    Some(expected) => {
                        wrong.push(format!(
                            "{statement}\n  got    {}\n  wanted {}",
                            next.to_json(),
                            expected.to_json()
                        ));
                    }
                    None => wrong.push(format!("{statement}: Java has no such schema")),
                }
                *before = next;
                altered += 1;
            }
            (Err(_), true) => {}
            (result, _) => wrong.push(format!("{statement}, which fails: {fails}: {result:?}")),
        }
        fails = false;
    }
    for (table, last) in &tables {
        if written.contains_key(&(table.clone(), last.id + 1)) {
            wrong.push(format!("{table}: Java has schemas after {}", last.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    altered
}

#[test]
fn alter_when_scripts_of_the_fixtures_are_replayed_then_the_schemas_that_java_wrote() {
    assert!(replay("evolution") > 100);
    assert!(replay("evolution_casts") > 100);
}
