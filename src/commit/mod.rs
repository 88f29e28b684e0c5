//! THE commit path: every change of a table goes through it, whoever made the files.
//!
//! A commit creates the next snapshot file if nobody else has (`spec/metadata.md 7`). Nothing else is atomic and nothing else
//! has to be: all other files have names of their own, and nobody sees them before a snapshot refers to them.
//!
//! ```text
//! Committable --changes--> what is added and removed      changes.rs   (overwrites: worked out from the latest snapshot)
//!   loop:                                                 attempt.rs
//!     latest snapshot --base--> its manifests and indexes base.rs
//!     checks against it                                   conflicts.rs, vectors.rs, row_ranges.rs, strict.rs, known_keys.rs
//!     manifests: old ones merged, new ones written        merge.rs, new_files.rs, index.rs, stamps.rs
//!     create snapshot-<n+1>   there already: whose is it? ours -> done, another's -> again
//!                             no answer: ask until there is one; files stay as long as there is none
//!     hints
//! ```
//!
//! May import: `error`, `options`, `spec`, `store`, `table`, `plan`, `write`.

mod attempt;
mod base;
mod brought;
mod changed_rows;
mod changes;
mod conflicts;
#[doc(hidden)]
pub mod fault;
#[cfg(test)]
mod history;
mod index;
mod known_keys;
mod merge;
mod new_files;
mod queue;
mod recovery;
mod row_ranges;
mod scope;
mod source;
mod stamps;
mod strict;
mod table_commit;
#[cfg(test)]
mod tests;
mod vectors;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use attempt::outcome_is_unknown;
pub use scope::{OverwriteScope, PartitionSpec};
pub use table_commit::TableCommit;

use crate::spec::Snapshot;
use crate::write::CommitMessage;

/// The identifier that all commits of batch jobs have.
pub const BATCH_IDENTIFIER: i64 = i64::MAX;

/// What is committed at once: the messages of all writers, and what a snapshot says beside them.
#[derive(Clone, Debug, PartialEq)]
pub struct Committable {
    /// Which commit of the user this is, ascending in a stream; [`BATCH_IDENTIFIER`] for a batch job.
    pub identifier: i64,
    /// Watermark, epoch milliseconds; a snapshot never has a smaller one than the snapshot before it.
    pub watermark: Option<i64>,
    /// Properties of the snapshots.
    pub properties: BTreeMap<String, String>,
    /// What the writers did.
    pub messages: Vec<CommitMessage>,
    /// The statement, when the snapshots shall name it.
    pub operation: Option<Operation>,
}

impl Committable {
    /// Commit `identifier` of a stream.
    pub fn new(identifier: i64, messages: Vec<CommitMessage>) -> Self {
        Self { identifier, watermark: None, properties: BTreeMap::new(), messages, operation: None }
    }

    /// The commit of a batch job.
    pub fn batch(messages: Vec<CommitMessage>) -> Self {
        Self::new(BATCH_IDENTIFIER, messages)
    }
}

/// The statement that made a snapshot (`spec/metadata.md 3.1`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// INSERT INTO.
    Write,
    /// INSERT OVERWRITE.
    Overwrite,
    /// DELETE.
    Delete,
    /// TRUNCATE.
    Truncate,
    /// UPDATE.
    Update,
    /// MERGE.
    Merge,
    /// CREATE TABLE .. AS SELECT.
    CreateTableAsSelect,
    /// REPLACE TABLE .. AS SELECT.
    ReplaceTableAsSelect,
    /// CREATE OR REPLACE TABLE .. AS SELECT.
    CreateOrReplaceTableAsSelect,
}

impl Operation {
    /// The name in the snapshot file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "WRITE",
            Self::Overwrite => "OVERWRITE",
            Self::Delete => "DELETE",
            Self::Truncate => "TRUNCATE",
            Self::Update => "UPDATE",
            Self::Merge => "MERGE",
            Self::CreateTableAsSelect => "CREATE_TABLE_AS_SELECT",
            Self::ReplaceTableAsSelect => "REPLACE_TABLE_AS_SELECT",
            Self::CreateOrReplaceTableAsSelect => "CREATE_OR_REPLACE_TABLE_AS_SELECT",
        }
    }
}

/// What a commit did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitOutcome {
    /// The snapshots that were made, one or two; none when there was nothing to commit.
    pub snapshots: Vec<Arc<Snapshot>>,
    /// Attempts that were needed, one a snapshot when nobody else commits.
    pub attempts: usize,
    /// Manifests that were merged into others.
    pub manifests_merged: usize,
    /// Manifests that were written, merged ones included.
    pub manifests_written: usize,
    /// Why what was compacted is not committed, although what was added is. It can be compacted again.
    pub compaction_failed: Option<String>,
    /// Why upkeep that was due after the commit failed, where the committer does that; the next commit tries again.
    pub upkeep_failed: Option<String>,
    /// The snapshots were made by another committer of the same user, for the same identifier: a process that was given up for
    /// dead, or a repetition at the same time. What this one was to commit is not in the table.
    pub replayed: bool,
}

impl CommitOutcome {
    /// The last snapshot that was made.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshots.last()
    }

    fn add(&mut self, other: Self) {
        self.snapshots.extend(other.snapshots);
        self.attempts += other.attempts;
        self.manifests_merged += other.manifests_merged;
        self.manifests_written += other.manifests_written;
        self.compaction_failed = other.compaction_failed.or_else(|| self.compaction_failed.take());
        self.upkeep_failed = other.upkeep_failed.or_else(|| self.upkeep_failed.take());
        self.replayed |= other.replayed;
    }
}
