//! Decoding of manifest files, in two phases or at once, on several threads when they are big.
//!
//! ```text
//! bytes -> blocks -> decompress -> phase 1: kind, partition, bucket of every entry, and where its file lies
//!                                  phase 2: the file of the entries that survived
//! ```

use std::ops::Range;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;

use super::program::{FileColumns, HeadColumns, Program};
use super::{Dictionary, ManifestEntries};
use crate::error::{Error, Result};
use crate::spec::avro::{Block, Container, Cursor, Decompressor, to_avro};

/// Blocks of fewer bytes altogether, as they lie in the file, are not worth another thread.
const BYTES_A_THREAD: usize = 512 << 10;

/// Entries of which fewer are not worth another thread in phase 2.
const ENTRIES_A_THREAD: usize = 10_000;

/// The part of the entries of a manifest that pruning by partition and bucket needs.
#[derive(Clone, Debug, Default)]
pub struct EntryHeads {
    /// 0 = ADD, 1 = DELETE.
    pub kind: Vec<u8>,
    /// Serialized BinaryRow of the partition values.
    pub partition: Dictionary<Arc<[u8]>>,
    /// Bucket; -2 for the postpone bucket.
    pub bucket: Vec<i32>,
    /// Buckets of the partition when the file was written; not positive when they are not fixed.
    pub total_buckets: Vec<i32>,
}

impl EntryHeads {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.kind.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kind.is_empty()
    }

    fn take(&self, rows: &[u32]) -> Self {
        Self {
            kind: rows.iter().map(|row| self.kind[*row as usize]).collect(),
            partition: self.partition.take(rows),
            bucket: rows.iter().map(|row| self.bucket[*row as usize]).collect(),
            total_buckets: rows.iter().map(|row| self.total_buckets[*row as usize]).collect(),
        }
    }
}

/// A manifest after phase 1: the heads of its entries, and their files still encoded.
#[derive(Debug)]
pub struct ManifestFile {
    program: Program,
    chunks: Vec<Chunk>,
    heads: EntryHeads,
}

/// Some successive blocks, decompressed.
#[derive(Debug)]
struct Chunk {
    plain: Vec<u8>,
    /// Where the file of each entry starts in `plain`.
    files: Vec<u32>,
}

impl ManifestFile {
    /// Phase 1: decompresses a manifest in any format of `manifest.format` and decodes the heads of its entries.
    ///
    /// # Errors
    /// Bytes that are no manifest, entries of another version or of an unknown kind.
    pub fn open(bytes: Bytes) -> Result<Self> {
        let bytes = to_avro(bytes)?;
        let container = Container::parse(&bytes)?;
        let program = Program::compile(container.schema)?;
        let parts = spread(split(&container.blocks), |blocks| {
            let mut heads = HeadColumns::with_capacity(rows_to_expect(blocks));
            let mut chunk = Chunk { plain: Vec::new(), files: Vec::with_capacity(rows_to_expect(blocks)) };
            let mut decompressor = Decompressor::new(container.codec);
            for block in blocks {
                let start = chunk.plain.len();
                decompressor.append(block.data, &mut chunk.plain)?;
                if u32::try_from(chunk.plain.len()).is_err() {
                    return Err(Error::unsupported("a manifest of more than 4 GB"));
                }
                each_entry(block, Cursor::at(&chunk.plain, start), |cursor| {
                    program.entry(cursor, &mut heads, |cursor| {
                        chunk.files.push(cursor.position() as u32);
                        program.skip_file(cursor)
                    })
                })?;
            }
            chunk.plain.shrink_to_fit();
            Ok((chunk, heads.heads))
        })?;
        let (mut chunks, mut heads) = (Vec::with_capacity(parts.len()), EntryHeads::default());
        for (index, (chunk, part)) in parts.into_iter().enumerate() {
            chunks.push(chunk);
            if index == 0 { heads = part } else { heads.append(part) }
        }
        Ok(Self { program, chunks, heads })
    }

    /// The heads of all entries, in the order of the file.
    pub fn heads(&self) -> &EntryHeads {
        &self.heads
    }

    /// Phase 2: the entries at the ascending positions `rows`, or all of them.
    ///
    /// # Errors
    /// Bytes that do not follow the format, file names that lead out of their folder, negative sizes.
    pub fn entries(&self, rows: Option<&[u32]>) -> Result<ManifestEntries> {
        let len = self.heads.len();
        let all: Vec<u32>;
        let rows = match rows {
            Some(rows) => rows,
            None => {
                all = (0..len as u32).collect();
                &all
            }
        };
        if !rows.is_sorted_by(|left, right| left < right) || rows.last().is_some_and(|last| *last as usize >= len) {
            return Err(Error::internal("rows of a manifest that do not ascend, or that it does not have"));
        }
        let mut tasks = Vec::new();
        let (mut first, mut left) = (0, rows);
        for chunk in &self.chunks {
            let end = first + chunk.files.len();
            let (here, behind) = left.split_at(left.partition_point(|row| (*row as usize) < end));
            if !here.is_empty() {
                tasks.push((chunk, first, here));
            }
            (first, left) = (end, behind);
        }
        let decode = |(chunk, first, rows): (&Chunk, usize, &[u32])| {
            let mut files = FileColumns::with_capacity(rows.len());
            for row in rows {
                let start = chunk.files[*row as usize - first] as usize;
                self.program.file(&mut Cursor::at(&chunk.plain, start), &mut files)?;
            }
            files.finish(self.heads.take(rows))
        };
        if rows.len() >= ENTRIES_A_THREAD {
            concat(spread(tasks, decode)?)
        } else {
            concat(tasks.into_iter().map(decode).collect::<Result<_>>()?)
        }
    }

    /// Bytes held in memory, roughly.
    pub fn memory(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| chunk.plain.capacity() + chunk.files.capacity() * 4);
        let partitions = self.heads.partition.values.iter().map(|value| value.len() + 32);
        chunks.sum::<usize>() + partitions.sum::<usize>() + self.heads.len() * 13
    }
}

impl ManifestEntries {
    /// Decodes a whole manifest in any format of `manifest.format`. When all entries are wanted this is faster than
    /// [`ManifestFile`], and it never holds more than a block of plain bytes a thread.
    ///
    /// # Errors
    /// As [`ManifestFile::open`] and [`ManifestFile::entries`].
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Self::decode_bytes(Bytes::copy_from_slice(bytes))
    }

    /// [`Self::decode`] without a copy of the bytes.
    pub fn decode_bytes(bytes: Bytes) -> Result<Self> {
        let bytes = to_avro(bytes)?;
        let container = Container::parse(&bytes)?;
        let program = Program::compile(container.schema)?;
        concat(spread(split(&container.blocks), |blocks| {
            let rows = rows_to_expect(blocks);
            let (mut heads, mut files) = (HeadColumns::with_capacity(rows), FileColumns::with_capacity(rows));
            let mut decompressor = Decompressor::new(container.codec);
            let mut plain = Vec::new();
            for block in blocks {
                plain.clear();
                decompressor.append(block.data, &mut plain)?;
                each_entry(block, Cursor::new(&plain), |cursor| {
                    program.entry(cursor, &mut heads, |cursor| program.file(cursor, &mut files))
                })?;
            }
            files.finish(heads.heads)
        })?)
    }
}

/// Calls `entry` for each entry of a block and checks that they are the whole block.
fn each_entry(
    block: &Block<'_>,
    mut cursor: Cursor<'_>,
    mut entry: impl FnMut(&mut Cursor<'_>) -> Result<()>,
) -> Result<()> {
    // An entry has bytes, so that a wrong number of them ends early.
    for _ in 0..block.rows {
        entry(&mut cursor)?;
    }
    if cursor.is_empty() {
        return Ok(());
    }
    Err(Error::corrupt(format!("a block with more than its {} entries", block.rows)))
}

/// Room for the entries of some blocks. They may lie about it, but an entry has some bytes even when it is compressed.
fn rows_to_expect(blocks: &[Block<'_>]) -> usize {
    let told = blocks.iter().fold(0usize, |rows, block| rows.saturating_add(block.rows));
    told.min(bytes_of(blocks) / 2)
}

fn bytes_of(blocks: &[Block<'_>]) -> usize {
    blocks.iter().map(|block| block.data.len()).sum()
}

/// Cuts blocks into runs of about as many bytes, one a thread; small manifests stay in one.
fn split<'b, 'a>(blocks: &'b [Block<'a>]) -> Vec<&'b [Block<'a>]> {
    let bytes = bytes_of(blocks);
    let threads = (bytes / BYTES_A_THREAD).min(thread::available_parallelism().map_or(1, |threads| threads.get()));
    let (mut runs, mut run, mut before) = (Vec::new(), Range { start: 0, end: 0 }, 0);
    for block in blocks {
        run.end += 1;
        before += block.data.len();
        if before * threads.max(1) >= bytes * (runs.len() + 1) || run.end == blocks.len() {
            runs.push(&blocks[run.clone()]);
            run.start = run.end;
        }
    }
    runs.retain(|run| !run.is_empty());
    runs
}

/// Runs tasks at the same time, one a thread, and gives their results in order.
fn spread<T: Send, R: Send>(tasks: Vec<T>, run: impl Fn(T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let mut tasks = tasks.into_iter();
    let Some(first) = tasks.next() else { return Ok(Vec::new()) };
    let run = &run;
    thread::scope(|scope| {
        let others: Vec<_> = tasks.map(|task| scope.spawn(move || run(task))).collect();
        let mut results = vec![run(first)?];
        for other in others {
            results.push(other.join().map_err(|_| Error::internal("decoding a manifest panicked"))??);
        }
        Ok(results)
    })
}

fn concat(parts: Vec<ManifestEntries>) -> Result<ManifestEntries> {
    let mut parts = parts.into_iter();
    let mut all = parts.next().unwrap_or_default();
    for part in parts {
        all.append(part)?;
    }
    Ok(all)
}
