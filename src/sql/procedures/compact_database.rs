//! `compact_database`: all tables of some databases, one after the other.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use chrono::Utc;
use datafusion::sql::sqlparser::ast::Ident;

use super::{Argument, Kind, Procedure, Values, compact, text_columns};
use crate::compact::append::{AppendRequest, compact_append};
use crate::compact::{self as compaction, CompactRequest};
use crate::error::{Error, Result};
use crate::maintain::consumers::fits;
use crate::table::{ObjectName, Table};

/// `compact_database`
pub(super) struct CompactDatabase;

#[async_trait]
impl Procedure for CompactDatabase {
    fn name(&self) -> &'static str {
        "compact_database"
    }

    fn arguments(&self) -> &'static [Argument] {
        const {
            &[
                Argument::optional("including_databases", Kind::Text),
                // All tables are compacted by one job here, whichever way.
                Argument::optional("mode", Kind::Text),
                Argument::optional("including_tables", Kind::Text),
                Argument::optional("excluding_tables", Kind::Text),
                Argument::optional("table_options", Kind::Text).also(&["options"]),
                Argument::optional("partition_idle_time", Kind::Duration),
                Argument::optional("compact_strategy", Kind::Text),
            ]
        }
    }

    async fn run(&self, values: &Values<'_>) -> Result<RecordBatch> {
        let given = |name: &str| values.optional_text(name).map(str::trim).filter(|text| !text.is_empty());
        values.check_one_of("mode", &["divided", "combined"])?;
        let minor = compact::is_minor(values)?;
        let options = values.options_in("table_options")?;
        let session = values.session();
        let within = session.lake_database(&[]).await?;
        let within = within.ok_or_else(|| Error::unsupported("the current catalog is no lake catalog"))?;
        let databases = within.catalog.list_databases().await?;
        let (mut names, mut results) = (Vec::new(), Vec::new());
        for database in chosen(databases, |name| name.to_owned(), given("including_databases"), None)? {
            let Some(within) = session.lake_database(&[Ident::with_quote('`', &database)]).await? else { continue };
            let tables = within.catalog.list_tables(&database).await?;
            let full = |table: &str| format!("{database}.{table}");
            for table in chosen(tables, full, given("including_tables"), given("excluding_tables"))? {
                let name = ObjectName { table, branch: None, system_table: None, version: None };
                let done = async {
                    let caches = within.schema.caches();
                    let table = within.catalog.open_table(&database, &name, caches, options.clone()).await?;
                    Box::pin(compacted(values, &table, minor)).await
                };
                // One table does not keep the others from being compacted.
                results.push(match Box::pin(done).await {
                    Ok(()) => "Success".to_owned(),
                    Err(error) => error.to_string(),
                });
                names.push(format!("{database}.{}", name.table));
            }
        }
        text_columns(&[("table", names), ("result", results)])
    }
}

/// The names that fit one pattern and not another, written in full.
fn chosen(
    names: Vec<String>,
    full: impl Fn(&str) -> String,
    including: Option<&str>,
    excluding: Option<&str>,
) -> Result<Vec<String>> {
    let written: Vec<String> = names.iter().map(|name| full(name)).collect();
    let all = |pattern: Option<&str>, otherwise: bool| match pattern {
        Some(pattern) => fits(&written, pattern),
        None => Ok(vec![otherwise; written.len()]),
    };
    let (kept, left_out) = (all(including, true)?, all(excluding, false)?);
    let chosen = names.into_iter().zip(kept.into_iter().zip(left_out)).filter(|(_, (kept, out))| *kept && !out);
    Ok(chosen.map(|(name, _)| name).collect())
}

async fn compacted(values: &Values<'_>, table: &Arc<Table>, minor: bool) -> Result<()> {
    let idle = values.optional_duration("partition_idle_time");
    let context = values.session().context().task_ctx();
    if table.schema().has_primary_key() {
        let request = CompactRequest { idle, minor, ..CompactRequest::default() };
        Box::pin(compaction::compact(table, request, &context)).await?;
        return Ok(());
    }
    let now = values.wall_clock(Utc::now())?.and_utc().timestamp_millis();
    let request = AppendRequest { idle: idle.map(|idle| (idle, now)), minor, ..AppendRequest::default() };
    Box::pin(compact_append(table, &request, &context)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_when_patterns_are_given_then_full_names_that_fit() {
        let of = |including, excluding| {
            chosen(
                vec!["a".to_owned(), "b1".to_owned(), "b2".to_owned()],
                |name| format!("db.{name}"),
                including,
                excluding,
            )
        };
        assert_eq!(of(None, None).unwrap(), ["a", "b1", "b2"]);
        assert_eq!(of(Some("db\\.b."), Some(".*2")).unwrap(), ["b1"]);
        assert!(of(Some("("), None).is_err());
    }
}
