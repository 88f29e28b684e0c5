//! INSERT as Flink and Spark write it, as the engine's INSERT.
//!
//! ```text
//! INSERT INTO t PARTITION (dt = 'x') SELECT a, b       ->  the columns a, b of the query, and 'x' for dt
//! INSERT OVERWRITE t /*+ OPTIONS('k' = 'v') */ PARTITION (dt = 'x') ..
//!                                                      ->  INSERT OVERWRITE "t@opts:k=v&insert.partition.dt=x" ..
//! ```
//! Which partition is overwritten travels in the table's name ([`hints`]), as the options do. VALUES are planned by the engine
//! together with the table, so that each value is cast to its column by itself. Any other query is planned alone: inside an
//! INSERT the engine would take every VALUES in it, also one in FROM, for rows of the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{DmlStatement, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, WriteOp, lit};
use datafusion::prelude::DataFrame;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    self, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr, Statement as SqlStatement, TableObject,
};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::create::NewlyCreated;
use super::not_null;
use super::show::values_of;
use super::statement::Insert;
use super::target::LakeTarget;
use crate::error::{Error, Result};
use crate::options::TableOptions;
use crate::spec::{DataField, DataType};
use crate::sql::provider::LakeTable;
use crate::sql::session::found;
use crate::sql::settings::PaimonSettings;
use crate::sql::statement::engine_statement;
use crate::sql::tokens::is_word;
use crate::sql::words::Constant;
use crate::sql::write::{by_position, check_conversion, shown, whole_numbers};
use crate::sql::{LakeSession, constructors, hints, prepass, tokens, types};
use crate::table::Table;

/// Where rows go: a table by its three names with options, and the columns that they give.
#[derive(Default)]
struct Destination {
    name: [String; 3],
    /// Options of the statement, with what travels among them.
    options: BTreeMap<String, String>,
    columns: Vec<String>,
    overwrite: bool,
    /// Columns of PARTITION with their values: as read, and as a value of the column.
    fixed: Vec<(String, Constant, ScalarValue)>,
    /// The columns that the query gives, or all where none are named, and their types.
    given: Vec<String>,
    types: Vec<DataType>,
    /// Their defaults, as text.
    defaults: Vec<Option<String>>,
    /// Whether each row is looked at by itself, so that one that does not fit fails no other.
    each_row: bool,
    /// The table with the columns that the statement adds.
    evolved: Option<LakeTable>,
}

impl Destination {
    /// The name by which the engine finds the table with its options.
    fn reference(&self) -> TableReference {
        let [catalog, database, table] = self.name.clone();
        let suffix = if self.options.is_empty() { String::new() } else { hints::encode(&self.options) };
        TableReference::full(catalog, database, format!("{table}{suffix}"))
    }

    /// The name by which errors call the table.
    fn table(&self) -> String {
        let [_, database, table] = &self.name;
        format!("{database}.{table}")
    }

    /// An error about the table.
    fn at(&self, error: Error) -> Error {
        error.with("table", self.table())
    }

    /// Refuses rows that `source` gives with another number of values than there are columns for them.
    fn check_width(&self, width: usize, source: impl FnOnce() -> String) -> Result<()> {
        let given = &self.given;
        if width == given.len() {
            return Ok(());
        }
        let cure = match self.columns.is_empty() && width < given.len() {
            true => "; name those that are given, as in INSERT INTO t (a, b) .., and the others get their defaults",
            false => "",
        };
        let columns = given.join(", ");
        Err(self.at(Error::invalid(format!(
            "INSERT: {} has {width} values for {} columns: {columns}{cure}",
            source(),
            given.len()
        ))))
    }
}

impl LakeSession {
    pub(super) async fn insert(&self, insert: Insert, tokens: Vec<TokenWithSpan>) -> Result<DataFrame> {
        let Some(target) = self.lake_target(&insert.table).await? else { return self.to_engine(tokens).await };
        let object = target.table_or_branch("INSERT")?;
        if target.within.schema.holds(&object.table) {
            return self.to_engine(tokens).await;
        }
        let mut query = parsed_query(insert.query.clone())?;
        let destination = Box::pin(self.destination(&insert, &target)).await.map_err(|error| target.at(error))?;
        name_items(&mut query);
        let plan = Box::pin(self.insert_plan(destination, query)).await?;
        let plan = match insert.explain.as_slice() {
            [] => plan,
            words => {
                let says = |word| words.iter().any(|token| is_word(&token.token, word));
                LogicalPlanBuilder::from(plan).explain(says("VERBOSE"), says("ANALYZE"))?.build()?
            }
        };
        Ok(self.context.execute_logical_plan(plan).await?)
    }

    /// Inserts all rows of a query into a table of the same columns and tells how many they were.
    pub(super) async fn insert_all(&self, table: &NewlyCreated, query: &[TokenWithSpan]) -> Result<DataFrame> {
        let mut query = parsed_query(query.to_vec())?;
        name_items(&mut query);
        let name = [table.catalog_name.clone(), table.database.clone(), table.table.clone()];
        let destination = Destination { name, ..Destination::default() };
        let plan = Box::pin(self.insert_plan(destination, query)).await?;
        let counted = Box::pin(self.context.execute_logical_plan(plan).await?.collect()).await?;
        Ok(self.context.read_batches(counted)?)
    }

    async fn destination(&self, insert: &Insert, target: &LakeTarget) -> Result<Destination> {
        let mut options: BTreeMap<String, String> = insert.options.iter().cloned().collect();
        prepass::check_options(&options)?;
        let mut table = target.open().await?;
        let settings = self.settings_of(&table, &options)?;
        let mut evolved = None;
        if settings.value::<bool>("write.merge-schema")?.unwrap_or(false) {
            let explicit = settings.value("write.merge-schema.explicit-cast")?.unwrap_or(false);
            if let Some((with_columns, evolution)) = Box::pin(self.merged_schema(insert, target, explicit)).await? {
                table = with_columns;
                evolved = Some(evolution);
            }
        }
        if let Some(keys) = settings.value::<String>("upsert-key")?.filter(|_| !insert.overwrite) {
            return Err(Error::unsupported(format!(
                "INSERT into a table with 'upsert-key' would have to replace rows; use MERGE INTO .. ON {}, or ALTER TABLE .. RESET \
                 ('upsert-key') to add rows beside those of the same values",
                keys.split(',').map(str::trim).collect::<Vec<_>>().join(", ")
            )));
        }
        let each_row = settings.value::<String>("write.bad-records")?.is_some_and(|what| what != "fail");
        let names: Vec<String> = table.schema().fields.iter().map(|field| field.name.clone()).collect();
        let column = |ident: &Ident| {
            let exact = names.contains(&ident.value).then(|| ident.value.clone());
            exact.or_else(|| found(ident, &names)).ok_or_else(|| {
                Error::not_found(format!("there is no column {ident}; the table has {}", names.join(", ")))
            })
        };
        let mut fixed = Vec::new();
        let mut open = Vec::new();
        for part in &insert.partition {
            let name = column(&part.0)?;
            if !table.schema().partition_keys.contains(&name) {
                return Err(not_a_partition_key(&table, &name));
            }
            match (&part.1, values_of(&table, &vec![part.clone()])?.pop()) {
                (Some(constant), Some((_, value))) => fixed.push((name, constant.clone(), value)),
                _ => open.push(name),
            }
        }
        let mut columns: Vec<String> = if insert.by_name {
            let plan = Box::pin(self.plan_query(&insert.query)).await?;
            let given = plan.schema().fields().iter().map(|field| column(&Ident::new(field.name().as_str())));
            given.collect::<Result<_>>()?
        } else {
            insert.columns.iter().map(column).collect::<Result<_>>()?
        };
        if let Some(twice) =
            columns.iter().enumerate().find_map(|(i, name)| columns[..i].contains(name).then_some(name))
        {
            return Err(Error::invalid(format!("column {twice} is given twice")));
        }
        if let Some((name, ..)) = fixed.iter().find(|(name, ..)| columns.contains(name)) {
            return Err(Error::invalid(format!("column {name} is given by PARTITION and by the list of columns")));
        }
        if !insert.partition.is_empty() && columns.is_empty() {
            let given = |name: &String| !open.contains(name) && fixed.iter().all(|(fixed, ..)| fixed != name);
            columns = names.iter().filter(|name| given(name)).chain(&open).cloned().collect();
        } else if !insert.by_name {
            // Those that PARTITION leaves open come behind the list.
            open.retain(|name| !columns.contains(name));
            columns.append(&mut open);
        }
        let mut overwritten = BTreeMap::new();
        if insert.overwrite {
            overwritten = fixed.iter().map(|(name, constant, _)| (name.clone(), constant.text.clone())).collect();
        }
        let evolved = match evolved {
            Some(evolution) => {
                let object = target.object.clone();
                let caches = target.within.schema.caches();
                let opened = target.catalog().open_table(target.database(), &object, caches, options.clone()).await?;
                let opened = opened.with_schema(Arc::clone(table.schema()))?;
                let evolved = LakeTable::new(opened).with_catalog(Arc::clone(target.catalog()));
                let evolved = evolved.with_static_partition(overwritten.clone()).with_evolution(Arc::new(evolution));
                Some(evolved.with_read_only(target.catalog().is_read_only()))
            }
            None => None,
        };
        options.extend(hints::static_partition(&overwritten));
        let given = if columns.is_empty() { names } else { columns.clone() };
        let fields: Vec<&DataField> = given.iter().filter_map(|name| table.schema().field(name)).collect();
        let types = fields.iter().map(|field| field.data_type.clone()).collect();
        let defaults = fields.iter().map(|field| field.default_value.clone()).collect();
        let within = &target.within;
        let name = [within.catalog_name.clone(), within.database.clone(), target.object.to_string()];
        let overwrite = insert.overwrite;
        Ok(Destination { name, options, columns, overwrite, fixed, given, types, defaults, each_row, evolved })
    }

    /// The options of a table with those of the session and of the statement over them.
    fn settings_of(&self, table: &Table, options: &BTreeMap<String, String>) -> Result<TableOptions> {
        let state = self.context.state_ref();
        let mut dynamic = PaimonSettings::of(state.read().config_options());
        dynamic.extend(options.clone());
        TableOptions::new(&table.schema().options, &dynamic)
    }

    /// The plan that inserts the rows of a query.
    async fn insert_plan(&self, mut to: Destination, mut query: Box<Query>) -> Result<LogicalPlan> {
        let statement = |query| Statement::Statement(Box::new(SqlStatement::Query(query)));
        self.check_change(&statement(query.clone()))?;
        self.refresh_views(&statement(query.clone())).await?;
        let current = self.current();
        if let Some(rows) = values_mut(&mut query) {
            for (at, row) in rows.iter().enumerate().filter(|_| !to.given.is_empty()) {
                to.check_width(row.content.len(), || format!("row {} of VALUES", at + 1))?;
            }
            rows.iter_mut().for_each(|row| give_defaults(&mut row.content, &to.types, &to.defaults));
            if to.each_row {
                texts_beside_texts(rows);
            }
        }
        typed_items(&mut query.body, &to.given, &to.types).map_err(|error| to.at(error))?;
        let not_null_inside = to.types.iter().any(|data_type| not_null::has_not_null(&data_type.to_arrow()));
        let engine_casts = !not_null_inside && !to.each_row && to.evolved.is_none();
        if let Some(rows) = values_mut(&mut query).filter(|_| engine_casts) {
            let written: Vec<Vec<bool>> = rows.iter().map(|row| row.content.iter().map(is_uncast).collect()).collect();
            for row in rows {
                for (_, constant, _) in &to.fixed {
                    row.content.push(expression(constant)?);
                }
            }
            let reference = to.reference();
            // The engine would refuse NULL for a column that is NOT NULL without naming it.
            hints::add_checked_rows(&mut to.options);
            let (given, name) = (to.given.clone(), to.table());
            let mut plan = Box::pin(self.plan_within(insert_into(to, query)?, &current)).await?;
            if let LogicalPlan::Dml(insert) = &mut plan {
                if let Some(input) = checked_rows(&insert.input, &given, &written, &name)? {
                    insert.input = Arc::new(input);
                }
                insert.table_name = reference;
            }
            return Ok(plan);
        }
        let source = self.with_final_types(Box::pin(self.plan_within(statement(query), &current)).await?)?;
        let reference = to.reference();
        let target = match to.evolved.take() {
            Some(evolved) => provider_as_source(Arc::new(evolved)),
            None => provider_as_source(self.context.table_provider(reference.clone()).await?),
        };
        let schema = DFSchema::try_from(target.schema())?;
        if to.given.is_empty() {
            let names = schema.fields().iter().map(|field| field.name());
            to.given = names.filter(|name| to.fixed.iter().all(|(fixed, ..)| fixed != *name)).cloned().collect();
        }
        to.check_width(source.schema().fields().len(), || "the query".to_owned())?;
        let value =
            |name: &str| match (to.given.iter().position(|given| given == name), to.fixed.iter().find(|f| f.0 == name))
            {
                (Some(place), _) => Expr::Column(Column::from(source.schema().qualified_field(place))),
                (None, Some((.., value))) => lit(value.clone()),
                (None, None) => {
                    target.get_column_default(name).cloned().unwrap_or(Expr::Literal(ScalarValue::Null, None))
                }
            };
        let row = schema.fields().iter().map(|field| {
            let (name, value) = (field.name(), value(field.name()));
            let given = value.get_type(source.schema())?;
            check_conversion(name, &given, field.data_type()).map_err(|error| to.at(error))?;
            let value = by_position(value, &given, field.data_type());
            let value = whole_numbers(value, &given, field.data_type(), name, &to.table());
            let cast = not_null::cast_exactly(value, field.data_type(), source.schema());
            Ok(cast.map_err(|_| to.at(no_cast(name, &given, field.data_type())))?.alias(name))
        });
        let row = row.collect::<Result<Vec<Expr>>>()?;
        let source = LogicalPlanBuilder::from(source).project(row)?.build()?;
        let op = WriteOp::Insert(if to.overwrite { InsertOp::Overwrite } else { InsertOp::Append });
        Ok(LogicalPlan::Dml(DmlStatement::new(reference, target, op, Arc::new(source))))
    }
}

/// Whether a value of VALUES is written without a CAST around it.
fn is_uncast(expr: &ast::Expr) -> bool {
    match expr {
        ast::Expr::Nested(inner) => is_uncast(inner),
        other => !matches!(other, ast::Expr::Cast { .. }),
    }
}

/// The rows of VALUES, of which those values that are written without a CAST must be of the kind of their column, and whole
/// where it takes whole numbers.
fn checked_rows(
    plan: &LogicalPlan,
    columns: &[String],
    uncast: &[Vec<bool>],
    table: &str,
) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(top) = plan else { return Ok(None) };
    let LogicalPlan::Values(values) = top.input.as_ref() else { return Ok(None) };
    let schema = DFSchema::empty();
    let mut values = values.clone();
    for (row, uncast) in values.values.iter_mut().zip(uncast) {
        for ((expr, column), _) in row.iter_mut().zip(columns).zip(uncast).filter(|(_, uncast)| **uncast) {
            // The engine has put a cast around what is of another type.
            if let Expr::Cast(cast) = expr {
                let (given, to) = (cast.expr.get_type(&schema)?, cast.field.data_type());
                check_conversion(column, &given, to).map_err(|error| error.with("table", table.to_owned()))?;
                let value = std::mem::take(cast.expr.as_mut());
                *cast.expr = whole_numbers(value, &given, to, column, table);
            }
        }
    }
    let mut top = top.clone();
    top.input = Arc::new(LogicalPlan::Values(values));
    Ok(Some(LogicalPlan::Projection(top)))
}

/// The error for values that no cast makes those of a column.
fn no_cast(column: &str, given: &ArrowType, to: &ArrowType) -> Error {
    Error::invalid(format!("INSERT: column {column} takes {}, and {} can't be cast to it", shown(to), shown(given)))
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

/// A query out of its tokens.
pub(super) fn parsed_query(tokens: Vec<TokenWithSpan>) -> Result<Box<Query>> {
    if let Statement::Statement(statement) = engine_statement(tokens)?
        && let SqlStatement::Query(query) = *statement
    {
        return Ok(query);
    }
    Err(Error::invalid("a query is expected: SELECT, WITH, VALUES or TABLE"))
}

/// The rows of a query that is VALUES.
fn values_mut(query: &mut Query) -> Option<&mut Vec<ast::Parens<Vec<ast::Expr>>>> {
    let bare =
        query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    match query.body.as_mut() {
        SetExpr::Values(values) if bare => Some(&mut values.rows),
        SetExpr::Query(inner) if bare => values_mut(inner),
        _ => None,
    }
}

/// A constant as an expression of the parser.
fn expression(constant: &Constant) -> Result<ast::Expr> {
    let tokens: Vec<_> = tokens::tokenize("SELECT")?.into_iter().chain(constant.tokens.iter().cloned()).collect();
    let mut query = parsed_query(tokens)?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let [SelectItem::UnnamedExpr(expr)] = select.projection.as_slice()
    {
        return Ok(expr.clone());
    }
    Err(Error::internal("a constant is not read as one"))
}

/// The engine's INSERT of rows that are written out.
fn insert_into(to: Destination, query: Box<Query>) -> Result<Statement> {
    let part = |part: &str| ObjectNamePart::Identifier(Ident::with_quote('"', part));
    let reference = to.reference();
    let names = [reference.catalog(), reference.schema(), Some(reference.table())];
    let columns = to.columns.into_iter().chain(to.fixed.into_iter().map(|(name, ..)| name));
    let mut insert = empty_insert()?;
    insert.table = TableObject::TableName(ObjectName(names.into_iter().flatten().map(part).collect()));
    insert.columns = columns.map(|column| ObjectName::from(Ident::with_quote('"', column))).collect();
    insert.overwrite = to.overwrite;
    insert.source = Some(query);
    Ok(Statement::Statement(Box::new(SqlStatement::Insert(insert))))
}

/// An INSERT with all the parts that ours do not have.
fn empty_insert() -> Result<ast::Insert> {
    if let Statement::Statement(statement) = engine_statement(tokens::tokenize("INSERT INTO t SELECT 1")?)?
        && let SqlStatement::Insert(insert) = *statement
    {
        return Ok(insert);
    }
    Err(Error::internal("the engine's parser does not read INSERT"))
}

/// Gives the computed columns of a query names of their own: the engine wants all names different, where two constants of one
/// value are of one name, and an INSERT does not look at names.
fn name_items(query: &mut Query) {
    // What ORDER BY may repeat keeps its name.
    if query.order_by.is_none() {
        name_body(query.body.as_mut());
    }
}

fn name_body(body: &mut SetExpr) {
    match body {
        SetExpr::Query(inner) => name_items(inner),
        SetExpr::SetOperation { left, right, .. } => {
            name_body(left);
            name_body(right);
        }
        SetExpr::Select(select) => {
            let texts: Vec<String> = select.projection.iter().map(ToString::to_string).collect();
            for (i, item) in select.projection.iter_mut().enumerate() {
                if let SelectItem::UnnamedExpr(expr) = item
                    && (!matches!(expr, ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_))
                        || texts[..i].contains(&texts[i]))
                {
                    let alias = Ident::with_quote('"', format!("column {}", i + 1));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        _ => {}
    }
}

/// Puts the defaults of columns where a row of VALUES says DEFAULT; NULL where there is none.
fn give_defaults(row: &mut [ast::Expr], types: &[DataType], defaults: &[Option<String>]) {
    for ((expr, data_type), default) in row.iter_mut().zip(types).zip(defaults) {
        let says_default = match expr {
            ast::Expr::Identifier(Ident { value, quote_style: None, .. }) => value.eq_ignore_ascii_case("DEFAULT"),
            _ => false,
        };
        if !says_default {
            continue;
        }
        let value = default.clone().map_or(ast::Value::Null, ast::Value::SingleQuotedString);
        *expr = ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(ast::Expr::value(value)),
            data_type: types::carrier_type_of(data_type),
            array: false,
            format: None,
        };
    }
}

/// Writes numbers and truth values as texts in columns of VALUES that have texts too. The engine would cast those texts when it
/// plans, and one that is none of its numbers would fail all rows; as texts they are cast where each row is looked at.
fn texts_beside_texts(rows: &mut [ast::Parens<Vec<ast::Expr>>]) {
    let is_text = |expr: &ast::Expr| matches!(expr, ast::Expr::Value(value) if matches!(value.value, ast::Value::SingleQuotedString(_)));
    let text_of = |expr: &ast::Expr| match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(..) | ast::Value::Boolean(_) => Some(value.value.to_string()),
            _ => None,
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match expr.as_ref() {
            ast::Expr::Value(value) if matches!(value.value, ast::Value::Number(..)) => {
                Some(format!("-{}", value.value))
            }
            _ => None,
        },
        _ => None,
    };
    let width = rows.iter().map(|row| row.content.len()).max().unwrap_or(0);
    for at in
        (0..width).filter(|at| rows.iter().any(|row| row.content.get(*at).is_some_and(is_text))).collect::<Vec<_>>()
    {
        for expr in rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            if let Some(text) = text_of(expr) {
                *expr = ast::Expr::value(ast::Value::SingleQuotedString(text));
            }
        }
    }
}

/// Tells values that are written out as ROW, ARRAY or MAP which columns they are for.
///
/// # Errors
/// Invalid where a part is of another kind than what it is for: the cast would make something of it.
fn typed_items(body: &mut SetExpr, columns: &[String], types: &[DataType]) -> Result<()> {
    let typed = |expr: &mut ast::Expr, column: &str, data_type: &DataType| {
        if !constructors::is_constructor(expr) {
            return Ok(());
        }
        if let Some((part, place)) = constructors::misplaced(expr, data_type) {
            return Err(Error::invalid(format!("column {column}: {part} is no {place}")));
        }
        *expr = ast::Expr::Cast {
            kind: ast::CastKind::Cast,
            expr: Box::new(expr.clone()),
            // What is too long is no value of the column, and told when it is written.
            data_type: types::carrier_type_of(&types::without_lengths(data_type)),
            array: false,
            format: None,
        };
        Ok(())
    };
    let places = || columns.iter().zip(types);
    match body {
        SetExpr::Query(inner) => typed_items(&mut inner.body, columns, types),
        SetExpr::SetOperation { left, right, .. } => {
            typed_items(left, columns, types)?;
            typed_items(right, columns, types)
        }
        SetExpr::Values(values) => values.rows.iter_mut().try_for_each(|row| {
            row.content.iter_mut().zip(places()).try_for_each(|(expr, (name, data_type))| typed(expr, name, data_type))
        }),
        SetExpr::Select(select) if select.projection.len() == types.len() => {
            select.projection.iter_mut().zip(places()).try_for_each(|(item, (name, data_type))| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => typed(expr, name, data_type),
                _ => Ok(()),
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(sql: &str) -> Box<Query> {
        parsed_query(tokens::tokenize(sql).unwrap()).unwrap()
    }

    #[test]
    fn name_items_when_columns_are_computed_then_they_are_named() {
        for (sql, expected) in [
            (
                "SELECT a, CAST(1 AS INT), a FROM t",
                "SELECT a, CAST(1 AS INT) AS \"column 2\", a AS \"column 3\" FROM t",
            ),
            ("SELECT 1 UNION ALL SELECT 2", "SELECT 1 AS \"column 1\" UNION ALL SELECT 2 AS \"column 1\""),
            ("SELECT a + 1 FROM t ORDER BY a + 1", "SELECT a + 1 FROM t ORDER BY a + 1"),
            ("SELECT *, b FROM t", "SELECT *, b FROM t"),
            ("VALUES (1, 1)", "VALUES (1, 1)"),
        ] {
            let mut query = query(sql);
            name_items(&mut query);
            assert_eq!(query.to_string(), expected);
        }
    }

    #[test]
    fn values_mut_when_a_query_is_rows_and_nothing_else_then_they_are_found() {
        assert_eq!(values_mut(&mut query("VALUES (1, 2), (3, 4)")).map(|rows| rows.len()), Some(2));
        assert_eq!(values_mut(&mut query("(VALUES (1))")).map(|rows| rows.len()), Some(1));
        for other in ["VALUES (1) LIMIT 1", "WITH a AS (SELECT 1) VALUES (1)", "SELECT * FROM (VALUES (1)) t(a)"] {
            assert!(values_mut(&mut query(other)).is_none(), "{other}");
        }
    }

    #[test]
    fn expression_when_a_constant_is_of_any_kind_then_the_parser_has_it() {
        let constant = |text: &str| Constant { text: None, tokens: tokens::tokenize(text).unwrap() };
        for (text, expected) in
            [("-1", "-1"), ("NULL", "NULL"), ("'x'", "'x'"), ("DATE '2024-01-31'", "DATE '2024-01-31'")]
        {
            assert_eq!(expression(&constant(text)).unwrap().to_string(), expected);
        }
    }
}
