//! From a statement to its plan.
//!
//! Imports the front end, `query`, `sink` and `shape`.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::datasource::provider_as_source;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{
    Analyze, Cast, DmlStatement, Explain, Expr, LogicalPlan, LogicalPlanBuilder, PlanType, ToStringifiedPlan, WriteOp,
    lit,
};
use datafusion::prelude::DataFrame;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, Query, Statement as SqlStatement};

use super::ROW_PLACES;
use super::allowed;
use super::query::{ChangeQuery, Changing, Target, Verb, any_query, changing, defaults_of, source_query};
use super::shape::{Action, ChangeShape, old_values_of_updates};
use super::sink::{Change, ChangeSink};
use crate::error::{Error, Result};
use crate::sql::LakeSession;
use crate::sql::case::table_name;
use crate::sql::ddl::cast_exactly;
use crate::sql::provider::LakeTable;
use crate::sql::travel::TableState;
use crate::sql::write::{by_position, check_conversion, whole_numbers};
use crate::table::Table;

impl LakeSession {
    /// Plans and runs a statement that changes rows of a lake table; `None` when `statement` is no such statement.
    pub(in crate::sql) async fn change_rows(&self, statement: &Statement) -> Result<Option<DataFrame>> {
        let Some((changing, explain)) = changing_statement(statement) else { return Ok(None) };
        let (name, alias) = changing.target_name()?;
        let Some(target) = self.lake_target(&name).await? else { return Ok(None) };
        let explain = match explain {
            // Planned around another statement that this one takes the place of.
            Some(explain) => Some(Box::pin(self.plan_within(explain, &self.current())).await?),
            None => None,
        };
        if self.read_only && !matches!(explain, Some(LogicalPlan::Explain(_))) {
            return Err(Error::invalid("this session only reads; only queries, SHOW, DESCRIBE, SET and USE are taken"));
        }
        let object = target.table_or_branch(changing.name())?;
        if target.within.schema.holds(&object.table) {
            return Ok(None);
        }
        let plan = Box::pin(self.change_plan(changing, &target, &name, alias)).await?;
        let plan = match explain {
            None => plan,
            Some(LogicalPlan::Explain(explain)) => {
                let stringified_plans = vec![plan.to_stringified(PlanType::InitialLogicalPlan)];
                LogicalPlan::Explain(Explain { plan: Arc::new(plan), stringified_plans, ..explain })
            }
            Some(LogicalPlan::Analyze(analyze)) => LogicalPlan::Analyze(Analyze { input: Arc::new(plan), ..analyze }),
            Some(_) => return Err(Error::internal("EXPLAIN is planned as something else")),
        };
        Ok(Some(self.context.execute_logical_plan(plan).await?))
    }

    async fn change_plan(
        &self,
        changing: Changing,
        target: &crate::sql::ddl::LakeTarget,
        name: &[Ident],
        alias: Option<Ident>,
    ) -> Result<LogicalPlan> {
        let verb = changing.name();
        let (Some(last), within) = (name.last(), &target.within) else {
            return Err(Error::invalid(format!("{verb} names no table")));
        };
        let provider = self.context.catalog(&within.catalog_name).and_then(|catalog| catalog.schema(&within.database));
        let missing = || Error::not_found(format!("there is no table {}.{}", within.database, target.object));
        let schema = provider.ok_or_else(missing)?;
        let exact = table_name(&schema, last).await?.ok_or_else(missing)?;
        let full = |table: &str| TableReference::full(within.catalog_name.as_str(), within.database.as_str(), table);
        let provider = self.context.table_provider(full(&exact)).await?;
        let Some(lake) = provider.downcast_ref::<LakeTable>() else {
            return Err(Error::unsupported(format!(
                "{verb}: {exact} is a system table or a view, which can't be changed"
            )));
        };
        let state = lake.changed_state(verb)?;
        let table = Arc::clone(&state.table);
        let columns: Vec<String> = table.schema().fields.iter().map(|field| field.name.clone()).collect();
        let quote = |text: &str| Ident::with_quote('"', text).to_string();
        let source = [&within.catalog_name, &within.database, &format!("{exact}${ROW_PLACES}")];
        let old_of_updates = old_values_of_updates(&table);
        let defaults = defaults_of(&table.schema().fields);
        let read = Target {
            source: source.map(|part| quote(part)).join("."),
            written: name.to_vec(),
            alias: alias.unwrap_or_else(|| last.clone()),
            columns: &columns,
            keys: &table.schema().primary_keys,
            old_of_updates: &old_of_updates,
            defaults: &defaults,
            row_ids: table.settings().row_tracking,
        };
        let with = changing.with;
        let ChangeQuery { query, shape } = match changing.verb {
            Verb::Delete(delete) => {
                let whole = delete.using.is_none() && delete.order_by.is_empty() && delete.limit.is_none();
                let query = read.delete(*delete, with)?;
                if whole && let Some(plan) = Box::pin(self.drop_plan(&query, &state, full(&exact))).await? {
                    return Ok(plan);
                }
                query
            }
            Verb::Update(update) => read.update(*update, with)?,
            Verb::Merge(merge) => {
                let source = Box::pin(self.planned(source_query(&merge.source, with.as_ref())?)).await?;
                let names: Vec<String> = source.schema().fields().iter().map(|field| field.name().clone()).collect();
                read.merge(*merge, &names, with)?
            }
        };
        for action in [Action::Insert, Action::Update, Action::Delete] {
            if shape.does(action) {
                allowed::check(&table, verb, action)?;
            }
        }
        let mut rows = self.with_final_types(Box::pin(self.planned(query)).await?)?;
        let of_new = rows.schema().fields().iter().skip(shape.new_at());
        for (field, given) in table.schema().fields.iter().zip(of_new).filter(|_| shape.has_new) {
            check_conversion(&field.name, given.data_type(), field.to_arrow().data_type())
                .map_err(|error| table.at(error))?;
        }
        if shape.has_new {
            rows = fitting_rows(rows, &table, shape.new_at())?;
        }
        change_of(rows, state, shape, full(&exact))
    }

    async fn planned(&self, query: Box<Query>) -> Result<LogicalPlan> {
        let statement = Statement::Statement(Box::new(SqlStatement::Query(query)));
        self.refresh_views(&statement).await?;
        let current = self.current();
        self.plan_within(statement, &current).await
    }

    /// The plan of a DELETE that takes whole partitions away, if it does.
    async fn drop_plan(
        &self,
        deleted: &ChangeQuery,
        state: &TableState,
        reference: TableReference,
    ) -> Result<Option<LogicalPlan>> {
        if state.table.settings().delete_force_produce_changelog {
            return Ok(None);
        }
        let plan = Box::pin(self.planned(deleted.query.clone())).await?;
        whole_partitions(&plan, state, reference)
    }
}

/// The rows of a statement, whose new values (from column `first` on) have the names of their column's fields, and are whole where
/// it takes whole numbers.
fn fitting_rows(rows: LogicalPlan, table: &Table, first: usize) -> Result<LogicalPlan> {
    let mut changed = false;
    let exprs = rows.schema().iter().enumerate().map(|(at, (qualifier, field))| {
        let value = Expr::Column((qualifier, field).into());
        let column = at.checked_sub(first).and_then(|at| table.schema().fields.get(at));
        let Some(column) = column else { return value };
        let to = column.to_arrow();
        let name = table.identifier().to_string();
        let placed = by_position(value.clone(), field.data_type(), to.data_type());
        match whole_numbers(placed, field.data_type(), to.data_type(), &column.name, &name) {
            same if same == value => value,
            looked_at => {
                changed = true;
                looked_at.alias_qualified(qualifier.cloned(), field.name())
            }
        }
    });
    let exprs: Vec<Expr> = exprs.collect();
    if !changed {
        return Ok(rows);
    }
    Ok(LogicalPlanBuilder::from(rows).project(exprs)?.build()?)
}

/// The statement inside of EXPLAIN, or by itself; with EXPLAIN around a query in its place.
fn changing_statement(statement: &Statement) -> Option<(Changing, Option<Statement>)> {
    match statement {
        Statement::Statement(statement) => Some((changing(statement)?, None)),
        Statement::Explain(explain) => {
            let (changing, None) = changing_statement(&explain.statement)? else { return None };
            let mut around = explain.clone();
            around.statement = Box::new(Statement::Statement(Box::new(SqlStatement::Query(any_query().ok()?))));
            Some((changing, Some(Statement::Explain(around))))
        }
        _ => None,
    }
}

/// The plan that changes the rows which `rows` tells, in the order of `shape`.
///
/// # Errors
/// Where a value can't be one of its column.
pub(super) fn change_of(
    rows: LogicalPlan,
    state: TableState,
    shape: ChangeShape,
    reference: TableReference,
) -> Result<LogicalPlan> {
    let schema = shape.schema(&state.table);
    if schema.fields().len() != rows.schema().fields().len() {
        return Err(Error::internal(format!(
            "{} columns tell what is changed, not {}",
            rows.schema().fields().len(),
            schema.fields().len()
        )));
    }
    let columns = state.table.schema().fields.iter().map(|field| field.to_arrow().data_type().clone());
    let columns: BTreeMap<usize, _> = match shape.has_new {
        true => columns.enumerate().map(|(i, data_type)| (shape.new_at() + i, data_type)).collect(),
        false => BTreeMap::new(),
    };
    let exprs = schema.fields().iter().enumerate().map(|(i, field)| {
        let value = Expr::Column(rows.schema().qualified_field(i).into());
        let cast = match columns.get(&i) {
            // What the analyzer will make of the value is not known yet: its type may still change, so that the cast stays.
            Some(data_type) => match cast_exactly(value, data_type, rows.schema())? {
                same @ Expr::Column(_) => Expr::Cast(Cast::new(Box::new(same), data_type.clone())),
                cast => cast,
            },
            None => Expr::Cast(Cast::new(Box::new(value), field.data_type().clone())),
        };
        Ok(cast.alias(field.name()))
    });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let rows = LogicalPlanBuilder::from(rows).project(exprs)?.build()?;
    let sink = ChangeSink::new(state, Change::Rows(Arc::new(shape))).with_rows(rows.clone());
    Ok(insert_into(sink, reference, rows))
}

fn insert_into(sink: ChangeSink, reference: TableReference, rows: LogicalPlan) -> LogicalPlan {
    let target = provider_as_source(Arc::new(sink));
    LogicalPlan::Dml(DmlStatement::new(reference, target, WriteOp::Insert(InsertOp::Append), Arc::new(rows)))
}

/// The plan that drops whole partitions, when that is what deleting the rows of `plan` means: those of a scan, that satisfy
/// nothing or a condition on partition columns alone.
///
/// # Errors
/// Those of the engine's plan.
pub(super) fn whole_partitions(
    plan: &LogicalPlan,
    state: &TableState,
    reference: TableReference,
) -> Result<Option<LogicalPlan>> {
    let keys = &state.table.schema().partition_keys;
    let mut condition: Option<Expr> = None;
    let mut node = plan;
    loop {
        node = match node {
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::SubqueryAlias(alias) => &alias.input,
            LogicalPlan::Filter(filter) if condition.is_none() => {
                condition = Some(filter.predicate.clone());
                &filter.input
            }
            LogicalPlan::TableScan(scan) if scan.filters.is_empty() && scan.fetch.is_none() => break,
            _ => return Ok(None),
        };
    }
    let condition = match condition {
        None => None,
        Some(condition) => {
            let has_subquery = datafusion::common::tree_node::TreeNode::exists(&condition, |expr| {
                Ok(matches!(
                    expr,
                    Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
                ))
            })?;
            let columns = condition.column_refs();
            let of_partitions = columns.iter().all(|column| keys.contains(&column.name));
            if has_subquery || condition.is_volatile() || columns.is_empty() || !of_partitions {
                return Ok(None);
            }
            Some(unqualified(condition)?)
        }
    };
    let counted =
        LogicalPlanBuilder::from(plan.clone()).aggregate(Vec::<Expr>::new(), vec![count(lit(1_i64))])?.build()?;
    let sink = ChangeSink::new(state.clone(), Change::Partitions(condition));
    Ok(Some(insert_into(sink, reference, counted)))
}

/// The expression over columns without qualifier.
fn unqualified(expr: Expr) -> Result<Expr> {
    use datafusion::common::Column;
    use datafusion::common::tree_node::{Transformed, TreeNode};
    let rewritten = expr.transform(|expr| {
        Ok(match expr {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
            other => Transformed::no(other),
        })
    })?;
    Ok(rewritten.data)
}
