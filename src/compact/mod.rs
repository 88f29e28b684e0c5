//! Compaction: files are written anew so that there are fewer of them.
//!
//! May import: `error`, `options`, `spec`, `store`, `format`, `table`, `plan`, `read`, `write`, `commit`.

pub mod append;
mod append_pick;
mod append_rows;
pub mod append_sort;
