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
