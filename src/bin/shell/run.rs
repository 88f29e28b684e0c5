//! One statement after the other, from text to printed rows.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::common::instant::Instant;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::{ExecutionPlanProperties, execute_stream};
use datafusion_cli::print_options::MaxRows;
use tidelake::sql::split_statements;
use tidelake::{Error, LakeSession, Result};

use super::commands;
use super::output::Output;
use super::progress::Progress;

/// A session and how its results are printed.
#[derive(Clone)]
pub(crate) struct Shell {
    pub session: LakeSession,
    pub output: Output,
    /// Set when the user ended the statement: it draws and prints no more.
    pub given_up: Arc<AtomicBool>,
}

impl Shell {
    pub(crate) fn new(session: LakeSession, output: Output) -> Self {
        Self { session, output, given_up: Arc::default() }
    }

    /// Runs the statements of a text and stops at the first that fails. A line that starts with `\` is a command.
    pub(crate) async fn script(&mut self, text: &str) -> Result<()> {
        let mut sql = String::new();
        for line in text.lines() {
            if sql.trim().is_empty() && line.starts_with('\\') {
                Box::pin(commands::run(self, line)).await?;
                continue;
            }
            // The first line of an executable script.
            if sql.is_empty() && line.starts_with("#!") {
                continue;
            }
            sql.push_str(line);
            sql.push('\n');
            if tidelake::sql::ends_statement(&sql) {
                self.statements(&std::mem::take(&mut sql)).await?;
            }
        }
        self.statements(&sql).await
    }

    /// Runs statements without commands between them.
    pub(crate) async fn statements(&self, sql: &str) -> Result<()> {
        for statement in split_statements(sql)? {
            Box::pin(self.statement(&statement)).await?;
        }
        Ok(())
    }

    async fn statement(&self, sql: &str) -> Result<()> {
        let started = Instant::now();
        let progress = Progress::start(self.output.quiet, &self.given_up);
        let frame = self.session.sql(sql).await?;
        let mut output = self.output.clone();
        if matches!(
            frame.logical_plan(),
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) | LogicalPlan::DescribeTable(_)
        ) {
            output.maxrows = MaxRows::Unlimited;
        }
        let task = Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await?;
        if plan.boundedness().is_unbounded() && plan.pipeline_behavior() == EmissionType::Final {
            return Err(Error::invalid("the query gives its rows only at the end of a source that has none"));
        }
        progress.executing(&plan);
        let reservation = MemoryConsumer::new("tidelake shell").register(task.memory_pool());
        let options = task.session_config().options().format.clone();
        let stream = execute_stream(plan, task)?;
        let shown = output.rows(stream, &options, &reservation, started, || progress.stop()).await;
        for warning in self.session.take_warnings() {
            eprintln!("Warning: {warning}");
        }
        shown
    }
}

/// An error as the shell shows it: what the engine says stands for itself.
pub(crate) fn message(error: &Error) -> String {
    let text = error.to_string();
    match text.strip_prefix("the engine failed: ") {
        Some(rest) => rest.to_owned(),
        None => text,
    }
}
