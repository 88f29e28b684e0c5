//! `CREATE EXTERNAL TABLE t STORED AS PAIMON LOCATION '..'`: one table of a lake in any session. With columns it is created when
//! there is none.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::{Session, TableProviderFactory};
use datafusion::common::{Constraint, Result, plan_err};
use datafusion::datasource::TableProvider;
use datafusion::logical_expr::{CreateExternalTable, Expr};

use super::prepass::check_options;
use super::provider::LakeTable;
use super::types;
use crate::error::{Error, ErrorKind};
use crate::spec::{DataField, TableSchema};
use crate::store::{Caches, Schemas, StoreLocation, StoreRegistry, TableFiles};
use crate::table::{Identifier, NewTable, Table};

/// Makes tables of the folders that hold them. Registered as `PAIMON` by [`register`](super::register).
#[derive(Debug, Default)]
pub struct LakeTableFactory {
    caches: Arc<Caches>,
}

impl LakeTableFactory {
    /// A factory whose tables keep what they decode in `caches`.
    pub fn new(caches: Arc<Caches>) -> Self {
        Self { caches }
    }
}

#[async_trait]
impl TableProviderFactory for LakeTableFactory {
    async fn create(&self, _: &dyn Session, statement: &CreateExternalTable) -> Result<Arc<dyn TableProvider>> {
        let name = statement.name.to_string();
        if !statement.order_exprs.is_empty() {
            return plan_err!("table {name}: WITH ORDER is not a clause of these tables; leave it out");
        }
        if statement.unbounded {
            return plan_err!("table {name}: UNBOUNDED tables are not supported in this version");
        }
        // The engine puts `format.` before a key without a dot; ours may be written with their prefix too.
        let options: BTreeMap<String, String> = statement
            .options
            .iter()
            .map(|(key, value)| {
                let key = key.strip_prefix("format.").unwrap_or(key);
                (key.strip_prefix("paimon.").unwrap_or(key).to_owned(), value.clone())
            })
            .collect();
        check_options(&options)?;
        let [location] = statement.locations.as_slice() else {
            return plan_err!("table {name}: exactly one LOCATION is needed, the folder of the table");
        };
        let location = StoreRegistry::global().open(location, &BTreeMap::new())?;
        let identifier = Identifier::new(statement.name.schema().unwrap_or("external"), statement.name.table());
        let at = |error: Error| error.with("table", name.clone());
        let defined = !statement.schema.fields().is_empty();
        let new = if defined { Some(definition(statement, options.clone()).map_err(at)?) } else { None };
        let Some(new) = new else {
            if !statement.table_partition_cols.is_empty() {
                return plan_err!("table {name}: PARTITIONED BY comes with the table at LOCATION; leave it out");
            }
            let table = Table::open(location, identifier, Arc::clone(&self.caches), options).await?;
            return Ok(Arc::new(LakeTable::new(table)));
        };
        let created = create(location.clone(), &new).await.map_err(at)?;
        let table = Table::open(location, identifier, Arc::clone(&self.caches), BTreeMap::new()).await?;
        if !created {
            check_same(&table, &new).map_err(at)?;
        }
        Ok(Arc::new(LakeTable::new(table)))
    }
}

/// What the statement defines.
fn definition(statement: &CreateExternalTable, options: BTreeMap<String, String>) -> crate::error::Result<TableSchema> {
    let mut fields = Vec::new();
    for (id, field) in (0..).zip(statement.schema.fields()) {
        let data_type = types::from_arrow(field.data_type(), field.is_nullable())
            .map_err(|error| error.with("column", field.name().as_str()))?;
        let mut field = DataField::new(id, field.name(), data_type);
        field.default_value = match statement.column_defaults.get(&field.name) {
            None => None,
            Some(Expr::Literal(value, _)) if value.is_null() => None,
            Some(Expr::Literal(value, _)) => Some(value.to_string()),
            Some(other) => {
                return Err(
                    Error::unsupported(format!("a default is a constant, not {other}")).with("column", field.name)
                );
            }
        };
        fields.push(field);
    }
    let key = |constraint: &Constraint| match constraint {
        Constraint::PrimaryKey(columns) => {
            Some(columns.iter().filter_map(|i| fields.get(*i)).map(|f| f.name.clone()).collect())
        }
        Constraint::Unique(_) => None,
    };
    let primary_keys = statement.constraints.iter().find_map(key).unwrap_or_default();
    let partition_keys = statement.table_partition_cols.clone();
    let millis = chrono::Utc::now().timestamp_millis();
    NewTable { fields, partition_keys, primary_keys, options, comment: None }.into_schema(&BTreeMap::new(), millis)
}

/// Creates the table at `location`; false when there is one.
async fn create(location: StoreLocation, schema: &TableSchema) -> crate::error::Result<bool> {
    let files = Arc::new(TableFiles::new(location, None)?);
    let schemas = Schemas::new(Arc::clone(&files), Arc::default());
    if schemas.latest_id().await?.is_some() {
        return Ok(false);
    }
    files.create(&files.schema_path(0), Bytes::from(schema.to_json().to_string())).await
}

/// Whether the table that is there is the one that was written out.
fn check_same(table: &Table, new: &TableSchema) -> crate::error::Result<()> {
    let shape = |schema: &TableSchema| {
        let columns: Vec<_> =
            schema.fields.iter().map(|field| (field.name.clone(), field.data_type.to_arrow())).collect();
        (columns, schema.primary_keys.clone(), schema.partition_keys.clone())
    };
    let options = new.options.iter().find(|(key, value)| table.schema().options.get(*key) != Some(value));
    if shape(table.schema()) != shape(new) || options.is_some() {
        return Err(Error::new(
            ErrorKind::AlreadyExists,
            "there is a table at LOCATION with other columns, keys or options; leave them out to open it as it is",
        ));
    }
    Ok(())
}
