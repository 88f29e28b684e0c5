//! `listagg` (`spec/data.md 5.3`).
//!
//! Only text of no length is left out: blanks count, as the fixtures of Java 1.4.2 show (`agg_listagg_l0`).

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};

use super::steps::Step;
use super::{Accumulator, FoldResult, Rows, wrong_type};

#[derive(Debug)]
pub(super) struct ListAgg {
    delimiter: String,
    distinct: bool,
    groups: Vec<Option<String>>,
    /// Bytes of all texts, roughly.
    bytes: usize,
}

impl ListAgg {
    pub(super) fn new(delimiter: &str, distinct: bool, groups: usize) -> Self {
        Self { delimiter: delimiter.to_owned(), distinct, groups: vec![None; groups], bytes: 0 }
    }

    /// `second` after `first`.
    fn join(&self, mut first: String, second: &str) -> String {
        if first.is_empty() {
            return second.to_owned();
        }
        if second.is_empty() {
            return first;
        }
        if !self.distinct {
            first.push_str(&self.delimiter);
            first.push_str(second);
            return first;
        }
        let mut added = String::new();
        {
            let mut seen: HashSet<&str> = self.tokens(&first).collect();
            for token in self.tokens(second) {
                if !token.is_empty() && seen.insert(token) {
                    added.push_str(&self.delimiter);
                    added.push_str(token);
                }
            }
        }
        first.push_str(&added);
        first
    }

    fn tokens<'a>(&'a self, text: &'a str) -> Box<dyn Iterator<Item = &'a str> + 'a> {
        if self.delimiter.is_empty() {
            // Java's split at nothing is a split at blanks.
            Box::new(text.split_whitespace())
        } else {
            Box::new(text.split(self.delimiter.as_str()))
        }
    }
}

impl Accumulator for ListAgg {
    fn update(&mut self, rows: &Rows<'_>, column: &ArrayRef) -> FoldResult<()> {
        let texts = column.as_string_view_opt().ok_or_else(|| wrong_type(column, "text"))?;
        rows.each(|row, group, step| {
            let input = texts.is_valid(row).then(|| texts.value(row));
            let there = self.groups[group].take();
            self.bytes -= there.as_ref().map_or(0, String::len);
            let text = match (step, there, input) {
                (Step::Set, _, input) => input.map(str::to_owned),
                (Step::Clear, ..) => None,
                (Step::Add, Some(there), Some(input)) => Some(self.join(there, input)),
                (Step::AddLate, Some(there), Some(input)) => Some(self.join(input.to_owned(), &there)),
                (Step::Add | Step::AddLate, None, Some(input)) => Some(input.to_owned()),
                (_, there, _) => there,
            };
            self.bytes += text.as_ref().map_or(0, String::len);
            self.groups[group] = text;
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> FoldResult<ArrayRef> {
        let mut builder = StringViewBuilder::with_capacity(self.groups.len());
        for text in &self.groups {
            builder.append_option(text.as_deref());
        }
        Ok(Arc::new(builder.finish()))
    }

    fn memory(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<Option<String>>()
    }
}
