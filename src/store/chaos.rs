//! A store that fails, hangs, answers "error" after doing it and shows stale lists, as a test decides operation by operation.
//!
//! May import: `store::location`.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use parking_lot::Mutex;

use super::location::StoreLocation;

/// What is asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// A file that is written over one that may be there.
    Put,
    /// A file that is created if absent.
    Create,
    Get,
    Head,
    List,
    Delete,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Works,
    /// An error, and nothing is done.
    Fails,
    /// It is done, and then an error.
    FailsAfter,
    /// Nothing is done, and there is never an answer.
    Hangs,
    /// It is done, and there is never an answer.
    HangsAfter,
    /// A list without the files that were written last.
    Stale,
}

/// Decides over an operation.
pub(crate) type Decide = Box<dyn Fn(Operation, &Path) -> Fate + Send + Sync>;

/// So many of the last files a stale list does not show.
const UNSEEN: usize = 3;

/// Set when an operation is about to start: with a gate each one lets others go first, so that a test can interleave them.
pub(crate) type Gate = Arc<AtomicBool>;

pub(crate) struct ChaosStore {
    inner: Arc<dyn ObjectStore>,
    decide: Decide,
    last: Mutex<VecDeque<Path>>,
    gate: Option<Gate>,
}

impl ChaosStore {
    /// The same files through a store that does as `decide` says.
    pub(crate) fn over(root: &StoreLocation, decide: Decide) -> StoreLocation {
        Self::gated(root, decide, None)
    }

    /// The same, one operation at a time.
    pub(crate) fn gated(root: &StoreLocation, decide: Decide, gate: Option<Gate>) -> StoreLocation {
        let store = Self { inner: Arc::clone(root.store()), decide, last: Mutex::default(), gate };
        StoreLocation::new(Arc::new(store), root.url().clone(), root.prefix().clone()).unwrap()
    }

    async fn run<T>(&self, operation: Operation, path: &Path, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.pass().await;
        match (self.decide)(operation, path) {
            Fate::Works | Fate::Stale => work.await,
            Fate::Fails => Err(error()),
            Fate::FailsAfter => match work.await {
                Ok(_) => Err(error()),
                // The request was made again by something on the way, and that is the answer to the second one.
                Err(error) => Err(error),
            },
            Fate::Hangs => futures::future::pending().await,
            Fate::HangsAfter => {
                let _ = work.await;
                futures::future::pending().await
            }
        }
    }

    /// Lets others go first, once.
    async fn pass(&self) {
        if let Some(gate) = &self.gate {
            let mut waited = false;
            futures::future::poll_fn(|context| {
                if std::mem::replace(&mut waited, true) {
                    return Poll::Ready(());
                }
                gate.store(true, Ordering::SeqCst);
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }

    fn unseen(&self, fate: Fate) -> Vec<Path> {
        if fate == Fate::Stale { self.last.lock().iter().cloned().collect() } else { Vec::new() }
    }
}

fn error() -> object_store::Error {
    object_store::Error::Generic { store: "chaos", source: "connection reset".into() }
}

impl fmt::Debug for ChaosStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chaos over {}", self.inner)
    }
}

impl fmt::Display for ChaosStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[async_trait]
impl ObjectStore for ChaosStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let operation = if matches!(opts.mode, PutMode::Create) { Operation::Create } else { Operation::Put };
        let work = async {
            let result = self.inner.put_opts(location, payload, opts).await?;
            let mut last = self.last.lock();
            last.push_back(location.clone());
            if last.len() > UNSEEN {
                last.pop_front();
            }
            Ok(result)
        };
        self.run(operation, location, work).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let operation = if options.head { Operation::Head } else { Operation::Get };
        self.run(operation, location, self.inner.get_opts(location, options)).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.run(Operation::Get, location, self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        match (self.decide)(Operation::Delete, &Path::ROOT) {
            Fate::Fails => stream::iter([Err(error())]).boxed(),
            Fate::FailsAfter => self.inner.delete_stream(locations).map(|_| Err(error())).boxed(),
            Fate::Hangs | Fate::HangsAfter => stream::pending().boxed(),
            Fate::Works | Fate::Stale => self.inner.delete_stream(locations),
        }
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let fate = (self.decide)(Operation::List, prefix.unwrap_or(&Path::ROOT));
        let unseen = self.unseen(fate);
        match fate {
            Fate::Fails | Fate::FailsAfter => stream::iter([Err(error())]).boxed(),
            Fate::Hangs | Fate::HangsAfter => stream::pending().boxed(),
            Fate::Works => self.inner.list(prefix),
            Fate::Stale => self
                .inner
                .list(prefix)
                .filter(move |listed| {
                    let seen = listed.as_ref().map_or(true, |listed| !unseen.contains(&listed.location));
                    async move { seen }
                })
                .boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.pass().await;
        let fate = (self.decide)(Operation::List, prefix.unwrap_or(&Path::ROOT));
        match fate {
            Fate::Fails | Fate::FailsAfter => return Err(error()),
            Fate::Hangs | Fate::HangsAfter => futures::future::pending().await,
            Fate::Works | Fate::Stale => {}
        }
        let unseen = self.unseen(fate);
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        listed.objects.retain(|object| !unseen.contains(&object.location));
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
