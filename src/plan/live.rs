//! What a snapshot consists of, file by file: for those who look at a table's files and not at its rows.

use std::sync::Arc;

use super::manifests::{DELETE, Planner, read_index_manifest, read_manifest_list};
pub use super::partition::PartitionPredicate;
use super::{PlannedFile, ScanRequest};
use crate::error::Result;
use crate::options::Level0;
use crate::spec::{
    AvroCodec, DataFile, DataFileMeta, IndexEntry, ManifestEncoder, ManifestEntries, ManifestEntry, ManifestMeta,
    Snapshot,
};
use crate::table::Table;

/// Which live files are wanted.
#[derive(Clone, Default)]
pub struct LiveRequest {
    /// Partitions; `None` for all.
    pub partitions: Option<PartitionPredicate>,
    /// Whether the files come with their deletion vectors.
    pub deletions: bool,
    /// Whether it is the files of the postpone bucket that are wanted, instead of all others.
    pub postponed: bool,
}

/// The live data files of `snapshot`, of every level. Those of the postpone bucket, which no read sees, are left out unless they
/// are asked for.
///
/// # Errors
/// Errors of the store and of the files' bytes name the file; errors of the request's predicate.
pub async fn live_files(table: &Arc<Table>, snapshot: &Snapshot, request: LiveRequest) -> Result<Vec<PlannedFile>> {
    let everything = ScanRequest::everything(table, Level0::Merge);
    let mut planner =
        Planner::try_new(table, &everything)?.every_level(request.partitions).postponed(request.postponed);
    let metas = Box::pin(planner.manifest_list(snapshot)).await?;
    let metas = planner.prune_manifests(metas)?;
    let decoded = planner.read_manifests(&metas).await?;
    let files = planner.live_files(&decoded, &metas)?;
    if request.deletions { planner.attach_deletions(snapshot, files).await } else { Ok(files) }
}

/// Files of one bucket that are in no manifest yet, as a plan has them.
///
/// # Errors
/// Corrupt when the partition is not one of the table.
pub fn unlisted(
    table: &Arc<Table>,
    partition: &Arc<[u8]>,
    bucket: i32,
    total_buckets: i32,
    files: &[DataFileMeta],
) -> Result<Vec<PlannedFile>> {
    let everything = ScanRequest::everything(table, Level0::Merge);
    let planner = Planner::try_new(table, &everything)?;
    let described = planner.describe(partition)?;
    let types = table.schema().partition_fields().iter().map(|field| field.data_type.clone()).collect();
    let mut encoder = ManifestEncoder::new(AvroCodec::parse("null", 0)?, types)?;
    for file in files {
        let (partition, file) = (Arc::clone(partition), Arc::new(file.clone()));
        encoder.push(&ManifestEntry { deleted: false, partition, bucket, total_buckets, file })?;
    }
    let entries = Arc::new(ManifestEntries::decode_bytes(encoder.finish()?.bytes)?);
    let planned = (0..entries.len()).map(|row| PlannedFile {
        file: DataFile { entries: Arc::clone(&entries), row: row as u32 },
        partition: Arc::clone(&described),
        deletion: None,
        scan: true,
        candidates: None,
    });
    Ok(planned.collect())
}

/// The manifests of `snapshot`: those of everything before it, of what it changed, and of its changelog.
///
/// # Errors
/// Errors of the store and of the files' bytes name the file.
pub async fn all_manifests(table: &Table, snapshot: &Snapshot) -> Result<Vec<ManifestMeta>> {
    let changelog = async {
        match &snapshot.changelog_manifest_list {
            Some(name) => read_manifest_list(table, name, snapshot.changelog_manifest_list_size).await,
            None => Ok(Arc::default()),
        }
    };
    let (base, delta, changelog) = futures::try_join!(
        Box::pin(read_manifest_list(table, &snapshot.base_manifest_list, snapshot.base_manifest_list_size)),
        Box::pin(read_manifest_list(table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size)),
        Box::pin(changelog)
    )?;
    Ok(base.iter().chain(delta.iter()).chain(changelog.iter()).cloned().collect())
}

/// The index files of `snapshot`.
///
/// # Errors
/// Errors of the store and of the file's bytes name the file.
pub async fn index_entries(table: &Table, snapshot: &Snapshot) -> Result<Arc<Vec<IndexEntry>>> {
    match &snapshot.index_manifest {
        Some(name) => read_index_manifest(table, name).await,
        None => Ok(Arc::default()),
    }
}

/// When the first of the files that `snapshot` added was made, in milliseconds of its writer's wall clock.
///
/// # Errors
/// Errors of the store and of the files' bytes name the file.
pub async fn first_creation(table: &Arc<Table>, snapshot: &Snapshot) -> Result<Option<i64>> {
    let metas = read_manifest_list(table, &snapshot.delta_manifest_list, snapshot.delta_manifest_list_size).await?;
    let everything = ScanRequest::everything(table, Level0::Merge);
    let decoded = Planner::try_new(table, &everything)?.read_manifests(&metas).await?;
    let made = decoded.iter().flat_map(|decoded| {
        let entries = decoded.entries();
        (0..entries.len()).filter(|row| entries.kind[*row] != DELETE).map(|row| entries.creation_time[row])
    });
    Ok(made.filter(|time| *time != i64::MIN).min())
}
