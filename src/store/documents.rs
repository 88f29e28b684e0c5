//! Small JSON documents: read, parsed, cached, and checked against the store before they are used again.
//!
//! The names of snapshots and schemas come back after a rollback (`spec/metadata.md 3.4`), so a cached one is used only when
//! the store says that the file is still the same: one conditional read, which answers without a body.
//!
//! May import: `error`, `store::{access, cache, files}`.

use std::any::Any;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;

use super::access::{Fresh, Stamp};
use super::cache::Caches;
use super::files::TableFiles;
use crate::error::{Error, ErrorKind, Result};

/// Waits before a document that looks cut off is read again: some stores show a file before it is whole
/// (`spec/metadata.md 3.4`).
const RETRIES: [Duration; 4] =
    [Duration::from_millis(5), Duration::from_millis(20), Duration::from_millis(60), Duration::from_millis(120)];

struct Document<T> {
    stamp: Stamp,
    value: Arc<T>,
}

/// The document in the file `path`; `None` when there is no such file.
///
/// # Errors
/// Those of `parse` with the file's name, Io when the store failed.
pub(crate) async fn load<T: Any + Send + Sync>(
    files: &TableFiles,
    caches: &Caches,
    path: &Path,
    parse: impl Fn(&[u8]) -> Result<T> + Send + Sync,
) -> Result<Option<Arc<T>>> {
    let key: Arc<str> = files.location_of(path).into();
    let cached = caches.document::<Document<T>>(&key);
    let mut waits = RETRIES.iter();
    loop {
        let known = cached.as_ref().map(|document| &document.stamp);
        let (bytes, stamp) = match (files.read_unless(path, known).await, &cached) {
            (Ok(Fresh::Changed(bytes, stamp)), _) => (bytes, stamp),
            (Ok(Fresh::Same), Some(document)) => return Ok(Some(Arc::clone(&document.value))),
            (Ok(Fresh::Same), None) => return Err(Error::internal("a document that was never read is unchanged")),
            (Err(error), _) if error.kind() == ErrorKind::NotFound => {
                caches.remove_document(&key);
                return Ok(None);
            }
            (Err(error), _) => return Err(error),
        };
        match parse(&bytes) {
            Ok(value) => {
                let value = Arc::new(value);
                // Parsed, a document takes about twice its text.
                let weight = 2 * bytes.len() + key.len() + size_of::<Document<T>>();
                let document = Document { stamp, value: Arc::clone(&value) };
                caches.insert_document(key, Arc::new(document), weight);
                return Ok(Some(value));
            }
            Err(error) => match waits.next() {
                Some(wait) if is_cut_off(&error) => tokio::time::sleep(*wait).await,
                _ => return Err(error.with("file", key.as_ref())),
            },
        }
    }
}

/// Whether a document ends before its JSON does.
fn is_cut_off(error: &Error) -> bool {
    error.source().and_then(|source| source.downcast_ref::<serde_json::Error>()).is_some_and(serde_json::Error::is_eof)
}

/// Runs `load` for every name, a few at a time, in order.
pub(crate) async fn load_all<N, T, F>(names: Vec<N>, load: impl Fn(N) -> F) -> Result<Vec<T>>
where
    F: Future<Output = Result<Option<T>>>,
{
    let loads = futures::stream::iter(names.into_iter().map(load)).buffered(16);
    loads.try_filter_map(|loaded| async move { Ok(loaded) }).try_collect().await
}
