//! What an application holds to write a table by itself: a [`TableWriter`] turns batches into files and commit messages, a
//! [`TableCommitter`] commits them, each once, whatever happens in between. SQL uses the same underneath.
//!
//! ```text
//! batches --TableWriter::write--> files --TableWriter::prepare_commit--> messages   (serialisable: write here, commit there)
//!         --TableCommitter::commit(identifier, messages)--> snapshots               (an identifier is committed once)
//! ```
//!
//! A stream writes and prepares in rounds, one commit identifier a round, ascending. After a restart it replays its last
//! identifiers; those that are committed already change nothing.
//!
//! [`care_for`] is the whole upkeep of a table, for whoever does it from time to time.
//!
//! May import everything but `sql`, `catalog`, `cluster` and `bin`.

mod care;
mod committer;
mod table_writer;

pub use care::{Budget, CareReport, Deed, care_for, shown_bytes};
pub use committer::TableCommitter;
pub use table_writer::TableWriter;
