//! tidelake reads and writes [Apache Paimon](https://paimon.apache.org) tables, wherever Flink, Spark or another engine
//! made them, as [DataFusion](https://datafusion.apache.org) tables: right rows of key tables and append tables, near
//! the speed of a plain Parquet scan, without a JVM.
//!
//! There are three ways in, from the least to the most:
//!
//! 1. **A catalog in your own session.** [`sql::LakeCatalog`] goes into any `SessionContext`; tables are
//!    `catalog.database.table`, and a name can carry a version or a branch: `"t@5"`, `"t@tag:x"`,
//!    `"t@ts:2024-01-02 10:00:00"`, `"t$branch_dev"`.
//! 2. **[`register`]** opens the catalog by its options and adds what goes with it: functions, `SET paimon.*`, and
//!    `CREATE EXTERNAL TABLE t STORED AS PAIMON LOCATION '..'` for a table without a catalog.
//! 3. **[`LakeSession`]** adds the dialect of Flink and Spark: hints, `FOR VERSION AS OF`, `SHOW`, `DESCRIBE`, `USE`.
//!    The shell `tidelake` (feature `cli`) is such a session with a prompt.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use datafusion::prelude::SessionContext;
//! use tidelake::catalog::FileSystemCatalog;
//! use tidelake::sql::LakeCatalog;
//! use tidelake::store::Caches;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let catalog = FileSystemCatalog::open("/data/warehouse")?;
//! let context = SessionContext::new();
//! context.register_catalog("lake", Arc::new(LakeCatalog::new(Arc::new(catalog), Arc::new(Caches::default()))));
//! context.sql("SELECT region, sum(amount) FROM lake.sales.orders GROUP BY region").await?.show().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # The way of a query
//!
//! ```text
//! name --catalog--> folder --table--> snapshot, schema --plan--> files that can matter, as sections and splits
//!      --read--> which of their rows are live --format--> the engine's own readers --> batches
//! ```
//!
//! Each step is a module: [`spec`] is the format itself, without I/O; [`store`] the files of a table; [`catalog`]
//! databases and tables; [`table`] an open table at a version; [`plan`], [`read`] and [`mod@format`] as above; [`sql`]
//! the engine's face of it all. [`options`] knows every option of the format and [`error`] is the one error type.
//!
//! # The way of an INSERT
//!
//! ```text
//! rows --write--> checked, dealt out by bucket, sorted, merged, files --commit--> the next snapshot, or nothing
//! ```
//!
//! [`write`](mod@write) turns rows into files and messages about them, [`commit`] is the one path of every change,
//! [`writer`] is both in the hands of an application that has batches and no SQL.
//!
//! Imports point one way only: `spec <- store <- {format, table} <- plan <- read <- write <- commit <- writer <- sql`.
//!
//! # What is refused
//!
//! Nothing is ignored in silence. A table that needs what this version does not have, an option that is not known, a
//! file that is damaged or missing: each is an [`Error`] that names the table, the file and what to do, never fewer
//! rows.
//!
//! Every public item is documented (`missing_docs` is denied); where one follows a rule of the format that would
//! surprise, it cites the section of the format's description, as in `spec/data.md 4.3`.

pub mod catalog;
pub mod commit;
pub mod compact;
pub mod error;
pub mod format;
pub mod maintain;
pub mod options;
pub mod plan;
pub mod read;
pub mod spec;
pub mod sql;
pub mod store;
pub mod table;
pub mod write;
pub mod writer;

#[cfg(test)]
mod house;

pub use error::{Error, ErrorKind, Result};
pub use sql::{LakeSession, When, merge, register};
