//! `$options` and `$aggregation_fields`: how a table is set up.

use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewArray};
use arrow::datatypes::SchemaRef;
use futures::StreamExt;

use super::table::{RowSource, RowStream, Wanted, unknown_column};
use super::{NOT_NULL, NULLABLE, columns, text};
use crate::error::Result;
use crate::table::Table;

/// `t$options`
#[derive(Debug)]
pub(super) struct OptionRows {
    pub(super) table: Arc<Table>,
}

impl RowSource for OptionRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![text("key", NOT_NULL), text("value", NOT_NULL)])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        let options = self.table.options();
        let batch = wanted.batch(options.len(), |column| {
            Ok(match column {
                "key" => Arc::new(StringViewArray::from_iter_values(options.keys())) as ArrayRef,
                "value" => Arc::new(StringViewArray::from_iter_values(options.values())),
                other => return Err(unknown_column(other)),
            })
        });
        futures::stream::iter([batch]).boxed()
    }
}

/// `t$aggregation_fields`
#[derive(Debug)]
pub(super) struct AggregationRows {
    pub(super) table: Arc<Table>,
}

impl AggregationRows {
    /// What the options `fields.<column>.*` hold, as a list: their values, or their keys.
    fn listed(&self, column: &str, keys: bool) -> String {
        let of_column = |key: &&String| {
            key.strip_prefix("fields.").and_then(|rest| rest.split('.').next()).is_some_and(|name| name == column)
        };
        let options = &self.table.schema().options;
        let found = options.iter().filter(|(key, _)| of_column(key));
        let found: Vec<&str> = found.map(|(key, value)| if keys { key.as_str() } else { value.as_str() }).collect();
        format!("[{}]", found.join(", "))
    }

    fn batch(&self, wanted: &Wanted) -> Result<arrow::array::RecordBatch> {
        let fields = &self.table.schema().fields;
        wanted.batch(fields.len(), |column| {
            let values: StringViewArray = match column {
                "field_name" => fields.iter().map(|field| Some(field.name.clone())).collect(),
                "field_type" => fields.iter().map(|field| Some(field.data_type.to_string())).collect(),
                "function" => fields.iter().map(|field| Some(self.listed(&field.name, false))).collect(),
                "function_options" => fields.iter().map(|field| Some(self.listed(&field.name, true))).collect(),
                "comment" => fields.iter().map(|field| field.description.clone()).collect(),
                other => return Err(unknown_column(other)),
            };
            Ok(Arc::new(values) as ArrayRef)
        })
    }
}

impl RowSource for AggregationRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![
            text("field_name", NOT_NULL),
            text("field_type", NOT_NULL),
            text("function", NULLABLE),
            text("function_options", NULLABLE),
            text("comment", NULLABLE),
        ])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        futures::stream::iter([self.batch(&wanted)]).boxed()
    }
}
