//! Calls of Flink's functions that are an operator or another function of the engine. Imports the parser's tree, `types`.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList,
    FunctionArguments, Ident, ObjectName, Value,
};

use super::pattern::engine_pattern;
use crate::error::{Error, Result};
use crate::spec::types::{DataType, TypeKind};
use crate::sql::types;

/// A call of a function with positional arguments.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(Ident::new(name)),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.into_iter().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// What stands for the call in the engine, or `None` to leave it (which may have changed).
///
/// # Errors
/// For a pattern of a time that the engine has no form for.
pub(crate) fn rewritten(function: &mut Function) -> Result<Option<Expr>> {
    let name = function.name.to_string().to_ascii_lowercase();
    let FunctionArguments::List(list) = &mut function.args else { return Ok(None) };
    if name == "listagg" {
        if list.args.len() == 1 {
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(string(","))));
        }
        function.name = ObjectName::from(Ident::new("string_agg"));
        return Ok(None);
    }
    if name == "collect" && list.args.len() == 1 {
        function.name = ObjectName::from(Ident::new("array_agg"));
        return Ok(Some(call("flink_multiset", vec![Expr::Function(function.clone())])));
    }
    let args: Option<Vec<&Expr>> = list
        .args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect();
    Ok(match (name.as_str(), args.as_deref()) {
        ("mod", Some([left, right])) => Some(remainder(left, right)),
        ("if", Some([condition, yes, no])) => Some(if_else(condition, yes, no)),
        ("date_format", Some([time, pattern])) => {
            Some(call("to_char", vec![(*time).clone(), translated(&name, pattern)?]))
        }
        ("to_timestamp", Some([text, pattern])) => {
            Some(call("to_timestamp_millis", vec![(*text).clone(), translated(&name, pattern)?]))
        }
        ("to_date", Some([text, pattern])) => {
            let pattern = translated(&name, pattern)?;
            Some(call("to_date", vec![(*text).clone(), pattern]))
        }
        ("timestampadd", Some([unit @ Expr::Identifier(_), count, time])) => {
            Some(call("timestampadd", vec![string(&unit.to_string()), (*count).clone(), (*time).clone()]))
        }
        ("to_timestamp_ltz", Some([number, precision])) => Some(instant(number, precision)?),
        ("locate", Some([part, text])) => Some(call("strpos", vec![(*text).clone(), (*part).clone()])),
        ("truncate", Some([number])) => Some(call("trunc", vec![(*number).clone()])),
        ("truncate", Some([number, digits])) => Some(call("trunc", vec![(*number).clone(), (*digits).clone()])),
        ("split_index", Some([text, delimiter, index])) => {
            let parts = call("string_to_array", vec![(*text).clone(), (*delimiter).clone()]);
            Some(element(parts, index))
        }
        ("regexp_extract", Some([text, pattern])) => Some(extracted(text, pattern, &number(0))),
        ("regexp_extract", Some([text, pattern, group])) => Some(extracted(text, pattern, group)),
        ("dayofweek", Some([time])) => Some(plus_one(call("date_part", vec![string("dow"), (*time).clone()]))),
        (name, Some([time])) => DATE_PARTS
            .iter()
            .find(|(flink, _)| *flink == name)
            .map(|(_, part)| call("date_part", vec![string(part), (*time).clone()])),
        _ => None,
    })
}

/// Flink's functions that are a part of a time, and the part.
const DATE_PARTS: [(&str, &str); 9] = [
    ("year", "year"),
    ("quarter", "quarter"),
    ("month", "month"),
    ("week", "week"),
    ("dayofyear", "doy"),
    ("dayofmonth", "day"),
    ("hour", "hour"),
    ("minute", "minute"),
    ("second", "second"),
];

/// The element behind `index`, which counts from 0; NULL where there is none.
fn element(list: Expr, index: &Expr) -> Expr {
    call("array_element", vec![list, plus_one(index.clone())])
}

/// What a group of a pattern matched; group 0 is the whole pattern, which becomes the first group here.
fn extracted(text: &Expr, pattern: &Expr, group: &Expr) -> Expr {
    let pattern = call("concat", vec![string("("), pattern.clone(), string(")")]);
    element(call("regexp_match", vec![text.clone(), pattern]), group)
}

fn number(value: u8) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}

fn plus_one(value: Expr) -> Expr {
    let sum = Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(value))),
        op: BinaryOperator::Plus,
        right: Box::new(number(1)),
    };
    Expr::Nested(Box::new(sum))
}

fn string(text: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(text.to_owned()))
}

fn remainder(left: &Expr, right: &Expr) -> Expr {
    let operand = |expr: &Expr| Box::new(Expr::Nested(Box::new(expr.clone())));
    let remainder = Expr::BinaryOp { left: operand(left), op: BinaryOperator::Modulo, right: operand(right) };
    Expr::Nested(Box::new(remainder))
}

fn if_else(condition: &Expr, yes: &Expr, no: &Expr) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition: condition.clone(), result: yes.clone() }],
        else_result: Some(Box::new(no.clone())),
    }
}

/// `TO_TIMESTAMP_LTZ(number, precision)`: seconds (0) or milliseconds (3) since 1970, an instant in any zone.
fn instant(number: &Expr, precision: &Expr) -> Result<Expr> {
    let (function, precision) = match precision.to_string().as_str() {
        "0" => ("to_timestamp_seconds", 0),
        "3" => ("to_timestamp_millis", 3),
        other => return Err(Error::invalid(format!("the precision of TO_TIMESTAMP_LTZ is 0 or 3, not {other}"))),
    };
    Ok(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call(function, vec![number.clone()])),
        data_type: types::carrier_type(&DataType::nullable(TypeKind::TimestampLtz(precision)), "UTC"),
        array: false,
        format: None,
    })
}

/// The engine's form of a pattern in quotes.
fn translated(function: &str, pattern: &Expr) -> Result<Expr> {
    let Expr::Value(value) = pattern else {
        return Err(Error::unsupported(format!(
            "{} takes a pattern in quotes, not '{pattern}'",
            function.to_uppercase()
        )));
    };
    match &value.value {
        Value::SingleQuotedString(java) => Ok(string(&engine_pattern(java)?)),
        _ => Ok(pattern.clone()),
    }
}
