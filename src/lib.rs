//! tidelake reads Apache Paimon tables as Apache DataFusion tables.
#![deny(missing_docs)]

pub mod error;
pub mod format;
pub mod options;
pub mod read;
pub mod spec;

pub use error::{Error, ErrorKind, Result};

#[cfg(test)]
mod adhoc;
