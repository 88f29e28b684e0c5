//! The aggregate functions of the format: names, the types they take, their own options, whether they can retract
//! (`spec/data.md 5.3`). Creating a table refuses what can't be aggregated, reading and writing fold by it.
//!
//! May import: `error`, `options`, `spec`.

use crate::error::{Error, Result};
use crate::options::{NestedKeyNullStrategy, TableOptions};
use crate::spec::{DataField, DataType, TypeKind};

/// An aggregate function with its options, resolved against the type of its column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// The input, whatever it is; a retract keeps it too. Key columns.
    PrimaryKey,
    LastValue,
    LastNonNull,
    FirstValue,
    FirstNonNull,
    Max,
    Min,
    Sum,
    Product,
    BoolAnd,
    BoolOr,
    ListAgg {
        delimiter: String,
        distinct: bool,
    },
    Collect {
        distinct: bool,
    },
    MergeMap,
    /// `time` is the position of the ts field in the value ROW.
    MergeMapWithKeyTime {
        time: usize,
    },
    NestedUpdate(NestedUpdate),
    NestedPartialUpdate {
        keys: Vec<usize>,
    },
    Theta,
    Hll,
    Roaring32,
    Roaring64,
}

/// `nested_update`: positions are those of the element ROW's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NestedUpdate {
    /// Key fields; empty: rows are appended.
    pub keys: Vec<usize>,
    /// Most rows of the result.
    pub limit: usize,
    /// What becomes of a row with a NULL in its key.
    pub null_keys: NestedKeyNullStrategy,
    /// Fields whose smaller values lose against the row that is there; empty: the later row wins.
    pub sequence: Vec<usize>,
}

impl Function {
    /// The function `name` for `field`, with the options `fields.<field>.*`.
    ///
    /// # Errors
    /// Unsupported for a name that is no function, invalid for a type it can't take or an option that can't be right.
    pub(crate) fn resolve(name: &str, field: &DataField, options: &TableOptions) -> Result<Self> {
        let column = field.name.as_str();
        let function = match name {
            "primary-key" => Self::PrimaryKey,
            "last_value" => Self::LastValue,
            "last_non_null_value" => Self::LastNonNull,
            "first_value" => Self::FirstValue,
            "first_non_null_value" | "first_not_null_value" => Self::FirstNonNull,
            "max" => Self::Max,
            "min" => Self::Min,
            "sum" => Self::Sum,
            "product" => Self::Product,
            "bool_and" => Self::BoolAnd,
            "bool_or" => Self::BoolOr,
            "listagg" => Self::ListAgg {
                delimiter: options.list_agg_delimiter(column).to_owned(),
                distinct: options.distinct(column),
            },
            "collect" => Self::Collect { distinct: options.distinct(column) },
            "merge_map" => Self::MergeMap,
            "merge_map_with_keytime" => Self::MergeMapWithKeyTime { time: key_time(field, options)? },
            "nested_update" => Self::NestedUpdate(NestedUpdate {
                keys: nested_fields(field, "nested-key", &options.nested_key(column))?,
                limit: usize::try_from(options.count_limit(column)).unwrap_or_default(),
                null_keys: options.nested_key_null_strategy(column),
                sequence: nested_fields(field, "nested-sequence-field", &options.nested_sequence_fields(column))?,
            }),
            "nested_partial_update" => {
                let keys = nested_fields(field, "nested-key", &options.nested_key(column))?;
                if keys.is_empty() {
                    return Err(Error::invalid(format!(
                        "column {column}: nested_partial_update needs the option 'fields.{column}.nested-key'"
                    )));
                }
                Self::NestedPartialUpdate { keys }
            }
            "theta_sketch" => Self::Theta,
            "hll_sketch" => Self::Hll,
            "rbm32" => Self::Roaring32,
            "rbm64" => Self::Roaring64,
            other => {
                return Err(Error::unsupported(format!(
                    "column {column}: there is no aggregate function '{other}'; see the options \
                     'fields.{column}.aggregate-function' and 'fields.default-aggregate-function'"
                )));
            }
        };
        let kind = &field.data_type.kind;
        if function.takes(kind) {
            Ok(function)
        } else {
            Err(Error::invalid(format!(
                "column {}: the aggregate function '{name}' can't take values of type {}",
                field.name, field.data_type
            )))
        }
    }

    fn takes(&self, kind: &TypeKind) -> bool {
        use TypeKind as K;
        match self {
            Self::PrimaryKey | Self::LastValue | Self::LastNonNull | Self::FirstValue | Self::FirstNonNull => true,
            Self::Max | Self::Min => is_number(kind) || is_time(kind) || is_text(kind) || is_bytes(kind),
            Self::Sum | Self::Product => is_number(kind),
            Self::BoolAnd | Self::BoolOr => matches!(kind, K::Boolean),
            Self::ListAgg { .. } => matches!(kind, K::VarChar(_)),
            Self::Collect { .. } => matches!(kind, K::Array(_)),
            Self::MergeMap => matches!(kind, K::Map(..)),
            Self::MergeMapWithKeyTime { .. } => matches!(kind, K::Map(..)) && value_row(kind).is_some(),
            Self::NestedUpdate(_) | Self::NestedPartialUpdate { .. } => {
                matches!(kind, K::Array(_)) && value_row(kind).is_some()
            }
            Self::Theta | Self::Hll | Self::Roaring32 | Self::Roaring64 => matches!(kind, K::VarBinary(_)),
        }
    }

    /// Whether the function can take a value back (`spec/data.md 5.3`, column "retr").
    pub(crate) fn retracts(&self) -> bool {
        matches!(
            self,
            Self::PrimaryKey
                | Self::LastValue
                | Self::LastNonNull
                | Self::Sum
                | Self::Product
                | Self::Collect { .. }
                | Self::MergeMap
                | Self::NestedUpdate(_)
        )
    }

    /// The name in options and messages.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::PrimaryKey => "primary-key",
            Self::LastValue => "last_value",
            Self::LastNonNull => "last_non_null_value",
            Self::FirstValue => "first_value",
            Self::FirstNonNull => "first_non_null_value",
            Self::Max => "max",
            Self::Min => "min",
            Self::Sum => "sum",
            Self::Product => "product",
            Self::BoolAnd => "bool_and",
            Self::BoolOr => "bool_or",
            Self::ListAgg { .. } => "listagg",
            Self::Collect { .. } => "collect",
            Self::MergeMap => "merge_map",
            Self::MergeMapWithKeyTime { .. } => "merge_map_with_keytime",
            Self::NestedUpdate(_) => "nested_update",
            Self::NestedPartialUpdate { .. } => "nested_partial_update",
            Self::Theta => "theta_sketch",
            Self::Hll => "hll_sketch",
            Self::Roaring32 => "rbm32",
            Self::Roaring64 => "rbm64",
        }
    }
}

fn is_number(kind: &TypeKind) -> bool {
    use TypeKind as K;
    matches!(kind, K::TinyInt | K::SmallInt | K::Int | K::BigInt | K::Float | K::Double | K::Decimal(..))
}

fn is_time(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Date | TypeKind::Time(_) | TypeKind::Timestamp(_) | TypeKind::TimestampLtz(_))
}

fn is_text(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Char(_) | TypeKind::VarChar(_))
}

fn is_bytes(kind: &TypeKind) -> bool {
    matches!(kind, TypeKind::Binary(_) | TypeKind::VarBinary(_))
}

/// The fields of the ROW that a list or a map holds.
fn value_row(kind: &TypeKind) -> Option<&[DataField]> {
    match kind {
        TypeKind::Array(value) | TypeKind::Map(_, value) => match &**value {
            DataType { kind: TypeKind::Row(fields), .. } => Some(fields),
            _ => None,
        },
        _ => None,
    }
}

fn nested_fields(field: &DataField, option: &str, names: &[String]) -> Result<Vec<usize>> {
    // Another type is refused with the function's own message.
    let Some(fields) = value_row(&field.data_type.kind) else { return Ok(Vec::new()) };
    names
        .iter()
        .map(|name| {
            fields.iter().position(|field| field.name == *name).ok_or_else(|| {
                Error::invalid(format!(
                    "option 'fields.{column}.{option}': {name} is not a field of the rows of column {column}",
                    column = field.name
                ))
            })
        })
        .collect()
}

fn key_time(field: &DataField, options: &TableOptions) -> Result<usize> {
    let column = &field.name;
    let Some(fields) = value_row(&field.data_type.kind) else { return Ok(0) };
    let position = match options.ts_field(column) {
        Some(name) => fields.iter().position(|field| field.name == name),
        None => fields.len().checked_sub(1),
    };
    let position = position.ok_or_else(|| {
        Error::invalid(format!("option 'fields.{column}.ts-field': the rows of column {column} have no such field"))
    })?;
    if is_text(&fields[position].data_type.kind) {
        Ok(position)
    } else {
        Err(Error::invalid(format!(
            "column {column}: merge_map_with_keytime compares text, and {} is {}; name a STRING field in \
             'fields.{column}.ts-field'",
            fields[position].name, fields[position].data_type
        )))
    }
}
