//! Statements that change rows: DELETE, UPDATE and MERGE INTO.
//!
//! ```text
//! statement --query.rs--> SELECT of what is to happen to which row (shape.rs), over t$row_places
//!   --engine--> plan --sink.rs--> LakeKeyChangesExec     key tables: rows of a kind       --> LakeWriteExec --> LakeCommitExec
//!                             |-> LakeMarksExec          append tables: new rows, marks   --> LakeWriteExec
//!                             |     LakeRemovalsExec     marks -> deletion vectors, or files without the rows --> LakeCommitExec
//!                             |-> LakeDropExec           whole partitions: metadata only
//! ```
//! A commit that meets a conflict is planned again (LakeRetryExec, on top). A stock session gets to the same plans by an analyzer rule ([`rule`]), before the engine's optimizer could lose the
//! condition (`DELETE .. WHERE id IN (..)` reaches a table provider as "no condition").
//!
//! Imports the front end and everything below.

pub(crate) mod allowed;
mod builder;
mod change;
mod drop;
#[cfg(test)]
mod faults;
mod key_rows;
mod marks;
mod query;
mod removals;
mod retry;
mod rule;
mod shape;
mod sink;
#[cfg(test)]
mod tests;
mod vectors;

pub use builder::{MergeBuilder, Rows, When, merge};
pub(crate) use drop::truncation;
pub(crate) use rule::LakeDmlRule;
pub(crate) use shape::{FILE_NAME, ROW_INDEX, place_fields};
pub(crate) use sink::ChangeSink;

/// The system table that shows rows with the place where each lies, for the statements of this folder.
pub(crate) const ROW_PLACES: &str = "row_places";
