//! The query behind a statement: which rows are changed, and to what.
//!
//! ```text
//! DELETE FROM t WHERE p              SELECT t.*                      FROM t$row_places t WHERE p
//! DELETE FROM t USING s WHERE p      ..                              WHERE EXISTS (SELECT 1 FROM s WHERE p)
//! UPDATE t SET a = x FROM s WHERE p  SELECT x, t.b, ..  t.*          FROM t$row_places t, s WHERE p
//! MERGE INTO t USING s ON p ..       SELECT clause, CASE clause ..   FROM t$row_places t FULL JOIN s ON p
//! ```
//! Imports the parser's tree, `shape` and `error`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, BinaryOperator, CaseWhen, CastKind, Delete, Expr, FromTable, Ident, JoinConstraint,
    JoinOperator, LimitClause, Merge, MergeAction, MergeClauseKind, MergeInsertKind, ObjectName, OrderBy, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SetExpr, Statement as SqlStatement, TableAlias, TableFactor,
    TableWithJoins, Update, UpdateTableFromKind, Value, ValueWithSpan, VisitMut, VisitorMut, With,
};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::shape::{Action, ChangeShape, FILE_NAME, ROW_INDEX};
use crate::commit::Operation;
use crate::error::{Error, Result};
use crate::spec::DataField;
use crate::spec::types::{ROW_ID, SEQUENCE_NUMBER};
use crate::sql::dialect::LakeDialect;
use crate::sql::prepass::{idents, normalized};
use crate::sql::rewrite::ALL_COLUMNS;
use crate::sql::session::found;
use crate::sql::types::carrier_type_of;

/// A statement that changes rows.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Delete(Box<Delete>),
    Update(Box<Update>),
    Merge(Box<Merge>),
}

/// A statement that changes rows, with what stands before it.
#[derive(Clone, Debug)]
pub(crate) struct Changing {
    pub verb: Verb,
    pub with: Option<With>,
}

/// The statement in `statement`, which may be one that changes rows.
pub(crate) fn changing(statement: &SqlStatement) -> Option<Changing> {
    let verb = match statement {
        SqlStatement::Delete(delete) => Verb::Delete(Box::new(delete.clone())),
        SqlStatement::Update(update) => Verb::Update(Box::new(update.clone())),
        SqlStatement::Merge(merge) => Verb::Merge(Box::new(merge.clone())),
        // WITH .. DELETE is a query to the parser.
        SqlStatement::Query(query) => {
            let (SetExpr::Delete(inner) | SetExpr::Update(inner) | SetExpr::Merge(inner)) = query.body.as_ref() else {
                return None;
            };
            let inner = changing(inner)?;
            return Some(Changing { with: query.with.clone(), ..inner });
        }
        _ => return None,
    };
    Some(Changing { verb, with: None })
}

impl Changing {
    /// What is changed, as it was written.
    ///
    /// # Errors
    /// Unsupported when it is more than one table.
    pub(crate) fn target(&self) -> Result<&TableFactor> {
        let one = |tables: &'_ [TableWithJoins]| tables.len() == 1 && tables.iter().all(|table| table.joins.is_empty());
        let several = || Error::unsupported(format!("{} changes one table; name only that one", self.name()));
        match &self.verb {
            Verb::Delete(delete) => {
                let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
                match from.first() {
                    Some(table) if one(from) && delete.tables.is_empty() => Ok(&table.relation),
                    _ => Err(several()),
                }
            }
            Verb::Update(update) if update.table.joins.is_empty() => Ok(&update.table.relation),
            Verb::Update(_) => Err(several()),
            Verb::Merge(merge) => Ok(&merge.table),
        }
    }

    /// The verb.
    pub(crate) fn name(&self) -> &'static str {
        match self.verb {
            Verb::Delete(_) => "DELETE",
            Verb::Update(_) => "UPDATE",
            Verb::Merge(_) => "MERGE",
        }
    }

    /// The name and the alias of the target.
    ///
    /// # Errors
    /// Unsupported for what is no table, and for clauses that would have no meaning.
    pub(crate) fn target_name(&self) -> Result<(Vec<Ident>, Option<Ident>)> {
        let TableFactor::Table {
            name,
            alias,
            args,
            with_hints,
            version,
            with_ordinality,
            partitions,
            json_path,
            sample,
            index_hints,
        } = self.target()?
        else {
            return Err(Error::unsupported(format!("{} changes a table, not a query", self.name())));
        };
        let parts = idents(name).ok_or_else(|| Error::invalid(format!("{name} is not a table's name")))?;
        let plain = args.is_none()
            && with_hints.is_empty()
            && version.is_none()
            && !with_ordinality
            && partitions.is_empty()
            && json_path.is_none()
            && sample.is_none()
            && index_hints.is_empty();
        if !plain {
            return Err(Error::unsupported(format!(
                "{}: {name} is followed by a hint, a version or another clause, which the table that is changed can't have; \
                 SET paimon.<option> sets options for the session",
                self.name()
            )));
        }
        match alias {
            Some(TableAlias { columns, .. }) if !columns.is_empty() => {
                Err(Error::unsupported(format!("{}: the columns of the target can't be renamed", self.name())))
            }
            alias => Ok((parts.into_iter().cloned().collect(), alias.as_ref().map(|alias| alias.name.clone()))),
        }
    }
}

/// The table that is changed, as the query reads it.
pub(crate) struct Target<'a> {
    /// Its name with what shows where rows lie, in quotes.
    pub source: String,
    /// As it was written.
    pub written: Vec<Ident>,
    /// What its columns are qualified with.
    pub alias: Ident,
    /// Its columns.
    pub columns: &'a [String],
    /// The primary key; empty for an append table.
    pub keys: &'a [String],
    /// Which old values matter where rows are only updated.
    pub old_of_updates: &'a [bool],
    /// What each column is filled with where it has no value.
    pub defaults: &'a [Expr],
    /// Whether its rows have ids.
    pub row_ids: bool,
}

/// What columns are filled with where they have no value: their defaults, or NULL.
pub(crate) fn defaults_of(fields: &[DataField]) -> Vec<Expr> {
    let filled = |field: &DataField| match &field.default_value {
        None => null(),
        Some(text) => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(value(Value::SingleQuotedString(text.clone()))),
            data_type: carrier_type_of(&field.data_type),
            array: false,
            format: None,
        },
    };
    fields.iter().map(filled).collect()
}

/// A query and what its rows are.
pub(crate) struct ChangeQuery {
    pub query: Box<Query>,
    pub shape: ChangeShape,
}

impl Target<'_> {
    fn column(&self, name: &str) -> Expr {
        Expr::CompoundIdentifier(vec![self.alias.clone(), quoted(name)])
    }

    /// The column that a name of an assignment means.
    fn resolve(&self, verb: &str, name: &ObjectName) -> Result<usize> {
        let parts = idents(name).ok_or_else(|| Error::invalid(format!("{verb}: {name} is not a column")))?;
        let Some((last, before)) = parts.split_last() else {
            return Err(Error::invalid(format!("{verb} sets a column without a name")));
        };
        let own = match before {
            [] => true,
            [qualifier] => normalized(qualifier) == normalized(&self.alias),
            more => {
                more.len() == self.written.len()
                    && more.iter().zip(&self.written).all(|(a, b)| normalized(a) == normalized(b))
            }
        };
        let column = found(last, self.columns).filter(|_| own);
        column.and_then(|column| self.columns.iter().position(|known| *known == column)).ok_or_else(|| {
            Error::not_found(format!("{verb}: {name} is not a column of the table; it has {}", self.columns.join(", ")))
        })
    }

    fn default_of(&self, column: usize) -> Expr {
        self.defaults.get(column).cloned().unwrap_or_else(null)
    }

    /// A value for a column; DEFAULT is what it is filled with where it has none.
    fn defaulted(&self, column: usize, value: &Expr) -> Expr {
        match value {
            Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("DEFAULT") => {
                self.default_of(column)
            }
            other => other.clone(),
        }
    }

    /// The assignments by column.
    fn assigned(&self, verb: &str, assignments: &[Assignment]) -> Result<BTreeMap<usize, Expr>> {
        let mut values = BTreeMap::new();
        for assignment in assignments {
            let AssignmentTarget::ColumnName(name) = &assignment.target else {
                return Err(Error::unsupported(format!(
                    "{verb}: SET takes one column at a time, not ({})",
                    assignment.target
                )));
            };
            let column = self.resolve(verb, name)?;
            if values.insert(column, self.defaulted(column, &assignment.value)).is_some() {
                return Err(Error::invalid(format!("{verb}: column {} is set twice", self.columns[column])));
            }
        }
        Ok(values)
    }

    /// The columns behind the new values, and the parts of the shape that they are.
    fn identity(&self, items: &mut Vec<SelectItem>, shape: &mut ChangeShape) {
        let is_keyed = !self.keys.is_empty();
        if is_keyed {
            shape.has_old = true;
            let deletes = shape.does(Action::Delete);
            for (name, matters) in self.columns.iter().zip(self.old_of_updates) {
                let value = if deletes || *matters { self.column(name) } else { null() };
                items.push(item(value, &format!("old {name}")));
            }
            return;
        }
        shape.has_place = true;
        items.extend([FILE_NAME, ROW_INDEX].map(|name| item(self.column(name), name)));
        if self.row_ids && shape.does(Action::Update) {
            shape.has_ids = true;
            items.extend([ROW_ID, SEQUENCE_NUMBER].map(|name| item(self.column(name), name)));
        }
    }

    fn shape(&self, operation: Operation, actions: Vec<Action>) -> ChangeShape {
        ChangeShape {
            operation,
            actions,
            has_clause: false,
            has_new: false,
            has_old: false,
            has_place: false,
            has_ids: false,
            may_repeat: false,
            width: self.columns.len(),
        }
    }

    /// Takes the name of the table out of the columns that it qualifies: the query knows the table by its alias.
    fn unqualify<T: VisitMut>(&self, node: &mut T) {
        struct Unqualify<'a>(&'a [Ident], &'a Ident);
        impl VisitorMut for Unqualify<'_> {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                if let Expr::CompoundIdentifier(parts) = expr
                    && parts.len() == self.0.len() + 1
                    && parts.len() > 2
                    && parts.iter().zip(self.0).all(|(a, b)| normalized(a) == normalized(b))
                {
                    parts.drain(..parts.len() - 1);
                    parts.insert(0, self.1.clone());
                }
                ControlFlow::Continue(())
            }
        }
        let _ = node.visit(&mut Unqualify(&self.written, &self.alias));
    }

    /// The query of a DELETE.
    ///
    /// # Errors
    /// Unsupported for clauses that it does not take.
    pub(crate) fn delete(&self, mut delete: Delete, with: Option<With>) -> Result<ChangeQuery> {
        if delete.returning.is_some() || delete.output.is_some() {
            return Err(no_returning("DELETE"));
        }
        self.unqualify(&mut delete);
        let mut query = parsed(&format!("SELECT 1 FROM {} AS {}", self.source, self.alias))?;
        let mut shape = self.shape(Operation::Delete, vec![Action::Delete]);
        let select = select_of(&mut query)?;
        select.projection.clear();
        self.identity(&mut select.projection, &mut shape);
        select.selection = match delete.using {
            None => delete.selection,
            Some(using) => {
                let mut inner = parsed("SELECT 1 FROM x")?;
                let of_inner = select_of(&mut inner)?;
                (of_inner.from, of_inner.selection) = (using, delete.selection);
                Some(Expr::Exists { subquery: inner, negated: false })
            }
        };
        limit(&mut query, delete.order_by, delete.limit);
        query.with = with;
        Ok(ChangeQuery { query, shape })
    }

    /// The query of an UPDATE.
    ///
    /// # Errors
    /// Not found for a column that is none, invalid for one of the primary key, unsupported for clauses that it does not take.
    pub(crate) fn update(&self, mut update: Update, with: Option<With>) -> Result<ChangeQuery> {
        if update.returning.is_some() || update.output.is_some() {
            return Err(no_returning("UPDATE"));
        }
        if update.or.is_some() {
            return Err(Error::unsupported("UPDATE OR .. is not supported"));
        }
        self.unqualify(&mut update);
        let mut values = self.assigned("UPDATE", &update.assignments)?;
        if let Some(column) = values.keys().find(|column| self.keys.contains(&self.columns[**column])) {
            return Err(Error::invalid(format!(
                "UPDATE can't set column {} of the primary key; delete the row and insert another one",
                self.columns[*column]
            )));
        }
        let mut query = parsed(&format!("SELECT 1 FROM {} AS {}", self.source, self.alias))?;
        let mut shape = self.shape(Operation::Update, vec![Action::Update]);
        shape.has_new = true;
        let select = select_of(&mut query)?;
        select.projection = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, name)| item(values.remove(&i).unwrap_or_else(|| self.column(name)), &format!("new {name}")))
            .collect();
        self.identity(&mut select.projection, &mut shape);
        if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = update.from {
            shape.may_repeat = true;
            select.from.extend(from);
        }
        select.selection = update.selection;
        limit(&mut query, update.order_by, update.limit);
        query.with = with;
        Ok(ChangeQuery { query, shape })
    }

    /// The query of a MERGE.
    ///
    /// # Errors
    /// Not found for a column that is none, invalid for clauses that contradict each other, unsupported for those that it does
    /// not take. `source` are the columns of the source, for `*`.
    pub(crate) fn merge(&self, mut merge: Merge, source: &[String], with: Option<With>) -> Result<ChangeQuery> {
        if merge.output.is_some() {
            return Err(no_returning("MERGE"));
        }
        if merge.clauses.is_empty() {
            return Err(Error::invalid("MERGE needs a WHEN clause"));
        }
        self.unqualify(&mut merge);
        let source_alias = source_alias(&merge.source)?;
        if normalized(&source_alias) == normalized(&self.alias) {
            return Err(Error::invalid(format!(
                "MERGE: target and source are both called {source_alias}; give one an alias"
            )));
        }
        let has = |kinds: &[MergeClauseKind]| merge.clauses.iter().any(|clause| kinds.contains(&clause.clause_kind));
        let join = match (
            has(&[MergeClauseKind::NotMatched, MergeClauseKind::NotMatchedByTarget]),
            has(&[MergeClauseKind::NotMatchedBySource]),
        ) {
            (false, false) => "INNER",
            (true, false) => "RIGHT",
            (false, true) => "LEFT",
            (true, true) => "FULL",
        };
        let mut query = parsed(&format!(
            "SELECT 1 FROM (SELECT *, TRUE AS \"{IN_TARGET}\" FROM {}) AS {} {join} JOIN (SELECT *, TRUE AS \"{IN_SOURCE}\" \
             FROM x) AS {source_alias} ON TRUE",
            self.source, self.alias
        ))?;
        let in_target = Expr::CompoundIdentifier(vec![self.alias.clone(), quoted(IN_TARGET)]);
        let in_source = Expr::CompoundIdentifier(vec![source_alias.clone(), quoted(IN_SOURCE)]);
        let (mut actions, mut conditions, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for clause in merge.clauses {
            let both = || and(in_target.clone(), in_source.clone());
            let (matched, only_inserts) = match clause.clause_kind {
                MergeClauseKind::Matched => (both(), false),
                MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => {
                    (Expr::IsNull(Box::new(in_target.clone())), true)
                }
                MergeClauseKind::NotMatchedBySource => (Expr::IsNull(Box::new(in_source.clone())), false),
            };
            let (action, row) = self.action(clause.action, source, &source_alias)?;
            if only_inserts != (action == Action::Insert) {
                return Err(Error::invalid(format!(
                    "MERGE: WHEN {} takes {}",
                    clause.clause_kind,
                    if only_inserts { "INSERT only" } else { "UPDATE and DELETE, not INSERT" }
                )));
            }
            actions.push(action);
            values.push(row);
            conditions.push(match clause.predicate {
                Some(predicate) => and(matched, Expr::Nested(Box::new(predicate))),
                None => matched,
            });
        }
        let number = |at: usize| number(at + 1);
        let clause = case(None, conditions.into_iter().enumerate().map(|(at, condition)| (condition, number(at))));
        let mut shape = self.shape(Operation::Merge, actions);
        shape.has_clause = true;
        shape.may_repeat = true;
        shape.has_new = shape.does(Action::Insert) || shape.does(Action::Update);
        let mut items = vec![item(clause.clone(), "clause")];
        if shape.has_new {
            for (column, name) in self.columns.iter().enumerate() {
                let of_column: Vec<(usize, Expr)> = values
                    .iter()
                    .enumerate()
                    .filter_map(|(at, row)| Some((at, row.as_ref()?.get(column)?.clone())))
                    .collect();
                let first = of_column.first().map(|(_, expr)| expr.clone());
                let value = match first {
                    // What all clauses agree on, and what nothing can go wrong with.
                    Some(first)
                        if matches!(first, Expr::CompoundIdentifier(_))
                            && of_column.iter().all(|(_, expr)| *expr == first) =>
                    {
                        first
                    }
                    _ => case(Some(clause.clone()), of_column.into_iter().map(|(at, expr)| (number(at), expr))),
                };
                items.push(item(value, &format!("new {name}")));
            }
        }
        if shape.does(Action::Update) || shape.does(Action::Delete) {
            self.identity(&mut items, &mut shape);
        }
        let select = select_of(&mut query)?;
        select.projection = items;
        let Some(TableWithJoins { joins, .. }) = select.from.first_mut() else { return Err(template()) };
        let Some(joined) = joins.first_mut() else { return Err(template()) };
        if let TableFactor::Derived { subquery, .. } = &mut joined.relation
            && let Some(from) = select_of(subquery)?.from.first_mut()
        {
            from.relation = merge.source;
        }
        let (JoinOperator::Inner(on)
        | JoinOperator::Left(on)
        | JoinOperator::Right(on)
        | JoinOperator::FullOuter(on)
        | JoinOperator::LeftOuter(on)
        | JoinOperator::RightOuter(on)) = &mut joined.join_operator
        else {
            return Err(template());
        };
        *on = JoinConstraint::On(*merge.on);
        query.with = with;
        Ok(ChangeQuery { query, shape })
    }

    /// What a clause does, and the row that it makes.
    fn action(
        &self,
        action: MergeAction,
        source: &[String],
        source_alias: &Ident,
    ) -> Result<(Action, Option<Vec<Expr>>)> {
        let of_source = |name: &str| -> Result<Expr> {
            let column = source.iter().find(|known| *known == name);
            let column = column.or_else(|| source.iter().find(|known| known.eq_ignore_ascii_case(name)));
            let column = column.ok_or_else(|| {
                Error::not_found(format!(
                    "MERGE: '*' takes column {name} from the source, which has {}",
                    source.join(", ")
                ))
            })?;
            Ok(Expr::CompoundIdentifier(vec![source_alias.clone(), quoted(column)]))
        };
        match action {
            MergeAction::Delete { .. } => Ok((Action::Delete, None)),
            MergeAction::Update(update) => {
                if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                    return Err(Error::unsupported(
                        "MERGE: UPDATE .. WHERE is not supported; use WHEN MATCHED AND <condition>",
                    ));
                }
                let everything = matches!(update.assignments.as_slice(), [only] if is_star(&only.value));
                let mut values = match everything {
                    true => BTreeMap::new(),
                    false => self.assigned("MERGE", &update.assignments)?,
                };
                let row = self.columns.iter().enumerate().map(|(at, name)| match values.remove(&at) {
                    Some(value) => Ok(value),
                    None if everything => of_source(name),
                    None => Ok(self.column(name)),
                });
                Ok((Action::Update, Some(row.collect::<Result<_>>()?)))
            }
            MergeAction::Insert(insert) => {
                if insert.insert_predicate.is_some() {
                    return Err(Error::unsupported(
                        "MERGE: INSERT .. WHERE is not supported; use WHEN NOT MATCHED AND <condition>",
                    ));
                }
                let given = match &insert.kind {
                    MergeInsertKind::Row => {
                        return Err(Error::unsupported("MERGE: INSERT ROW is not supported; use INSERT *"));
                    }
                    MergeInsertKind::Values(values) => match values.rows.as_slice() {
                        [row] => row.content.clone(),
                        _ => return Err(Error::invalid("MERGE: INSERT gives one row")),
                    },
                };
                if matches!(given.as_slice(), [only] if is_star(only)) {
                    let row = self.columns.iter().map(|name| of_source(name));
                    return Ok((Action::Insert, Some(row.collect::<Result<_>>()?)));
                }
                let columns = match insert.columns.as_slice() {
                    [] => (0..self.columns.len()).collect::<Vec<_>>(),
                    columns => columns.iter().map(|name| self.resolve("MERGE", name)).collect::<Result<_>>()?,
                };
                if columns.len() != given.len() {
                    return Err(Error::invalid(format!(
                        "MERGE: INSERT names {} columns and gives {} values",
                        columns.len(),
                        given.len()
                    )));
                }
                let mut values = BTreeMap::new();
                for (column, value) in columns.into_iter().zip(&given) {
                    if values.insert(column, self.defaulted(column, value)).is_some() {
                        return Err(Error::invalid(format!(
                            "MERGE: INSERT names column {} twice",
                            self.columns[column]
                        )));
                    }
                }
                let row = (0..self.columns.len()).map(|at| values.remove(&at).unwrap_or_else(|| self.default_of(at)));
                Ok((Action::Insert, Some(row.collect())))
            }
        }
    }
}

/// A query that is of no interest.
///
/// # Errors
/// Internal when the parser does not read it.
pub(crate) fn any_query() -> Result<Box<Query>> {
    parsed("SELECT 1")
}

/// The query that gives all of the source of a MERGE.
///
/// # Errors
/// Internal when it can't be put together.
pub(crate) fn source_query(source: &TableFactor, with: Option<&With>) -> Result<Box<Query>> {
    let mut query = parsed("SELECT * FROM x")?;
    if let Some(from) = select_of(&mut query)?.from.first_mut() {
        from.relation = source.clone();
    }
    query.with = with.cloned();
    Ok(query)
}

/// Marks rows that the target has.
const IN_TARGET: &str = "__in_target";
/// Marks rows that the source has.
const IN_SOURCE: &str = "__in_source";

/// What the source of a MERGE is called.
fn source_alias(source: &TableFactor) -> Result<Ident> {
    let alias = match source {
        TableFactor::Table { alias, name, .. } => {
            alias.as_ref().map(|alias| alias.name.clone()).or_else(|| idents(name)?.last().map(|last| (*last).clone()))
        }
        TableFactor::Derived { alias, .. } | TableFactor::TableFunction { alias, .. } => {
            alias.as_ref().map(|alias| alias.name.clone())
        }
        _ => None,
    };
    alias.ok_or_else(|| Error::invalid("MERGE: the source needs an alias: USING (..) AS s"))
}

fn no_returning(verb: &str) -> Error {
    Error::unsupported(format!(
        "{verb} gives the number of rows that it changed; the rows are in \"t$audit_log\", of the snapshot that it made"
    ))
}

fn template() -> Error {
    Error::internal("the parser does not read the query of a statement as it is written here")
}

fn limit(query: &mut Query, order_by: Vec<OrderByExpr>, limit: Option<Expr>) {
    if !order_by.is_empty() {
        query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(order_by), interpolate: None });
    }
    if limit.is_some() {
        query.limit_clause = Some(LimitClause::LimitOffset { limit, offset: None, limit_by: Vec::new() });
    }
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

fn item(expr: Expr, alias: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: quoted(alias) }
}

fn number(number: usize) -> Expr {
    value(Value::Number(number.to_string(), false))
}

fn null() -> Expr {
    value(Value::Null)
}

fn value(value: Value) -> Expr {
    Expr::Value(ValueWithSpan { value, span: Span::empty() })
}

fn and(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::And, right: Box::new(right) }
}

fn case(operand: Option<Expr>, arms: impl Iterator<Item = (Expr, Expr)>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: operand.map(Box::new),
        conditions: arms.map(|(condition, result)| CaseWhen { condition, result }).collect(),
        else_result: None,
    }
}

/// What [`crate::sql::rewrite`] makes of the `*` of UPDATE and INSERT.
fn is_star(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.quote_style == Some('"') && ident.value == ALL_COLUMNS)
}

fn parsed(sql: &str) -> Result<Box<Query>> {
    let wrong = |error| Error::from(error);
    let mut parser = DFParserBuilder::new(sql).with_dialect(&LakeDialect).build().map_err(wrong)?;
    match parser.parse_statement().map_err(wrong)? {
        Statement::Statement(statement) => match *statement {
            SqlStatement::Query(query) => Ok(query),
            _ => Err(template()),
        },
        _ => Err(template()),
    }
}

fn select_of(query: &mut Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(template()),
    }
}
