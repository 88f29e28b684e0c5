//! Follows a table: prints what it holds, and then what each commit of another process changes.
//!
//! ```sh
//! cargo run --features cli --example follow -- /data/warehouse sales orders
//! ```
//! A fourth argument is the id of a consumer: the next run goes on where this one ended, and snapshots that are still to be read
//! do not expire. The table needs the option `consumer.expiration-time` for that. With `FOLLOW_STEPS=n` it ends after n steps.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::sync::Arc;

use datafusion::prelude::SessionContext;
use tidelake::catalog::{Catalog, FileSystemCatalog};
use tidelake::plan::ChangeFeed;
use tidelake::sql::LakeChanges;
use tidelake::store::Caches;
use tidelake::table::{ObjectName, timestamp_millis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let (warehouse, database, table, consumer) = match args.as_slice() {
        [warehouse, database, table] => (warehouse, database, table, None),
        [warehouse, database, table, consumer] => (warehouse, database, table, Some(consumer)),
        _ => return Err("usage: follow <warehouse> <database> <table> [<consumer>]".into()),
    };
    let mut steps: Option<usize> = env::var("FOLLOW_STEPS").ok().map(|steps| steps.parse()).transpose()?;

    let mut options = BTreeMap::from([("continuous.discovery-interval".to_owned(), "1 s".to_owned())]);
    if let Some(consumer) = consumer {
        options.insert("consumer-id".to_owned(), consumer.clone());
    }
    let catalog = FileSystemCatalog::open(warehouse)?;
    let name: ObjectName = table.parse()?;
    let table = catalog.open_table(database, &name, &Arc::new(Caches::default()), options).await?;

    let context = SessionContext::new();
    let mut feed = ChangeFeed::open(Arc::clone(&table), &|text| timestamp_millis(text, &chrono::Utc)).await?;
    while steps != Some(0) {
        let Some(step) = feed.poll().await? else {
            tokio::time::sleep(feed.interval()?).await;
            continue;
        };
        println!("snapshot {} of {}", step.snapshot.id, step.snapshot.commit_kind.name());
        context.read_table(Arc::new(LakeChanges::new(Arc::clone(&table), step)))?.show().await?;
        // What was printed is done: a consumer that comes back does not see it again.
        feed.record().await?;
        steps = steps.map(|steps| steps - 1);
    }
    Ok(())
}
