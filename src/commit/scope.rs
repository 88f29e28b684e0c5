//! Which partitions a change is about, by their values.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::DataType as ArrowType;
use datafusion::common::ScalarValue;

use crate::error::{Error, Result};
use crate::plan::live::PartitionPredicate;
use crate::spec::binary_row::{KeyComparator, decode_bounds, decode_column};
use crate::spec::{DataType, ManifestMeta, TableSchema};

/// What an overwrite replaces (`spec/metadata.md 7.2`).
#[derive(Clone, Debug, PartialEq)]
pub enum OverwriteScope {
    /// The partitions that get new files, and nothing when there are none. All of a table without partitions.
    Dynamic,
    /// The partitions that match.
    Partitions(PartitionSpec),
    /// The whole table.
    Table,
}

/// Values of some partition columns: the partitions that have them. None of them: every partition.
#[derive(Clone, Debug, PartialEq)]
pub struct PartitionSpec {
    /// A value for each partition column that is named, by the order of the partition columns.
    values: Vec<Option<ScalarValue>>,
}

impl PartitionSpec {
    /// The partitions of a table whose columns have these values; NULL is a value like any other.
    ///
    /// # Errors
    /// Invalid for a column that is no partition column and for a value that is none of its type.
    pub fn new(schema: &TableSchema, values: &BTreeMap<String, ScalarValue>) -> Result<Self> {
        let fields = schema.partition_fields();
        if let Some(name) = values.keys().find(|name| !fields.iter().any(|field| field.name == **name)) {
            let names = match schema.partition_keys.as_slice() {
                [] => "the table has none".to_owned(),
                keys => format!("they are {}", keys.join(", ")),
            };
            return Err(Error::invalid(format!("{name} is not one of the partition columns; {names}")));
        }
        let values = fields
            .iter()
            .map(|field| {
                let Some(value) = values.get(&field.name) else { return Ok(None) };
                let target = field.data_type.to_arrow();
                let cast = value.cast_to(&target).map_err(Error::from).and_then(|cast| {
                    if cast.is_null() && !value.is_null() {
                        Err(Error::invalid("the cast gives NULL"))
                    } else {
                        Ok(cast)
                    }
                });
                cast.map(Some).map_err(|error| {
                    let (name, data_type) = (&field.name, &field.data_type);
                    Error::invalid(format!("{value} is no value of the partition column {name} {data_type}"))
                        .with_source(error)
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self { values })
    }

    /// Says which partitions match any of `specs`.
    ///
    /// # Errors
    /// Unsupported for partition columns that have no order.
    pub fn predicate(schema: &TableSchema, specs: &[Self]) -> Result<PartitionPredicate> {
        let scope = Scope::specs(schema, specs)?;
        Ok(Arc::new(move |rows: &[Arc<[u8]>]| scope.allows(rows)))
    }

    /// Whether every partition matches.
    pub fn is_everything(&self) -> bool {
        self.values.iter().all(Option::is_none)
    }
}

/// Some partitions of a table, or all of them.
pub(super) struct Scope {
    types: Vec<DataType>,
    comparator: KeyComparator,
    which: Which,
}

enum Which {
    All,
    /// These, by [`KeyComparator::sort_key`]: equal partitions may differ in the bytes of a NULL (`spec/metadata.md 5.2`).
    Rows {
        keys: HashSet<Vec<u8>>,
        patterns: Vec<Vec<Option<ScalarValue>>>,
    },
    Specs(Vec<Vec<Option<ScalarValue>>>),
}

impl Scope {
    fn new(schema: &TableSchema, which: Which) -> Result<Self> {
        let types: Vec<DataType> = schema.partition_fields().iter().map(|field| field.data_type.clone()).collect();
        Ok(Self { comparator: KeyComparator::new(&types)?, types, which })
    }

    /// All partitions.
    pub(super) fn all(schema: &TableSchema) -> Result<Self> {
        Self::new(schema, Which::All)
    }

    /// These partitions.
    pub(super) fn rows<'a>(schema: &TableSchema, rows: impl IntoIterator<Item = &'a [u8]>) -> Result<Self> {
        let mut scope = Self::new(schema, Which::All)?;
        if scope.types.is_empty() {
            return Ok(scope);
        }
        let distinct: HashSet<&[u8]> = rows.into_iter().collect();
        let rows: Vec<&[u8]> = distinct.into_iter().collect();
        let keys = rows.iter().map(|row| scope.key(row)).collect::<Result<_>>()?;
        let patterns = scope.values(&rows)?.into_iter().map(|row| row.into_iter().map(Some).collect()).collect();
        scope.which = Which::Rows { keys, patterns };
        Ok(scope)
    }

    /// The partitions that match any of these.
    pub(super) fn specs(schema: &TableSchema, specs: &[PartitionSpec]) -> Result<Self> {
        if specs.iter().any(PartitionSpec::is_everything) {
            return Self::all(schema);
        }
        Self::new(schema, Which::Specs(specs.iter().map(|spec| spec.values.clone()).collect()))
    }

    /// Whether all partitions are meant.
    pub(super) fn is_all(&self) -> bool {
        matches!(self.which, Which::All)
    }

    /// What partitions are told apart by.
    pub(super) fn key(&self, row: &[u8]) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        self.comparator.sort_key(row, &mut key)?;
        Ok(key)
    }

    /// Which of these partitions are meant.
    pub(super) fn allows(&self, rows: &[Arc<[u8]>]) -> Result<Vec<bool>> {
        match &self.which {
            Which::All => Ok(vec![true; rows.len()]),
            Which::Rows { keys, .. } => rows.iter().map(|row| Ok(keys.contains(&self.key(row)?))).collect(),
            Which::Specs(specs) => {
                let rows: Vec<&[u8]> = rows.iter().map(AsRef::as_ref).collect();
                let values = self.values(&rows)?;
                Ok(values.iter().map(|row| specs.iter().any(|spec| matches(spec, row))).collect())
            }
        }
    }

    /// Which manifests may have entries of these partitions.
    pub(super) fn manifests(&self, metas: &[ManifestMeta]) -> Result<Vec<bool>> {
        let patterns = match &self.which {
            Which::All => return Ok(vec![true; metas.len()]),
            Which::Rows { patterns, .. } | Which::Specs(patterns) => patterns,
        };
        let mut bounds = Vec::with_capacity(self.types.len());
        for (column, data_type) in self.types.iter().enumerate() {
            let rows = |of: fn(&ManifestMeta) -> &[u8]| {
                decode_bounds(metas.iter().map(move |meta| Some((of(meta), column))), data_type)
            };
            bounds.push((rows(|meta| &meta.partition_stats.min)?, rows(|meta| &meta.partition_stats.max)?));
        }
        let mut kept = vec![false; metas.len()];
        for (i, kept) in kept.iter_mut().enumerate() {
            let mut ranges = Vec::with_capacity(bounds.len());
            for (min, max) in &bounds {
                ranges.push((ScalarValue::try_from_array(min, i)?, ScalarValue::try_from_array(max, i)?));
            }
            *kept = patterns.iter().any(|pattern| {
                pattern
                    .iter()
                    .zip(&ranges)
                    .all(|(value, (min, max))| value.as_ref().is_none_or(|v| within(v, min, max)))
            });
        }
        Ok(kept)
    }

    /// The values of partitions.
    fn values(&self, rows: &[&[u8]]) -> Result<Vec<Vec<ScalarValue>>> {
        let columns = self
            .types
            .iter()
            .enumerate()
            .map(|(i, data_type)| decode_column(rows.iter().map(|row| Some(*row)), i, data_type))
            .collect::<Result<Vec<_>>>()?;
        (0..rows.len())
            .map(|row| {
                columns.iter().map(|column| ScalarValue::try_from_array(column, row).map_err(Error::from)).collect()
            })
            .collect()
    }
}

fn matches(spec: &[Option<ScalarValue>], row: &[ScalarValue]) -> bool {
    spec.iter().zip(row).all(|(wanted, value)| wanted.as_ref().is_none_or(|wanted| wanted == value))
}

/// Whether a value may lie within bounds. Bounds say nothing of NULL, and not enough of zeros and NaN.
fn within(value: &ScalarValue, min: &ScalarValue, max: &ScalarValue) -> bool {
    if value.is_null() || min.is_null() || max.is_null() {
        return true;
    }
    if matches!(value.data_type(), ArrowType::Float32 | ArrowType::Float64) {
        return true;
    }
    value.partial_cmp(min).is_none_or(|order| order.is_ge()) && value.partial_cmp(max).is_none_or(|order| order.is_le())
}
