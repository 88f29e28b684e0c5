//! The statement that creates a table like one that is there: what SHOW CREATE TABLE shows.
//!
//! ```text
//! CREATE TABLE `db`.`t` (
//!   `id` INT NOT NULL COMMENT 'whose',
//!   `v` ROW<`a` INT, `b` STRING> DEFAULT '..',
//!   PRIMARY KEY (`id`) NOT ENFORCED
//! ) COMMENT '..'
//! PARTITIONED BY (`dt`)
//! WITH (
//!   'bucket' = '4'
//! )
//! ```
//! Flink reads it as it is; Spark does with `TBLPROPERTIES` in place of `WITH`. Types are written as in schema files.
//!
//! May import: `options`, `spec`, `table::identifier`.

use std::fmt::Write as _;

use super::identifier::Identifier;
use crate::options::lookup;
use crate::spec::types::TypeKind;
use crate::spec::{DataField, DataType, TableSchema};

/// The statement that creates a table with `schema` under the name of `identifier`, its branch aside.
///
/// Options are sorted by key. Those that no statement may bring are left out: where the table lies, and keys of engines
/// that mean nothing to the format.
pub fn create_statement(identifier: &Identifier, schema: &TableSchema) -> String {
    let mut lines: Vec<String> = schema.fields.iter().map(column).collect();
    if schema.has_primary_key() {
        lines.push(format!("PRIMARY KEY ({}) NOT ENFORCED", names(&schema.primary_keys)));
    }
    let mut statement = format!(
        "CREATE TABLE {}.{} (\n  {}\n)",
        quoted(&identifier.database),
        quoted(&identifier.table),
        lines.join(",\n  ")
    );
    if let Some(comment) = schema.comment.as_ref().filter(|comment| !comment.is_empty()) {
        let _ = write!(statement, " COMMENT {}", text(comment));
    }
    if !schema.partition_keys.is_empty() {
        let _ = write!(statement, "\nPARTITIONED BY ({})", names(&schema.partition_keys));
    }
    let options: Vec<String> = schema
        .options
        .iter()
        .filter(|(key, _)| *key != "path" && lookup(key).is_some())
        .map(|(key, value)| format!("{} = {}", text(key), text(value)))
        .collect();
    if !options.is_empty() {
        let _ = write!(statement, "\nWITH (\n  {}\n)", options.join(",\n  "));
    }
    statement
}

fn column(field: &DataField) -> String {
    let mut line = format!("{} {}", quoted(&field.name), type_text(&field.data_type));
    if let Some(default) = &field.default_value {
        let _ = write!(line, " DEFAULT {}", text(default));
    }
    if let Some(comment) = field.description.as_ref().filter(|comment| !comment.is_empty()) {
        let _ = write!(line, " COMMENT {}", text(comment));
    }
    line
}

/// A type with the names inside quoted.
fn type_text(data_type: &DataType) -> String {
    let whole = match &data_type.kind {
        TypeKind::Array(inner) => format!("ARRAY<{}>", type_text(inner)),
        TypeKind::Multiset(inner) => format!("MULTISET<{}>", type_text(inner)),
        TypeKind::Vector(inner, length) => format!("VECTOR<{}, {length}>", type_text(inner)),
        TypeKind::Map(key, value) => format!("MAP<{}, {}>", type_text(key), type_text(value)),
        TypeKind::Row(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| {
                    let comment = field.description.as_ref().filter(|comment| !comment.is_empty());
                    let comment = comment.map(|comment| format!(" {}", text(comment))).unwrap_or_default();
                    format!("{} {}{comment}", quoted(&field.name), type_text(&field.data_type))
                })
                .collect();
            format!("ROW<{}>", fields.join(", "))
        }
        _ => return data_type.to_string(),
    };
    if data_type.nullable { whole } else { format!("{whole} NOT NULL") }
}

fn names(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    quoted.join(", ")
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(json: &str) -> TableSchema {
        TableSchema::from_json(json.as_bytes()).unwrap()
    }

    #[test]
    fn create_statement_when_everything_is_set_then_every_clause() {
        let schema = schema(
            r#"{"version":3,"id":0,"fields":[
                {"id":0,"name":"id","type":"INT NOT NULL","description":"who's"},
                {"id":1,"name":"a`b","type":"STRING","defaultValue":"it's"},
                {"id":2,"name":"r","type":{"type":"ROW","fields":[
                    {"id":3,"name":"x`","type":"BIGINT NOT NULL","description":"in"},
                    {"id":4,"name":"m","type":{"type":"MAP NOT NULL","key":"STRING NOT NULL","value":
                        {"type":"ARRAY","element":"DECIMAL(10, 2)"}}}]}},
                {"id":5,"name":"at","type":"TIMESTAMP(3) WITH LOCAL TIME ZONE"},
                {"id":6,"name":"dt","type":"DATE NOT NULL"}],
              "highestFieldId":6,"partitionKeys":["dt"],"primaryKeys":["id","dt"],
              "options":{"bucket":"4","csv.null-literal":"it's","owner":"root","path":"/x","file.format":"orc"},
              "comment":"all of 'em"}"#,
        );
        let statement = create_statement(&Identifier::new("db", "my table"), &schema);
        let expected = "\
CREATE TABLE `db`.`my table` (
  `id` INT NOT NULL COMMENT 'who''s',
  `a``b` STRING DEFAULT 'it''s',
  `r` ROW<`x``` BIGINT NOT NULL 'in', `m` MAP<STRING NOT NULL, ARRAY<DECIMAL(10, 2)>> NOT NULL>,
  `at` TIMESTAMP(3) WITH LOCAL TIME ZONE,
  `dt` DATE NOT NULL,
  PRIMARY KEY (`id`, `dt`) NOT ENFORCED
) COMMENT 'all of ''em'
PARTITIONED BY (`dt`)
WITH (
  'bucket' = '4',
  'csv.null-literal' = 'it''s',
  'file.format' = 'orc'
)";
        assert_eq!(statement, expected);
    }

    #[test]
    fn create_statement_when_plain_table_then_columns_only() {
        let schema = schema(
            r#"{"version":3,"id":0,"fields":[{"id":0,"name":"a","type":"BYTES"}],"highestFieldId":0,"partitionKeys":[],
                "primaryKeys":[],"options":{},"comment":""}"#,
        );
        assert_eq!(create_statement(&Identifier::new("d", "t"), &schema), "CREATE TABLE `d`.`t` (\n  `a` BYTES\n)");
    }
}
