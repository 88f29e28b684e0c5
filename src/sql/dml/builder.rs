//! MERGE out of a program: the source is a [`DataFrame`], conditions and values are expressions of the engine.
//!
//! Imports the engine's plans; [`super::rule`] does the rest.

use std::fmt;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::dml::{MergeIntoAction, MergeIntoClause, MergeIntoClauseKind, MergeIntoOp};
use datafusion::logical_expr::expr_rewriter::normalize_col_with_schemas_and_ambiguity_check;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, LogicalPlanBuilder, WriteOp};
use datafusion::prelude::{DataFrame, SessionContext};

use super::LakeDmlRule;
use crate::error::{Error, Result};

/// Begins a MERGE into `table`, of a session whose catalog came from [`register`](crate::sql::register) or a
/// [`LakeSession`](crate::LakeSession).
///
/// ```no_run
/// # use datafusion::prelude::*;
/// # async fn example(context: SessionContext, orders: DataFrame) -> tidelake::Result<()> {
/// use tidelake::{When, merge};
///
/// let changed = merge(&context, "lake.sales.orders")
///     .using(orders, "s")
///     .on(col("orders.id").eq(col("s.id")))
///     .when(When::matched().and(col("s.amount").is_null()).delete())
///     .when(When::matched().update_all())
///     .when(When::not_matched().insert_all())
///     .execute()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub fn merge(context: &SessionContext, table: impl Into<TableReference>) -> MergeBuilder {
    MergeBuilder { context: context.clone(), table: table.into(), source: None, on: None, clauses: Vec::new() }
}

/// A MERGE in the making.
#[derive(Clone)]
#[must_use]
pub struct MergeBuilder {
    context: SessionContext,
    table: TableReference,
    source: Option<(LogicalPlan, TableReference)>,
    on: Option<Expr>,
    clauses: Vec<When>,
}

/// A WHEN clause: which rows, and what becomes of them. Of several clauses the first one that fits a row counts.
#[derive(Clone, Debug)]
pub struct When {
    kind: MergeIntoClauseKind,
    predicate: Option<Expr>,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    UpdateAll,
    Update(Vec<(String, Expr)>),
    InsertAll,
    Insert(Vec<(String, Expr)>),
    Delete,
}

/// The rows that a clause is for.
#[derive(Clone, Debug)]
#[must_use]
pub struct Rows {
    kind: MergeIntoClauseKind,
    predicate: Option<Expr>,
}

impl When {
    /// Rows of the table that a row of the source matches.
    pub fn matched() -> Rows {
        Rows { kind: MergeIntoClauseKind::Matched, predicate: None }
    }

    /// Rows of the source that match no row of the table.
    pub fn not_matched() -> Rows {
        Rows { kind: MergeIntoClauseKind::NotMatched, predicate: None }
    }

    /// Rows of the table that no row of the source matches.
    pub fn not_matched_by_source() -> Rows {
        Rows { kind: MergeIntoClauseKind::NotMatchedBySource, predicate: None }
    }
}

impl Rows {
    /// Only those of them that satisfy `condition`, too.
    pub fn and(mut self, condition: Expr) -> Self {
        self.predicate = Some(match self.predicate.take() {
            Some(predicate) => predicate.and(condition),
            None => condition,
        });
        self
    }

    fn then(self, action: Action) -> When {
        When { kind: self.kind, predicate: self.predicate, action }
    }

    /// All columns get the values that the source has under the same names.
    pub fn update_all(self) -> When {
        self.then(Action::UpdateAll)
    }

    /// The named columns get these values.
    pub fn update<C: Into<String>>(self, values: impl IntoIterator<Item = (C, Expr)>) -> When {
        self.then(Action::Update(values.into_iter().map(|(column, value)| (column.into(), value)).collect()))
    }

    /// A row comes with the values that the source has under the names of the table's columns.
    pub fn insert_all(self) -> When {
        self.then(Action::InsertAll)
    }

    /// A row comes with these values in the named columns; the others get their default or NULL.
    pub fn insert<C: Into<String>>(self, values: impl IntoIterator<Item = (C, Expr)>) -> When {
        self.then(Action::Insert(values.into_iter().map(|(column, value)| (column.into(), value)).collect()))
    }

    /// The row goes.
    pub fn delete(self) -> When {
        self.then(Action::Delete)
    }
}

impl fmt::Debug for MergeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergeBuilder")
            .field("table", &self.table)
            .field("clauses", &self.clauses)
            .finish_non_exhaustive()
    }
}

impl MergeBuilder {
    /// The rows to merge; expressions name its columns as those of `alias`.
    pub fn using(mut self, source: DataFrame, alias: impl Into<String>) -> Self {
        let (_, plan) = source.into_parts();
        self.source = Some((plan, TableReference::bare(alias.into())));
        self
    }

    /// When a row of the table and one of the source match. Columns of the table are named by the table.
    pub fn on(mut self, condition: Expr) -> Self {
        self.on = Some(condition);
        self
    }

    /// One more clause.
    pub fn when(mut self, clause: When) -> Self {
        self.clauses.push(clause);
        self
    }

    /// The statement, to be looked at or run.
    ///
    /// # Errors
    /// Invalid without source, condition or clauses, not found for a table or column that there is not.
    pub async fn plan(self) -> Result<LogicalPlan> {
        let Some((source, alias)) = self.source else {
            return Err(Error::invalid("a merge needs the rows to merge; give them with using"));
        };
        let Some(on) = self.on else {
            return Err(Error::invalid("a merge needs the condition under which rows match; give it with on"));
        };
        if self.clauses.is_empty() {
            return Err(Error::invalid("a merge needs a clause; give it with when"));
        }
        let has_rule = self.context.state().analyzer().rules.iter().any(|rule| rule.name() == LakeDmlRule::NAME);
        if !has_rule {
            return Err(Error::unsupported(
                "the session was not prepared for lake tables; call tidelake::sql::register",
            ));
        }
        let provider = self.context.table_provider(self.table.clone()).await?;
        let target = DFSchema::try_from_qualified_schema(self.table.clone(), &provider.schema())?;
        let columns: Vec<String> = target.fields().iter().map(|field| field.name().clone()).collect();
        let source = LogicalPlanBuilder::from(source).alias(alias.clone())?.build()?;
        let resolved = |expr: Expr| -> Result<Expr> {
            Ok(normalize_col_with_schemas_and_ambiguity_check(expr, &[&[&target, source.schema().as_ref()]], &[])?)
        };
        let all = || -> Result<Vec<(String, Expr)>> {
            let of_source = |column: &String| {
                let known = source.schema().fields().iter().any(|field| field.name() == column);
                match known {
                    true => Ok((column.clone(), Expr::Column(Column::new(Some(alias.clone()), column.as_str())))),
                    false => Err(Error::not_found(format!("the source of the merge has no column {column}"))),
                }
            };
            columns.iter().map(of_source).collect()
        };
        let named = |values: Vec<(String, Expr)>| -> Result<Vec<(String, Expr)>> {
            let of_table = |(column, value): (String, Expr)| match columns.contains(&column) {
                true => Ok((column, resolved(value)?)),
                false => Err(Error::not_found(format!("{column} is not a column of {}", self.table))),
            };
            values.into_iter().map(of_table).collect()
        };
        let mut clauses = Vec::with_capacity(self.clauses.len());
        for clause in self.clauses {
            let inserts = matches!(clause.action, Action::Insert(_) | Action::InsertAll);
            if inserts != (clause.kind == MergeIntoClauseKind::NotMatched) {
                return Err(Error::invalid("rows without a match are inserted, others are updated or deleted"));
            }
            let action = match clause.action {
                Action::Delete => MergeIntoAction::Delete,
                Action::UpdateAll => MergeIntoAction::Update(all()?),
                Action::Update(values) => MergeIntoAction::Update(named(values)?),
                Action::InsertAll => {
                    let (columns, values) = all()?.into_iter().unzip();
                    MergeIntoAction::Insert { columns, values }
                }
                Action::Insert(values) => {
                    let (columns, values) = named(values)?.into_iter().unzip();
                    MergeIntoAction::Insert { columns, values }
                }
            };
            let predicate = clause.predicate.map(resolved).transpose()?;
            clauses.push(MergeIntoClause { kind: clause.kind, predicate, action });
        }
        let op = WriteOp::MergeInto(Box::new(MergeIntoOp { on: resolved(on)?, clauses }));
        let target = provider_as_source(provider);
        Ok(LogicalPlan::Dml(DmlStatement::new(self.table.clone(), target, op, Arc::new(source))))
    }

    /// Runs it; how many rows were inserted, updated and deleted.
    ///
    /// # Errors
    /// As [`Self::plan`]; invalid when a row of the table has two matches and is updated; conflict when others changed the same
    /// rows again and again.
    pub async fn execute(self) -> Result<u64> {
        let context = self.context.clone();
        let plan = Box::pin(self.plan()).await?;
        let answer = Box::pin(context.execute_logical_plan(plan).await?.collect()).await?;
        Ok(answer.iter().flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values()).sum())
    }
}
