//! Completion, hints and the end of a statement at the prompt.

use std::borrow::Cow;
use std::collections::BTreeSet;

use datafusion::common::TableReference;
use datafusion::common::config::Dialect;
use datafusion_cli::helper::CliHelper;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper};
use tidelake::LakeSession;
use tokio::runtime::Handle;

const KEYWORDS: [&str; 68] = [
    "ALL",
    "ANALYZE",
    "AND",
    "ARRAY",
    "AS",
    "ASC",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "CATALOG",
    "CATALOGS",
    "COUNT",
    "CREATE",
    "CROSS",
    "CURRENT",
    "DATABASE",
    "DATABASES",
    "DATE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FOR",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INTERSECT",
    "INTERVAL",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "NOT",
    "NULL",
    "OF",
    "OFFSET",
    "ON",
    "OPTIONS",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "RESET",
    "RIGHT",
    "SELECT",
    "SET",
    "SHOW",
    "SYSTEM_TIME",
    "TABLES",
    "THEN",
    "TIMESTAMP",
    "UNION",
    "USE",
    "VERSION",
    "WHEN",
    "WHERE",
    "WITH",
];

/// What the line editor asks.
pub(crate) struct LineHelper {
    session: LakeSession,
    handle: Handle,
    /// Colours and the hint on an empty line.
    plain: CliHelper,
}

impl LineHelper {
    pub(crate) fn new(session: LakeSession, handle: Handle) -> Self {
        let color = std::env::var_os("NO_COLOR").is_none();
        Self { session, handle, plain: CliHelper::new(&Dialect::Generic, color) }
    }

    /// Names that can stand at the end of `before`, a line up to the word that is being completed.
    fn names(&self, before: &str) -> BTreeSet<String> {
        let (catalog, database) = self.session.current();
        let context = self.session.context();
        let tables_of = |catalog: &str, database: &str| {
            let schema = context.catalog(catalog).and_then(|catalog| catalog.schema(database));
            schema.map(|schema| schema.table_names()).unwrap_or_default()
        };
        let qualifier: Vec<&str> = match before.strip_suffix('.') {
            Some(path) => {
                let start = path.rfind(|c: char| !is_name(c) && c != '.').map_or(0, |i| i + 1);
                path[start..].split('.').collect()
            }
            None => Vec::new(),
        };
        let mut names = BTreeSet::new();
        match qualifier.as_slice() {
            [] => {
                names.extend(tables_of(&catalog, &database));
                names.extend(context.catalog(&catalog).map(|catalog| catalog.schema_names()).unwrap_or_default());
                names.extend(context.catalog_names());
                names.extend(self.columns(before));
            }
            [first] => {
                names.extend(tables_of(&catalog, first));
                names.extend(context.catalog(first).map(|catalog| catalog.schema_names()).unwrap_or_default());
                // An alias or a table: the columns of all tables of the line.
                names.extend(self.columns(before));
            }
            [first, second] => {
                names.extend(tables_of(first, second));
                names.extend(self.columns(before));
            }
            _ => {}
        }
        names
    }

    /// The columns of the tables that a line names.
    fn columns(&self, line: &str) -> BTreeSet<String> {
        let words = line.split(|c: char| !is_name(c) && c != '.');
        let mut columns = BTreeSet::new();
        for word in words.filter(|word| !word.is_empty() && !KEYWORDS.contains(&word.to_ascii_uppercase().as_str())) {
            let reference = TableReference::parse_str(word);
            let provider = self.handle.block_on(self.session.context().table_provider(reference));
            if let Ok(provider) = provider {
                columns.extend(provider.schema().fields().iter().map(|field| field.name().clone()));
            }
        }
        columns
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '@')
}

/// Where the word at the end of `line` starts.
fn word_start(line: &str) -> usize {
    line.rfind(|c: char| !is_name(c)).map_or(0, |i| i + line[i..].chars().next().map_or(1, char::len_utf8))
}

impl Completer for LineHelper {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _context: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..pos];
        let start = word_start(before);
        let word = &before[start..];
        let qualified = before[..start].ends_with('.');
        if word.is_empty() && !qualified {
            return Ok((pos, Vec::new()));
        }
        let lower = word.to_lowercase();
        let plain = |name: &str| name.chars().all(|c| is_name(c) && !c.is_uppercase());
        // The whole line may name tables behind the cursor: SELECT <here> FROM t.
        let mut names = self.names(&before[..start]);
        names.extend(self.columns(&line[pos..]));
        let mut found: Vec<Pair> = names
            .into_iter()
            .filter(|name| name.to_lowercase().starts_with(&lower))
            .map(|name| Pair {
                replacement: if plain(&name) { name.clone() } else { format!("`{name}`") },
                display: name,
            })
            .collect();
        if !qualified {
            let in_lower_case = word.chars().all(|c| !c.is_uppercase());
            let keywords = KEYWORDS.iter().filter(|keyword| keyword.to_lowercase().starts_with(&lower));
            found.extend(keywords.map(|keyword| {
                let text = if in_lower_case { keyword.to_lowercase() } else { (*keyword).to_owned() };
                Pair { display: text.clone(), replacement: text }
            }));
        }
        Ok((start, found))
    }
}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let input = context.input().trim();
        let ends = input.is_empty() || input.starts_with('\\') || tidelake::sql::ends_statement(input);
        self.plain.reset_hint();
        Ok(if ends { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for LineHelper {
    type Hint = String;

    fn hint(&self, line: &str, pos: usize, context: &Context<'_>) -> Option<String> {
        self.plain.hint(line, pos, context)
    }
}

impl Highlighter for LineHelper {
    fn highlight<'l>(&self, line: &'l str, pos: usize) -> Cow<'l, str> {
        self.plain.highlight(line, pos)
    }

    fn highlight_char(&self, line: &str, pos: usize, kind: CmdKind) -> bool {
        self.plain.highlight_char(line, pos, kind)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        self.plain.highlight_hint(hint)
    }
}

impl Helper for LineHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_start_when_names_are_qualified_then_the_last_part() {
        assert_eq!(word_start("SELECT a.bc"), 9);
        assert_eq!(word_start("ü t$f"), 3);
        assert_eq!(word_start(""), 0);
        assert_eq!(word_start("SELECT é"), 7);
    }
}
