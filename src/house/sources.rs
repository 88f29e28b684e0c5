//! What no file of the repository may hold: stubs, switched-off tests, thousands of lines, names of one machine.

use std::fs;

use super::{files_below, relative, root, rust_files};

const CODE: [&str; 4] = ["src", "sql-tests", "benches", "examples"];
const MOST_LINES: usize = 800;

// Put together, so that this file does not hold what it looks for.
const STUBS: [&str; 3] = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[ign", "ore")];
const MACHINES: [&str; 5] = [
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/tmp/", "fx"),
];
const TEXTS: [&str; 11] = ["rs", "toml", "md", "sh", "sql", "slt", "txt", "yml", "yaml", "py", "lock"];
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn rust_files_when_read_then_short_enough() {
    let long: Vec<String> = rust_files(&CODE)
        .into_iter()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, lines)| *lines > MOST_LINES)
        .map(|(path, lines)| format!("{path}: {lines} lines, split it along a seam a reader would guess"))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn rust_files_when_read_then_without_stubs() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files(&CODE) {
        for (number, line) in text.lines().enumerate() {
            if STUBS.iter().any(|stub| line.contains(stub)) {
                wrong.push(format!("{path}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn texts_when_read_then_name_no_machine() {
    let mut wrong = Vec::new();
    // The tables of other engines lie there as they were made.
    for path in files_below(&root(), &["sql-tests/fixtures", "examples/warehouse"]) {
        let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned());
        let is_text = extension.is_none_or(|extension| TEXTS.contains(&extension.as_str()));
        let Some(text) = is_text.then(|| fs::read_to_string(&path).ok()).flatten() else { continue };
        for (number, line) in text.lines().enumerate() {
            if MACHINES.iter().any(|folder| names_folder(line, folder)) {
                wrong.push(format!("{}:{}: {}", relative(&path), number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "paths of one machine:\n{}", wrong.join("\n"));
}

#[test]
fn lock_file_when_read_then_names_the_public_registry_only() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let wrong: Vec<&str> = lock
        .lines()
        .filter_map(|line| line.strip_prefix("source = "))
        .filter(|source| source.trim_matches('"') != REGISTRY)
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a line names a folder from the root of the file system, not one inside another path.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        !line[..at].ends_with(|c: char| c.is_alphanumeric() || ['.', '_', '-', '}', '>', '/'].contains(&c))
    })
}

#[test]
fn names_folder_when_inside_another_path_then_false() {
    assert!(names_folder(&format!("\"{}x\"", MACHINES[3]), MACHINES[3]));
    assert!(!names_folder(&format!("some{}x", MACHINES[3]), MACHINES[3]));
}
