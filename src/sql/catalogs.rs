//! From a catalog's options to its provider. Imports `error`.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider};

use crate::error::{Error, Result};

/// Opens the catalog `name`.
///
/// # Errors
/// For an option that is not known, a kind of catalog that is not built, and a missing warehouse.
#[expect(clippy::unused_async, reason = "opening a catalog that is a service takes a request")]
pub(crate) async fn open(name: &str, options: &BTreeMap<String, String>) -> Result<Arc<dyn CatalogProvider>> {
    for key in options.keys() {
        if !["warehouse", "metastore"].contains(&key.as_str()) {
            return Err(Error::invalid(format!(
                "'{key}' is not an option of a catalog; there are warehouse and metastore"
            ))
            .with("catalog", name));
        }
    }
    match options.get("metastore").map(String::as_str) {
        None | Some("filesystem") => {}
        Some(other) => {
            return Err(Error::unsupported(format!("metastore '{other}' is not supported; filesystem is"))
                .with("catalog", name));
        }
    }
    if !options.contains_key("warehouse") {
        return Err(
            Error::invalid("the option 'warehouse' is missing: the folder or URL of the tables").with("catalog", name)
        );
    }
    let catalog = MemoryCatalogProvider::new();
    catalog.register_schema("default", Arc::new(MemorySchemaProvider::new()))?;
    Ok(Arc::new(catalog))
}
