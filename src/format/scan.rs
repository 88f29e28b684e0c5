//! The engine's view of files it cannot read itself: a [`FileSource`] over [`FileRead`].
//!
//! One file is one unit of work: ORC, Avro and text files are not split by bytes. Projection and the scan's expression adapter
//! decide which columns of the file are decoded; a [`ParquetRowSelection`] beside a file selects its rows, whatever its format.
//! Filters stay with the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result as EngineResult};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, PhysicalExpr, apply_expression_roots};
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_scan_config::FileScanConfig;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_datasource_parquet::ParquetRowSelection;
use datafusion_physical_expr_adapter::{
    BatchAdapterFactory, DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory,
};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::ObjectStore;

use super::parquet::nullable_fields;
use super::{FileFormat, FileRead};
use crate::spec::DataField;
use crate::spec::types::arrow_schema;

/// Scans files of one format and one schema, for a `DataSourceExec`.
///
/// The scan configuration's expression adapter maps the table's columns to the files' (`FieldIdAdapterFactory`); without one,
/// columns go by name.
#[derive(Clone)]
pub struct FileScan {
    format: FileFormat,
    table_schema: TableSchema,
    file_fields: Arc<[DataField]>,
    options: Arc<BTreeMap<String, String>>,
    batch_size: usize,
    projection: SplitProjection,
    metrics: ExecutionPlanMetricsSet,
}

impl FileScan {
    /// `table_schema` is what the scan gives, `file_fields` the fields of the schema the files were written with, restricted to
    /// the columns they hold; `options` are the table's, for the text formats.
    pub fn new(
        format: FileFormat,
        table_schema: impl Into<TableSchema>,
        file_fields: impl Into<Arc<[DataField]>>,
        options: Arc<BTreeMap<String, String>>,
    ) -> Self {
        let table_schema = table_schema.into();
        Self {
            format,
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            file_fields: file_fields.into(),
            options,
            batch_size: 8192,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

impl FileSource for FileScan {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        _partition: usize,
    ) -> EngineResult<Arc<dyn FileOpener>> {
        let file_schema = self.table_schema.file_schema();
        let wanted = Arc::new(file_schema.project(&self.projection.file_indices)?);
        let factory = match &base_config.expr_adapter_factory {
            Some(factory) => Arc::clone(factory),
            None => Arc::new(DefaultPhysicalExprAdapterFactory),
        };
        let opener = Opener {
            store: object_store,
            format: self.format,
            fields: needed(&wanted, &self.file_fields, factory.as_ref())?,
            wanted,
            factory,
            file_fields: Arc::clone(&self.file_fields),
            options: Arc::clone(&self.options),
            batch_size: self.batch_size,
        };
        ProjectionOpener::try_new(self.projection.clone(), Arc::new(opener), file_schema)
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_size, ..self.clone() })
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> EngineResult<Option<Arc<dyn FileSource>>> {
        let merged = self.projection.source.try_merge(projection)?;
        let projection = SplitProjection::new(self.table_schema.file_schema(), &merged);
        Ok(Some(Arc::new(Self { projection, ..self.clone() })))
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        self.format.name()
    }

    fn fmt_extra(&self, _t: DisplayFormatType, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> EngineResult<TreeNodeRecursion>,
    ) -> EngineResult<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}

/// The fields of the file that the wanted columns come from.
fn needed(
    wanted: &SchemaRef,
    file_fields: &[DataField],
    factory: &dyn PhysicalExprAdapterFactory,
) -> EngineResult<Vec<DataField>> {
    let adapter = factory.create(Arc::clone(wanted), arrow_schema(&nullable_fields(file_fields)))?;
    let mut names = BTreeSet::new();
    for (index, field) in wanted.fields().iter().enumerate() {
        let source = adapter.rewrite(Arc::new(Column::new(field.name(), index)))?;
        names.extend(collect_columns(&source).into_iter().map(|column| column.name().to_owned()));
    }
    Ok(file_fields.iter().filter(|field| names.contains(&field.name)).cloned().collect())
}

struct Opener {
    store: Arc<dyn ObjectStore>,
    format: FileFormat,
    /// What to read of the file.
    fields: Vec<DataField>,
    /// What to make of it.
    wanted: Arc<Schema>,
    factory: Arc<dyn PhysicalExprAdapterFactory>,
    file_fields: Arc<[DataField]>,
    options: Arc<BTreeMap<String, String>>,
    batch_size: usize,
}

impl FileOpener for Opener {
    fn open(&self, file: PartitionedFile) -> EngineResult<FileOpenFuture> {
        if file.range.is_some() {
            return Err(DataFusionError::Internal(format!("{} files are not read in parts", self.format.name())));
        }
        let read = FileRead {
            store: Arc::clone(&self.store),
            size: file.object_meta.size,
            format: self.format,
            fields: self.fields.clone(),
            file_fields: Arc::clone(&self.file_fields),
            selection: file.extensions.get::<ParquetRowSelection>().map(selected_rows),
            batch_size: self.batch_size,
            options: Arc::clone(&self.options),
            path: file.object_meta.location,
        };
        let adapter = BatchAdapterFactory::new(Arc::clone(&self.wanted))
            .with_adapter_factory(Arc::clone(&self.factory))
            .make_adapter(&arrow_schema(&nullable_fields(&self.fields)))?;
        Ok(async move {
            let batches = read.open().await?;
            Ok(batches.map_err(DataFusionError::from).map(move |batch| adapter.adapt_batch(&batch?)).boxed())
        }
        .boxed())
    }
}

/// The ranges of rows that a selection keeps.
pub(crate) fn selected_rows(selection: &ParquetRowSelection) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    let mut row = 0;
    for selector in selection.selection().iter() {
        let end = row + selector.row_count as u64;
        if !selector.skip {
            match ranges.last_mut() {
                Some(last) if last.end == row => last.end = end,
                _ => ranges.push(row..end),
            }
        }
        row = end;
    }
    ranges
}
