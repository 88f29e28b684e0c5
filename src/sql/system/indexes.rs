//! `$table_indexes`: the index files of a snapshot.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Int32Array, Int32Builder, Int64Array, Int64Builder, ListBuilder, RecordBatch, StringBuilder,
    StringViewArray, StructBuilder,
};
use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use futures::StreamExt;

use super::table::{RowSource, RowStream, Wanted, unknown_column};
use super::{NOT_NULL, NULLABLE, columns, int, long, text};
use crate::error::{Error, Result};
use crate::plan::live;
use crate::spec::partition::partition_tuple;
use crate::spec::{IndexEntry, Snapshot};
use crate::table::Table;

/// `t$table_indexes`
#[derive(Debug)]
pub(super) struct IndexRows {
    pub(super) table: Arc<Table>,
    pub(super) snapshot: Option<Arc<Snapshot>>,
}

/// A deletion vector: data file, offset, length, rows.
fn range_fields() -> Fields {
    Fields::from(vec![
        Field::new("f0", DataType::Utf8, false),
        Field::new("f1", DataType::Int32, false),
        Field::new("f2", DataType::Int32, false),
        Field::new("_CARDINALITY", DataType::Int64, true),
    ])
}

fn range_item() -> Field {
    Field::new("element", DataType::Struct(range_fields()), true)
}

impl IndexRows {
    async fn batch(&self, wanted: &Wanted) -> Result<RecordBatch> {
        let entries = match &self.snapshot {
            Some(snapshot) => live::index_entries(&self.table, snapshot).await.map_err(|error| self.table.at(error))?,
            None => Arc::default(),
        };
        let schema = self.table.schema();
        let fields = schema.partition_fields();
        let longs = |value: &dyn Fn(&IndexEntry) -> Option<i64>| -> ArrayRef {
            Arc::new(entries.iter().map(value).collect::<Int64Array>())
        };
        let texts = |value: &dyn Fn(&IndexEntry) -> Option<String>| -> ArrayRef {
            Arc::new(entries.iter().map(value).collect::<StringViewArray>())
        };
        wanted.batch(entries.len(), |column| {
            Ok(match column {
                "partition" => {
                    let tuples = entries.iter().map(|entry| partition_tuple(&entry.partition, &fields).map(Some));
                    Arc::new(tuples.collect::<Result<StringViewArray>>()?)
                }
                "bucket" => Arc::new(Int32Array::from_iter_values(entries.iter().map(|entry| entry.bucket))),
                "index_type" => texts(&|entry| Some(entry.index_type.clone())),
                "file_name" => texts(&|entry| Some(entry.file_name.clone())),
                "file_size" => longs(&|entry| Some(entry.file_size)),
                "row_count" => longs(&|entry| Some(entry.row_count)),
                "dv_ranges" => ranges(&entries)?,
                "row_range_start" => longs(&|entry| entry.global_index.as_ref().map(|index| index.row_range_start)),
                "row_range_end" => longs(&|entry| entry.global_index.as_ref().map(|index| index.row_range_end)),
                "index_field_id" => Arc::new(
                    entries
                        .iter()
                        .map(|entry| entry.global_index.as_ref().map(|index| index.index_field_id))
                        .collect::<Int32Array>(),
                ),
                "index_field_name" => texts(&|entry| {
                    let id = entry.global_index.as_ref()?.index_field_id;
                    schema.fields.iter().find(|field| field.id == id).map(|field| field.name.clone())
                }),
                other => return Err(unknown_column(other)),
            })
        })
    }
}

fn ranges(entries: &[IndexEntry]) -> Result<ArrayRef> {
    let mut lists = ListBuilder::new(StructBuilder::from_fields(range_fields(), 0)).with_field(range_item());
    let wrong = || Error::internal("the fields of a deletion vector are not as they were made");
    for entry in entries {
        let Some(ranges) = &entry.dv_ranges else {
            lists.append(false);
            continue;
        };
        let values = lists.values();
        for range in ranges {
            values.field_builder::<StringBuilder>(0).ok_or_else(wrong)?.append_value(&range.data_file);
            values.field_builder::<Int32Builder>(1).ok_or_else(wrong)?.append_value(range.offset);
            values.field_builder::<Int32Builder>(2).ok_or_else(wrong)?.append_value(range.length);
            values.field_builder::<Int64Builder>(3).ok_or_else(wrong)?.append_option(range.cardinality);
            values.append(true);
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}

impl RowSource for IndexRows {
    fn schema(&self) -> SchemaRef {
        columns(vec![
            text("partition", NULLABLE),
            int("bucket", NOT_NULL),
            text("index_type", NOT_NULL),
            text("file_name", NOT_NULL),
            long("file_size", NOT_NULL),
            long("row_count", NOT_NULL),
            Field::new("dv_ranges", DataType::List(Arc::new(range_item())), true),
            long("row_range_start", NULLABLE),
            long("row_range_end", NULLABLE),
            int("index_field_id", NULLABLE),
            text("index_field_name", NULLABLE),
        ])
    }

    fn rows(self: Arc<Self>, wanted: Wanted) -> RowStream {
        futures::stream::once(async move { self.batch(&wanted).await }).boxed()
    }
}
