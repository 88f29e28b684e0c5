//! Who may import whom: one way only, so that each room can be read and changed without those above it.

use super::rust_files;

/// Each room and the rooms that it may name. `error` and `options` are under everything.
const ROOMS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("options", &["error"]),
    ("spec", &["error", "options"]),
    ("store", &["error", "options", "spec"]),
    ("format", &["error", "options", "spec", "store"]),
    ("table", &["error", "options", "spec", "store"]),
    ("catalog", &["error", "options", "spec", "store", "table"]),
    ("plan", &["error", "options", "spec", "store", "format", "table"]),
    ("read", &["error", "options", "spec", "store", "format", "table", "plan"]),
    ("write", &["error", "options", "spec", "store", "format", "table", "plan", "read"]),
    ("commit", &["error", "options", "spec", "store", "format", "table", "plan", "read", "write"]),
    ("compact", &["error", "options", "spec", "store", "format", "table", "plan", "read", "write", "commit"]),
    ("maintain", &["error", "options", "spec", "store", "format", "table", "plan", "read", "write", "commit"]),
    (
        "writer",
        &[
            "error", "options", "spec", "store", "format", "table", "plan", "read", "write", "commit", "compact",
            "maintain",
        ],
    ),
    (
        "sql",
        &[
            "error", "options", "spec", "store", "format", "table", "catalog", "plan", "read", "write", "commit",
            "compact", "maintain", "writer",
        ],
    ),
    (
        "cluster",
        &[
            "error", "options", "spec", "store", "format", "table", "catalog", "plan", "read", "write", "commit",
            "compact", "maintain", "writer", "sql",
        ],
    ),
];

/// Crates and types that a room must not know, whatever it imports of ours.
const FOREIGN: &[(&[&str], &[&str])] = &[
    (&["options", "spec"], &["datafusion", "object_store", "tokio", "std::fs", "std::net"]),
    (
        &["store", "format", "table", "catalog", "plan", "read", "write", "commit", "compact", "maintain", "writer"],
        &["SessionContext", "sqlparser", "datafusion::sql"],
    ),
];

/// What the crate's root re-exports for all, and what tests of all rooms need.
const ROOT_ITEMS: [&str; 4] = ["Error", "ErrorKind", "Result", "house"];

#[test]
fn imports_when_followed_then_point_one_way() {
    let mut wrong = Vec::new();
    for (path, text) in rust_files(&["src"]) {
        let modules = module_path(&path);
        let Some(room) = modules.first() else { continue };
        if ["bin", "house"].contains(&room.as_str()) {
            continue;
        }
        let Some((_, allowed)) = ROOMS.iter().find(|(name, _)| name == room) else {
            wrong.push(format!("{path}: the room {room} is not in the table of rooms"));
            continue;
        };
        let code = code_of(&text);
        for name in crate_names(&code) {
            if name != *room && !allowed.contains(&name.as_str()) && !ROOT_ITEMS.contains(&name.as_str()) {
                wrong.push(format!("{path}: {room} may not import {name}"));
            }
        }
        if code.contains(&"super::".repeat(modules.len())) {
            wrong.push(format!("{path}: leaves its room by super; write crate::<room>"));
        }
        for (_, names) in FOREIGN.iter().filter(|(rooms, _)| rooms.contains(&room.as_str())) {
            for name in names.iter().filter(|name| has_path(&code, name)) {
                wrong.push(format!("{path}: {room} may not know {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rooms_when_read_then_without_circles() {
    for (position, (room, allowed)) in ROOMS.iter().enumerate() {
        for name in *allowed {
            let other = ROOMS.iter().position(|(known, _)| known == name);
            assert!(other.is_some_and(|other| other < position), "{room} imports {name}");
        }
    }
}

#[test]
fn crate_names_when_grouped_or_commented_then_only_what_is_imported() {
    let code = code_of(
        "use crate::error::{Error, Result};\nuse crate::{plan::{Plan, a::B}, store};\n\
         // crate::sql\n/// See [`crate::read`].\nlet x = crate::spec::f(); // crate::write\n\
         #[cfg(test)]\nmod tests { use crate::catalog; }",
    );
    assert_eq!(crate_names(&code), ["error", "plan", "store", "spec"]);
    assert!(has_path("use datafusion::x;", "datafusion") && !has_path("datafusion_session::x", "datafusion"));
}

/// The modules from the crate's root to a file: `src/store/paths.rs` is `store`, `paths`.
fn module_path(path: &str) -> Vec<String> {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    inner.split('/').filter(|name| !["mod", "lib"].contains(name)).map(str::to_owned).collect()
}

/// The text without comments and without what follows the first test module.
fn code_of(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            break;
        }
        // Slashes inside a string, as in a URL, follow a colon.
        let end = line.match_indices("//").find(|(at, _)| !line[..*at].ends_with(':')).map_or(line.len(), |(at, _)| at);
        lines.push(&line[..end]);
    }
    lines.join("\n")
}

/// The first names of all paths that begin at the crate's root.
fn crate_names(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_names(group)),
            None => names.push(identifier(rest)),
        }
    }
    names
}

/// The first name of each item of a group of imports, up to its closing brace.
fn group_names(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0;
    let mut at_start = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            _ if at_start && !c.is_whitespace() => {
                names.push(identifier(&group[at..]));
                at_start = false;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Whether the code names a path or type, as a whole word.
fn has_path(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        !code[..at].ends_with(word) && !code[at + name.len()..].starts_with(word)
    })
}
