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
use super::plan::ColumnPlan;
use super::roaring64::Roaring64;
use super::steps::Step;
use super::{Accumulator, FoldResult, Rows, wrong_type};
use crate::error::{Error, Result};
use crate::table::aggregate::Function;

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
        if !registers_fit(bytes) {
            return Err(Error::corrupt("an HLL sketch can't be read: a register is above 63"));
        }
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

/// Whether the registers of an HLL image are what they can be, 0 to 63. The library takes it for granted.
fn registers_fit(bytes: &[u8]) -> bool {
    const HEADER: usize = 40;
    const REGISTERS: u8 = 0b10;
    // Byte 7: how values are kept, and the width of a register; byte 6: what is added to registers of 4 bits, whose 15
    // stands for a value kept elsewhere.
    let [_, _, _, _, _, _, least, mode, ..] = bytes else { return true };
    match (mode & 0b11, mode >> 2 & 0b11) {
        (REGISTERS, 0) => *least <= 63 - 14,
        (REGISTERS, 2) => bytes.get(HEADER..).is_none_or(|registers| registers.iter().all(|&register| register <= 63)),
        _ => true,
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

#[cfg(test)]
mod tests {
    use datasketches::theta::ThetaSketchBuilder;

    use super::*;

    /// Every kind of image: lists, hash sets, arrays of 4, 6 and 8 bits; exact and estimating.
    fn hll(values: u64, data_type: HllType) -> Vec<u8> {
        let mut sketch = HllSketch::new(11, data_type).unwrap();
        (0..values).for_each(|value| sketch.update(value));
        sketch.serialize()
    }

    fn theta(values: u64) -> Vec<u8> {
        let mut sketch = ThetaSketchBuilder::default().lg_k(5).build().unwrap();
        (0..values).for_each(|value| sketch.update(value));
        sketch.compact(true).serialize()
    }

    fn bitmap(values: impl Iterator<Item = u32>) -> Vec<u8> {
        let mut bitmap: RoaringBitmap = values.collect();
        bitmap.optimize();
        bitmap.write().unwrap()
    }

    /// Reads cut and changed bytes, and joins what can be read.
    fn damage<S: Serialised>(good: &[u8]) {
        for cut in 0..good.len() {
            let _ = S::parse(&good[..cut]);
        }
        let step = (good.len() / 200).max(1);
        for at in (0..good.len().min(64)).chain((64..good.len()).step_by(step)) {
            for change in [1, 0x10, 0x80, 0xff] {
                let mut bad = good.to_vec();
                bad[at] ^= change;
                let Ok(bad) = S::parse(&bad) else { continue };
                if let Ok(joined) = S::union(bad, S::parse(good).unwrap()) {
                    let _ = joined.write();
                }
            }
        }
    }

    #[test]
    fn parse_when_bytes_are_damaged_then_no_panic() {
        for values in [0, 5, 100, 5000] {
            for data_type in [HllType::Hll4, HllType::Hll6, HllType::Hll8] {
                damage::<HllSketch>(&hll(values, data_type));
            }
        }
        for values in [0, 1, 20, 500] {
            damage::<CompactThetaSketch>(&theta(values));
        }
        damage::<RoaringBitmap>(&bitmap((0..5000).chain((70_000..90_000).step_by(3)).chain([1 << 31])));
    }

    #[test]
    fn union_when_sketches_are_large_then_counts_add_up() {
        let mut other = HllSketch::new(12, HllType::Hll8).unwrap();
        (5000..10_000_u64).for_each(|value| other.update(value));
        let union = HllSketch::union(HllSketch::parse(&hll(5000, HllType::Hll6)).unwrap(), other).unwrap();
        let read = HllSketch::parse(&union.write().unwrap()).unwrap();
        assert_eq!((read.target_type(), read.lg_config_k()), (HllType::Hll4, 11));
        assert!((9000.0..11_000.0).contains(&read.estimate()), "{}", read.estimate());

        let parse = |bytes: &[u8]| CompactThetaSketch::parse(bytes).unwrap();
        let union = CompactThetaSketch::union(parse(&theta(500)), parse(&theta(1))).unwrap();
        let read = parse(&union.write().unwrap());
        assert!((200.0..1200.0).contains(&read.estimate()), "{}", read.estimate());
    }
}
