//! The engine's face of a lake: catalogs, tables and scans for a `SessionContext`.
//!
//! May import everything below.

mod bridge;
mod catalog_provider;
mod pins;
mod provider;
pub(crate) mod scan;

pub use catalog_provider::{LakeCatalog, LakeSchema};
pub use provider::LakeTable;
pub use scan::LakeScanExec;
