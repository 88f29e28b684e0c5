//! Branches of a table (`spec/metadata.md 9.2`): histories of their own over the files of one table. The read side.
//!
//! May import: `error`, `store::{files, schemas}`.

use std::sync::Arc;

use super::cache::Caches;
use super::documents::load_all;
use super::files::TableFiles;
use super::schemas::Schemas;
use crate::error::Result;

const PREFIX: &str = "branch-";

/// The branches of a table besides the main one.
#[derive(Clone, Debug)]
pub struct Branches {
    files: Arc<TableFiles>,
    caches: Arc<Caches>,
}

impl Branches {
    /// The branches of the table of `files`, whichever branch that is of.
    pub fn new(files: Arc<TableFiles>, caches: Arc<Caches>) -> Self {
        Self { files, caches }
    }

    /// The names of all branches besides the main one, in order. A folder without a schema is no branch: it is being made or
    /// being deleted.
    ///
    /// # Errors
    /// Io when the store failed.
    pub async fn names(&self) -> Result<Vec<String>> {
        let folders = self.files.list_folders(&self.files.branch_dir()).await?;
        let mut names: Vec<String> = folders
            .iter()
            .filter_map(|folder| folder.strip_prefix(PREFIX))
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        names.sort_unstable();
        load_all(names, |name| async move { Ok(self.exists(&name).await?.then_some(name)) }).await
    }

    /// Whether there is a branch called `name`.
    ///
    /// # Errors
    /// Invalid when `name` can't be one, Io when the store failed.
    pub async fn exists(&self, name: &str) -> Result<bool> {
        let files = Arc::new(self.files.with_branch(Some(name))?);
        Ok(Schemas::new(files, Arc::clone(&self.caches)).latest_id().await?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::{memory, put, schema_json};

    #[tokio::test]
    async fn names_when_folders_without_schema_then_no_branch() {
        let root = memory("t");
        for name in ["b", "a", "with space"] {
            put(&root, &format!("branch/branch-{name}/schema/schema-0"), schema_json(0, &["a"])).await;
        }
        put(&root, "branch/branch-half/snapshot/LATEST", "1".to_owned()).await;
        put(&root, "branch/other/schema/schema-0", schema_json(0, &["a"])).await;
        let files = TableFiles::new(root, Some("b")).unwrap();
        let branches = Branches::new(Arc::new(files), Arc::default());
        assert_eq!(branches.names().await.unwrap(), ["a", "b", "with space"]);
        assert!(branches.exists("a").await.unwrap());
        assert!(!branches.exists("half").await.unwrap());
        assert!(branches.exists("../x").await.is_err());
    }

    #[tokio::test]
    async fn names_when_no_branch_then_none() {
        let branches = Branches::new(Arc::new(TableFiles::new(memory("t"), None).unwrap()), Arc::default());
        assert!(branches.names().await.unwrap().is_empty());
    }
}
