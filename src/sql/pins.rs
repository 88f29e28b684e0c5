//! One snapshot per table per query.
//!
//! The engine asks for each mention of a table by itself; a self-join must see one state of it all the same. What tells the
//! mentions of a query from another query's is the moment the engine began to run it.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use parking_lot::Mutex;

use crate::error::Result;
use crate::spec::Snapshot;
use crate::table::Table;

/// Queries that are remembered; older ones are over or have asked already.
const REMEMBERED: usize = 64;

type Pinned = Option<Arc<Snapshot>>;
/// When a query began and what it has seen of each table.
type Query = (DateTime<Utc>, HashMap<String, Pinned>);

/// The latest snapshots that running queries have seen.
#[derive(Debug, Default)]
pub(crate) struct SnapshotPins {
    queries: Mutex<Vec<Query>>,
}

impl SnapshotPins {
    /// The latest snapshot of `table`, the same one for all mentions in the query that began at `query`.
    pub(crate) async fn latest(&self, table: &Table, query: Option<DateTime<Utc>>) -> Result<Pinned> {
        let Some(query) = query else { return table.snapshot(None).await };
        let name = format!("{}#{:?}", table.files().root().as_str(), table.files().branch());
        if let Some(pinned) = self.pinned(query, &name) {
            return Ok(pinned);
        }
        let latest = table.snapshot(None).await?;
        let mut queries = self.queries.lock();
        if !queries.iter().any(|(began, _)| *began == query) {
            if queries.len() >= REMEMBERED {
                queries.remove(0);
            }
            queries.push((query, HashMap::new()));
        }
        let Some((_, tables)) = queries.iter_mut().find(|(began, _)| *began == query) else { return Ok(latest) };
        // Of two mentions that asked at once the first one stays.
        Ok(tables.entry(name).or_insert(latest).clone())
    }

    fn pinned(&self, query: DateTime<Utc>, name: &str) -> Option<Pinned> {
        self.queries.lock().iter().find(|(began, _)| *began == query)?.1.get(name).cloned()
    }
}
