//! Databases and tables made, changed and dropped, on local disk and in a store without folders.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::error::ErrorKind;
use crate::spec::{DataField, DataType};
use crate::store::testing::{LossyStore, memory, put, snapshot_json};
use crate::store::{Schemas, StoreLocation, TableFiles, open_store};
use crate::table::ColumnPosition;

fn column(name: &str, text: &str) -> DataField {
    DataField::new(0, name, DataType::parse(text).unwrap())
}

fn definition(options: &[(&str, &str)]) -> NewTable {
    NewTable {
        fields: vec![column("id", "INT"), column("v", "STRING")],
        primary_keys: vec!["id".to_owned()],
        options: options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        ..NewTable::default()
    }
}

fn add(name: &str) -> SchemaChange {
    SchemaChange::AddColumn {
        path: vec![name.to_owned()],
        data_type: DataType::parse("INT").unwrap(),
        comment: None,
        default: None,
        position: Some(ColumnPosition::Last),
    }
}

fn object(name: &str) -> ObjectName {
    name.parse().unwrap()
}

/// A warehouse in memory and one on disk, each with database `d`.
async fn warehouses(folder: &tempfile::TempDir) -> Vec<FileSystemCatalog> {
    let local = open_store(folder.path().join("wh").to_str().unwrap()).unwrap();
    let catalogs = vec![FileSystemCatalog::new(memory("wh")), FileSystemCatalog::new(local)];
    for catalog in &catalogs {
        catalog.create_database("d", false).await.unwrap();
    }
    catalogs
}

#[tokio::test]
async fn databases_when_made_and_dropped_then_there_and_gone() {
    let folder = tempfile::tempdir().unwrap();
    for catalog in warehouses(&folder).await {
        assert_eq!(catalog.list_databases().await.unwrap(), ["d"]);
        assert!(catalog.list_tables("d").await.unwrap().is_empty());
        assert_eq!(catalog.create_database("D", false).await.unwrap_err().kind(), ErrorKind::AlreadyExists);
        catalog.create_database("D", true).await.unwrap();
        assert!(catalog.create_table("d", "t", definition(&[]), false).await.unwrap());
        let error = catalog.drop_database("d", false, false).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("holds 1 tables (t)"), "{error}");
        // A database outlives its last table.
        assert!(catalog.drop_table("d", "t", false).await.unwrap());
        assert_eq!(catalog.list_databases().await.unwrap(), ["d"]);
        put(catalog.warehouse(), "d.db/stray/file", "x".to_owned()).await;
        let error = catalog.drop_database("d", false, false).await.unwrap_err();
        assert!(error.to_string().contains("stray/file") && error.to_string().contains("CASCADE"), "{error}");
        catalog.create_table("d", "t", definition(&[]), false).await.unwrap();
        catalog.drop_database("d", false, true).await.unwrap();
        assert!(catalog.list_databases().await.unwrap().is_empty());
        assert_eq!(catalog.drop_database("d", false, true).await.unwrap_err().kind(), ErrorKind::NotFound);
        catalog.drop_database("d", true, true).await.unwrap();
    }
    assert!(std::fs::read_dir(folder.path().join("wh")).unwrap().next().is_none());
}

#[tokio::test]
async fn names_when_they_could_not_be_said_again_then_refused() {
    let folder = tempfile::tempdir().unwrap();
    for catalog in warehouses(&folder).await {
        for (name, why) in [
            ("t$x", "branch or a system table"),
            ("t@5", "a version"),
            ("a@b", "a version"),
            (".t", "hidden"),
            (" t", "blank"),
            ("", "blank"),
            ("a/b", "can't be the name"),
            ("..", "can't be the name"),
        ] {
            let error = catalog.create_table("d", name, definition(&[]), true).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{name}");
            assert!(error.to_string().contains(why) || name == "..", "{error}");
            assert!(catalog.create_database(name, true).await.is_err(), "{name}");
        }
        for database in ["sys", "SYS", "information_schema"] {
            assert_eq!(catalog.create_database(database, true).await.unwrap_err().kind(), ErrorKind::Invalid);
            assert!(catalog.create_table(database, "t", definition(&[]), true).await.is_err());
            assert!(catalog.drop_database(database, true, true).await.is_err());
        }
        assert_eq!(
            catalog.create_table("nothing", "t", definition(&[]), true).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
        catalog.create_table("d", "ünï cödé.x", definition(&[]), false).await.unwrap();
        assert_eq!(catalog.list_tables("d").await.unwrap(), ["ünï cödé.x"]);
    }
}

#[tokio::test]
async fn create_table_when_there_is_one_or_none_then_once() {
    let folder = tempfile::tempdir().unwrap();
    for catalog in warehouses(&folder).await {
        assert!(catalog.create_table("d", "t", definition(&[("bucket", "2")]), false).await.unwrap());
        // The definition does not matter when the table is there.
        assert!(!catalog.create_table("D", "T", NewTable::default(), true).await.unwrap());
        let error = catalog.create_table("d", "T", definition(&[]), false).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("table T exists already, written t"), "{error}");
        let table = catalog.open_table("d", &object("t"), &Arc::default(), BTreeMap::new()).await.unwrap();
        assert_eq!((table.schema().id, table.schema().options["bucket"].as_str()), (0, "2"));
        assert!(table.schema().time_millis > 0);
        let error = catalog.create_table("d", "u", definition(&[("bukcet", "2")]), false).await.unwrap_err();
        assert_eq!(error.to_string(), "table d.u: unknown option bukcet; did you mean bucket?");
        let branch = definition(&[("scan.fallback-branch", "b")]);
        assert!(catalog.create_table("d", "u", branch, false).await.unwrap_err().to_string().contains("branch first"));
        assert!(!catalog.table_exists("d", "u").await.unwrap());
        put(catalog.warehouse(), "d.db/u/snapshot/snapshot-1", snapshot_json(1, 1)).await;
        let error = catalog.create_table("d", "u", definition(&[]), false).await.unwrap_err();
        assert!(error.to_string().contains("files that belong to no table"), "{error}");
    }
}

#[tokio::test]
async fn create_table_when_catalog_has_defaults_then_they_hold() {
    let options = [("table-default.file.format", "orc"), ("warehouse", "x"), ("table-default.bucket", "3")];
    let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let catalog = FileSystemCatalog::new(memory("wh")).with_options(&options);
    catalog.create_database("d", false).await.unwrap();
    catalog.create_table("d", "t", definition(&[("bucket", "1")]), false).await.unwrap();
    let table = catalog.open_table("d", &object("t"), &Arc::default(), BTreeMap::new()).await.unwrap();
    let options = &table.schema().options;
    assert_eq!((options["bucket"].as_str(), options["file.format"].as_str(), options.len()), ("1", "orc", 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn create_table_when_many_at_once_then_one_creates_it() {
    let folder = tempfile::tempdir().unwrap();
    for catalog in warehouses(&folder).await {
        for round in 0..5 {
            let creations = (0..8).map(|writer| {
                let catalog = catalog.clone();
                let bucket = (writer + 1).to_string();
                tokio::spawn(async move {
                    let definition = definition(&[("bucket", &bucket)]);
                    catalog.create_table("d", &format!("t{round}"), definition, true).await.unwrap()
                })
            });
            let created = futures::future::join_all(creations).await.into_iter().filter(|won| *won.as_ref().unwrap());
            assert_eq!(created.count(), 1);
        }
    }
}

#[tokio::test]
async fn rename_table_when_on_disk_then_in_one_step_and_elsewhere_refused() {
    let folder = tempfile::tempdir().unwrap();
    let catalogs = warehouses(&folder).await;
    for catalog in &catalogs {
        for table in ["t", "other"] {
            catalog.create_table("d", table, definition(&[]), false).await.unwrap();
        }
    }
    let [memory, local] = catalogs.as_slice() else { panic!("two warehouses") };
    let error = memory.rename_table("d", "t", "u").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("create u AS SELECT * FROM t"), "{error}");
    assert_eq!(local.rename_table("d", "t", "other").await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(local.rename_table("d", "t", "Other").await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(local.rename_table("d", "t", "t").await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(local.rename_table("d", "none", "u").await.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(local.rename_table("d", "t", "u$x").await.unwrap_err().kind(), ErrorKind::Invalid);
    put(local.warehouse(), "d.db/taken/file", "x".to_owned()).await;
    assert_eq!(local.rename_table("d", "t", "taken").await.unwrap_err().kind(), ErrorKind::AlreadyExists);
    local.rename_table("d", "T", "T").await.unwrap();
    local.rename_table("d", "T", "u").await.unwrap();
    assert_eq!(local.list_tables("d").await.unwrap(), ["other", "u"]);
    assert_eq!(memory.list_tables("d").await.unwrap(), ["other", "t"]);
}

#[tokio::test]
async fn alter_table_when_asked_then_a_schema_more_that_all_see() {
    let folder = tempfile::tempdir().unwrap();
    for catalog in warehouses(&folder).await {
        catalog.create_table("d", "t", definition(&[]), false).await.unwrap();
        let caches = Arc::new(Caches::default());
        let open = || async { catalog.open_table("d", &object("t"), &caches, BTreeMap::new()).await.unwrap() };
        assert_eq!(open().await.schema().id, 0);
        let next = catalog.alter_table("d", &object("T"), vec![add("x"), add("y")]).await.unwrap();
        assert_eq!((next.id, next.fields.len(), next.highest_field_id), (1, 4, 3));
        // Nothing stale out of the caches, and nothing of a change that failed.
        assert_eq!(open().await.schema(), &next);
        let changes = vec![add("z"), add("x")];
        let error = catalog.alter_table("d", &object("t"), changes).await.unwrap_err();
        assert_eq!(error.to_string(), "table d.t: column x exists already");
        assert_eq!(open().await.schema().id, 1);
        assert_eq!(catalog.alter_table("d", &object("t"), Vec::new()).await.unwrap().id, 1);

        let set =
            |key: &str, value: &str| vec![SchemaChange::SetOption { key: key.to_owned(), value: value.to_owned() }];
        catalog.alter_table("d", &object("t"), set("merge-engine", "first-row")).await.unwrap();
        put(catalog.warehouse(), "d.db/t/snapshot/snapshot-1", snapshot_json(1, 1)).await;
        let error = catalog.alter_table("d", &object("t"), set("merge-engine", "deduplicate")).await.unwrap_err();
        assert!(error.to_string().contains("once the table holds data"), "{error}");

        let error = catalog.alter_table("d", &object("t"), set("scan.fallback-branch", "b")).await.unwrap_err();
        assert!(error.to_string().contains("there is no such branch"), "{error}");
        let schema = next.to_json().to_string();
        put(catalog.warehouse(), "d.db/t/branch/branch-b/schema/schema-1", schema).await;
        catalog.alter_table("d", &object("t"), set("scan.fallback-branch", "b")).await.unwrap();
        let of_branch = catalog.alter_table("d", &object("t$branch_b"), vec![add("of_b")]).await.unwrap();
        assert_eq!((of_branch.id, of_branch.fields.len()), (2, 5));
        assert_eq!(open().await.schema().fields.len(), 4);
        for (name, kind) in [
            ("t$branch_c", ErrorKind::NotFound),
            ("t$files", ErrorKind::Invalid),
            ("t@1", ErrorKind::Invalid),
            ("none", ErrorKind::NotFound),
        ] {
            let error = catalog.alter_table("d", &object(name), vec![add("n")]).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn alter_table_when_many_at_once_then_all_happen_or_fail_clearly() {
    let folder = tempfile::tempdir().unwrap();
    for catalog in warehouses(&folder).await {
        catalog.create_table("d", "t", definition(&[]), false).await.unwrap();
        let alterations = (0..12).map(|writer| {
            let catalog = catalog.clone();
            tokio::spawn(async move {
                // Two of each name.
                catalog.alter_table("d", &object("t"), vec![add(&format!("c{}", writer / 2))]).await
            })
        });
        let results: Vec<_> = futures::future::join_all(alterations).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 6);
        for error in results.iter().filter_map(|result| result.as_ref().err()) {
            assert!(error.to_string().contains("exists already"), "{error}");
        }
        let files = TableFiles::new(catalog.table_folder("d", "t").unwrap(), None).unwrap();
        let schemas = Schemas::new(Arc::new(files), Arc::default());
        assert_eq!(schemas.ids().await.unwrap(), [0, 1, 2, 3, 4, 5, 6]);
        let last = schemas.latest().await.unwrap().unwrap();
        let mut ids: Vec<i32> = last.fields.iter().map(|field| field.id).collect();
        ids.dedup();
        assert_eq!((ids.len(), last.highest_field_id), (8, 7));
        for id in 1..7 {
            let (before, after) = (schemas.schema(id - 1).await.unwrap(), schemas.schema(id).await.unwrap());
            assert_eq!(after.fields.len(), before.fields.len() + 1);
        }
    }
}

#[tokio::test]
async fn drop_table_when_asked_then_its_folder_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    for catalog in warehouses(&folder).await {
        for table in ["t", "t2"] {
            catalog.create_table("d", table, definition(&[]), false).await.unwrap();
            for file in ["bucket-0/data-1.parquet", "manifest/m", "branch/branch-b/schema/schema-0", "snapshot/LATEST"]
            {
                put(catalog.warehouse(), &format!("d.db/{table}/{file}"), "x".to_owned()).await;
            }
        }
        assert!(catalog.drop_table("D", "T", false).await.unwrap());
        assert_eq!(catalog.list_tables("d").await.unwrap(), ["t2"]);
        assert!(!catalog.drop_table("d", "t", true).await.unwrap());
        assert_eq!(catalog.drop_table("d", "t", false).await.unwrap_err().kind(), ErrorKind::NotFound);
        let files = TableFiles::new(catalog.table_folder("d", "t2").unwrap(), None).unwrap();
        assert_eq!(files.list_all(files.root().prefix()).await.unwrap().len(), 5);
        // A table of the same name is a new one.
        catalog.create_table("d", "t", definition(&[("bucket", "7")]), false).await.unwrap();
        let table = catalog.open_table("d", &object("t"), &Arc::default(), BTreeMap::new()).await.unwrap();
        assert_eq!(table.schema().options["bucket"], "7");
        assert!(table.snapshot(None).await.unwrap().is_none());
    }
    let left: Vec<_> = std::fs::read_dir(folder.path().join("wh/d.db")).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// A table whose schemas, of main and of a branch, name folders outside.
async fn with_outside(catalog: &FileSystemCatalog, table: &str, path: &str, of_branch: &str) {
    let options = [("data-file.external-paths", path), ("data-file.external-paths.strategy", "round-robin")];
    catalog.create_table("d", table, definition(&options), false).await.unwrap();
    let schema = format!(r#"{{"options":{{"global-index.external-path":"{of_branch}"}}}}"#);
    put(catalog.warehouse(), &format!("d.db/{table}/branch/branch-b/schema/schema-0"), schema).await;
}

#[tokio::test]
async fn drop_table_when_it_keeps_files_outside_then_those_go_and_others_stay() {
    let store = memory("");
    let catalog = FileSystemCatalog::new(store.child("wh").unwrap());
    catalog.create_database("d", false).await.unwrap();
    let at = |path: &str| store.child(path).unwrap().as_str().to_owned();
    with_outside(&catalog, "t", &format!("{}, {}", at("ext/t"), at("wh/d.db/t/more")), &at("ext/gi")).await;
    let gone = ["ext/t/p=1/bucket-0/data-1", "ext/t/bucket-postpone/f", "ext/gi/btree-global-index-1.index"];
    let kept = ["ext/t/notes.txt", "ext/t/bucket-x/f", "ext/gi/notes.txt", "ext/t2/bucket-0/f"];
    for file in gone.iter().chain(&kept) {
        put(&store, file, "x".to_owned()).await;
    }
    catalog.drop_table("d", "t", false).await.unwrap();
    let there = |file: &str| {
        let files = TableFiles::new(store.clone(), None).unwrap();
        let path = store.child(file).unwrap().prefix().clone();
        async move { files.exists(&path).await.unwrap() }
    };
    for file in gone {
        assert!(!there(file).await, "{file}");
    }
    for file in kept {
        assert!(there(file).await, "{file}");
    }
}

#[tokio::test]
async fn drop_table_when_a_folder_outside_may_be_anothers_then_nothing_goes() {
    let store = memory("");
    let catalog = FileSystemCatalog::new(store.child("lake/wh").unwrap());
    catalog.create_database("d", false).await.unwrap();
    let at = |path: &str| store.child(path).unwrap().as_str().to_owned();
    let root = store.as_str().to_owned();
    for (i, (path, why)) in [
        (at("lake"), "holds the warehouse"),
        (at("lake/wh"), "holds the warehouse"),
        (at("lake/wh/d.db"), "another folder of a database"),
        (at("lake/wh/d.db/other"), "another folder of a database"),
        (root, "the whole of a store"),
    ]
    .into_iter()
    .enumerate()
    {
        let table = format!("t{i}");
        with_outside(&catalog, &table, &path, &at("ext/gi")).await;
        put(&store, "ext/gi/x.index", "x".to_owned()).await;
        let error = catalog.drop_table("d", &table, false).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(why), "{error}");
        assert!(catalog.table_exists("d", &table).await.unwrap());
        let folder: StoreLocation = catalog.table_folder("d", &table).unwrap();
        crate::store::folders::delete_folder(&folder, |_| false).await.unwrap();
    }
    with_outside(&catalog, "a", &at("ext/shared/deep"), &at("ext/gi")).await;
    with_outside(&catalog, "b", &at("ext/shared"), &at("ext/gi2")).await;
    let error = catalog.drop_table("d", "a", false).await.unwrap_err();
    assert!(error.to_string().contains("table d.b does in"), "{error}");
    assert!(catalog.table_exists("d", "a").await.unwrap());
}

#[tokio::test]
async fn create_and_alter_when_the_answer_is_lost_then_done_all_the_same() {
    let root = memory("wh");
    let catalog = FileSystemCatalog::new(LossyStore::over(&root));
    catalog.create_database("d", false).await.unwrap();
    assert!(catalog.create_table("d", "t", definition(&[]), false).await.unwrap());
    for id in 1..4 {
        assert_eq!(catalog.alter_table("d", &object("t"), vec![add(&format!("c{id}"))]).await.unwrap().id, id);
    }
    let files = TableFiles::new(root.child("d.db/t").unwrap(), None).unwrap();
    assert_eq!(Schemas::new(Arc::new(files), Arc::default()).ids().await.unwrap(), [0, 1, 2, 3]);
}
