//! What happens to a parsed statement before the engine plans it.
//!
//! * Versions and hints move into the names of their tables (`t@5`, `t@tag:x`, `t@ts:1700000000000`, `t@opts:key=value`), the
//!   grammar that the schema provider reads. The name as written stays the alias. On anything that is not a table of a lake
//!   catalog they are errors: the engine would drop them and give today's rows.
//! * Flink's casts, functions and field accesses take the engine's form.
//!
//! Imports the parser's tree, `options`, `functions`, `hints`, `system`, `types` and `zone`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use datafusion::sql::parser::{CopyToSource, Statement};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, CastKind, DataType as SqlType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, TableAlias,
    TableFactor, TableVersion, Value, VisitMut, VisitorMut,
};

use super::functions::{health, rewrites};
use super::{constructors, hints, system, types, zone};
use crate::error::{Error, Result};
use crate::options;
use crate::spec::types::{DataType, MAX_LENGTH, TypeKind};

/// What names and times in a statement mean.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// The catalog of names without one.
    pub catalog: String,
    /// The catalogs whose tables are ours.
    pub lake_catalogs: BTreeSet<String>,
    /// The session's time zone.
    pub zone: String,
}

/// Rewrites `statement` in place.
///
/// # Errors
/// For a version or hint on what is not a table of a lake catalog, an unknown option, and for clauses of a table that the
/// engine would drop.
pub(crate) fn run(statement: &mut Statement, surroundings: &Surroundings) -> Result<()> {
    let mut relations = Relations { surroundings, scopes: Vec::new(), depth: 0, renamed: Vec::new() };
    walk(statement, &mut relations)?;
    let mut expressions = Expressions { zone: &surroundings.zone, renamed: relations.renamed };
    walk(statement, &mut expressions)
}

/// Visits every part of a statement, inside of EXPLAIN and COPY too.
pub(crate) fn walk<V: VisitorMut<Break = Error>>(statement: &mut Statement, visitor: &mut V) -> Result<()> {
    let flow = match statement {
        Statement::Statement(statement) => statement.visit(visitor),
        Statement::Explain(explain) => return walk(&mut explain.statement, visitor),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => query.visit(visitor),
            CopyToSource::Relation(_) => ControlFlow::Continue(()),
        },
        Statement::CreateExternalTable(_) | Statement::Reset(_) => ControlFlow::Continue(()),
    };
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

/// The name as the engine will understand it.
pub(crate) fn normalized(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// The parts of a name, unless one of them is computed.
pub(crate) fn idents(name: &ObjectName) -> Option<Vec<&Ident>> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Some(ident),
            ObjectNamePart::Function(_) => None,
        })
        .collect()
}

/// The common table expressions of one query, and how many of them can be seen from where the visitor is.
struct Scope {
    depth: usize,
    names: Vec<String>,
    visible: usize,
    recursive: bool,
}

/// The first pass: tables.
struct Relations<'a> {
    surroundings: &'a Surroundings,
    scopes: Vec<Scope>,
    depth: usize,
    /// Qualified names of tables that now go by an alias.
    renamed: Vec<(Vec<String>, Ident)>,
}

impl Relations<'_> {
    /// Whether a bare name means a common table expression here.
    fn is_cte(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| {
            // Inside the text of a common table expression, it and those that follow cannot be seen.
            let seen = if scope.recursive { scope.names.len() } else { scope.visible };
            scope.names[..seen.min(scope.names.len())].iter().any(|known| known == name)
        })
    }

    fn table(&mut self, factor: &mut TableFactor) -> Result<()> {
        let TableFactor::Table { name, alias, args, version, .. } = factor else { return Ok(()) };
        if args.is_some()
            && let Some([database, function]) = idents(name).as_deref()
            && normalized(database) == system::DATABASE
        {
            // The engine takes the first part for the function's name.
            *name = ObjectName::from(vec![Ident::new(health::of_system(&normalized(function))?)]);
        }
        let shown = name.to_string();
        let Some(clause) = version.take() else {
            if let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut()
                && let Some(at_instant) = at_instant(&last.value, &self.surroundings.zone)
            {
                let at_instant = at_instant.map_err(|error| error.with("table", shown))?;
                let written = std::mem::replace(last, Ident::with_quote('"', at_instant));
                alias.get_or_insert(TableAlias { explicit: true, name: written, columns: Vec::new(), at: None });
            }
            return Ok(());
        };
        let refused = |why: &str| {
            let what = if is_hint(&clause) { "an OPTIONS hint" } else { "a version" };
            Error::invalid(format!("{shown} {why} and cannot take {what}"))
        };
        if args.is_some() {
            return Err(refused("is a table function"));
        }
        let Some(parts) = idents(name) else { return Err(refused("has a computed name")) };
        let parts: Vec<String> = parts.into_iter().map(normalized).collect();
        let (Some(table), 1..=3) = (parts.last(), parts.len()) else { return Err(refused("is not a table's name")) };
        if parts.len() == 1 && self.is_cte(table) {
            return Err(refused("is a common table expression"));
        }
        let catalog = if parts.len() == 3 { &parts[0] } else { &self.surroundings.catalog };
        if !self.surroundings.lake_catalogs.contains(catalog) {
            return Err(refused(&format!("is a table of catalog '{catalog}', which is not a lake catalog,")));
        }
        let suffix = suffix(&clause, &self.surroundings.zone).map_err(|error| error.with("table", shown.clone()))?;
        let Some(ObjectNamePart::Identifier(last)) = name.0.last_mut() else {
            return Err(refused("has a computed name"));
        };
        let written = last.clone();
        *last = Ident::with_quote('"', format!("{table}{suffix}"));
        if alias.is_none() {
            if parts.len() > 1 {
                self.renamed.push((parts, written.clone()));
            }
            *alias = Some(TableAlias { explicit: true, name: written, columns: Vec::new(), at: None });
        }
        Ok(())
    }
}

impl VisitorMut for Relations<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(dropped) = dropped_by_engine(query) {
            return ControlFlow::Break(Error::unsupported(format!("{dropped} is not supported")));
        }
        self.depth += 1;
        if let Some(with) = &query.with {
            let names = with.cte_tables.iter().map(|cte| normalized(&cte.alias.name)).collect();
            self.scopes.push(Scope { depth: self.depth, names, visible: 0, recursive: with.recursive });
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        if self.scopes.last().is_some_and(|scope| scope.depth == self.depth) {
            self.scopes.pop();
        }
        self.depth -= 1;
        // The parser visits the texts of WITH first and in order, so a query that ends here makes the next name visible.
        if let Some(scope) = self.scopes.last_mut()
            && scope.depth == self.depth
            && scope.visible < scope.names.len()
        {
            scope.visible += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        let result = refuse_dropped_clauses(factor).and_then(|()| self.table(factor));
        match result {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

/// Clauses of a query that the parser reads and the engine then forgets.
fn dropped_by_engine(query: &Query) -> Option<&'static str> {
    [
        (query.for_clause.is_some(), "FOR XML, JSON or BROWSE"),
        (!query.locks.is_empty(), "FOR UPDATE or FOR SHARE"),
        (query.settings.is_some(), "SETTINGS"),
        (query.format_clause.is_some(), "FORMAT"),
    ]
    .into_iter()
    .find_map(|(present, clause)| present.then_some(clause))
}

/// Clauses of a table that the parser reads and the engine then forgets.
fn refuse_dropped_clauses(factor: &TableFactor) -> Result<()> {
    let (name, dropped) = match factor {
        TableFactor::Table { name, with_hints, partitions, json_path, sample, index_hints, .. } => {
            let dropped = [
                (!with_hints.is_empty(), "WITH (..)"),
                (!partitions.is_empty(), "PARTITION (..)"),
                (json_path.is_some(), "a path"),
                (sample.is_some(), "TABLESAMPLE"),
                (!index_hints.is_empty(), "an index hint"),
            ];
            (name.to_string(), dropped.into_iter().find_map(|(present, clause)| present.then_some(clause)))
        }
        TableFactor::Derived { sample, .. } => ("a subquery".to_owned(), sample.as_ref().map(|_| "TABLESAMPLE")),
        _ => return Ok(()),
    };
    match dropped {
        Some(clause) => Err(Error::unsupported(format!("{clause} on {name} is not supported"))),
        None => Ok(()),
    }
}

/// The name of a table at a local time (`t@ts:2024-01-02 10:00`), with the instant that it is in the session's time zone: the
/// catalog does not know the session. `None` for other names.
fn at_instant(name: &str, session_zone: &str) -> Option<Result<String>> {
    let (table, time) = name.split_once("@ts:")?;
    if time.contains(hints::OPTIONS_MARK) {
        return None;
    }
    Some(zone::millis(time, session_zone).map(|millis| format!("{table}@ts:{millis}")))
}

fn is_hint(version: &TableVersion) -> bool {
    matches!(version, TableVersion::Function(function) if function.to_string().starts_with("AT('"))
}

/// What a version or hint adds to the table's name.
fn suffix(version: &TableVersion, session_zone: &str) -> Result<String> {
    match version {
        TableVersion::ForSystemTimeAsOf(time) | TableVersion::TimestampAsOf(time) => {
            Ok(format!("@ts:{}", millis(time, session_zone)?))
        }
        TableVersion::VersionAsOf(version) => version_suffix(version),
        TableVersion::Function(Expr::Function(function)) if function.name.to_string().eq_ignore_ascii_case("AT") => {
            let FunctionArguments::List(list) = &function.args else { return Err(unknown_version(version)) };
            if let [FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. }] = list.args.as_slice() {
                return match name.value.to_ascii_uppercase().as_str() {
                    "VERSION" => version_suffix(value),
                    "TIMESTAMP" => Ok(format!("@ts:{}", millis(value, session_zone)?)),
                    _ => Err(unknown_version(version)),
                };
            }
            let options = list.args.iter().map(option).collect::<Option<BTreeMap<_, _>>>();
            let options = options.filter(|options| !options.is_empty()).ok_or_else(|| unknown_version(version))?;
            check_options(&options)?;
            Ok(hints::encode(&options))
        }
        TableVersion::Function(_) | TableVersion::Changes { .. } => Err(unknown_version(version)),
    }
}

fn unknown_version(version: &TableVersion) -> Error {
    Error::invalid(format!(
        "'{version}' is not a version; write VERSION AS OF 5, VERSION AS OF 'tag' or TIMESTAMP AS OF '..'"
    ))
}

/// Refuses options that no table has, and values that they do not take.
pub(crate) fn check_options(options: &BTreeMap<String, String>) -> Result<()> {
    options::check_known(options)?;
    options::check_values(options)
}

fn option(arg: &FunctionArg) -> Option<(String, String)> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: BinaryOperator::Eq, right })) = arg
    else {
        return None;
    };
    Some((text(left)?, text(right)?))
}

fn text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

fn version_suffix(version: &Expr) -> Result<String> {
    if let Some(tag) = text(version) {
        return Ok(format!("@tag:{tag}"));
    }
    match number(version) {
        Some(id) => Ok(format!("@{id}")),
        None => Err(Error::invalid(format!("'{version}' is neither a snapshot id nor a tag in quotes"))),
    }
}

fn number(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// A time of a version in milliseconds since 1970; text is read in the session's time zone.
fn millis(time: &Expr, session_zone: &str) -> Result<i64> {
    let literal = match time {
        Expr::Cast { expr, data_type, .. } if is_timestamp(data_type) => expr,
        Expr::TypedString(typed) if is_timestamp(&typed.data_type) => {
            let text = typed.value.value.clone().into_string().unwrap_or_default();
            return zone::millis(&text, session_zone);
        }
        other => other,
    };
    match (text(literal), number(literal)) {
        (Some(text), _) => zone::millis(&text, session_zone),
        (None, Some(millis)) => Ok(millis),
        (None, None) => Err(Error::invalid(format!(
            "'{time}' is not a time: a version takes a text in quotes or milliseconds since 1970"
        ))),
    }
}

fn is_timestamp(data_type: &SqlType) -> bool {
    match data_type {
        SqlType::Timestamp(..) => true,
        other => matches!(
            types::carried(other),
            Some(DataType { kind: TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_), .. })
        ),
    }
}

/// The second pass: expressions.
struct Expressions<'a> {
    zone: &'a str,
    renamed: Vec<(Vec<String>, Ident)>,
}

impl Expressions<'_> {
    /// The alias of the table that `parts` starts with, and how many parts name the table.
    fn alias_of(&self, parts: &[&Ident]) -> Option<(Ident, usize)> {
        self.renamed.iter().find_map(|(table, alias)| {
            let named =
                parts.len() >= table.len() && table.iter().zip(parts).all(|(name, part)| *name == normalized(part));
            named.then(|| (alias.clone(), table.len()))
        })
    }

    fn rewritten(&self, expr: &mut Expr) -> Result<Option<Expr>> {
        Ok(match expr {
            Expr::CompoundIdentifier(parts) => {
                if let Some((alias, table_parts)) = self.alias_of(&parts.iter().collect::<Vec<_>>()) {
                    parts.splice(..table_parts, [alias]);
                }
                None
            }
            Expr::CompoundFieldAccess { access_chain, .. } => {
                for access in access_chain {
                    if let AccessExpr::Dot(dot @ Expr::Identifier(_)) = access {
                        let Expr::Identifier(field) = &*dot else { continue };
                        *dot = Expr::value(Value::SingleQuotedString(normalized(field)));
                    }
                }
                None
            }
            Expr::Cast { kind, expr: value, data_type, .. } => self.cast(kind, value, data_type),
            Expr::Function(function) => rewrites::rewritten(function)?,
            Expr::Value(value) => {
                if let Value::UnicodeStringLiteral(text) = &value.value {
                    value.value = Value::SingleQuotedString(text.clone());
                }
                None
            }
            _ => None,
        })
    }

    /// A cast to a type that the engine does not have as such.
    fn cast(&self, kind: &CastKind, value: &Expr, target: &mut SqlType) -> Option<Expr> {
        // Visited once already: the zone is there.
        if matches!(target, SqlType::Custom(_, modifiers) if !modifiers.is_empty()) {
            return None;
        }
        let data_type = types::carried(target)?;
        *target = types::carrier_type(&data_type, self.zone);
        let leaf = |expr: &Expr, data_type: &DataType| {
            let mut target = types::carrier_type_of(data_type);
            let cast = self.cast(kind, expr, &mut target);
            cast.unwrap_or_else(|| cast_to(kind, expr.clone(), target))
        };
        if let Some(typed) = constructors::typed(value, &data_type, &leaf) {
            let relaxed = types::carrier_type(&constructors::relaxed(&data_type), self.zone);
            return Some(cast_to(kind, typed, relaxed));
        }
        let to = |data_type: DataType, zone: &str| cast_to(kind, value.clone(), types::carrier_type(&data_type, zone));
        let number = |number: u32| Expr::value(Value::Number(number.to_string(), false));
        match data_type.kind {
            TypeKind::Char(length) => {
                let blank = Expr::value(Value::SingleQuotedString(" ".to_owned()));
                Some(rewrites::call("rpad", vec![to(DataType::string(), "UTC"), number(length), blank]))
            }
            TypeKind::VarChar(length) if length != MAX_LENGTH => {
                Some(rewrites::call("left", vec![to(DataType::string(), "UTC"), number(length)]))
            }
            TypeKind::Binary(length) => {
                let bytes = DataType::nullable(TypeKind::VarBinary(MAX_LENGTH));
                Some(rewrites::call(
                    "flink_binary",
                    vec![to(bytes, "UTC"), number(length), Expr::value(Value::Boolean(true))],
                ))
            }
            TypeKind::VarBinary(length) if length != MAX_LENGTH => {
                let bytes = DataType::nullable(TypeKind::VarBinary(MAX_LENGTH));
                Some(rewrites::call(
                    "flink_binary",
                    vec![to(bytes, "UTC"), number(length), Expr::value(Value::Boolean(false))],
                ))
            }
            // The engine compares instants of one zone only, and those of tables are UTC.
            TypeKind::TimestampLtz(_) if self.zone != "UTC" => {
                Some(cast_to(kind, to(data_type.clone(), self.zone), types::carrier_type(&data_type, "UTC")))
            }
            _ => None,
        }
    }
}

fn cast_to(kind: &CastKind, expr: Expr, data_type: SqlType) -> Expr {
    Expr::Cast { kind: kind.clone(), expr: Box::new(expr), data_type, array: false, format: None }
}

impl VisitorMut for Expressions<'_> {
    type Break = Error;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        match self.rewritten(expr) {
            Ok(Some(replacement)) => *expr = replacement,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item else {
                continue;
            };
            let Some((alias, table_parts)) = idents(name).and_then(|parts| {
                let length = parts.len();
                self.alias_of(&parts).filter(|(_, table_parts)| *table_parts == length)
            }) else {
                continue;
            };
            name.0.splice(..table_parts, [ObjectNamePart::Identifier(alias)]);
        }
        ControlFlow::Continue(())
    }
}
