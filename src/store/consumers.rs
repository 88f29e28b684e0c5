//! Consumers of a branch (`spec/metadata.md 9.3`): how far named streams have read, and what expiration must keep for them.
//!
//! May import: `error`, `store::{cache, documents, files}`.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::cache::Caches;
use super::documents::{self, load_all};
use super::files::TableFiles;
use crate::error::{Error, Result};

const PREFIX: &str = "consumer-";

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Id.
    pub id: String,
    /// The next snapshot it reads; it and those after it are kept.
    pub next_snapshot: i64,
    /// When it last said so; an idle consumer expires by this.
    pub modified: DateTime<Utc>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Position {
    next_snapshot: i64,
}

/// The consumers of a branch.
#[derive(Clone, Debug)]
pub struct Consumers {
    files: Arc<TableFiles>,
    caches: Arc<Caches>,
}

impl Consumers {
    /// The consumers of the branch of `files`.
    pub fn new(files: Arc<TableFiles>, caches: Arc<Caches>) -> Self {
        Self { files, caches }
    }

    /// The next snapshot of consumer `id`; `None` when there is no such consumer.
    ///
    /// # Errors
    /// Invalid when `id` can't be one, corrupt when the file is not a consumer, Io when the store failed.
    pub async fn next_snapshot(&self, id: &str) -> Result<Option<i64>> {
        let parse = |bytes: &[u8]| {
            serde_json::from_slice::<Position>(bytes)
                .map_err(|error| Error::corrupt("the consumer is not a valid document").with_source(error))
        };
        let position = documents::load(&self.files, &self.caches, &self.files.consumer_path(id)?, parse).await?;
        Ok(position.map(|position| position.next_snapshot))
    }

    /// Writes down that consumer `id` reads `next_snapshot` next.
    ///
    /// # Errors
    /// Invalid when `id` can't be one, Io when the store failed.
    pub async fn record(&self, id: &str, next_snapshot: i64) -> Result<()> {
        // As Java writes it.
        let text = format!("{{\n  \"nextSnapshot\" : {next_snapshot}\n}}");
        self.files.overwrite(&self.files.consumer_path(id)?, text.into_bytes()).await
    }

    /// Forgets consumer `id`. One that is not there is as good as forgotten.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn delete(&self, id: &str) -> Result<()> {
        self.files.delete(&self.files.consumer_path(id)?).await
    }

    /// All consumers by id.
    ///
    /// # Errors
    /// Corrupt when a file is not a consumer, Io when the store failed.
    pub async fn list(&self) -> Result<Vec<Consumer>> {
        let listed = self.files.list(&self.files.consumer_dir()).await?;
        let named = listed.iter().filter_map(|file| {
            let id = file.location.filename()?.strip_prefix(PREFIX).filter(|id| !id.is_empty())?;
            Some((id.to_owned(), file.last_modified))
        });
        let mut named: Vec<_> = named.collect();
        named.sort_unstable();
        load_all(named, |(id, modified)| async move {
            let next = self.next_snapshot(&id).await?;
            Ok(next.map(|next_snapshot| Consumer { id, next_snapshot, modified }))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::store::testing::{memory, put};

    #[tokio::test]
    async fn list_when_consumers_then_by_id() {
        let root = memory("t");
        put(&root, "consumer/consumer-b", "{\n  \"nextSnapshot\" : 4\n}".to_owned()).await;
        put(&root, "consumer/consumer-a-1", r#"{"nextSnapshot":3,"other":1}"#.to_owned()).await;
        put(&root, "consumer/other", "x".to_owned()).await;
        let consumers = Consumers::new(Arc::new(TableFiles::new(root.clone(), None).unwrap()), Arc::default());
        let list = consumers.list().await.unwrap();
        let positions: Vec<_> = list.iter().map(|consumer| (consumer.id.as_str(), consumer.next_snapshot)).collect();
        assert_eq!(positions, [("a-1", 3), ("b", 4)]);
        assert_eq!(consumers.next_snapshot("c").await.unwrap(), None);
        put(&root, "consumer/consumer-b", "{\"nextSnapshot\" : 5}".to_owned()).await;
        assert_eq!(consumers.next_snapshot("b").await.unwrap(), Some(5));
        put(&root, "consumer/consumer-b", "{}".to_owned()).await;
        assert_eq!(consumers.list().await.unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
