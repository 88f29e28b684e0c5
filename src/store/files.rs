//! The files of one table: where each kind lies (`spec/metadata.md 1.1`, `1.4`, `1.5`), and reading, listing and creating them.
//!
//! Names come from metadata and are taken literally; a name that would leave its folder is corrupt. Errors name the file and
//! tell a file that is gone from a store that failed.
//!
//! May import: `error`, `store::location`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use super::cache::FileKey;
use super::location::{StoreLocation, join};
use crate::error::{Error, ErrorKind, Result};

/// The branch that a table has from the start; its files lie in the table's folder itself.
pub const MAIN_BRANCH: &str = "main";

const SNAPSHOT: &str = "snapshot";
const CHANGELOG: &str = "changelog";
const SCHEMA: &str = "schema";
const TAG: &str = "tag";
const BRANCH: &str = "branch";
const CONSUMER: &str = "consumer";
const MANIFEST: &str = "manifest";
const INDEX: &str = "index";
const STATISTICS: &str = "statistics";

/// The options of a table that say where its data files lie. Both are fixed when the table is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataLayout {
    /// Option `data-file.path-directory`: folders between the table's and those of the partitions.
    pub path_directory: Option<String>,
    /// Option `index-file-in-data-file-dir`: index files lie in their bucket's folder.
    pub index_in_data_dir: bool,
}

impl DataLayout {
    /// The layout that a table's options say.
    ///
    /// # Errors
    /// Invalid when `index-file-in-data-file-dir` is no boolean.
    pub fn from_options(options: &BTreeMap<String, String>) -> Result<Self> {
        let path_directory = options
            .get("data-file.path-directory")
            .map(|path| path.trim().trim_matches('/'))
            .filter(|path| !path.is_empty())
            .map(str::to_owned);
        let index_in_data_dir = match options.get("index-file-in-data-file-dir").map(|text| text.trim()) {
            None => false,
            Some(text) if text.eq_ignore_ascii_case("true") => true,
            Some(text) if text.eq_ignore_ascii_case("false") => false,
            Some(text) => {
                return Err(Error::invalid(format!("index-file-in-data-file-dir is {text:?}, not true or false")));
            }
        };
        Ok(Self { path_directory, index_in_data_dir })
    }
}

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

/// The files of one table, and of one branch of it.
///
/// Branches share manifests, index files, statistics and data files with the main branch: those lie in the table's folder
/// whatever the branch (`spec/metadata.md 1.1`).
#[derive(Clone, Debug)]
pub struct TableFiles {
    root: StoreLocation,
    branch: Option<String>,
    /// Folder of the branch's schemas, snapshots, tags, consumers and changelogs.
    meta: Path,
    /// Folder of the partitions.
    data: Path,
    layout: DataLayout,
}

impl TableFiles {
    /// The files of the table in the folder `root`; `None` and `main` are the main branch.
    ///
    /// # Errors
    /// Invalid when the branch can't be the name of a folder.
    pub fn new(root: StoreLocation, branch: Option<&str>) -> Result<Self> {
        let branch = branch.filter(|branch| *branch != MAIN_BRANCH).map(str::to_owned);
        let meta = match &branch {
            Some(branch) => branch_folder(root.prefix(), branch)?,
            None => root.prefix().clone(),
        };
        let data = root.prefix().clone();
        Ok(Self { root, branch, meta, data, layout: DataLayout::default() })
    }

    /// The same files with the layout that the table's options say.
    ///
    /// # Errors
    /// Invalid when the layout's folder can't be one.
    pub fn with_layout(mut self, layout: DataLayout) -> Result<Self> {
        self.data = match &layout.path_directory {
            Some(folder) => {
                join(self.root.prefix(), folder).map_err(|error| error.with("option", "data-file.path-directory"))?
            }
            None => self.root.prefix().clone(),
        };
        self.layout = layout;
        Ok(self)
    }

    /// The files of another branch of the table.
    ///
    /// # Errors
    /// Invalid when the branch can't be the name of a folder.
    pub fn with_branch(&self, branch: Option<&str>) -> Result<Self> {
        Self::new(self.root.clone(), branch)?.with_layout(self.layout.clone())
    }

    /// The table's folder.
    pub fn root(&self) -> &StoreLocation {
        &self.root
    }

    /// The branch; `None` for the main one.
    pub fn branch(&self) -> Option<&str> {
        self.branch.as_deref()
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        self.root.store()
    }

    /// Folder of the snapshots of the branch.
    pub fn snapshot_dir(&self) -> Path {
        self.meta.clone().join(SNAPSHOT)
    }

    /// Snapshot file `id` of the branch.
    pub fn snapshot_path(&self, id: i64) -> Path {
        self.snapshot_dir().join(format!("snapshot-{id}"))
    }

    /// Folder of the long-lived changelogs of the branch.
    pub fn changelog_dir(&self) -> Path {
        self.meta.clone().join(CHANGELOG)
    }

    /// Folder of the schemas of the branch.
    pub fn schema_dir(&self) -> Path {
        self.meta.clone().join(SCHEMA)
    }

    /// Schema file `id` of the branch.
    pub fn schema_path(&self, id: i64) -> Path {
        self.schema_dir().join(format!("schema-{id}"))
    }

    /// Folder of the tags of the branch.
    pub fn tag_dir(&self) -> Path {
        self.meta.clone().join(TAG)
    }

    /// The file of tag `name` of the branch.
    ///
    /// # Errors
    /// Invalid when `name` can't be part of a file name.
    pub fn tag_path(&self, name: &str) -> Result<Path> {
        named(&self.tag_dir(), "tag", name)
    }

    /// Folder of the consumers of the branch.
    pub fn consumer_dir(&self) -> Path {
        self.meta.clone().join(CONSUMER)
    }

    /// The file of consumer `id` of the branch.
    ///
    /// # Errors
    /// Invalid when `id` can't be part of a file name.
    pub fn consumer_path(&self, id: &str) -> Result<Path> {
        named(&self.consumer_dir(), "consumer", id)
    }

    /// Folder of all branches of the table.
    pub fn branch_dir(&self) -> Path {
        self.root.prefix().clone().join(BRANCH)
    }

    /// Manifest, manifest list or index manifest `name`.
    ///
    /// # Errors
    /// Corrupt when `name` is no file name.
    pub fn manifest_path(&self, name: &str) -> Result<Path> {
        file_in(&self.root.prefix().clone().join(MANIFEST), name)
    }

    /// Statistics file `name`.
    ///
    /// # Errors
    /// Corrupt when `name` is no file name.
    pub fn statistics_path(&self, name: &str) -> Result<Path> {
        file_in(&self.root.prefix().clone().join(STATISTICS), name)
    }

    /// Folder of a bucket. `partition_path` is the escaped path of the partition (`spec/metadata.md 1.3`), empty without
    /// partitions; bucket -2 is the postpone bucket.
    ///
    /// # Errors
    /// Corrupt when the partition's path can't be a path.
    pub fn bucket_dir(&self, partition_path: &str, bucket: i32) -> Result<Path> {
        let folder = if bucket == -2 { "bucket-postpone".to_owned() } else { format!("bucket-{bucket}") };
        let partition_path = partition_path.trim_end_matches('/');
        if partition_path.is_empty() {
            return Ok(self.data.clone().join(folder));
        }
        join(&self.data, &format!("{partition_path}/{folder}"))
            .map_err(|error| Error::corrupt("a partition can't be a folder").with_source(error))
    }

    /// Data file `name` of a bucket, or where `external` (`_EXTERNAL_PATH`) says.
    ///
    /// # Errors
    /// Corrupt when the name is no file name, unsupported when the external path lies in another store.
    pub fn data_path(&self, partition_path: &str, bucket: i32, name: &str, external: Option<&str>) -> Result<Path> {
        match external {
            Some(location) => self.root.path_of(location),
            None => file_in(&self.bucket_dir(partition_path, bucket)?, name),
        }
    }

    /// A file that belongs to a data file (`_EXTRA_FILES`): it lies in the data file's folder.
    ///
    /// # Errors
    /// Corrupt when `name` is no file name.
    pub fn sibling_path(&self, data_file: &Path, name: &str) -> Result<Path> {
        file_in(&data_file.parent().unwrap_or(Path::ROOT), name)
    }

    /// Index file `name`: in the folder of all index files, or in the bucket's with option `index-file-in-data-file-dir`, or
    /// where `external` says.
    ///
    /// # Errors
    /// As [`Self::data_path`].
    pub fn index_path(&self, partition_path: &str, bucket: i32, name: &str, external: Option<&str>) -> Result<Path> {
        match external {
            Some(location) => self.root.path_of(location),
            None if self.layout.index_in_data_dir => file_in(&self.bucket_dir(partition_path, bucket)?, name),
            None => file_in(&self.root.prefix().clone().join(INDEX), name),
        }
    }

    /// The whole location of a file, for messages and for what is shown.
    pub fn location_of(&self, path: &Path) -> String {
        self.root.location_of(path)
    }

    /// What a cache knows an immutable file by.
    pub fn key(&self, path: &Path, size: u64) -> FileKey {
        FileKey::new(self.location_of(path), size)
    }

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
        list_folders(&self.root, folder).await
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

    fn error(&self, path: &Path, error: object_store::Error) -> Error {
        store_error(&self.root, path, error)
    }
}

/// The folder of branch `name` of the table in `root`.
pub(crate) fn branch_folder(root: &Path, name: &str) -> Result<Path> {
    named(&root.clone().join(BRANCH), "branch", name)
}

/// `folder/<what>-<name>` for a name that a user gives.
fn named(folder: &Path, what: &str, name: &str) -> Result<Path> {
    let bad = || Error::invalid(format!("{name:?} can't be the name of a {what}"));
    if name.trim().is_empty() || name.contains('/') {
        return Err(bad());
    }
    join(folder, &format!("{what}-{name}")).map_err(|error| bad().with_source(error))
}

/// `folder/name` for a name found in metadata.
fn file_in(folder: &Path, name: &str) -> Result<Path> {
    let bad = || Error::corrupt(format!("{name:?} is not the name of a file"));
    if name.contains('/') {
        return Err(bad());
    }
    join(folder, name).map_err(|error| bad().with_source(error))
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

/// The number in `<prefix><number>`; `None` for temporary and stray files (`spec/metadata.md 1.1`).
pub(crate) fn numbered(name: &str, prefix: &str) -> Option<i64> {
    let digits = name.strip_prefix(prefix)?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // `snapshot-007` is nobody's name for snapshot 7.
    if !plain || (digits.len() > 1 && digits.starts_with('0')) { None } else { digits.parse().ok() }
}

/// Runs `load` for every name, a few at a time, in order.
pub(crate) async fn load_all<N, T, F>(names: Vec<N>, load: impl Fn(N) -> F) -> Result<Vec<T>>
where
    F: Future<Output = Result<Option<T>>>,
{
    let loads = futures::stream::iter(names.into_iter().map(load)).buffered(16);
    loads.try_filter_map(|loaded| async move { Ok(loaded) }).try_collect().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::open_store;
    use crate::store::testing::{OverwritingStore, VanishingStore, memory};

    fn files(options: &[(&str, &str)], branch: Option<&str>) -> TableFiles {
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let root = open_store("memory://files/wh/db.db/t").unwrap();
        TableFiles::new(root, branch).unwrap().with_layout(DataLayout::from_options(&options).unwrap()).unwrap()
    }

    #[test]
    fn paths_when_main_then_all_in_the_folder_of_the_table() {
        for files in [files(&[], None), files(&[], Some("main"))] {
            assert_eq!(files.branch(), None);
            assert_eq!(files.snapshot_path(3).as_ref(), "wh/db.db/t/snapshot/snapshot-3");
            assert_eq!(files.schema_path(0).as_ref(), "wh/db.db/t/schema/schema-0");
            assert_eq!(files.manifest_path("manifest-a-0").unwrap().as_ref(), "wh/db.db/t/manifest/manifest-a-0");
            assert_eq!(files.statistics_path("stat-a-0").unwrap().as_ref(), "wh/db.db/t/statistics/stat-a-0");
            assert_eq!(files.tag_path("v 1%").unwrap().as_ref(), "wh/db.db/t/tag/tag-v 1%");
            assert_eq!(files.consumer_path("c").unwrap().as_ref(), "wh/db.db/t/consumer/consumer-c");
        }
    }

    #[test]
    fn paths_when_branch_then_only_its_documents_move() {
        let files = files(&[], Some("b"));
        assert_eq!(files.snapshot_path(3).as_ref(), "wh/db.db/t/branch/branch-b/snapshot/snapshot-3");
        assert_eq!(files.schema_path(0).as_ref(), "wh/db.db/t/branch/branch-b/schema/schema-0");
        assert_eq!(files.tag_path("x").unwrap().as_ref(), "wh/db.db/t/branch/branch-b/tag/tag-x");
        assert_eq!(files.consumer_path("x").unwrap().as_ref(), "wh/db.db/t/branch/branch-b/consumer/consumer-x");
        assert_eq!(files.changelog_dir().as_ref(), "wh/db.db/t/branch/branch-b/changelog");
        assert_eq!(files.manifest_path("m").unwrap().as_ref(), "wh/db.db/t/manifest/m");
        assert_eq!(files.index_path("", 0, "i", None).unwrap().as_ref(), "wh/db.db/t/index/i");
        assert_eq!(files.data_path("", 0, "d", None).unwrap().as_ref(), "wh/db.db/t/bucket-0/d");
    }

    #[test]
    fn data_path_when_partition_is_escaped_then_not_escaped_again() {
        let files = files(&[], None);
        assert_eq!(
            files.data_path("pt=2024-01-02T00%3A00/b=é {x}", 1, "f.orc", None).unwrap().as_ref(),
            "wh/db.db/t/pt=2024-01-02T00%3A00/b=é {x}/bucket-1/f.orc"
        );
        assert_eq!(
            files.data_path("pt=1/", -2, "f.orc", None).unwrap().as_ref(),
            "wh/db.db/t/pt=1/bucket-postpone/f.orc"
        );
    }

    #[test]
    fn data_path_when_options_or_external_path_say_so_then_elsewhere() {
        let files = files(&[("data-file.path-directory", "deep/data"), ("index-file-in-data-file-dir", "true")], None);
        assert_eq!(files.data_path("p=1", 0, "f", None).unwrap().as_ref(), "wh/db.db/t/deep/data/p=1/bucket-0/f");
        assert_eq!(files.index_path("p=1", 0, "i", None).unwrap().as_ref(), "wh/db.db/t/deep/data/p=1/bucket-0/i");
        assert_eq!(files.manifest_path("m").unwrap().as_ref(), "wh/db.db/t/manifest/m");
        let external = files.data_path("p=1", 0, "f", Some("memory://files/ext/p=a%2Fb/bucket-0/f")).unwrap();
        assert_eq!(external.as_ref(), "ext/p=a%2Fb/bucket-0/f");
        assert_eq!(files.sibling_path(&external, "f.index").unwrap().as_ref(), "ext/p=a%2Fb/bucket-0/f.index");
        let error = files.data_path("p=1", 0, "f", Some("s3://b/f")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn paths_when_name_would_leave_its_folder_then_refused() {
        let files = files(&[], None);
        for name in ["", "..", "../x", "a/b", "x\n"] {
            assert_eq!(files.manifest_path(name).unwrap_err().kind(), ErrorKind::Corrupt, "{name:?}");
            assert_eq!(files.data_path("", 0, name, None).unwrap_err().kind(), ErrorKind::Corrupt, "{name:?}");
        }
        for name in ["", " ", "../x", "a/b"] {
            assert_eq!(files.tag_path(name).unwrap_err().kind(), ErrorKind::Invalid, "{name:?}");
        }
        assert_eq!(files.data_path("p=1/../..", 0, "f", None).unwrap_err().kind(), ErrorKind::Corrupt);
        assert!(TableFiles::new(files.root().clone(), Some("../b")).is_err());
    }

    #[test]
    fn numbered_when_stray_file_then_no_number() {
        assert_eq!(numbered("snapshot-12", "snapshot-"), Some(12));
        for name in [
            "LATEST",
            "EARLIEST",
            "snapshot-",
            "snapshot-x",
            "snapshot--1",
            "snapshot-+1",
            "snapshot-01",
            "snapshot-1 ",
            ".snapshot-3.0b2c.tmp",
            "snapshot-10b2c8a60-5c2e-4b8e-9d1e-000000000000.tmp",
            "snapshot-99999999999999999999",
        ] {
            assert_eq!(numbered(name, "snapshot-"), None, "{name}");
        }
    }

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
