//! The engine's face of a lake: what SQL, plans and sessions see of the tables.
//!
//! ```text
//! text --tokens--> rewritten tokens --parser--> tree --prepass--> tree --engine--> plan
//!                                                       |
//!                                     names that carry versions and options (t@5, t@opts:..)
//! name --catalog_provider--> LakeTable --scan--> LakeScanExec
//! ```
//!
//! Imports everything below it; nothing below it knows SQL text or a `SessionContext`.

mod branches;
mod bridge;
mod care;
mod case;
mod catalog_provider;
mod catalogs;
mod changes;
mod clocks;
mod coercion;
mod constructors;
mod ddl;
mod describe;
mod dialect;
mod dml;
mod factory;
mod functions;
pub(crate) mod hints;
mod literals;
mod pins;
mod prepass;
mod procedures;
mod provider;
mod relations;
mod replacements;
mod rewrite;
mod row_ids;
pub(crate) mod scan;
mod session;
mod settings;
mod statement;
mod system;
mod tokens;
mod travel;
mod types;
mod warnings;
mod words;
mod write;
mod zone;

#[cfg(test)]
mod tests;

pub use bridge::cleaned_up;
pub use catalog_provider::{LakeCatalog, LakeSchema};
pub use changes::LakeChanges;
pub use dml::{MergeBuilder, Rows, When, merge};
pub use factory::LakeTableFactory;
pub use provider::LakeTable;
pub use scan::LakeScanExec;
pub use session::{LakeSession, LakeSessionBuilder, ends_statement, register, split_statements};
pub use settings::PaimonSettings;
pub use warnings::take_warnings;
