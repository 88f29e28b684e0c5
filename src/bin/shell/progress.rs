//! The progress line of a long statement, on the terminal behind standard error.
//!
//! It shows what the plan's own metrics say while it runs: `files_processed` of `files_total`, `bytes_scanned`.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use tokio::task::JoinHandle;

/// A statement shorter than this shows nothing.
const QUIET_TIME: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_millis(200);

/// Draws the line until it is stopped or dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    line: Arc<Mutex<Line>>,
    task: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Line {
    plan: Option<Arc<dyn ExecutionPlan>>,
    drawn: bool,
    stopped: bool,
}

impl Progress {
    /// Starts the clock. Without a terminal, or when `quiet`, nothing is ever drawn; after `given_up`,
    /// nothing more.
    pub(crate) fn start(quiet: bool, given_up: &Arc<AtomicBool>) -> Self {
        let line = Arc::new(Mutex::new(Line::default()));
        let task = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let (line, given_up) = (Arc::clone(&line), Arc::clone(given_up));
            let started = Instant::now();
            tokio::spawn(async move {
                tokio::time::sleep(QUIET_TIME).await;
                while !given_up.load(Ordering::Relaxed) {
                    line.lock().unwrap_or_else(PoisonError::into_inner).draw(started.elapsed());
                    tokio::time::sleep(INTERVAL).await;
                }
            })
        });
        Self { line, task }
    }

    /// Tells what is executed from now on.
    pub(crate) fn executing(&self, plan: &Arc<dyn ExecutionPlan>) {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).plan = Some(Arc::clone(plan));
    }

    /// Takes the line away.
    pub(crate) fn stop(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        self.line.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Line {
    fn draw(&mut self, elapsed: Duration) {
        if self.stopped {
            return;
        }
        let text = match &self.plan {
            None => format!("planning, {} s", elapsed.as_secs()),
            Some(plan) => Counts::of(plan.as_ref()).text(elapsed),
        };
        self.drawn = true;
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        let _ = std::io::stderr().flush();
    }

    fn clear(&mut self) {
        self.stopped = true;
        if std::mem::take(&mut self.drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
            let _ = std::io::stderr().flush();
        }
    }
}

/// What the nodes of a plan have counted so far.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    files_scanned: usize,
    files_total: usize,
    bytes_scanned: usize,
}

impl Counts {
    fn of(plan: &dyn ExecutionPlan) -> Self {
        let mut counts = Self::default();
        counts.add(plan);
        counts
    }

    fn add(&mut self, plan: &dyn ExecutionPlan) {
        if let Some(metrics) = plan.metrics() {
            for metric in metrics.iter() {
                let value = metric.value();
                match value.name() {
                    "files_processed" => self.files_scanned += value.as_usize(),
                    "files_total" => self.files_total += value.as_usize(),
                    "bytes_scanned" => self.bytes_scanned += value.as_usize(),
                    _ => {}
                }
            }
        }
        plan.children().into_iter().for_each(|child| self.add(child.as_ref()));
    }

    fn text(&self, elapsed: Duration) -> String {
        let mut parts = Vec::new();
        match (self.files_scanned, self.files_total) {
            (0, 0) => {}
            (scanned, 0) => parts.push(format!("{scanned} files")),
            (scanned, total) => parts.push(format!("{scanned} of {total} files")),
        }
        if self.bytes_scanned > 0 {
            parts.push(bytes(self.bytes_scanned));
        }
        parts.push(format!("{} s", elapsed.as_secs()));
        if self.files_scanned > 0 && self.files_total > self.files_scanned {
            let left =
                elapsed.as_secs_f64() * (self.files_total - self.files_scanned) as f64 / self.files_scanned as f64;
            parts.push(format!("about {} s left", left.ceil()));
        }
        parts.join(", ")
    }
}

fn bytes(count: usize) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_when_half_of_the_files_are_scanned_then_as_much_time_is_left() {
        let counts = Counts { files_scanned: 5, files_total: 10, bytes_scanned: 1_234_567 };
        assert_eq!(counts.text(Duration::from_secs(3)), "5 of 10 files, 1.2 MB, 3 s, about 3 s left");
        assert_eq!(Counts::default().text(Duration::from_secs(2)), "2 s");
    }
}
