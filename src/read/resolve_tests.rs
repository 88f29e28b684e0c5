//! Live rows against a simple model: random keys, versions, deletes, sequence ties and levels.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int8Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{Field, Schema};
use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use proptest::prelude::*;

use super::deletion::DeletedRows;
use super::resolve::{KeyReader, MergeRules, resolve};
use crate::error::Result;
use crate::plan::{Partition, PlannedFile, Section, SectionKind};
use crate::spec::manifest::{DataFile, ManifestEntries};
use crate::spec::{DataField, DataType, TypeKind};

/// A row of a data file.
#[derive(Clone, Debug)]
struct Row {
    key: i64,
    sequence: i64,
    kind: i8,
    /// `sequence.field`.
    field: Option<i32>,
}

/// File and row.
type At = (usize, usize);
/// How many versions are older, by ordinal and then by file, and where the version is.
type Version = ((u32, u32), At);

#[derive(Clone, Debug)]
struct File {
    rows: Vec<Row>,
    level: i32,
    deleted: Vec<bool>,
}

/// What a key looks like in the files.
#[derive(Clone, Copy, Debug)]
enum KeyType {
    BigInt,
    Text,
    /// TINYINT and BIGINT: 72 bits.
    Pair,
}

struct FakeReader {
    files: Vec<File>,
    key: KeyType,
}

fn text_key(key: i64) -> String {
    format!("{:05}", key + 20_000)
}

impl FakeReader {
    fn column(&self, rows: &[Row], name: &str) -> ArrayRef {
        match name {
            "k" => match self.key {
                KeyType::Text => Arc::new(rows.iter().map(|row| Some(text_key(row.key))).collect::<StringViewArray>()),
                _ => Arc::new(rows.iter().map(|row| Some(row.key)).collect::<Int64Array>()),
            },
            "t" => Arc::new(rows.iter().map(|row| Some((row.key >> 4) as i8)).collect::<Int8Array>()),
            "f" => Arc::new(rows.iter().map(|row| row.field).collect::<Int32Array>()),
            "_SEQUENCE_NUMBER" => Arc::new(rows.iter().map(|row| Some(row.sequence)).collect::<Int64Array>()),
            "_VALUE_KIND" => Arc::new(rows.iter().map(|row| Some(row.kind)).collect::<Int8Array>()),
            other => panic!("{other} is not a column"),
        }
    }
}

impl KeyReader for FakeReader {
    fn open(
        &self,
        file: &PlannedFile,
        wanted: &[DataField],
        batch_size: usize,
    ) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let index: usize = file.file.name().parse().unwrap();
        // Small batches, whatever was asked: windows must not depend on them.
        let size = (batch_size % 7).max(2);
        let schema = Arc::new(Schema::new(wanted.iter().map(DataField::to_arrow).collect::<Vec<Field>>()));
        let batches: Vec<Result<RecordBatch>> = self.files[index]
            .rows
            .chunks(size)
            .map(|rows| {
                let columns = wanted.iter().map(|field| self.column(rows, &field.name)).collect();
                Ok(RecordBatch::try_new(Arc::clone(&schema), columns).unwrap())
            })
            .collect();
        Ok(futures::stream::iter(batches).boxed())
    }

    fn deleted(&self, file: &PlannedFile) -> BoxFuture<'static, Result<Option<Arc<DeletedRows>>>> {
        let index: usize = file.file.name().parse().unwrap();
        let mut vector = DeletedRows::new(false);
        for (row, deleted) in self.files[index].deleted.iter().enumerate() {
            if *deleted {
                vector.insert(row as u64).unwrap();
            }
        }
        let vector = (!vector.is_empty()).then(|| Arc::new(vector));
        Box::pin(std::future::ready(Ok(vector)))
    }
}

fn field(id: i32, name: &str, kind: TypeKind) -> DataField {
    DataField::new(id, name, DataType::not_null(kind))
}

fn section(files: &[File], kind: SectionKind) -> Section {
    let mut entries = ManifestEntries::default();
    let empty: Arc<[u8]> = Arc::from([0u8; 12]);
    entries.partition.values.push(Arc::clone(&empty));
    entries.extra_files.values.push(Arc::from([]));
    entries.value_stats_cols.values.push(None);
    entries.write_cols.values.push(None);
    for (index, file) in files.iter().enumerate() {
        entries.kind.push(0);
        entries.partition.keys.push(0);
        entries.extra_files.keys.push(0);
        entries.value_stats_cols.keys.push(0);
        entries.write_cols.keys.push(0);
        entries.bucket.push(0);
        entries.total_buckets.push(1);
        assert!(entries.file_name.push(index.to_string().as_bytes()));
        entries.file_size.push(1);
        entries.row_count.push(file.rows.len() as i64);
        assert!(entries.min_key.push(&[]) && entries.max_key.push(&[]));
        entries.min_sequence_number.push(file.rows.iter().map(|row| row.sequence).min().unwrap());
        entries.max_sequence_number.push(file.rows.iter().map(|row| row.sequence).max().unwrap());
        entries.schema_id.push(0);
        entries.level.push(file.level);
        entries.creation_time.push(0);
        entries.delete_row_count.push(file.rows.iter().filter(|row| row.kind % 2 == 1).count() as i64);
        entries.file_source.push(0);
        entries.first_row_id.push(-1);
    }
    let entries = Arc::new(entries);
    let partition = Arc::new(Partition { row: empty, values: Vec::new(), path: String::new() });
    let files: Vec<PlannedFile> = (0..files.len())
        .map(|row| PlannedFile {
            file: DataFile { entries: Arc::clone(&entries), row: row as u32 },
            partition: Arc::clone(&partition),
            deletion: None,
            scan: true,
            candidates: None,
        })
        .collect();
    let runs = (0..files.len()).map(|index| vec![index]).collect();
    Section { kind, files, runs }
}

/// (file, row) of the rows a read must give, and for a fold of the versions of each contested key in merge order.
fn model(files: &[File], rules: &MergeRules, kind: SectionKind) -> (Vec<At>, Vec<Vec<At>>) {
    let mut versions: BTreeMap<i64, Vec<(usize, usize)>> = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        for (row, values) in file.rows.iter().enumerate() {
            let ignored = rules.ignore_retracts && values.kind % 2 == 1;
            if !file.deleted[row] && !ignored {
                versions.entry(values.key).or_default().push((index, row));
            }
        }
    }
    let at = |(file, row): (usize, usize)| &files[file].rows[row];
    let (mut live, mut folded) = (Vec::new(), Vec::new());
    for (_, mut rows) in versions {
        if rules.lookup_merge && kind == SectionKind::Fold {
            let lowest = rows.iter().map(|(file, _)| files[*file].level).filter(|level| *level > 0).min();
            rows.retain(|(file, _)| files[*file].level <= 0 || Some(files[*file].level) == lowest);
        }
        rows.sort_by(|a, b| {
            let (x, y) = (at(*a), at(*b));
            let fields = if rules.sequence_fields.is_empty() {
                std::cmp::Ordering::Equal
            } else if rules.sequence_descending {
                match (x.field, y.field) {
                    (Some(x), Some(y)) => y.cmp(&x),
                    (x, y) => x.is_some().cmp(&y.is_some()),
                }
            } else {
                x.field.cmp(&y.field)
            };
            fields.then(x.sequence.cmp(&y.sequence)).then((x.kind % 2 == 0).cmp(&(y.kind % 2 == 0)))
        });
        let winner = match kind {
            SectionKind::Newest => rows.last(),
            SectionKind::Oldest => rows.first(),
            SectionKind::Fold if rows.len() == 1 => rows.first(),
            SectionKind::Fold => {
                folded.push(rows);
                continue;
            }
        };
        if let Some(winner) = winner
            && at(*winner).kind % 2 == 0
        {
            live.push(*winner);
        }
    }
    live.sort_unstable();
    (live, folded)
}

fn files(overlapping_sequences: bool) -> impl Strategy<Value = Vec<File>> {
    let row = (0..60i64, 0..4i8, proptest::option::of(0..4i32), proptest::bool::weighted(0.1));
    let file = (proptest::collection::btree_map(0..60i64, row, 1..30), 0..4i32);
    proptest::collection::vec(file, 1..6).prop_map(move |files| {
        let mut next = 0;
        files
            .into_iter()
            .enumerate()
            .map(|(index, (rows, level))| {
                let mut numbers: Vec<i64> = (0..rows.len() as i64)
                    .map(|row| if overlapping_sequences { row * 10 + index as i64 } else { next + row })
                    .collect();
                next += rows.len() as i64;
                numbers.reverse();
                let deleted = rows.values().map(|row| row.3).collect();
                let rows = rows
                    .into_iter()
                    .zip(numbers)
                    .map(|((key, (_, kind, field, _)), sequence)| Row { key, sequence, kind, field })
                    .collect();
                // A level above 0 is one run: no two files of it share keys.
                File { rows, level: if level == 0 { 0 } else { index as i32 + 1 }, deleted }
            })
            .collect()
    })
}

fn check(files: &[File], key: KeyType, stretch: i64, kind: SectionKind, rules: &MergeRules) {
    let mut files = files.to_vec();
    for row in files.iter_mut().flat_map(|file| &mut file.rows) {
        // Far apart, keys are merged; close together, they are decided by bits.
        row.key = (row.key - 30) * stretch;
    }
    let (live, folded) = model(&files, rules, kind);
    let section = section(&files, kind);
    let reader = Arc::new(FakeReader { files: files.clone(), key });
    let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let resolved = runtime.block_on(resolve(&section, rules, reader, &pool)).unwrap();
    let mut found = Vec::new();
    for (index, file) in files.iter().enumerate() {
        for row in 0..file.rows.len() {
            let set = match resolved.of(index) {
                super::live_rows::FileRows::All => true,
                super::live_rows::FileRows::None => false,
                super::live_rows::FileRows::Some(mask) => mask.value(row),
            };
            if set {
                found.push((index, row));
            }
        }
    }
    assert_eq!(found, live, "live rows");
    let mut versions: Vec<Vec<Version>> = vec![Vec::new(); resolved.groups as usize];
    for (index, contested) in resolved.contested.iter().enumerate() {
        let Some(contested) = contested else { continue };
        for (at, row) in contested.mask.set_indices().enumerate() {
            let ordinal = contested.ordinals.as_ref().map_or(0, |ordinals| u32::from(ordinals[at]));
            versions[contested.groups[at] as usize].push(((ordinal, resolved.rank[index]), (index, row)));
        }
    }
    let found: Vec<Vec<(usize, usize)>> = versions
        .into_iter()
        .map(|mut versions| {
            versions.sort_unstable();
            versions.into_iter().map(|(_, row)| row).collect()
        })
        .collect();
    assert_eq!(found, folded, "versions to fold");
}

fn rules(key: KeyType, by_field: bool, descending: bool, ignore_retracts: bool, lookup_merge: bool) -> MergeRules {
    MergeRules {
        keys: match key {
            KeyType::BigInt => vec![field(0, "k", TypeKind::BigInt)],
            KeyType::Text => vec![field(0, "k", TypeKind::VarChar(20))],
            KeyType::Pair => vec![field(2, "t", TypeKind::TinyInt), field(0, "k", TypeKind::BigInt)],
        },
        sequence_fields: if by_field {
            vec![DataField::new(1, "f", DataType::nullable(TypeKind::Int))]
        } else {
            Vec::new()
        },
        sequence_descending: descending,
        snapshot_ordering: false,
        ignore_retracts,
        lookup_merge,
        keep_retracts: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn resolve_when_files_are_random_then_as_the_model(
        files in prop_oneof![files(false), files(true)],
        key in prop_oneof![Just(KeyType::BigInt), Just(KeyType::Text), Just(KeyType::Pair)],
        sparse in any::<bool>(),
        kind in prop_oneof![Just(SectionKind::Newest), Just(SectionKind::Oldest), Just(SectionKind::Fold)],
        by_field in any::<bool>(),
        descending in any::<bool>(),
        ignore_retracts in any::<bool>(),
        lookup_merge in any::<bool>(),
    ) {
        // The first part of the pair key is cut from the second: only keys that stay in order are keys of that kind.
        let stretch = match key {
            KeyType::Pair => 1,
            KeyType::Text => if sparse { 300 } else { 1 },
            KeyType::BigInt => if sparse { 100_000 } else { 1 },
        };
        let rules = rules(key, by_field && kind != SectionKind::Oldest, descending, ignore_retracts, lookup_merge);
        check(&files, key, stretch, kind, &rules);
    }
}
