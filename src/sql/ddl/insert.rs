//! INSERT as Flink and Spark write it, as the engine's INSERT.
//!
//! ```text
//! INSERT INTO t PARTITION (dt = 'x') SELECT a, b       ->  INSERT INTO t (a, b, dt) SELECT query.*, 'x' FROM (SELECT a, b) query
//! INSERT OVERWRITE t /*+ OPTIONS('k' = 'v') */ PARTITION (dt = 'x') ..
//!                                                      ->  INSERT OVERWRITE "t@opts:k=v&insert.partition.dt=x" ..
//! ```
//! Which partition is overwritten travels in the table's name ([`hints`]), as the options do.

use std::collections::BTreeMap;

use datafusion::prelude::DataFrame;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, Insert as SqlInsert, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Statement as SqlStatement,
    TableFactor, TableObject,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::create::NewlyCreated;
use super::statement::Insert;
use super::target::LakeTarget;
use crate::error::{Error, Result};
use crate::sql::session::found;
use crate::sql::statement::engine_statement;
use crate::sql::{LakeSession, hints, prepass, tokens};
use crate::table::Table;

/// The name of the query whose rows get constant columns.
const QUERY: &str = "inserted query";

impl LakeSession {
    pub(super) async fn insert(&self, insert: Insert, tokens: Vec<TokenWithSpan>) -> Result<DataFrame> {
        let Some(target) = self.lake_target(&insert.table).await? else { return self.to_engine(tokens).await };
        let object = target.table_or_branch("INSERT")?;
        if target.within.schema.holds(&object.table) {
            return self.to_engine(tokens).await;
        }
        let statement = Box::pin(self.insert_statement(&insert, &target)).await.map_err(|error| target.at(error))?;
        let statement = if insert.explain.is_empty() { statement } else { explained(&insert.explain, statement)? };
        Box::pin(self.run_planned(statement)).await
    }

    /// Inserts all rows of a query into a table of the same columns and tells how many they were.
    pub(super) async fn insert_all(&self, table: &NewlyCreated, query: &[TokenWithSpan]) -> Result<DataFrame> {
        let mut query = parsed_query(query.to_vec())?;
        name_items(&mut query);
        let name = quoted_name([&table.catalog_name, &table.database, &table.table]);
        let frame = Box::pin(self.run_planned(insert_into(name, Vec::new(), false, query)?)).await?;
        let counted = Box::pin(frame.collect()).await?;
        Ok(self.context.read_batches(counted)?)
    }

    async fn insert_statement(&self, insert: &Insert, target: &LakeTarget) -> Result<Statement> {
        let table = target.open().await?;
        let names: Vec<String> = table.schema().fields.iter().map(|field| field.name.clone()).collect();
        let column = |ident: &Ident| {
            let exact = names.contains(&ident.value).then(|| ident.value.clone());
            exact.or_else(|| found(ident, &names)).ok_or_else(|| {
                Error::not_found(format!("there is no column {ident}; the table has {}", names.join(", ")))
            })
        };
        let mut fixed: Vec<(String, Vec<TokenWithSpan>)> = Vec::new();
        let mut overwritten: BTreeMap<String, Option<String>> = BTreeMap::new();
        let mut open = Vec::new();
        for (ident, value) in &insert.partition {
            let name = column(ident)?;
            if !table.schema().partition_keys.contains(&name) {
                return Err(not_a_partition_key(&table, &name));
            }
            match value {
                Some(value) => {
                    overwritten.insert(name.clone(), value.text.clone());
                    fixed.push((name, value.tokens.clone()));
                }
                None => open.push(name),
            }
        }
        let mut query = parsed_query(insert.query.clone())?;
        let mut columns: Vec<String> = if insert.by_name {
            let plan = Box::pin(self.plan_query(&insert.query)).await?;
            let given = plan.schema().fields().iter().map(|field| column(&Ident::new(field.name().as_str())));
            given.collect::<Result<_>>()?
        } else {
            insert.columns.iter().map(column).collect::<Result<_>>()?
        };
        if let Some((name, _)) = fixed.iter().find(|(name, _)| columns.contains(name)) {
            return Err(Error::invalid(format!("column {name} is given by PARTITION and by the list of columns")));
        }
        name_items(&mut query);
        if !insert.partition.is_empty() && columns.is_empty() {
            let given = |name: &String| !open.contains(name) && fixed.iter().all(|(fixed, _)| fixed != name);
            columns = names.iter().filter(|name| given(name)).chain(&open).cloned().collect();
        }
        if !fixed.is_empty() {
            query = with_constants(query, &fixed)?;
            columns.extend(fixed.into_iter().map(|(name, _)| name));
        }
        let mut options: BTreeMap<String, String> = insert.options.iter().cloned().collect();
        prepass::check_options(&options)?;
        if insert.overwrite {
            options.extend(hints::static_partition(&overwritten));
        }
        let suffix = if options.is_empty() { String::new() } else { hints::encode(&options) };
        let within = &target.within;
        let name = quoted_name([&within.catalog_name, &within.database, &format!("{}{suffix}", target.object)]);
        insert_into(name, columns, insert.overwrite, query)
    }
}

fn not_a_partition_key(table: &Table, name: &str) -> Error {
    let keys = &table.schema().partition_keys;
    Error::invalid(match keys.is_empty() {
        true => format!("PARTITION names column {name}, and the table has no partitions"),
        false => {
            format!("PARTITION names column {name}, which is not one of the partition columns {}", keys.join(", "))
        }
    })
}

fn quoted_name(parts: [&str; 3]) -> ObjectName {
    ObjectName(parts.into_iter().map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part))).collect())
}

/// A query out of its tokens.
pub(super) fn parsed_query(tokens: Vec<TokenWithSpan>) -> Result<Box<Query>> {
    if let Statement::Statement(statement) = engine_statement(tokens)?
        && let SqlStatement::Query(query) = *statement
    {
        return Ok(query);
    }
    Err(Error::invalid("a query is expected: SELECT, WITH, VALUES or TABLE"))
}

/// The engine's INSERT.
fn insert_into(name: ObjectName, columns: Vec<String>, overwrite: bool, query: Box<Query>) -> Result<Statement> {
    let mut insert = empty_insert()?;
    insert.table = TableObject::TableName(name);
    insert.columns = columns.into_iter().map(|column| ObjectName::from(Ident::with_quote('"', column))).collect();
    insert.overwrite = overwrite;
    insert.source = Some(query);
    Ok(Statement::Statement(Box::new(SqlStatement::Insert(insert))))
}

/// An INSERT with all the parts that ours do not have.
fn empty_insert() -> Result<SqlInsert> {
    if let Statement::Statement(statement) = engine_statement(tokens::tokenize("INSERT INTO t SELECT 1")?)?
        && let SqlStatement::Insert(insert) = *statement
    {
        return Ok(insert);
    }
    Err(Error::internal("the engine's parser does not read INSERT"))
}

/// `EXPLAIN ..` of a statement.
fn explained(prefix: &[TokenWithSpan], statement: Statement) -> Result<Statement> {
    let example = tokens::tokenize("SELECT 1")?;
    match engine_statement(prefix.iter().cloned().chain(example).collect())? {
        Statement::Explain(mut explain) => {
            explain.statement = Box::new(statement);
            Ok(Statement::Explain(explain))
        }
        _ => Err(Error::internal("the engine's parser does not read EXPLAIN")),
    }
}

/// Gives columns of a SELECT that read alike names of their own: the engine wants them different, and an INSERT does not
/// look at them.
fn name_items(query: &mut Query) {
    let mut body = query.body.as_mut();
    while let SetExpr::Query(inner) = body {
        body = inner.body.as_mut();
    }
    let SetExpr::Select(select) = body else { return };
    let texts: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
    for (i, item) in select.projection.iter_mut().enumerate() {
        if let SelectItem::UnnamedExpr(expr) = item
            && texts[..i].contains(&texts[i])
        {
            *item = SelectItem::ExprWithAlias {
                expr: expr.clone(),
                alias: Ident::with_quote('"', format!("column {}", i + 1)),
            };
        }
    }
}

/// `SELECT query.*, constant, .. FROM (query) query`
fn with_constants(query: Box<Query>, constants: &[(String, Vec<TokenWithSpan>)]) -> Result<Box<Query>> {
    let mut text = tokens::tokenize(&format!("SELECT \"{QUERY}\".*"))?;
    let span = text[0].span;
    let mut push = |token| text.push(TokenWithSpan::new(token, span));
    for (column, constant) in constants {
        push(Token::Comma);
        constant.iter().for_each(|token| push(token.token.clone()));
        push(tokens::bare("AS"));
        push(Token::Word(tokens::quoted(format!("partition {column}"))));
    }
    text.extend(tokens::tokenize(&format!("FROM (SELECT 1) \"{QUERY}\""))?);
    let mut outer = parsed_query(text)?;
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        *subquery = query;
        return Ok(outer);
    }
    Err(Error::internal("a query with constants is not read as such"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(sql: &str) -> String {
        let mut query = parsed_query(tokens::tokenize(sql).unwrap()).unwrap();
        name_items(&mut query);
        query.to_string()
    }

    #[test]
    fn name_items_when_columns_read_alike_then_the_later_ones_are_named() {
        assert_eq!(named("SELECT 1, a, 1, a FROM t"), "SELECT 1, a, 1 AS \"column 3\", a AS \"column 4\" FROM t");
        assert_eq!(named("SELECT *, b FROM t"), "SELECT *, b FROM t");
        assert_eq!(named("VALUES (1, 1)"), "VALUES (1, 1)");
    }

    #[test]
    fn with_constants_when_the_query_is_any_then_it_stands_in_parentheses() {
        let constants =
            [("dt".to_owned(), tokens::tokenize("'x'").unwrap()), ("n".to_owned(), tokens::tokenize("-1").unwrap())];
        for query in ["WITH w AS (SELECT 1) SELECT * FROM w ORDER BY 1 LIMIT 1", "VALUES (1)"] {
            let query = parsed_query(tokens::tokenize(query).unwrap()).unwrap();
            assert_eq!(
                with_constants(query.clone(), &constants).unwrap().to_string(),
                format!(
                    "SELECT \"inserted query\".*, 'x' AS \"partition dt\", -1 AS \"partition n\" FROM ({query}) \"inserted query\""
                )
            );
        }
    }

    #[test]
    fn explained_when_options_are_given_then_the_insert_is_inside() {
        let statement = insert_into(
            quoted_name(["a", "b", "c"]),
            vec!["x".to_owned()],
            true,
            parsed_query(tokens::tokenize("SELECT 1").unwrap()).unwrap(),
        );
        let text = explained(&tokens::tokenize("EXPLAIN VERBOSE").unwrap(), statement.unwrap()).unwrap().to_string();
        assert!(text.contains("INSERT OVERWRITE") && text.contains("\"a\".\"b\".\"c\" (\"x\") SELECT 1"), "{text}");
    }
}
