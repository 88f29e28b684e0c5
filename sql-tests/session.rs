//! The one place where the suites open a session: a catalog `lake` over a warehouse, a current database, and SQL through
//! tidelake's front end.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use tidelake::LakeSession;

/// What goes wrong in a session.
pub type SessionError = Box<dyn Error + Send + Sync>;

/// An open session.
pub struct Session {
    lake: LakeSession,
}

/// Opens a session over the warehouse folder with `database` as the current one.
pub async fn open(warehouse: &Path, database: &str) -> Result<Session, SessionError> {
    let warehouse = warehouse.to_str().ok_or("the warehouse's path is not UTF-8")?;
    let lake = LakeSession::builder().warehouse(warehouse).catalog("lake").database(database).build().await?;
    Ok(Session { lake })
}

impl Session {
    /// Runs one statement: the columns of its result and all rows.
    pub async fn sql(&self, text: &str) -> Result<(SchemaRef, Vec<RecordBatch>), SessionError> {
        let frame = self.lake.sql(text).await?;
        let schema = Arc::clone(frame.schema().inner());
        Ok((schema, frame.collect().await?))
    }
}
