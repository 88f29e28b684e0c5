//! Which indexes a table's options ask for, and all indexes of a data file while it is written.
//!
//! ```text
//! file-index.<kind>.columns = a, m[key]      -> definitions: a column or a key of a map column, a kind, its options
//! file-index.<kind>.<column>.<option>           -> writer: rows -> container
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapArray, UInt32Builder};
use arrow::compute::take;
use arrow::datatypes::DataType as ArrowType;

use super::IndexKind;
use super::write::{ColumnPayloads, FileIndexWriter, IndexOptions, write_container};
use crate::error::{Error, Result};
use crate::options::{MemorySize, TableOptions};
use crate::spec::types::{DataField, DataType, TypeKind};

/// An index of the data files of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct FileIndexDefinition {
    /// Position of the column among those of the table.
    pub column: usize,
    /// The key of the map, where the index is of its value.
    pub map_key: Option<String>,
    /// The name in the container: that of the column, or `column[key]`.
    pub name: String,
    /// The kind.
    pub kind: IndexKind,
    /// The type of the values.
    pub data_type: DataType,
    /// How it is made.
    pub options: IndexOptions,
}

impl FileIndexDefinition {
    /// The indexes that the options ask for of data files with these columns, column after column.
    ///
    /// # Errors
    /// Invalid, with the option: a column that is not there, a key of what is no map with text keys, a type that the kind
    /// has no values of, the same index twice, values of options that make no index.
    pub fn all(columns: &[DataField], options: &TableOptions) -> Result<Vec<Self>> {
        let mut all: Vec<Self> = Vec::new();
        for kind in IndexKind::ALL {
            let option = format!("file-index.{}.columns", kind.name());
            for name in options.value::<Vec<String>>(&option)?.unwrap_or_default() {
                let definition =
                    Self::new(columns, options, kind, name).map_err(|error| error.with("option", option.clone()))?;
                if all.iter().any(|other| other.kind == kind && other.name == definition.name) {
                    return Err(Error::invalid(format!("option {option} names {} twice", definition.name)));
                }
                all.push(definition);
            }
        }
        all.sort_by_key(|definition| definition.column);
        Ok(all)
    }

    fn new(columns: &[DataField], options: &TableOptions, kind: IndexKind, name: String) -> Result<Self> {
        let position = |name: &str| columns.iter().position(|column| column.name == name);
        let missing = || Error::invalid(format!("there is no column {name} to index"));
        if let Some(column) = position(&name) {
            let data_type = columns[column].data_type.clone();
            let options = index_options(options, kind, &name, None)?;
            return Self { column, map_key: None, name, kind, data_type, options }.checked();
        }
        let (of, key) = name.strip_suffix(']').and_then(|name| name.split_once('[')).ok_or_else(missing)?;
        let column = position(of).ok_or_else(missing)?;
        let TypeKind::Map(key_type, value_type) = &columns[column].data_type.kind else {
            return Err(Error::invalid(format!("{of} is no map: there is no key {key} in it to index")));
        };
        if !matches!(key_type.kind, TypeKind::Char(_) | TypeKind::VarChar(_)) {
            return Err(Error::invalid(format!("only maps with text keys can be indexed by key, {of} has {key_type}")));
        }
        let options = index_options(options, kind, &name, Some(of))?;
        let (map_key, data_type) = (Some(key.to_owned()), (**value_type).clone());
        Self { column, map_key, name, kind, data_type, options }.checked()
    }

    /// Made once on trial, so that what can't be made is told before rows come.
    fn checked(self) -> Result<Self> {
        match FileIndexWriter::new(self.kind, &self.data_type, &self.options) {
            Ok(_) => Ok(self),
            Err(error) => Err(error.with("column", self.name)),
        }
    }
}

/// `file-index.<kind>.<name>.*`, for a key of a map those of the whole map where the key has none of its own.
fn index_options(options: &TableOptions, kind: IndexKind, name: &str, map: Option<&str>) -> Result<IndexOptions> {
    let key = |option: &str| {
        let key = |name: &str| format!("file-index.{}.{name}.{option}", kind.name());
        map.map(key).filter(|of_map| options.is_set(of_map) && !options.is_set(&key(name))).unwrap_or_else(|| key(name))
    };
    let mut made = IndexOptions::default();
    match kind {
        IndexKind::BloomFilter => {
            made.items = options.value(&key("items"))?.unwrap_or(made.items);
            made.fpp = options.value(&key("fpp"))?.unwrap_or(made.fpp);
        }
        IndexKind::Bitmap => {
            made.version = options.value(&key("version"))?.unwrap_or(made.version);
            let size: Option<MemorySize> = options.value(&key("index-block-size"))?;
            made.block_size = size.map_or(made.block_size, |size| size.0);
        }
        IndexKind::BitSliced => {}
        IndexKind::RangeBitmap => {
            // The default depends on the type.
            let key = key("chunk-size");
            let size: Option<MemorySize> = if options.is_set(&key) { options.value(&key)? } else { None };
            made.chunk_size = size.map(|size| size.0);
        }
    }
    Ok(made)
}

/// All indexes of a data file while rows are added to it.
pub struct FileIndexesWriter {
    /// With the indexes of one column, or one key of it, side by side.
    indexes: Vec<(FileIndexDefinition, FileIndexWriter)>,
    has_rows: bool,
}

impl FileIndexesWriter {
    /// The indexes of a data file without rows.
    ///
    /// # Errors
    /// Those of [`FileIndexWriter::new`].
    pub fn new(definitions: &[FileIndexDefinition]) -> Result<Self> {
        let mut sorted: Vec<&FileIndexDefinition> = definitions.iter().collect();
        sorted.sort_by(|a, b| (a.column, &a.name).cmp(&(b.column, &b.name)));
        let writer = |definition: &FileIndexDefinition| {
            let writer = FileIndexWriter::new(definition.kind, &definition.data_type, &definition.options)?;
            Ok((definition.clone(), writer))
        };
        Ok(Self { indexes: sorted.into_iter().map(writer).collect::<Result<_>>()?, has_rows: false })
    }

    /// Adds rows: `columns` are those that the definitions were made for, in their order.
    ///
    /// # Errors
    /// Invalid for a value that an index can't hold, with the column.
    pub fn add(&mut self, columns: &[ArrayRef]) -> Result<()> {
        for (definition, writer) in &mut self.indexes {
            let column =
                columns.get(definition.column).ok_or_else(|| Error::internal("a column to index is missing"))?;
            let added = match &definition.map_key {
                Some(key) => writer.add(&values_of_key(column, key)?),
                None => writer.add(column),
            };
            added
                .map_err(|error| error.with("index", definition.kind.name()).with("column", definition.name.clone()))?;
            self.has_rows |= !column.is_empty();
        }
        Ok(())
    }

    /// Bytes held in memory, roughly.
    pub fn memory(&self) -> usize {
        self.indexes.iter().map(|(_, writer)| writer.memory()).sum()
    }

    /// The container of the indexes: to be embedded in the manifest entry, or written beside the data file.
    ///
    /// # Errors
    /// Unsupported when it passes 2 GB.
    pub fn finish(self) -> Result<Vec<u8>> {
        let mut columns: Vec<ColumnPayloads<'static>> = Vec::new();
        for (definition, writer) in self.indexes {
            let payload = if self.has_rows { Some(writer.finish()?) } else { None };
            match columns.last_mut().filter(|last| last.name == definition.name) {
                Some(last) => last.indexes.push((definition.kind, payload)),
                None => columns.push(ColumnPayloads {
                    name: Cow::Owned(definition.name),
                    indexes: vec![(definition.kind, payload)],
                }),
            }
        }
        write_container(&columns)
    }
}

/// The value of a key in each map; NULL where the map is NULL or has no such key.
fn values_of_key(column: &ArrayRef, key: &str) -> Result<ArrayRef> {
    let Some(maps) = column.as_any().downcast_ref::<MapArray>() else {
        return Err(Error::internal(format!("an index of a key over values of {}", column.data_type())));
    };
    let keys = maps.keys();
    let is_key: Box<dyn Fn(usize) -> bool> = match keys.data_type() {
        ArrowType::Utf8 => {
            let keys = keys.as_string::<i32>();
            Box::new(move |at| keys.value(at) == key)
        }
        ArrowType::LargeUtf8 => {
            let keys = keys.as_string::<i64>();
            Box::new(move |at| keys.value(at) == key)
        }
        ArrowType::Utf8View => {
            let keys = keys.as_string_view();
            Box::new(move |at| keys.value(at) == key)
        }
        other => return Err(Error::internal(format!("an index of a key over maps with keys of {other}"))),
    };
    let mut places = UInt32Builder::with_capacity(maps.len());
    for row in 0..maps.len() {
        let entries = if maps.is_null(row) {
            0..0
        } else {
            maps.value_offsets()[row] as usize..maps.value_offsets()[row + 1] as usize
        };
        places.append_option(entries.into_iter().find(|at| is_key(*at)).map(|at| at as u32));
    }
    Ok(take(&Arc::clone(maps.values()), &places.finish(), None)?)
}

#[cfg(test)]
mod tests;
