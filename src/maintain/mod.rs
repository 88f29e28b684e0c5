//! What keeps a table in order beside writing to it: tags, branches, consumers, and going back to an earlier state.
//!
//! Each function is one change as a user would ask for it, with typed arguments; the files it touches are `store`'s. Whoever
//! may read the table sees it before or after such a change, but for a rollback and a fast-forward, which take away snapshots
//! that a running query may be reading.
//!
//! May import: `error`, `options`, `spec`, `store`, `format`, `table`, `plan`, `read`, `write`, `commit`.

pub mod automatic_tags;
pub mod branches;
pub mod consumers;
mod doomed;
pub mod expire_changelogs;
pub mod expire_partitions;
pub mod expire_snapshots;
pub mod file_indexes;
pub mod health;
pub mod mark_done;
pub mod orphan_files;
mod partition_time;
mod references;
pub mod repair;
pub mod rollback;
pub mod tags;
#[cfg(test)]
mod tests;
pub mod upkeep;
