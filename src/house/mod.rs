//! The rules of the house, as tests: licences of what is linked in, who may import whom, what no file may hold; and what tests
//! of all rooms need.
//! Compiled for tests only; imports nothing of the crate.

mod imports;
mod licences;
mod random;
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) use random::Random;

/// The folder of the package.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder, in order; folders that `skip` names, hidden ones but `.ci`, git's own and build folders are left
/// out.
fn files_below(folder: &Path, skip: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut entries: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.unwrap().path()).collect(),
        Err(_) => return files,
    };
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == ".git" {
            continue;
        }
        if path.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci";
            if !hidden && !skip.iter().any(|skipped| path.ends_with(skipped)) && !path.join("CACHEDIR.TAG").exists() {
                files.extend(files_below(&path, skip));
            }
        } else {
            files.push(path);
        }
    }
    files
}

/// The Rust files of the package, as paths from its root, with their text.
fn rust_files(folders: &[&str]) -> Vec<(String, String)> {
    folders
        .iter()
        .flat_map(|folder| files_below(&root().join(folder), &["fixtures"]))
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| (relative(&path), fs::read_to_string(&path).unwrap()))
        .collect()
}

/// A path from the root of the package, with slashes.
fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}
