//! Views of the session: a name for a query, gone with the session.
//!
//! A view keeps its query as it was written. Whenever a statement names it, the query is planned anew, so that it sees the tables
//! as they are then, also after ALTER TABLE. Names in it mean what they meant where the view was created.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::datasource::ViewTable;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::DataFrame;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, Query, Statement as SqlStatement};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use parking_lot::RwLock;

use super::insert::parsed_query;
use super::read::shown;
use super::statement::{CreateView, Name};
use super::target::LakeTarget;
use crate::error::{Error, ErrorKind, Result};
use crate::sql::case::Collect;
use crate::sql::prepass::{normalized, walk};
use crate::sql::{LakeSession, describe};

/// Catalog, database and name of a view.
type Key = (String, String, String);

/// A view.
#[derive(Clone, Debug)]
struct View {
    columns: Vec<String>,
    query: Box<Query>,
    comment: Option<String>,
    /// The current catalog and database where it was created.
    within: (String, String),
}

impl View {
    /// The statement that makes the view.
    fn definition(&self, name: &str) -> String {
        let quoted = |text: &str| format!("`{}`", text.replace('`', "``"));
        let columns: Vec<String> = self.columns.iter().map(|column| quoted(column)).collect();
        let columns = if columns.is_empty() { String::new() } else { format!(" ({})", columns.join(", ")) };
        let comment =
            self.comment.as_ref().map_or_else(String::new, |text| format!(" COMMENT '{}'", text.replace('\'', "''")));
        format!("CREATE TEMPORARY VIEW {}{columns}{comment} AS {}", quoted(name), self.query)
    }
}

/// The views of a session.
#[derive(Debug, Default)]
pub(crate) struct Views {
    views: RwLock<BTreeMap<Key, View>>,
}

impl Views {
    /// The view that a name means: as written, or the only one that differs in nothing but case.
    fn find(&self, catalog: &str, database: &str, name: &str) -> Option<(Key, View)> {
        let views = self.views.read();
        let of_database = || {
            views.iter().filter(|((of_catalog, of_database, _), _)| of_catalog == catalog && of_database == database)
        };
        let exact = of_database().find(|((.., known), _)| known == name);
        let mut alike = of_database().filter(|((.., known), _)| known.eq_ignore_ascii_case(name));
        let found = exact.or_else(|| match (alike.next(), alike.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        });
        found.map(|(key, view)| (key.clone(), view.clone()))
    }

    /// Whether there is such a view.
    pub(crate) fn contains(&self, catalog: &str, database: &str, name: &str) -> bool {
        self.find(catalog, database, name).is_some()
    }

    /// The names of the views of a database, in order.
    pub(crate) fn names(&self, catalog: &str, database: &str) -> Vec<String> {
        let views = self.views.read();
        let of_database =
            views.keys().filter(|(of_catalog, of_database, _)| of_catalog == catalog && of_database == database);
        of_database.map(|(.., name)| name.clone()).collect()
    }

    /// Forgets the views of a database that is gone.
    pub(super) fn forget_database(&self, catalog: &str, database: &str) {
        self.views.write().retain(|(of_catalog, of_database, _), _| of_catalog != catalog || of_database != database);
    }
}

impl LakeSession {
    pub(super) async fn create_view(&self, view: CreateView, tokens: Vec<TokenWithSpan>) -> Result<DataFrame> {
        let Some(target) = self.lake_target(&view.name).await? else { return self.to_engine(tokens).await };
        let name = target.table("CREATE VIEW")?;
        let within = &target.within;
        let known = self.views.find(&within.catalog_name, &within.database, name);
        if known.is_some() && view.if_not_exists {
            return Ok(self.nothing());
        }
        if known.is_some() && !view.or_replace {
            return Err(exists(&target, "there is a view of this name; write CREATE OR REPLACE VIEW"));
        }
        if known.is_none() {
            let holds = within.schema.holds(name);
            if holds || target.catalog().table_exists(target.database(), name).await? {
                return Err(exists(&target, "there is a table of this name, which a view would hide"));
            }
        }
        let columns: Vec<String> = view.columns.iter().map(|column| column.value.clone()).collect();
        let new = View { columns, query: parsed_query(view.query)?, comment: view.comment, within: self.current() };
        let key = (within.catalog_name.clone(), within.database.clone(), name.to_owned());
        let key = known.map_or(key, |(key, _)| key);
        // A view that cannot be planned is not made, and one that was there stays.
        let table = Box::pin(self.view_table(&key, &new, &mut vec![key.clone()])).await?;
        within.schema.keep(&key.2, Arc::new(table));
        self.views.views.write().insert(key, new);
        Ok(self.nothing())
    }

    pub(super) async fn drop_view(
        &self,
        name: &Name,
        if_exists: bool,
        tokens: Vec<TokenWithSpan>,
    ) -> Result<DataFrame> {
        let Some(target) = self.lake_target(name).await? else { return self.to_engine(tokens).await };
        let within = &target.within;
        match self.views.find(&within.catalog_name, &within.database, &target.object.table) {
            Some((key, _)) => {
                within.schema.forget(&key.2);
                self.views.views.write().remove(&key);
                Ok(self.nothing())
            }
            None if if_exists => Ok(self.nothing()),
            None => Err(target.at(Error::not_found("DROP VIEW: the session has no such view"))),
        }
    }

    /// SHOW CREATE VIEW.
    pub(in crate::sql) async fn show_create_view(&self, name: &[Ident]) -> Result<DataFrame> {
        let target = self.only_lake_target(name, "SHOW CREATE VIEW").await?;
        let within = &target.within;
        let (key, view) = self
            .views
            .find(&within.catalog_name, &within.database, &target.object.table)
            .ok_or_else(|| Error::not_found(format!("the session has no view {}", shown(&name.to_vec()))))?;
        self.rows(describe::names("result", [view.definition(&key.2)])?)
    }

    /// Plans the views anew that a statement names.
    pub(in crate::sql) async fn refresh_views(&self, statement: &Statement) -> Result<()> {
        if self.views.views.read().is_empty() {
            return Ok(());
        }
        Box::pin(self.refresh_within(statement, &self.current(), &mut Vec::new())).await
    }

    async fn refresh_within(
        &self,
        statement: &Statement,
        current: &(String, String),
        reading: &mut Vec<Key>,
    ) -> Result<()> {
        let mut collect = Collect::default();
        walk(&mut statement.clone(), &mut collect)?;
        for name in &collect.tables {
            let Some((table, before)) = name.split_last() else { continue };
            if before.is_empty() && collect.ctes.contains(&normalized(table)) {
                continue;
            }
            let database = before.last().map_or_else(|| current.1.clone(), normalized);
            let catalog = if before.len() > 1 { normalized(&before[0]) } else { current.0.clone() };
            let Some((key, view)) = self.views.find(&catalog, &database, &table.value) else { continue };
            if reading.contains(&key) {
                return Err(Error::invalid(format!("the view {} reads itself", key.2)));
            }
            reading.push(key.clone());
            let table =
                Box::pin(self.view_table(&key, &view, reading)).await.map_err(|error| error.with("view", &key.2))?;
            reading.pop();
            if let Some(within) =
                self.lake_database(&[Ident::with_quote('"', &key.0), Ident::with_quote('"', &key.1)]).await?
            {
                within.schema.keep(&key.2, Arc::new(table));
            }
        }
        Ok(())
    }

    async fn view_table(&self, key: &Key, view: &View, reading: &mut Vec<Key>) -> Result<ViewTable> {
        let statement = Statement::Statement(Box::new(SqlStatement::Query(view.query.clone())));
        self.refresh_within(&statement, &view.within, reading).await?;
        let plan = Box::pin(self.plan_within(statement, &view.within)).await?;
        let plan = with_names(plan, &view.columns)?;
        let mut names: Vec<&String> = plan.schema().fields().iter().map(|field| field.name()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::invalid(format!("the view would have two columns {}; name them apart", twice[0])));
        }
        Ok(ViewTable::new(plan, Some(view.definition(&key.2))))
    }
}

fn exists(target: &LakeTarget, what: &str) -> Error {
    target.at(Error::new(ErrorKind::AlreadyExists, what))
}

/// A plan with the columns of the view's list.
fn with_names(plan: LogicalPlan, names: &[String]) -> Result<LogicalPlan> {
    if names.is_empty() {
        return Ok(plan);
    }
    if names.len() != plan.schema().fields().len() {
        return Err(Error::invalid(format!(
            "the view has {} columns and its query gives {}",
            names.len(),
            plan.schema().fields().len()
        )));
    }
    let columns: Vec<Expr> =
        plan.schema().iter().zip(names).map(|(column, name)| Expr::Column(column.into()).alias(name)).collect();
    Ok(LogicalPlanBuilder::from(plan).project(columns)?.build()?)
}
