//! Schema files of a table or branch (`spec/metadata.md 2.1`): the latest, found by listing, and one by id.
//!
//! May import: `error`, `spec`, `store::{cache, documents, files}`.

use std::sync::Arc;

use super::cache::Caches;
use super::documents;
use super::files::{TableFiles, numbered};
use crate::error::{Error, Result};
use crate::spec::TableSchema;

/// The schemas of a branch.
#[derive(Clone, Debug)]
pub struct Schemas {
    files: Arc<TableFiles>,
    caches: Arc<Caches>,
}

impl Schemas {
    /// The schemas of the branch of `files`.
    pub fn new(files: Arc<TableFiles>, caches: Arc<Caches>) -> Self {
        Self { files, caches }
    }

    /// The ids there are, ascending.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn ids(&self) -> Result<Vec<i64>> {
        let listed = self.files.list(&self.files.schema_dir()).await?;
        let mut ids: Vec<i64> =
            listed.iter().filter_map(|file| numbered(file.location.filename()?, "schema-")).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The greatest id; `None` when there is no table.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn latest_id(&self) -> Result<Option<i64>> {
        Ok(self.ids().await?.last().copied())
    }

    /// The latest schema; `None` when there is no table.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub async fn latest(&self) -> Result<Option<Arc<TableSchema>>> {
        // A rollback may remove the last ones between listing and reading.
        for id in self.ids().await?.into_iter().rev() {
            if let Some(schema) = self.find(id).await? {
                return Ok(Some(schema));
            }
        }
        Ok(None)
    }

    /// Schema `id`; `None` when there is none.
    ///
    /// # Errors
    /// Corrupt when the file is not a schema or is another one than its name says, unsupported when it has a type that is not
    /// known, Io when the store failed.
    pub async fn find(&self, id: i64) -> Result<Option<Arc<TableSchema>>> {
        let parse = |bytes: &[u8]| {
            let schema = TableSchema::from_json(bytes)?;
            if schema.id != id {
                return Err(Error::corrupt(format!("the file holds schema {}", schema.id)));
            }
            Ok(schema)
        };
        documents::load(&self.files, &self.caches, &self.files.schema_path(id), parse).await
    }

    /// Schema `id`.
    ///
    /// # Errors
    /// Not found when there is none, else as [`Self::find`].
    pub async fn schema(&self, id: i64) -> Result<Arc<TableSchema>> {
        self.find(id).await?.ok_or_else(|| {
            Error::not_found(format!("schema {id} does not exist"))
                .with("file", self.files.location_of(&self.files.schema_path(id)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::store::testing::{memory, put, schema_json};

    #[tokio::test]
    async fn latest_when_stray_files_then_the_greatest_number() {
        let root = memory("t");
        for (name, id) in
            [("schema-0", 0), ("schema-9", 9), ("schema-10", 10), (".schema-11.ab.tmp", 11), ("schema-12x", 12)]
        {
            put(&root, &format!("schema/{name}"), schema_json(id, &["a"])).await;
        }
        let schemas = Schemas::new(Arc::new(TableFiles::new(root, None).unwrap()), Arc::default());
        assert_eq!(schemas.ids().await.unwrap(), [0, 9, 10]);
        assert_eq!(schemas.latest_id().await.unwrap(), Some(10));
        assert_eq!(schemas.latest().await.unwrap().unwrap().id, 10);
        assert!(Arc::ptr_eq(&schemas.schema(9).await.unwrap(), &schemas.schema(9).await.unwrap()));
        assert_eq!(schemas.schema(3).await.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[tokio::test]
    async fn schema_when_id_comes_back_then_the_new_one() {
        let root = memory("t");
        put(&root, "schema/schema-0", schema_json(0, &["a"])).await;
        let schemas = Schemas::new(Arc::new(TableFiles::new(root.clone(), None).unwrap()), Arc::default());
        assert_eq!(schemas.schema(0).await.unwrap().fields[0].name, "a");
        put(&root, "schema/schema-0", schema_json(0, &["b"])).await;
        assert_eq!(schemas.schema(0).await.unwrap().fields[0].name, "b");
    }

    #[tokio::test]
    async fn schema_when_file_is_broken_then_corrupt_with_its_name() {
        let root = memory("t");
        for text in ["nonsense".to_owned(), schema_json(1, &["a"])] {
            put(&root, "schema/schema-0", text).await;
            let schemas = Schemas::new(Arc::new(TableFiles::new(root.clone(), None).unwrap()), Arc::default());
            let error = schemas.latest().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("t/schema/schema-0"), "{error}");
        }
    }
}
