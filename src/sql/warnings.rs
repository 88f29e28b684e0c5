//! What went wrong beside statements that did what they were asked: the rows are there, and what should have followed is not.
//!
//! Imports the engine's configuration.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::prelude::{SessionConfig, SessionContext};
use parking_lot::Mutex;

use super::LakeSession;

/// So many are kept for who never asks.
const MOST: usize = 100;

/// The warnings of a session that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct Warnings(Mutex<VecDeque<String>>);

impl Warnings {
    /// Lets the statements of a session warn, where it does not yet.
    pub(super) fn install(config: &mut SessionConfig) {
        if config.get_extension::<Self>().is_none() {
            config.set_extension(Arc::new(Self::default()));
        }
    }

    /// Adds one to those of a session. A session that has no place for them is not told.
    pub(super) fn warn(config: &SessionConfig, warning: String) {
        if let Some(warnings) = config.get_extension::<Self>() {
            let mut kept = warnings.0.lock();
            if kept.len() == MOST {
                kept.pop_front();
            }
            kept.push_back(warning);
        }
    }

    fn take(config: &SessionConfig) -> Vec<String> {
        config.get_extension::<Self>().map(|warnings| warnings.0.lock().drain(..).collect()).unwrap_or_default()
    }
}

/// What the statements of a session warned of since the last time, the last hundred: a compaction that gave up after the rows of
/// its statement were committed, or upkeep that failed after them. The session is one of [`super::register`].
pub fn take_warnings(context: &SessionContext) -> Vec<String> {
    Warnings::take(context.state_ref().read().config())
}

impl LakeSession {
    /// What the statements of this session warned of since the last time; see [`take_warnings`].
    pub fn take_warnings(&self) -> Vec<String> {
        take_warnings(&self.context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warn_when_nobody_takes_them_then_the_last_ones_are_kept() {
        let mut config = SessionConfig::new();
        Warnings::warn(&config, "nowhere".to_owned());
        Warnings::install(&mut config);
        Warnings::install(&mut config);
        (0..=MOST).for_each(|number| Warnings::warn(&config, number.to_string()));
        let taken = Warnings::take(&config.clone());
        assert_eq!((taken.len(), taken[0].as_str()), (MOST, "1"));
        assert!(Warnings::take(&config).is_empty());
    }
}
