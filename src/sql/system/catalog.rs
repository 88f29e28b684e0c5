//! The tables of database `sys`: what there is in a whole catalog.
//!
//! Databases and tables that can't pass are not looked at, the others a few at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringViewArray, new_null_array};
use arrow::datatypes::{DataType, Field, SchemaRef};
use futures::{StreamExt, TryStreamExt};

use super::health;
use super::partitions::sums;
use super::table::{RowSource, RowStream, SystemTable, Wanted, unknown_column};
use super::{NOT_NULL, NULLABLE, boolean, columns, long, text};
use crate::catalog::{Catalog, TableLocation};
use crate::error::{Error, Result};
use crate::maintain::health::{Finding, Severity};
use crate::options::nearest_of;
use crate::plan::live::{LiveRequest, live_files};
use crate::spec::TableSchema;
use crate::spec::partition::partition_spec;
use crate::sql::zone;
use crate::store::{Caches, Schemas, TableFiles};
use crate::table::{ObjectName, Table};

/// The name of the database.
pub(crate) const DATABASE: &str = "sys";

/// Tables that are looked at in the same moment.
const CONCURRENCY: usize = 8;

/// The tables of the database.
const TABLES: [(&str, Kind); 4] = [
    ("all_table_options", Kind::TableOptions),
    ("catalog_options", Kind::CatalogOptions),
    ("partitions", Kind::Partitions),
    ("tables", Kind::Tables),
];

/// Tables that are not listed, as other engines list only theirs: other names, and one that they do not have.
const UNLISTED: [(&str, Kind); 3] =
    [("all_partitions", Kind::Partitions), ("all_tables", Kind::Tables), ("health", Kind::Health)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    TableOptions,
    CatalogOptions,
    Health,
    Partitions,
    Tables,
}

/// The names of the tables of database `sys`.
pub(crate) fn catalog_tables() -> Vec<String> {
    TABLES.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// The table `name` of database `sys` of a catalog that was made with `options`.
///
/// # Errors
/// Not found when there is no such table, with the nearest name.
pub(crate) fn catalog_table(
    name: &str,
    catalog: &Arc<dyn Catalog>,
    caches: &Arc<Caches>,
    options: &Arc<BTreeMap<String, String>>,
) -> Result<SystemTable> {
    let mut all = TABLES.iter().chain(&UNLISTED);
    let Some((_, kind)) = all.find(|(known, _)| known.eq_ignore_ascii_case(name)) else {
        let nearest = nearest_of(name, TABLES.iter().map(|(name, _)| *name));
        let hint = nearest.map(|nearest| format!("; did you mean {DATABASE}.{nearest}?")).unwrap_or_default();
        return Err(Error::not_found(format!("there is no table {DATABASE}.{name}{hint}")));
    };
    let source = CatalogRows {
        kind: *kind,
        database: None,
        catalog: Arc::clone(catalog),
        caches: Arc::clone(caches),
        options: Arc::clone(options),
    };
    Ok(SystemTable::of_catalog(format!("{DATABASE}.{name}"), Arc::new(source)))
}

/// What is out of order in the tables of `database`.
pub(crate) fn database_health(database: String, catalog: &Arc<dyn Catalog>, caches: &Arc<Caches>) -> SystemTable {
    let source = CatalogRows {
        kind: Kind::Health,
        database: Some(database),
        catalog: Arc::clone(catalog),
        caches: Arc::clone(caches),
        options: Arc::default(),
    };
    SystemTable::of_catalog(format!("{DATABASE}.health"), Arc::new(source))
}

#[derive(Debug)]
struct CatalogRows {
    kind: Kind,
    /// The only database that is looked at.
    database: Option<String>,
    catalog: Arc<dyn Catalog>,
    caches: Arc<Caches>,
    options: Arc<BTreeMap<String, String>>,
}

impl RowSource for CatalogRows {
    fn schema(&self) -> SchemaRef {
        let names = [text("database_name", NULLABLE), text("table_name", NULLABLE)];
        let counts = [
            long("record_count", NULLABLE),
            long("file_size_in_bytes", NULLABLE),
            long("file_count", NULLABLE),
            long("last_file_creation_time", NULLABLE),
        ];
        let mut fields: Vec<Field> = Vec::new();
        match self.kind {
            Kind::CatalogOptions => fields.extend([text("key", NOT_NULL), text("value", NOT_NULL)]),
            Kind::TableOptions => {
                fields.extend(names);
                fields.extend([text("key", NULLABLE), text("value", NULLABLE)]);
            }
            Kind::Health => {
                fields.extend(names);
                fields.extend(health::fields());
            }
            Kind::Partitions => {
                fields.extend(names);
                fields.push(text("partition_name", NULLABLE));
                fields.extend(counts);
                fields.push(boolean("done", NULLABLE));
            }
            Kind::Tables => {
                fields.extend(names);
                fields.extend([
                    text("table_type", NULLABLE),
                    boolean("partitioned", NULLABLE),
                    boolean("primary_key", NULLABLE),
                    text("owner", NULLABLE),
                    long("created_at", NULLABLE),
                    text("created_by", NULLABLE),
                    long("updated_at", NULLABLE),
                    text("updated_by", NULLABLE),
                ]);
                fields.extend(counts);
            }
        }
        columns(fields)
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        if self.kind == Kind::CatalogOptions {
            return futures::stream::iter([self.catalog_options(&wanted)]).boxed();
        }
        futures::stream::once(async move {
            let names = self.tables(&wanted).await?;
            let wanted = Arc::new(wanted);
            let rows = futures::stream::iter(names).map(move |(database, table)| {
                let (rows, wanted) = (Arc::clone(&self), Arc::clone(&wanted));
                async move { rows.of_table(&database, &table, &wanted).await }
            });
            // A table that was dropped after the listing is not there any more.
            Ok::<_, Error>(rows.buffered(CONCURRENCY).try_filter_map(|batch| std::future::ready(Ok(batch))))
        })
        .try_flatten()
        .boxed()
    }
}

impl CatalogRows {
    /// The tables that can pass.
    async fn tables(&self, wanted: &Wanted) -> Result<Vec<(String, String)>> {
        let databases = match &self.database {
            Some(database) => vec![database.clone()],
            None => self.catalog.list_databases().await?,
        };
        let array: ArrayRef = Arc::new(StringViewArray::from_iter_values(&databases));
        let kept = wanted.keep(&[("database_name", array)])?;
        let mut found = Vec::new();
        for database in databases.into_iter().zip(kept).filter_map(|(name, kept)| kept.then_some(name)) {
            let tables = self.catalog.list_tables(&database).await?;
            let known: [(&str, ArrayRef); 2] = [
                ("database_name", Arc::new(StringViewArray::from_iter_values(tables.iter().map(|_| &database)))),
                ("table_name", Arc::new(StringViewArray::from_iter_values(&tables))),
            ];
            let kept = wanted.keep(&known)?;
            let kept = tables.into_iter().zip(kept).filter_map(|(name, kept)| kept.then_some(name));
            found.extend(kept.map(|table| (database.clone(), table)));
        }
        Ok(found)
    }

    async fn of_table(&self, database: &str, table: &str, wanted: &Wanted) -> Result<Option<RecordBatch>> {
        match self.kind {
            Kind::Partitions => return self.partitions(database, table, wanted).await,
            Kind::Health => return self.health(database, table, wanted).await,
            _ => {}
        }
        let found = self.catalog.table_location(database, table).await?;
        let files = TableFiles::new(found.location.clone(), None)?;
        // Not opened: what this version can't read is there all the same.
        let Some(schema) = Schemas::new(Arc::new(files), Arc::clone(&self.caches)).latest().await? else {
            return Ok(None);
        };
        match self.kind {
            Kind::TableOptions => table_options(&found, &schema, wanted).map(Some),
            _ => about_table(&found, &schema, wanted).map(Some),
        }
    }

    async fn open(&self, database: &str, table: &str) -> Result<Arc<Table>> {
        let name = ObjectName { table: table.to_owned(), branch: None, system_table: None, version: None };
        self.catalog.open_table(database, &name, &self.caches, BTreeMap::new()).await
    }

    async fn health(&self, database: &str, table: &str, wanted: &Wanted) -> Result<Option<RecordBatch>> {
        let found = async { health::findings(&self.open(database, table).await?, wanted).await };
        let found = match Box::pin(found).await {
            Ok(found) => found,
            Err(error) if error.is_retryable() => return Err(error),
            // One table that can't be read does not hide what is wrong with the others.
            Err(error) => vec![Finding {
                check: "readable",
                severity: Severity::Critical,
                figure: None,
                threshold: None,
                unit: "",
                detail: error.to_string(),
                cure: None,
            }],
        };
        let batch = wanted.batch(found.len(), |column| match column {
            "database_name" => Ok(repeated(database, found.len())),
            "table_name" => Ok(repeated(table, found.len())),
            other => health::value(&found, other),
        });
        batch.map(Some)
    }

    async fn partitions(&self, database: &str, table: &str, wanted: &Wanted) -> Result<Option<RecordBatch>> {
        let table = self.open(database, table).await?;
        let Some(snapshot) = table.snapshot(None).await? else { return Ok(None) };
        if table.schema().partition_keys.is_empty() {
            return Ok(None);
        }
        let files = Box::pin(live_files(&table, &snapshot, LiveRequest::default())).await;
        let files = files.map_err(|error| table.at(error))?;
        let fields = table.schema().partition_fields();
        let default_name = &table.settings().partition_default_name;
        let rows = sums(&files, false)
            .into_iter()
            .map(|((row, _), sums)| Ok((partition_spec(&row, &fields, default_name)?, sums)))
            .collect::<Result<Vec<_>>>()?;
        let longs = |values: Vec<Option<i64>>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
        let identifier = table.identifier();
        let batch = wanted.batch(rows.len(), |column| {
            Ok(match column {
                "database_name" => repeated(&identifier.database, rows.len()),
                "table_name" => repeated(&identifier.table, rows.len()),
                "partition_name" => {
                    Arc::new(StringViewArray::from_iter_values(rows.iter().map(|(name, _)| name))) as ArrayRef
                }
                "record_count" => longs(rows.iter().map(|(_, sums)| Some(sums.records)).collect()),
                "file_size_in_bytes" => longs(rows.iter().map(|(_, sums)| Some(sums.bytes)).collect()),
                "file_count" => longs(rows.iter().map(|(_, sums)| Some(sums.files)).collect()),
                "last_file_creation_time" => {
                    let times = rows
                        .iter()
                        .map(|(_, sums)| sums.last_update.map(|time| zone::instant_of(time, &wanted.zone)).transpose());
                    longs(times.collect::<Result<_>>()?)
                }
                // Known to catalogs that keep partitions themselves.
                "done" => Arc::new(BooleanArray::from(vec![false; rows.len()])),
                other => return Err(unknown_column(other)),
            })
        });
        batch.map(Some)
    }

    fn catalog_options(&self, wanted: &Wanted) -> Result<RecordBatch> {
        let shown = |key: &String, value: &String| if is_secret(key) { "******".to_owned() } else { value.clone() };
        wanted.batch(self.options.len(), |column| {
            Ok(match column {
                "key" => Arc::new(StringViewArray::from_iter_values(self.options.keys())) as ArrayRef,
                "value" => Arc::new(StringViewArray::from_iter_values(
                    self.options.iter().map(|(key, value)| shown(key, value)),
                )),
                other => return Err(unknown_column(other)),
            })
        })
    }
}

/// Whether an option holds what nobody should read in a query's result.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["secret", "password", "token", "access-key", "access_key", "credential", "signature"]
        .iter()
        .any(|part| key.contains(part))
        && !["token.provider", "data-token.enabled"].contains(&key.as_str())
}

fn repeated(text: &str, rows: usize) -> ArrayRef {
    Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(text, rows)))
}

fn table_options(found: &TableLocation, schema: &TableSchema, wanted: &Wanted) -> Result<RecordBatch> {
    let mut options = schema.options.clone();
    options.insert("path".to_owned(), found.location.as_str().to_owned());
    wanted.batch(options.len(), |column| {
        Ok(match column {
            "database_name" => repeated(&found.database, options.len()),
            "table_name" => repeated(&found.table, options.len()),
            "key" => Arc::new(StringViewArray::from_iter_values(options.keys())) as ArrayRef,
            "value" => Arc::new(StringViewArray::from_iter_values(options.values())),
            other => return Err(unknown_column(other)),
        })
    })
}

fn about_table(found: &TableLocation, schema: &TableSchema, wanted: &Wanted) -> Result<RecordBatch> {
    let flag = |value: bool| Arc::new(BooleanArray::from(vec![value])) as ArrayRef;
    wanted.batch(1, |column| {
        Ok(match column {
            "database_name" => repeated(&found.database, 1),
            "table_name" => repeated(&found.table, 1),
            "table_type" => repeated(schema.options.get("type").map_or("table", String::as_str), 1),
            "partitioned" => flag(!schema.partition_keys.is_empty()),
            "primary_key" => flag(schema.has_primary_key()),
            // Known to catalogs that keep them.
            "owner" | "created_by" | "updated_by" => new_null_array(&DataType::Utf8View, 1),
            "created_at"
            | "updated_at"
            | "record_count"
            | "file_size_in_bytes"
            | "file_count"
            | "last_file_creation_time" => new_null_array(&DataType::Int64, 1),
            other => return Err(unknown_column(other)),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_secret_when_key_names_a_credential_then_it_is_hidden() {
        for key in ["token", "s3.secret-key", "fs.oss.accessKeySecret", "jdbc.password", "dlf.security-token"] {
            assert!(is_secret(key), "{key}");
        }
        for key in ["warehouse", "metastore", "token.provider", "data-token.enabled", "cache-enabled"] {
            assert!(!is_secret(key), "{key}");
        }
    }
}
