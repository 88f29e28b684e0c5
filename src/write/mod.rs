//! From rows to files: which bucket a row belongs to, sorted runs, rolling files, append files. Ends in a [`CommitMessage`]
//! for each partition and bucket; nothing is visible to readers before those are committed.
//!
//! ```text
//! rows --prepare--> checked, numbered, with kind and bucket      prepare.rs, check.rs, assign.rs
//!   -> dealt out by (partition, bucket), sorted by key           the engine's nodes, put together in exec.rs
//!   -> one row a key --> files                                   merge.rs, bucket.rs, rolling.rs
//!   -> CommitMessage
//! ```
//!
//! A [`WriteTarget`] is what is written to, a [`WriteRun`] one run of a write with its files.
//!
//! May import: `error`, `options`, `spec`, `store`, `format`, `table`, `plan`, `read`.

mod ahead;
mod assign;
mod bucket;
mod check;
mod compact_texts;
mod context;
mod cross_partition;
mod data_file;
mod default;
mod exec;
mod existing;
mod merge;
#[cfg(test)]
mod merge_tests;
mod message;
mod mode;
mod nested_lengths;
mod node;
mod own_files;
mod prepare;
mod rolling;
#[cfg(test)]
mod rolling_tests;
mod row_changes;
mod sort_shares;
mod target;

pub use check::{BadRow, RowCheck};
pub use context::{DataFileContext, FileNames};
pub(crate) use cross_partition::count_keys;
pub use cross_partition::{LakeKeyLocationExec, key_location_schema};
pub use data_file::FileKind;
pub use default::default_value;
pub use exec::{LakeWriteExec, message_schema};
pub(crate) use merge::{key_text, retracts_need_their_base};
pub use message::CommitMessage;
pub use mode::{BucketMode, POSTPONE_BUCKET, check_writable};
pub(crate) use node::{as_they_come, one_input, when_done};
pub use own_files::OwnFiles;
pub use prepare::LakePrepareExec;
pub(crate) use prepare::{kind_of, no_kind};
pub use rolling::RollingWriter;
pub use target::{RunLegacy, RunSlot, WriteRun, WriteTarget};
