//! A table as a value: what a plan carries to another process.
//!
//! May import: `error`, `spec`, `store`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Identifier, Table};
use crate::error::{Error, Result};
use crate::spec::TableSchema;
use crate::store::{Caches, TableFiles, open_store};

/// Everything that is needed to read a table, without a look at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDescriptor {
    /// The table's folder, with the scheme of its store.
    pub location: String,
    /// Database.
    pub database: String,
    /// Table.
    pub table: String,
    /// Branch; `None` for the main one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The snapshot to read; `None` for the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_id: Option<i64>,
    /// The schema document.
    pub schema: serde_json::Value,
    /// Options that are laid over the schema's.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

impl TableDescriptor {
    /// The table. Does no I/O.
    ///
    /// # Errors
    /// Unsupported when this process knows no store for the location, corrupt when the schema is broken.
    pub fn table(&self, caches: Arc<Caches>) -> Result<Arc<Table>> {
        let identifier = Identifier::new(&self.database, &self.table).with_branch(self.branch.as_deref());
        let at = |error: Error| error.with("table", identifier.to_string());
        let schema = serde_json::to_vec(&self.schema)
            .map_err(|error| Error::internal("a schema can't be written").with_source(error))
            .and_then(|json| TableSchema::from_json(&json))
            .map_err(at)?;
        let location = open_store(&self.location).map_err(at)?;
        let files = TableFiles::new(location, identifier.branch.as_deref()).map_err(at)?;
        Table::with_parts(identifier.clone(), Arc::new(files), caches, Arc::new(schema), self.options.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::store::testing::{put, schema_json};

    #[tokio::test]
    async fn table_when_descriptor_went_through_json_then_the_same_table() {
        let root = open_store("memory://descriptor/wh/db.db/a%20b").unwrap();
        put(&root, "branch/branch-b/schema/schema-3", schema_json(3, &["a", "b"])).await;
        let options = BTreeMap::from([("scan.mode".to_owned(), "latest".to_owned())]);
        let identifier = Identifier::new("db", "a%20b").with_branch(Some("b"));
        let table = Table::open(root, identifier, Arc::default(), options).await.unwrap();
        let json = serde_json::to_string(&table.descriptor(Some(7))).unwrap();
        let descriptor: TableDescriptor = serde_json::from_str(&json).unwrap();
        assert_eq!(descriptor, table.descriptor(Some(7)));
        let again = descriptor.table(Arc::default()).unwrap();
        assert_eq!(again.identifier(), table.identifier());
        assert_eq!(again.schema(), table.schema());
        assert_eq!(again.options(), table.options());
        assert_eq!(again.files().schema_path(3), table.files().schema_path(3));
    }

    #[test]
    fn table_when_store_is_unknown_then_unsupported() {
        let descriptor = TableDescriptor {
            location: "nowhere://b/t".to_owned(),
            database: "db".to_owned(),
            table: "t".to_owned(),
            branch: None,
            snapshot_id: None,
            schema: serde_json::from_str(&schema_json(0, &["a"])).unwrap(),
            options: BTreeMap::new(),
        };
        let error = descriptor.table(Arc::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().starts_with("table db.t: "), "{error}");
    }
}
