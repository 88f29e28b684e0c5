//! `scripts.list`: which answers of a replay are not expected to hold, and which statements are not expected to succeed, one
//! line each, with the reason.
//!
//! ```text
//! <group>::<answer>  later    <reason>   a feature to come brings it: today the answer does not hold
//! <group>::<answer>  open     <reason>   the statements leave the rows open: only that the query runs is asked
//! <group>::<answer>  differs  <reason>   ours is another answer: scripts-ours/<group>/<answer>.jsonl, or a part of the right
//!                                        error in <answer>.error
//! <group>::"CALL sys.compact"  later  <reason>   statements that start like this fail today
//! ```
//! The name of an answer may end in `*`, a group may be `*`; a line with the whole name goes before. What is listed as `later`
//! and holds (of statements: all of a group that start like this) is an error, so that the list says what is true.

use std::fs;
use std::path::{Path, PathBuf};

/// Why an answer or a statement is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A feature to come brings it.
    Later,
    /// The statements leave the rows open.
    Open,
    /// Another answer is right.
    Differs,
}

#[derive(Debug, Clone)]
struct Line {
    number: usize,
    group: String,
    /// The name of an answer, or how statements start.
    pattern: String,
    statement: bool,
    kind: Kind,
    reason: String,
}

impl Line {
    fn is_of(&self, group: &str) -> bool {
        self.group == "*" || self.group == group
    }

    fn covers(&self, group: &str, name: &str) -> bool {
        !self.statement
            && self.is_of(group)
            && match self.pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => self.pattern == name,
            }
    }

    fn covers_statement(&self, group: &str, sql: &str) -> bool {
        self.statement && self.is_of(group) && starts_like(sql, &self.pattern)
    }
}

/// Whether a statement starts with the words of `pattern`, whatever their case and the blanks between.
fn starts_like(sql: &str, pattern: &str) -> bool {
    let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    sql.get(..pattern.len()).is_some_and(|start| start.eq_ignore_ascii_case(pattern))
}

/// The whole list.
#[derive(Debug, Clone, Default)]
pub struct ScriptsList {
    lines: Vec<Line>,
    ours: PathBuf,
}

/// What the list says of an answer or a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The line's number.
    pub line: usize,
    pub kind: Kind,
    pub reason: String,
}

impl ScriptsList {
    /// Reads the list; `ours` is the folder of our own answers.
    pub fn read(path: &Path, ours: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text, ours).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Reads the text of a list.
    pub fn parse(text: &str, ours: &Path) -> Result<Self, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let mut list = Self { lines: vec![], ours: ours.to_path_buf() };
        for (i, text) in lines {
            let line = line(i + 1, text).map_err(|e| format!("line {}: {e}", i + 1))?;
            let same = |other: &&Line| (&other.group, &other.pattern) == (&line.group, &line.pattern);
            if let Some(twin) = list.lines.iter().find(same) {
                return Err(format!("line {}: stands in line {} too", i + 1, twin.number));
            }
            list.lines.push(line);
        }
        Ok(list)
    }

    /// What the list says of an answer.
    pub fn answer(&self, group: &str, name: &str) -> Option<Entry> {
        let covering = || self.lines.iter().filter(|line| line.covers(group, name));
        covering().find(|line| line.pattern == name).or_else(|| covering().next()).map(entry)
    }

    /// What the list says of a statement.
    pub fn statement(&self, group: &str, sql: &str) -> Option<Entry> {
        let covering = self.lines.iter().filter(|line| line.covers_statement(group, sql));
        covering.max_by_key(|line| line.pattern.len()).map(entry)
    }

    /// Where our own answer lies, without its extension.
    pub fn ours(&self, group: &str, name: &str) -> PathBuf {
        self.ours.join(group).join(name)
    }

    /// Lines that say something of none of the answers and statements, each given with its group.
    pub fn idle_lines(&self, answers: &[(&str, String)], statements: &[(&str, &str)]) -> Vec<String> {
        let used = |line: &Line| {
            answers.iter().any(|(group, name)| line.covers(group, name))
                || statements.iter().any(|(group, sql)| line.covers_statement(group, sql))
        };
        let idle = self.lines.iter().filter(|line| !used(line));
        idle.map(|line| format!("line {}: {}::{}", line.number, line.group, line.pattern)).collect()
    }
}

fn entry(line: &Line) -> Entry {
    Entry { line: line.number, kind: line.kind, reason: line.reason.clone() }
}

fn line(number: usize, text: &str) -> Result<Line, String> {
    let (group, rest) = text.split_once("::").ok_or("a line starts with <group>::")?;
    let (pattern, statement, rest) = match rest.strip_prefix('"') {
        Some(quoted) => {
            let (pattern, rest) = quoted.split_once('"').ok_or("the quotes are not closed")?;
            (pattern, true, rest)
        }
        None => {
            let (pattern, rest) = rest.split_once(char::is_whitespace).ok_or("the kind is missing")?;
            (pattern, false, rest)
        }
    };
    let (kind, reason) = rest.trim().split_once(char::is_whitespace).ok_or("the reason is missing")?;
    let kind = match kind {
        "later" => Kind::Later,
        "open" if !statement => Kind::Open,
        "differs" if !statement => Kind::Differs,
        other => return Err(format!("unknown kind '{other}'")),
    };
    Ok(Line {
        number,
        group: group.to_string(),
        pattern: pattern.to_string(),
        statement,
        kind,
        reason: reason.trim().to_string(),
    })
}
