//! The prompt: lines, history, and Ctrl-C that ends the statement and not the shell.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use tidelake::{Error, ErrorKind, Result};
use tokio::runtime::Runtime;

use super::commands::{self, Next};
use super::complete::LineHelper;
use super::run::{Shell, message};

/// How long a statement that was ended may take to end.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads and runs statements until the end of the input or `\q`.
pub(crate) fn run(shell: &mut Shell, runtime: &Runtime) -> Result<()> {
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(false).build();
    let mut editor: Editor<LineHelper, FileHistory> = Editor::with_config(config).map_err(no_terminal)?;
    editor.set_helper(Some(LineHelper::new(shell.session.clone(), runtime.handle().clone())));
    let history = history_file();
    if let Some(file) = &history {
        // The first start has no history.
        let _ = editor.load_history(file);
    }
    loop {
        let (_, database) = shell.session.current();
        match editor.readline(&format!("{database}> ")) {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => {
                let _ = editor.add_history_entry(line.trim_end());
                if let Some(file) = &history {
                    let _ = editor.append_history(file);
                }
                if execute(shell, runtime, &line) == Next::Quit {
                    return Ok(());
                }
            }
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(no_terminal(error)),
        }
    }
}

fn execute(shell: &mut Shell, runtime: &Runtime, line: &str) -> Next {
    shell.given_up = Arc::default();
    let mut running = shell.clone();
    let text = line.to_owned();
    // A task of its own can be left alone when the user is tired of waiting, wherever it is.
    let mut task = runtime.spawn(async move {
        if text.starts_with('\\') {
            let next = commands::run_shown(&mut running, &text).await;
            return (running, next);
        }
        if let Err(error) = running.statements(&text).await {
            eprintln!("Error: {}", message(&error));
        }
        (running, Next::Continue)
    });
    runtime.block_on(async {
        tokio::select! {
            done = &mut task => match done {
                Ok((after, next)) => {
                    *shell = after;
                    next
                }
                Err(error) => {
                    eprintln!("Error: the statement ended abnormally: {error}");
                    Next::Continue
                }
            },
            _ = tokio::signal::ctrl_c() => {
                shell.given_up.store(true, Ordering::Relaxed);
                task.abort();
                // A moment to let go of what it holds; a task that computes without a pause is left behind.
                let _ = tokio::time::timeout(PATIENCE, task).await;
                eprintln!();
                Next::Continue
            }
        }
    })
}

fn no_terminal(error: ReadlineError) -> Error {
    Error::new(ErrorKind::Io, "the terminal cannot be read").with_source(error)
}

/// `TIDELAKE_HISTORY`, or a file in the user's home; an empty name keeps none.
fn history_file() -> Option<PathBuf> {
    match std::env::var_os("TIDELAKE_HISTORY") {
        Some(file) if file.is_empty() => None,
        Some(file) => Some(file.into()),
        None => dirs::home_dir().map(|home| home.join(".tidelake_history")),
    }
}
