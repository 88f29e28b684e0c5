//! Partition predicates, evaluated exactly on the distinct partition values of the manifests.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column as EngineColumn, DataFusionError, ScalarValue};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion_pruning::PruningPredicateBuilder;

use super::Partition;
use crate::error::{Error, Result};
use crate::spec::binary_row::decode_column;
use crate::spec::manifest_list::ManifestMeta;
use crate::spec::partition::partition_path;
use crate::spec::{DataField, TableSchema, TypeKind};

/// Rebinds the columns of `expr` to their positions in `schema`, by name.
pub(super) fn rebind(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    expr.transform(|node| {
        let Some(column) = node.downcast_ref::<Column>() else { return Ok(Transformed::no(node)) };
        let index = schema.index_of(column.name()).map_err(DataFusionError::from)?;
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
    })
    .data()
    .map_err(Error::from)
}

/// Whether `expr` mentions columns, and only those that `allowed` names.
pub(super) fn only_columns(expr: &Arc<dyn PhysicalExpr>, allowed: impl Fn(&str) -> bool) -> bool {
    let columns = collect_columns(expr);
    !columns.is_empty() && columns.iter().all(|column| allowed(column.name()))
}

/// Says which of some partitions, as serialized rows, are wanted.
pub type PartitionPredicate = Arc<dyn Fn(&[Arc<[u8]>]) -> Result<Vec<bool>> + Send + Sync>;

/// The partition columns of a table and the conjuncts that speak of nothing else.
pub(super) struct PartitionFilter {
    fields: Vec<DataField>,
    schema: SchemaRef,
    filters: Vec<Arc<dyn PhysicalExpr>>,
    wanted: Option<PartitionPredicate>,
    legacy_names: bool,
    default_name: String,
}

impl PartitionFilter {
    /// Takes the conjuncts of `filters` that speak of partition columns only.
    pub(super) fn try_new(
        table: &TableSchema,
        filters: &[Arc<dyn PhysicalExpr>],
        legacy_names: bool,
        default_name: &str,
    ) -> Result<Self> {
        let fields: Vec<DataField> = table.partition_fields().into_iter().cloned().collect();
        let schema = Arc::new(Schema::new(fields.iter().map(nullable).collect::<Vec<_>>()));
        let filters = filters
            .iter()
            .filter(|filter| only_columns(filter, |name| table.partition_keys.iter().any(|key| key == name)))
            .map(|filter| rebind(Arc::clone(filter), &schema))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self { fields, schema, filters, wanted: None, legacy_names, default_name: default_name.to_owned() })
    }

    /// The same, of the partitions that satisfy `wanted`.
    pub(super) fn and(self, wanted: Option<PartitionPredicate>) -> Self {
        Self { wanted, ..self }
    }

    /// Whether every partition passes.
    pub(super) fn is_trivial(&self) -> bool {
        self.filters.is_empty() && self.wanted.is_none()
    }

    /// The conjuncts, over [`Self::schema`].
    pub(super) fn filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.filters
    }

    /// The partition columns, all nullable.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Which of `rows` (serialized partition rows) satisfy all conjuncts. Errors of the predicate are errors.
    pub(super) fn evaluate(&self, rows: &[Arc<[u8]>]) -> Result<Vec<bool>> {
        let mut kept = match &self.wanted {
            Some(wanted) => wanted(rows)?,
            None => vec![true; rows.len()],
        };
        if self.filters.is_empty() || rows.is_empty() {
            return Ok(kept);
        }
        let batch = self.values(rows)?;
        for filter in &self.filters {
            let result = filter.evaluate(&batch)?.into_array(rows.len())?;
            let result = result
                .as_boolean_opt()
                .ok_or_else(|| Error::invalid(format!("the partition filter {filter} is not a condition")))?;
            for (kept, passes) in kept.iter_mut().zip(result.iter()) {
                *kept &= passes == Some(true);
            }
        }
        Ok(kept)
    }

    /// The values of `rows` as columns.
    fn values(&self, rows: &[Arc<[u8]>]) -> Result<RecordBatch> {
        let columns = self
            .fields
            .iter()
            .enumerate()
            .map(|(i, field)| decode_column(rows.iter().map(|row| Some(row.as_ref())), i, &field.data_type))
            .collect::<Result<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// The partitions of `rows`, with their values and folders.
    pub(super) fn describe(&self, rows: &[Arc<[u8]>]) -> Result<Vec<Arc<Partition>>> {
        let values = self.values(rows)?;
        let fields: Vec<&DataField> = self.fields.iter().collect();
        rows.iter()
            .enumerate()
            .map(|(i, row)| {
                Ok(Arc::new(Partition {
                    row: Arc::clone(row),
                    values: values
                        .columns()
                        .iter()
                        .map(|column| ScalarValue::try_from_array(column, i).map_err(Error::from))
                        .collect::<Result<_>>()?,
                    path: partition_path(row, &fields, self.legacy_names, &self.default_name)?,
                }))
            })
            .collect()
    }
}

fn nullable(field: &DataField) -> Field {
    field.to_arrow().with_nullable(true)
}

/// Which manifests can hold an entry of a partition that passes, by their partition statistics.
pub(super) fn manifests_in(filter: &PartitionFilter, metas: &[ManifestMeta]) -> Result<Vec<bool>> {
    if filter.filters().is_empty() || metas.is_empty() {
        return Ok(vec![true; metas.len()]);
    }
    let conjuncts = conjunction(filter.filters().iter().map(Arc::clone));
    let Ok(predicate) =
        PruningPredicateBuilder::new().with_file_schema(Arc::clone(filter.schema())).try_build(conjuncts)
    else {
        return Ok(vec![true; metas.len()]);
    };
    Ok(predicate.prune(&ManifestStatistics { filter, metas })?)
}

/// The partition statistics of manifests, one container a manifest.
struct ManifestStatistics<'a> {
    filter: &'a PartitionFilter,
    metas: &'a [ManifestMeta],
}

impl ManifestStatistics<'_> {
    fn bound(&self, column: &EngineColumn, pick: fn(&ManifestMeta) -> &[u8]) -> Option<ArrayRef> {
        let (index, field) = self.filter.fields.iter().enumerate().find(|(_, field)| field.name == column.name)?;
        if matches!(field.data_type.kind, TypeKind::Float | TypeKind::Double) {
            // NaN and signed zeros are ordered otherwise by the engine than by the writer.
            return None;
        }
        decode_column(self.metas.iter().map(|meta| Some(pick(meta))), index, &field.data_type).ok()
    }
}

impl PruningStatistics for ManifestStatistics<'_> {
    fn min_values(&self, column: &EngineColumn) -> Option<ArrayRef> {
        self.bound(column, |meta| &meta.partition_stats.min)
    }

    fn max_values(&self, column: &EngineColumn) -> Option<ArrayRef> {
        self.bound(column, |meta| &meta.partition_stats.max)
    }

    fn num_containers(&self) -> usize {
        self.metas.len()
    }

    fn null_counts(&self, column: &EngineColumn) -> Option<ArrayRef> {
        let index = self.filter.fields.iter().position(|field| field.name == column.name)?;
        let counts = self.metas.iter().map(|meta| {
            let count = meta.partition_stats.null_counts.get(index).copied().flatten()?;
            u64::try_from(count).ok()
        });
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let counts = self.metas.iter().map(|meta| u64::try_from(meta.num_added_files + meta.num_deleted_files).ok());
        Some(Arc::new(counts.collect::<UInt64Array>()))
    }

    fn contained(&self, _: &EngineColumn, _: &std::collections::HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
