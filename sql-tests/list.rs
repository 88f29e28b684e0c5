//! `truth.list`: the answers that are not expected to hold, one line each, with the reason.
//!
//! ```text
//! <group>::<name>  later    <reason>   a feature to come brings it: today the query fails or gives other rows
//! <group>::<name>  differs  <reason>   ours is another answer: the right one lies in truth-ours/<group>/<name>.jsonl, or the
//!                                      error that is right (a part of its text) in <name>.error
//! <group>::<name>  newer    <reason>   not a difference: columns that later versions added follow those of the answer, and
//!                                      rows that tell of them those of a DESCRIBE
//! <group>::<name>  set:<columns>  <reason>   not a difference: lists in these columns (separated by commas) have no order
//! ```
//! A name may end in `*`; a line with the whole name goes before. The first line of a file in `truth-ours/` may hold another
//! query than the answer, which is then the one that is run: for an answer taken at an earlier state, or one whose first line
//! holds more than SQL.

use std::fs;
use std::path::{Path, PathBuf};

/// Why an answer is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// A feature to come brings it.
    Later,
    /// Another answer is right.
    Differs,
}

#[derive(Debug, Clone)]
struct Line {
    number: usize,
    pattern: String,
    listed: Option<Listed>,
    newer: bool,
    sets: Vec<String>,
    reason: String,
}

impl Line {
    fn covers(&self, name: &str) -> bool {
        match self.pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => self.pattern == name,
        }
    }
}

/// The whole list.
#[derive(Debug, Clone, Default)]
pub struct TruthList {
    lines: Vec<Line>,
    ours: PathBuf,
}

/// What the list says about one answer.
#[derive(Debug, Clone)]
pub struct Verdict {
    pub listed: Option<Listed>,
    pub reason: String,
    /// Whether columns may follow those of the answer.
    pub newer: bool,
    /// Columns whose lists are sets.
    pub sets: Vec<String>,
    /// Our own answer, or the part of an error, if there is one: `<ours>.jsonl` or `<ours>.error`.
    pub ours: PathBuf,
}

impl TruthList {
    /// Reads the list; `ours` is the folder of our own answers.
    pub fn read(path: &Path, ours: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text, ours).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Reads the text of a list.
    pub fn parse(text: &str, ours: &Path) -> Result<Self, String> {
        let mut lines: Vec<Line> = vec![];
        for (i, text) in text.lines().enumerate() {
            let number = i + 1;
            if text.trim().is_empty() || text.starts_with('#') {
                continue;
            }
            let mut words = text.split_whitespace();
            let (Some(pattern), Some(kind)) = (words.next(), words.next()) else {
                return Err(format!("line {number}: a name, a kind and a reason are needed"));
            };
            let reason = words.collect::<Vec<_>>().join(" ");
            if reason.is_empty() {
                return Err(format!("line {number}: the reason is missing"));
            }
            let (listed, sets) = match (kind, kind.strip_prefix("set:")) {
                ("later", _) => (Some(Listed::Later), vec![]),
                ("differs", _) => (Some(Listed::Differs), vec![]),
                ("newer", _) => (None, vec![]),
                (_, Some(columns)) => (None, columns.split(',').map(ToString::to_string).collect()),
                _ => return Err(format!("line {number}: unknown kind '{kind}'")),
            };
            if let Some(twin) = lines.iter().find(|l| l.pattern == pattern && l.listed.is_some() == listed.is_some()) {
                return Err(format!("line {number}: {pattern} stands in line {} too", twin.number));
            }
            let newer = kind == "newer";
            lines.push(Line { number, pattern: pattern.to_string(), listed, newer, sets, reason });
        }
        Ok(Self { lines, ours: ours.to_path_buf() })
    }

    /// What the list says about `<group>::<name>`.
    pub fn verdict(&self, name: &str) -> Verdict {
        let covering = || self.lines.iter().filter(|line| line.covers(name));
        let listed = || covering().filter(|line| line.listed.is_some());
        let line = listed().find(|line| line.pattern == name).or_else(|| listed().next());
        Verdict {
            listed: line.and_then(|line| line.listed),
            reason: line.map(|line| line.reason.clone()).unwrap_or_default(),
            newer: covering().any(|line| line.newer),
            sets: covering().flat_map(|line| line.sets.clone()).collect(),
            ours: self.ours.join(name.replace("::", "/")),
        }
    }

    /// Lines that name none of the answers.
    pub fn idle_lines(&self, names: &[String]) -> Vec<String> {
        let idle = self.lines.iter().filter(|line| !names.iter().any(|name| line.covers(name)));
        idle.map(|line| format!("line {}: {}", line.number, line.pattern)).collect()
    }
}
