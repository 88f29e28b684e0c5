//! `_ROW_ID` and `_SEQUENCE_NUMBER` of row-tracking tables, in statements that name them.
//!
//! A table of the engine has no hidden columns, so the two are columns of `t$row_tracking`. A statement that is not understood
//! and names one of them is planned again with its row-tracking tables under that name; every `*` leaves the two out, so
//! that it means what it did. Imports the parser's tree, `case` and `prepass`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectNamePart, Select, SelectItem,
    SelectItemQualifiedWildcardKind, TableAlias, TableFactor, VisitorMut, WildcardAdditionalOptions,
};

use super::case::{Collect, table_name};
use super::prepass::{idents, normalized, walk};
use crate::error::{Error, Result};
use crate::spec::types::{ROW_ID, SEQUENCE_NUMBER};

/// The system table of a row-tracking table that shows the ids of its rows.
pub(crate) const ROW_TRACKING: &str = "row_tracking";

const COLUMNS: [&str; 2] = [ROW_ID, SEQUENCE_NUMBER];

/// The system column that `ident` means.
fn system_column(ident: &Ident) -> Option<&'static str> {
    COLUMNS.into_iter().find(|column| match ident.quote_style {
        Some(_) => ident.value == *column,
        None => ident.value.eq_ignore_ascii_case(column),
    })
}

/// `statement` over tables that show their row ids, or `None` when it names no such column or no such table.
///
/// # Errors
/// Unsupported where leaving the columns out of `*` or of a natural join has no form.
pub(crate) async fn resolved(
    context: &SessionContext,
    current: (&str, &str),
    statement: &Statement,
) -> Result<Option<Statement>> {
    let mut statement = statement.clone();
    let mut mentions = Mentions(false);
    walk(&mut statement, &mut mentions)?;
    if !mentions.0 {
        return Ok(None);
    }
    let mut collect = Collect::default();
    walk(&mut statement, &mut collect)?;
    let mut tables = BTreeMap::new();
    for name in collect.tables {
        let [.., table] = name.as_slice() else { continue };
        let database = if name.len() > 1 { normalized(&name[name.len() - 2]) } else { current.1.to_owned() };
        let catalog = if name.len() > 2 { normalized(&name[0]) } else { current.0.to_owned() };
        if name.len() == 1 && collect.ctes.contains(&normalized(table)) {
            continue;
        }
        let Some(schema) = context.catalog(&catalog).and_then(|catalog| catalog.schema(&database)) else { continue };
        let Some(exact) = table_name(&schema, table).await? else { continue };
        let (base, version) = exact.split_at(exact.find('@').unwrap_or(exact.len()));
        let with_ids = format!("{base}${ROW_TRACKING}{version}");
        // A table without row ids has no such system table.
        if let Ok(Some(_)) = schema.table(&with_ids).await {
            tables.insert(name, with_ids);
        }
    }
    if tables.is_empty() {
        return Ok(None);
    }
    walk(&mut statement, &mut ShowIds { tables })?;
    Ok(Some(statement))
}

/// Whether a system column is named.
struct Mentions(bool);

impl VisitorMut for Mentions {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        self.0 |= match expr {
            Expr::Identifier(ident) => system_column(ident).is_some(),
            Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|last| system_column(last).is_some()),
            _ => false,
        };
        ControlFlow::Continue(())
    }
}

/// Puts the tables with ids in the place of the others.
struct ShowIds {
    tables: BTreeMap<Vec<Ident>, String>,
}

impl ShowIds {
    /// The name of the table with ids that takes the place of `factor`.
    fn replacement(&self, factor: &TableFactor) -> Option<&String> {
        let TableFactor::Table { name, args: None, .. } = factor else { return None };
        let parts: Vec<Ident> = idents(name)?.into_iter().cloned().collect();
        self.tables.get(&parts)
    }

    /// Under which names the tables of a FROM that are replaced go.
    fn replaced(&self, select: &Select) -> Vec<String> {
        let factors = select
            .from
            .iter()
            .flat_map(|from| std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)));
        let replaced = factors.filter(|factor| self.replacement(factor).is_some());
        replaced
            .filter_map(|factor| match factor {
                TableFactor::Table { alias: Some(alias), .. } => Some(normalized(&alias.name)),
                TableFactor::Table { name, .. } => idents(name)?.last().map(|last| normalized(last)),
                _ => None,
            })
            .collect()
    }

    fn select(&self, select: &mut Select) -> Result<()> {
        let replaced = self.replaced(select);
        let refused = |what: &str| {
            Err(Error::unsupported(format!(
                "{what} over several tables with row ids, beside {ROW_ID} or {SEQUENCE_NUMBER}; name the columns"
            )))
        };
        if replaced.len() > 1 && select.from.iter().flat_map(|from| &from.joins).any(is_natural) {
            return refused("NATURAL JOIN");
        }
        for item in &mut select.projection {
            match item {
                SelectItem::Wildcard(options) if !replaced.is_empty() => {
                    if replaced.len() > 1 {
                        return refused("*");
                    }
                    leave_out(options);
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                    if idents(name)
                        .and_then(|parts| parts.last().map(|last| normalized(last)))
                        .is_some_and(|name| replaced.contains(&name)) =>
                {
                    leave_out(options);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn is_natural(join: &datafusion::sql::sqlparser::ast::Join) -> bool {
    let (JoinOperator::Join(constraint)
    | JoinOperator::Inner(constraint)
    | JoinOperator::Left(constraint)
    | JoinOperator::LeftOuter(constraint)
    | JoinOperator::Right(constraint)
    | JoinOperator::RightOuter(constraint)
    | JoinOperator::FullOuter(constraint)) = &join.join_operator
    else {
        return false;
    };
    *constraint == JoinConstraint::Natural
}

/// Leaves the system columns out of a `*`.
fn leave_out(options: &mut WildcardAdditionalOptions) {
    let mut columns = COLUMNS.map(|column| Ident::with_quote('"', column)).to_vec();
    if let Some(except) = options.opt_except.take() {
        columns.push(except.first_element);
        columns.extend(except.additional_elements);
    }
    let first_element = columns.remove(0);
    options.opt_except = Some(ExceptSelectItem { first_element, additional_elements: columns });
}

impl VisitorMut for ShowIds {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // Before its tables are replaced.
        match self.select(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let Some(with_ids) = self.replacement(factor).cloned()
            && let TableFactor::Table { name, alias, .. } = factor
            && let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut()
        {
            if alias.is_none() {
                *alias = Some(TableAlias { explicit: true, name: last.clone(), columns: Vec::new(), at: None });
            }
            *last = Ident::with_quote('"', with_ids);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Identifier(ident) => {
                if let Some(column) = system_column(ident) {
                    *ident = Ident::with_quote('"', column);
                }
            }
            Expr::CompoundIdentifier(parts) => {
                // A table that now goes by an alias is no longer known by its qualified name.
                if let [table @ .., _] = parts.as_slice()
                    && table.len() > 1
                    && self.tables.contains_key(table)
                {
                    parts.drain(..parts.len() - 2);
                }
                if let Some(last) = parts.last_mut()
                    && let Some(column) = system_column(last)
                {
                    *last = Ident::with_quote('"', column);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::statement::{self, Parsed};
    use crate::sql::tokens;

    /// The statement with `t` and `db.u` shown with ids.
    fn shown(sql: &str) -> Result<String> {
        let tokens = tokens::split(tokens::tokenize(sql).unwrap()).into_iter().next().unwrap();
        let Parsed::Engine(mut statement) = statement::parse(tokens).unwrap() else { panic!("{sql}") };
        let tables = BTreeMap::from([
            (vec![Ident::new("t")], "t$row_tracking".to_owned()),
            (vec![Ident::new("db"), Ident::new("u")], "u$row_tracking".to_owned()),
        ]);
        walk(&mut statement, &mut ShowIds { tables })?;
        Ok(statement.to_string())
    }

    #[test]
    fn show_ids_when_tables_are_named_then_star_leaves_the_columns_out() {
        for (sql, expected) in [
            (
                "SELECT *, _row_id FROM t WHERE _ROW_ID >= 10",
                r#"SELECT * EXCEPT ("_ROW_ID", "_SEQUENCE_NUMBER"), "_ROW_ID" FROM "t$row_tracking" AS t WHERE "_ROW_ID" >= 10"#,
            ),
            (
                "SELECT a.*, x.* FROM t AS a JOIN x ON a._ROW_ID = x.id",
                r#"SELECT a.* EXCEPT ("_ROW_ID", "_SEQUENCE_NUMBER"), x.* FROM "t$row_tracking" AS a JOIN x ON a."_ROW_ID" = x.id"#,
            ),
            (
                "SELECT db.u._sequence_number, db.u.a FROM db.u",
                r#"SELECT u."_SEQUENCE_NUMBER", u.a FROM db."u$row_tracking" AS u"#,
            ),
            (
                "SELECT n FROM (SELECT * FROM t) AS s, x WHERE s._ROW_ID = 1",
                r#"SELECT n FROM (SELECT * EXCEPT ("_ROW_ID", "_SEQUENCE_NUMBER") FROM "t$row_tracking" AS t) AS s, x WHERE s."_ROW_ID" = 1"#,
            ),
            ("SELECT * FROM x", "SELECT * FROM x"),
        ] {
            assert_eq!(shown(sql).unwrap(), expected);
        }
    }

    #[test]
    fn show_ids_when_the_columns_have_no_one_owner_then_refused() {
        assert!(shown("SELECT *, a._ROW_ID FROM t AS a, t AS b").is_err());
        assert!(shown("SELECT a._ROW_ID FROM t AS a NATURAL JOIN db.u AS b").is_err());
    }
}
