//! tidelake reads Apache Paimon tables as Apache DataFusion tables.

pub mod error;
pub mod options;
pub mod spec;

#[cfg(test)]
mod house;

pub use error::{Error, ErrorKind, Result};
