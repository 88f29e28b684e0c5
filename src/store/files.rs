//! The files of one table: where each kind lies (`spec/metadata.md 1.1`, `1.4`, `1.5`).
//!
//! Names come from metadata and are taken literally; a name that would leave its folder is corrupt.
//!
//! May import: `error`, `spec`, `store::{cache, location}`.

use std::collections::BTreeMap;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path;

use super::cache::FileKey;
use super::location::{StoreLocation, join};
use crate::error::{Error, Result};
use crate::spec::DataFile;

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

    /// Folder of all manifests, manifest lists and index manifests, whatever the branch.
    pub fn manifest_dir(&self) -> Path {
        self.root.prefix().clone().join(MANIFEST)
    }

    /// Folder of the index files that do not lie in their bucket's, whatever the branch.
    pub fn index_dir(&self) -> Path {
        self.root.prefix().clone().join(INDEX)
    }

    /// Folder of the statistics, whatever the branch.
    pub fn statistics_dir(&self) -> Path {
        self.root.prefix().clone().join(STATISTICS)
    }

    /// Folder of the partitions, or of the buckets of a table without.
    pub fn data_dir(&self) -> &Path {
        &self.data
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

    /// [`Self::data_path`] of an entry of a manifest.
    ///
    /// # Errors
    /// As there.
    pub fn data_file_path(&self, file: &DataFile, partition_path: &str) -> Result<Path> {
        let external = file.external_path().map(|path| path.as_ref());
        self.data_path(partition_path, file.bucket(), file.name(), external)
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

/// The number in `<prefix><number>`; `None` for temporary and stray files (`spec/metadata.md 1.1`).
pub(crate) fn numbered(name: &str, prefix: &str) -> Option<i64> {
    let digits = name.strip_prefix(prefix)?;
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    // `snapshot-007` is nobody's name for snapshot 7.
    if !plain || (digits.len() > 1 && digits.starts_with('0')) { None } else { digits.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::store::open_store;

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
}
