//! What tables, databases and views there are and what they are like: the SHOW statements that look into a lake.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::prelude::DataFrame;
use datafusion::sql::sqlparser::ast::Ident;

use super::alter::path_of;
use super::statement::PartitionSpec;
use crate::error::{Error, Result};
use crate::options::Level0;
use crate::plan::live::{LiveRequest, live_files};
use crate::plan::{Partition, ScanRequest, plan_scan};
use crate::spec::DataField;
use crate::spec::partition::partition_spec;
use crate::sql::statement::Like;
use crate::sql::{LakeSession, describe};
use crate::table::{Table, create_statement};
use crate::write::POSTPONE_BUCKET;

impl LakeSession {
    /// SHOW CREATE TABLE of a table of a lake.
    pub(in crate::sql) async fn show_create_table(&self, name: &[Ident]) -> Result<DataFrame> {
        let target = self.only_lake_target(name, "SHOW CREATE TABLE").await?;
        if self.views.contains(&target.within.catalog_name, target.database(), &target.object.table) {
            return self.show_create_view(name).await;
        }
        target.table_or_branch("SHOW CREATE TABLE")?;
        let table = target.open().await?;
        self.rows(describe::names("result", [create_statement(table.identifier(), table.schema())])?)
    }

    /// SHOW TBLPROPERTIES: the options that the table was given, by key.
    pub(in crate::sql) async fn show_properties(&self, name: &[Ident], key: Option<&str>) -> Result<DataFrame> {
        let target = self.only_lake_target(name, "SHOW TBLPROPERTIES").await?;
        target.table_or_branch("SHOW TBLPROPERTIES")?;
        let table = target.open().await?;
        let options = &table.schema().options;
        let rows: Vec<(String, String)> = match key {
            None => options.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            Some(key) => {
                let value = options.get(key).cloned();
                vec![(key.to_owned(), value.unwrap_or_else(|| format!("the option {key} is not set")))]
            }
        };
        self.rows(describe::pairs(("key", "value"), rows)?)
    }

    /// SHOW COLUMNS.
    pub(in crate::sql) async fn show_columns(&self, name: &[Ident], like: Option<&Like>) -> Result<DataFrame> {
        let provider = self.provider(name).await?;
        let keep = |column: &str| like.is_none_or(|like| like.fits(column));
        self.rows(describe::of_provider(provider.as_ref(), keep)?)
    }

    /// SHOW PARTITIONS: those that hold files of the latest snapshot.
    pub(in crate::sql) async fn show_partitions(&self, name: &[Ident], asked: &PartitionSpec) -> Result<DataFrame> {
        let target = self.only_lake_target(name, "SHOW PARTITIONS").await?;
        target.table_or_branch("SHOW PARTITIONS")?;
        let table = target.open().await?;
        let fields = table.schema().partition_keys.iter().filter_map(|key| table.schema().field(key));
        let fields: Vec<&DataField> = fields.collect();
        if fields.is_empty() {
            return Err(table.at(Error::invalid("SHOW PARTITIONS: the table has no partitions")));
        }
        let asked = values_of(&table, asked).map_err(|error| table.at(error))?;
        let default_name = &table.settings().partition_default_name;
        let mut shown = BTreeSet::new();
        for partition in partitions(&table).await? {
            let fits = |(i, value): &(usize, ScalarValue)| partition.values.get(*i) == Some(value);
            if asked.iter().all(fits) {
                let spec = partition_spec(&partition.row, &fields, default_name).map_err(|error| table.at(error))?;
                shown.insert(spec);
            }
        }
        self.rows(describe::names("partition name", shown)?)
    }
}

/// The partitions that hold files of a table's latest snapshot.
pub(super) async fn partitions(table: &Arc<Table>) -> Result<Vec<Arc<Partition>>> {
    let snapshot = table.snapshot(None).await?;
    let request = ScanRequest::everything(table, Level0::Merge);
    let at = |error: Error| table.at(error);
    let plan = Box::pin(plan_scan(table, snapshot.clone(), &request)).await.map_err(at)?;
    let mut seen: BTreeSet<&[u8]> = BTreeSet::new();
    // Those whose rows wait for their buckets are there as well.
    let waiting = match snapshot.filter(|_| table.settings().bucket == POSTPONE_BUCKET) {
        Some(snapshot) => {
            let request = LiveRequest { partitions: None, deletions: false, postponed: true };
            Box::pin(live_files(table, &snapshot, request)).await.map_err(at)?
        }
        None => Vec::new(),
    };
    let partitions = plan.scanned().chain(&waiting).map(|file| &file.partition);
    Ok(partitions.filter(|partition| seen.insert(&partition.row)).map(Arc::clone).collect())
}

/// The values of a PARTITION clause: each with its place among the partition columns.
///
/// # Errors
/// When a column is none of the partition, and when a value is not one of its type.
pub(super) fn values_of(table: &Table, spec: &PartitionSpec) -> Result<Vec<(usize, ScalarValue)>> {
    let schema = table.schema();
    let mut values = Vec::new();
    for (ident, constant) in spec {
        let name = path_of(&schema.fields, std::slice::from_ref(ident))?.remove(0);
        let place = schema.partition_keys.iter().position(|key| *key == name).ok_or_else(|| {
            Error::invalid(format!(
                "PARTITION names column {name}, which is not one of the partition columns {}",
                schema.partition_keys.join(", ")
            ))
        })?;
        let Some(constant) = constant else { continue };
        let Some(field) = schema.field(&name) else { continue };
        // What NULL is called where partitions are shown.
        let default_name = &table.settings().partition_default_name;
        let text = constant.text.clone().filter(|text| text != default_name);
        let value = ScalarValue::Utf8(text).cast_to(field.to_arrow().data_type());
        let value = value.map_err(|error| {
            let text = constant.text.as_deref().unwrap_or("NULL");
            Error::invalid(format!("'{text}' is not a value of column {name}, which is {}", field.data_type))
                .with_source(error)
        })?;
        values.push((place, value));
    }
    Ok(values)
}
