//! An answer file: its first line says what was asked and how, each further line is one row.

use std::fs;
use std::path::Path;

use crate::json::Json;

/// How an answer came about, as the beginning of its first line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// A plain query, which holds on the tables as they lie.
    Plain,
    /// An unbounded query; rows carry `_kind`.
    Streaming,
    /// Taken while the tables were still being written.
    EarlierState,
    /// The engine ran in this time zone.
    Zone(String),
    /// What files hold, or how a library lists a changelog.
    NotSql,
}

/// One file of `expected/`.
#[derive(Debug, Clone)]
pub struct Answer {
    pub asked: Asked,
    pub sql: String,
    /// Column names in their order; empty where there are no rows.
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Json>>,
}

impl Answer {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(&text).map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let (asked, sql) = asked(first.strip_prefix("// ").ok_or("the first line is not `// ` and a query")?);
        let mut answer = Self { asked, sql: sql.to_string(), columns: vec![], rows: vec![] };
        for (number, line) in rest.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            answer.push(line).map_err(|e| format!("line {}: {e}", number + 2))?;
        }
        Ok(answer)
    }

    fn push(&mut self, line: &str) -> Result<(), String> {
        let Json::Object(fields) = Json::parse(line)? else { return Err("not an object".to_string()) };
        let (columns, row): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
        if self.rows.is_empty() {
            self.columns = columns;
        } else if self.columns != columns {
            return Err(format!("columns {columns:?} after {:?}", self.columns));
        }
        self.rows.push(row);
        Ok(())
    }
}

fn asked(line: &str) -> (Asked, &str) {
    match line.split_once(": ") {
        Some(("streaming", sql)) => (Asked::Streaming, sql),
        Some(("earlier state", sql)) => (Asked::EarlierState, sql),
        Some(("not SQL", what)) => (Asked::NotSql, what),
        Some((zone, sql)) if zone.starts_with("zone ") && !zone[5..].contains(' ') => {
            (Asked::Zone(zone[5..].to_string()), sql)
        }
        _ => (Asked::Plain, line),
    }
}
