//! A stream of batches, committed exactly once although the process that writes it is stopped and started again.
//!
//! ```sh
//! cargo run --features cli --example stream -- WAREHOUSE
//! ```
//!
//! Run it as often as you like, and stop it whenever you like: the source is read from where the last commit left off, a
//! commit that was repeated changes nothing, and at the end the table holds each event once.

use std::error::Error;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::SessionContext;
use tidelake::LakeSession;
use tidelake::catalog::{Catalog, FileSystemCatalog};
use tidelake::store::Caches;
use tidelake::table::ObjectName;
use tidelake::writer::{TableCommitter, TableWriter};

/// Rounds of the source, and events of a round.
const ROUNDS: i64 = 5;
const EVENTS: i64 = 1000;

/// What the source gives in a round: a source that can be read again from where one likes.
fn events(round: i64) -> Result<RecordBatch, Box<dyn Error>> {
    let ids = round * EVENTS..(round + 1) * EVENTS;
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("what", DataType::Utf8, true)]);
    let what: StringArray = ids.clone().map(|id| Some(format!("event {id}"))).collect();
    Ok(RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from_iter_values(ids)), Arc::new(what)])?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Some(warehouse) = std::env::args().nth(1) else {
        return Err("usage: stream WAREHOUSE".into());
    };
    let session = LakeSession::builder().warehouse(&warehouse).build().await?;
    for sql in ["CREATE DATABASE IF NOT EXISTS demo", "CREATE TABLE IF NOT EXISTS demo.events (id BIGINT, what STRING)"]
    {
        session.sql(sql).await?.collect().await?;
    }

    let catalog = FileSystemCatalog::open(&warehouse)?;
    let name: ObjectName = "events".parse()?;
    let table = catalog.open_table("demo", &name, &Arc::new(Caches::default()), Default::default()).await?;
    // The name of the stream: it stays the same over restarts, and its identifiers count up.
    let user = "events-stream";
    let committer = TableCommitter::try_new(&table, user)?;
    let mut writer = TableWriter::try_new(&table, user, SessionContext::new().task_ctx())?;
    for round in 0..ROUNDS {
        writer.write(events(round)?).await?;
        let messages = writer.prepare_commit().await?;
        // A real stream would go on from its last commit. This one repeats everything, as after the worst of crashes.
        let outcome = committer.commit(round, messages).await?;
        match outcome.snapshot() {
            Some(snapshot) => println!("round {round}: snapshot {}", snapshot.id),
            None => println!("round {round}: was committed before"),
        }
    }
    session.sql("SELECT count(*) AS events, count(DISTINCT id) AS different FROM demo.events").await?.show().await?;
    Ok(())
}
