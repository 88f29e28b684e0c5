//! Branches on local disk, where the Java library also looks at folders.

use super::*;
use crate::maintain::branches::{create_branch, delete_branch, rename_branch};
use crate::store::open_store;

async fn on_disk(folder: &std::path::Path) -> Arc<Table> {
    let root = open_store(folder.to_str().unwrap()).unwrap().child("db.db/t").unwrap();
    let schema = serde_json::json!({
        "version": 3, "id": 0, "fields": [{"id": 0, "name": "a", "type": "INT"}], "highestFieldId": 0,
        "partitionKeys": [], "primaryKeys": [], "options": BTreeMap::from(SHORT), "timeMillis": 5
    });
    put(&root, "schema/schema-0", schema.to_string()).await;
    open(&root).await
}

#[tokio::test]
async fn delete_branch_when_on_disk_then_no_folder_is_left() {
    let disk = tempfile::tempdir().unwrap();
    let table = on_disk(disk.path()).await;
    add(&table, &["a"]).await.unwrap();
    let folder = |name: &str| disk.path().join("db.db/t/branch").join(name).exists();
    assert!(create_branch(&table, "b", None, false).await.unwrap());
    assert!(folder("branch-b"));
    rename_branch(&table, "b", "c").await.unwrap();
    assert_eq!((folder("branch-b"), folder("branch-c")), (false, true));
    delete_branch(&table, "c").await.unwrap();
    assert!(!folder("branch-c"));
}
