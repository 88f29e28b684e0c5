//! A lake catalog in a stock `SessionContext`: runs SQL and says how long each statement took.
//!
//! ```sh
//! cargo run --release --example query -- WAREHOUSE DATABASE 'SELECT count(*) FROM t' ..
//! ```
//!
//! With `-r N` before the statements each runs N times: the first is cold (a new process), the others are warm. With `-m N` the
//! memory pool has N megabytes, and what does not fit is spilled. With `-d 1` a `LakeSession` runs them, which also knows what the
//! engine's parser does not: `CALL`, `MERGE INTO` with `*`, and so on.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use arrow::util::pretty::pretty_format_batches;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use tidelake::LakeSession;
use tidelake::catalog::FileSystemCatalog;
use tidelake::sql::LakeCatalog;
use tidelake::store::Caches;

enum Engine {
    Stock(SessionContext),
    Lake(LakeSession),
}

impl Engine {
    async fn sql(&self, statement: &str) -> Result<DataFrame, Box<dyn Error>> {
        match self {
            Self::Stock(context) => Ok(context.sql(statement).await?),
            Self::Lake(session) => Ok(session.sql(statement).await?),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(warehouse), Some(database)) = (arguments.next(), arguments.next()) else {
        return Err("usage: query WAREHOUSE DATABASE [-r N] [-m MEGABYTES] [-d 1] 'SQL' ..".into());
    };
    let mut statements: Vec<String> = arguments.collect();
    let (mut repeat, mut megabytes, mut dialect) = (1, None, false);
    while statements.len() > 1 {
        match statements[0].as_str() {
            "-r" => repeat = statements[1].parse()?,
            "-m" => megabytes = Some(statements[1].parse::<usize>()?),
            "-d" => dialect = statements[1] == "1",
            _ => break,
        }
        statements.drain(..2);
    }

    let runtime = RuntimeEnvBuilder::new();
    let runtime = match megabytes {
        Some(megabytes) => runtime.with_memory_pool(Arc::new(FairSpillPool::new(megabytes << 20))),
        None => runtime,
    };
    let runtime = runtime.build_arc()?;
    let engine = if dialect {
        let session = LakeSession::builder().warehouse(warehouse).database(database).runtime_env(runtime);
        Engine::Lake(session.build().await?)
    } else {
        let config = SessionConfig::new()
            .with_default_catalog_and_schema("lake", database)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(true);
        let context = SessionContext::new_with_config_rt(config, runtime);
        let catalog = FileSystemCatalog::open(&warehouse)?;
        context.register_catalog("lake", Arc::new(LakeCatalog::new(Arc::new(catalog), Arc::new(Caches::default()))));
        Engine::Stock(context)
    };

    for statement in &statements {
        for run in 0..repeat {
            let started = Instant::now();
            let batches = engine.sql(statement).await?.collect().await?;
            let seconds = started.elapsed().as_secs_f64();
            if run == 0 {
                println!("{}", pretty_format_batches(&batches)?);
            }
            println!("{seconds:.4} s");
        }
    }
    Ok(())
}
