//! From a catalog's options to its provider. Imports `error` and `options`.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::CatalogProvider;

use super::catalog_provider::LakeCatalog;
use crate::catalog::{Catalog, FileSystemCatalog, ReadOnlyCatalog};
use crate::error::{Error, Result};
use crate::options;
use crate::store::{Caches, StoreRegistry};

/// How a session uses a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Through the engine's own statements.
    Engine,
    /// Through those of the front end, which finds out itself what there is.
    FrontEnd { read_only: bool },
}

/// Opens the catalog `name`.
///
/// # Errors
/// For an option that is not known, a kind of catalog that is not built, and a missing warehouse.
#[expect(clippy::unused_async, reason = "opening a catalog that is a service takes a request")]
pub(crate) async fn open(
    name: &str,
    options: &BTreeMap<String, String>,
    used: Use,
) -> Result<Arc<dyn CatalogProvider>> {
    options::check_catalog(options).map_err(|error| error.with("catalog", name))?;
    let Some(warehouse) = options.get("warehouse") else {
        return Err(
            Error::invalid("the option 'warehouse' is missing: the folder or URL of the tables").with("catalog", name)
        );
    };
    let catalog = FileSystemCatalog::new(StoreRegistry::global().open(warehouse, options)?).with_options(options);
    let catalog: Arc<dyn Catalog> = match used {
        Use::FrontEnd { read_only: true } => Arc::new(ReadOnlyCatalog::new(Arc::new(catalog))),
        Use::Engine | Use::FrontEnd { read_only: false } => Arc::new(catalog),
    };
    let provider = LakeCatalog::with_options(catalog, Arc::new(Caches::default()), options.clone());
    Ok(Arc::new(match used {
        Use::Engine => provider,
        Use::FrontEnd { .. } => provider.unchecked(),
    }))
}
