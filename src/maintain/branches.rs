//! Making, renaming and deleting branches, and letting the main branch catch up with one (`spec/metadata.md 9.2`).

use std::sync::Arc;

use object_store::path::Path;

use super::rollback::cut_changelogs;
use crate::error::{Error, ErrorKind, Result};
use crate::spec::Snapshot;
use crate::store::files::MAIN_BRANCH;
use crate::store::folders::remove_empty_folders;
use crate::store::{Schemas, Snapshots, TableFiles, Tags};
use crate::table::Table;

/// Makes branch `name`: from a tag with its snapshot, or without snapshots and with the schemas of today. False when there is
/// one and `if_not_exists` says that this is fine.
///
/// # Errors
/// Invalid when the name can't be one, already exists when there is such a branch, not found when there is no such tag.
pub async fn create_branch(table: &Table, name: &str, tag: Option<&str>, if_not_exists: bool) -> Result<bool> {
    let made = async {
        check_name(name)?;
        if table.branches().exists(name).await? {
            return match if_not_exists {
                true => Ok(false),
                false => Err(exists(name)),
            };
        }
        let branch = Arc::new(table.files().with_branch(Some(name))?);
        let mut last_schema = i64::MAX;
        if let Some(tag) = tag {
            let Some(found) = table.tags().find(tag).await? else { return Err(table.missing_tag(tag).await) };
            let (snapshots, tags) = of_branch(table, &branch);
            // The tag may have outlived its snapshot: the file is made from the tag then.
            let snapshot = match table.snapshots().find(found.snapshot.id).await? {
                Some(snapshot) => snapshot.as_ref().clone(),
                None => found.snapshot.clone(),
            };
            if !snapshots.create(&snapshot).await? {
                return Err(exists(name));
            }
            tags.replace(&found).await?;
            last_schema = snapshot.schema_id;
        }
        // A folder is a branch once it has a schema, so that those come last.
        let ids = table.schemas().ids().await?;
        let mut created = false;
        for id in ids.into_iter().filter(|id| *id <= last_schema) {
            let bytes = table.files().read(&table.files().schema_path(id)).await?;
            created |= branch.create(&branch.schema_path(id), bytes).await?;
        }
        if created { Ok(true) } else { Err(exists(name)) }
    };
    made.await.map_err(|error| table.at(error))
}

/// Deletes a branch; its data files stay until orphan files are removed.
///
/// # Errors
/// Not found when there is no such branch, invalid when the table is read together with it.
pub async fn delete_branch(table: &Table, name: &str) -> Result<()> {
    let deleted = async {
        check_exists(table, name).await?;
        let options = table.schema().options.iter();
        let used = options.clone().find(|(key, value)| {
            ["scan.fallback-branch", "scan.primary-branch"].contains(&key.as_str()) && value.as_str() == name
        });
        if let Some((key, _)) = used {
            return Err(Error::invalid(format!(
                "branch {name} is the {key} of the table, which could not be read without it; unset the option first"
            )));
        }
        delete_files(&table.files().with_branch(Some(name))?, name).await
    };
    deleted.await.map_err(|error| table.at(error))
}

/// Renames a branch.
///
/// # Errors
/// Not found when there is no branch `name`, already exists when there is a branch `target`, invalid when that can't be one.
pub async fn rename_branch(table: &Table, name: &str, target: &str) -> Result<()> {
    let renamed = async {
        check_exists(table, name).await?;
        check_name(target)?;
        if table.branches().exists(target).await? {
            return Err(exists(target));
        }
        let (from, to) = (table.files().with_branch(Some(name))?, table.files().with_branch(Some(target))?);
        let (from_root, to_root) = (branch_root(&from, name), branch_root(&to, target));
        let mut files: Vec<Path> = from.list_all(&from_root).await?.into_iter().map(|file| file.location).collect();
        // Schemas last: then the folder becomes a branch.
        let is_schema = |path: &Path| path.prefix_matches(&from.schema_dir());
        files.sort_by_key(|path| (is_schema(path), path.clone()));
        for path in &files {
            let Some(parts) = path.prefix_match(&from_root) else { continue };
            let moved = parts.fold(to_root.clone(), |folder, part| folder.join(part));
            to.overwrite(&moved, from.read(path).await?).await?;
        }
        delete_files(&from, name).await
    };
    renamed.await.map_err(|error| table.at(error))
}

/// Lets the main branch be what `name` is: what main committed since the branch's first snapshot is lost, with the tags and
/// schemas of that time.
///
/// # Errors
/// Not found when there is no such branch, invalid when the branch has no snapshot.
pub async fn fast_forward(table: &Table, name: &str) -> Result<()> {
    let done = async {
        check_exists(table, name).await?;
        let main = Arc::new(table.files().with_branch(None)?);
        let branch = Arc::new(table.files().with_branch(Some(name))?);
        let (snapshots, tags) = of_branch(table, &main);
        let (branch_snapshots, branch_tags) = of_branch(table, &branch);
        let caches = table.caches();
        let (schemas, branch_schemas) = (
            Schemas::new(Arc::clone(&main), Arc::clone(caches)),
            Schemas::new(Arc::clone(&branch), Arc::clone(caches)),
        );
        let Some(first) = branch_snapshots.earliest().await? else {
            return Err(Error::invalid(format!(
                "branch {name} has no snapshot, so that there is nothing to go forward to"
            )));
        };
        snapshots.hint_latest(None).await?;
        // The branch may begin before what main has left.
        snapshots.hint_earliest(None).await?;
        for id in snapshots.ids().await?.into_iter().rev().take_while(|id| *id >= first.id) {
            snapshots.delete(id).await?;
        }
        cut_changelogs(&Snapshots::changelogs(Arc::clone(&main), Arc::clone(caches)), first.id - 1).await?;
        for tag in tags.list().await? {
            if tag.snapshot.id >= first.id {
                tags.delete(&tag.name).await?;
            }
        }
        // Written over first and taken away then: the table has a schema at all times.
        let fresh = branch_schemas.ids().await?;
        for id in fresh.iter().filter(|id| **id >= first.schema_id) {
            main.overwrite(&main.schema_path(*id), branch.read(&branch.schema_path(*id)).await?).await?;
        }
        let stale = schemas.ids().await?.into_iter().rev();
        for id in stale.take_while(|id| *id >= first.schema_id).filter(|id| !fresh.contains(id)) {
            main.delete(&main.schema_path(id)).await?;
        }
        for tag in branch_tags.list().await? {
            tags.replace(&tag).await?;
        }
        let mut last = None;
        for id in branch_snapshots.ids().await? {
            let Some(snapshot) = branch_snapshots.find(id).await? else { continue };
            put(&main, &snapshots, &snapshot).await?;
            last = Some(id);
        }
        snapshots.hint_earliest(snapshots.ids().await?.first().copied()).await?;
        snapshots.hint_latest(last).await
    };
    done.await.map_err(|error| table.at(error))
}

async fn put(main: &TableFiles, snapshots: &Snapshots, snapshot: &Snapshot) -> Result<()> {
    main.overwrite(&snapshots.path(snapshot.id), snapshot.to_json()?).await
}

fn of_branch(table: &Table, files: &Arc<TableFiles>) -> (Snapshots, Tags) {
    let caches = table.caches();
    (Snapshots::new(Arc::clone(files), Arc::clone(caches)), Tags::new(Arc::clone(files), Arc::clone(caches)))
}

/// The folder of a branch.
fn branch_root(files: &TableFiles, name: &str) -> Path {
    files.branch_dir().join(format!("branch-{name}"))
}

async fn delete_files(branch: &TableFiles, name: &str) -> Result<()> {
    // Without schemas the folder is no branch any more, whatever is still in it.
    for file in branch.list(&branch.schema_dir()).await? {
        branch.delete(&file.location).await?;
    }
    for file in branch.list_all(&branch_root(branch, name)).await? {
        branch.delete(&file.location).await?;
    }
    // The Java library takes an empty folder for a branch that lost its schemas, and cleans no orphan files then.
    remove_empty_folders(branch.root(), &branch_root(branch, name)).await
}

fn exists(name: &str) -> Error {
    Error::new(ErrorKind::AlreadyExists, format!("branch {name} exists already"))
}

fn check_name(name: &str) -> Result<()> {
    let wrong = if name.trim().is_empty() {
        "it is blank"
    } else if name == MAIN_BRANCH {
        "that is the branch that every table has"
    } else if name.bytes().all(|byte| byte.is_ascii_digit()) {
        "it is a number"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("'{name}' can't be the name of a branch: {wrong}")))
}

async fn check_exists(table: &Table, name: &str) -> Result<()> {
    if name == MAIN_BRANCH {
        return Err(Error::invalid(
            "main is the branch that every table has: it can't be deleted, renamed or forwarded to",
        ));
    }
    if table.branches().exists(name).await? {
        return Ok(());
    }
    let names = table.branches().names().await?;
    Err(Error::not_found(match names.as_slice() {
        [] => format!("branch {name} does not exist; there is only main"),
        names => format!("branch {name} does not exist; there are {}", names.join(", ")),
    }))
}
