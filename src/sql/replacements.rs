//! Telling the engine's CREATE OR REPLACE EXTERNAL TABLE from its DROP TABLE.
//!
//! Both deregister the table, and the first one may then fail to make the new one: the table of the lake would be gone. It is
//! known by what it asks for before, in this order: the table, when it is planned; whether there is one; the table again. DROP
//! TABLE asks for the table once. A program may ask the same before it drops a table, so that what is refused once is done when
//! it is said again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How long after planning the engine replaces a table.
const AT_ONCE: Duration = Duration::from_secs(1);

/// Names that are followed at most.
const MOST_NAMES: usize = 1024;

/// How far a replacement has come, for all that is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The table was asked for.
    Planned,
    /// Then, whether there is one.
    Checked,
    /// Then, the table again.
    Found,
}

/// What was asked for lately, by database and table.
#[derive(Debug, Default)]
pub(super) struct Replacements(Mutex<HashMap<(String, String), (Step, Instant)>>);

impl Replacements {
    fn step(&self, database: &str, name: &str, next: impl FnOnce(Option<Step>) -> Option<Step>) {
        let mut names = self.0.lock();
        let key = (database.to_owned(), name.to_owned());
        let last = names.get(&key).filter(|(_, at)| at.elapsed() < AT_ONCE).map(|(step, _)| *step);
        match next(last) {
            Some(step) => {
                if names.len() >= MOST_NAMES {
                    names.retain(|_, (_, at)| at.elapsed() < AT_ONCE);
                }
                names.insert(key, (step, Instant::now()));
            }
            None => {
                names.remove(&key);
            }
        }
    }

    /// The table was asked for.
    pub(super) fn table(&self, database: &str, name: &str) {
        self.step(database, name, |last| match last {
            Some(Step::Checked | Step::Found) => Some(Step::Found),
            _ => Some(Step::Planned),
        });
    }

    /// Whether the table is there was asked for.
    pub(super) fn exists(&self, database: &str, name: &str) {
        self.step(database, name, |last| last.map(|_| Step::Checked));
    }

    /// Whether the table is about to be replaced; forgotten with the answer.
    pub(super) fn take(&self, database: &str, name: &str) -> bool {
        let step = self.0.lock().remove(&(database.to_owned(), name.to_owned()));
        step.is_some_and(|(step, at)| step == Step::Found && at.elapsed() < AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_when_a_table_is_planned_checked_and_asked_for_again_then_replaced_once() {
        let asked = Replacements::default();
        asked.table("db", "t");
        assert!(!asked.take("db", "t"), "DROP TABLE asks once");
        asked.exists("db", "t");
        asked.table("db", "t");
        assert!(!asked.take("db", "t"), "IF EXISTS of a program, then DROP TABLE");
        asked.table("db", "t");
        asked.exists("db", "t");
        asked.table("db", "t");
        assert!(!asked.take("db", "u"));
        assert!(asked.take("db", "t"));
        asked.table("db", "t");
        assert!(!asked.take("db", "t"), "said again");
    }
}
