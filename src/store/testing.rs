//! Stores that lie and fail, and documents to put into them, for the tests of this crate.
//!
//! May import: `error`, `store::location`.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use serde_json::json;
use url::Url;

use super::location::StoreLocation;

/// The folder `prefix` of a new, empty store in memory that no other test sees.
pub(crate) fn memory(prefix: &str) -> StoreLocation {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = COUNT.fetch_add(1, Ordering::Relaxed);
    let url = Url::parse(&format!("memory://test-{name}/")).unwrap();
    StoreLocation::new(Arc::new(InMemory::new()), url, Path::parse(prefix).unwrap()).unwrap()
}

/// Writes the file `name` below `root`.
pub(crate) async fn put(root: &StoreLocation, name: &str, text: String) {
    let path = root.child(name).unwrap();
    root.store().put(path.prefix(), text.into()).await.unwrap();
}

/// A snapshot document of schema 0.
pub(crate) fn snapshot_json(id: i64, millis: i64) -> String {
    json!({
        "version": 3, "id": id, "schemaId": 0, "baseManifestList": "manifest-list-a-0",
        "deltaManifestList": "manifest-list-a-1", "commitUser": "user", "commitIdentifier": id, "commitKind": "APPEND",
        "timeMillis": millis, "totalRecordCount": 0, "deltaRecordCount": 0
    })
    .to_string()
}

/// A schema document of INT columns.
pub(crate) fn schema_json(id: i64, columns: &[&str]) -> String {
    let fields: Vec<_> =
        columns.iter().enumerate().map(|(i, name)| json!({"id": i, "name": name, "type": "INT"})).collect();
    json!({
        "version": 3, "id": id, "fields": fields, "highestFieldId": columns.len() - 1, "partitionKeys": [],
        "primaryKeys": [], "options": {"bucket": "1", "path": "elsewhere"}, "timeMillis": 5
    })
    .to_string()
}

/// What a [`FaultyStore`] does wrong.
#[derive(Debug)]
enum Fault {
    /// Files show in a read, then the read breaks and they are gone.
    Vanishes,
    /// Create overwrites.
    Overwrites,
    /// Hints can't be read.
    Hints,
    /// The first reads give half of the file.
    Torn(AtomicUsize),
    /// Files are written, and the answer is an error.
    LosesAnswers,
    /// That many files and parts are written, then none.
    Full(Arc<AtomicUsize>),
}

#[derive(Debug)]
struct FaultyStore {
    inner: Arc<dyn ObjectStore>,
    fault: Fault,
}

fn over(root: &StoreLocation, fault: Fault) -> StoreLocation {
    let store = FaultyStore { inner: Arc::clone(root.store()), fault };
    StoreLocation::new(Arc::new(store), root.url().clone(), root.prefix().clone()).unwrap()
}

/// See [`Fault::Vanishes`].
pub(crate) struct VanishingStore;

impl VanishingStore {
    pub(crate) fn over(root: &StoreLocation) -> StoreLocation {
        over(root, Fault::Vanishes)
    }
}

/// See [`Fault::Overwrites`].
pub(crate) struct OverwritingStore;

impl OverwritingStore {
    pub(crate) fn over(root: &StoreLocation) -> StoreLocation {
        over(root, Fault::Overwrites)
    }
}

/// See [`Fault::LosesAnswers`].
pub(crate) struct LossyStore;

impl LossyStore {
    pub(crate) fn over(root: &StoreLocation) -> StoreLocation {
        over(root, Fault::LosesAnswers)
    }
}

/// See [`Fault::Hints`].
pub(crate) struct FailingHints;

impl FailingHints {
    pub(crate) fn over(root: &StoreLocation) -> StoreLocation {
        over(root, Fault::Hints)
    }
}

/// See [`Fault::Torn`].
pub(crate) struct TornStore;

impl TornStore {
    pub(crate) fn over(root: &StoreLocation, reads: usize) -> StoreLocation {
        over(root, Fault::Torn(AtomicUsize::new(reads)))
    }
}

/// See [`Fault::Full`].
pub(crate) struct FullStore;

impl FullStore {
    pub(crate) fn over(root: &StoreLocation, writes: usize) -> StoreLocation {
        over(root, Fault::Full(Arc::new(AtomicUsize::new(writes))))
    }
}

/// Takes one of what is left.
fn take(left: &AtomicUsize) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok()
}

/// An upload to a [`FullStore`].
#[derive(Debug)]
struct FullUpload {
    inner: Box<dyn MultipartUpload>,
    left: Arc<AtomicUsize>,
}

#[async_trait]
impl MultipartUpload for FullUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        if take(&self.left) { self.inner.put_part(data) } else { std::future::ready(Err(broken())).boxed() }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        if take(&self.left) { self.inner.complete().await } else { Err(broken()) }
    }

    async fn abort(&mut self) -> Result<()> {
        self.inner.abort().await
    }
}

fn broken() -> object_store::Error {
    object_store::Error::Generic { store: "faulty", source: "broken pipe".into() }
}

impl fmt::Display for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} over {}", self.fault, self.inner)
    }
}

#[async_trait]
impl ObjectStore for FaultyStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut opts: PutOptions) -> Result<PutResult> {
        match &self.fault {
            Fault::Overwrites => opts.mode = PutMode::Overwrite,
            Fault::Full(left) if !take(left) => return Err(broken()),
            _ => {}
        }
        let answer = self.inner.put_opts(location, payload, opts).await?;
        if matches!(self.fault, Fault::LosesAnswers) { Err(broken()) } else { Ok(answer) }
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let inner = self.inner.put_multipart_opts(location, opts).await?;
        Ok(match &self.fault {
            Fault::Full(left) => Box::new(FullUpload { inner, left: Arc::clone(left) }),
            _ => inner,
        })
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let head = options.head;
        let mut answer = self.inner.get_opts(location, options).await?;
        match &self.fault {
            Fault::Vanishes if head => {
                Err(object_store::Error::NotFound { path: location.to_string(), source: "gone".into() })
            }
            Fault::Vanishes => {
                answer.payload = GetResultPayload::Stream(stream::iter([Err(broken())]).boxed());
                Ok(answer)
            }
            Fault::Hints if location.filename().is_some_and(|name| matches!(name, "LATEST" | "EARLIEST")) => {
                Err(broken())
            }
            Fault::Torn(left) if take(left) => {
                let (mut meta, range, attributes) =
                    (answer.meta.clone(), answer.range.clone(), answer.attributes.clone());
                let bytes = answer.bytes().await?;
                let half = bytes.slice(..bytes.len() / 2);
                meta.size = half.len() as u64;
                meta.e_tag = meta.e_tag.map(|tag| format!("{tag}-half"));
                let payload = GetResultPayload::Stream(stream::iter([Ok(half)]).boxed());
                Ok(GetResult { payload, meta, range, attributes })
            }
            _ => Ok(answer),
        }
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}
