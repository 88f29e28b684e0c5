//! Which column of a file a column of the table is, and how its values are read (`spec/data.md 1.3`).
//!
//! ```text
//! wanted columns --field id--> fields of the file's schema --name--> columns in the file
//!                              missing: NULL      other type: cast      ROW: the same, field by field
//! ```
//!
//! May import: `error`, `spec`, `format::conform`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType as ArrowType, Field, Schema, SchemaRef};

use super::cast;
use crate::error::{Error, Result};
use crate::format::conform::{Place, conform, list_of, map_of, struct_of};
use crate::spec::{DataField, DataType, TypeKind};

/// How values of a field become values of the field with its id in another schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Conversion {
    /// They are the same.
    Same,
    /// A cast of `spec/metadata.md 2.6`.
    Cast,
    /// A ROW, field by field: where in the file's ROW each one is; `None` is NULL.
    Row(Vec<Option<(usize, Conversion)>>),
    /// The elements of an ARRAY.
    Element(Box<Conversion>),
    /// The values of a MAP; its keys are the same.
    Value(Box<Conversion>),
}

impl Conversion {
    /// # Errors
    /// Unsupported when `from` can't be read as `to`.
    pub(crate) fn new(from: &DataType, to: &DataType) -> Result<Self> {
        if same(from, to) || cast::is_free(from, to) {
            return Ok(Self::Same);
        }
        match (&from.kind, &to.kind) {
            (TypeKind::Row(found), TypeKind::Row(wanted)) => wanted
                .iter()
                .map(|field| {
                    found
                        .iter()
                        .position(|candidate| candidate.id == field.id)
                        .map(|at| {
                            Self::new(&found[at].data_type, &field.data_type)
                                .map(|conversion| (at, conversion))
                                .map_err(|error| error.with("field", field.name.clone()))
                        })
                        .transpose()
                })
                .collect::<Result<_>>()
                .map(Self::Row),
            (TypeKind::Array(found), TypeKind::Array(wanted)) => Ok(Self::Element(Box::new(Self::new(found, wanted)?))),
            (TypeKind::Vector(found, had), TypeKind::Vector(wanted, length)) if had == length => {
                Ok(Self::Element(Box::new(Self::new(found, wanted)?)))
            }
            (TypeKind::Map(found_key, found), TypeKind::Map(wanted_key, wanted))
                if Self::new(found_key, wanted_key)? == Self::Same =>
            {
                Ok(Self::Value(Box::new(Self::new(found, wanted)?)))
            }
            // NOT NULL is no matter of values, but of the arrow type.
            (TypeKind::Multiset(found), TypeKind::Multiset(wanted)) if Self::new(found, wanted)? == Self::Same => {
                Ok(Self::Same)
            }
            _ if cast::supported(from, to) => Ok(Self::Cast),
            _ => Err(Error::unsupported(format!("values of {from} can't be read as {to}"))),
        }
    }

    /// Converts an array in the representation of `from`.
    ///
    /// # Errors
    /// Invalid when a value can't be cast, corrupt for NULL where the table has NOT NULL inside a container.
    pub(crate) fn convert(&self, array: &ArrayRef, from: &DataType, to: &DataType, place: Place) -> Result<ArrayRef> {
        match (self, &from.kind, &to.kind) {
            (Self::Same, ..) => conform(array, to, place),
            (Self::Cast, ..) => cast::cast(array, from, to, place),
            (Self::Row(sources), TypeKind::Row(found), TypeKind::Row(wanted)) => {
                let ArrowType::Struct(fields) = place.arrow_type(to) else { return Err(broken(to)) };
                let row = array.as_struct();
                let mut columns = Vec::with_capacity(wanted.len());
                for (source, field) in sources.iter().zip(wanted) {
                    let column = match source {
                        None => new_null_array(&field.data_type.to_arrow_nested(), row.len()),
                        Some((at, conversion)) => {
                            let (column, source) =
                                row.columns().get(*at).zip(found.get(*at)).ok_or_else(|| broken(from))?;
                            conversion
                                .convert(column, &source.data_type, &field.data_type, Place::Nested)
                                .map_err(|error| error.with("field", field.name.clone()))?
                        }
                    };
                    columns.push(column);
                }
                Ok(Arc::new(struct_of(&fields, columns, row.nulls().cloned(), row.len())?))
            }
            (
                Self::Element(conversion),
                TypeKind::Array(found) | TypeKind::Vector(found, _),
                TypeKind::Array(wanted) | TypeKind::Vector(wanted, _),
            ) => {
                let ArrowType::List(field) = place.arrow_type(to) else { return Err(broken(to)) };
                let list = array.as_list::<i32>();
                let values = conversion.convert(list.values(), found, wanted, Place::Nested)?;
                Ok(Arc::new(list_of(&field, list, values)?))
            }
            (Self::Value(conversion), TypeKind::Map(_, found), TypeKind::Map(key, wanted)) => {
                let map = array.as_map();
                let keys = conform(map.keys(), key, Place::Nested)?;
                let values = conversion.convert(map.values(), found, wanted, Place::Nested)?;
                Ok(Arc::new(map_of(&place.arrow_type(to), map, keys, values)?))
            }
            _ => Err(broken(to)),
        }
    }

    /// Whether the engine's own cast of the flat types does the same and keeps the order of values.
    pub(crate) fn is_lossless(&self, from: &DataType, to: &DataType) -> bool {
        match self {
            Self::Same => !from.is_nested() && from.kind != TypeKind::Variant,
            Self::Cast => cast::is_lossless(from, to),
            _ => false,
        }
    }
}

fn broken(data_type: &DataType) -> Error {
    Error::internal(format!("a conversion does not fit {data_type}"))
}

/// Whether two types hold the same values in the same fields, whatever they say of NULL and in comments.
fn same(a: &DataType, b: &DataType) -> bool {
    match (&a.kind, &b.kind) {
        (TypeKind::Array(a), TypeKind::Array(b)) | (TypeKind::Multiset(a), TypeKind::Multiset(b)) => same(a, b),
        (TypeKind::Vector(a, had), TypeKind::Vector(b, length)) => had == length && same(a, b),
        (TypeKind::Map(a_key, a), TypeKind::Map(b_key, b)) => same(a_key, b_key) && same(a, b),
        (TypeKind::Row(a), TypeKind::Row(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.id == b.id && a.name == b.name && same(&a.data_type, &b.data_type))
        }
        (a, b) => a == b,
    }
}

/// Where a wanted column comes from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// The file's schema does not have it: NULL. The default of the schema is for writers (`spec/metadata.md 2.7`).
    Missing,
    /// A field of the file's schema, by position there.
    Column(usize, Conversion),
}

/// From the columns a read wants to those of one (file schema, written columns) pair.
#[derive(Clone, Debug)]
pub struct FileMapping {
    wanted: Vec<DataField>,
    file: Vec<DataField>,
    sources: Vec<Source>,
    by_name: BTreeMap<String, usize>,
    schema: SchemaRef,
}

impl FileMapping {
    /// Maps `wanted`, columns of the table's schema, to `file`, the fields of the schema the file was written with, restricted to
    /// the columns it holds (`_WRITE_COLS`). Fields are matched by id, inside ROWs too.
    ///
    /// # Errors
    /// Unsupported, with the column, when the type in the file can't be read as the wanted one.
    pub fn new(wanted: &[DataField], file: &[DataField]) -> Result<Self> {
        let mut sources = Vec::with_capacity(wanted.len());
        let mut fields = Vec::with_capacity(wanted.len());
        for field in wanted {
            let source = match file.iter().position(|candidate| candidate.id == field.id) {
                None => Source::Missing,
                Some(at) => Source::Column(
                    at,
                    Conversion::new(&file[at].data_type, &field.data_type)
                        .map_err(|error| error.with("column", field.name.clone()))?,
                ),
            };
            // What a file may hold decides, not what the schema says by now: a column can have become NOT NULL after old rows.
            let nullable = match &source {
                Source::Missing => true,
                Source::Column(at, _) => field.data_type.nullable || file[*at].data_type.nullable,
            };
            fields.push(Field::new(&field.name, field.data_type.to_arrow(), nullable));
            sources.push(source);
        }
        Ok(Self {
            by_name: wanted.iter().enumerate().map(|(at, field)| (field.name.clone(), at)).collect(),
            wanted: wanted.to_vec(),
            file: file.to_vec(),
            sources,
            schema: Arc::new(Schema::new(fields)),
        })
    }

    /// The wanted columns.
    pub fn wanted(&self) -> &[DataField] {
        &self.wanted
    }

    /// The fields of the file.
    pub fn file_fields(&self) -> &[DataField] {
        &self.file
    }

    /// The arrow schema of what [`Self::apply`] gives: the wanted columns, nullable where the file may hold NULL.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The fields of the file that [`Self::apply`] needs, each once, in the file's order: what to ask a reader for.
    pub fn physical_fields(&self) -> Vec<DataField> {
        let mut needed: Vec<usize> = self
            .sources
            .iter()
            .filter_map(|source| match source {
                Source::Missing => None,
                Source::Column(at, _) => Some(*at),
            })
            .collect();
        needed.sort_unstable();
        needed.dedup();
        needed.into_iter().map(|at| self.file[at].clone()).collect()
    }

    /// Whether every wanted column is in the file under its name and with its values.
    pub fn is_identity(&self) -> bool {
        self.sources.iter().zip(&self.wanted).all(|(source, field)| match source {
            Source::Missing => false,
            Source::Column(at, conversion) => *conversion == Conversion::Same && self.file[*at].name == field.name,
        })
    }

    /// The wanted column called `name` and where it comes from.
    pub(crate) fn source(&self, name: &str) -> Option<(&DataField, &Source)> {
        self.by_name.get(name).map(|at| (&self.wanted[*at], &self.sources[*at]))
    }

    /// The wanted columns from a batch of the file's columns, found in it by the names of the file's schema. A column that
    /// the file does not have although its schema does is NULL, as for a Java reader.
    ///
    /// # Errors
    /// Invalid, with the column and the value, when a value can't be cast; corrupt when a column holds something else than
    /// the file's schema says.
    pub fn apply(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.wanted.len());
        for (field, source) in self.wanted.iter().zip(&self.sources) {
            let in_column = |error: Error| error.with("column", field.name.clone());
            let found = match source {
                Source::Missing => None,
                Source::Column(at, conversion) => {
                    batch.column_by_name(&self.file[*at].name).map(|column| (column, &self.file[*at], conversion))
                }
            };
            let column = match found {
                None => new_null_array(&field.data_type.to_arrow(), batch.num_rows()),
                Some((column, source, conversion)) => {
                    let column = conform(column, &source.data_type, Place::Column).map_err(in_column)?;
                    conversion
                        .convert(&column, &source.data_type, &field.data_type, Place::Column)
                        .map_err(in_column)?
                }
            };
            columns.push(column);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::corrupt("a NOT NULL column of the file holds NULL").with_source(error))
    }
}
