//! The groups of tables that other engines wrote: where they lie, and how a packed one is unpacked, once, under the target folder.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use twox_hash::XxHash64;

/// A folder list that replaces the default one: each entry a folder of groups or one group, packed or not.
pub const FOLDERS: &str = "TIDELAKE_FIXTURES";

const ARCHIVE: &str = "tables.tar.zst";

/// A group, unpacked: `warehouse/<database>.db/<table>` and `expected/<name>.jsonl`.
#[derive(Debug, Clone)]
pub struct Group {
    pub name: String,
    /// Where its scripts lie.
    pub folder: PathBuf,
    pub warehouse: PathBuf,
    /// The one database of the warehouse.
    pub database: String,
    /// Answer files by name, sorted.
    pub answers: Vec<(String, PathBuf)>,
}

/// The folder of the groups that lie in the repository.
pub fn own_folder() -> PathBuf {
    suites_folder().join("fixtures")
}

/// The folder of the suites.
pub fn suites_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("sql-tests")
}

/// The groups to test: those of [`FOLDERS`], or else the repository's own.
pub fn groups() -> Result<Vec<Group>, String> {
    let folders = match env::var_os(FOLDERS) {
        Some(list) => env::split_paths(&list).filter(|path| !path.as_os_str().is_empty()).collect(),
        None => vec![own_folder()],
    };
    let mut groups: Vec<Group> = vec![];
    for folder in folders {
        for group in groups_in(&folder)? {
            if groups.iter().any(|other| other.name == group.name) {
                return Err(format!("two groups are called {}: the second is {}", group.name, folder.display()));
            }
            groups.push(group);
        }
    }
    groups.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(groups)
}

/// One of the repository's own groups.
pub fn own_group(name: &str) -> Result<Group, String> {
    open_group(&own_folder().join(name))
}

fn groups_in(folder: &Path) -> Result<Vec<Group>, String> {
    if is_group(folder) {
        return Ok(vec![open_group(folder)?]);
    }
    let groups: Vec<PathBuf> = entries(folder)?.into_iter().filter(|path| is_group(path)).collect();
    if groups.is_empty() {
        return Err(format!("{}: neither a group nor a folder of groups", folder.display()));
    }
    groups.iter().map(|group| open_group(group)).collect()
}

fn is_group(folder: &Path) -> bool {
    folder.join(ARCHIVE).is_file() || (folder.join("warehouse").is_dir() && folder.join("expected").is_dir())
}

fn open_group(folder: &Path) -> Result<Group, String> {
    let name = file_name(&fs::canonicalize(folder).map_err(|e| format!("{}: {e}", folder.display()))?);
    let root =
        if folder.join(ARCHIVE).is_file() { unpacked(&name, &folder.join(ARCHIVE))? } else { folder.to_path_buf() };
    let warehouse = root.join("warehouse");
    let databases: Vec<String> =
        entries(&warehouse)?.iter().filter_map(|path| Some(file_name(path).strip_suffix(".db")?.to_string())).collect();
    let [database] = databases.as_slice() else {
        return Err(format!("{}: one database was expected, not {databases:?}", warehouse.display()));
    };
    let answers = entries(&root.join("expected"))?
        .into_iter()
        .filter(|path| path.extension() == Some(OsStr::new("jsonl")))
        .map(|path| (file_name(&path.with_extension("")), path))
        .collect();
    Ok(Group { name, folder: folder.to_path_buf(), warehouse, database: database.clone(), answers })
}

/// Where the archive of a group lies unpacked. The folder's name holds a hash of the archive, and the folder appears whole: a
/// changed archive is unpacked anew, and processes that unpack at the same time do not disturb each other.
fn unpacked(name: &str, archive: &Path) -> Result<PathBuf, String> {
    let failed = |e: io::Error| format!("{}: {e}", archive.display());
    let bytes = fs::read(archive).map_err(failed)?;
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures");
    let folder = parent.join(format!("{name}-{:016x}", XxHash64::oneshot(0, &bytes)));
    if folder.is_dir() {
        return Ok(folder);
    }
    let partial = parent.join(format!(".{name}-{}", process::id()));
    fs::create_dir_all(&partial).map_err(failed)?;
    let tar = zstd::decode_all(bytes.as_slice()).map_err(failed)?;
    tar::Archive::new(tar.as_slice()).unpack(&partial).map_err(failed)?;
    match fs::rename(&partial, &folder) {
        Err(_) if folder.is_dir() => fs::remove_dir_all(&partial).map_err(failed)?,
        other => other.map_err(failed)?,
    }
    Ok(folder)
}

/// Copies a folder with all that is in it.
pub fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            io::copy(&mut File::open(entry.path())?, &mut File::create(target)?)?;
        }
    }
    Ok(())
}

/// The entries of a folder, sorted by name.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |e: io::Error| format!("{}: {e}", folder.display());
    let paths = fs::read_dir(folder).map_err(failed)?.map(|entry| Ok(entry.map_err(failed)?.path()));
    let mut paths = paths.collect::<Result<Vec<_>, String>>()?;
    paths.sort();
    Ok(paths)
}

/// The last part of a path as text.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
