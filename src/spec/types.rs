//! Data types with field ids (`spec/metadata.md 2.2-2.4`), their JSON and SQL text, and the arrow types they are read as.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};

/// The first id that no user column can have (`spec/metadata.md 2.4`).
pub const SYSTEM_FIELD_ID_START: i32 = i32::MAX / 2;
/// Field id of `_VALUE_KIND`.
pub const VALUE_KIND_ID: i32 = i32::MAX - 2;
/// Field id of `_SEQUENCE_NUMBER`.
pub const SEQUENCE_NUMBER_ID: i32 = i32::MAX - 1;
/// Name of the sequence number column of key tables.
pub const SEQUENCE_NUMBER: &str = "_SEQUENCE_NUMBER";
/// Name of the row kind column of key tables.
pub const VALUE_KIND: &str = "_VALUE_KIND";
/// Name of the row id column of row-tracking tables.
pub const ROW_ID: &str = "_ROW_ID";
/// Field id of `_ROW_ID`.
pub const ROW_ID_ID: i32 = i32::MAX - 5;
/// Prefix of the key columns of key tables.
pub const KEY_PREFIX: &str = "_KEY_";
/// The length of `STRING` and `BYTES`.
pub const MAX_LENGTH: u32 = i32::MAX as u32;

/// The columns that a row-tracking table has beside its own (`spec/data.md 1.1`).
pub fn row_id_fields() -> [DataField; 2] {
    let id = || DataType::nullable(TypeKind::BigInt);
    [DataField::new(ROW_ID_ID, ROW_ID, id()), DataField::new(SEQUENCE_NUMBER_ID, SEQUENCE_NUMBER, id())]
}

/// A type and whether it takes NULL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataType {
    /// What the values are.
    pub kind: TypeKind,
    /// Whether NULL is a value.
    pub nullable: bool,
}

/// What the values of a type are. Precisions and lengths as in `spec/metadata.md 2.3`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TypeKind {
    /// `BOOLEAN`
    Boolean,
    /// `TINYINT`, 8 bits
    TinyInt,
    /// `SMALLINT`, 16 bits
    SmallInt,
    /// `INT`, 32 bits
    Int,
    /// `BIGINT`, 64 bits
    BigInt,
    /// `FLOAT`, 32 bits
    Float,
    /// `DOUBLE`, 64 bits
    Double,
    /// `DECIMAL(precision, scale)`, precision 1 to 38
    Decimal(u8, u8),
    /// `CHAR(n)`, n code points
    Char(u32),
    /// `VARCHAR(n)`; `STRING` when n is [`MAX_LENGTH`]
    VarChar(u32),
    /// `BINARY(n)`, n bytes
    Binary(u32),
    /// `VARBINARY(n)`; `BYTES` when n is [`MAX_LENGTH`]
    VarBinary(u32),
    /// `DATE`, days since 1970-01-01
    Date,
    /// `TIME(p)`, always milliseconds of the day
    Time(u8),
    /// `TIMESTAMP(p)`, a wall clock without zone
    Timestamp(u8),
    /// `TIMESTAMP(p) WITH LOCAL TIME ZONE`, an instant
    TimestampLtz(u8),
    /// `VARIANT`: a binary value with its binary metadata
    Variant,
    /// `BLOB`
    Blob,
    /// `GEOMETRY(crs)`
    Geometry(String),
    /// `GEOGRAPHY(crs, algorithm)`
    Geography(String),
    /// `ARRAY<element>`
    Array(Box<DataType>),
    /// `MULTISET<element>`, physically a map of element to count
    Multiset(Box<DataType>),
    /// `MAP<key, value>`
    Map(Box<DataType>, Box<DataType>),
    /// `ROW<fields>`
    Row(Vec<DataField>),
    /// `VECTOR<element, length>`
    Vector(Box<DataType>, u32),
}

/// A column, or a field inside a ROW.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DataField {
    /// Identity of the field: a rename keeps it, a dropped field's id is never used again.
    pub id: i32,
    /// Name as written in the schema (case-sensitive).
    pub name: String,
    /// Type of the values.
    pub data_type: DataType,
    /// Comment.
    pub description: Option<String>,
    /// Default, applied when rows are written, never when they are read (`spec/metadata.md 2.7`).
    pub default_value: Option<String>,
}

impl DataField {
    /// A field without comment and default.
    pub fn new(id: i32, name: impl Into<String>, data_type: DataType) -> Self {
        Self { id, name: name.into(), data_type, description: None, default_value: None }
    }

    /// The arrow field a reader gives for a top-level column: text and bytes as views.
    pub fn to_arrow(&self) -> Field {
        Field::new(&self.name, self.data_type.to_arrow(), self.data_type.nullable)
    }

    /// Reads a field object (`spec/metadata.md 2.2`). `next_id` numbers fields of writers that gave no ids.
    pub fn from_json(value: &Value, next_id: &mut i32) -> Result<Self> {
        let object =
            value.as_object().ok_or_else(|| Error::corrupt(format!("a field is not a JSON object: {value}")))?;
        let name = object
            .get("name")
            .and_then(Value::as_str)
            .ok_or_else(|| Error::corrupt(format!("a field has no name: {value}")))?;
        let id = match object.get("id") {
            Some(id) => id
                .as_i64()
                .and_then(|id| i32::try_from(id).ok())
                .ok_or_else(|| Error::corrupt(format!("field {name}: the id is not a 32-bit number: {id}")))?,
            None => {
                *next_id += 1;
                *next_id - 1
            }
        };
        let data_type = object.get("type").ok_or_else(|| Error::corrupt(format!("field {name} has no type")))?;
        let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            id,
            name: name.to_owned(),
            data_type: DataType::from_json_at(data_type, next_id, 0)?,
            description: text("description"),
            default_value: text("defaultValue"),
        })
    }

    /// The field object of the schema file.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("id".to_owned(), json!(self.id));
        object.insert("name".to_owned(), json!(self.name));
        object.insert("type".to_owned(), self.data_type.to_json());
        if let Some(description) = &self.description {
            object.insert("description".to_owned(), json!(description));
        }
        if let Some(default_value) = &self.default_value {
            object.insert("defaultValue".to_owned(), json!(default_value));
        }
        Value::Object(object)
    }
}

/// The arrow schema of top-level columns.
pub fn arrow_schema(fields: &[DataField]) -> SchemaRef {
    Arc::new(Schema::new(fields.iter().map(DataField::to_arrow).collect::<Vec<_>>()))
}

/// Deepest nesting of types that is read; a schema file beyond it is refused instead of overflowing the stack.
pub(crate) const MAX_DEPTH: usize = 64;

impl DataType {
    /// A nullable type.
    pub fn nullable(kind: TypeKind) -> Self {
        Self { kind, nullable: true }
    }

    /// A type without NULL.
    pub fn not_null(kind: TypeKind) -> Self {
        Self { kind, nullable: false }
    }

    /// `STRING`
    pub fn string() -> Self {
        Self::nullable(TypeKind::VarChar(MAX_LENGTH))
    }

    /// Whether the type holds other types.
    pub fn is_nested(&self) -> bool {
        matches!(
            self.kind,
            TypeKind::Array(_) | TypeKind::Multiset(_) | TypeKind::Map(..) | TypeKind::Row(_) | TypeKind::Vector(..)
        )
    }

    /// The arrow type of a top-level column: text and bytes as views, everything else as [`Self::to_arrow_nested`].
    pub fn to_arrow(&self) -> ArrowType {
        match self.to_arrow_nested() {
            ArrowType::Utf8 => ArrowType::Utf8View,
            ArrowType::Binary => ArrowType::BinaryView,
            other => other,
        }
    }

    /// The arrow type inside containers.
    ///
    /// TIME is milliseconds; timestamps take the unit that holds their precision (3, 6 or 9), LTZ is UTC; MULTISET is a map
    /// to INT; VARIANT is a struct of its binary `value` and `metadata`; VECTOR is a list.
    pub fn to_arrow_nested(&self) -> ArrowType {
        let element = |name: &str, data_type: &Self| -> FieldRef {
            Arc::new(Field::new(name, data_type.to_arrow_nested(), data_type.nullable))
        };
        let map = |key: FieldRef, value: FieldRef| {
            ArrowType::Map(
                Arc::new(Field::new("entries", ArrowType::Struct(Fields::from(vec![key, value])), false)),
                false,
            )
        };
        let unit = |precision: u8| match precision {
            0..=3 => TimeUnit::Millisecond,
            4..=6 => TimeUnit::Microsecond,
            _ => TimeUnit::Nanosecond,
        };
        match &self.kind {
            TypeKind::Boolean => ArrowType::Boolean,
            TypeKind::TinyInt => ArrowType::Int8,
            TypeKind::SmallInt => ArrowType::Int16,
            TypeKind::Int => ArrowType::Int32,
            TypeKind::BigInt => ArrowType::Int64,
            TypeKind::Float => ArrowType::Float32,
            TypeKind::Double => ArrowType::Float64,
            TypeKind::Decimal(precision, scale) => ArrowType::Decimal128(*precision, *scale as i8),
            TypeKind::Char(_) | TypeKind::VarChar(_) => ArrowType::Utf8,
            TypeKind::Binary(_)
            | TypeKind::VarBinary(_)
            | TypeKind::Blob
            | TypeKind::Geometry(_)
            | TypeKind::Geography(_) => ArrowType::Binary,
            TypeKind::Date => ArrowType::Date32,
            TypeKind::Time(_) => ArrowType::Time32(TimeUnit::Millisecond),
            TypeKind::Timestamp(precision) => ArrowType::Timestamp(unit(*precision), None),
            TypeKind::TimestampLtz(precision) => ArrowType::Timestamp(unit(*precision), Some("UTC".into())),
            TypeKind::Variant => ArrowType::Struct(Fields::from(vec![
                Field::new("value", ArrowType::Binary, false),
                Field::new("metadata", ArrowType::Binary, false),
            ])),
            TypeKind::Array(inner) | TypeKind::Vector(inner, _) => ArrowType::List(element("element", inner)),
            TypeKind::Multiset(inner) => {
                let key = Arc::new(Field::new("key", inner.to_arrow_nested(), false));
                map(key, Arc::new(Field::new("value", ArrowType::Int32, false)))
            }
            TypeKind::Map(key, value) => {
                map(Arc::new(Field::new("key", key.to_arrow_nested(), false)), element("value", value))
            }
            TypeKind::Row(fields) => ArrowType::Struct(
                fields
                    .iter()
                    .map(|field| Field::new(&field.name, field.data_type.to_arrow_nested(), field.data_type.nullable))
                    .collect(),
            ),
        }
    }

    /// Reads the `type` of a field object: a string, or an object for containers.
    pub fn from_json(value: &Value) -> Result<Self> {
        Self::from_json_at(value, &mut 0, 0)
    }

    fn from_json_at(value: &Value, next_id: &mut i32, depth: usize) -> Result<Self> {
        if depth > MAX_DEPTH {
            return Err(Error::corrupt(format!("a type is nested deeper than {MAX_DEPTH} levels")));
        }
        match value {
            Value::String(text) => Self::parse(text),
            Value::Object(object) => {
                let text = object
                    .get("type")
                    .and_then(Value::as_str)
                    .ok_or_else(|| Error::corrupt(format!("a nested type has no type name: {value}")))?
                    .to_ascii_uppercase();
                let mut part = |key: &str| -> Result<Box<Self>> {
                    let inner = object
                        .get(key)
                        .ok_or_else(|| Error::corrupt(format!("type {text} lacks its {key}: {value}")))?;
                    Ok(Box::new(Self::from_json_at(inner, next_id, depth + 1)?))
                };
                let name = text.split_whitespace().next().unwrap_or_default();
                let kind = match name {
                    "ARRAY" => TypeKind::Array(part("element")?),
                    "MULTISET" => TypeKind::Multiset(part("element")?),
                    "MAP" => TypeKind::Map(part("key")?, part("value")?),
                    "VECTOR" => {
                        let length = object
                            .get("length")
                            .and_then(Value::as_u64)
                            .and_then(|length| u32::try_from(length).ok())
                            .ok_or_else(|| Error::corrupt(format!("type VECTOR lacks its length: {value}")))?;
                        TypeKind::Vector(part("element")?, length)
                    }
                    "ROW" => {
                        let fields = object
                            .get("fields")
                            .and_then(Value::as_array)
                            .ok_or_else(|| Error::corrupt(format!("type ROW lacks its fields: {value}")))?;
                        let mut parsed = Vec::with_capacity(fields.len());
                        for field in fields {
                            parsed.push(Self::nested_field(field, next_id, depth + 1)?);
                        }
                        TypeKind::Row(parsed)
                    }
                    other => return Err(Error::unsupported(format!("data type {other} is not known: {value}"))),
                };
                Ok(Self { kind, nullable: !text.contains("NOT NULL") })
            }
            other => Err(Error::corrupt(format!("a data type is neither text nor object: {other}"))),
        }
    }

    fn nested_field(value: &Value, next_id: &mut i32, depth: usize) -> Result<DataField> {
        // The field's own reader restarts the depth; check it here, where the recursion passes.
        if depth > MAX_DEPTH {
            return Err(Error::corrupt(format!("a type is nested deeper than {MAX_DEPTH} levels")));
        }
        let inner = value.get("type").cloned().unwrap_or(Value::Null);
        let data_type = Self::from_json_at(&inner, next_id, depth)?;
        let mut shallow = value.clone();
        if let Some(object) = shallow.as_object_mut() {
            object.insert("type".to_owned(), json!("INT"));
        }
        let mut field = DataField::from_json(&shallow, next_id)?;
        field.data_type = data_type;
        Ok(field)
    }

    /// The `type` of a field object.
    pub fn to_json(&self) -> Value {
        let named = |name: &str| if self.nullable { json!(name) } else { json!(format!("{name} NOT NULL")) };
        match &self.kind {
            TypeKind::Array(inner) => json!({"type": named("ARRAY"), "element": inner.to_json()}),
            TypeKind::Multiset(inner) => json!({"type": named("MULTISET"), "element": inner.to_json()}),
            TypeKind::Map(key, value) => {
                json!({"type": named("MAP"), "key": key.to_json(), "value": value.to_json()})
            }
            TypeKind::Vector(inner, length) => {
                json!({"type": named("VECTOR"), "element": inner.to_json(), "length": length})
            }
            TypeKind::Row(fields) => {
                json!({"type": named("ROW"), "fields": fields.iter().map(DataField::to_json).collect::<Vec<_>>()})
            }
            _ => json!(self.to_string()),
        }
    }

    /// Reads an atomic type as schema files write it, e.g. `DECIMAL(10, 2) NOT NULL` (`spec/metadata.md 2.3`).
    pub fn parse(text: &str) -> Result<Self> {
        TypeText { text, rest: text.trim() }.parse()
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            TypeKind::Boolean => f.write_str("BOOLEAN"),
            TypeKind::TinyInt => f.write_str("TINYINT"),
            TypeKind::SmallInt => f.write_str("SMALLINT"),
            TypeKind::Int => f.write_str("INT"),
            TypeKind::BigInt => f.write_str("BIGINT"),
            TypeKind::Float => f.write_str("FLOAT"),
            TypeKind::Double => f.write_str("DOUBLE"),
            TypeKind::Decimal(precision, scale) => write!(f, "DECIMAL({precision}, {scale})"),
            TypeKind::Char(length) => write!(f, "CHAR({length})"),
            TypeKind::VarChar(MAX_LENGTH) => f.write_str("STRING"),
            TypeKind::VarChar(length) => write!(f, "VARCHAR({length})"),
            TypeKind::Binary(length) => write!(f, "BINARY({length})"),
            TypeKind::VarBinary(MAX_LENGTH) => f.write_str("BYTES"),
            TypeKind::VarBinary(length) => write!(f, "VARBINARY({length})"),
            TypeKind::Date => f.write_str("DATE"),
            TypeKind::Time(precision) => write!(f, "TIME({precision})"),
            TypeKind::Timestamp(precision) => write!(f, "TIMESTAMP({precision})"),
            TypeKind::TimestampLtz(precision) => write!(f, "TIMESTAMP({precision}) WITH LOCAL TIME ZONE"),
            TypeKind::Variant => f.write_str("VARIANT"),
            TypeKind::Blob => f.write_str("BLOB"),
            TypeKind::Geometry(arguments) => write!(f, "GEOMETRY({arguments})"),
            TypeKind::Geography(arguments) => write!(f, "GEOGRAPHY({arguments})"),
            TypeKind::Array(inner) => write!(f, "ARRAY<{inner}>"),
            TypeKind::Multiset(inner) => write!(f, "MULTISET<{inner}>"),
            TypeKind::Map(key, value) => write!(f, "MAP<{key}, {value}>"),
            TypeKind::Vector(inner, length) => write!(f, "VECTOR<{inner}, {length}>"),
            TypeKind::Row(fields) => {
                f.write_str("ROW<")?;
                for (i, field) in fields.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "`{}` {}", field.name, field.data_type)?;
                    if let Some(description) = &field.description {
                        write!(f, " '{}'", description.replace('\'', "''"))?;
                    }
                }
                f.write_str(">")
            }
        }?;
        if self.nullable { Ok(()) } else { f.write_str(" NOT NULL") }
    }
}

/// A type's text and what of it is still to be read.
struct TypeText<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> TypeText<'a> {
    fn bad(&self, why: &str) -> Error {
        Error::corrupt(format!("data type '{}': {why}", self.text))
    }

    fn word(&mut self) -> String {
        let rest = self.rest.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.rest = &rest[end..];
        rest[..end].to_ascii_uppercase()
    }

    fn take(&mut self, words: &str) -> bool {
        let before = self.rest;
        let found = words.split(' ').all(|word| self.word() == word);
        if !found {
            self.rest = before;
        }
        found
    }

    /// The text between the parentheses that follow, if any.
    fn arguments(&mut self) -> Result<Option<&'a str>> {
        let rest = self.rest.trim_start();
        let Some(inner) = rest.strip_prefix('(') else { return Ok(None) };
        let end = inner.find(')').ok_or_else(|| self.bad("a parenthesis is not closed"))?;
        self.rest = &inner[end + 1..];
        Ok(Some(inner[..end].trim()))
    }

    fn number(&mut self, default: u32, min: u32, max: u32) -> Result<u32> {
        let Some(text) = self.arguments()? else { return Ok(default) };
        match text.parse::<u32>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => Err(self.bad(&format!("'{text}' is not a number from {min} to {max}"))),
        }
    }

    fn precision(&mut self, default: u32) -> Result<u8> {
        Ok(self.number(default, 0, 9)? as u8)
    }

    fn parse(mut self) -> Result<DataType> {
        let kind = match self.word().as_str() {
            "CHAR" => TypeKind::Char(self.number(1, 1, MAX_LENGTH)?),
            "VARCHAR" => TypeKind::VarChar(self.number(1, 1, MAX_LENGTH)?),
            "STRING" => TypeKind::VarChar(MAX_LENGTH),
            "BOOLEAN" => TypeKind::Boolean,
            "BINARY" => TypeKind::Binary(self.number(1, 1, MAX_LENGTH)?),
            "VARBINARY" => TypeKind::VarBinary(self.number(1, 1, MAX_LENGTH)?),
            "BYTES" => TypeKind::VarBinary(MAX_LENGTH),
            "DECIMAL" | "NUMERIC" | "DEC" => self.decimal()?,
            "TINYINT" => TypeKind::TinyInt,
            "SMALLINT" => TypeKind::SmallInt,
            "INT" | "INTEGER" => TypeKind::Int,
            "BIGINT" => TypeKind::BigInt,
            "FLOAT" => TypeKind::Float,
            "DOUBLE" => {
                self.take("PRECISION");
                TypeKind::Double
            }
            "DATE" => TypeKind::Date,
            "TIME" => {
                let precision = self.precision(0)?;
                self.take("WITHOUT TIME ZONE");
                TypeKind::Time(precision)
            }
            "TIMESTAMP" => {
                let precision = self.precision(6)?;
                if self.take("WITH LOCAL TIME ZONE") {
                    TypeKind::TimestampLtz(precision)
                } else {
                    self.take("WITHOUT TIME ZONE");
                    TypeKind::Timestamp(precision)
                }
            }
            "TIMESTAMP_LTZ" => TypeKind::TimestampLtz(self.precision(6)?),
            "VARIANT" => TypeKind::Variant,
            "BLOB" => TypeKind::Blob,
            "GEOMETRY" => TypeKind::Geometry(self.arguments()?.unwrap_or("OGC:CRS84").to_owned()),
            "GEOGRAPHY" => TypeKind::Geography(self.arguments()?.unwrap_or("OGC:CRS84").to_owned()),
            other => return Err(Error::unsupported(format!("data type {other} is not known: '{}'", self.text))),
        };
        let mut nullable = self.nullability();
        let mut kind = kind;
        loop {
            kind = if self.take("ARRAY") {
                TypeKind::Array(Box::new(DataType { kind, nullable }))
            } else if self.take("MULTISET") {
                TypeKind::Multiset(Box::new(DataType { kind, nullable }))
            } else {
                break;
            };
            nullable = self.nullability();
        }
        if self.rest.trim().is_empty() {
            Ok(DataType { kind, nullable })
        } else {
            Err(self.bad(&format!("'{}' is left over", self.rest.trim())))
        }
    }

    fn nullability(&mut self) -> bool {
        if self.take("NOT NULL") {
            return false;
        }
        self.take("NULL");
        true
    }

    fn decimal(&mut self) -> Result<TypeKind> {
        let Some(arguments) = self.arguments()? else { return Ok(TypeKind::Decimal(10, 0)) };
        let mut numbers = arguments.split(',').map(|number| number.trim().parse::<u8>());
        let (precision, scale) = match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(precision)), None, None) => (precision, 0),
            (Some(Ok(precision)), Some(Ok(scale)), None) => (precision, scale),
            _ => return Err(self.bad("a precision and a scale were expected")),
        };
        if !(1..=38).contains(&precision) || scale > precision {
            return Err(self.bad("the precision goes from 1 to 38, the scale from 0 to the precision"));
        }
        Ok(TypeKind::Decimal(precision, scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_when_text_of_java_then_same_text_again() {
        for text in [
            "INT",
            "BIGINT NOT NULL",
            "STRING",
            "BYTES NOT NULL",
            "CHAR(5)",
            "VARCHAR(12)",
            "BINARY(3)",
            "VARBINARY(20)",
            "DECIMAL(10, 2)",
            "DECIMAL(38, 38) NOT NULL",
            "TIME(3)",
            "TIMESTAMP(6)",
            "TIMESTAMP(9) WITH LOCAL TIME ZONE NOT NULL",
            "DOUBLE",
            "VARIANT",
            "BLOB",
        ] {
            assert_eq!(DataType::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn parse_when_alias_or_default_then_canonical_text() {
        for (text, canonical) in [
            ("varchar", "VARCHAR(1)"),
            ("char", "CHAR(1)"),
            ("numeric(5)", "DECIMAL(5, 0)"),
            ("dec", "DECIMAL(10, 0)"),
            ("integer null", "INT"),
            ("double precision", "DOUBLE"),
            ("timestamp", "TIMESTAMP(6)"),
            ("TIMESTAMP_LTZ(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
            ("time without time zone", "TIME(0)"),
            ("INT NOT NULL ARRAY", "ARRAY<INT NOT NULL>"),
            ("VARCHAR(2147483647)", "STRING"),
        ] {
            assert_eq!(DataType::parse(text).unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn parse_when_text_is_wrong_then_error_names_it() {
        for text in ["", "INTT", "DECIMAL(39, 1)", "DECIMAL(5, 6)", "CHAR(0)", "TIMESTAMP(10)", "INT x", "CHAR(3"] {
            assert!(DataType::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn from_json_when_containers_then_round_trip() {
        let json = json!({"type": "ROW NOT NULL", "fields": [
            {"id": 3, "name": "a", "type": {"type": "ARRAY", "element": "INT NOT NULL"}},
            {"id": 4, "name": "m", "type": {"type": "MAP", "key": "STRING NOT NULL", "value": "DOUBLE"}, "description": "x"},
            {"id": 5, "name": "s", "type": {"type": "MULTISET", "element": "DATE"}, "defaultValue": "1"}
        ]});
        let parsed = DataType::from_json(&json).unwrap();
        assert!(!parsed.nullable);
        assert_eq!(parsed.to_json(), json);
    }

    #[test]
    fn from_json_when_nested_too_deep_then_error() {
        let mut json = json!("INT");
        for _ in 0..100 {
            json = json!({"type": "ARRAY", "element": json});
        }
        assert!(DataType::from_json(&json).is_err());
        let mut json = json!("INT");
        for id in 0..100 {
            json = json!({"type": "ROW", "fields": [{"id": id, "name": "a", "type": json}]});
        }
        assert!(DataType::from_json(&json).is_err());
    }
}
