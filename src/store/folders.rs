//! Whole folders: made, renamed and deleted. Local disk has folders; other stores have files whose names hold slashes, so that
//! a folder is there as long as a file is below it.
//!
//! May import: `error`, `store::{access, location}`.

use std::io;
use std::path::PathBuf;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use uuid::Uuid;

use super::access::{is_missing, store_error};
use super::location::StoreLocation;
use crate::error::{Error, ErrorKind, Result};

/// How the names of folders begin that are on their way out. No database and no table is called like that.
const HIDDEN: &str = ".dropped-";

impl StoreLocation {
    /// The folder on local disk; `None` in another store.
    pub(crate) fn local_path(&self) -> Option<PathBuf> {
        (self.url().scheme() == "file").then(|| PathBuf::from(format!("/{}", self.prefix())))
    }

    /// The folder, where it would be one on local disk and is not there. Other stores have no folders that could be missing.
    pub(crate) fn missing_folder(&self) -> Option<PathBuf> {
        self.local_path().filter(|path| !path.is_dir())
    }
}

/// Makes a folder and those above it. Nothing happens in a store without folders.
///
/// # Errors
/// Io when the disk refused.
pub(crate) async fn create_folder(folder: &StoreLocation) -> Result<()> {
    let Some(path) = folder.local_path() else { return Ok(()) };
    on_disk(folder, move || std::fs::create_dir_all(path)).await
}

/// Renames a folder on local disk, which no reader sees half done.
///
/// # Errors
/// Unsupported in another store, already exists when there are files at `to`, Io when the disk refused.
pub(crate) async fn rename_folder(from: &StoreLocation, to: &StoreLocation) -> Result<()> {
    let (Some(old), Some(new)) = (from.local_path(), to.local_path()) else {
        return Err(Error::unsupported("the store can't rename a folder in one step").with("location", from.as_str()));
    };
    on_disk(to, move || std::fs::rename(old, new)).await
}

/// A file below a folder, if there is one.
///
/// # Errors
/// Io when the store failed.
pub(crate) async fn any_file(folder: &StoreLocation) -> Result<Option<String>> {
    let mut listed = folder.store().list(Some(folder.prefix()));
    match listed.next().await {
        None => Ok(None),
        Some(Ok(file)) => Ok(Some(folder.location_of(&file.location))),
        Some(Err(error)) if is_missing(&error) => Ok(None),
        Some(Err(error)) => Err(store_error(folder, folder.prefix(), error)),
    }
}

/// Deletes a folder with all that is in it. On local disk it is out of sight at once, links in it go and not what they
/// point at; elsewhere files go one by one, those that `is_last` names after all others.
///
/// # Errors
/// Io when the store failed: what is left can be deleted by asking again.
pub(crate) async fn delete_folder(folder: &StoreLocation, is_last: impl Fn(&Path) -> bool + Send + Sync) -> Result<()> {
    if let Some(path) = folder.local_path() {
        let hidden = path.with_file_name(format!("{HIDDEN}{}", Uuid::new_v4().simple()));
        return on_disk(folder, move || {
            match std::fs::rename(&path, &hidden) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                // Where the folder above can't be written to, what is inside still can.
                Err(_) => return std::fs::remove_dir_all(&path),
                Ok(()) => {}
            }
            if hidden.is_symlink() { std::fs::remove_file(&hidden) } else { std::fs::remove_dir_all(&hidden) }
        })
        .await;
    }
    let mut last: Vec<Path> = delete_files(folder, |path| !is_last(path)).await?;
    last.sort_unstable_by_key(|path| (path.as_ref().len(), path.to_string()));
    for path in last {
        match folder.store().delete(&path).await {
            Err(error) if !is_missing(&error) => return Err(store_error(folder, &path, error)),
            _ => {}
        }
    }
    Ok(())
}

/// Deletes the files below a folder that `wanted` names, and gives the others.
///
/// # Errors
/// As [`delete_folder`].
pub(crate) async fn delete_files(
    folder: &StoreLocation,
    wanted: impl Fn(&Path) -> bool + Send + Sync,
) -> Result<Vec<Path>> {
    let failed = |error| store_error(folder, folder.prefix(), error);
    let mut kept = Vec::new();
    let mut listed = folder.store().list(Some(folder.prefix())).chunks(1000);
    while let Some(chunk) = listed.next().await {
        let mut gone = Vec::with_capacity(chunk.len());
        for file in chunk {
            match file {
                Ok(file) if wanted(&file.location) => gone.push(Ok(file.location)),
                Ok(file) => kept.push(file.location),
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let mut deleted = folder.store().delete_stream(futures::stream::iter(gone).boxed());
        loop {
            match deleted.try_next().await {
                Ok(None) => break,
                Ok(Some(_)) => {}
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    Ok(kept)
}

/// Takes away a folder on local disk and those below it as far as nothing is in them; other stores have no empty folders.
///
/// # Errors
/// Io when the disk refused.
pub(crate) async fn remove_empty_folders(root: &StoreLocation, folder: &Path) -> Result<()> {
    if root.local_path().is_none() {
        return Ok(());
    }
    let folder = PathBuf::from(format!("/{folder}"));
    on_disk(root, move || remove_empty(&folder)).await
}

fn remove_empty(folder: &std::path::Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        // What a link points at is not the table's.
        if entry.file_type()?.is_dir() {
            remove_empty(&entry.path())?;
        }
    }
    match std::fs::remove_dir(folder) {
        Err(error) if ![io::ErrorKind::NotFound, io::ErrorKind::DirectoryNotEmpty].contains(&error.kind()) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// A file on local disk that a process died in while it wrote it, as `<name>#<number>`. The lists of the store leave it out.
#[derive(Debug)]
pub(crate) struct Unfinished {
    on_disk: PathBuf,
    /// What would have become of it.
    pub location: Path,
    pub bytes: u64,
}

impl Unfinished {
    /// The files below a folder that were written to before a time, epoch milliseconds; none in other stores, which have no such
    /// files.
    ///
    /// # Errors
    /// Io when the disk refused.
    pub(crate) async fn below(root: &StoreLocation, folder: &Path, older_than: i64) -> Result<Vec<Self>> {
        if root.local_path().is_none() {
            return Ok(Vec::new());
        }
        let start = folder.clone();
        let listed = tokio::task::spawn_blocking(move || unfinished_below(&start, older_than)).await;
        match listed {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => {
                let refused = Error::new(ErrorKind::Io, "the disk refused").with_source(error);
                Err(refused.with("location", root.location_of(folder)))
            }
            Err(error) => Err(Error::internal("a look at the disk was given up").with_source(error)),
        }
    }

    /// Deletes it; false when the disk refused.
    pub(crate) async fn delete(self) -> bool {
        let deleted = tokio::task::spawn_blocking(move || std::fs::remove_file(self.on_disk)).await;
        match deleted {
            Ok(Ok(())) => true,
            Ok(Err(error)) => error.kind() == io::ErrorKind::NotFound,
            Err(_) => false,
        }
    }
}

/// Removes what local disk holds of files that were begun and given up; other stores show no such files.
pub(crate) async fn remove_unfinished(root: &StoreLocation, paths: Vec<Path>) {
    if root.local_path().is_none() {
        return;
    }
    let removed = tokio::task::spawn_blocking(move || {
        for path in paths {
            // One that stays is an orphan.
            let _ = std::fs::remove_file(format!("/{path}#1"));
        }
    });
    let _ = removed.await;
}

fn unfinished_below(start: &Path, older_than: i64) -> io::Result<Vec<Unfinished>> {
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::from(format!("/{start}")), start.clone())];
    while let Some((on_disk, location)) = folders.pop() {
        let entries = match std::fs::read_dir(&on_disk) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            // A link is no folder here: what it points at is not the table's.
            if entry.file_type()?.is_dir() {
                folders.push((entry.path(), location.clone().join(name)));
                continue;
            }
            let Some((finished, number)) = name.rsplit_once('#') else { continue };
            if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let modified = metadata.modified()?.duration_since(std::time::UNIX_EPOCH).map_or(0, |age| age.as_millis());
            if modified < u128::try_from(older_than).unwrap_or(0) {
                let location = location.clone().join(finished);
                found.push(Unfinished { on_disk: entry.path(), location, bytes: metadata.len() });
            }
        }
    }
    Ok(found)
}

/// Runs a short change of the disk where it may block.
async fn on_disk(at: &StoreLocation, change: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<()> {
    let done = tokio::task::spawn_blocking(change).await;
    let failed = match done {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists => {
                Error::new(ErrorKind::AlreadyExists, "there are files already").with_source(error)
            }
            io::ErrorKind::NotFound => Error::not_found("the folder does not exist").with_source(error),
            _ => Error::new(ErrorKind::Io, "the disk refused").with_source(error),
        },
        Err(error) => Error::internal("a change of the disk was given up").with_source(error),
    };
    Err(failed.with("location", at.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::open_store;
    use crate::store::testing::{memory, put};

    #[tokio::test]
    async fn delete_folder_when_in_memory_or_on_disk_then_nothing_else_goes() {
        let disk = tempfile::tempdir().unwrap();
        let local = open_store(disk.path().to_str().unwrap()).unwrap();
        for root in [memory("wh"), local] {
            for name in ["t/schema/schema-0", "t/p=a%2Fb/bucket-0/f", "tt/f", "u"] {
                put(&root, name, "x".to_owned()).await;
            }
            let folder = root.child("t").unwrap();
            assert!(any_file(&folder).await.unwrap().is_some());
            delete_folder(&folder, |_| false).await.unwrap();
            assert_eq!(any_file(&folder).await.unwrap(), None);
            delete_folder(&folder, |_| false).await.unwrap();
            let mut left: Vec<_> = delete_files(&root, |_| false).await.unwrap().iter().map(Path::to_string).collect();
            left.sort_unstable();
            assert_eq!(left.len(), 2);
            assert!(left[0].ends_with("tt/f") && left[1].ends_with("/u"), "{left:?}");
        }
        let names: Vec<_> = std::fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }

    #[tokio::test]
    async fn remove_empty_folders_when_a_file_is_left_then_what_leads_to_it_stays() {
        let disk = tempfile::tempdir().unwrap();
        let root = open_store(disk.path().to_str().unwrap()).unwrap();
        std::fs::create_dir_all(disk.path().join("b/schema")).unwrap();
        std::fs::create_dir_all(disk.path().join("b/snapshot/deep")).unwrap();
        std::fs::write(disk.path().join("b/snapshot/f"), "four").unwrap();
        let folder = root.child("b").unwrap();
        remove_empty_folders(&root, folder.prefix()).await.unwrap();
        let is_there = |name: &str| disk.path().join(name).exists();
        assert_eq!(["b/schema", "b/snapshot/deep", "b/snapshot/f"].map(is_there), [false, false, true]);
        std::fs::remove_file(disk.path().join("b/snapshot/f")).unwrap();
        for _ in 0..2 {
            remove_empty_folders(&root, folder.prefix()).await.unwrap();
            assert!(!is_there("b") && disk.path().exists());
        }
    }

    #[tokio::test]
    async fn unfinished_when_a_process_died_then_found_where_they_are_and_deleted() {
        let disk = tempfile::tempdir().unwrap();
        let root = open_store(disk.path().to_str().unwrap()).unwrap();
        std::fs::create_dir_all(disk.path().join("t/p=a%2Fb/bucket-0")).unwrap();
        for name in ["t/p=a%2Fb/bucket-0/f#1", "t/p=a%2Fb/bucket-0/f", "t/g#x", "t/#", "u#1"] {
            std::fs::write(disk.path().join(name), "four").unwrap();
        }
        let folder = root.child("t").unwrap();
        let below = |older_than| Unfinished::below(&root, folder.prefix(), older_than);
        assert!(below(1000).await.unwrap().is_empty());
        let mut found = below(i64::MAX).await.unwrap();
        assert_eq!(found.len(), 1);
        let found = found.remove(0);
        assert!(found.location.as_ref().ends_with("/bucket-0/f"), "{}", found.location);
        assert_eq!(found.bytes, 4);
        assert!(found.delete().await);
        assert!(!disk.path().join("t/p=a%2Fb/bucket-0/f#1").exists());
        assert!(disk.path().join("t/p=a%2Fb/bucket-0/f").exists());
        let elsewhere = memory("wh");
        assert!(Unfinished::below(&elsewhere, elsewhere.prefix(), i64::MAX).await.unwrap().is_empty());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn delete_folder_when_links_then_what_they_point_at_stays() {
        let disk = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(disk.path().join("real")).unwrap();
        std::fs::write(disk.path().join("real/f"), "x").unwrap();
        std::fs::create_dir_all(disk.path().join("t")).unwrap();
        std::os::unix::fs::symlink(disk.path().join("real"), disk.path().join("t/link")).unwrap();
        std::os::unix::fs::symlink(disk.path().join("real"), disk.path().join("l")).unwrap();
        let root = open_store(disk.path().to_str().unwrap()).unwrap();
        for name in ["t", "l"] {
            delete_folder(&root.child(name).unwrap(), |_| false).await.unwrap();
            assert!(!disk.path().join(name).is_symlink() && !disk.path().join(name).exists());
        }
        assert!(disk.path().join("real/f").is_file());
    }

    #[tokio::test]
    async fn rename_folder_when_target_holds_files_or_store_has_no_folders_then_error() {
        let disk = tempfile::tempdir().unwrap();
        let local = open_store(disk.path().to_str().unwrap()).unwrap();
        for name in ["a/f", "b/f"] {
            put(&local, name, "x".to_owned()).await;
        }
        let at = |name: &str| local.child(name).unwrap();
        assert_eq!(rename_folder(&at("a"), &at("b")).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(rename_folder(&at("c"), &at("d")).await.unwrap_err().kind(), ErrorKind::NotFound);
        rename_folder(&at("a"), &at("c")).await.unwrap();
        assert!(disk.path().join("c/f").is_file());
        let store = memory("wh");
        let error = rename_folder(&store.child("a").unwrap(), &store.child("b").unwrap()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}
