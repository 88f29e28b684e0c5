//! From rows to files: which bucket a row belongs to, sorted runs, rolling files, append files. Ends in a [`CommitMessage`]
//! for each partition and bucket; nothing is visible to readers before those are committed.
//!
//! May import: `error`, `options`, `spec`, `store`, `format`, `table`, `plan`, `read`.

mod context;
mod data_file;
mod message;
mod own_files;
mod rolling;
#[cfg(test)]
mod rolling_tests;

pub use context::{DataFileContext, FileNames};
pub use data_file::FileKind;
pub use message::CommitMessage;
pub use own_files::OwnFiles;
pub use rolling::RollingWriter;
