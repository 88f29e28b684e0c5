//! Columns of a Parquet file that have the values of an earlier one: a key stands before the row and in it (`spec/data.md 1.1`).
//! They are encoded once, and their pages are written twice.
//!
//! May import: `error`.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use parquet::column::page_store::{InMemoryPageStore, PageKey, PageStore, PageStoreArgs, PageStoreFactory};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::ColumnDescPtr;

/// Pages of a column chunk in the order of the file.
type Pages = Arc<Mutex<Vec<Bytes>>>;

/// Keeps the pages of the columns that others are copies of.
#[derive(Debug)]
pub(super) struct KeptPages {
    /// For each leaf that is copied its pages.
    of: Vec<Option<Pages>>,
}

impl KeptPages {
    /// For as many leaves as there are; `copied` are those that are written again.
    pub fn new(leaves: usize, copied: impl IntoIterator<Item = usize>) -> Self {
        let mut of = vec![None; leaves];
        for leaf in copied {
            if let Some(pages) = of.get_mut(leaf) {
                *pages = Some(Pages::default());
            }
        }
        Self { of }
    }

    /// The pages of a leaf that was written to the file since it was last asked for.
    pub fn take(&self, leaf: usize) -> Option<Vec<Bytes>> {
        self.of.get(leaf)?.as_ref().map(|pages| std::mem::take(&mut *pages.lock()))
    }
}

impl PageStoreFactory for KeptPages {
    fn create(&self, column: &PageStoreArgs<'_>) -> Result<Box<dyn PageStore>> {
        let store = InMemoryPageStore::default();
        Ok(match self.of.get(column.column_index()).and_then(Option::as_ref) {
            Some(pages) => Box::new(KeepingStore { store, pages: Arc::clone(pages) }),
            None => Box::new(store),
        })
    }
}

struct KeepingStore {
    store: InMemoryPageStore,
    pages: Pages,
}

impl PageStore for KeepingStore {
    fn put(&mut self, value: Bytes) -> Result<PageKey> {
        self.store.put(value)
    }

    /// Blobs are taken in the order in which they are written to the file.
    fn take(&mut self, key: PageKey) -> Result<Bytes> {
        let blob = self.store.take(key)?;
        self.pages.lock().push(blob.clone());
        Ok(blob)
    }

    fn memory_size(&self) -> usize {
        self.store.memory_size()
    }
}

/// A chunk of a column that is written once more.
pub(super) struct CopiedChunk {
    pages: Vec<Bytes>,
    /// What was said of the column before it was written.
    close: ColumnCloseResult,
}

impl CopiedChunk {
    /// # Errors
    /// When the pages are not those that `close` tells of.
    pub fn new(pages: Vec<Bytes>, close: ColumnCloseResult) -> Result<Self> {
        let broken = |what: &str| ParquetError::General(format!("a column can't be written twice: {what}"));
        let length: usize = pages.iter().map(Bytes::len).sum();
        if i64::try_from(length).ok() != Some(close.metadata.compressed_size()) {
            return Err(broken("its pages are not as long as its chunk"));
        }
        let index = close.offset_index.as_ref().ok_or_else(|| broken("it has no offset index"))?;
        let of_data = index.page_locations.iter().map(|page| usize::try_from(page.compressed_page_size).unwrap_or(0));
        // What is no page of data is the dictionary, which comes first in the file.
        let dictionary =
            length.checked_sub(of_data.sum()).ok_or_else(|| broken("its pages are longer than its chunk"))?;
        Ok(Self { pages, close: close.update_dictionary_location(dictionary)? })
    }

    /// The chunk as that of another column of the same type, and what there is to say of it.
    ///
    /// # Errors
    /// When the metadata can't be.
    pub fn of_column(self, column: ColumnDescPtr) -> Result<(impl ChunkReader, ColumnCloseResult)> {
        let mut close = self.close;
        let of = &close.metadata;
        let mut metadata = ColumnChunkMetaData::builder(column)
            .set_compression_codec(of.compression_codec())
            .set_encodings_mask(*of.encodings_mask())
            .set_total_compressed_size(of.compressed_size())
            .set_total_uncompressed_size(of.uncompressed_size())
            .set_num_values(of.num_values())
            .set_data_page_offset(of.data_page_offset())
            .set_dictionary_page_offset(of.dictionary_page_offset())
            .set_unencoded_byte_array_data_bytes(of.unencoded_byte_array_data_bytes())
            .set_repetition_level_histogram(of.repetition_level_histogram().cloned())
            .set_definition_level_histogram(of.definition_level_histogram().cloned());
        if let Some(statistics) = of.statistics() {
            metadata = metadata.set_statistics(statistics.clone());
        }
        if let Some(encodings) = of.page_encoding_stats() {
            metadata = metadata.set_page_encoding_stats(encodings.clone());
        }
        close.metadata = metadata.build()?;
        Ok((Chunk(self.pages), close))
    }
}

/// The bytes of a chunk.
struct Chunk(Vec<Bytes>);

impl Length for Chunk {
    fn len(&self) -> u64 {
        self.0.iter().map(|page| page.len() as u64).sum()
    }
}

impl ChunkReader for Chunk {
    type T = PagesReader;

    fn get_read(&self, start: u64) -> Result<PagesReader> {
        if start != 0 {
            return Err(ParquetError::General("a chunk is copied from its beginning".to_owned()));
        }
        Ok(PagesReader(self.0.clone().into()))
    }

    fn get_bytes(&self, _: u64, _: usize) -> Result<Bytes> {
        Err(ParquetError::General("a chunk is copied as a whole".to_owned()))
    }
}

/// Reads pages one after the other.
struct PagesReader(VecDeque<Bytes>);

impl Read for PagesReader {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.0.front().is_some_and(Bytes::is_empty) {
            self.0.pop_front();
        }
        let Some(page) = self.0.front_mut() else { return Ok(0) };
        let length = page.len().min(into.len());
        page.copy_to_slice(&mut into[..length]);
        Ok(length)
    }
}
