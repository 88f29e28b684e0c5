//! Functions of serialised sets: `theta_sketch`, `hll_sketch`, `rbm32`, `rbm64` (`spec/data.md 5.3`).
//!
//! A value that meets no other stays the bytes it is; the second one makes both a set in memory, written when the fold ends.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewBuilder};
use datasketches::hll::{HllSketch, HllType, HllUnion};
use datasketches::theta::{CompactThetaSketch, ThetaUnionBuilder};
use roaring::RoaringBitmap;

use super::elements::named;
use super::function::Function;
use super::plan::ColumnPlan;
use super::roaring64::Roaring64;
use super::steps::Step;
use super::{Accumulator, FoldResult, Rows, wrong_type};
use crate::error::{Error, Result};

/// A set that is read from bytes and written again.
trait Serialised: Sized + fmt::Debug + Send + 'static {
    fn parse(bytes: &[u8]) -> Result<Self>;
    /// `second` joined to `first`, in the order of the function's arguments.
    fn union(first: Self, second: Self) -> Result<Self>;
    fn write(self) -> Result<Vec<u8>>;
}

impl Serialised for CompactThetaSketch {
    fn parse(bytes: &[u8]) -> Result<Self> {
        Self::deserialize(bytes).map_err(|error| Error::corrupt("a theta sketch can't be read").with_source(error))
    }

    fn union(first: Self, second: Self) -> Result<Self> {
        let failed = |error| Error::corrupt("theta sketches can't be joined").with_source(error);
        let mut union = ThetaUnionBuilder::default().build().map_err(failed)?;
        union.update(&first).map_err(failed)?;
        union.update(&second).map_err(failed)?;
        Ok(union.to_sketch(true))
    }

    fn write(self) -> Result<Vec<u8>> {
        const FLAGS: usize = 5;
        const SINGLE: u8 = 0x20;
        const SAMPLING: std::ops::Range<usize> = 12..16;
        let mut bytes = self.serialize();
        // Two marks of Java's that readers may do without: a sketch of one value, and the sampling probability 1.
        if self.num_retained() == 1 && !self.is_estimation_mode() {
            if let Some(flags) = bytes.get_mut(FLAGS) {
                *flags |= SINGLE;
            }
        } else if let Some(sampling) = bytes.get_mut(SAMPLING) {
            sampling.copy_from_slice(&1.0_f32.to_le_bytes());
        }
        Ok(bytes)
    }
}

impl Serialised for HllSketch {
    fn parse(bytes: &[u8]) -> Result<Self> {
        Self::deserialize(bytes).map_err(|error| Error::corrupt("an HLL sketch can't be read").with_source(error))
    }

    fn union(first: Self, second: Self) -> Result<Self> {
        // Java starts from the second one: it shows in the order of the coupons of small sketches.
        let failed = |error| Error::corrupt("HLL sketches can't be joined").with_source(error);
        let mut union = HllUnion::new(second.lg_config_k()).map_err(failed)?;
        union.update(&second);
        union.update(&first);
        Ok(union.to_sketch(HllType::Hll4))
    }

    fn write(self) -> Result<Vec<u8>> {
        Ok(self.serialize())
    }
}

impl Serialised for RoaringBitmap {
    fn parse(bytes: &[u8]) -> Result<Self> {
        Self::deserialize_from(bytes).map_err(|error| Error::corrupt("a bitmap can't be read").with_source(error))
    }

    fn union(mut first: Self, second: Self) -> Result<Self> {
        first |= second;
        first.optimize();
        Ok(first)
    }

    fn write(self) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.serialized_size());
        self.serialize_into(&mut bytes)
            .map_err(|error| Error::internal("a bitmap could not be written").with_source(error))?;
        Ok(bytes)
    }
}

impl Serialised for Roaring64 {
    fn parse(bytes: &[u8]) -> Result<Self> {
        Self::parse(bytes)
    }

    fn union(mut first: Self, second: Self) -> Result<Self> {
        Self::union(&mut first, &second);
        Ok(first)
    }

    fn write(mut self) -> Result<Vec<u8>> {
        Self::write(&mut self)
    }
}

pub(super) fn accumulator(plan: &ColumnPlan, groups: usize) -> FoldResult<Box<dyn Accumulator>> {
    let name = &plan.field.name;
    match plan.function {
        Function::Theta => Ok(Sets::<CompactThetaSketch>::boxed(name, groups)),
        Function::Hll => Ok(Sets::<HllSketch>::boxed(name, groups)),
        Function::Roaring32 => Ok(Sets::<RoaringBitmap>::boxed(name, groups)),
        Function::Roaring64 => Ok(Sets::<Roaring64>::boxed(name, groups)),
        _ => Err(Error::internal(format!("{} is no function of sets", plan.function.name())).into()),
    }
}

#[derive(Debug)]
enum Set<S> {
    Absent,
    /// Bytes at a block and row.
    Bytes(u32, u32),
    Joined(Box<S>),
}

#[derive(Debug)]
struct Sets<S> {
    name: String,
    groups: Vec<Set<S>>,
    blocks: Vec<ArrayRef>,
}

impl<S: Serialised> Sets<S> {
    fn boxed(name: &str, groups: usize) -> Box<dyn Accumulator> {
        let groups = std::iter::repeat_with(|| Set::Absent).take(groups).collect();
        Box::new(Self { name: name.to_owned(), groups, blocks: Vec::new() })
    }

    fn bytes(&self, block: u32, row: u32) -> &[u8] {
        self.blocks[block as usize].as_binary_view().value(row as usize)
    }

    fn parsed(&self, set: Set<S>) -> Result<Option<S>> {
        match set {
            Set::Absent => Ok(None),
            Set::Bytes(block, row) => S::parse(self.bytes(block, row)).map(Some),
            Set::Joined(set) => Ok(Some(*set)),
        }
    }

    fn join(&self, first: Set<S>, second: Set<S>) -> Result<Set<S>> {
        Ok(match (first, second) {
            (Set::Absent, other) | (other, Set::Absent) => other,
            (first, second) => match (self.parsed(first)?, self.parsed(second)?) {
                (Some(first), Some(second)) => Set::Joined(Box::new(S::union(first, second)?)),
                _ => Set::Absent,
            },
        })
    }
}

impl<S: Serialised> Accumulator for Sets<S> {
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()> {
        let values = column.as_binary_view_opt().ok_or_else(|| wrong_type(column, "bytes"))?;
        self.blocks.push(ArrayRef::clone(column));
        rows.each(|row, group, step| {
            let input = if values.is_valid(row) { Set::Bytes(rows.block, row as u32) } else { Set::Absent };
            let there = std::mem::replace(&mut self.groups[group], Set::Absent);
            let set = match step {
                Step::Set => Ok(input),
                Step::Clear => Ok(Set::Absent),
                Step::Add => self.join(there, input),
                Step::AddLate => self.join(input, there),
                Step::Skip | Step::Retract | Step::SetRetract => Ok(there),
            };
            self.groups[group] = set.map_err(|error| named(&self.name, group, error))?;
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> FoldResult<ArrayRef> {
        let mut builder = BinaryViewBuilder::with_capacity(self.groups.len());
        for (group, set) in std::mem::take(&mut self.groups).into_iter().enumerate() {
            match set {
                Set::Absent => builder.append_null(),
                Set::Bytes(block, row) => builder.append_value(self.bytes(block, row)),
                Set::Joined(set) => {
                    builder.append_value(set.write().map_err(|error| named(&self.name, group, error))?);
                }
            }
        }
        Ok(Arc::new(builder.finish()))
    }

    fn memory(&self) -> usize {
        // Sets in memory are about as long as their bytes.
        self.groups.capacity() * size_of::<Set<S>>()
            + 2 * self.blocks.iter().map(|block| block.get_array_memory_size()).sum::<usize>()
    }
}
