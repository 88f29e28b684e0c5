//! Bucket pruning: `=` and `IN` on all bucket key columns tell the buckets that can hold a row (`spec/data.md 3.4`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{Guarantee, LiteralGuarantee};

use crate::error::Result;
use crate::options::BucketFunction;
use crate::spec::{DataType, TableSchema, TypeKind};

/// More combinations of key values than this are not worth hashing.
const MAX_COMBINATIONS: usize = 1000;

/// The bucket keys that the filters allow.
pub(super) struct BucketFilter {
    /// One array a bucket key column; row `i` of all is one combination of values.
    columns: Vec<ArrayRef>,
    types: Vec<DataType>,
    function: BucketFunction,
    /// Buckets by the number of buckets of the partition.
    by_total: HashMap<i32, Vec<i32>>,
}

impl BucketFilter {
    /// `None` when the filters do not pin all bucket key columns to values.
    pub(super) fn try_new(
        table: &TableSchema,
        function: BucketFunction,
        filters: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Option<Self>> {
        let keys = table.bucket_key_fields();
        if keys.is_empty() || filters.is_empty() {
            return Ok(None);
        }
        let guarantees: Vec<LiteralGuarantee> = filters.iter().flat_map(LiteralGuarantee::analyze).collect();
        let mut combinations: Vec<Vec<ScalarValue>> = vec![Vec::new()];
        for key in &keys {
            let arrow_type = key.data_type.to_arrow();
            // Equal values of these types may be stored as different bytes (padding, signed zeros), so that their hash says
            // nothing about equality.
            if matches!(
                key.data_type.kind,
                TypeKind::Char(_) | TypeKind::Binary(_) | TypeKind::Float | TypeKind::Double
            ) {
                return Ok(None);
            }
            let Some(guarantee) = guarantees
                .iter()
                .filter(|guarantee| guarantee.guarantee == Guarantee::In && guarantee.column.name == key.name)
                .min_by_key(|guarantee| guarantee.literals.len())
            else {
                return Ok(None);
            };
            if combinations.len() * guarantee.literals.len() > MAX_COMBINATIONS {
                return Ok(None);
            }
            let mut literals = Vec::with_capacity(guarantee.literals.len());
            for literal in &guarantee.literals {
                // A literal that is not exactly of the column's type compares after a cast that hashing does not know.
                match literal.cast_to(&arrow_type) {
                    Ok(value)
                        if !literal.is_null() && value.cast_to(&literal.data_type()).ok().as_ref() == Some(literal) =>
                    {
                        literals.push(value);
                    }
                    _ => return Ok(None),
                }
            }
            combinations = combinations
                .iter()
                .flat_map(|prefix| {
                    literals.iter().map(move |literal| prefix.iter().cloned().chain([literal.clone()]).collect())
                })
                .collect();
        }
        if combinations.is_empty() {
            return Ok(None);
        }
        let columns = (0..keys.len())
            .map(|i| ScalarValue::iter_to_array(combinations.iter().map(|row| row[i].clone())))
            .collect::<datafusion::error::Result<Vec<_>>>()?;
        let types = keys.iter().map(|key| key.data_type.clone()).collect();
        Ok(Some(Self { columns, types, function, by_total: HashMap::new() }))
    }

    /// Whether a file of `bucket`, written when its partition had `total` buckets, can hold a row that is asked for.
    pub(super) fn allows(&mut self, bucket: i32, total: i32) -> Result<bool> {
        if total <= 0 {
            return Ok(true);
        }
        if !self.by_total.contains_key(&total) {
            let mut allowed = self.function.buckets(&self.columns, &self.types, total)?;
            allowed.sort_unstable();
            allowed.dedup();
            self.by_total.insert(total, allowed);
        }
        Ok(self.by_total.get(&total).is_none_or(|allowed| allowed.binary_search(&bucket).is_ok()))
    }
}
