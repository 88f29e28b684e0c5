//! From arguments to an exit status.
//!
//! ```text
//! args -> session -> maintain: status 1 when anything failed
//!                 -> scripts (-c, -f, standard input): stop at the first error, status 1
//!                 -> prompt: an error ends its statement
//! ```

mod args;
mod commands;
mod complete;
mod maintain;
mod output;
mod progress;
mod prompt;
mod run;

use std::io::{IsTerminal, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use datafusion::common::config::ConfigOptions;
use datafusion::execution::memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;
use tidelake::{Error, LakeSession, Result};
use tokio::runtime::Runtime;

use self::args::{Args, MemoryPoolType, Script, Task};
use self::output::Output;
use self::run::Shell;

/// How many consumers of memory an error about memory names.
const NAMED_CONSUMERS: std::num::NonZeroUsize = std::num::NonZeroUsize::MIN.saturating_add(2);

/// The shell. Returns its exit status: 1 when a statement of a script, or the start, fails.
pub(crate) fn main() -> ExitCode {
    let matches = Args::command().get_matches();
    let args = match Args::from_arg_matches(&matches) {
        Ok(args) => args,
        Err(error) => error.exit(),
    };
    let scripts = Script::in_order(&args, &matches);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("Error: the threads of the shell do not start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let result = start(&args, scripts, &runtime);
    // A statement that was ended may still compute; nobody waits for it.
    runtime.shutdown_background();
    match result {
        Ok(Ended::Well) => ExitCode::SUCCESS,
        Ok(Ended::Badly) => ExitCode::FAILURE,
        Ok(Ended::Interrupted) => {
            eprintln!("Error: interrupted");
            ExitCode::from(INTERRUPTED)
        }
        Err(error) => {
            eprintln!("Error: {}", run::message(&error));
            ExitCode::FAILURE
        }
    }
}

/// How the shell ended, where that is no error.
enum Ended {
    Well,
    Badly,
    Interrupted,
}

/// The exit status of a process that was interrupted, as shells have it.
const INTERRUPTED: u8 = 130;

/// How long what was interrupted may take to remove what it has written.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `work` until it is done or the process is told to end: `None` then, when what the work had begun is cleaned up.
fn until_told<T>(runtime: &Runtime, work: impl Future<Output = T>) -> Option<T> {
    runtime.block_on(async {
        let done = tokio::select! {
            done = work => Some(done),
            () = told_to_end() => None,
        };
        if done.is_none() {
            tokio::select! {
                () = tidelake::sql::cleaned_up(PATIENCE) => {}
                // Who says it twice does not wait.
                () = told_to_end() => {}
            }
        }
        done
    })
}

/// Waits for Ctrl-C, and where there is such a thing for the signal that asks a process to end.
async fn told_to_end() {
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    let _ = tokio::signal::ctrl_c().await;
}

fn start(args: &Args, scripts: Vec<Script>, runtime: &Runtime) -> Result<Ended> {
    let at_prompt = scripts.is_empty() && args.task.is_none() && std::io::stdin().is_terminal();
    let session = runtime.block_on(Box::pin(session(args)))?;
    if let Some(Task::Maintain(maintain)) = &args.task {
        return match until_told(runtime, Box::pin(maintain::run(&session, maintain, args.quiet))) {
            Some(worked) => Ok(if worked? { Ended::Well } else { Ended::Badly }),
            None if maintain.every.is_some() => Ok(Ended::Well),
            None => Ok(Ended::Interrupted),
        };
    }
    let mut shell = Shell::new(session, Output::new(args, at_prompt));
    if at_prompt {
        if !args.quiet {
            println!("tidelake {}, {}", env!("CARGO_PKG_VERSION"), args.greeting());
        }
        return prompt::run(&mut shell, runtime).map(|()| Ended::Well);
    }
    if !args.quiet {
        for warehouse in args.missing_warehouses()? {
            eprintln!("Note: the warehouse {warehouse} is not there yet: the first CREATE makes it");
        }
    }
    let scripts = if scripts.is_empty() { vec![Script::StandardInput] } else { scripts };
    for script in scripts {
        let text = text(&script)?;
        match until_told(runtime, Box::pin(shell.script(&text))) {
            Some(done) => done?,
            None => return Ok(Ended::Interrupted),
        }
    }
    Ok(Ended::Well)
}

fn text(script: &Script) -> Result<String> {
    let unreadable = |name: &str, error: std::io::Error| {
        Error::invalid("the script cannot be read").with("file", name).with_source(error)
    };
    match script {
        Script::Command(text) => Ok(text.clone()),
        Script::File(path) if path != "-" => std::fs::read_to_string(path).map_err(|error| unreadable(path, error)),
        Script::File(_) | Script::StandardInput => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| unreadable("standard input", error))?;
            Ok(text)
        }
    }
}

async fn session(args: &Args) -> Result<LakeSession> {
    let mut options = ConfigOptions::from_env()?;
    if std::env::var_os("DATAFUSION_FORMAT_NULL").is_none() {
        // An empty text and a missing one are not the same.
        options.format.null = "NULL".to_owned();
    }
    let mut builder = LakeSession::builder()
        .session_config(SessionConfig::from(options))
        .runtime_env(engine_runtime(args.memory_limit, args.mem_pool_type)?)
        .database(args.database.as_str())
        .read_only(args.read_only);
    let (current, catalogs) = args.catalogs()?;
    builder = builder.catalog(current);
    for (name, options) in catalogs {
        builder = builder.with_catalog(name, options);
    }
    builder.build().await
}

fn engine_runtime(memory_limit: Option<usize>, pool_type: MemoryPoolType) -> Result<Arc<RuntimeEnv>> {
    let mut builder = RuntimeEnvBuilder::new();
    if let Some(bytes) = memory_limit {
        let pool: Arc<dyn MemoryPool> = match pool_type {
            MemoryPoolType::Fair => Arc::new(TrackConsumersPool::new(FairSpillPool::new(bytes), NAMED_CONSUMERS)),
            MemoryPoolType::Greedy => Arc::new(TrackConsumersPool::new(GreedyMemoryPool::new(bytes), NAMED_CONSUMERS)),
        };
        builder = builder.with_memory_pool(pool);
    }
    Ok(builder.build_arc()?)
}
