//! Predicates in the form that indexes answer: over keys, and never narrower than what was asked over values.

use std::ops::Bound;

use arrow::array::ArrayRef;

use super::value::{Key, ValueType};

/// How a value is compared with a literal: `value < literal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Eq,
    /// `<>`
    NotEq,
    /// `<`
    Lt,
    /// `<=`
    LtEq,
    /// `>`
    Gt,
    /// `>=`
    GtEq,
}

/// A predicate over the keys of a column. A value that satisfies what the predicate was made from has a key that satisfies
/// it; NULL satisfies [`IndexPredicate::IsNull`] alone, though an index may leave it in.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexPredicate {
    /// One of these.
    In(Vec<Key<'static>>),
    /// None of these.
    NotIn(Vec<Key<'static>>),
    /// Between bounds. NaN is in every range, since engines disagree where it stands.
    Range(Bound<Key<'static>>, Bound<Key<'static>>),
    /// NULL.
    IsNull,
    /// Any value.
    IsNotNull,
}

impl IndexPredicate {
    /// `value <comparison> literal`, the literal being the first value of an array. `None` when no index can tell.
    pub fn compare(values: ValueType, comparison: Comparison, literal: &ArrayRef) -> Option<Self> {
        match comparison {
            Comparison::Eq => return Self::is_in(values, std::slice::from_ref(literal)),
            Comparison::NotEq => return Self::is_not_in(values, std::slice::from_ref(literal)),
            Comparison::Lt | Comparison::LtEq | Comparison::Gt | Comparison::GtEq => {}
        }
        let key = values.key(literal.as_ref())?;
        if key.is_nan() {
            return None;
        }
        // A bound that stands for several values belongs to the range.
        let included = values.is_cut() || key.zeros().is_some();
        let [low, high] = key.zeros().unwrap_or_else(|| [key.clone(), key]);
        let bound = |key, included| if included { Bound::Included(key) } else { Bound::Excluded(key) };
        Some(match comparison {
            Comparison::Lt => Self::Range(Bound::Unbounded, bound(high, included)),
            Comparison::LtEq => Self::Range(Bound::Unbounded, bound(high, true)),
            Comparison::Gt => Self::Range(bound(low, included), Bound::Unbounded),
            _ => Self::Range(bound(low, true), Bound::Unbounded),
        })
    }

    /// `value IN (literals)`. Literals that are NULL match nothing and are left out.
    pub fn is_in(values: ValueType, literals: &[ArrayRef]) -> Option<Self> {
        let mut keys = Vec::with_capacity(literals.len());
        for literal in literals.iter().filter(|literal| literal.is_empty() || !literal.is_null(0)) {
            let key = values.key(literal.as_ref())?;
            if key.is_nan() {
                return None;
            }
            match key.zeros() {
                Some(zeros) => keys.extend(zeros),
                None => keys.push(key),
            }
        }
        // `= NULL` alone is the engine's to decide.
        if keys.is_empty() { None } else { Some(Self::In(keys)) }
    }

    /// `value NOT IN (literals)`.
    pub fn is_not_in(values: ValueType, literals: &[ArrayRef]) -> Option<Self> {
        if values.is_cut() {
            // Another value of the same key is not in the list.
            return None;
        }
        let mut keys = Vec::with_capacity(literals.len());
        for literal in literals {
            let key = values.key(literal.as_ref())?;
            // Engines disagree whether these are one value or several, so that they rule out nothing.
            if !key.is_nan() && key.zeros().is_none() {
                keys.push(key);
            }
        }
        if keys.is_empty() { None } else { Some(Self::NotIn(keys)) }
    }

    /// Both predicates at once, where that is one predicate: two ranges, as of BETWEEN.
    pub fn merged(&self, other: &Self) -> Option<Self> {
        let (Self::Range(low, high), Self::Range(other_low, other_high)) = (self, other) else { return None };
        match ((low, high), (other_low, other_high)) {
            ((low, Bound::Unbounded), (Bound::Unbounded, high))
            | ((Bound::Unbounded, high), (low, Bound::Unbounded)) => Some(Self::Range(low.clone(), high.clone())),
            _ => None,
        }
    }
}

/// Whether `key` lies above the lower bound.
pub(super) fn above(low: &Bound<Key<'static>>, key: &Key<'_>) -> bool {
    match low {
        Bound::Unbounded => true,
        Bound::Included(low) => key >= low,
        Bound::Excluded(low) => key > low,
    }
}

/// Whether `key` lies below the upper bound.
pub(super) fn below(high: &Bound<Key<'static>>, key: &Key<'_>) -> bool {
    match high {
        Bound::Unbounded => true,
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
    }
}
