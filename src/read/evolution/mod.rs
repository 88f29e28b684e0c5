//! Schema evolution: files of any schema the table ever had, read as its columns of today (`spec/data.md 1.3`).
//!
//! [`FileMapping`] says for one file schema where each column comes from; it works on batches. [`FieldIdAdapterFactory`] does the
//! same to expressions, inside the engine's scans. `cast` holds the casts.
//!
//! May import: `error`, `spec`, `format`.

mod adapter;
pub(crate) mod cast;
mod mapping;
#[cfg(test)]
mod tests;

pub use adapter::FieldIdAdapterFactory;
pub use mapping::FileMapping;
