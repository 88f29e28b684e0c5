//! The DataFusion face: what SQL, plans and sessions see of the tables.
//!
//! ```text
//! text --tokens--> rewritten tokens --parser--> tree --prepass--> tree --engine--> plan
//!                                                       |
//!                                     names that carry versions and options (t@5, t@opts:..)
//! ```
//!
//! Imports everything below it; nothing below it knows SQL text or a `SessionContext`.

mod case;
mod catalogs;
mod describe;
mod dialect;
mod functions;
pub(crate) mod hints;
mod literals;
mod prepass;
mod relations;
mod rewrite;
mod session;
mod settings;
mod statement;
mod tokens;
mod types;
mod zone;

#[cfg(test)]
mod tests;

pub use session::{LakeSession, LakeSessionBuilder, ends_statement, register, split_statements};
pub use settings::PaimonSettings;
