//! Databases and tables are dropped from the folders of a warehouse.
//!
//! What a table keeps outside of its folder (`spec/metadata.md 1.5`) is deleted too, as far as it looks like a table's: files
//! of its buckets, and of global indexes. A folder outside that may be somebody else's stops the drop before anything is gone.
//!
//! May import: `error`, `store`, `table`.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use serde_json::Value;

use super::definitions::{mark, refuse_reserved};
use super::filesystem::{CONCURRENCY, DATABASE_SUFFIX, FileSystemCatalog, MARKER};
use super::{Catalog, TableLocation};
use crate::error::{Error, Result};
use crate::store::files::numbered;
use crate::store::folders::{delete_files, delete_folder};
use crate::store::{Branches, Caches, StoreLocation, TableFiles, open_store};

/// Options that name folders outside of a table's, and whether those hold buckets.
const OUTSIDE: [(&str, bool); 2] = [("data-file.external-paths", true), ("global-index.external-path", false)];

/// A folder outside of a table's in which it keeps files.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Outside {
    location: String,
    holds_buckets: bool,
}

impl FileSystemCatalog {
    pub(super) async fn remove_table(&self, database: &str, table: &str, if_exists: bool) -> Result<bool> {
        refuse_reserved(database)?;
        let Some(found) = self.find(database, table).await? else {
            return if if_exists { Ok(false) } else { Err(self.no_table(database, table).await) };
        };
        self.remove(&found)
            .await
            .map_err(|error| error.with("table", format!("{}.{}", found.database, found.table)))?;
        Ok(true)
    }

    async fn remove(&self, table: &TableLocation) -> Result<()> {
        let files = Arc::new(TableFiles::new(table.location.clone(), None)?);
        let outside = outside_of(&files).await?;
        let mut folders = Vec::new();
        for folder in &outside {
            folders.extend(self.checked(folder, table)?.map(|location| (location, folder.holds_buckets)));
        }
        if !folders.is_empty() {
            self.refuse_shared(table, &folders).await?;
        }
        for (location, holds_buckets) in &folders {
            delete_files(location, |path| belongs_to_table(location, path, *holds_buckets)).await?;
        }
        // The database outlives its last table. The table is there until its schemas go, so that it can be dropped again.
        mark(&self.database_folder(&table.database)?).await?;
        let schemas = files.schema_dir();
        delete_folder(files.root(), |path| path.as_ref().starts_with(&format!("{schemas}/"))).await
    }

    /// Where a folder outside lies; none if it is within the table's own, which goes anyway.
    fn checked(&self, outside: &Outside, table: &TableLocation) -> Result<Option<StoreLocation>> {
        let refused = |why: &str| {
            Err(Error::invalid(format!(
                "the table keeps files in {}, {why}, which a drop must not delete; set its option '{}' to a folder of its own, or \
                 remove the table's folder by hand",
                outside.location,
                OUTSIDE[usize::from(!outside.holds_buckets)].0
            )))
        };
        let warehouse = self.warehouse();
        let location = match warehouse.path_of(&outside.location) {
            Ok(path) => StoreLocation::new(Arc::clone(warehouse.store()), warehouse.url().clone(), path)?,
            Err(_) => open_store(&outside.location)?,
        };
        if location.prefix().is_root() {
            return refused("the whole of a store");
        }
        if location.url() != warehouse.url() {
            return Ok(Some(location));
        }
        if is_within(location.prefix(), table.location.prefix()) {
            return Ok(None);
        }
        if is_within(warehouse.prefix(), location.prefix()) {
            return refused("a folder that holds the warehouse");
        }
        let in_database = |path: &Path| {
            let mut below = path.prefix_match(warehouse.prefix()).into_iter().flatten();
            below.next().is_some_and(|folder| folder.as_ref().ends_with(DATABASE_SUFFIX))
        };
        if in_database(location.prefix()) {
            return refused("another folder of a database");
        }
        Ok(Some(location))
    }

    /// Refuses to delete what another table of the warehouse keeps in the same folders.
    async fn refuse_shared(&self, table: &TableLocation, folders: &[(StoreLocation, bool)]) -> Result<()> {
        let mut others = Vec::new();
        for database in self.list_databases().await? {
            for other in self.list_tables(&database).await? {
                if (&database, &other) != (&table.database, &table.table) {
                    others.push((database.clone(), other));
                }
            }
        }
        let looked_at = futures::stream::iter(others.into_iter().map(|(database, other)| async move {
            let files = TableFiles::new(self.table_folder(&database, &other)?, None)?;
            Ok::<_, Error>((database, other, outside_of(&Arc::new(files)).await?))
        }));
        let mut looked_at = looked_at.buffer_unordered(CONCURRENCY);
        while let Some((database, other, outside)) = looked_at.try_next().await? {
            for theirs in &outside {
                let Ok(path) = self
                    .warehouse()
                    .path_of(&theirs.location)
                    .or_else(|_| open_store(&theirs.location).map(|location| location.prefix().clone()))
                else {
                    continue;
                };
                let shared =
                    folders.iter().find(|(ours, _)| is_within(ours.prefix(), &path) || is_within(&path, ours.prefix()));
                if let Some((ours, _)) = shared {
                    return Err(Error::invalid(format!(
                        "the table keeps files in {ours}, and table {database}.{other} does in {}, so that a drop could delete those \
                         of the other; move either table out first",
                        theirs.location
                    )));
                }
            }
        }
        Ok(())
    }

    pub(super) async fn remove_database(&self, database: &str, if_exists: bool, cascade: bool) -> Result<()> {
        refuse_reserved(database)?;
        let Some(found) = self.find_database(database).await? else {
            return if if_exists { Ok(()) } else { Err(self.no_database(database)) };
        };
        let tables = self.list_tables(&found).await?;
        if !cascade && !tables.is_empty() {
            return Err(Error::invalid(format!(
                "database {found} holds {} tables ({}{}); drop them first, or say CASCADE",
                tables.len(),
                tables.iter().take(5).cloned().collect::<Vec<_>>().join(", "),
                if tables.len() > 5 { ", .." } else { "" }
            )));
        }
        let folder = self.database_folder(&found)?;
        let marker = folder.child(MARKER)?.prefix().clone();
        if !cascade {
            let mut files = folder.store().list(Some(folder.prefix()));
            while let Some(Ok(file)) = files.next().await {
                if file.location != marker {
                    return Err(Error::invalid(format!(
                        "the folder of database {found} holds files that belong to no table; remove them, or say CASCADE"
                    ))
                    .with("file", folder.location_of(&file.location)));
                }
            }
        }
        for table in &tables {
            self.remove_table(&found, table, true).await?;
        }
        delete_folder(&folder, |path| *path == marker).await
    }
}

/// Whether `inner` is `outer` or below it.
fn is_within(inner: &Path, outer: &Path) -> bool {
    inner.prefix_matches(outer)
}

/// The folders outside of a table's that any schema of it, or of a branch, names.
async fn outside_of(files: &Arc<TableFiles>) -> Result<BTreeSet<Outside>> {
    let branches = Branches::new(Arc::clone(files), Arc::new(Caches::default()));
    let mut found = BTreeSet::new();
    let names = branches.names().await?;
    for branch in std::iter::once(None).chain(names.iter().map(|name| Some(name.as_str()))) {
        let files = files.with_branch(branch)?;
        for file in files.list(&files.schema_dir()).await? {
            if file.location.filename().and_then(|name| numbered(name, "schema-")).is_some() {
                found.extend(named_in(&files.read(&file.location).await?));
            }
        }
    }
    Ok(found)
}

/// What a schema document names. A broken one names nothing: a table must not be kept for ever because of it.
fn named_in(schema: &[u8]) -> Vec<Outside> {
    let Ok(document) = serde_json::from_slice::<Value>(schema) else { return Vec::new() };
    let mut found = Vec::new();
    for (option, holds_buckets) in OUTSIDE {
        let paths = document.pointer("/options").and_then(|options| options.get(option)).and_then(Value::as_str);
        let paths = paths.unwrap_or_default().split(',').map(str::trim).filter(|path| !path.is_empty());
        found.extend(paths.map(|path| Outside { location: path.to_owned(), holds_buckets }));
    }
    found
}

/// Whether a file in a folder outside is one that a table keeps there: below a bucket, or a global index.
fn belongs_to_table(folder: &StoreLocation, path: &Path, holds_buckets: bool) -> bool {
    let Some(mut below) = path.prefix_match(folder.prefix()) else { return false };
    if holds_buckets {
        return below.any(|part| {
            let bucket = part.as_ref().strip_prefix("bucket-");
            bucket.is_some_and(|bucket| bucket == "postpone" || bucket.bytes().all(|byte| byte.is_ascii_digit()))
        });
    }
    path.filename().is_some_and(|name| name.contains("index"))
}
