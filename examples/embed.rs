//! Tables of a lake in a stock `SessionContext`: opens the warehouse that lies beside this file and compares a table with
//! what it was.
//!
//! ```sh
//! cargo run --features cli --example embed
//! ```

use std::error::Error;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use tidelake::catalog::FileSystemCatalog;
use tidelake::sql::LakeCatalog;
use tidelake::store::Caches;

const WAREHOUSE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/warehouse");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let catalog = FileSystemCatalog::open(WAREHOUSE)?;
    let context = SessionContext::new();
    context.register_catalog("lake", Arc::new(LakeCatalog::new(Arc::new(catalog), Arc::new(Caches::default()))));

    // A table as it is now, and as it was at its first snapshot.
    let changed = r#"
        SELECT now.id, now.region, was.amount AS amount_was, now.amount
        FROM lake."default".orders AS now
        LEFT JOIN lake."default"."orders@1" AS was ON now.id = was.id
        ORDER BY now.id"#;
    context.sql(changed).await?.show().await?;
    Ok(())
}
