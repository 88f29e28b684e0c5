//! Where a warehouse or a table lies: a path or URL, the store behind it and the prefix in that store.
//!
//! A location is taken literally, as Flink and Spark take theirs: `%20` in it are three characters of a folder's name. So the
//! same text names the same folder everywhere, and folders such as `pt=a%2Fb` need no second escaping. Every store is found
//! by its scheme through [`StoreRegistry::open`]; nothing else in the crate knows which stores there are.
//!
//! May import: `error`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Component, PathBuf};
use std::sync::{Arc, LazyLock};

use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use parking_lot::Mutex;
use url::Url;

use crate::error::{Error, Result};

/// A folder in a store: a warehouse, or the folder of a table.
#[derive(Clone)]
pub struct StoreLocation {
    store: Arc<dyn ObjectStore>,
    url: Url,
    prefix: Path,
    display: Arc<str>,
}

impl StoreLocation {
    /// The folder `prefix` of a store that was opened elsewhere. `url` is scheme and authority and must be the store's alone:
    /// caches tell stores apart by it.
    ///
    /// # Errors
    /// Invalid when `url` has a path.
    pub fn new(store: Arc<dyn ObjectStore>, url: Url, prefix: Path) -> Result<Self> {
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(Error::invalid(format!("{url} is more than scheme and authority")));
        }
        let display = display(&url, &prefix);
        Ok(Self { store, url, prefix, display })
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Scheme and authority with the path `/`: what the engine registers stores by.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The folder in the store.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The whole location as text. [`open_store`] of it gives the same location again.
    pub fn as_str(&self) -> &str {
        &self.display
    }

    /// The folder or file `path` below this folder. The path is taken literally.
    ///
    /// # Errors
    /// Invalid for an empty, `.` or `..` segment or a control character.
    pub fn child(&self, path: &str) -> Result<Self> {
        let prefix = join(&self.prefix, path)?;
        let display = display(&self.url, &prefix);
        Ok(Self { store: Arc::clone(&self.store), url: self.url.clone(), prefix, display })
    }

    /// The whole location of `path`, a path of this store.
    pub fn location_of(&self, path: &Path) -> String {
        display(&self.url, path).as_ref().to_owned()
    }

    /// The path in this store of a location that a file of the table names, such as `_EXTERNAL_PATH`
    /// (`spec/metadata.md 1.5`).
    ///
    /// # Errors
    /// Unsupported when it lies in another store, invalid when it is no absolute location.
    pub fn path_of(&self, location: &str) -> Result<Path> {
        let (scheme, authority, path) = match split(location) {
            Some((scheme, rest)) => {
                let (authority, path) = split_authority(rest);
                (scheme, authority, path)
            }
            None if location.starts_with('/') => (FILE.to_owned(), "", location),
            None => return Err(Error::invalid(format!("{location} is not an absolute location"))),
        };
        let authority = if scheme == FILE && authority == LOCALHOST { "" } else { authority };
        let ours = &self.url[url::Position::BeforeUsername..url::Position::AfterPort];
        if scheme != self.url.scheme() || !authority.eq_ignore_ascii_case(ours) {
            return Err(Error::unsupported(format!(
                "{location} lies in another store than {}; files of one table in several stores can't be read yet",
                self.as_str()
            )));
        }
        clean(path)
    }
}

impl fmt::Debug for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreLocation").field(&self.as_str()).finish()
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `path` below `folder`, both literal.
///
/// # Errors
/// Invalid for an empty, `.` or `..` segment or a control character.
pub(crate) fn join(folder: &Path, path: &str) -> Result<Path> {
    let whole = if folder.is_root() { path.to_owned() } else { format!("{folder}/{path}") };
    if path.is_empty() || path.starts_with('/') || path.ends_with('/') {
        return Err(Error::invalid(format!("{path:?} is not the path of a file below {folder}")));
    }
    Path::parse(whole).map_err(|error| Error::invalid(format!("{path:?} can't be a path")).with_source(error))
}

fn display(url: &Url, path: &Path) -> Arc<str> {
    let authority = &url[url::Position::BeforeUsername..url::Position::AfterPort];
    format!("{}://{authority}/{path}", url.scheme()).into()
}

const FILE: &str = "file";
const MEMORY: &str = "memory";
const LOCALHOST: &str = "localhost";

/// Opens the stores of one scheme.
pub trait StoreFactory: Send + Sync {
    /// Opens the store of `authority` (bucket, container, host; may be empty) with the catalog's options. Does no I/O.
    ///
    /// # Errors
    /// Invalid when authority or options can't be right.
    fn open(&self, authority: &str, options: &BTreeMap<String, String>) -> Result<Arc<dyn ObjectStore>>;
}

impl<F> StoreFactory for F
where
    F: Fn(&str, &BTreeMap<String, String>) -> Result<Arc<dyn ObjectStore>> + Send + Sync,
{
    fn open(&self, authority: &str, options: &BTreeMap<String, String>) -> Result<Arc<dyn ObjectStore>> {
        self(authority, options)
    }
}

type StoreKey = (String, String, BTreeMap<String, String>);

/// The one door to stores: a factory a scheme. Local disk (`file`, and paths) and a store in memory (`memory://name/..`, for
/// tests; it lives as long as the registry) are there from the start.
pub struct StoreRegistry {
    factories: Mutex<BTreeMap<String, Arc<dyn StoreFactory>>>,
    /// Stores are kept: they own connections, and a store in memory owns its files.
    opened: Mutex<HashMap<StoreKey, Arc<dyn ObjectStore>>>,
}

impl fmt::Debug for StoreRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreRegistry").field("schemes", &self.schemes()).finish_non_exhaustive()
    }
}

impl Default for StoreRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl StoreRegistry {
    /// The registry of the process, which [`open_store`] and [`register_store`] use.
    pub fn global() -> &'static Self {
        &REGISTRY
    }

    /// A registry with local disk and memory.
    pub fn new() -> Self {
        let registry = Self { factories: Mutex::default(), opened: Mutex::default() };
        registry.register(FILE, |authority: &str, _: &BTreeMap<String, String>| {
            if !matches!(authority, "" | LOCALHOST) {
                return Err(Error::invalid(format!(
                    "file://{authority}/.. names a host; a local folder is written file:///folder"
                )));
            }
            Ok(Arc::new(LocalFileSystem::new()) as Arc<dyn ObjectStore>)
        });
        registry.register(MEMORY, |_: &str, _: &BTreeMap<String, String>| {
            Ok(Arc::new(InMemory::new()) as Arc<dyn ObjectStore>)
        });
        registry
    }

    /// Adds the stores of `scheme`, or replaces them for locations opened from now on.
    pub fn register(&self, scheme: &str, factory: impl StoreFactory + 'static) {
        let scheme = scheme.to_ascii_lowercase();
        self.opened.lock().retain(|(of, _, _), _| *of != scheme);
        self.factories.lock().insert(scheme, Arc::new(factory));
    }

    /// The schemes that have a store, in order.
    pub fn schemes(&self) -> Vec<String> {
        self.factories.lock().keys().cloned().collect()
    }

    /// Opens a path (absolute, or below the current directory; it need not exist) or URL. Does no I/O but for the links of
    /// a local path that holds `..`.
    ///
    /// # Errors
    /// Unsupported when no store is known for the scheme, invalid when the location can't be one.
    pub fn open(&self, location: &str, options: &BTreeMap<String, String>) -> Result<StoreLocation> {
        let at = |error: Error| error.with("location", location);
        if location.trim().is_empty() {
            return Err(Error::invalid("the location is empty; give a folder or a URL"));
        }
        let Some((scheme, rest)) = split(location) else {
            let prefix = local_prefix(location).map_err(at)?;
            return self.located(FILE, "", prefix, options).map_err(at);
        };
        let (authority, path) = split_authority(rest);
        if scheme == FILE {
            let prefix = local_prefix(path).map_err(at)?;
            return self.located(FILE, authority, prefix, options).map_err(at);
        }
        self.located(&scheme, authority, clean(path).map_err(at)?, options).map_err(at)
    }

    fn located(
        &self,
        scheme: &str,
        authority: &str,
        prefix: Path,
        options: &BTreeMap<String, String>,
    ) -> Result<StoreLocation> {
        let store = self.store(scheme, authority, options)?;
        let authority = if scheme == FILE { "" } else { authority };
        let url = Url::parse(&format!("{scheme}://{authority}/"))
            .map_err(|error| Error::invalid(format!("{scheme}://{authority} is not a URL")).with_source(error))?;
        StoreLocation::new(store, url, prefix)
    }

    fn store(&self, scheme: &str, authority: &str, options: &BTreeMap<String, String>) -> Result<Arc<dyn ObjectStore>> {
        let factory = self.factories.lock().get(scheme).map(Arc::clone);
        let Some(factory) = factory else {
            let known: Vec<_> = self.schemes().iter().map(|scheme| format!("{scheme}://")).collect();
            return Err(Error::unsupported(format!(
                "no store is known for {scheme}://; known are local paths and {}",
                known.join(", ")
            )));
        };
        let key = (scheme.to_owned(), authority.to_owned(), options.clone());
        let mut opened = self.opened.lock();
        if let Some(store) = opened.get(&key) {
            return Ok(Arc::clone(store));
        }
        let store = factory.open(authority, options)?;
        opened.insert(key, Arc::clone(&store));
        Ok(store)
    }
}

static REGISTRY: LazyLock<StoreRegistry> = LazyLock::new(StoreRegistry::new);

/// [`StoreRegistry::open`] of the registry of this process, without options.
///
/// # Errors
/// As there.
pub fn open_store(location: &str) -> Result<StoreLocation> {
    REGISTRY.open(location, &BTreeMap::new())
}

/// [`StoreRegistry::register`] of the registry of this process.
pub fn register_store(scheme: &str, factory: impl StoreFactory + 'static) {
    REGISTRY.register(scheme, factory);
}

/// Scheme (lower case) and what follows its colon, when `location` has one: `s3://b/t`, and `file:/t` as Java writes it. A
/// scheme has two letters or more, so that `C:/t` is a path.
fn split(location: &str) -> Option<(String, &str)> {
    let (scheme, rest) = location.split_once(':')?;
    let mut letters = scheme.chars();
    let first = letters.next()?;
    let legal = first.is_ascii_alphabetic()
        && scheme.len() > 1
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && rest.starts_with('/');
    legal.then(|| (scheme.to_ascii_lowercase(), rest))
}

fn split_authority(rest: &str) -> (&str, &str) {
    match rest.strip_prefix("//") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    }
}

/// A path of a location without the empty and `.` segments that people write.
fn clean(path: &str) -> Result<Path> {
    let segments: Vec<_> = path.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
    Path::parse(segments.join("/"))
        .map_err(|error| Error::invalid(format!("{path:?} can't be a path")).with_source(error))
}

/// The path in the local store of a folder that need not exist. Symbolic links stay, but for what `..` steps out of.
fn local_prefix(path: &str) -> Result<Path> {
    let bad = |error: std::io::Error| Error::invalid(format!("{path:?} can't be a path")).with_source(error);
    let absolute = std::path::absolute(if path.is_empty() { "/" } else { path }).map_err(bad)?;
    let mut whole = PathBuf::new();
    for component in absolute.components() {
        match component {
            Component::ParentDir => {
                // `link/..` is the parent of what the link points at.
                if let Ok(real) = std::fs::canonicalize(&whole) {
                    whole = real;
                }
                whole.pop();
            }
            Component::CurDir => {}
            other => whole.push(other),
        }
    }
    Path::from_absolute_path(&whole)
        .map_err(|error| Error::invalid(format!("{path:?} can't be a path")).with_source(error))
}

#[cfg(test)]
mod tests {
    use object_store::{ObjectStoreExt, PutPayload};

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn open_store_when_absolute_path_then_the_local_root_and_a_prefix() {
        for text in [
            "/tmp/some where/wh",
            "file:/tmp/some where/wh",
            "file:///tmp/some where/wh/",
            "FILE://localhost/tmp/./some where//wh",
        ] {
            let location = open_store(text).unwrap();
            assert_eq!(location.url().as_str(), "file:///", "{text}");
            assert_eq!(location.prefix().as_ref(), "tmp/some where/wh", "{text}");
            assert_eq!(location.as_str(), "file:///tmp/some where/wh", "{text}");
        }
    }

    #[test]
    fn open_store_when_relative_path_then_below_the_current_directory() {
        let here = std::env::current_dir().unwrap();
        for text in ["lake", "./lake", "lake/inner/.."] {
            let location = open_store(text).unwrap();
            assert_eq!(location.prefix(), &Path::from_absolute_path(here.join("lake")).unwrap(), "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn open_store_when_parent_of_a_link_then_the_parent_of_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
        let location = open_store(root.join("link/../wh").to_str().unwrap()).unwrap();
        assert_eq!(location.prefix(), &Path::from_absolute_path(root.join("a/wh")).unwrap());
    }

    #[test]
    fn open_store_when_location_shown_is_opened_again_then_the_same() {
        for text in ["/wh/a%20b/x#y?z", "memory://m/wh/pt=a%2Fb", "memory://m", "file:///"] {
            let location = open_store(text).unwrap();
            let again = open_store(location.as_str()).unwrap();
            assert_eq!(location.prefix(), again.prefix(), "{text}");
            assert_eq!(location.as_str(), again.as_str(), "{text}");
            assert!(Arc::ptr_eq(location.store(), again.store()), "{text}");
        }
        assert_eq!(open_store("/wh/a%20b").unwrap().prefix().as_ref(), "wh/a%20b");
    }

    #[test]
    fn open_store_when_scheme_is_unknown_then_it_is_named_with_the_known_ones() {
        let error = open_store("s3://bucket/wh").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        assert!(text.contains("s3://;") && text.contains("file://") && text.contains("s3://bucket/wh"), "{text}");
    }

    #[test]
    fn open_store_when_location_can_not_be_then_invalid() {
        for text in ["", "  ", "memory://m/a/../b", "file://host/x", "memory://m/a\u{1}b"] {
            assert_eq!(open_store(text).unwrap_err().kind(), ErrorKind::Invalid, "{text:?}");
        }
    }

    #[tokio::test]
    async fn open_store_when_memory_name_is_the_same_then_the_same_files() {
        let one = open_store("memory://location-one/wh").unwrap();
        one.store().put(&Path::from("x"), PutPayload::from_static(b"1")).await.unwrap();
        assert!(open_store("memory://location-one/").unwrap().store().head(&Path::from("x")).await.is_ok());
        assert!(open_store("memory://location-two/").unwrap().store().head(&Path::from("x")).await.is_err());
    }

    #[test]
    fn register_when_scheme_is_added_then_its_factory_gets_authority_and_options() {
        let registry = StoreRegistry::new();
        registry.register("Lake", |authority: &str, options: &BTreeMap<String, String>| {
            assert_eq!((authority, options["key"].as_str()), ("bucket", "v"));
            Ok(Arc::new(InMemory::new()) as Arc<dyn ObjectStore>)
        });
        let options = BTreeMap::from([("key".to_owned(), "v".to_owned())]);
        let location = registry.open("lake://bucket/wh", &options).unwrap();
        assert_eq!((location.url().as_str(), location.prefix().as_ref()), ("lake://bucket/", "wh"));
    }

    #[test]
    fn child_when_name_is_odd_then_literal_or_refused() {
        let location = open_store("memory://m/wh").unwrap();
        assert_eq!(location.child("pt=a%2Fb/é {x}").unwrap().prefix().as_ref(), "wh/pt=a%2Fb/é {x}");
        for name in ["", "..", "a/../b", "/a", "a/", "a//b", "a\nb"] {
            assert!(location.child(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn path_of_when_other_store_then_unsupported() {
        let local = open_store("/wh").unwrap();
        assert_eq!(local.path_of("file:/ext/p=a%2Fb/f.orc").unwrap().as_ref(), "ext/p=a%2Fb/f.orc");
        assert_eq!(local.path_of("/ext/f.orc").unwrap().as_ref(), "ext/f.orc");
        assert_eq!(local.path_of("s3://b/f.orc").unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(local.path_of("f.orc").unwrap_err().kind(), ErrorKind::Invalid);
        let memory = open_store("memory://m/wh").unwrap();
        assert_eq!(memory.path_of("memory://m/x").unwrap().as_ref(), "x");
        assert_eq!(memory.path_of("memory://n/x").unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
