//! Rows of one bucket, sorted by key, become one row a key (`spec/data.md 12.1`): the writer's own merge before anything is
//! written.
//!
//! A file of level 0 holds each key once. Rows of a key that one merged row can't stand for (`spec/observed.md`, Merge engines:
//! a retract that comes first takes something back from older files) are kept apart in *layers*: each layer is a sorted run
//! of its own, and the rows of a key in later layers are newer.
//!
//! May import: `error`, `options`, `read`, `spec`, `table`, rest of this room.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, Int8Array, Int64Array, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{cast, concat, filter, interleave, nullif, take, take_arrays};
use arrow::datatypes::{Int8Type, Int64Type};
use arrow::row::{RowConverter, Rows, SortField};

use super::prepare::{is_retract, select};
use super::target::WriteTarget;
use crate::error::{Error, Result};
use crate::options::MergeEngine;
use crate::read::fold::{FoldInput, FoldPlan};
use crate::spec::binary_row::{BinaryRow, encode_rows};
use crate::spec::partition::cast_text;
use crate::spec::{DataField, TableSchema};
use crate::table::Table;

/// Rows with what the writer keeps of each: the columns of the table, the kind, the ordinal.
#[derive(Clone, Debug)]
pub(crate) struct KeyRows {
    pub columns: Vec<ArrayRef>,
    pub kinds: Int8Array,
    pub ordinals: Int64Array,
}

impl KeyRows {
    pub(crate) fn len(&self) -> usize {
        self.ordinals.len()
    }

    fn slice(&self, range: Range<usize>) -> Self {
        let (start, len) = (range.start, range.len());
        Self {
            columns: self.columns.iter().map(|column| column.slice(start, len)).collect(),
            kinds: self.kinds.slice(start, len),
            ordinals: self.ordinals.slice(start, len),
        }
    }

    fn take(&self, rows: &UInt32Array) -> Result<Self> {
        Ok(Self {
            columns: take_arrays(&self.columns, rows, None)?,
            kinds: take(&self.kinds, rows, None)?.as_primitive::<Int8Type>().clone(),
            ordinals: take(&self.ordinals, rows, None)?.as_primitive::<Int64Type>().clone(),
        })
    }

    fn filter(&self, mask: &BooleanArray) -> Result<Self> {
        let columns = self.columns.iter().map(|column| filter(column, mask)).collect::<Result<_, _>>()?;
        Ok(Self {
            columns,
            kinds: filter(&self.kinds, mask)?.as_primitive::<Int8Type>().clone(),
            ordinals: filter(&self.ordinals, mask)?.as_primitive::<Int64Type>().clone(),
        })
    }

    fn concat(&self, other: &Self) -> Result<Self> {
        let columns = self
            .columns
            .iter()
            .zip(&other.columns)
            .map(|(a, b)| concat(&[a.as_ref(), b.as_ref()]))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            columns,
            kinds: concat(&[&self.kinds, &other.kinds])?.as_primitive::<Int8Type>().clone(),
            ordinals: concat(&[&self.ordinals, &other.ordinals])?.as_primitive::<Int64Type>().clone(),
        })
    }
}

/// What the merge gives.
#[derive(Debug)]
pub(crate) enum Merged {
    /// Rows of a layer, in key order, each key once.
    Rows { layer: usize, rows: KeyRows },
    /// All rows as they came, in merge order: for changelog files.
    Raw(KeyRows),
}

/// When several rows of a key can't be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Split {
    /// Always one.
    Never,
    /// Retracts before the first add take back what older files hold.
    LeadingRetracts,
    /// A -D removes all that was before it, in older files too: it stays, and what follows it comes after.
    LastDelete,
    /// Any -D may remove what was before it.
    EveryDelete,
}

/// Merges the rows of one bucket.
#[derive(Debug)]
pub(crate) struct KeyMerger {
    schema: Arc<TableSchema>,
    keys: Vec<usize>,
    sequence: Vec<usize>,
    descending: bool,
    keeps_first: bool,
    /// For engines that make a new row of the old ones.
    fold: Option<FoldPlan>,
    split: Split,
    raw: bool,
    /// Rows whose last key may go on.
    pending: Option<KeyRows>,
}

impl KeyMerger {
    pub(crate) fn try_new(target: &WriteTarget) -> Result<Self> {
        let (schema, options) = (target.table().schema(), target.table().settings());
        let fold = match options.merge_engine {
            MergeEngine::Deduplicate | MergeEngine::FirstRow => None,
            MergeEngine::PartialUpdate | MergeEngine::Aggregation => {
                let all: Vec<usize> = (0..schema.fields.len()).collect();
                Some(FoldPlan::try_new(schema, options, &all)?)
            }
        };
        Ok(Self {
            schema: Arc::clone(schema),
            keys: target.key_columns(),
            sequence: target.sequence_columns(),
            descending: options.sequence_descending,
            keeps_first: target.keeps_first(),
            fold,
            split: split(target.table()),
            raw: target.writes_changelog(),
            pending: None,
        })
    }

    /// Takes rows, which are sorted by key and come after those that were taken before.
    pub(crate) fn push(&mut self, rows: KeyRows, out: &mut Vec<Merged>) -> Result<()> {
        if rows.len() == 0 {
            return Ok(());
        }
        let Some(pending) = self.pending.take() else {
            self.pending = Some(rows);
            return Ok(());
        };
        if !self.same_key(&pending, pending.len() - 1, &rows, 0)? {
            self.pending = Some(rows);
            return self.merge(pending, out);
        }
        let starts_before = self.last_group(&pending)?;
        let tail = pending.slice(starts_before..pending.len());
        self.pending = Some(tail.concat(&rows)?);
        if starts_before > 0 {
            self.merge(pending.slice(0..starts_before), out)?;
        }
        Ok(())
    }

    /// Merges what is left.
    pub(crate) fn finish(&mut self, out: &mut Vec<Merged>) -> Result<()> {
        match self.pending.take() {
            Some(pending) => self.merge(pending, out),
            None => Ok(()),
        }
    }

    /// Bytes held.
    pub(crate) fn memory(&self) -> usize {
        self.pending.as_ref().map_or(0, |rows| rows.columns.iter().map(|column| column.get_array_memory_size()).sum())
    }

    fn same_key(&self, a: &KeyRows, row_a: usize, b: &KeyRows, row_b: usize) -> Result<bool> {
        for &key in &self.keys {
            let equal = not_distinct(&a.columns[key].slice(row_a, 1), &b.columns[key].slice(row_b, 1))?;
            if !equal.value(0) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// For each row but the first, whether it has the key of the one before.
    fn continues(&self, rows: &KeyRows) -> Result<BooleanBuffer> {
        let last = rows.len() - 1;
        let mut all: Option<BooleanBuffer> = None;
        for &key in &self.keys {
            let column = &rows.columns[key];
            let same = not_distinct(&column.slice(1, last), &column.slice(0, last))?.values().clone();
            all = Some(match all {
                Some(all) => &all & &same,
                None => same,
            });
        }
        all.ok_or_else(|| Error::internal("rows without key can't be merged"))
    }

    fn last_group(&self, rows: &KeyRows) -> Result<usize> {
        if rows.len() == 1 {
            return Ok(0);
        }
        let continues = self.continues(rows)?;
        Ok((0..continues.len()).rev().find(|row| !continues.value(*row)).map_or(0, |row| row + 1))
    }

    fn merge(&self, rows: KeyRows, out: &mut Vec<Merged>) -> Result<()> {
        let unique = rows.len() == 1;
        let continues = if unique { BooleanBuffer::new_unset(0) } else { self.continues(&rows)? };
        if unique || continues.count_set_bits() == 0 {
            if self.raw {
                out.push(Merged::Raw(rows.clone()));
            }
            out.push(Merged::Rows { layer: 0, rows });
            return Ok(());
        }
        let groups = groups(&continues);
        let rows = self.in_merge_order(rows, &groups)?;
        if self.raw {
            out.push(Merged::Raw(rows.clone()));
        }
        match &self.fold {
            None => {
                let mut keep = BooleanBufferBuilder::new(rows.len());
                keep.append_n(rows.len(), false);
                for group in &groups {
                    keep.set_bit(if self.keeps_first { group.start } else { group.end - 1 }, true);
                }
                let rows = rows.filter(&BooleanArray::new(keep.finish(), None))?;
                out.push(Merged::Rows { layer: 0, rows });
                Ok(())
            }
            Some(fold) => self.fold(fold, &rows, &groups, out),
        }
    }

    /// The rows with those of each key in merge order: by the sequence fields, then as they came.
    fn in_merge_order(&self, rows: KeyRows, groups: &[Range<usize>]) -> Result<KeyRows> {
        let sequence = self.sequence_rows(&rows)?;
        let ordinals = rows.ordinals.values();
        let is_before = |a: usize, b: usize| match &sequence {
            Some(sequence) => (sequence.row(a), ordinals[a]) < (sequence.row(b), ordinals[b]),
            None => ordinals[a] < ordinals[b],
        };
        if groups.iter().all(|group| (group.start + 1..group.end).all(|row| is_before(row - 1, row))) {
            return Ok(rows);
        }
        let mut order: Vec<u32> = (0..rows.len() as u32).collect();
        for group in groups.iter().filter(|group| group.len() > 1) {
            order[group.clone()].sort_unstable_by(|a, b| {
                let (a, b) = (*a as usize, *b as usize);
                if is_before(a, b) { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater }
            });
        }
        rows.take(&UInt32Array::from(order))
    }

    /// The sequence fields as rows that compare as they do; NULL is oldest in both orders.
    fn sequence_rows(&self, rows: &KeyRows) -> Result<Option<Rows>> {
        if self.sequence.is_empty() {
            return Ok(None);
        }
        let columns = select(&rows.columns, &self.sequence);
        let options = SortOptions { descending: self.descending, nulls_first: true };
        let fields =
            columns.iter().map(|column| SortField::new_with_options(column.data_type().clone(), options)).collect();
        Ok(Some(RowConverter::new(fields)?.convert_columns(&columns)?))
    }

    fn fold(&self, fold: &FoldPlan, rows: &KeyRows, groups: &[Range<usize>], out: &mut Vec<Merged>) -> Result<()> {
        let kinds = rows.kinds.values();
        let segments: Vec<Vec<Range<usize>>> =
            groups.iter().map(|group| segments(self.split, kinds, group.clone())).collect();
        let layers = segments.iter().map(Vec::len).max().unwrap_or(0);
        for layer in 0..layers {
            let parts: Vec<Range<usize>> =
                segments.iter().filter_map(|segments| segments.get(layer)).cloned().collect();
            let mut merged = self.fold_parts(fold, rows, &parts)?;
            if layer == 0 && self.split == Split::LastDelete {
                // What is written after the delete in the same statement must not show what was deleted: a row after a
                // delete starts from the delete's values (`spec/observed.md`, Merge engines).
                let followed = segments.iter().map(|segments| segments.len() > 1).collect();
                merged.columns = self.without_values(merged.columns, &followed)?;
            }
            out.push(Merged::Rows { layer, rows: merged });
        }
        Ok(())
    }

    /// The columns with NULL in those rows, but for keys and what can't be NULL.
    fn without_values(&self, columns: Vec<ArrayRef>, rows: &BooleanArray) -> Result<Vec<ArrayRef>> {
        let fields = self.schema.fields.iter();
        columns
            .into_iter()
            .zip(fields)
            .map(|(column, field)| {
                let stays = !field.data_type.nullable || self.schema.primary_keys.contains(&field.name);
                if stays { Ok(column) } else { Ok(nullif(&column, rows)?) }
            })
            .collect()
    }

    /// One row for each part: as it is where the part has one row, folded where it has more.
    fn fold_parts(&self, fold: &FoldPlan, rows: &KeyRows, parts: &[Range<usize>]) -> Result<KeyRows> {
        let contested: Vec<&Range<usize>> = parts.iter().filter(|part| part.len() > 1).collect();
        if contested.is_empty() {
            return rows.take(&parts.iter().map(|part| part.start as u32).collect());
        }
        let input: UInt32Array = contested.iter().flat_map(|part| (*part).clone()).map(|row| row as u32).collect();
        let group_of: Vec<u32> =
            contested.iter().enumerate().flat_map(|(group, part)| vec![group as u32; part.len()]).collect();
        let versions = rows.take(&input)?;
        let columns = select(&versions.columns, fold.input_columns());
        let folded = fold
            .fold(&FoldInput {
                groups: contested.len(),
                group_of: &group_of,
                kinds: Some(versions.kinds.values()),
                columns: &columns,
                levels: None,
            })
            .map_err(|error| match error.group.and_then(|group| contested.get(group as usize)) {
                Some(part) => self.at_key(rows, part.start, error.error),
                None => error.error,
            })?;
        // Rows as they are come from the first source, folded ones from the second.
        let mut group = 0;
        let picks: Vec<(usize, usize)> = parts
            .iter()
            .map(|part| {
                if part.len() == 1 {
                    return (0, part.start);
                }
                group += 1;
                (1, group - 1)
            })
            .collect();
        let columns = rows
            .columns
            .iter()
            .zip(&folded.columns)
            .map(|(own, folded)| {
                let folded = if folded.data_type() == own.data_type() {
                    Arc::clone(folded)
                } else {
                    cast(folded, own.data_type())?
                };
                Ok(interleave(&[own.as_ref(), folded.as_ref()], &picks)?)
            })
            .collect::<Result<_>>()?;
        let kinds = picks.iter().map(|(source, row)| match source {
            0 => rows.kinds.value(*row),
            _ => folded.kinds[*row],
        });
        // A merged row has the number of the last one (`spec/data.md 1.10`).
        let ordinals = parts.iter().map(|part| part.clone().map(|row| rows.ordinals.value(row)).max().unwrap_or(0));
        Ok(KeyRows {
            columns,
            kinds: Int8Array::from_iter_values(kinds),
            ordinals: Int64Array::from_iter_values(ordinals),
        })
    }

    /// `error` with the key of a row.
    fn at_key(&self, rows: &KeyRows, row: usize, error: Error) -> Error {
        let fields: Vec<&DataField> = self.keys.iter().map(|key| &self.schema.fields[*key]).collect();
        let columns: Vec<ArrayRef> = self.keys.iter().map(|key| rows.columns[*key].slice(row, 1)).collect();
        match key_text(&columns, &fields) {
            Ok(key) => error.with("key", key),
            Err(_) => error,
        }
    }
}

/// A key as `column=value, ..`.
pub(crate) fn key_text(columns: &[ArrayRef], fields: &[&DataField]) -> Result<String> {
    let types: Vec<_> = fields.iter().map(|field| field.data_type.clone()).collect();
    let encoded = encode_rows(columns, &types)?;
    let row = BinaryRow::from_serialized(encoded.serialized(0))?;
    let values = fields
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let value = cast_text(&row.datum(index, &field.data_type)?, &field.data_type)?;
            Ok(format!("{}={}", field.name, value.unwrap_or_else(|| "NULL".to_owned())))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(values.join(", "))
}

/// The rows of each key: `continues` says for each row but the first whether it has the key of the one before.
fn groups(continues: &BooleanBuffer) -> Vec<Range<usize>> {
    let mut groups = Vec::with_capacity(continues.len() + 1 - continues.count_set_bits());
    let mut start = 0;
    for row in 0..continues.len() {
        if !continues.value(row) {
            groups.push(start..row + 1);
            start = row + 1;
        }
    }
    groups.push(start..continues.len() + 1);
    groups
}

/// The parts of a key's rows that become one row each, oldest first.
fn segments(split: Split, kinds: &[i8], group: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::with_capacity(1);
    let mut start = group.start;
    match split {
        _ if group.len() == 1 => {}
        Split::Never => {}
        Split::LeadingRetracts => {
            while start < group.end && is_retract(kinds[start]) {
                parts.push(start..start + 1);
                start += 1;
            }
        }
        Split::LastDelete => {
            if let Some(delete) = group.clone().rev().find(|row| kinds[*row] == 3) {
                parts.push(delete..delete + 1);
                start = delete + 1;
            }
        }
        Split::EveryDelete => {
            for row in group.clone().filter(|row| kinds[*row] == 3) {
                if start < row {
                    parts.push(start..row);
                }
                parts.push(row..row + 1);
                start = row + 1;
            }
        }
    }
    if start < group.end {
        parts.push(start..group.end);
    }
    parts
}

/// Functions that fold a retract without anything to take it back from into a value that takes it back later.
const INVERTIBLE: [&str; 3] = ["sum", "last_value", "primary-key"];

/// Whether what a retract does to a row shows only when it meets the row: versions of a key without the oldest of them can't be
/// folded into one then.
pub(crate) fn retracts_need_their_base(table: &Table) -> bool {
    split(table) != Split::Never
}

fn split(table: &Table) -> Split {
    let (schema, options) = (table.schema(), table.settings());
    let lossy = schema.fields.iter().filter(|field| !schema.primary_keys.contains(&field.name)).any(|field| {
        let function = options.aggregate_function(&field.name).or(options.default_aggregate_function.as_deref());
        let aggregates = function.is_some() || options.merge_engine == MergeEngine::Aggregation;
        aggregates
            && !options.ignore_retract(&field.name)
            && !INVERTIBLE.contains(&function.unwrap_or("last_non_null_value"))
    });
    let leading = if lossy { Split::LeadingRetracts } else { Split::Never };
    match options.merge_engine {
        MergeEngine::Deduplicate | MergeEngine::FirstRow => Split::Never,
        MergeEngine::PartialUpdate if options.partial_update_remove_record_on_delete => Split::LastDelete,
        MergeEngine::PartialUpdate if !options.partial_update_remove_record_on_sequence_group.is_empty() => {
            Split::EveryDelete
        }
        MergeEngine::Aggregation if options.aggregation_remove_record_on_delete => Split::LastDelete,
        MergeEngine::PartialUpdate | MergeEngine::Aggregation => leading,
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init)] // One range is a list, too.
mod tests {
    use super::*;

    #[test]
    fn groups_when_keys_repeat_then_ranges() {
        let continues = BooleanBuffer::from(vec![true, false, false, true]);
        assert_eq!(groups(&continues), [0..2, 2..3, 3..5]);
        assert_eq!(groups(&BooleanBuffer::new_unset(0)), [0..1]);
    }

    #[test]
    fn segments_when_retracts_come_then_what_they_take_back_stays() {
        let kinds = [3, 1, 0, 3, 2];
        assert_eq!(segments(Split::Never, &kinds, 0..5), [0..5]);
        assert_eq!(segments(Split::LeadingRetracts, &kinds, 0..5), [0..1, 1..2, 2..5]);
        assert_eq!(segments(Split::LastDelete, &kinds, 0..5), [3..4, 4..5]);
        assert_eq!(segments(Split::LastDelete, &kinds, 1..3), [1..3]);
        assert_eq!(segments(Split::EveryDelete, &kinds, 0..5), [0..1, 1..3, 3..4, 4..5]);
        assert_eq!(segments(Split::LeadingRetracts, &kinds, 0..1), [0..1]);
    }
}
