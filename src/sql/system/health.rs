//! `$health`, which Java lacks: what is out of order in a table, and the statement that puts it right. Also the part of
//! `sys.health` that speaks of one table.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, StringViewArray};
use arrow::datatypes::{DataType, Field, SchemaRef};
use futures::StreamExt;

use super::table::{RowSource, RowStream, Wanted, unknown_column};
use super::{NOT_NULL, NULLABLE, columns, text};
use crate::error::Result;
use crate::maintain::health::{Clock, Finding, table_health};
use crate::sql::zone;
use crate::table::Table;

/// `t$health`
#[derive(Debug)]
pub(super) struct HealthRows {
    pub(super) table: Arc<Table>,
}

impl RowSource for HealthRows {
    fn schema(&self) -> SchemaRef {
        columns(fields())
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        futures::stream::once(async move {
            let found = findings(&self.table, &wanted).await?;
            wanted.batch(found.len(), |column| value(&found, column))
        })
        .boxed()
    }
}

/// The columns that tell of a finding.
pub(super) fn fields() -> Vec<Field> {
    let double = |name: &str| Field::new(name, DataType::Float64, NULLABLE);
    vec![
        text("check_name", NOT_NULL),
        text("severity", NOT_NULL),
        double("figure"),
        double("threshold"),
        text("unit", NOT_NULL),
        text("detail", NOT_NULL),
        text("cure", NULLABLE),
    ]
}

/// The findings of a table, by the session's clock.
pub(super) async fn findings(table: &Arc<Table>, wanted: &Wanted) -> Result<Vec<Finding>> {
    let now = chrono::Utc::now().timestamp_millis();
    let instant = |millis| zone::instant_of(millis, &wanted.zone).unwrap_or(millis);
    table_health(table, &Clock { now, instant: &instant }).await
}

/// A column of [`fields`].
pub(super) fn value(found: &[Finding], column: &str) -> Result<ArrayRef> {
    let texts = |value: fn(&Finding) -> Option<String>| -> ArrayRef {
        Arc::new(found.iter().map(value).collect::<StringViewArray>())
    };
    let doubles = |value: fn(&Finding) -> Option<f64>| -> ArrayRef {
        Arc::new(found.iter().map(value).collect::<Float64Array>())
    };
    Ok(match column {
        "check_name" => texts(|finding| Some(finding.check.to_owned())),
        "severity" => texts(|finding| Some(finding.severity.to_string())),
        "figure" => doubles(|finding| finding.figure),
        "threshold" => doubles(|finding| finding.threshold),
        "unit" => texts(|finding| Some(finding.unit.to_owned())),
        "detail" => texts(|finding| Some(finding.detail.clone())),
        "cure" => texts(|finding| finding.cure.clone()),
        other => return Err(unknown_column(other)),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs::{self, File};
    use std::path::Path;
    use std::time::SystemTime;

    use super::*;
    use crate::sql::{LakeCatalog, LakeSession};
    use crate::store::Caches;
    use crate::table::ObjectName;

    async fn run(session: &LakeSession, sql: &str) {
        session.sql(sql).await.unwrap().collect().await.unwrap();
    }

    /// How many orphans are found of a table whose files are all as old as can be.
    async fn orphans(session: &LakeSession, folder: &Path) -> Option<f64> {
        for file in fs::read_dir(folder.join("bucket-0")).unwrap() {
            let file = File::options().write(true).open(file.unwrap().path()).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        let catalog = session.context().catalog("lake").unwrap();
        let catalog = catalog.downcast_ref::<LakeCatalog>().unwrap().catalog();
        let name: ObjectName = "t".parse().unwrap();
        let table = catalog.open_table("default", &name, &Arc::new(Caches::default()), BTreeMap::new()).await.unwrap();
        let now = chrono::Utc::now().timestamp_millis();
        let found = table_health(&table, &Clock { now, instant: &|millis| millis }).await.unwrap();
        found.iter().find(|finding| finding.check == "orphan_files").unwrap().figure
    }

    #[tokio::test]
    async fn table_health_when_files_belong_to_no_state_then_orphans() {
        let warehouse = tempfile::tempdir().unwrap();
        let session = LakeSession::builder().warehouse(warehouse.path().to_str().unwrap()).build().await.unwrap();
        for sql in [
            "CREATE TABLE t (id INT NOT NULL, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '1', 'write-only' = 'true')",
            "INSERT INTO t VALUES (1)",
            "CALL sys.create_tag('t', 'kept', 1)",
            "INSERT OVERWRITE t VALUES (2)",
        ] {
            run(&session, sql).await;
        }
        let folder = warehouse.path().join("default.db/t");
        assert_eq!(orphans(&session, &folder).await, Some(0.0));
        fs::write(folder.join("bucket-0/data-stray-0.parquet"), "x").unwrap();
        assert_eq!(orphans(&session, &folder).await, Some(1.0));
        // The first state has expired; a tag keeps its file, and then nothing does.
        fs::remove_file(folder.join("snapshot/snapshot-1")).unwrap();
        fs::write(folder.join("snapshot/EARLIEST"), "2").unwrap();
        assert_eq!(orphans(&session, &folder).await, Some(1.0));
        run(&session, "CALL sys.delete_tag('t', 'kept')").await;
        assert_eq!(orphans(&session, &folder).await, Some(2.0));
    }
}
