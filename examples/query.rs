//! A lake catalog in a stock `SessionContext`: runs SQL and says how long each statement took.
//!
//! ```sh
//! cargo run --release --example query -- WAREHOUSE DATABASE 'SELECT count(*) FROM t' ..
//! ```
//!
//! With `-r N` before the statements each runs N times: the first is cold (a new process), the others are warm.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::{SessionConfig, SessionContext};
use tidelake::catalog::FileSystemCatalog;
use tidelake::sql::LakeCatalog;
use tidelake::store::Caches;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(warehouse), Some(database)) = (arguments.next(), arguments.next()) else {
        return Err("usage: query WAREHOUSE DATABASE [-r N] 'SQL' ..".into());
    };
    let mut statements: Vec<String> = arguments.collect();
    let mut repeat = 1;
    if statements.first().is_some_and(|first| first == "-r") && statements.len() > 1 {
        repeat = statements[1].parse()?;
        statements.drain(..2);
    }

    let config = SessionConfig::new()
        .with_default_catalog_and_schema("lake", database)
        .with_create_default_catalog_and_schema(false)
        .with_information_schema(true);
    let context = SessionContext::new_with_config(config);
    let catalog = FileSystemCatalog::open(&warehouse)?;
    context.register_catalog("lake", Arc::new(LakeCatalog::new(Arc::new(catalog), Arc::new(Caches::default()))));

    for statement in &statements {
        for run in 0..repeat {
            let started = Instant::now();
            let batches = context.sql(statement).await?.collect().await?;
            let seconds = started.elapsed().as_secs_f64();
            if run == 0 {
                println!("{}", pretty_format_batches(&batches)?);
            }
            println!("{seconds:.4} s");
        }
    }
    Ok(())
}
