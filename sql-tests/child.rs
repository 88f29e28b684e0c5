//! Child processes of the suites: this binary again, which a variable tells what to do in place of running trials. They are
//! killed by SIGKILL, when they stand at a labelled point of a commit or at any time.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::arrow::util::display::array_value_to_string;
use serde_json::Value;
use tidelake::LakeSession;
use tidelake::commit::fault;

use crate::deadline::{STACK_BYTES, within};
use crate::session::SessionError;

/// The task of a child process, as JSON; set makes this binary one.
const TASK: &str = "TIDELAKE_SUITE_TASK";

/// What a child says when it stands at its point.
pub const REACHED: &str = "reached";

/// What a child says when it begins.
pub const READY: &str = "ready";

/// Starts a child with a task.
pub fn start(task: &Value) -> Result<Child, String> {
    Command::new(env::current_exe().map_err(text)?)
        .env(TASK, task.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(text)
}

/// The task of this process, when it is a child.
pub fn task() -> Option<Value> {
    serde_json::from_str(&env::var(TASK).ok()?).ok()
}

/// Does the work of a child within a time. With `label` in the task it stops when it comes to that point for the `hit`-th time.
pub fn work<F>(task: &Value, limit: Duration, work: F) -> ExitCode
where
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    if let Some(label) = task["label"].as_str() {
        stop_at(label.to_owned(), task["hit"].as_u64().unwrap_or(1) as usize);
    }
    let work = move || -> Result<(), String> { runtime()?.block_on(Box::pin(work)) };
    match within(limit, work).map_err(text).and_then(|outcome| outcome) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("child: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Stands still when the process comes to a point for the n-th time, for the parent to kill it.
fn stop_at(label: String, hit: usize) {
    let hits = AtomicUsize::new(0);
    fault::set_hook(Box::new(move |point| {
        if point == label && hits.fetch_add(1, Ordering::SeqCst) + 1 == hit {
            say(&REACHED);
            loop {
                std::thread::park();
            }
        }
    }));
}

/// Tells the parent a line.
pub fn say(line: &dyn std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more when the parent is gone.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// What a child says, until it ends.
pub fn lines(child: &mut Child) -> Result<impl Iterator<Item = String> + use<>, String> {
    let out = child.stdout.take().ok_or("a child has no output")?;
    Ok(BufReader::new(out).lines().map_while(Result::ok))
}

/// SIGKILL.
pub fn kill(child: &mut Child) -> Result<(), String> {
    child.kill().map_err(text)?;
    child.wait().map_err(text)?;
    Ok(())
}

#[allow(clippy::needless_pass_by_value, reason = "it is what map_err takes")]
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(text)
}

/// A session of one's own over a warehouse.
pub async fn open(warehouse: &Path) -> Result<LakeSession, SessionError> {
    let warehouse = warehouse.to_str().ok_or("the warehouse's path is not UTF-8")?;
    Ok(LakeSession::builder().warehouse(warehouse).database("db").build().await?)
}

async fn batches(session: &LakeSession, statement: &str) -> Result<Vec<RecordBatch>, SessionError> {
    let mut batches = session.sql(statement).await?.collect().await?;
    batches.retain(|batch| batch.num_columns() > 0);
    Ok(batches)
}

/// The rows of a statement, whose columns are whole numbers.
pub async fn numbers(session: &LakeSession, statement: &str) -> Result<Vec<Vec<i64>>, SessionError> {
    let mut rows = Vec::new();
    for batch in batches(session, statement).await? {
        let columns = batch
            .columns()
            .iter()
            .map(|column| datafusion::arrow::compute::cast(column, &DataType::Int64))
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.as_primitive::<Int64Type>().value(row)).collect());
        }
    }
    Ok(rows)
}

/// The rows of a statement as texts.
pub async fn texts(session: &LakeSession, statement: &str) -> Result<Vec<Vec<String>>, SessionError> {
    let mut rows = Vec::new();
    for batch in batches(session, statement).await? {
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| array_value_to_string(column, row));
            rows.push(cells.collect::<Result<Vec<_>, _>>()?);
        }
    }
    Ok(rows)
}
