//! The Parquet schema of a data file (`spec/data.md 1.1`, `1.4`): the types, names and field ids that Java gives.

use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::error::{Error, Result};
use crate::spec::types::SYSTEM_FIELD_ID_START;
use crate::spec::{DataField, DataType, TypeKind};

/// Name of the root.
const ROOT: &str = "paimon_schema";
/// Ids of the parts of arrays and maps lie around this one.
const PARTS: i32 = SYSTEM_FIELD_ID_START / 2;
/// Ids that one column has for its parts on one side.
const PARTS_OF_COLUMN: i32 = 1024;

/// The schema of a file with these columns.
///
/// # Errors
/// Internal when the Parquet library refuses it.
pub(super) fn parquet_schema(fields: &[DataField]) -> Result<SchemaDescriptor> {
    let columns = fields
        .iter()
        .map(|field| Ok(Arc::new(typed(&field.name, &field.data_type, field.id, Place::column(field.id))?)))
        .collect::<Result<Vec<_>, ParquetError>>()
        .and_then(|columns| Type::group_type_builder(ROOT).with_fields(columns).build())
        .map_err(|error| Error::internal("the columns are no Parquet schema").with_source(error))?;
    Ok(SchemaDescriptor::new(Arc::new(columns)))
}

/// Bytes of the unscaled value of a wide decimal: the least that hold every one of so many digits, with its sign.
fn decimal_length(precision: u8) -> i32 {
    let bits = 128 - 10_u128.saturating_pow(u32::from(precision)).leading_zeros() + 1;
    bits.div_ceil(8) as i32
}

/// Where a type stands: the column whose parts are numbered, and how deep.
#[derive(Clone, Copy)]
struct Place {
    column: i32,
    depth: i32,
}

impl Place {
    fn column(column: i32) -> Self {
        Self { column, depth: 0 }
    }

    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// The id of an element or a map's value.
    fn above(self) -> i32 {
        PARTS.wrapping_add(self.column.wrapping_mul(PARTS_OF_COLUMN)).wrapping_add(self.depth)
    }

    /// The id of a map's key.
    fn below(self) -> i32 {
        PARTS.wrapping_sub(self.column.wrapping_mul(PARTS_OF_COLUMN)).wrapping_sub(self.depth)
    }
}

fn repetition(data_type: &DataType) -> Repetition {
    if data_type.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED }
}

fn typed(name: &str, data_type: &DataType, id: i32, place: Place) -> Result<Type, ParquetError> {
    let repetition = repetition(data_type);
    let primitive = |physical: PhysicalType, logical: Option<LogicalType>| {
        Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .with_id(Some(id))
    };
    match &data_type.kind {
        TypeKind::Boolean => primitive(PhysicalType::BOOLEAN, None).build(),
        TypeKind::TinyInt => primitive(PhysicalType::INT32, Some(LogicalType::integer(8, true))).build(),
        TypeKind::SmallInt => primitive(PhysicalType::INT32, Some(LogicalType::integer(16, true))).build(),
        TypeKind::Int => primitive(PhysicalType::INT32, None).build(),
        TypeKind::BigInt => primitive(PhysicalType::INT64, None).build(),
        TypeKind::Float => primitive(PhysicalType::FLOAT, None).build(),
        TypeKind::Double => primitive(PhysicalType::DOUBLE, None).build(),
        TypeKind::Decimal(precision, scale) => {
            let logical = LogicalType::decimal(i32::from(*scale), i32::from(*precision));
            let physical = match precision {
                0..=9 => primitive(PhysicalType::INT32, Some(logical)),
                10..=18 => primitive(PhysicalType::INT64, Some(logical)),
                _ => {
                    primitive(PhysicalType::FIXED_LEN_BYTE_ARRAY, Some(logical)).with_length(decimal_length(*precision))
                }
            };
            physical.with_precision(i32::from(*precision)).with_scale(i32::from(*scale)).build()
        }
        TypeKind::Char(_) | TypeKind::VarChar(_) => {
            primitive(PhysicalType::BYTE_ARRAY, Some(LogicalType::String)).build()
        }
        TypeKind::Binary(_)
        | TypeKind::VarBinary(_)
        | TypeKind::Blob
        | TypeKind::Geometry(_)
        | TypeKind::Geography(_) => primitive(PhysicalType::BYTE_ARRAY, None).build(),
        TypeKind::Date => primitive(PhysicalType::INT32, Some(LogicalType::Date)).build(),
        TypeKind::Time(_) => primitive(PhysicalType::INT32, Some(LogicalType::time(true, TimeUnit::MILLIS))).build(),
        TypeKind::Timestamp(precision) => timestamp(*precision, false, primitive),
        TypeKind::TimestampLtz(precision) => timestamp(*precision, true, primitive),
        TypeKind::Variant => {
            let part = |name: &str, id: i32| -> Result<Arc<Type>, ParquetError> {
                let bytes = Type::primitive_type_builder(name, PhysicalType::BYTE_ARRAY);
                Ok(Arc::new(bytes.with_repetition(Repetition::REQUIRED).with_id(Some(id)).build()?))
            };
            group(name, id, repetition, None, vec![part("value", 0)?, part("metadata", 1)?])
        }
        TypeKind::Array(element) | TypeKind::Vector(element, _) => {
            let place = place.deeper();
            let element = typed("element", element, place.above(), place)?;
            let list = Type::group_type_builder("list")
                .with_repetition(Repetition::REPEATED)
                .with_fields(vec![Arc::new(element)])
                .build()?;
            group(name, id, repetition, Some(LogicalType::List), vec![Arc::new(list)])
        }
        TypeKind::Map(key, value) => map(name, id, repetition, key, value, place.deeper()),
        TypeKind::Multiset(element) => {
            let count = DataType::not_null(TypeKind::Int);
            map(name, id, repetition, element, &count, place.deeper())
        }
        TypeKind::Row(fields) => {
            let fields = fields
                .iter()
                .map(|field| Ok(Arc::new(typed(&field.name, &field.data_type, field.id, Place::column(field.id))?)))
                .collect::<Result<Vec<_>, ParquetError>>()?;
            group(name, id, repetition, None, fields)
        }
    }
}

fn timestamp<'a>(
    precision: u8,
    is_instant: bool,
    primitive: impl Fn(PhysicalType, Option<LogicalType>) -> parquet::schema::types::PrimitiveTypeBuilder<'a>,
) -> Result<Type, ParquetError> {
    match precision {
        0..=3 => primitive(PhysicalType::INT64, Some(LogicalType::timestamp(is_instant, TimeUnit::MILLIS))),
        4..=6 => primitive(PhysicalType::INT64, Some(LogicalType::timestamp(is_instant, TimeUnit::MICROS))),
        _ => primitive(PhysicalType::INT96, None),
    }
    .build()
}

fn group(
    name: &str,
    id: i32,
    repetition: Repetition,
    logical: Option<LogicalType>,
    fields: Vec<Arc<Type>>,
) -> Result<Type, ParquetError> {
    Type::group_type_builder(name)
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_id(Some(id))
        .with_fields(fields)
        .build()
}

/// A map; its keys are REQUIRED whatever their type says.
fn map(
    name: &str,
    id: i32,
    repetition: Repetition,
    key: &DataType,
    value: &DataType,
    place: Place,
) -> Result<Type, ParquetError> {
    let key = DataType::not_null(key.kind.clone());
    let key = typed("key", &key, place.below(), place)?;
    let value = typed("value", value, place.above(), place)?;
    let entries = Type::group_type_builder("key_value")
        .with_repetition(Repetition::REPEATED)
        .with_converted_type(ConvertedType::MAP_KEY_VALUE)
        .with_fields(vec![Arc::new(key), Arc::new(value)])
        .build()?;
    group(name, id, repetition, Some(LogicalType::Map), vec![Arc::new(entries)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_length_when_any_precision_then_the_least_that_holds_it() {
        let lengths = [(19, 9), (20, 9), (21, 9), (22, 10), (28, 12), (31, 13), (36, 16), (38, 16)];
        for (precision, length) in lengths {
            assert_eq!(decimal_length(precision), length, "{precision}");
        }
    }

    /// `types/nested_key_parquet` as Java wrote it.
    #[test]
    fn parquet_schema_when_nested_then_names_and_ids_of_java() {
        let int = || Box::new(DataType::nullable(TypeKind::Int));
        let text = || Box::new(DataType::string());
        let field = |id, name: &str, kind| DataField::new(id, name, DataType::nullable(kind));
        let array = |inner| TypeKind::Array(Box::new(DataType::nullable(inner)));
        let inner = TypeKind::Row(vec![field(17, "p", TypeKind::VarChar(5)), field(18, "q", TypeKind::Array(int()))]);
        let fields = [
            field(1, "ai", TypeKind::Array(int())),
            field(6, "mil", TypeKind::Map(int(), Box::new(DataType::nullable(TypeKind::BigInt)))),
            field(7, "msa", TypeKind::Map(text(), Box::new(DataType::nullable(TypeKind::Array(int()))))),
            field(15, "rr", TypeKind::Row(vec![field(16, "n", TypeKind::Int), field(19, "inner_row", inner)])),
            field(20, "aa", array(TypeKind::Array(int()))),
            field(21, "ms", TypeKind::Multiset(text())),
        ];
        let schema = parquet_schema(&fields).unwrap();
        assert_eq!(schema.root_schema().name(), "paimon_schema");
        let ids: Vec<(String, i32)> = schema
            .columns()
            .iter()
            .map(|leaf| (leaf.path().string(), leaf.self_type().get_basic_info().id()))
            .collect();
        let expected = [
            ("ai.list.element", 536_871_936),
            ("mil.key_value.key", 536_864_766),
            ("mil.key_value.value", 536_877_056),
            ("msa.key_value.key", 536_863_742),
            ("msa.key_value.value.list.element", 536_878_081),
            ("rr.n", 16),
            ("rr.inner_row.p", 17),
            ("rr.inner_row.q.list.element", 536_889_344),
            ("aa.list.element.list.element", 536_891_393),
            ("ms.key_value.key", 536_849_406),
            ("ms.key_value.value", 536_892_416),
        ];
        assert_eq!(ids, expected.map(|(path, id)| (path.to_owned(), id)));
    }
}
