//! Brings a table up to date out of a program: creates it if it is not there, merges rows into it, and shows what changed.
//!
//! ```sh
//! cargo run --features cli --example merge -- /data/warehouse
//! ```
//! Without a folder it works on one of its own that goes when it ends.

use std::collections::BTreeMap;
use std::env;
use std::error::Error;

use datafusion::prelude::{SessionContext, col, lit};
use tidelake::{LakeSession, When, merge, register};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("tidelake-merge-{}", std::process::id()));
    let warehouse = env::args().nth(1).unwrap_or_else(|| folder.display().to_string());
    let session = LakeSession::builder().warehouse(warehouse.as_str()).build().await?;
    for statement in [
        "CREATE TABLE IF NOT EXISTS stock (item STRING, pieces INT, PRIMARY KEY (item) NOT ENFORCED) WITH ('bucket' = '1')",
        "INSERT INTO stock VALUES ('bolt', 10), ('nut', 20), ('cog', 30)",
    ] {
        session.sql(statement).await?.collect().await?;
    }

    // Any session of the engine will do.
    let context = SessionContext::new();
    register(&context, "lake", &BTreeMap::from([("warehouse".to_owned(), warehouse.clone())])).await?;
    let deliveries =
        context.sql("SELECT * FROM (VALUES ('bolt', 5), ('cog', -30), ('gear', 7)) AS v(item, pieces)").await?;
    let changed = merge(&context, "lake.default.stock")
        .using(deliveries, "d")
        .on(col("stock.item").eq(col("d.item")))
        .when(When::matched().and((col("stock.pieces") + col("d.pieces")).lt_eq(lit(0))).delete())
        .when(When::matched().update([("pieces", col("stock.pieces") + col("d.pieces"))]))
        .when(When::not_matched().insert_all())
        .execute()
        .await?;
    println!("{changed} rows changed");
    context.sql("SELECT * FROM lake.\"default\".stock ORDER BY item").await?.show().await?;

    if env::args().nth(1).is_none() {
        std::fs::remove_dir_all(folder)?;
    }
    Ok(())
}
