//! Statements that define tables and databases and that change what tables hold: as Flink and Spark users write them, read from
//! tokens here and run against a [`Catalog`](crate::catalog::Catalog).
//!
//! ```text
//! tokens --read--> Ddl --run--> catalog, commit path              CREATE, ALTER, DROP, TRUNCATE, ANALYZE
//!                           |-> the engine's statement            INSERT, the rows of CREATE TABLE .. AS
//! ```
//! A name in a catalog that is not a lake's goes to the engine as it was written. Imports the front end and everything below.

mod alter;
mod analyze;
mod change_type;
mod create;
mod data;
mod insert;
mod merge_schema;
mod not_null;
mod read;
mod read_alter;
mod read_create;
mod replace;
mod show;
mod statement;
mod target;
mod views;

#[cfg(test)]
mod show_tests;
#[cfg(test)]
mod stock_tests;
#[cfg(test)]
mod tests;

use datafusion::prelude::DataFrame;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

pub(crate) use not_null::cast_exactly;
pub(crate) use read::{partition, read};
pub(crate) use statement::{Ddl, PartitionSpec};
pub(crate) use target::{DEFAULT_DATABASE, LakeDatabase, LakeTarget};
pub(crate) use views::Views;

use super::LakeSession;
use super::statement::engine_statement;
use crate::error::{Error, Result};

impl LakeSession {
    /// Runs a statement of the [`Ddl`] family; `tokens` are its text, for the engine when the name is not in a lake catalog.
    pub(super) async fn ddl(&self, ddl: Ddl, tokens: Vec<TokenWithSpan>) -> Result<DataFrame> {
        if self.read_only && !ddl.is_only_shown() {
            return Err(Error::invalid(format!(
                "{} is refused: this session only reads; only queries, SHOW, DESCRIBE, SET and USE are taken",
                ddl.verb()
            )));
        }
        match ddl {
            Ddl::CreateDatabase { name, if_not_exists } => self.create_database(&name, if_not_exists, tokens).await,
            Ddl::DropDatabase { name, if_exists, cascade } => {
                self.drop_database(&name, if_exists, cascade, tokens).await
            }
            Ddl::CreateTable(table) => Box::pin(self.create_table(*table, tokens)).await,
            Ddl::DropTable { table, if_exists } => self.drop_table(&table, if_exists, tokens).await,
            Ddl::AlterTable { table, if_exists, alteration } => {
                self.alter_table(&table, if_exists, alteration, tokens).await
            }
            Ddl::Truncate { table, partition } => self.truncate(&table, &partition, tokens).await,
            Ddl::DropPartitions { table, if_exists, partitions } => {
                self.drop_partitions(&table, if_exists, &partitions).await
            }
            Ddl::Analyze { table, columns } => self.analyze(&table, &columns).await,
            Ddl::CreateView(view) => Box::pin(self.create_view(*view, tokens)).await,
            Ddl::DropView { view, if_exists } => self.drop_view(&view, if_exists, tokens).await,
            Ddl::Insert(insert) => Box::pin(self.insert(*insert, tokens)).await,
        }
    }

    /// Hands a statement over whose name is not in a lake catalog.
    async fn to_engine(&self, tokens: Vec<TokenWithSpan>) -> Result<DataFrame> {
        Box::pin(self.run_engine(engine_statement(tokens)?)).await
    }
}
