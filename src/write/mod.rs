//! From rows to files: which bucket a row belongs to, sorted runs, rolling files, append files. Ends in a [`CommitMessage`]
//! for each partition and bucket; nothing is visible to readers before those are committed.
//!
//! May import: `error`, `options`, `spec`, `store`, `format`, `table`, `plan`, `read`.

mod message;
mod own_files;

pub use message::CommitMessage;
pub use own_files::OwnFiles;
