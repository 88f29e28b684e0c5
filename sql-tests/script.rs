//! A script of statements as it lies in a group of fixtures: statements that end with `;` at the end of a line, and directives in
//! comments before them (`-- @expect NAME`, `-- @fails`, `-- @stream`, `-- @batch`, `-- @limit N`, `-- @sleep MS`).

use std::fs;
use std::path::Path;
use std::time::Duration;

/// One statement of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The script's name without its extension.
    pub script: String,
    /// Where the statement starts, counted from one.
    pub line: usize,
    /// The statement without its semicolon.
    pub sql: String,
    /// The answer that its rows must equal, or that holds the error.
    pub expect: Option<String>,
    /// Whether it must fail.
    pub fails: bool,
    /// Whether the session streams.
    pub streaming: bool,
    /// How long to wait before it.
    pub sleep: Duration,
}

impl Step {
    /// The name of its trial, if it has one of its own.
    pub fn trial(&self) -> Option<String> {
        match &self.expect {
            Some(name) => Some(name.clone()),
            None if self.fails => Some(format!("{}_{}_fails", self.script, self.line)),
            None => None,
        }
    }

    /// Its first words on one line.
    pub fn start(&self) -> String {
        let text = self.sql.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.chars().count() > 100 { text.chars().take(100).chain("..".chars()).collect() } else { text }
    }
}

/// Reads the script in a file.
pub fn read(path: &Path) -> Result<Vec<Step>, String> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    parse(&name, &text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Reads the text of a script.
pub fn parse(script: &str, text: &str) -> Result<Vec<Step>, String> {
    let fresh = |streaming| Step {
        script: script.to_string(),
        line: 0,
        sql: String::new(),
        expect: None,
        fails: false,
        streaming,
        sleep: Duration::ZERO,
    };
    let mut steps: Vec<Step> = vec![];
    let mut step = fresh(false);
    for (number, line) in text.lines().enumerate().map(|(i, line)| (i + 1, line)) {
        let wrong = |what: String| format!("line {number}: {what}");
        if step.sql.is_empty() {
            if line.trim().is_empty() {
                continue;
            }
            if let Some(comment) = line.trim_start().strip_prefix("--") {
                directive(comment.trim(), &mut step).map_err(wrong)?;
                continue;
            }
            step.line = number;
        }
        if !step.sql.is_empty() {
            step.sql.push('\n');
        }
        step.sql.push_str(line);
        if let Some(sql) = step.sql.trim_end().strip_suffix(';') {
            let streaming = step.streaming;
            step.sql = sql.to_string();
            steps.push(std::mem::replace(&mut step, fresh(streaming)));
        }
    }
    if !step.sql.is_empty() {
        return Err(format!("line {}: the statement has no ';' at the end of a line", step.line));
    }
    Ok(steps)
}

fn directive(comment: &str, step: &mut Step) -> Result<(), String> {
    let Some(directive) = comment.strip_prefix('@') else { return Ok(()) };
    let mut words = directive.split_whitespace();
    match (words.next(), words.next()) {
        (Some("batch"), None) => step.streaming = false,
        (Some("stream"), None) => step.streaming = true,
        (Some("fails"), None) => step.fails = true,
        (Some("expect"), Some(name)) => step.expect = Some(name.to_string()),
        (Some("limit"), Some(rows)) => {
            rows.parse::<usize>().map_err(|e| format!("@limit {rows}: {e}"))?;
        }
        (Some("sleep"), Some(millis)) => {
            step.sleep = Duration::from_millis(millis.parse().map_err(|e| format!("@sleep {millis}: {e}"))?);
        }
        _ => return Err(format!("'@{directive}' is not a directive")),
    }
    Ok(())
}
