//! Databases and tables are created, renamed and altered in the folders of a warehouse.
//!
//! A schema file is created and never overwritten: of two writers that make the same one, the second reads what the first
//! made and goes on from there.
//!
//! May import: `error`, `spec`, `store`, `table`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use object_store::path::Path;

use super::filesystem::{FileSystemCatalog, MARKER, is_table};
use crate::error::{Error, ErrorKind, Result};
use crate::spec::TableSchema;
use crate::store::folders::{any_file, create_folder, rename_folder};
use crate::store::{Branches, Caches, Schemas, Snapshots, StoreLocation, TableFiles};
use crate::table::{NewTable, ObjectName, SchemaChange, alter};

/// Databases that engines fill by themselves.
const RESERVED: [&str; 2] = ["sys", "information_schema"];

/// How often a change starts anew because another writer was faster.
const ATTEMPTS: u32 = 50;

/// Options that name another branch of the table.
const OTHER_BRANCHES: [&str; 2] = ["scan.fallback-branch", "scan.primary-branch"];

impl FileSystemCatalog {
    pub(super) async fn make_database(&self, database: &str, if_not_exists: bool) -> Result<()> {
        check_new_name("database", database)?;
        refuse_reserved(database)?;
        if let Some(found) = self.find_database(database).await? {
            return if if_not_exists { Ok(()) } else { Err(exists("database", database, &found)) };
        }
        let folder = self.database_folder(database)?;
        create_folder(&folder).await?;
        mark(&folder).await
    }

    pub(super) async fn make_table(
        &self,
        database: &str,
        table: &str,
        definition: NewTable,
        if_not_exists: bool,
    ) -> Result<bool> {
        check_new_name("table", table)?;
        refuse_reserved(database)?;
        let at = |error: Error| error.with("table", format!("{database}.{table}"));
        let database = self.find_database(database).await?.ok_or_else(|| self.no_database(database))?;
        let taken = |found: &str| if if_not_exists { Ok(false) } else { Err(exists("table", table, found)) };
        if let Some(found) = self.find_table(&database, table).await? {
            return taken(&found);
        }
        let schema = definition.into_schema(&self.table_defaults, now()).map_err(at)?;
        if let Some(option) = OTHER_BRANCHES.iter().find(|option| schema.options.contains_key(**option)) {
            return Err(at(Error::invalid(format!(
                "option {option} names a branch, and a new table has none; create the branch first and set the option then"
            ))));
        }
        let folder = self.table_folder(&database, table)?;
        if let Some(file) = any_file(&folder).await.map_err(at)? {
            // Another writer may have created it since.
            if is_table(folder.clone()).await? {
                return taken(table);
            }
            return Err(at(Error::invalid(
                "the folder of the table holds files that belong to no table, as a drop that failed leaves them behind; remove \
                 them, or choose another name",
            )
            .with("file", file)));
        }
        let files = TableFiles::new(folder, None)?;
        if create_schema(&files, &schema).await.map_err(at)? { Ok(true) } else { taken(table) }
    }

    pub(super) async fn move_table(&self, database: &str, table: &str, name: &str) -> Result<()> {
        check_new_name("table", name)?;
        let Some(found) = self.find(database, table).await? else {
            return Err(self.no_table(database, table).await);
        };
        // A table may be written in another case.
        if let Some(other) = self.find_table(&found.database, name).await?
            && (other != found.table || other == name)
        {
            return Err(exists("table", name, &other));
        }
        let target = self.table_folder(&found.database, name)?;
        rename_folder(&found.location, &target).await.map_err(|error| {
            let error = error.with("table", format!("{}.{}", found.database, found.table));
            if error.kind() == ErrorKind::Unsupported {
                return Error::unsupported(format!(
                    "a store without folders can't rename a table in one step; create {name} AS SELECT * FROM {} and drop the old \
                     one",
                    found.table
                ))
                .with_source(error);
            }
            error
        })
    }

    pub(super) async fn change_table(
        &self,
        database: &str,
        name: &ObjectName,
        changes: &[SchemaChange],
    ) -> Result<Arc<TableSchema>> {
        if name.system_table.is_some() || name.version.is_some() {
            return Err(Error::invalid(format!("{database}.{name} is not a table or branch, and can't be altered")));
        }
        let Some(found) = self.find(database, &name.table).await? else {
            return Err(self.no_table(database, &name.table).await);
        };
        let shown = ObjectName { table: found.table, ..name.clone() };
        let at = |error: Error| error.with("table", format!("{}.{shown}", found.database));
        let files = Arc::new(TableFiles::new(found.location, name.branch.as_deref()).map_err(at)?);
        change_schema(&files, changes).await.map_err(at)
    }
}

/// Makes the next schema of a branch.
async fn change_schema(files: &Arc<TableFiles>, changes: &[SchemaChange]) -> Result<Arc<TableSchema>> {
    let caches = Arc::new(Caches::default());
    let schemas = Schemas::new(Arc::clone(files), Arc::clone(&caches));
    let snapshots = Snapshots::new(Arc::clone(files), Arc::clone(&caches));
    for attempt in 0..ATTEMPTS {
        let Some(latest) = schemas.latest().await? else {
            return Err(Error::not_found("the table or branch does not exist").with("location", files.root().as_str()));
        };
        let has_snapshots = snapshots.latest_id().await?.is_some();
        let Some(next) = alter(&latest, changes, has_snapshots, now())? else { return Ok(latest) };
        check_branches(files, &caches, &latest, &next).await?;
        if create_schema(files, &next).await? {
            return Ok(Arc::new(next));
        }
        // Another writer was faster: what it made is where this change starts from. Each time one of them gets on.
        tokio::time::sleep(Duration::from_millis(u64::from(attempt))).await;
    }
    Err(Error::new(ErrorKind::Conflict, format!("others changed the table {ATTEMPTS} times meanwhile")).retryable())
}

/// Creates the file of a schema. False when another writer made one of its id.
async fn create_schema(files: &TableFiles, schema: &TableSchema) -> Result<bool> {
    let text = serde_json::to_string_pretty(&schema.to_json())
        .map_err(|error| Error::internal("a schema can't be written as JSON").with_source(error))?;
    let (path, text) = (files.schema_path(schema.id), Bytes::from(text));
    match files.create(&path, text.clone()).await {
        Ok(true) => Ok(true),
        // It may be ours: the answer to an earlier attempt was lost on the way.
        Ok(false) => Ok(files.read(&path).await? == text),
        Err(error) if error.kind() == ErrorKind::Io => match files.read(&path).await {
            Ok(found) if found == text => Ok(true),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Refuses a branch that does not exist where an option names one that it did not name before.
async fn check_branches(
    files: &Arc<TableFiles>,
    caches: &Arc<Caches>,
    before: &TableSchema,
    after: &TableSchema,
) -> Result<()> {
    for option in OTHER_BRANCHES {
        let Some(branch) = after.options.get(option) else { continue };
        if before.options.get(option) == Some(branch) {
            continue;
        }
        let branches = Branches::new(Arc::clone(files), Arc::clone(caches));
        if !branches.exists(branch).await? {
            return Err(Error::invalid(format!(
                "option {option} = '{branch}': there is no such branch; there are main, {}",
                branches.names().await?.join(", ")
            )));
        }
    }
    Ok(())
}

/// Keeps a database without tables in a store without folders.
pub(super) async fn mark(folder: &StoreLocation) -> Result<()> {
    if folder.local_path().is_some() {
        return Ok(());
    }
    let files = TableFiles::new(folder.clone(), None)?;
    let marker: Path = folder.child(MARKER)?.prefix().clone();
    match files.create(&marker, Bytes::new()).await {
        // The answer may be lost and the file there.
        Err(error) if error.kind() == ErrorKind::Io && files.exists(&marker).await.unwrap_or(false) => Ok(()),
        created => created.map(|_| ()),
    }
}

/// Now, in epoch milliseconds, and later than any answer before: two writers of this process that ask for the same at once
/// can tell their schemas apart.
fn now() -> i64 {
    static LAST: AtomicI64 = AtomicI64::new(0);
    let clock = chrono::Utc::now().timestamp_millis();
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(clock.max(last + 1)));
    last.map_or(clock, |last| clock.max(last + 1))
}

fn exists(what: &str, asked: &str, found: &str) -> Error {
    let other = if asked == found { String::new() } else { format!(", written {found}") };
    Error::new(ErrorKind::AlreadyExists, format!("{what} {asked} exists already{other}"))
}

/// Refuses names that could not be said again, or that the catalog uses for itself.
fn check_new_name(what: &str, name: &str) -> Result<()> {
    let bad = |why: &str| Err(Error::invalid(format!("{name:?} can't be the name of a {what}: {why}")));
    if name.contains('$') {
        return bad("what follows $ is a branch or a system table");
    }
    if name.contains('@') {
        return bad("what follows @ is a version");
    }
    if name.starts_with('.') {
        return bad("names that begin with a dot are hidden");
    }
    if name.trim() != name || name.is_empty() {
        return bad("it is blank, or begins or ends with a blank");
    }
    Ok(())
}

pub(super) fn refuse_reserved(database: &str) -> Result<()> {
    if RESERVED.iter().any(|name| name.eq_ignore_ascii_case(database)) {
        return Err(Error::invalid(format!("database {database} is the system's own and can't be changed")));
    }
    Ok(())
}
