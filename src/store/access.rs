//! Access to the files of one table: reading, listing, and creating them if they are not there.
//!
//! Errors name the file and tell a file that is gone from a store that failed.
//!
//! May import: `error`, `store::{files, location}`.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use super::files::TableFiles;
use super::location::StoreLocation;
use crate::error::{Error, ErrorKind, Result};

/// What tells one state of a file from another that has the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    e_tag: Option<String>,
    modified: chrono::DateTime<chrono::Utc>,
    size: u64,
}

impl Stamp {
    fn of(meta: &ObjectMeta) -> Self {
        Self { e_tag: meta.e_tag.clone(), modified: meta.last_modified, size: meta.size }
    }
}

/// A file and its state, or that its state is still the one known.
#[derive(Debug)]
pub(crate) enum Fresh {
    Same,
    Changed(Bytes, Stamp),
}

impl TableFiles {
    /// The whole content of a file.
    ///
    /// # Errors
    /// Not found when the file does not exist, also when it vanished while it was read; Io when the store failed.
    pub async fn read(&self, path: &Path) -> Result<Bytes> {
        match self.read_unless(path, None).await? {
            Fresh::Changed(bytes, _) => Ok(bytes),
            Fresh::Same => Err(Error::internal("a store answered a plain read with 'not modified'")),
        }
    }

    /// The whole content of a file, unless its state is `known`.
    pub(crate) async fn read_unless(&self, path: &Path, known: Option<&Stamp>) -> Result<Fresh> {
        let options =
            GetOptions { if_none_match: known.and_then(|stamp| stamp.e_tag.clone()), ..GetOptions::default() };
        let answer = match self.store().get_opts(path, options).await {
            Ok(answer) => answer,
            Err(object_store::Error::NotModified { .. }) if known.is_some() => return Ok(Fresh::Same),
            Err(error) => return Err(self.failed_read(path, error).await),
        };
        let stamp = Stamp::of(&answer.meta);
        if known == Some(&stamp) {
            return Ok(Fresh::Same);
        }
        match answer.bytes().await {
            Ok(bytes) if bytes.len() as u64 == stamp.size => Ok(Fresh::Changed(bytes, stamp)),
            Ok(bytes) => {
                Err(Error::new(ErrorKind::Io, format!("the store gave {} of {} bytes", bytes.len(), stamp.size))
                    .with("file", self.location_of(path))
                    .retryable())
            }
            Err(error) => Err(self.failed_read(path, error).await),
        }
    }

    /// A file that is removed while it is read may show as a broken read: ask whether it is there before saying so.
    async fn failed_read(&self, path: &Path, error: object_store::Error) -> Error {
        let error = self.error(path, error);
        if error.kind() != ErrorKind::Io {
            return error;
        }
        match self.store().head(path).await {
            Err(now) if is_missing(&now) => Error::not_found("the file vanished while it was read")
                .with("file", self.location_of(path))
                .with_source(error),
            _ => error,
        }
    }

    /// Whether a file exists.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn exists(&self, path: &Path) -> Result<bool> {
        match self.store().head(path).await {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(self.error(path, error)),
        }
    }

    /// The files right in a folder; none when there is no such folder.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn list(&self, folder: &Path) -> Result<Vec<ObjectMeta>> {
        match self.store().list_with_delimiter(Some(folder)).await {
            Ok(listed) => Ok(listed.objects),
            Err(error) if is_missing(&error) => Ok(Vec::new()),
            Err(error) => Err(self.error(folder, error)),
        }
    }

    /// The names of the folders right in a folder.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn list_folders(&self, folder: &Path) -> Result<Vec<String>> {
        list_folders(self.root(), folder).await
    }

    /// All files below a folder.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn list_all(&self, folder: &Path) -> Result<Vec<ObjectMeta>> {
        match self.store().list(Some(folder)).try_collect().await {
            Ok(files) => Ok(files),
            Err(error) if is_missing(&error) => Ok(Vec::new()),
            Err(error) => Err(self.error(folder, error)),
        }
    }

    /// As many files below a folder, whichever come first.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn list_some(&self, folder: &Path, count: usize) -> Result<Vec<ObjectMeta>> {
        match self.store().list(Some(folder)).take(count).try_collect().await {
            Ok(files) => Ok(files),
            Err(error) if is_missing(&error) => Ok(Vec::new()),
            Err(error) => Err(self.error(folder, error)),
        }
    }

    /// Creates a file whole or not at all. False when it exists already, which may be because an earlier attempt of ours got
    /// through and its answer was lost: read it and compare.
    ///
    /// # Errors
    /// Io when the store failed, unsupported when it has no atomic create.
    pub async fn create(&self, path: &Path, bytes: impl Into<PutPayload>) -> Result<bool> {
        match self.store().put_opts(path, bytes.into(), PutMode::Create.into()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(self.error(path, error)),
        }
    }

    /// Writes a file, over one that may be there.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn overwrite(&self, path: &Path, bytes: impl Into<PutPayload>) -> Result<()> {
        self.store().put(path, bytes.into()).await.map_err(|error| self.error(path, error))?;
        Ok(())
    }

    /// Deletes a file. A file that is not there is as good as deleted.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn delete(&self, path: &Path) -> Result<()> {
        match self.store().delete(path).await {
            Ok(()) => Ok(()),
            Err(error) if is_missing(&error) => Ok(()),
            Err(error) => Err(self.error(path, error)),
        }
    }

    /// Deletes files, many in one request where the store can, and gives the number that are still there because the store
    /// failed. Files that are not there are as good as deleted.
    pub async fn delete_many(&self, paths: Vec<Path>) -> usize {
        let asked = paths.len();
        let mut answers = self.store().delete_stream(futures::stream::iter(paths.into_iter().map(Ok)).boxed());
        let mut gone = 0;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(_) => gone += 1,
                Err(error) if is_missing(&error) => gone += 1,
                Err(_) => {}
            }
        }
        asked.saturating_sub(gone)
    }

    /// An error of a list as one of ours; `None` when it says that something is not there.
    pub(crate) fn store_failure(&self, folder: &Path, error: object_store::Error) -> Option<Error> {
        (!is_missing(&error)).then(|| self.error(folder, error))
    }

    /// Removes a folder of a local disk if nothing is in it. Nothing happens in a store without folders, nor when it can't be
    /// removed: an empty folder is no harm.
    pub(crate) async fn remove_if_empty(&self, folder: &Path) -> bool {
        if self.root().url().scheme() != "file" || !folder.prefix_matches(self.root().prefix()) {
            return false;
        }
        let folder = std::path::PathBuf::from(format!("/{folder}"));
        // It removes no folder that something is in.
        tokio::task::spawn_blocking(move || std::fs::remove_dir(folder).is_ok()).await.unwrap_or(false)
    }

    fn error(&self, path: &Path, error: object_store::Error) -> Error {
        store_error(self.root(), path, error)
    }
}

/// The names of the folders right in `folder` of a store.
pub(crate) async fn list_folders(location: &StoreLocation, folder: &Path) -> Result<Vec<String>> {
    let listed = match location.store().list_with_delimiter(Some(folder)).await {
        Ok(listed) => listed,
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        Err(error) => return Err(store_error(location, folder, error)),
    };
    Ok(listed.common_prefixes.iter().filter_map(Path::filename).map(str::to_owned).collect())
}

/// Whether an error of a store means that nothing is there. A local file where a folder should be counts: nothing lies in it.
pub(crate) fn is_missing(error: &object_store::Error) -> bool {
    if matches!(error, object_store::Error::NotFound { .. }) {
        return true;
    }
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>()
            && io.kind() == std::io::ErrorKind::NotADirectory
        {
            return true;
        }
        source = inner.source();
    }
    false
}

/// An error of a store as one of ours, with the file.
pub(crate) fn store_error(location: &StoreLocation, path: &Path, error: object_store::Error) -> Error {
    use object_store::Error as Store;
    let error = if is_missing(&error) {
        Error::not_found("the file does not exist").with_source(error)
    } else {
        match error {
            Store::AlreadyExists { .. } => {
                Error::new(ErrorKind::AlreadyExists, "the file exists already").with_source(error)
            }
            Store::NotImplemented { .. } | Store::NotSupported { .. } => {
                Error::unsupported("the store can't do this").with_source(error)
            }
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
                Error::new(ErrorKind::Io, "the store refused access").with_source(error)
            }
            other => Error::new(ErrorKind::Io, "the store failed").with_source(other).retryable(),
        }
    };
    error.with("file", location.location_of(path))
}

/// Proves that a store keeps the promise that commits rest on: a file that exists is not created again. Some stores take the
/// condition and ignore it, and would let two writers overwrite each other. Writes and deletes one small file in `folder`.
///
/// # Errors
/// Unsupported when the store has no conditional create or ignores it, Io when the store failed.
pub async fn check_conditional_put(location: &StoreLocation, folder: &Path) -> Result<()> {
    let path = folder.clone().join(format!(".tidelake-create-{}", uuid::Uuid::new_v4()));
    let store = location.store();
    let create =
        |content: &'static [u8]| store.put_opts(&path, PutPayload::from_static(content), PutMode::Create.into());
    let failed = |error| store_error(location, &path, error);
    create(b"first").await.map_err(failed)?;
    let second = create(b"second").await;
    let content = match store.get(&path).await {
        Ok(answer) => answer.bytes().await,
        Err(error) => Err(error),
    };
    store.delete(&path).await.map_err(failed)?;
    let content = content.map_err(failed)?;
    match second {
        Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {}
        Err(error) => return Err(failed(error)),
        Ok(_) => return Err(ignores_condition(location)),
    }
    if content.as_ref() == b"first" { Ok(()) } else { Err(ignores_condition(location)) }
}

fn ignores_condition(location: &StoreLocation) -> Error {
    Error::unsupported(
        "the store overwrites a file that was to be created only if absent, so concurrent commits would lose rows; use a store \
         with conditional writes or a catalog that commits",
    )
    .with("location", location.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::location::join;
    use crate::store::open_store;
    use crate::store::testing::{OverwritingStore, VanishingStore, memory};

    #[tokio::test]
    async fn read_when_file_is_missing_then_not_found_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let local = open_store(folder.path().to_str().unwrap()).unwrap();
        std::fs::write(folder.path().join("file"), "x").unwrap();
        for root in [memory("wh"), local] {
            let files = TableFiles::new(root, None).unwrap();
            let error = files.read(&files.snapshot_path(1)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(error.to_string().contains("snapshot/snapshot-1"), "{error}");
            assert!(!files.exists(&files.snapshot_path(1)).await.unwrap());
            assert!(files.list(&files.snapshot_dir()).await.unwrap().is_empty());
            let below_a_file = join(files.root().prefix(), "file/x").unwrap();
            assert_eq!(files.read(&below_a_file).await.unwrap_err().kind(), ErrorKind::NotFound);
            assert!(files.list(&below_a_file).await.unwrap().is_empty());
        }
    }

    #[tokio::test]
    async fn read_when_file_vanishes_under_the_read_then_not_found_not_io() {
        let root = memory("wh");
        let path = Path::from("wh/manifest/m");
        TableFiles::new(root.clone(), None).unwrap().overwrite(&path, "x").await.unwrap();
        let root = VanishingStore::over(&root);
        let error = TableFiles::new(root, None).unwrap().read(&path).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }

    #[tokio::test]
    async fn escaped_folders_when_on_local_disk_then_named_as_the_format_says() {
        let folder = tempfile::tempdir().unwrap();
        let root = open_store(folder.path().to_str().unwrap()).unwrap();
        let files = TableFiles::new(root, None).unwrap();
        let path = files.data_path("pt=a%2Fb/q=é {x}%25", 0, "f.parquet", None).unwrap();
        assert!(files.create(&path, "x").await.unwrap());
        assert!(folder.path().join("pt=a%2Fb/q=é {x}%25/bucket-0/f.parquet").is_file());
        assert_eq!(files.list(&files.bucket_dir("pt=a%2Fb/q=é {x}%25", 0).unwrap()).await.unwrap()[0].location, path);
        assert_eq!(files.read(&path).await.unwrap().as_ref(), b"x");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn create_when_many_at_once_then_one_wins_and_the_file_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        for root in [memory("wh"), open_store(folder.path().to_str().unwrap()).unwrap()] {
            let files = TableFiles::new(root, None).unwrap();
            for round in 1..=8 {
                let path = files.snapshot_path(round);
                let attempts = (0..16u8).map(|writer| {
                    let (files, path) = (files.clone(), path.clone());
                    tokio::spawn(async move { (writer, files.create(&path, vec![writer; 100_000]).await.unwrap()) })
                });
                let winners: Vec<u8> = futures::future::join_all(attempts)
                    .await
                    .into_iter()
                    .map(Result::unwrap)
                    .filter_map(|(writer, won)| won.then_some(writer))
                    .collect();
                assert_eq!(winners.len(), 1);
                let bytes = files.read(&path).await.unwrap();
                assert_eq!(bytes.as_ref(), vec![winners[0]; 100_000]);
            }
            check_conditional_put(files.root(), &files.snapshot_dir()).await.unwrap();
            assert_eq!(files.list_all(&files.snapshot_dir()).await.unwrap().len(), 8);
        }
    }

    #[tokio::test]
    async fn check_conditional_put_when_store_overwrites_silently_then_unsupported() {
        let root = OverwritingStore::over(&memory("wh"));
        let error = check_conditional_put(&root, root.prefix()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(TableFiles::new(root.clone(), None).unwrap().list_all(root.prefix()).await.unwrap().is_empty());
    }
}
