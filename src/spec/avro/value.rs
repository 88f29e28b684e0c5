//! Avro values as trees, for files with few rows: manifest lists and index manifests.

use super::cursor::Cursor;
use super::schema::{Field, Node, NodeId, Schema, branch, deeper};
use crate::error::{Error, Result};

const MAX_DEPTH: usize = 64;

/// A value, in the types that metadata files use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// Null, or a value without bytes.
    Null,
    /// `int` and `long`.
    Long(i64),
    /// `bytes` and `string`.
    Bytes(&'a [u8]),
    /// An array.
    Array(Vec<Value<'a>>),
    /// A record.
    Record(Record<'a>),
    /// Of a type that no metadata file uses: passed over.
    Other,
}

/// A record: its fields are asked for by name. One that the file does not have is null (`spec/metadata.md 4.1`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record<'a> {
    fields: &'a [Field],
    values: Vec<Value<'a>>,
}

impl<'a> Value<'a> {
    /// Reads a value of type `id`.
    pub(crate) fn read(schema: &'a Schema, id: NodeId, cursor: &mut Cursor<'a>) -> Result<Self> {
        Self::read_at(schema, id, cursor, MAX_DEPTH)
    }

    fn read_at(schema: &'a Schema, id: NodeId, cursor: &mut Cursor<'a>, depth: usize) -> Result<Self> {
        if schema.is_empty(id) {
            return Ok(Self::Null);
        }
        let depth = deeper(depth)?;
        Ok(match schema.node(id) {
            Node::Null => Self::Null,
            Node::Long => Self::Long(cursor.long()?),
            Node::Bytes => Self::Bytes(cursor.bytes()?),
            Node::Array(item) => {
                let mut values = Vec::new();
                loop {
                    let count = cursor.items()?;
                    if count == 0 {
                        break;
                    }
                    for _ in 0..count {
                        values.push(Self::read_at(schema, *item, cursor, depth)?);
                    }
                }
                Self::Array(values)
            }
            Node::Union(branches) => Self::read_at(schema, branch(branches, cursor)?, cursor, depth)?,
            Node::Record(fields) => {
                let read = |field: &Field| Self::read_at(schema, field.node, cursor, depth);
                Self::Record(Record { fields, values: fields.iter().map(read).collect::<Result<_>>()? })
            }
            Node::Boolean | Node::Float | Node::Double | Node::Fixed(_) | Node::Enum | Node::Map(_) => {
                schema.skip(id, cursor)?;
                Self::Other
            }
        })
    }

    /// The record that this is.
    pub(crate) fn into_record(self) -> Result<Record<'a>> {
        match self {
            Self::Record(record) => Ok(record),
            other => Err(Error::corrupt(format!("{} where a record was expected", other.kind()))),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Long(_) => "a number",
            Self::Bytes(_) => "bytes",
            Self::Array(_) => "an array",
            Self::Record(_) => "a record",
            Self::Other => "a value of another type",
        }
    }
}

impl<'a> Record<'a> {
    fn get(&self, name: &str) -> &Value<'a> {
        let at = self.fields.iter().position(|field| field.name == name);
        at.and_then(|at| self.values.get(at)).unwrap_or(&Value::Null)
    }

    /// The fields and their values.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Value<'a>)> {
        self.fields.iter().map(|field| field.name.as_str()).zip(&self.values)
    }

    fn wrong(&self, name: &str) -> Error {
        Error::corrupt(format!("{} in the field {name}", self.get(name).kind()))
    }

    /// A number or null.
    pub(crate) fn opt_long(&self, name: &str) -> Result<Option<i64>> {
        match self.get(name) {
            Value::Null => Ok(None),
            Value::Long(value) => Ok(Some(*value)),
            _ => Err(self.wrong(name)),
        }
    }

    /// A number.
    pub(crate) fn long(&self, name: &str) -> Result<i64> {
        self.opt_long(name)?.ok_or_else(|| self.wrong(name))
    }

    /// A number that is not negative: a size or a count.
    pub(crate) fn count(&self, name: &str) -> Result<i64> {
        let value = self.long(name)?;
        if value < 0 { Err(Error::corrupt(format!("{value} in the field {name}"))) } else { Ok(value) }
    }

    /// A 32-bit number or null.
    pub(crate) fn opt_int(&self, name: &str) -> Result<Option<i32>> {
        let narrow = |value| i32::try_from(value).map_err(|_| Error::corrupt(format!("{value} in the field {name}")));
        self.opt_long(name)?.map(narrow).transpose()
    }

    /// A 32-bit number.
    pub(crate) fn int(&self, name: &str) -> Result<i32> {
        self.opt_int(name)?.ok_or_else(|| self.wrong(name))
    }

    /// Bytes or null.
    pub(crate) fn opt_bytes(&self, name: &str) -> Result<Option<&'a [u8]>> {
        match self.get(name) {
            Value::Null => Ok(None),
            Value::Bytes(bytes) => Ok(Some(bytes)),
            _ => Err(self.wrong(name)),
        }
    }

    /// Bytes.
    pub(crate) fn bytes(&self, name: &str) -> Result<&'a [u8]> {
        self.opt_bytes(name)?.ok_or_else(|| self.wrong(name))
    }

    /// Text or null.
    pub(crate) fn opt_text(&self, name: &str) -> Result<Option<String>> {
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(Error::corrupt(format!("no UTF-8 in the field {name}")).with_source(error)),
        };
        self.opt_bytes(name)?.map(text).transpose()
    }

    /// Text.
    pub(crate) fn text(&self, name: &str) -> Result<String> {
        self.opt_text(name)?.ok_or_else(|| self.wrong(name))
    }

    /// An array or null.
    pub(crate) fn opt_array(&self, name: &str) -> Result<Option<&[Value<'a>]>> {
        match self.get(name) {
            Value::Null => Ok(None),
            Value::Array(values) => Ok(Some(values)),
            _ => Err(self.wrong(name)),
        }
    }

    /// An array of numbers, each of which may be null; or null.
    pub(crate) fn opt_longs(&self, name: &str) -> Result<Option<Vec<Option<i64>>>> {
        let number = |value: &Value<'a>| match value {
            Value::Null => Ok(None),
            Value::Long(value) => Ok(Some(*value)),
            _ => Err(Error::corrupt(format!("{} in the array {name}", value.kind()))),
        };
        self.opt_array(name)?.map(|values| values.iter().map(number).collect()).transpose()
    }

    /// A record or null.
    pub(crate) fn opt_record(&self, name: &str) -> Result<Option<&Record<'a>>> {
        match self.get(name) {
            Value::Null => Ok(None),
            Value::Record(record) => Ok(Some(record)),
            _ => Err(self.wrong(name)),
        }
    }

    /// A record.
    pub(crate) fn record(&self, name: &str) -> Result<&Record<'a>> {
        self.opt_record(name)?.ok_or_else(|| self.wrong(name))
    }
}
