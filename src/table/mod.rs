//! An open table: its name, where its files lie, its schema and options, and its history.
//!
//! Opening reads the latest schema and nothing else. A table is not tied to a snapshot: a query asks for one once
//! ([`Table::snapshot`]) and plans from it. A [`TableDescriptor`] carries a table between processes.
//!
//! May import: `error`, `options`, `spec`, `store`.

pub(crate) mod aggregate;
mod alter;
mod auto_tags;
pub mod change;
mod create_statement;
mod definition;
mod descriptor;
pub(crate) mod field_ids;
pub mod identifier;
pub(crate) mod merge_rules;
pub mod read_from;
pub mod travel;
pub(crate) mod validate;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

pub use alter::alter;
pub(crate) use auto_tags::{Periods, is_automatic_tag};
pub use change::{ColumnPosition, NewTable, SchemaChange};
pub use create_statement::create_statement;
pub use descriptor::TableDescriptor;
pub use identifier::{Identifier, ObjectName, VersionSpec};
pub use read_from::{ChangeFiles, Changes, ReadFrom};
pub use travel::timestamp_millis;

use crate::error::{Error, Result};
use crate::options::{TableOptions, check_dynamic, check_readable};
use crate::spec::{Snapshot, TableSchema};
use crate::store::{Branches, Caches, Consumers, DataLayout, Schemas, Snapshots, StoreLocation, TableFiles, Tags};

/// A table, or a branch of one, with one schema. Errors that leave it name the table.
pub struct Table {
    identifier: Identifier,
    files: Arc<TableFiles>,
    caches: Arc<Caches>,
    schema: Arc<TableSchema>,
    /// What is laid over the schema's options.
    dynamic: BTreeMap<String, String>,
    options: BTreeMap<String, String>,
    /// The same, typed.
    settings: TableOptions,
    /// Schemas of data files that were asked for: they are asked for again and again, and a query must not see one change.
    seen: Mutex<HashMap<i64, Arc<TableSchema>>>,
}

impl Table {
    /// Opens the table in the folder `location`, with the latest schema of the identifier's branch. `dynamic` options win over
    /// the schema's.
    ///
    /// # Errors
    /// Not found when there is no table or branch, corrupt when its schema is broken, Io when the store failed.
    pub async fn open(
        location: StoreLocation,
        identifier: Identifier,
        caches: Arc<Caches>,
        dynamic: BTreeMap<String, String>,
    ) -> Result<Arc<Self>> {
        let at = |error: Error| error.with("table", identifier.to_string());
        let files = Arc::new(TableFiles::new(location, identifier.branch.as_deref()).map_err(at)?);
        let schemas = Schemas::new(Arc::clone(&files), Arc::clone(&caches));
        let Some(schema) = schemas.latest().await.map_err(at)? else {
            return Err(at(no_table(&files, &caches).await));
        };
        Self::with_parts(identifier, files, caches, schema, dynamic)
    }

    /// The table with a schema that is known. Does no I/O.
    fn with_parts(
        identifier: Identifier,
        files: Arc<TableFiles>,
        caches: Arc<Caches>,
        schema: Arc<TableSchema>,
        dynamic: BTreeMap<String, String>,
    ) -> Result<Arc<Self>> {
        let at = |error: Error| error.with("table", identifier.to_string());
        let stored = stored_options(&schema, files.branch());
        check_readable(&stored).map_err(at)?;
        check_dynamic(&stored, &dynamic).map_err(at)?;
        let settings = TableOptions::new(&schema.options, &dynamic).map_err(at)?;
        // Files lie where the table was created to have them, whatever a session says.
        let layout = DataLayout::from_options(&schema.options).map_err(at)?;
        let files = Arc::new(Arc::unwrap_or_clone(files).with_layout(layout).map_err(at)?);
        let mut options = schema.options.clone();
        options.extend(dynamic.iter().map(|(key, value)| (key.clone(), value.clone())));
        // A stored path is where the table once was (`spec/metadata.md 2.1`).
        options.insert("path".to_owned(), files.root().as_str().to_owned());
        let seen = Mutex::new(HashMap::from([(schema.id, Arc::clone(&schema))]));
        Ok(Arc::new(Self { identifier, files, caches, schema, dynamic, options, settings, seen }))
    }

    /// The same table with the schema that `snapshot` was committed under: what a version clause shows
    /// (`spec/observed.md`, Reading).
    ///
    /// # Errors
    /// Not found when that schema is gone, else as [`Self::schema_at`].
    pub async fn with_schema_of(&self, snapshot: &Snapshot) -> Result<Arc<Self>> {
        let schema = self.schema_at(snapshot.schema_id).await?;
        let (files, caches) = (Arc::clone(&self.files), Arc::clone(&self.caches));
        Self::with_parts(self.identifier.clone(), files, caches, schema, self.dynamic.clone())
    }

    /// The same table with a schema that comes after its own.
    ///
    /// # Errors
    /// Unsupported or invalid when this version can't follow the schema's options.
    pub(crate) fn with_schema(&self, schema: Arc<TableSchema>) -> Result<Arc<Self>> {
        let (files, caches) = (Arc::clone(&self.files), Arc::clone(&self.caches));
        Self::with_parts(self.identifier.clone(), files, caches, schema, self.dynamic.clone())
    }

    /// The same table with these options laid over the schema's, in place of those that were.
    ///
    /// # Errors
    /// Invalid for options that can't be dynamic or exclude each other.
    pub(crate) fn with_dynamic_options(&self, dynamic: BTreeMap<String, String>) -> Result<Arc<Self>> {
        let (files, caches) = (Arc::clone(&self.files), Arc::clone(&self.caches));
        Self::with_parts(self.identifier.clone(), files, caches, Arc::clone(&self.schema), dynamic)
    }

    /// The name.
    pub fn identifier(&self) -> &Identifier {
        &self.identifier
    }

    /// The files.
    pub fn files(&self) -> &Arc<TableFiles> {
        &self.files
    }

    /// The caches that the table shares.
    pub fn caches(&self) -> &Arc<Caches> {
        &self.caches
    }

    /// The schema the table was opened with.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The options as text: the schema's, with the dynamic ones over them.
    pub fn options(&self) -> &BTreeMap<String, String> {
        &self.options
    }

    /// The options that planning and reading use, typed.
    pub fn settings(&self) -> &TableOptions {
        &self.settings
    }

    /// The options of the schema, with the branch among them: what dynamic options are checked against.
    pub fn stored_options(&self) -> BTreeMap<String, String> {
        stored_options(&self.schema, self.files.branch())
    }

    /// The options that were laid over the schema's.
    pub fn dynamic_options(&self) -> &BTreeMap<String, String> {
        &self.dynamic
    }

    /// The snapshots of the branch.
    pub fn snapshots(&self) -> Snapshots {
        Snapshots::new(Arc::clone(&self.files), Arc::clone(&self.caches))
    }

    /// The long-lived changelogs of the branch.
    pub fn changelogs(&self) -> Snapshots {
        Snapshots::changelogs(Arc::clone(&self.files), Arc::clone(&self.caches))
    }

    /// The schemas of the branch.
    pub fn schemas(&self) -> Schemas {
        Schemas::new(Arc::clone(&self.files), Arc::clone(&self.caches))
    }

    /// The tags of the branch.
    pub fn tags(&self) -> Tags {
        Tags::new(Arc::clone(&self.files), Arc::clone(&self.caches))
    }

    /// The branches of the table.
    pub fn branches(&self) -> Branches {
        Branches::new(Arc::clone(&self.files), Arc::clone(&self.caches))
    }

    /// The consumers of the branch.
    pub fn consumers(&self) -> Consumers {
        Consumers::new(Arc::clone(&self.files), Arc::clone(&self.caches))
    }

    /// Schema `id` of the branch, read once for this table.
    ///
    /// # Errors
    /// Not found when there is none, corrupt when it is broken, Io when the store failed.
    pub async fn schema_at(&self, id: i64) -> Result<Arc<TableSchema>> {
        if let Some(schema) = self.seen.lock().get(&id) {
            return Ok(Arc::clone(schema));
        }
        let schema = self.schemas().schema(id).await.map_err(|error| self.at(error))?;
        // Of two that were read at once the first one stays.
        Ok(Arc::clone(self.seen.lock().entry(id).or_insert(schema)))
    }

    /// The snapshot that `version` names, or the latest. `None` when the latest is asked for and there is none yet. A time
    /// without a zone is in UTC; for another zone see [`timestamp_millis`] and [`Self::snapshot_at`].
    ///
    /// # Errors
    /// Not found when there is no such snapshot, with the earliest and the latest and their times; corrupt when its file is
    /// broken; Io when the store failed.
    pub async fn snapshot(&self, version: Option<&VersionSpec>) -> Result<Option<Arc<Snapshot>>> {
        let found = match version {
            None => self.snapshots().latest().await,
            Some(version) => travel::resolve(&self.snapshots(), &self.tags(), version).await.map(Some),
        };
        found.map_err(|error| self.at(error))
    }

    /// The latest snapshot that was committed at `millis` (epoch milliseconds) or before.
    ///
    /// # Errors
    /// As [`Self::snapshot`].
    pub async fn snapshot_at(&self, millis: i64) -> Result<Arc<Snapshot>> {
        travel::at_or_before(&self.snapshots(), millis).await.map_err(|error| self.at(error))
    }

    /// Snapshot `id`, from its file or from a tag that keeps it.
    ///
    /// # Errors
    /// Not found when it has expired and no tag keeps it, or never was.
    pub async fn snapshot_or_tagged(&self, id: i64) -> Result<Arc<Snapshot>> {
        travel::resolve_or_tagged(&self.snapshots(), &self.tags(), id).await
    }

    /// The latest snapshot that was committed at `millis` or before. The error does not name the table.
    pub(crate) async fn snapshot_not_after(&self, millis: i64) -> Result<Arc<Snapshot>> {
        travel::at_or_before(&self.snapshots(), millis).await
    }

    /// The first snapshot whose watermark is `watermark` or later.
    pub(crate) async fn snapshot_at_watermark(&self, watermark: i64) -> Result<Arc<Snapshot>> {
        travel::at_watermark(&self.snapshots(), watermark).await
    }

    /// The latest snapshot whose watermark is `watermark` or earlier.
    pub(crate) async fn snapshot_below_watermark(&self, watermark: i64) -> Result<Arc<Snapshot>> {
        travel::below_watermark(&self.snapshots(), watermark).await
    }

    /// What to say of a tag that does not exist.
    pub(crate) async fn missing_tag(&self, name: &str) -> Error {
        travel::missing_tag(&self.tags(), name).await
    }

    /// What to say of a snapshot that does not exist.
    pub(crate) async fn missing_snapshot(&self, id: i64) -> Error {
        travel::missing_snapshot(&self.snapshots(), &self.tags(), id).await
    }

    /// What to say when there is no snapshot at `millis` or later.
    pub(crate) async fn no_later_snapshot(&self, millis: i64) -> Error {
        travel::none_since(&self.snapshots(), millis).await
    }

    /// What another process needs to read `snapshot_id` of this table, or the latest.
    pub fn descriptor(&self, snapshot_id: Option<i64>) -> TableDescriptor {
        TableDescriptor {
            location: self.files.root().as_str().to_owned(),
            database: self.identifier.database.clone(),
            table: self.identifier.table.clone(),
            branch: self.identifier.branch.clone(),
            snapshot_id,
            schema: self.schema.to_json(),
            options: self.dynamic.clone(),
        }
    }

    /// An error with the table's name.
    pub fn at(&self, error: Error) -> Error {
        error.with("table", self.identifier.to_string())
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("identifier", &self.identifier)
            .field("location", &self.files.root())
            .field("schema", &self.schema.id)
            .finish_non_exhaustive()
    }
}

fn stored_options(schema: &TableSchema, branch: Option<&str>) -> BTreeMap<String, String> {
    let mut stored = schema.options.clone();
    if let Some(branch) = branch {
        stored.insert("branch".to_owned(), branch.to_owned());
    }
    stored
}

/// Whether the table or only its branch is missing.
async fn no_table(files: &Arc<TableFiles>, caches: &Arc<Caches>) -> Error {
    let missing = Error::not_found("the table does not exist").with("location", files.root().as_str());
    let Some(branch) = files.branch() else { return missing };
    let main = match files.with_branch(None) {
        Ok(main) => Schemas::new(Arc::new(main), Arc::clone(caches)).latest_id().await,
        Err(error) => return error,
    };
    match main {
        Ok(None) => return missing,
        Err(error) => return error,
        Ok(Some(_)) => {}
    }
    match Branches::new(Arc::clone(files), Arc::clone(caches)).names().await {
        Ok(names) if names.is_empty() => {
            Error::not_found(format!("branch {branch} does not exist; there is only main"))
        }
        Ok(names) => Error::not_found(format!("branch {branch} does not exist; there are main, {}", names.join(", "))),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::store::testing::{memory, put, schema_json, snapshot_json};

    async fn open(root: &StoreLocation, branch: Option<&str>, options: &[(&str, &str)]) -> Result<Arc<Table>> {
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Table::open(root.clone(), Identifier::new("db", "t").with_branch(branch), Arc::default(), options).await
    }

    async fn table() -> StoreLocation {
        let root = memory("wh/db.db/t");
        put(&root, "schema/schema-0", schema_json(0, &["a"])).await;
        put(&root, "schema/schema-1", schema_json(1, &["a", "b"])).await;
        for id in [3, 4] {
            put(&root, &format!("snapshot/snapshot-{id}"), snapshot_json(id, id * 1000)).await;
        }
        put(&root, "branch/branch-b/schema/schema-0", schema_json(0, &["c"])).await;
        put(&root, "branch/branch-b/snapshot/snapshot-1", snapshot_json(1, 1)).await;
        root
    }

    #[tokio::test]
    async fn open_when_main_then_latest_schema_and_merged_options() {
        let root = table().await;
        let table = open(&root, None, &[("read.batch-size", "4"), ("scan.mode", "latest")]).await.unwrap();
        assert_eq!(table.schema().id, 1);
        assert_eq!(table.options()["read.batch-size"], "4");
        assert_eq!(table.options()["scan.mode"], "latest");
        assert_eq!(table.options()["path"], root.as_str());
        assert_eq!(table.snapshot(None).await.unwrap().unwrap().id, 4);
        assert_eq!(table.snapshot(Some(&VersionSpec::Snapshot(3))).await.unwrap().unwrap().id, 3);
        assert_eq!(table.snapshot_at(3999).await.unwrap().id, 3);
    }

    #[tokio::test]
    async fn open_when_branch_then_its_schema_and_snapshots() {
        let root = table().await;
        let table = open(&root, Some("b"), &[]).await.unwrap();
        assert_eq!(table.schema().fields[0].name, "c");
        assert_eq!(table.snapshot(None).await.unwrap().unwrap().id, 1);
        let error = open(&root, Some("x"), &[]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.to_string(), "table db.t$branch_x: branch x does not exist; there are main, b");
    }

    #[tokio::test]
    async fn open_when_there_is_no_table_then_not_found_with_name_and_location() {
        let root = memory("wh/db.db/t");
        for branch in [None, Some("b")] {
            let error = open(&root, branch, &[]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            let text = error.to_string();
            assert!(text.starts_with("table db.t") && text.contains(root.as_str()), "{text}");
            assert!(text.ends_with("the table does not exist"), "{text}");
        }
    }

    #[tokio::test]
    async fn errors_when_they_leave_the_table_then_name_it() {
        let root = table().await;
        let table = open(&root, None, &[]).await.unwrap();
        let errors = [
            table.snapshot(Some(&VersionSpec::Snapshot(9))).await.unwrap_err(),
            table.snapshot(Some(&VersionSpec::Tag("x".to_owned()))).await.unwrap_err(),
            table.snapshot(Some(&VersionSpec::Timestamp("x".to_owned()))).await.unwrap_err(),
            table.snapshot_at(1).await.unwrap_err(),
            table.schema_at(7).await.unwrap_err(),
        ];
        for error in errors {
            assert!(error.to_string().starts_with("table db.t: "), "{error}");
        }
        put(&root, "snapshot/snapshot-5", "{".to_owned()).await;
        let error = table.snapshot(None).await.unwrap_err();
        assert!(error.to_string().starts_with("table db.t: file memory://"), "{error}");
    }

    #[tokio::test]
    async fn snapshot_when_table_is_empty_then_none() {
        let root = memory("t");
        put(&root, "schema/schema-0", schema_json(0, &["a"])).await;
        let table = open(&root, None, &[]).await.unwrap();
        assert!(table.snapshot(None).await.unwrap().is_none());
        assert!(table.snapshot(Some(&VersionSpec::Snapshot(1))).await.is_err());
    }

    #[tokio::test]
    async fn schema_at_when_asked_twice_then_the_one_of_this_table() {
        let root = table().await;
        let table = open(&root, None, &[("read.batch-size", "7")]).await.unwrap();
        let old = table.schema_at(0).await.unwrap();
        put(&root, "schema/schema-0", schema_json(0, &["other"])).await;
        assert!(Arc::ptr_eq(&old, &table.schema_at(0).await.unwrap()));
        let snapshot = table.snapshot(None).await.unwrap().unwrap();
        let back_then = table.with_schema_of(&snapshot).await.unwrap();
        assert_eq!((back_then.schema().id, back_then.options()["read.batch-size"].as_str()), (0, "7"));
    }
}
