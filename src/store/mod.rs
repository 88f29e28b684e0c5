//! The files of a table in an object store: where they lie, how they are read and created, and what the small documents
//! among them say (snapshots, schemas, tags, branches, consumers). Decoding of manifests and data files is not done here, but
//! the cache that keeps them is.
//!
//! ```text
//! location  a warehouse path or URL -> the store behind it and a prefix
//! files     one table (and branch) -> paths
//! access    read, list, create if absent, overwrite
//! folders   make, rename and delete whole folders
//! documents one JSON file -> a parsed value, cached and checked against the store before it is used again
//! snapshots, schemas, tags, branches, consumers   what those documents are
//! cache     decoded files, by bytes
//! ```
//!
//! May import: `error`, `options`, `spec`.

mod access;
pub mod branches;
pub mod cache;
#[cfg(test)]
pub(crate) mod chaos;
pub mod consumers;
mod documents;
pub mod files;
pub(crate) mod folders;
pub mod location;
pub mod schemas;
pub mod snapshots;
pub mod tags;
#[cfg(test)]
pub(crate) mod testing;

pub use access::check_conditional_put;
pub(crate) use access::list_folders;
pub use branches::Branches;
pub use cache::{ByteCache, CacheCounts, Cached, Caches, FileKey};
pub use consumers::{Consumer, Consumers};
pub use files::{DataLayout, TableFiles};
pub(crate) use folders::{Unfinished, remove_unfinished};
pub use location::{StoreFactory, StoreLocation, StoreRegistry, open_store, register_store};
pub use schemas::Schemas;
pub use snapshots::Snapshots;
pub use tags::{Tag, Tags};
