//! Runs a trial in a thread of its own, with a limit of time and room for the engine's deep recursion in unoptimised builds.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Stack of a thread that plans and runs queries.
pub const STACK_BYTES: usize = 16 << 20;

/// Why a trial gave no outcome of its own.
#[derive(Debug)]
pub enum Broken {
    /// It ran out of time; its thread is left behind.
    OutOfTime(Duration),
    /// It panicked with this message.
    Panicked(String),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OutOfTime(limit) => write!(f, "no end after {} s", limit.as_secs()),
            Self::Panicked(message) => write!(f, "panic: {message}"),
        }
    }
}

/// The outcome of `trial`, if it ends in time and does not panic.
pub fn within<T: Send + 'static>(limit: Duration, trial: impl FnOnce() -> T + Send + 'static) -> Result<T, Broken> {
    let (sender, receiver) = mpsc::channel();
    let body = move || {
        let outcome = panic::catch_unwind(AssertUnwindSafe(trial));
        // The receiver is gone once the time is over.
        let _ = sender.send(outcome);
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(body);
    if let Err(error) = thread {
        return Err(Broken::Panicked(format!("no thread: {error}")));
    }
    match receiver.recv_timeout(limit) {
        Ok(Ok(outcome)) => Ok(outcome),
        Ok(Err(payload)) => Err(Broken::Panicked(panic_message(payload.as_ref()))),
        Err(_) => Err(Broken::OutOfTime(limit)),
    }
}

fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("of an unknown kind").to_string()
}
