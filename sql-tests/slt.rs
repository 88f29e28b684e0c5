//! Runs `<area>/<topic>.slt`: one trial a file, each with a warehouse folder and a session of its own.
//!
//! A comment line `# warehouse: fixtures/<group>` starts the file on a copy of that group's warehouse, with its database as the
//! current one; `# tables: a, b` then copies only those tables. Without it the warehouse is empty and the current database is
//! `default`. `<warehouse>` in a statement stands for the folder, and for it in what comes out. With [`COMPLETE`] set, the
//! files are rewritten with what came out.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use libtest_mimic::{Failed, Trial};
use sqllogictest::runner::{AsyncDB, DBOutput, Runner, strict_column_validator};
use tempfile::TempDir;

use crate::cells::{self, CellType};
use crate::deadline::within;
use crate::fixtures::{self, copy_folder, entries, file_name};
use crate::session::{self, Session, SessionError};

/// Set to rewrite what the files expect.
pub const COMPLETE: &str = "SLT_COMPLETE";

const LIMIT: Duration = Duration::from_secs(120);

/// Failures told of one file.
const MOST_FAILURES: usize = 20;

const WAREHOUSE: &str = "<warehouse>";

/// One trial for each `<area>/<topic>.slt`.
pub fn trials() -> Result<Vec<Trial>, String> {
    let mut trials = vec![];
    for area in entries(&fixtures::suites_folder())?.into_iter().filter(|path| path.is_dir()) {
        for file in entries(&area)?.into_iter().filter(|path| path.extension() == Some(OsStr::new("slt"))) {
            let name = format!("{}::{}", file_name(&area), file_name(&file.with_extension("")));
            trials.push(Trial::test(name, move || run_file(file)));
        }
    }
    Ok(trials)
}

fn run_file(file: PathBuf) -> Result<(), Failed> {
    let run = move || {
        // A session must not need more than this one thread.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        runtime.block_on(run_records(&file))
    };
    within(LIMIT, run).map_err(|broken| Failed::from(broken.to_string()))?.map_err(Failed::from)
}

async fn run_records(file: &Path) -> Result<(), String> {
    let place = Place::prepare(file)?;
    let session = session::open(&place.warehouse(), &place.database).await.map_err(|e| format!("no session: {e}"))?;
    let session = Arc::new(session);
    let warehouse = place.warehouse().display().to_string();
    let mut runner =
        Runner::new(|| async { Ok(Database { session: Arc::clone(&session), warehouse: warehouse.clone() }) });
    runner.add_label("tidelake");
    runner.with_column_validator(strict_column_validator);
    runner.with_normalizer(cells::normalized);
    runner.with_validator(cells::rows_match);
    if env::var_os(COMPLETE).is_some() {
        let update = runner.update_test_file(file, " ", cells::rows_match, cells::normalized, strict_column_validator);
        return update.await.map_err(|e| e.to_string());
    }
    let records = sqllogictest::parse_file::<CellType>(file).map_err(|e| e.to_string())?;
    let mut failures = vec![];
    for record in records {
        if matches!(record, sqllogictest::Record::Halt { .. }) {
            break;
        }
        if let Err(error) = runner.run_async(record).await {
            failures.push(error.to_string());
        }
    }
    runner.shutdown_async().await;
    if failures.is_empty() {
        return Ok(());
    }
    let more = failures.len().saturating_sub(MOST_FAILURES);
    failures.truncate(MOST_FAILURES);
    let more = if more > 0 { format!("\n\nand {more} more") } else { String::new() };
    Err(format!("{}{more}", failures.join("\n\n")))
}

/// The folder a file works in.
struct Place {
    folder: TempDir,
    database: String,
}

impl Place {
    fn prepare(file: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let directive = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
        let mut place = Self { folder, database: "default".to_string() };
        fs::create_dir(place.warehouse()).map_err(|e| format!("no warehouse: {e}"))?;
        let tables = directive("# tables:");
        let Some(source) = directive("# warehouse:") else {
            return if tables.is_some() { Err("`# tables:` needs `# warehouse:`".to_string()) } else { Ok(place) };
        };
        let group = fixtures::own_group(source.strip_prefix("fixtures/").unwrap_or(source))?;
        let database = format!("{}.db", group.database);
        let (from, to) = (group.warehouse.join(&database), place.warehouse().join(&database));
        let copy = |part: &str| copy_folder(&from.join(part), &to.join(part)).map_err(|e| format!("copy {part}: {e}"));
        match tables {
            None => copy("")?,
            Some(tables) => tables.split(',').try_for_each(|table| copy(table.trim()))?,
        }
        place.database = group.database;
        Ok(place)
    }

    fn warehouse(&self) -> PathBuf {
        self.folder.path().join("warehouse")
    }
}

/// The session as sqllogictest sees it.
struct Database {
    session: Arc<Session>,
    warehouse: String,
}

impl Database {
    /// Output with the name of the warehouse folder taken out, also where its leading slash is missing (file groups in EXPLAIN).
    fn without_folder(&self, text: &str) -> String {
        text.replace(&self.warehouse, WAREHOUSE).replace(self.warehouse.trim_start_matches('/'), WAREHOUSE)
    }
}

/// An error of a statement, as files expect it.
#[derive(Debug)]
pub struct StatementError(String);

impl std::fmt::Display for StatementError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StatementError {}

#[async_trait]
impl AsyncDB for Database {
    type Error = StatementError;
    type ColumnType = CellType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<CellType>, StatementError> {
        let failed = |error: SessionError| StatementError(self.without_folder(&error.to_string()));
        let sql = sql.replace(WAREHOUSE, &self.warehouse);
        let (schema, batches) = self.session.sql(&sql).await.map_err(failed)?;
        if schema.fields().is_empty() {
            return Ok(DBOutput::StatementComplete(0));
        }
        let mut rows = cells::rows(&batches).map_err(|e| failed(e.into()))?;
        for cell in rows.iter_mut().flatten() {
            *cell = self.without_folder(cell);
        }
        Ok(DBOutput::Rows { types: cells::cell_types(&schema), rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "tidelake"
    }

    async fn sleep(duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
