//! Which rows of a file are rows of the table: live rows, folds, deletion vectors, schema evolution.
//!
//! A merged read is two steps. `resolve` reads only the keys of a section's files and says, for each file, which of its
//! rows are live; then the files are scanned as if they were plain Parquet, with those rows as a selection. Keys that have
//! several versions to be folded (partial-update, aggregation) are told apart by `resolve` as well and read by `fold_scan`.
//!
//! ```text
//! Section -> keys.rs    key columns of each file, as integers or row bytes
//!         -> resolve.rs windows over all runs -> kernel.rs  live / contested rows of a window
//!         -> LiveRows   one selection a file, cached by the (immutable) set of files
//! ```
//!
//! May import: `spec`, `options`, `store`, `format`, `table`, `plan`.

pub mod deletion;
pub mod evolution;
pub mod fold;
pub mod kernel;
pub mod key_reader;
pub mod keys;
pub mod live_rows;
pub mod parquet_reader;
pub mod resolve;
#[cfg(test)]
mod resolve_tests;
