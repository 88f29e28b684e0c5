//! `CREATE EXTERNAL TABLE t STORED AS PAIMON LOCATION '..'`: one table of a lake in any session.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{Session, TableProviderFactory};
use datafusion::common::{Result, plan_err};
use datafusion::datasource::TableProvider;
use datafusion::logical_expr::CreateExternalTable;

use super::prepass::check_options;
use super::provider::LakeTable;
use crate::store::{Caches, StoreRegistry};
use crate::table::{Identifier, Table};

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
        if !statement.schema.fields().is_empty() {
            return plan_err!("table {name}: the columns are those of the table at LOCATION; leave them out");
        }
        if !statement.table_partition_cols.is_empty() || !statement.order_exprs.is_empty() {
            return plan_err!(
                "table {name}: PARTITIONED BY and WITH ORDER come with the table at LOCATION; leave them out"
            );
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
        let table = Table::open(location, identifier, Arc::clone(&self.caches), options).await?;
        Ok(Arc::new(LakeTable::new(table)))
    }
}
