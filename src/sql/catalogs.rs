//! From a catalog's options to its provider. Imports `error` and `options`.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider};

use crate::error::{Error, Result};
use crate::options;

/// Opens the catalog `name`.
///
/// # Errors
/// For an option that is not known, a kind of catalog that is not built, and a missing warehouse.
#[expect(clippy::unused_async, reason = "opening a catalog that is a service takes a request")]
pub(crate) async fn open(name: &str, options: &BTreeMap<String, String>) -> Result<Arc<dyn CatalogProvider>> {
    options::check_catalog(options).map_err(|error| error.with("catalog", name))?;
    if !options.contains_key("warehouse") {
        return Err(
            Error::invalid("the option 'warehouse' is missing: the folder or URL of the tables").with("catalog", name)
        );
    }
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema("default", Arc::new(MemorySchemaProvider::new()))?;
    Ok(Arc::new(catalog))
}
