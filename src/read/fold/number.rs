//! `sum` and `product`.
//!
//! Both are kept wider than their column and are checked when the fold ends, so that only a *result* that does not fit is an
//! error. Java wraps around instead (`spec/observed.md`, Merge engines); where the result fits, both say the same.

use std::fmt;
use std::marker::PhantomData;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{ArrowNativeType, DataType, i256};

use super::cells::{from_natives, natives};
use super::plan::ColumnPlan;
use super::steps::{Step, Steps};
use super::{Accumulator, FoldError, FoldResult, Rows};
use crate::error::Error;
use crate::table::aggregate::Function;

/// Why a number can't be made.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Overflow,
    ZeroDivision,
}

/// A number of a column, and how it is added up.
trait Number: ArrowNativeType + Send {
    /// What sums and products of it are kept as.
    type Wide: Copy + Default + fmt::Debug + Send;

    fn widen(self) -> Self::Wide;
    fn add(a: Self::Wide, b: Self::Wide) -> Result<Self::Wide, Fault>;
    fn subtract(a: Self::Wide, b: Self::Wide) -> Result<Self::Wide, Fault>;
    fn multiply(a: Self::Wide, b: Self::Wide, scale: u32) -> Result<Self::Wide, Fault>;
    fn divide(a: Self::Wide, b: Self::Wide, scale: u32) -> Result<Self::Wide, Fault>;
    fn narrow(wide: Self::Wide, precision: u32) -> Result<Self, Fault>;
}

macro_rules! whole {
    ($($native:ty => $wide:ty),*) => {
        $(impl Number for $native {
            type Wide = $wide;

            #[inline(always)]
            fn widen(self) -> $wide {
                <$wide>::from(self)
            }

            #[inline(always)]
            fn add(a: $wide, b: $wide) -> Result<$wide, Fault> {
                a.checked_add(b).ok_or(Fault::Overflow)
            }

            #[inline(always)]
            fn subtract(a: $wide, b: $wide) -> Result<$wide, Fault> {
                a.checked_sub(b).ok_or(Fault::Overflow)
            }

            #[inline(always)]
            fn multiply(a: $wide, b: $wide, _scale: u32) -> Result<$wide, Fault> {
                a.checked_mul(b).ok_or(Fault::Overflow)
            }

            fn divide(a: $wide, b: $wide, _scale: u32) -> Result<$wide, Fault> {
                if b == 0 { Err(Fault::ZeroDivision) } else { a.checked_div(b).ok_or(Fault::Overflow) }
            }

            fn narrow(wide: $wide, _precision: u32) -> Result<Self, Fault> {
                Self::try_from(wide).map_err(|_| Fault::Overflow)
            }
        })*
    };
}

macro_rules! float {
    ($($native:ty),*) => {
        $(impl Number for $native {
            type Wide = $native;

            #[inline(always)]
            fn widen(self) -> Self {
                self
            }

            #[inline(always)]
            fn add(a: Self, b: Self) -> Result<Self, Fault> {
                Ok(a + b)
            }

            #[inline(always)]
            fn subtract(a: Self, b: Self) -> Result<Self, Fault> {
                Ok(a - b)
            }

            #[inline(always)]
            fn multiply(a: Self, b: Self, _scale: u32) -> Result<Self, Fault> {
                Ok(a * b)
            }

            fn divide(a: Self, b: Self, _scale: u32) -> Result<Self, Fault> {
                Ok(a / b)
            }

            fn narrow(wide: Self, _precision: u32) -> Result<Self, Fault> {
                Ok(wide)
            }
        })*
    };
}

whole!(i8 => i64, i16 => i64, i32 => i64, i64 => i128);
float!(f32, f64);

/// A decimal: its unscaled value.
impl Number for i128 {
    type Wide = i128;

    #[inline(always)]
    fn widen(self) -> i128 {
        self
    }

    #[inline(always)]
    fn add(a: i128, b: i128) -> Result<i128, Fault> {
        a.checked_add(b).ok_or(Fault::Overflow)
    }

    #[inline(always)]
    fn subtract(a: i128, b: i128) -> Result<i128, Fault> {
        a.checked_sub(b).ok_or(Fault::Overflow)
    }

    fn multiply(a: i128, b: i128, scale: u32) -> Result<i128, Fault> {
        // Two values of 38 digits have 76, which is what 256 bits hold.
        rounded(i256::from_i128(a).wrapping_mul(i256::from_i128(b)), power(scale))
    }

    fn divide(a: i128, b: i128, scale: u32) -> Result<i128, Fault> {
        if b == 0 {
            return Err(Fault::ZeroDivision);
        }
        // Java fails where the quotient never ends; a rounded one is what the column can hold.
        rounded(i256::from_i128(a).wrapping_mul(power(scale)), i256::from_i128(b))
    }

    fn narrow(wide: i128, precision: u32) -> Result<Self, Fault> {
        let bound = 10_u128.checked_pow(precision).ok_or(Fault::Overflow)?;
        if wide.unsigned_abs() < bound { Ok(wide) } else { Err(Fault::Overflow) }
    }
}

fn power(scale: u32) -> i256 {
    i256::from_i128(10).wrapping_pow(scale)
}

/// The quotient rounded half up, away from zero.
fn rounded(dividend: i256, divisor: i256) -> Result<i128, Fault> {
    let (quotient, rest) = (dividend.wrapping_div(divisor), dividend.wrapping_rem(divisor));
    let magnitude = |value: i256| if value < i256::ZERO { value.wrapping_neg() } else { value };
    let up = magnitude(rest) >= magnitude(divisor).wrapping_sub(magnitude(rest)) && rest != i256::ZERO;
    let away = if (dividend < i256::ZERO) == (divisor < i256::ZERO) { i256::ONE } else { i256::MINUS_ONE };
    let value = if up { quotient.wrapping_add(away) } else { quotient };
    value.to_i128().ok_or(Fault::Overflow)
}

/// How a function combines numbers.
trait Operation: fmt::Debug + Send + 'static {
    fn add<N: Number>(there: N::Wide, input: N::Wide, scale: u32) -> Result<N::Wide, Fault>;
    fn retract<N: Number>(there: Option<N::Wide>, input: N::Wide, scale: u32) -> Result<Option<N::Wide>, Fault>;
}

#[derive(Debug)]
struct Sum;

impl Operation for Sum {
    #[inline(always)]
    fn add<N: Number>(there: N::Wide, input: N::Wide, _scale: u32) -> Result<N::Wide, Fault> {
        N::add(there, input)
    }

    fn retract<N: Number>(there: Option<N::Wide>, input: N::Wide, _scale: u32) -> Result<Option<N::Wide>, Fault> {
        // Nothing is there: zero, so that the value's negative stays for the adds to come.
        N::subtract(there.unwrap_or_default(), input).map(Some)
    }
}

#[derive(Debug)]
struct Product;

impl Operation for Product {
    #[inline(always)]
    fn add<N: Number>(there: N::Wide, input: N::Wide, scale: u32) -> Result<N::Wide, Fault> {
        N::multiply(there, input, scale)
    }

    fn retract<N: Number>(there: Option<N::Wide>, input: N::Wide, scale: u32) -> Result<Option<N::Wide>, Fault> {
        there.map(|there| N::divide(there, input, scale)).transpose()
    }
}

#[derive(Debug)]
struct Numbers<N: Number, O> {
    data_type: DataType,
    name: String,
    function: &'static str,
    sql_type: String,
    values: Vec<N::Wide>,
    valid: Vec<bool>,
    operation: PhantomData<O>,
}

/// The accumulator of `sum` or `product`.
pub(super) fn accumulator(plan: &ColumnPlan, groups: usize) -> FoldResult<Box<dyn Accumulator>> {
    match plan.function {
        Function::Sum => of::<Sum>(plan, groups),
        Function::Product => of::<Product>(plan, groups),
        _ => Err(Error::internal(format!("{} does not add up", plan.function.name())).into()),
    }
}

fn of<O: Operation>(plan: &ColumnPlan, groups: usize) -> FoldResult<Box<dyn Accumulator>> {
    Ok(match plan.field.data_type.to_arrow() {
        DataType::Int8 => Numbers::<i8, O>::boxed(plan, groups),
        DataType::Int16 => Numbers::<i16, O>::boxed(plan, groups),
        DataType::Int32 => Numbers::<i32, O>::boxed(plan, groups),
        DataType::Int64 => Numbers::<i64, O>::boxed(plan, groups),
        DataType::Float32 => Numbers::<f32, O>::boxed(plan, groups),
        DataType::Float64 => Numbers::<f64, O>::boxed(plan, groups),
        DataType::Decimal128(..) => Numbers::<i128, O>::boxed(plan, groups),
        other => return Err(Error::internal(format!("{} of {other}", plan.function.name())).into()),
    })
}

impl<N: Number, O: Operation> Numbers<N, O> {
    fn boxed(plan: &ColumnPlan, groups: usize) -> Box<dyn Accumulator> {
        Box::new(Self {
            data_type: plan.field.data_type.to_arrow(),
            name: plan.field.name.clone(),
            function: plan.function.name(),
            sql_type: plan.field.data_type.to_string(),
            values: vec![N::Wide::default(); groups],
            valid: vec![false; groups],
            operation: PhantomData,
        })
    }

    fn scale(&self) -> u32 {
        match self.data_type {
            DataType::Decimal128(_, scale) => scale.unsigned_abs().into(),
            _ => 0,
        }
    }

    fn fault(&self, group: usize, fault: Fault) -> FoldError {
        let (name, function) = (&self.name, self.function);
        let message = match fault {
            Fault::Overflow => {
                format!("column {name}: the {function} of the key's values does not fit {}", self.sql_type)
            }
            Fault::ZeroDivision => format!("column {name}: a zero can't be taken back from a product"),
        };
        FoldError::at(group as u32, Error::invalid(message))
    }

    fn step(&mut self, group: usize, step: Step, input: Option<N>, scale: u32) -> FoldResult<()> {
        let input = input.map(N::widen);
        let there = self.valid[group].then_some(self.values[group]);
        let value = match step {
            Step::Skip => return Ok(()),
            Step::Set => Ok(input),
            Step::Clear => Ok(None),
            Step::Add | Step::AddLate => match (there, input) {
                (Some(there), Some(input)) => O::add::<N>(there, input, scale).map(Some),
                (there, input) => Ok(there.or(input)),
            },
            Step::Retract => input.map_or(Ok(there), |input| O::retract::<N>(there, input, scale)),
            Step::SetRetract => input.map_or(Ok(None), |value| O::retract::<N>(Some(value), value, scale)),
        };
        let value = value.map_err(|fault| self.fault(group, fault))?;
        self.valid[group] = value.is_some();
        self.values[group] = value.unwrap_or_default();
        Ok(())
    }
}

impl<N: Number, O: Operation> Accumulator for Numbers<N, O> {
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()> {
        let numbers = natives::<N>(column, &self.data_type)?;
        let validity = column.nulls().filter(|validity| validity.null_count() > 0);
        let scale = self.scale();
        if matches!(rows.steps, Steps::All(Step::Add)) {
            let groups = self.values.len().min(self.valid.len());
            let (values, valid) = (&mut self.values[..groups], &mut self.valid[..groups]);
            let mut failed = None;
            for (row, (&group, &number)) in rows.group_of.iter().zip(numbers.iter()).enumerate() {
                if validity.is_some_and(|validity| validity.is_null(row)) {
                    continue;
                }
                let place = group as usize;
                let input = number.widen();
                if valid[place] {
                    match O::add::<N>(values[place], input, scale) {
                        Ok(value) => values[place] = value,
                        Err(fault) => {
                            failed = Some((place, fault));
                            break;
                        }
                    }
                } else {
                    values[place] = input;
                    valid[place] = true;
                }
            }
            return failed.map_or(Ok(()), |(group, fault)| Err(self.fault(group, fault)));
        }
        rows.each(|row, group, step| {
            let input = validity.is_none_or(|validity| validity.is_valid(row)).then(|| numbers[row]);
            self.step(group, step, input, scale)
        })
    }

    fn finish(self: Box<Self>) -> FoldResult<ArrayRef> {
        let precision = match self.data_type {
            DataType::Decimal128(precision, _) => precision.into(),
            _ => 0,
        };
        let mut values = Vec::with_capacity(self.values.len());
        for (group, (&value, &valid)) in self.values.iter().zip(&self.valid).enumerate() {
            let value = if valid { value } else { N::Wide::default() };
            values.push(N::narrow(value, precision).map_err(|fault| self.fault(group, fault))?);
        }
        from_natives(self.data_type, values, self.valid)
    }

    fn memory(&self) -> usize {
        self.values.capacity() * size_of::<N::Wide>() + self.valid.capacity()
    }
}
