//! What SHOW CREATE TABLE shows makes the same table again: for every schema of the fixtures.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use super::create::field;
use super::statement::Ddl;
use crate::spec::TableSchema;
use crate::sql::tokens::tokenize;
use crate::table::{Identifier, NewTable, create_statement};

/// The table that a statement defines.
fn defined(sql: &str) -> NewTable {
    let table = match super::read(&tokenize(sql).unwrap()) {
        Ok(Some(Ddl::CreateTable(table))) => *table,
        other => panic!("{sql}: {other:?}"),
    };
    let names = |idents: &[datafusion::sql::sqlparser::ast::Ident]| idents.iter().map(|i| i.value.clone()).collect();
    NewTable {
        fields: table.columns.iter().zip(0..).map(|(column, id)| field(id, column).unwrap()).collect(),
        partition_keys: names(&table.partition_keys),
        primary_keys: names(&table.primary_key),
        options: table.options.iter().cloned().collect(),
        comment: table.comment,
    }
}

/// The schema documents of all groups in the repository.
fn schemas() -> BTreeMap<String, TableSchema> {
    let mut found = BTreeMap::new();
    for group in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("sql-tests/fixtures")).unwrap() {
        let archive = group.unwrap().path().join("tables.tar.zst");
        let Ok(file) = std::fs::File::open(&archive) else { continue };
        let bytes = zstd::decode_all(file).unwrap();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = format!("{}:{}", archive.display(), entry.path().unwrap().display());
            if name.rsplit_once("/schema/schema-").is_some_and(|(_, id)| id.parse::<i64>().is_ok()) {
                let mut text = Vec::new();
                entry.read_to_end(&mut text).unwrap();
                found.insert(name, TableSchema::from_json(&text).unwrap());
            }
        }
    }
    found
}

#[test]
fn show_create_table_when_read_again_then_the_same_table() {
    let identifier = Identifier::new("d`b", "t");
    let schemas = schemas();
    assert!(!schemas.is_empty());
    let mut wrong = Vec::new();
    for (name, schema) in &schemas {
        // What this version does not make; see `table::validate`.
        if ["/chain/", "/c35_shared/", "/index_added_later/"].iter().any(|table| name.contains(table)) {
            continue;
        }
        let statement = create_statement(&identifier, schema);
        let made = match defined(&statement).into_schema(&BTreeMap::new(), schema.time_millis) {
            Ok(made) => made,
            Err(error) => {
                wrong.push(format!("{name}: {error}\n{statement}"));
                continue;
            }
        };
        // An altered table has other ids, and tells the same otherwise.
        if create_statement(&identifier, &made) != statement {
            wrong.push(format!("{name}:\n{statement}\n{}", create_statement(&identifier, &made)));
        }
        if schema.id == 0 {
            let mut expected = schema.clone();
            expected.options.retain(|key, _| crate::options::lookup(key).is_some());
            expected.comment = Some(expected.comment.unwrap_or_default());
            if made.to_json() != expected.to_json() {
                wrong.push(format!("{name}: made {}\n  wanted {}", made.to_json(), expected.to_json()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), schemas.len(), wrong.join("\n"));
}
