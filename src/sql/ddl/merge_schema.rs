//! `write.merge-schema`: the columns that an INSERT brings beyond those of its table, and wider types for those it has.
//!
//! Columns are matched by name, so that only an INSERT that names them takes part: `INSERT INTO t BY NAME query`, and
//! `INSERT INTO t (columns) query`. A column that the table has not is added behind the others, with the type of the query's and
//! NULL in the rows that are there. A number whose type in the query holds all values of the column's becomes of that type
//! (`spec/metadata.md 2.6`); key and partition columns, text, bytes and times keep theirs, and values are cast to it as ever.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast::{self, Ident, SelectItem, SetExpr};

use super::insert::parsed_query;
use super::statement::Insert;
use super::target::LakeTarget;
use crate::error::{Error, Result};
use crate::spec::casts::can_change;
use crate::spec::{DataType, TypeKind};
use crate::sql::session::found;
use crate::sql::write::{Evolution, is_written_out};
use crate::sql::{LakeSession, types};
use crate::table::{SchemaChange, Table, alter};

impl LakeSession {
    /// The table with the columns of an INSERT merged into its own, and how it becomes so; `None` when it has them all, and
    /// when the statement does not name its columns. `explicit`: casts that may lose values are taken too.
    pub(super) async fn merged_schema(
        &self,
        insert: &Insert,
        target: &LakeTarget,
        explicit: bool,
    ) -> Result<Option<(Arc<Table>, Evolution)>> {
        if !insert.by_name && insert.columns.is_empty() {
            return Ok(None);
        }
        if insert.by_name
            && let Some(item) = unnamed(&parsed_query(insert.query.clone())?.body)
        {
            return Err(Error::invalid(format!(
                "with write.merge-schema every column of INSERT BY NAME has a name; write {item} AS name"
            )));
        }
        let table = target.open().await?;
        let plan = Box::pin(self.plan_query(&insert.query)).await?;
        let names: Vec<Ident> = match insert.by_name {
            true => plan.schema().fields().iter().map(|field| Ident::with_quote('"', field.name().as_str())).collect(),
            false => insert.columns.clone(),
        };
        let changes = changes(&table, &names, &plan, explicit)?;
        if changes.is_empty() {
            return Ok(None);
        }
        let has_snapshots = table.snapshot(None).await?.is_some();
        let millis = chrono::Utc::now().timestamp_millis();
        let Some(schema) = alter(table.schema(), &changes, has_snapshots, millis)? else { return Ok(None) };
        let merged = table.with_schema(Arc::new(schema))?;
        let database = target.database().to_owned();
        let evolution = Evolution::new(Arc::clone(target.catalog()), database, target.object.clone(), changes);
        Ok(Some((merged, evolution)))
    }
}

/// What makes the table's columns fit those of the query, which go by `names`.
fn changes(table: &Table, names: &[Ident], plan: &LogicalPlan, explicit: bool) -> Result<Vec<SchemaChange>> {
    let schema: &DFSchema = plan.schema();
    let known: Vec<String> = table.schema().fields.iter().map(|field| field.name.clone()).collect();
    let mut changes = Vec::new();
    for (at, (ident, field)) in names.iter().zip(schema.fields()).enumerate() {
        // A name of the query is the engine's, in small letters unless it was quoted: the table's may be written otherwise.
        let alike = || {
            let mut alike = known.iter().filter(|name| name.eq_ignore_ascii_case(&ident.value));
            alike.next().filter(|_| alike.next().is_none()).cloned()
        };
        let Some(name) = found(ident, &known).or_else(alike) else {
            if field.data_type().is_null() {
                return Err(Error::invalid(format!(
                    "column {ident} is NULL in all rows and has no type; write CAST(NULL AS type) AS {ident}"
                )));
            }
            let data_type = types::from_arrow(field.data_type(), true)
                .map_err(|error| error.with("column", ident.value.clone()))?;
            let path = vec![ident.value.clone()];
            changes.push(SchemaChange::AddColumn { path, data_type, comment: None, default: None, position: None });
            continue;
        };
        let Some(column) = table.schema().field(&name) else { continue };
        let is_key = table.schema().primary_keys.contains(&name) || table.schema().partition_keys.contains(&name);
        // The type of a constant says nothing of the column.
        if is_key || is_written_out(plan, at) || !is_number(&column.data_type) {
            continue;
        }
        let Ok(given) = types::from_arrow(field.data_type(), true) else { continue };
        if is_number(&given) && given.kind != column.data_type.kind && can_change(&column.data_type, &given, !explicit)
        {
            changes.push(SchemaChange::UpdateColumnType { path: vec![name], data_type: given, keep_nullability: true });
        }
    }
    Ok(changes)
}

fn is_number(data_type: &DataType) -> bool {
    matches!(
        data_type.kind,
        TypeKind::TinyInt
            | TypeKind::SmallInt
            | TypeKind::Int
            | TypeKind::BigInt
            | TypeKind::Float
            | TypeKind::Double
            | TypeKind::Decimal(..)
    )
}

/// A column that a query computes and does not name.
fn unnamed(body: &SetExpr) -> Option<String> {
    match body {
        SetExpr::Query(inner) => unnamed(&inner.body),
        SetExpr::SetOperation { left, .. } => unnamed(left),
        SetExpr::Values(_) => Some("each of VALUES".to_owned()),
        SetExpr::Select(select) => select.projection.iter().find_map(|item| match item {
            SelectItem::UnnamedExpr(ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_)) => None,
            SelectItem::UnnamedExpr(expr) => Some(expr.to_string()),
            _ => None,
        }),
        _ => None,
    }
}
