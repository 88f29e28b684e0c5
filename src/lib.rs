//! tidelake reads Apache Paimon tables as Apache DataFusion tables.

pub mod catalog;
pub mod error;
pub mod options;
pub mod read;
pub mod spec;
pub mod store;
pub mod table;

#[cfg(test)]
mod house;

pub use error::{Error, ErrorKind, Result};
