//! Names: the identifier of a table, and the grammar of object names, which works wherever a table's name does.
//!
//! ```text
//! object  := base [ '@' version ]
//! base    := table [ '$branch_' branch ] [ '$' system table ]
//! version := snapshot id | 'tag:' tag | 'ts:' (epoch milliseconds | date [ time [ zone ] ])
//! ```
//! `t`, `t$snapshots`, `t$branch_b`, `t$branch_b$files`, `t@5`, `t$branch_b@tag:release`, `t@ts:2024-01-02 10:00`. A table's
//! name may hold `@` where no version follows it, and never `$` (`spec/metadata.md 1.1`).
//!
//! May import: `error`, `store`.

use std::fmt;
use std::str::FromStr;

use super::travel::timestamp_millis;
use crate::error::{Error, Result};
use crate::store::files::MAIN_BRANCH;

/// What marks a branch in an object name.
const BRANCH_PREFIX: &str = "branch_";

/// How a version is written, for messages.
const VERSION_FORMS: &str = "a version is written t@5 (snapshot), \"t@tag:name\" or \"t@ts:2024-01-02 10:00:00\"";

/// A table of a catalog, or a branch of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identifier {
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
    /// Branch; `None` for the main one.
    pub branch: Option<String>,
}

impl Identifier {
    /// The table `database.table`.
    pub fn new(database: impl Into<String>, table: impl Into<String>) -> Self {
        Self { database: database.into(), table: table.into(), branch: None }
    }

    /// The same table in `branch`; `None` and `main` are the main branch.
    #[must_use]
    pub fn with_branch(mut self, branch: Option<&str>) -> Self {
        self.branch = branch.filter(|branch| *branch != MAIN_BRANCH).map(str::to_owned);
        self
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.table)?;
        match &self.branch {
            Some(branch) => write!(f, "${BRANCH_PREFIX}{branch}"),
            None => Ok(()),
        }
    }
}

/// Which state of a table is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum VersionSpec {
    /// The snapshot with this id.
    Snapshot(i64),
    /// The snapshot that this tag keeps.
    Tag(String),
    /// The latest snapshot that is not later: epoch milliseconds, or date and time ([`timestamp_millis`]).
    Timestamp(String),
}

impl fmt::Display for VersionSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Snapshot(id) => write!(f, "{id}"),
            Self::Tag(name) => write!(f, "tag:{name}"),
            Self::Timestamp(text) => write!(f, "ts:{text}"),
        }
    }
}

/// An object name taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectName {
    /// Table.
    pub table: String,
    /// Branch; `None` for the main one.
    pub branch: Option<String>,
    /// System table, as written.
    pub system_table: Option<String>,
    /// Version; `None` for the latest.
    pub version: Option<VersionSpec>,
}

impl FromStr for ObjectName {
    type Err = Error;

    /// Invalid when the text is no object name; the message says what is wrong and what is right.
    fn from_str(text: &str) -> Result<Self> {
        let bad = |what: &str| Error::invalid(format!("{text:?} is not the name of a table: {what}"));
        let (base, version) = split_version(text).map_err(|what| bad(&what))?;
        let parts: Vec<&str> = base.split('$').collect();
        let (table, branch, system_table) = match parts[..] {
            [table] => (table, None, None),
            [table, second] => match second.strip_prefix(BRANCH_PREFIX) {
                Some(branch) => (table, Some(branch), None),
                None => (table, None, Some(second)),
            },
            [table, second, third] => match second.strip_prefix(BRANCH_PREFIX) {
                Some(branch) => (table, Some(branch), Some(third)),
                None => return Err(bad("of two parts after $ the first is branch_<name>")),
            },
            _ => return Err(bad("it has more than the parts table$branch_<name>$<system table>")),
        };
        if table.trim().is_empty() {
            return Err(bad("the table is empty"));
        }
        if branch.is_some_and(|branch| branch.trim().is_empty()) {
            return Err(bad("the branch is empty"));
        }
        if system_table.is_some_and(|name| name.trim().is_empty()) {
            return Err(bad("nothing follows $"));
        }
        if let Some(name) = [Some(table), branch].into_iter().flatten().find(|name| !is_folder_name(name)) {
            return Err(bad(&format!("{name:?} can't be the name of a folder")));
        }
        let name = Self {
            table: table.to_owned(),
            branch: branch.filter(|branch| *branch != MAIN_BRANCH).map(str::to_owned),
            system_table: system_table.map(str::to_owned),
            version,
        };
        Ok(name)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table)?;
        if let Some(branch) = &self.branch {
            write!(f, "${BRANCH_PREFIX}{branch}")?;
        }
        if let Some(name) = &self.system_table {
            write!(f, "${name}")?;
        }
        match &self.version {
            Some(version) => write!(f, "@{version}"),
            None => Ok(()),
        }
    }
}

/// Whether `name` can be a folder right in another one.
pub(crate) fn is_folder_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains(|c: char| c == '/' || c.is_ascii_control())
}

/// Splits at the first `@` that a version follows. The rest is one to its end, so that a tag's name may hold `@` and `$`.
fn split_version(text: &str) -> Result<(&str, Option<VersionSpec>), String> {
    for (at, _) in text.match_indices('@') {
        if let Some(version) = version(&text[at + 1..])? {
            return Ok((&text[..at], Some(version)));
        }
    }
    Ok((text, None))
}

/// `None` when `text` is not meant as a version.
fn version(text: &str) -> Result<Option<VersionSpec>, String> {
    if text.is_empty() {
        return Err(format!("nothing follows @; {VERSION_FORMS}"));
    }
    if let Some(tag) = after(text, "tag:") {
        if tag.trim().is_empty() {
            return Err(format!("no tag follows tag:; {VERSION_FORMS}"));
        }
        return Ok(Some(VersionSpec::Tag(tag.to_owned())));
    }
    if let Some(time) = after(text, "ts:") {
        timestamp_millis(time, &chrono::Utc).map_err(|error| error.message().to_owned())?;
        return Ok(Some(VersionSpec::Timestamp(time.trim().to_owned())));
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match &text[digits..] {
        _ if digits == 0 => Ok(None),
        "" => match text.parse() {
            Ok(id) => Ok(Some(VersionSpec::Snapshot(id))),
            Err(_) => Err(format!("{text} is too great for a snapshot id")),
        },
        rest if rest.starts_with('$') => Err(format!("the version comes last, as in t{rest}@{}", &text[..digits])),
        _ => Ok(None),
    }
}

/// What follows `prefix`, which may be written in capitals.
fn after<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn name(table: &str, branch: Option<&str>, system_table: Option<&str>, version: Option<VersionSpec>) -> ObjectName {
        ObjectName {
            table: table.to_owned(),
            branch: branch.map(str::to_owned),
            system_table: system_table.map(str::to_owned),
            version,
        }
    }

    #[test]
    fn from_str_when_every_form_then_its_parts_and_back() {
        use VersionSpec::{Snapshot, Tag, Timestamp};
        let tag = |text: &str| Some(Tag(text.to_owned()));
        let time = |text: &str| Some(Timestamp(text.to_owned()));
        for (text, expected) in [
            ("t", name("t", None, None, None)),
            ("t$snapshots", name("t", None, Some("snapshots"), None)),
            ("t$branch_b", name("t", Some("b"), None, None)),
            ("t$branch_b$files", name("t", Some("b"), Some("files"), None)),
            ("t$branch_a_branch_b", name("t", Some("a_branch_b"), None, None)),
            ("t$branch", name("t", None, Some("branch"), None)),
            ("t$Branch_b", name("t", None, Some("Branch_b"), None)),
            ("t@5", name("t", None, None, Some(Snapshot(5)))),
            ("t@0", name("t", None, None, Some(Snapshot(0)))),
            ("t$files@5", name("t", None, Some("files"), Some(Snapshot(5)))),
            ("t$branch_b@5", name("t", Some("b"), None, Some(Snapshot(5)))),
            ("t$branch_b$files@tag:x", name("t", Some("b"), Some("files"), tag("x"))),
            ("t@tag:release 1.0", name("t", None, None, tag("release 1.0"))),
            ("t@tag:me@5", name("t", None, None, tag("me@5"))),
            ("t@tag:a$b", name("t", None, None, tag("a$b"))),
            ("t@tag:tag:x", name("t", None, None, tag("tag:x"))),
            ("t@tag:12", name("t", None, None, tag("12"))),
            ("t@ts:1700000000000", name("t", None, None, time("1700000000000"))),
            ("t@ts:2024-01-02 10:00:00.5", name("t", None, None, time("2024-01-02 10:00:00.5"))),
            ("t@ts:2024-01-02T10:00:00Z", name("t", None, None, time("2024-01-02T10:00:00Z"))),
            // `@` belongs to the name where no version follows.
            ("a@b", name("a@b", None, None, None)),
            ("a@b@5", name("a@b", None, None, Some(Snapshot(5)))),
            ("a@5b", name("a@5b", None, None, None)),
            ("t$branch_a@b", name("t", Some("a@b"), None, None)),
            ("@5x", name("@5x", None, None, None)),
            ("ünï cödé-\"'`.%2F:\\", name("ünï cödé-\"'`.%2F:\\", None, None, None)),
        ] {
            let parsed: ObjectName = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed, expected, "{text}");
            assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn from_str_when_written_otherwise_then_one_form() {
        assert_eq!("t$branch_main".parse::<ObjectName>().unwrap(), name("t", None, None, None));
        assert_eq!("t@TAG:X".parse::<ObjectName>().unwrap().to_string(), "t@tag:X");
        assert_eq!("t@005".parse::<ObjectName>().unwrap().version, Some(VersionSpec::Snapshot(5)));
        assert_eq!("t@ts: 5 ".parse::<ObjectName>().unwrap().to_string(), "t@ts:5");
    }

    #[test]
    fn from_str_when_wrong_then_invalid_and_why() {
        for (text, why) in [
            ("", "the table is empty"),
            (" ", "the table is empty"),
            ("$files", "the table is empty"),
            ("@5", "the table is empty"),
            ("$branch_b", "the table is empty"),
            ("t$", "nothing follows $"),
            ("t$branch_", "the branch is empty"),
            ("t$branch_$files", "the branch is empty"),
            ("t$branch_b$", "nothing follows $"),
            ("t$$files", "of two parts after $ the first is branch_"),
            ("t$a$b", "of two parts after $ the first is branch_"),
            ("t$files$branch_b", "of two parts after $ the first is branch_"),
            ("t$branch_b$files$x", "more than the parts"),
            ("t@", "nothing follows @"),
            ("t$files@", "nothing follows @"),
            ("a@b@", "nothing follows @"),
            ("t@tag:", "no tag follows"),
            ("t@tag: ", "no tag follows"),
            ("t@ts:", "is not a time"),
            ("t@ts:yesterday", "is not a time"),
            ("t@5$files", "the version comes last, as in t$files@5"),
            ("t@99999999999999999999", "too great"),
            ("a/b", "folder"),
            ("..", "folder"),
            ("t$branch_../x", "folder"),
            ("a\nb", "folder"),
        ] {
            let error = text.parse::<ObjectName>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{text}");
            assert!(error.message().contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn identifier_when_shown_then_database_table_branch() {
        assert_eq!(Identifier::new("db", "t").to_string(), "db.t");
        assert_eq!(Identifier::new("db", "t").with_branch(Some("b")).to_string(), "db.t$branch_b");
        assert_eq!(Identifier::new("db", "t").with_branch(Some("main")).to_string(), "db.t");
    }
}
