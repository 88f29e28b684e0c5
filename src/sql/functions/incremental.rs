//! The changes of a table as a relation, under the names that Spark gives them:
//!
//! ```sql
//! SELECT * FROM paimon_incremental_query('db.t', 3, 5)                          -- snapshots or tags, the first exclusive
//! SELECT * FROM paimon_incremental_between_timestamp('t', '2024-01-01', '2024-01-02')
//! SELECT * FROM paimon_incremental_to_auto_tag('t', '2024-01-02')
//! ```
//! They are the options `incremental-between`, `incremental-between-timestamp` and `incremental-to-auto-tag` by another name.
//! Imports the engine's table functions, `bridge`, `catalog_provider` and `tokens`.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::{Session, TableFunctionArgs, TableFunctionImpl};
use datafusion::common::{Result as EngineResult, ScalarValue};
use datafusion::datasource::TableProvider;
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::tokenizer::Token;

use crate::error::{Error, Result};
use crate::sql::catalog_provider::LakeSchema;
use crate::sql::{bridge, tokens};

/// One of the functions.
#[derive(Debug)]
pub(super) struct Incremental {
    pub(super) name: &'static str,
    option: &'static str,
    /// How many arguments follow the table.
    arguments: usize,
    usage: &'static str,
}

/// All of the functions.
pub(super) const ALL: [Incremental; 3] = [
    Incremental {
        name: "paimon_incremental_query",
        option: "incremental-between",
        arguments: 2,
        usage: "('table', start, end): two snapshot ids or two tags, the start exclusive",
    },
    Incremental {
        name: "paimon_incremental_between_timestamp",
        option: "incremental-between-timestamp",
        arguments: 2,
        usage: "('table', start, end): two times, as text or epoch milliseconds, the start exclusive",
    },
    Incremental {
        name: "paimon_incremental_to_auto_tag",
        option: "incremental-to-auto-tag",
        arguments: 1,
        usage: "('table', tag): an automatic tag",
    },
];

impl Incremental {
    fn wrong(&self, why: &str) -> Error {
        Error::invalid(format!("{}: {why}; it takes {}", self.name, self.usage))
    }

    /// The table's name and the option's value.
    fn read(&self, args: &[Expr]) -> Result<(Vec<String>, String)> {
        let texts = args
            .iter()
            .map(|arg| text(arg).ok_or_else(|| self.wrong(&format!("'{arg}' is not a constant"))))
            .collect::<Result<Vec<_>>>()?;
        let [table, rest @ ..] = texts.as_slice() else { return Err(self.wrong("the table is missing")) };
        if rest.len() != self.arguments {
            return Err(self.wrong(&format!("there are {} arguments after the table", rest.len())));
        }
        if let Some(bad) = rest.iter().find(|text| text.contains(',')) {
            return Err(self.wrong(&format!("'{bad}' holds a comma")));
        }
        Ok((self.name_of(table)?, rest.join(",")))
    }

    /// The parts of a table's name as a statement would read them, in the case written.
    fn name_of(&self, table: &str) -> Result<Vec<String>> {
        let wrong = || self.wrong(&format!("'{table}' is not the name of a table"));
        let mut parts = Vec::new();
        for (index, token) in tokens::tokenize(table)?.into_iter().enumerate() {
            match token.token {
                Token::Word(word) if index % 2 == 0 => parts.push(word.value),
                Token::Period if index % 2 == 1 => {}
                Token::EOF => {}
                _ => return Err(wrong()),
            }
        }
        if matches!(parts.len(), 1..=3) { Ok(parts) } else { Err(wrong()) }
    }
}

impl TableFunctionImpl for Incremental {
    fn call_with_args(&self, args: TableFunctionArgs) -> EngineResult<Arc<dyn TableProvider>> {
        let (parts, value) = self.read(args.exprs())?;
        Ok(open(args.session(), &parts, BTreeMap::from([(self.option.to_owned(), value)]))?)
    }
}

/// Opens a table of a lake catalog with `options`.
fn open(session: &dyn Session, parts: &[String], options: BTreeMap<String, String>) -> Result<Arc<dyn TableProvider>> {
    let current = &session.config_options().catalog;
    let (catalog, database, table) = match parts {
        [table] => (&current.default_catalog, &current.default_schema, table),
        [database, table] => (&current.default_catalog, database, table),
        [catalog, database, table] => (catalog, database, table),
        _ => return Err(Error::internal("a table's name of no or too many parts")),
    };
    let missing = || Error::not_found(format!("there is no table {catalog}.{database}.{table}"));
    let provider = session.catalog_list().catalog(catalog).ok_or_else(missing)?;
    let schema = provider.schema(database).ok_or_else(missing)?;
    let name = table.clone();
    let opened = bridge::wait_for(async move {
        match schema.downcast_ref::<LakeSchema>() {
            Some(lake) => Ok(lake.open(&name, options).await?),
            None => Err(Error::invalid(format!("{name} is not a table of a lake catalog"))),
        }
    })?;
    opened.ok_or_else(missing)
}

/// A constant as text.
pub(super) fn text(arg: &Expr) -> Option<String> {
    let value = match arg {
        Expr::Literal(value, _) => value.clone(),
        Expr::Negative(inner) => return text(inner).map(|text| format!("-{text}")),
        Expr::Cast(cast) => return text(&cast.expr),
        _ => return None,
    };
    match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => text,
        value if value.data_type().is_integer() && !value.is_null() => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::lit;

    use super::*;

    #[test]
    fn read_when_arguments_are_constants_then_name_and_range() {
        let (query, time, tag) = (&ALL[0], &ALL[1], &ALL[2]);
        let name = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        assert_eq!(query.read(&[lit("db.t"), lit(1), lit("7")]).unwrap(), (name(&["db", "t"]), "1,7".to_owned()));
        assert_eq!(
            time.read(&[lit("`a`.`B`.t$branch_x"), lit(5_i64), lit("2024-01-01 10:00")]).unwrap(),
            (name(&["a", "B", "t$branch_x"]), "5,2024-01-01 10:00".to_owned())
        );
        assert_eq!(tag.read(&[lit("t"), lit("2024-01-01")]).unwrap().1, "2024-01-01");
    }

    #[test]
    fn read_when_arguments_are_wrong_then_the_error_tells_the_usage() {
        let query = &ALL[0];
        for args in [
            vec![],
            vec![lit("t"), lit(1)],
            vec![lit("t"), lit(1), lit(2), lit(3)],
            vec![lit("t"), lit("1,2"), lit(3)],
            vec![lit("a.b.c.d"), lit(1), lit(2)],
            vec![lit("t t"), lit(1), lit(2)],
            vec![lit("t"), datafusion::prelude::col("x"), lit(2)],
        ] {
            let error = query.read(&args).unwrap_err().to_string();
            assert!(error.starts_with("paimon_incremental_query: ") && error.contains("start exclusive"), "{error}");
        }
    }
}
