//! Flink's type texts inside SQL: `ROW<a INT, b ARRAY<STRING>>`, `TIMESTAMP(3) WITH LOCAL TIME ZONE`, `BYTES`.
//!
//! The engine's parser knows neither these nor the limits they set, so a cast's target is read here, from the tokens, and
//! travels through the parser as one quoted name; [`FlinkTypePlanner`] turns that name into an arrow type.
//! Imports `spec` and the parser's tokens.

use std::sync::Arc;

use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, TimeUnit};
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{DataType as SqlType, Ident, ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::tokens;
use crate::error::{Error, Result};
use crate::spec::types::{DataField, DataType, MAX_LENGTH, TypeKind};

/// Marks a quoted name as the carrier of a Flink type.
const CARRIER: &str = "flink type ";

/// A type at the start of `tokens`, and how many tokens it takes.
///
/// # Errors
/// When the tokens do not start with a type that a table's column can have.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<(DataType, usize)> {
    let mut cursor = TypeTokens { tokens, at: 0, half_closed: false };
    let data_type = cursor.data_type(0)?;
    if cursor.half_closed {
        return Err(Error::invalid("a data type closes one bracket too many"));
    }
    Ok((data_type, cursor.at))
}

/// The quoted name that carries `data_type` through the parser.
pub(crate) fn carrier(data_type: &DataType) -> Word {
    tokens::quoted(format!("{CARRIER}{data_type}"))
}

/// The parser's type that carries `data_type`; text without zone is read in `zone`.
pub(crate) fn carrier_type(data_type: &DataType, zone: &str) -> SqlType {
    let name = ObjectName::from(Ident::with_quote('"', format!("{CARRIER}{data_type}")));
    SqlType::Custom(name, vec![zone.to_owned()])
}

/// The parser's type that carries `data_type` before the session's zone is known.
pub(crate) fn carrier_type_of(data_type: &DataType) -> SqlType {
    let name = ObjectName::from(Ident::with_quote('"', format!("{CARRIER}{data_type}")));
    SqlType::Custom(name, Vec::new())
}

/// The type without lengths of text and bytes: values that are cast to it are not cut.
pub(crate) fn without_lengths(data_type: &DataType) -> DataType {
    let inner = |inner: &DataType| Box::new(without_lengths(inner));
    let kind = match &data_type.kind {
        TypeKind::Char(_) | TypeKind::VarChar(_) => TypeKind::VarChar(MAX_LENGTH),
        TypeKind::Binary(_) | TypeKind::VarBinary(_) => TypeKind::VarBinary(MAX_LENGTH),
        TypeKind::Array(element) => TypeKind::Array(inner(element)),
        TypeKind::Multiset(element) => TypeKind::Multiset(inner(element)),
        TypeKind::Map(key, value) => TypeKind::Map(inner(key), inner(value)),
        TypeKind::Row(fields) => {
            let field = |field: &DataField| DataField { data_type: without_lengths(&field.data_type), ..field.clone() };
            TypeKind::Row(fields.iter().map(field).collect())
        }
        other => other.clone(),
    };
    DataType { kind, nullable: data_type.nullable }
}

/// The type that `sql_type` carries, if it is a carrier.
pub(crate) fn carried(sql_type: &SqlType) -> Option<DataType> {
    let SqlType::Custom(name, _) = sql_type else { return None };
    let [ObjectNamePart::Identifier(ident)] = name.0.as_slice() else { return None };
    let text = ident.value.strip_prefix(CARRIER)?;
    let tokens = tokens::tokenize(text).ok()?;
    parse(&tokens).ok().map(|(data_type, _)| data_type)
}

/// Plans the carried types, and Flink's names that reach the engine from a stock session.
#[derive(Debug, Default)]
pub(crate) struct FlinkTypePlanner;

impl TypePlanner for FlinkTypePlanner {
    fn plan_type_field(&self, sql_type: &SqlType) -> datafusion::error::Result<Option<FieldRef>> {
        let SqlType::Custom(_, modifiers) = sql_type else { return Ok(None) };
        let Some(data_type) = carried(sql_type) else { return Ok(None) };
        let zone = modifiers.first().map_or("UTC", String::as_str);
        Ok(Some(Arc::new(Field::new("value", in_zone(&data_type.to_arrow(), zone), true))))
    }
}

/// The type of a column for values of `arrow_type`.
///
/// # Errors
/// Unsupported when a column cannot hold such values.
pub(crate) fn from_arrow(arrow_type: &ArrowType, nullable: bool) -> Result<DataType> {
    let precision = |unit: &TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    };
    let nested = |field: &FieldRef| Ok::<_, Error>(Box::new(from_arrow(field.data_type(), field.is_nullable())?));
    let refused = || Error::unsupported(format!("a column cannot be of the type {arrow_type}; cast it to another one"));
    let kind = match arrow_type {
        ArrowType::Boolean => TypeKind::Boolean,
        ArrowType::Int8 => TypeKind::TinyInt,
        ArrowType::Int16 | ArrowType::UInt8 => TypeKind::SmallInt,
        ArrowType::Int32 | ArrowType::UInt16 => TypeKind::Int,
        ArrowType::Int64 | ArrowType::UInt32 | ArrowType::UInt64 => TypeKind::BigInt,
        ArrowType::Float16 | ArrowType::Float32 => TypeKind::Float,
        ArrowType::Float64 => TypeKind::Double,
        ArrowType::Utf8 | ArrowType::LargeUtf8 | ArrowType::Utf8View => TypeKind::VarChar(MAX_LENGTH),
        ArrowType::Binary | ArrowType::LargeBinary | ArrowType::BinaryView => TypeKind::VarBinary(MAX_LENGTH),
        ArrowType::FixedSizeBinary(size) => TypeKind::Binary(u32::try_from(*size).map_err(|_| refused())?.max(1)),
        ArrowType::Date32 | ArrowType::Date64 => TypeKind::Date,
        ArrowType::Time32(unit) | ArrowType::Time64(unit) => TypeKind::Time(precision(unit).min(3)),
        ArrowType::Timestamp(unit, None) => TypeKind::Timestamp(precision(unit)),
        ArrowType::Timestamp(unit, Some(_)) => TypeKind::TimestampLtz(precision(unit)),
        ArrowType::Decimal32(precision, scale)
        | ArrowType::Decimal64(precision, scale)
        | ArrowType::Decimal128(precision, scale)
        | ArrowType::Decimal256(precision, scale) => match u8::try_from(*scale) {
            Ok(scale) if *precision <= 38 => TypeKind::Decimal(*precision, scale),
            _ => return Err(refused()),
        },
        ArrowType::List(element) | ArrowType::LargeList(element) | ArrowType::FixedSizeList(element, _) => {
            TypeKind::Array(nested(element)?)
        }
        ArrowType::Map(entries, _) => match entries.data_type() {
            ArrowType::Struct(fields) if fields.len() == 2 => TypeKind::Map(nested(&fields[0])?, nested(&fields[1])?),
            _ => return Err(refused()),
        },
        ArrowType::Struct(fields) => {
            let field = |(id, field): (i32, &FieldRef)| Ok(DataField::new(id, field.name(), *nested(field)?));
            TypeKind::Row((0..).zip(fields).map(field).collect::<Result<_>>()?)
        }
        ArrowType::Dictionary(_, values) => return from_arrow(values, nullable),
        _ => return Err(refused()),
    };
    Ok(DataType { kind, nullable })
}

/// `arrow_type` with every instant shown in `zone`; the values stay the same.
pub(crate) fn in_zone(arrow_type: &ArrowType, zone: &str) -> ArrowType {
    let field = |field: &FieldRef| -> FieldRef {
        Arc::new(field.as_ref().clone().with_data_type(in_zone(field.data_type(), zone)))
    };
    match arrow_type {
        ArrowType::Timestamp(unit, Some(_)) => ArrowType::Timestamp(*unit, Some(zone.into())),
        ArrowType::List(element) => ArrowType::List(field(element)),
        ArrowType::LargeList(element) => ArrowType::LargeList(field(element)),
        ArrowType::FixedSizeList(element, size) => ArrowType::FixedSizeList(field(element), *size),
        ArrowType::Map(entries, sorted) => ArrowType::Map(field(entries), *sorted),
        ArrowType::Struct(fields) => ArrowType::Struct(fields.iter().map(field).collect()),
        other => other.clone(),
    }
}

/// Reads a type from tokens.
struct TypeTokens<'a> {
    tokens: &'a [TokenWithSpan],
    at: usize,
    /// A `>>` of which the first half is used.
    half_closed: bool,
}

/// Deeper types are refused, so that a hostile text cannot exhaust the stack.
const MAX_DEPTH: usize = 64;

impl TypeTokens<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).map_or(&Token::EOF, |token| &token.token)
    }

    fn bad(&self, expected: &str) -> Error {
        Error::invalid(format!("a data type needs {expected} where it has '{}'", self.peek()))
    }

    /// Takes an unquoted word.
    fn word(&mut self, expected: &str) -> bool {
        let found = tokens::is_word(self.peek(), expected);
        if found {
            self.at += 1;
        }
        found
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        if found {
            self.at += 1;
        }
        found
    }

    fn expect(&mut self, token: &Token) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(self.bad(&format!("'{token}'"))) }
    }

    fn close(&mut self) -> Result<()> {
        if self.half_closed {
            self.half_closed = false;
            self.at += 1;
            return Ok(());
        }
        if *self.peek() == Token::ShiftRight {
            self.half_closed = true;
            return Ok(());
        }
        self.expect(&Token::Gt)
    }

    fn number(&mut self, max: u32) -> Result<u32> {
        match self.peek() {
            Token::Number(text, false) if text.parse::<u32>().is_ok_and(|number| number <= max) => {
                let number = text.parse().unwrap_or_default();
                self.at += 1;
                Ok(number)
            }
            _ => Err(self.bad(&format!("a number up to {max}"))),
        }
    }

    fn argument(&mut self, default: u32, max: u32) -> Result<u32> {
        if !self.take(&Token::LParen) {
            return Ok(default);
        }
        let number = self.number(max)?;
        self.expect(&Token::RParen)?;
        Ok(number)
    }

    fn data_type(&mut self, depth: usize) -> Result<DataType> {
        if depth > MAX_DEPTH {
            return Err(Error::invalid(format!("a data type is nested more than {MAX_DEPTH} levels deep")));
        }
        let Token::Word(Word { value, quote_style: None, .. }) = self.peek() else {
            return Err(self.bad("a name"));
        };
        let name = value.to_ascii_uppercase();
        self.at += 1;
        let kind = match name.as_str() {
            "BOOLEAN" => TypeKind::Boolean,
            "TINYINT" | "BYTE" => TypeKind::TinyInt,
            "SMALLINT" | "SHORT" => TypeKind::SmallInt,
            "INT" | "INTEGER" => TypeKind::Int,
            "BIGINT" | "LONG" => TypeKind::BigInt,
            "FLOAT" | "REAL" => TypeKind::Float,
            "DOUBLE" => {
                self.word("PRECISION");
                TypeKind::Double
            }
            "DECIMAL" | "DEC" | "NUMERIC" => self.decimal()?,
            "STRING" => TypeKind::VarChar(MAX_LENGTH),
            "BYTES" => TypeKind::VarBinary(MAX_LENGTH),
            // Without a length Flink means one character. Nobody who writes CAST(x AS VARCHAR) does.
            "CHARACTER" if self.word("VARYING") => TypeKind::VarChar(self.length()?),
            "VARCHAR" | "CHAR" if *self.peek() != Token::LParen => TypeKind::VarChar(MAX_LENGTH),
            "VARBINARY" | "BINARY" if *self.peek() != Token::LParen => TypeKind::VarBinary(MAX_LENGTH),
            "VARCHAR" => TypeKind::VarChar(self.length()?),
            "CHAR" | "CHARACTER" => TypeKind::Char(self.length()?),
            "VARBINARY" => TypeKind::VarBinary(self.length()?),
            "BINARY" => TypeKind::Binary(self.length()?),
            "DATE" => TypeKind::Date,
            "TIME" => {
                let precision = self.argument(0, 9)?;
                self.without_time_zone()?;
                TypeKind::Time(precision as u8)
            }
            "TIMESTAMP" => self.timestamp()?,
            "TIMESTAMP_NTZ" => TypeKind::Timestamp(self.argument(6, 9)? as u8),
            "TIMESTAMP_LTZ" => TypeKind::TimestampLtz(self.argument(6, 9)? as u8),
            "VARIANT" => TypeKind::Variant,
            "BLOB" => TypeKind::Blob,
            "ARRAY" => TypeKind::Array(Box::new(self.element(depth)?)),
            "MULTISET" => TypeKind::Multiset(Box::new(self.element(depth)?)),
            "MAP" => {
                self.expect(&Token::Lt)?;
                let key = self.data_type(depth + 1)?;
                self.expect(&Token::Comma)?;
                let value = self.data_type(depth + 1)?;
                self.close()?;
                TypeKind::Map(Box::new(key), Box::new(value))
            }
            "ROW" | "STRUCT" => TypeKind::Row(self.fields(depth)?),
            "VECTOR" => {
                self.expect(&Token::Lt)?;
                let element = self.data_type(depth + 1)?;
                self.expect(&Token::Comma)?;
                let length = self.number(MAX_LENGTH)?;
                self.close()?;
                TypeKind::Vector(Box::new(element), length)
            }
            _ => return Err(Error::invalid(format!("'{name}' is not a data type of a table"))),
        };
        let mut data_type = self.with_nullability(kind);
        // Flink's other way to write them: `INT ARRAY`, `STRING NOT NULL MULTISET`.
        for depth in depth + 1.. {
            let of: fn(Box<DataType>) -> TypeKind = match self.peek() {
                word if tokens::is_word(word, "ARRAY") => TypeKind::Array,
                word if tokens::is_word(word, "MULTISET") => TypeKind::Multiset,
                _ => break,
            };
            if depth > MAX_DEPTH {
                return Err(Error::invalid(format!("a data type is nested more than {MAX_DEPTH} levels deep")));
            }
            self.at += 1;
            data_type = self.with_nullability(of(Box::new(data_type)));
        }
        Ok(data_type)
    }

    /// A type with the NULL or NOT NULL that follows.
    fn with_nullability(&mut self, kind: TypeKind) -> DataType {
        let nullable = !(tokens::is_word(self.peek(), "NOT") && self.not_null());
        if nullable {
            self.word("NULL");
        }
        DataType { kind, nullable }
    }

    fn not_null(&mut self) -> bool {
        let next = self.tokens.get(self.at + 1);
        let found = next.is_some_and(|token| tokens::is_word(&token.token, "NULL"));
        if found {
            self.at += 2;
        }
        found
    }

    fn length(&mut self) -> Result<u32> {
        match self.argument(1, MAX_LENGTH)? {
            0 => Err(Error::invalid("the length of a data type is at least 1")),
            length => Ok(length),
        }
    }

    fn decimal(&mut self) -> Result<TypeKind> {
        if !self.take(&Token::LParen) {
            return Ok(TypeKind::Decimal(10, 0));
        }
        let precision = self.number(38)?;
        let scale = if self.take(&Token::Comma) { self.number(precision)? } else { 0 };
        self.expect(&Token::RParen)?;
        if precision == 0 {
            return Err(Error::invalid("the precision of DECIMAL is 1 to 38"));
        }
        Ok(TypeKind::Decimal(precision as u8, scale as u8))
    }

    fn without_time_zone(&mut self) -> Result<()> {
        if self.word("WITHOUT") && !(self.word("TIME") && self.word("ZONE")) {
            return Err(self.bad("WITHOUT TIME ZONE"));
        }
        Ok(())
    }

    fn timestamp(&mut self) -> Result<TypeKind> {
        let precision = self.argument(6, 9)? as u8;
        if self.word("WITH") {
            return match self.word("LOCAL") && self.word("TIME") && self.word("ZONE") {
                true => Ok(TypeKind::TimestampLtz(precision)),
                false => Err(self.bad("WITH LOCAL TIME ZONE")),
            };
        }
        self.without_time_zone()?;
        Ok(TypeKind::Timestamp(precision))
    }

    fn element(&mut self, depth: usize) -> Result<DataType> {
        self.expect(&Token::Lt)?;
        let element = self.data_type(depth + 1)?;
        self.close()?;
        Ok(element)
    }

    /// `ROW<name type ['comment'], ..>`, with round brackets as well, and `STRUCT<name: type [COMMENT 'comment'], ..>`.
    fn fields(&mut self, depth: usize) -> Result<Vec<DataField>> {
        let round = self.take(&Token::LParen);
        if !round {
            self.expect(&Token::Lt)?;
        }
        let mut fields: Vec<DataField> = Vec::new();
        loop {
            let Token::Word(Word { value, .. }) = self.peek() else { return Err(self.bad("a field name")) };
            let name = value.clone();
            self.at += 1;
            self.take(&Token::Colon);
            let mut field = DataField::new(fields.len() as i32, name, self.data_type(depth + 1)?);
            let commented = self.word("COMMENT");
            if let Token::SingleQuotedString(comment) = self.peek() {
                field.description = Some(comment.clone());
                self.at += 1;
            } else if commented {
                return Err(self.bad("a comment in quotes"));
            }
            fields.push(field);
            if !self.half_closed && self.take(&Token::Comma) {
                continue;
            }
            match round {
                true => self.expect(&Token::RParen)?,
                false => self.close()?,
            }
            return Ok(fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String> {
        let tokens = tokens::tokenize(text)?;
        let (data_type, used) = parse(&tokens)?;
        assert_eq!(used, tokens.len(), "{text}");
        Ok(data_type.to_string())
    }

    #[test]
    fn parse_when_types_are_nested_then_brackets_pair_up() {
        for (text, expected) in [
            ("INT", "INT"),
            ("string not null", "STRING NOT NULL"),
            ("ARRAY<ARRAY<INT>>", "ARRAY<ARRAY<INT>>"),
            (
                "MAP<STRING, ROW<`a` INT NOT NULL, b ARRAY<ROW<c BYTES>>>>",
                "MAP<STRING, ROW<`a` INT NOT NULL, `b` ARRAY<ROW<`c` BYTES>>>>",
            ),
            ("ROW(a INT 'first', b DECIMAL(5,2))", "ROW<`a` INT 'first', `b` DECIMAL(5, 2)>"),
            (
                "STRUCT<a: LONG NOT NULL COMMENT 'first', b STRUCT<c: TIMESTAMP_NTZ>>",
                "ROW<`a` BIGINT NOT NULL 'first', `b` ROW<`c` TIMESTAMP(6)>>",
            ),
            ("VECTOR<FLOAT, 3> NOT NULL", "VECTOR<FLOAT, 3> NOT NULL"),
            ("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3) WITH LOCAL TIME ZONE"),
            ("TIMESTAMP_LTZ(0)", "TIMESTAMP(0) WITH LOCAL TIME ZONE"),
            ("TIMESTAMP", "TIMESTAMP(6)"),
            ("TIME(3) WITHOUT TIME ZONE", "TIME(3)"),
            ("DECIMAL", "DECIMAL(10, 0)"),
            ("MULTISET<STRING>", "MULTISET<STRING>"),
            ("CHARACTER VARYING(5)", "VARCHAR(5)"),
            ("CHARACTER(5)", "CHAR(5)"),
            ("INT ARRAY", "ARRAY<INT>"),
            ("STRING NOT NULL MULTISET ARRAY NOT NULL", "ARRAY<MULTISET<STRING NOT NULL>> NOT NULL"),
        ] {
            assert_eq!(parsed(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn parse_when_text_is_wrong_then_error() {
        for text in [
            "ARRAY<INT",
            "ARRAY<INT>>",
            "ROW<>",
            "STRUCT<a: INT COMMENT>",
            "DECIMAL(39)",
            "CHAR(0)",
            "TIMESTAMP WITH TIME ZONE",
            "MAP<INT>",
            "nonsense",
        ] {
            let tokens = tokens::tokenize(text).unwrap();
            assert!(parse(&tokens).is_err(), "{text}");
        }
        let deep = format!("{}INT{}", "ARRAY<".repeat(200), ">".repeat(200));
        assert!(parse(&tokens::tokenize(&deep).unwrap()).is_err());
    }

    #[test]
    fn carried_when_type_is_a_carrier_then_the_same_type_comes_back() {
        let tokens = tokens::tokenize("ROW<`it's \"x\"` TIMESTAMP_LTZ(6), m MAP<INT, STRING NOT NULL>>").unwrap();
        let (data_type, _) = parse(&tokens).unwrap();
        assert_eq!(carried(&carrier_type(&data_type, "UTC")), Some(data_type));
    }
}
