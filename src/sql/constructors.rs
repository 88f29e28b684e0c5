//! Values that are written out as ROW, ARRAY and MAP, where the type that they are to have is known.
//!
//! Flink matches the fields of a ROW by their place, the engine those of a struct by their names, and `ROW(1, 'a')` has none.
//! So the type goes to the parts before the whole is cast:
//!
//! ```text
//! CAST(ARRAY[ROW(1, 'a'), NULL] AS ARRAY<ROW<x INT, y STRING>>)
//!   ->  ARRAY[named_struct('x', CAST(1 AS INT), 'y', CAST('a' AS STRING)), CAST(NULL AS ROW<x INT, y STRING>)]
//! ```
//! Imports the parser's tree and `spec`.

use datafusion::sql::sqlparser::ast::{
    Array, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Map, MapEntry, UnaryOperator, Value,
};

use super::functions::rewrites;
use crate::spec::{DataField, DataType, TypeKind};

/// Whether `expr` is a ROW, ARRAY or MAP that is written out.
pub(crate) fn is_constructor(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_constructor(inner),
        Expr::Array(_) | Expr::Map(_) | Expr::Tuple(_) => true,
        other => row(other).is_some(),
    }
}

/// `expr` with its parts as those of `data_type`, each cast by `leaf`; `None` when it is not written out as such a value.
pub(crate) fn typed(expr: &Expr, data_type: &DataType, leaf: &dyn Fn(&Expr, &DataType) -> Expr) -> Option<Expr> {
    let part =
        |expr: &Expr, data_type: &DataType| typed(expr, data_type, leaf).unwrap_or_else(|| leaf(expr, data_type));
    match (expr, &data_type.kind) {
        (Expr::Nested(inner), _) => typed(inner, data_type, leaf),
        (Expr::Array(array), TypeKind::Array(element)) if !array.elem.is_empty() => {
            let elem = array.elem.iter().map(|expr| part(expr, element)).collect();
            Some(Expr::Array(Array { elem, named: array.named }))
        }
        (Expr::Map(map), TypeKind::Map(key, value)) if !map.entries.is_empty() => {
            let entry = |entry: &MapEntry| MapEntry {
                key: Box::new(part(&entry.key, key)),
                value: Box::new(part(&entry.value, value)),
            };
            Some(Expr::Map(Map { entries: map.entries.iter().map(entry).collect() }))
        }
        (expr, TypeKind::Row(fields)) => {
            let parts = row(expr)?;
            if parts.len() != fields.len() {
                return None;
            }
            let name = |name: &str| Expr::value(Value::SingleQuotedString(name.to_owned()));
            let named =
                fields.iter().zip(parts).flat_map(|(field, expr)| [name(&field.name), part(expr, &field.data_type)]);
            Some(rewrites::call("named_struct", named.collect()))
        }
        _ => None,
    }
}

/// The first part of what is written out that is of another kind than its place in `data_type`, and the type of that place. Parts
/// that are computed are not looked at.
pub(crate) fn misplaced(expr: &Expr, data_type: &DataType) -> Option<(String, DataType)> {
    let wrong = || Some((expr.to_string(), DataType { nullable: true, ..data_type.clone() }));
    match (expr, &data_type.kind) {
        (Expr::Nested(inner), _) => misplaced(inner, data_type),
        (Expr::Array(array), TypeKind::Array(element)) => array.elem.iter().find_map(|part| misplaced(part, element)),
        (Expr::Map(map), TypeKind::Map(key, value)) => {
            let entry = |entry: &MapEntry| misplaced(&entry.key, key).or_else(|| misplaced(&entry.value, value));
            map.entries.iter().find_map(entry)
        }
        (Expr::Map(map), TypeKind::Multiset(element)) => {
            map.entries.iter().find_map(|entry| misplaced(&entry.key, element))
        }
        (Expr::Array(_) | Expr::Map(_), _) => wrong(),
        (Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner }, _) if matches!(inner.as_ref(), Expr::Value(value) if matches!(value.value, Value::Number(..))) => {
            misplaced(inner, data_type).and_then(|_| wrong())
        }
        (Expr::Value(value), kind) => match &value.value {
            Value::Number(digits, _) if number_fits(&digits.to_string(), kind) => None,
            Value::Boolean(_) if is_text(kind) || matches!(kind, TypeKind::Boolean) => None,
            Value::Number(..) | Value::Boolean(_) => wrong(),
            _ => None,
        },
        (expr, kind) => match (row(expr), kind) {
            (None, _) => None,
            (Some(parts), TypeKind::Row(fields)) if parts.len() == fields.len() => {
                parts.into_iter().zip(fields).find_map(|(part, field)| misplaced(part, &field.data_type))
            }
            // A bracket around one value.
            (Some(parts), _) if matches!(expr, Expr::Tuple(_)) && parts.len() == 1 => misplaced(parts[0], data_type),
            (Some(_), _) => wrong(),
        },
    }
}

fn is_text(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Char(_) | TypeKind::VarChar(_))
}

/// Whether a number that is written out is one of a type, as far as its digits tell.
fn number_fits(digits: &str, kind: &TypeKind) -> bool {
    match kind {
        TypeKind::TinyInt | TypeKind::SmallInt | TypeKind::Int | TypeKind::BigInt => {
            let fraction = digits.split_once('.').map(|(_, fraction)| fraction).unwrap_or_default();
            fraction.contains(['e', 'E']) || fraction.bytes().all(|digit| digit == b'0')
        }
        TypeKind::Float | TypeKind::Double | TypeKind::Decimal(..) => true,
        kind => is_text(kind),
    }
}

/// The type without NOT NULL inside: the engine does not cast what may be NULL to what may not, and what is written out is
/// looked at where it is written to.
pub(crate) fn relaxed(data_type: &DataType) -> DataType {
    let nullable = |data_type: &DataType| Box::new(DataType { nullable: true, ..relaxed(data_type) });
    let kind = match &data_type.kind {
        TypeKind::Array(element) => TypeKind::Array(nullable(element)),
        TypeKind::Map(key, value) => TypeKind::Map(key.clone(), nullable(value)),
        TypeKind::Row(fields) => {
            let field = |field: &DataField| DataField { data_type: *nullable(&field.data_type), ..field.clone() };
            TypeKind::Row(fields.iter().map(field).collect())
        }
        other => other.clone(),
    };
    DataType { kind, nullable: data_type.nullable }
}

/// The parts of a ROW.
fn row(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::Tuple(parts) => Some(parts.iter().collect()),
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &function.args else { return None };
            let parts = list.args.iter().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            });
            parts.collect()
        }
        _ => None,
    }
}
