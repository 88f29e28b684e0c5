//! Names in capitals that were written without quotes.
//!
//! The engine takes `Orders` for `orders`, Flink for `Orders`. A statement is planned the engine's way first; only when that
//! fails are its names looked up again: as written, and then whatever their case if only one table or column fits.
//! Imports the parser's tree and `prepass`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::catalog::SchemaProvider;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectNamePart, Query, Select, SelectItem, TableAlias, TableFactor, VisitorMut,
};

use super::prepass::{idents, normalized, walk};
use crate::error::{Error, Result};

/// `statement` with its names in the case that the catalog has, or `None` when nothing is to change.
pub(crate) async fn resolved(
    context: &SessionContext,
    current: (&str, &str),
    statement: &Statement,
) -> Result<Option<Statement>> {
    let mut statement = statement.clone();
    let mut collect = Collect::default();
    walk(&mut statement, &mut collect)?;
    let mut tables = BTreeMap::new();
    let mut columns = Columns::default();
    for name in collect.tables {
        let [.., table] = name.as_slice() else { continue };
        let database = if name.len() > 1 { normalized(&name[name.len() - 2]) } else { current.1.to_owned() };
        let catalog = if name.len() > 2 { normalized(&name[0]) } else { current.0.to_owned() };
        if name.len() == 1 && collect.ctes.contains(&normalized(table)) {
            continue;
        }
        let Some(schema) = context.catalog(&catalog).and_then(|catalog| catalog.schema(&database)) else { continue };
        let Some(exact) = table_name(&schema, table).await? else { continue };
        if let Some(provider) = schema.table(&exact).await? {
            provider.schema().fields().iter().for_each(|field| columns.add(field.name()));
        }
        if exact != normalized(table) {
            tables.insert(name, exact);
        }
    }
    let mut rename = Rename { tables, columns, relations: collect.relations, changed: false };
    walk(&mut statement, &mut rename)?;
    Ok(rename.changed.then_some(statement))
}

/// The name under which `schema` has the table written as `ident`.
pub(crate) async fn table_name(schema: &Arc<dyn SchemaProvider>, ident: &Ident) -> Result<Option<String>> {
    let usual = normalized(ident);
    if let Ok(Some(_)) = schema.table(&usual).await {
        return Ok(Some(usual));
    }
    if ident.quote_style.is_some() {
        return Ok(None);
    }
    // What follows the table's name (a branch, a system table, a version) keeps the case that it has.
    let end = ident.value.find(['$', '@']).unwrap_or(ident.value.len());
    let (table, rest) = ident.value.split_at(end);
    let names = schema.table_names();
    if names.iter().any(|name| name == table) {
        return Ok(Some(ident.value.clone()));
    }
    let mut fitting = names.iter().filter(|name| name.eq_ignore_ascii_case(table));
    match (fitting.next(), fitting.next()) {
        (Some(name), None) => Ok(Some(format!("{name}{rest}"))),
        _ => Ok(None),
    }
}

/// The tables and common table expressions that a statement names.
#[derive(Default)]
pub(super) struct Collect {
    pub(super) tables: BTreeSet<Vec<Ident>>,
    pub(super) ctes: BTreeSet<String>,
    /// Every name that a column can be qualified with.
    relations: BTreeSet<String>,
}

impl VisitorMut for Collect {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.ctes.insert(normalized(&cte.alias.name));
            self.relations.insert(normalized(&cte.alias.name));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } = factor
        {
            self.relations.insert(normalized(&alias.name));
        }
        if let TableFactor::Table { name, args: None, .. } = factor
            && let Some(parts) = idents(name)
        {
            self.relations.extend(parts.iter().map(|part| normalized(part)));
            self.tables.insert(parts.into_iter().cloned().collect());
        }
        ControlFlow::Continue(())
    }
}

/// The columns of all tables of a statement.
#[derive(Default)]
struct Columns {
    names: BTreeSet<String>,
    by_lower_case: BTreeMap<String, BTreeSet<String>>,
}

impl Columns {
    fn add(&mut self, name: &str) {
        self.names.insert(name.to_owned());
        self.by_lower_case.entry(name.to_ascii_lowercase()).or_default().insert(name.to_owned());
    }

    /// The column that `ident` means, when that is not the one that the engine would take.
    fn exact(&self, ident: &Ident) -> Option<&String> {
        let usual = ident.value.to_ascii_lowercase();
        if ident.quote_style.is_some() || self.names.contains(&usual) {
            return None;
        }
        if let Some(exact) = self.names.get(&ident.value) {
            return Some(exact);
        }
        let fitting = self.by_lower_case.get(&usual)?;
        if fitting.len() == 1 { fitting.first() } else { None }
    }
}

struct Rename {
    tables: BTreeMap<Vec<Ident>, String>,
    columns: Columns,
    /// Names that stand for relations, not for columns.
    relations: BTreeSet<String>,
    changed: bool,
}

impl Rename {
    fn column(&mut self, ident: &mut Ident) {
        if let Some(exact) = self.columns.exact(ident) {
            *ident = Ident::with_quote('"', exact.clone());
            self.changed = true;
        }
    }
}

impl VisitorMut for Rename {
    type Break = Error;

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let TableFactor::Table { name, alias, .. } = factor {
            let parts: Option<Vec<Ident>> = idents(name).map(|parts| parts.into_iter().cloned().collect());
            if let Some(exact) = parts.and_then(|parts| self.tables.get(&parts))
                && let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut()
            {
                if alias.is_none() {
                    *alias = Some(TableAlias { explicit: true, name: last.clone(), columns: Vec::new(), at: None });
                }
                *last = Ident::with_quote('"', exact.clone());
                self.changed = true;
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        // An alias that reads like a column goes by the column's name, so that what refers to it still finds it.
        for item in &mut select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.column(alias);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match expr {
            Expr::Identifier(ident) => self.column(ident),
            Expr::CompoundIdentifier(parts) => {
                let qualified = parts.first().is_some_and(|first| self.relations.contains(&normalized(first)));
                parts.iter_mut().skip(usize::from(qualified)).for_each(|part| self.column(part));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
