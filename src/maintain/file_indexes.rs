//! File indexes for data files that were written before the table asked for them (`spec/data.md 10`).
//!
//! A data file is not written anew: its entry is replaced by one that names the index beside it (kind COMPACT).
//!
//! May import: `error`, `options`, `spec`, `store`, `format`, `table`, `plan`, `read`, `write`, `commit`.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::TryStreamExt;

use crate::commit::{Committable, TableCommit, outcome_is_unknown};
use crate::error::{Error, Result};
use crate::format::FileRead;
use crate::options::WriteOptions;
use crate::plan::PlannedFile;
use crate::plan::live::{LiveRequest, PartitionPredicate, live_files};
use crate::spec::file_index::{FILE_SUFFIX, FileIndexDefinition, FileIndexesWriter};
use crate::spec::{DataField, DataFileMeta};
use crate::table::Table;
use crate::write::{CommitMessage, OwnFiles};

/// Makes the file indexes that the table's options ask for, of all live files of some partitions; gives the number of files
/// that got one. Files whose columns were of another name or type when they were written get none.
///
/// # Errors
/// Invalid when the options ask for none; conflict when another commit took a file away; errors of reading and writing.
pub async fn rewrite_file_indexes(table: &Arc<Table>, partitions: Option<PartitionPredicate>) -> Result<usize> {
    let own = OwnFiles::new(Arc::clone(table.files()));
    let result = Box::pin(rewrite(table, partitions, &own)).await;
    if result.as_ref().is_err_and(|error| !outcome_is_unknown(error)) {
        own.remove().await;
    }
    result.map_err(|error| if error.context().iter().any(|(key, _)| *key == "table") { error } else { table.at(error) })
}

async fn rewrite(table: &Arc<Table>, partitions: Option<PartitionPredicate>, own: &Arc<OwnFiles>) -> Result<usize> {
    let definitions = FileIndexDefinition::all(&table.schema().fields, table.settings())?;
    if definitions.is_empty() {
        return Err(Error::invalid("no option file-index.<kind>.columns asks for an index"));
    }
    let options = WriteOptions::new(table.settings(), table.schema().has_primary_key())?;
    let Some(snapshot) = table.snapshots().latest().await? else { return Ok(0) };
    let request = LiveRequest { partitions, ..LiveRequest::default() };
    let mut messages: BTreeMap<(Vec<u8>, i32), CommitMessage> = BTreeMap::new();
    let mut count = 0;
    for file in Box::pin(live_files(table, &snapshot, request)).await? {
        let Some(meta) = Box::pin(indexed(table, &file, &definitions, &options, own)).await? else { continue };
        let key = (file.partition.row.to_vec(), file.file.bucket());
        let message = messages.entry(key.clone()).or_insert_with(|| CommitMessage {
            partition: key.0,
            bucket: key.1,
            total_buckets: Some(file.file.total_buckets()),
            ..CommitMessage::default()
        });
        message.compact_before.push(DataFileMeta::from(&file.file));
        message.compact_after.push(meta);
        count += 1;
    }
    if count > 0 {
        let commit = TableCommit::new(Arc::clone(table), TableCommit::new_user(table)?)?.owning(Arc::clone(own));
        Box::pin(commit.commit(Committable::batch(messages.into_values().collect()))).await?;
    }
    Ok(count)
}

/// What the metadata says of a file with its indexes; `None` when it gets none.
async fn indexed(
    table: &Arc<Table>,
    file: &PlannedFile,
    definitions: &[FileIndexDefinition],
    options: &WriteOptions,
    own: &Arc<OwnFiles>,
) -> Result<Option<DataFileMeta>> {
    let schema = table.schema_at(file.file.schema_id()).await?;
    let own_columns = file.file.write_cols();
    let is_there = |field: &DataField| {
        schema
            .fields
            .iter()
            .any(|old| old.id == field.id && old.name == field.name && old.data_type.kind == field.data_type.kind)
            && own_columns.is_none_or(|names| names.contains(&field.name))
    };
    let fields = &table.schema().fields;
    let mut wanted: Vec<DataField> = Vec::new();
    let mut here: Vec<FileIndexDefinition> = Vec::new();
    for definition in definitions {
        let Some(field) = fields.get(definition.column).filter(|field| is_there(field)) else { continue };
        let column = match wanted.iter().position(|known| known.id == field.id) {
            Some(column) => column,
            None => {
                wanted.push(field.clone());
                wanted.len() - 1
            }
        };
        here.push(FileIndexDefinition { column, ..definition.clone() });
    }
    if here.is_empty() {
        return Ok(None);
    }
    let mut writer = FileIndexesWriter::new(&here)?;
    let path = file.path(table.files())?;
    let read = FileRead::new(Arc::clone(table.files().store()), path.clone(), file.file.size(), wanted)?;
    let read =
        FileRead { file_fields: schema.fields.as_slice().into(), options: Arc::new(table.options().clone()), ..read };
    let mut batches = read.open().await?;
    while let Some(batch) = batches.try_next().await? {
        writer.add(batch.columns())?;
    }
    let container = writer.finish()?;
    let mut meta = DataFileMeta::from(&file.file);
    let was_index = |name: &String| name.ends_with(FILE_SUFFIX);
    meta.extra_files.retain(|name| !was_index(name));
    meta.embedded_index = None;
    if container.len() as u64 <= options.index_in_manifest_threshold {
        meta.embedded_index = Some(container);
    } else {
        // The name that a writer gives may be that of the index that is replaced.
        let name = format!("{}-{}{FILE_SUFFIX}", meta.file_name, uuid::Uuid::new_v4());
        let beside = table.files().sibling_path(&path, &name)?;
        own.add(beside.clone());
        if !table.files().create(&beside, container).await? {
            return Err(Error::internal("a new file index is there already").with("file", name));
        }
        meta.extra_files.push(name);
    }
    Ok(Some(meta))
}
