//! DELETE, UPDATE and MERGE of stock sessions.
//!
//! The engine asks a table provider for a DELETE with the conditions that it finds in the optimized plan; what became a join or
//! a limit there is not among them, and no condition means all rows. This rule turns the statements into the plans of
//! [`super::sink`] before the optimizer runs.
//!
//! Imports `change`, `sink`, `shape` and the engine's plans.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result, ScalarValue, TableReference};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::dml::{MergeIntoAction, MergeIntoClauseKind, MergeIntoOp};
use datafusion::logical_expr::{
    Case, DmlStatement, Expr, JoinType, Limit, LogicalPlan, LogicalPlanBuilder, Sort, SubqueryAlias, TableSource,
    WriteOp, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::allowed;
use super::change::{change_of, whole_partitions};
use super::shape::{Action, ChangeShape, FILE_NAME, ROW_INDEX, old_values_of_updates};
use crate::commit::Operation;
use crate::error::Error;
use crate::spec::DataField;
use crate::spec::types::{ROW_ID, SEQUENCE_NUMBER};
use crate::sql::provider::LakeTable;
use crate::sql::travel::TableState;
use crate::table::Table;
use crate::write::default_value;

/// Rewrites statements that change rows of lake tables.
#[derive(Debug, Default)]
pub(crate) struct LakeDmlRule;

impl LakeDmlRule {
    /// What the rule is known by.
    pub(crate) const NAME: &str = "lake_dml";
}

impl AnalyzerRule for LakeDmlRule {
    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_down(|node| match node {
            LogicalPlan::Dml(statement) => match rewritten(&statement)? {
                Some(plan) => Ok(Transformed::yes(plan)),
                None => Ok(Transformed::no(LogicalPlan::Dml(statement))),
            },
            other => Ok(Transformed::no(other)),
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        Self::NAME
    }
}

fn rewritten(statement: &DmlStatement) -> Result<Option<LogicalPlan>> {
    let verb = match &statement.op {
        WriteOp::Delete => "DELETE",
        WriteOp::Update => "UPDATE",
        WriteOp::MergeInto(_) => "MERGE",
        _ => return Ok(None),
    };
    let Ok(provider) = source_as_provider(&statement.target) else { return Ok(None) };
    let Some(lake) = provider.downcast_ref::<LakeTable>() else { return Ok(None) };
    let state = lake.changed_state(verb)?;
    let places = provider_as_source(Arc::new(LakeTable::with_state(state.clone()).with_places()?));
    let rewrite = Rewrite { state, places, reference: statement.table_name.clone() };
    match &statement.op {
        WriteOp::Delete => rewrite.delete(&statement.input),
        WriteOp::Update => rewrite.update(&statement.input),
        WriteOp::MergeInto(merge) => rewrite.merge(merge, &statement.input),
        _ => return Ok(None),
    }
    .map(Some)
}

struct Rewrite {
    state: TableState,
    /// The table with the places of its rows.
    places: Arc<dyn TableSource>,
    reference: TableReference,
}

const IN_TARGET: &str = "__in_target";
const IN_SOURCE: &str = "__in_source";

impl Rewrite {
    fn table(&self) -> &Arc<Table> {
        &self.state.table
    }

    fn shape(&self, operation: Operation, actions: Vec<Action>) -> Result<ChangeShape> {
        for action in &actions {
            allowed::check(self.table(), operation.name(), *action)?;
        }
        let has_key = self.table().schema().has_primary_key();
        let changes = actions.iter().any(|action| *action != Action::Insert);
        let updates = actions.contains(&Action::Update);
        Ok(ChangeShape {
            operation,
            has_clause: operation == Operation::Merge,
            has_new: actions.iter().any(|action| *action != Action::Delete),
            has_old: has_key && changes,
            has_place: !has_key && changes,
            has_ids: !has_key && updates && self.table().settings().row_tracking,
            may_repeat: operation == Operation::Merge,
            width: self.table().schema().fields.len(),
            actions,
        })
    }

    fn of_plan(&self, plan: LogicalPlan, shape: ChangeShape) -> Result<LogicalPlan> {
        Ok(change_of(plan, self.state.clone(), shape, self.reference.clone())?)
    }

    /// The old values or the places of the rows of `plan`, which are columns that only the target has by these qualifiers.
    fn identity(&self, plan: &LogicalPlan, of_target: usize, shape: &ChangeShape, exprs: &mut Vec<Expr>) -> Result<()> {
        let column = |name: &str| -> Result<Expr> {
            let of_target = plan.schema().iter().take(of_target);
            let found = of_target.into_iter().find(|(_, field)| field.name() == name);
            found.map(|field| Expr::Column(Column::from(field))).ok_or_else(|| {
                Error::internal(format!("the plan of a statement has no column {name} of its table")).into()
            })
        };
        if shape.has_old {
            let deletes = shape.does(Action::Delete);
            for (field, matters) in self.table().schema().fields.iter().zip(old_values_of_updates(self.table())) {
                let value =
                    if deletes || matters { column(&field.name)? } else { Expr::Literal(ScalarValue::Null, None) };
                exprs.push(value.alias(format!("old {}", field.name)));
            }
        }
        if shape.has_place {
            exprs.extend([column(FILE_NAME)?.alias(FILE_NAME), column(ROW_INDEX)?.alias(ROW_INDEX)]);
        }
        if shape.has_ids {
            exprs.extend([column(ROW_ID)?.alias(ROW_ID), column(SEQUENCE_NUMBER)?.alias(SEQUENCE_NUMBER)]);
        }
        Ok(())
    }

    /// The same plan over the table with the places of its rows.
    fn with_places(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let below =
            |input: &Arc<LogicalPlan>| Ok::<_, datafusion::error::DataFusionError>(Arc::new(self.with_places(input)?));
        match plan {
            LogicalPlan::TableScan(scan) if scan.projection.is_none() => {
                LogicalPlanBuilder::scan(scan.table_name.clone(), Arc::clone(&self.places), None)?.build()
            }
            LogicalPlan::Filter(filter) => {
                LogicalPlanBuilder::from(self.with_places(&filter.input)?).filter(filter.predicate.clone())?.build()
            }
            LogicalPlan::Limit(limit) => Ok(LogicalPlan::Limit(Limit { input: below(&limit.input)?, ..limit.clone() })),
            LogicalPlan::Sort(sort) => Ok(LogicalPlan::Sort(Sort { input: below(&sort.input)?, ..sort.clone() })),
            LogicalPlan::SubqueryAlias(alias) => {
                Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(below(&alias.input)?, alias.alias.clone())?))
            }
            other => Err(self
                .table()
                .at(Error::unsupported(format!(
                    "this session can't change rows that are chosen by {}; use LakeSession",
                    other.display()
                )))
                .into()),
        }
    }

    fn delete(&self, input: &LogicalPlan) -> Result<LogicalPlan> {
        if !self.table().settings().delete_force_produce_changelog
            && let Some(plan) = whole_partitions(input, &self.state, self.reference.clone())?
        {
            return Ok(plan);
        }
        let shape = self.shape(Operation::Delete, vec![Action::Delete])?;
        let rows = self.with_places(input)?;
        let mut exprs = Vec::new();
        self.identity(&rows, usize::MAX, &shape, &mut exprs)?;
        self.of_plan(LogicalPlanBuilder::from(rows).project(exprs)?.build()?, shape)
    }

    fn update(&self, input: &LogicalPlan) -> Result<LogicalPlan> {
        let LogicalPlan::Projection(projection) = input else {
            return Err(Error::internal("the plan of an UPDATE does not end in the values of its rows").into());
        };
        let shape = self.shape(Operation::Update, vec![Action::Update])?;
        let rows = self.with_places(&projection.input)?;
        let mut exprs = Vec::new();
        for (field, expr) in self.table().schema().fields.iter().zip(&projection.expr) {
            // The cast into the column is made behind, where it names the column.
            let value = match expr.clone().unalias() {
                Expr::Cast(cast) if cast.field.data_type() == field.to_arrow().data_type() => *cast.expr,
                value => value,
            };
            let kept = matches!(&value, Expr::Column(column) if column.name == field.name);
            if !kept && self.table().schema().primary_keys.contains(&field.name) {
                return Err(self
                    .table()
                    .at(Error::invalid(format!(
                        "UPDATE can't set column {} of the primary key; delete the row and insert another one",
                        field.name
                    )))
                    .into());
            }
            exprs.push(value.alias(format!("new {}", field.name)));
        }
        self.identity(&rows, usize::MAX, &shape, &mut exprs)?;
        self.of_plan(LogicalPlanBuilder::from(rows).project(exprs)?.build()?, shape)
    }

    fn merge(&self, merge: &MergeIntoOp, source: &LogicalPlan) -> Result<LogicalPlan> {
        let marked = |plan: LogicalPlan, mark: &str| -> Result<LogicalPlan> {
            let columns = plan.schema().iter().map(|field| Expr::Column(Column::from(field)));
            let columns = columns.chain([lit(true).alias(mark)]).collect::<Vec<_>>();
            LogicalPlanBuilder::from(plan).project(columns)?.build()
        };
        let target = LogicalPlanBuilder::scan(self.reference.clone(), Arc::clone(&self.places), None)?.build()?;
        let of_target = target.schema().fields().len();
        let inserts = |kind| matches!(kind, MergeIntoClauseKind::NotMatched | MergeIntoClauseKind::NotMatchedByTarget);
        let has = |wanted: &dyn Fn(MergeIntoClauseKind) -> bool| merge.clauses.iter().any(|clause| wanted(clause.kind));
        let join = match (has(&inserts), has(&|kind| kind == MergeIntoClauseKind::NotMatchedBySource)) {
            (false, false) => JoinType::Inner,
            (true, false) => JoinType::Right,
            (false, true) => JoinType::Left,
            (true, true) => JoinType::Full,
        };
        let (target, source) = (marked(target, IN_TARGET)?, marked(source.clone(), IN_SOURCE)?);
        let joined = LogicalPlanBuilder::from(target).join_on(source, join, [merge.on.clone()])?.build()?;
        let mark = |name: &str| Expr::Column(Column::new_unqualified(name));
        let fields = &self.table().schema().fields;
        let (mut actions, mut conditions, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for (at, clause) in merge.clauses.iter().enumerate() {
            let matched = match clause.kind {
                MergeIntoClauseKind::Matched => mark(IN_TARGET).and(mark(IN_SOURCE)),
                MergeIntoClauseKind::NotMatched | MergeIntoClauseKind::NotMatchedByTarget => mark(IN_TARGET).is_null(),
                MergeIntoClauseKind::NotMatchedBySource => mark(IN_SOURCE).is_null(),
            };
            let condition = match &clause.predicate {
                Some(predicate) => matched.and(predicate.clone()),
                None => matched,
            };
            conditions.push((Box::new(condition), Box::new(number(at + 1))));
            let own = |name: &str| Expr::Column(Column::new(Some(self.reference.clone()), name));
            let (action, row): (_, Option<Vec<Expr>>) = match &clause.action {
                MergeIntoAction::Delete => (Action::Delete, None),
                MergeIntoAction::Update(assignments) => {
                    let set: HashMap<&str, &Expr> =
                        assignments.iter().map(|(name, value)| (name.as_str(), value)).collect();
                    let value = |name: &str| set.get(name).map_or_else(|| own(name), |value| (*value).clone());
                    (Action::Update, Some(fields.iter().map(|field| value(&field.name)).collect()))
                }
                MergeIntoAction::Insert { columns, values } => {
                    let given = |name: &str, at: usize| match columns.is_empty() {
                        true => values.get(at).cloned(),
                        false => {
                            columns.iter().position(|column| column == name).and_then(|at| values.get(at).cloned())
                        }
                    };
                    let row = fields.iter().enumerate().map(|(at, field)| match given(&field.name, at) {
                        Some(value) => Ok(value),
                        None => default_of(field),
                    });
                    (Action::Insert, Some(row.collect::<Result<_>>()?))
                }
            };
            actions.push(action);
            values.push(row);
        }
        let shape = self.shape(Operation::Merge, actions)?;
        let clause = Expr::Case(Case::new(None, conditions, None));
        let mut exprs = vec![clause.clone().alias("clause")];
        if shape.has_new {
            for (column, field) in fields.iter().enumerate() {
                let data_type = field.to_arrow().data_type().clone();
                let arms = values.iter().enumerate().filter_map(|(at, row)| {
                    let value = row.as_ref()?.get(column)?.clone();
                    Some((at, value))
                });
                let arms = arms
                    .map(|(at, value)| {
                        let value =
                            datafusion::logical_expr::ExprSchemable::cast_to(value, &data_type, joined.schema())?;
                        Ok((Box::new(number(at + 1)), Box::new(value)))
                    })
                    .collect::<Result<Vec<_>>>()?;
                let value = Expr::Case(Case::new(Some(Box::new(clause.clone())), arms, None));
                exprs.push(value.alias(format!("new {}", field.name)));
            }
        }
        self.identity(&joined, of_target, &shape, &mut exprs)?;
        self.of_plan(LogicalPlanBuilder::from(joined).project(exprs)?.build()?, shape)
    }
}

/// What a column is filled with that has no value.
fn default_of(field: &DataField) -> Result<Expr> {
    let value = match default_value(field)? {
        Some(value) => ScalarValue::try_from_array(&value, 0)?,
        None => ScalarValue::Null,
    };
    Ok(Expr::Literal(value, None))
}

fn number(number: usize) -> Expr {
    lit(number as i32)
}
