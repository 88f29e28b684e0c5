//! What others committed since, held against what is about to be committed (`spec/metadata.md 7.4`).

use super::TableCommit;
use super::base::Base;
use super::changes::Changes;
use super::source::{Draft, Plan};
use crate::error::Result;

impl TableCommit {
    /// Checks a plan against its base.
    ///
    /// # Errors
    /// Conflict when they do not go together.
    pub(super) async fn check(&self, _draft: &Draft<'_>, _plan: &Plan, _base: &Base) -> Result<()> {
        Ok(())
    }

    /// Moves the new files of an overwrite to the top level where that is right: nothing else is in their buckets then.
    pub(super) fn upgrade(&self, _changes: &mut Changes) -> Result<()> {
        Ok(())
    }
}
