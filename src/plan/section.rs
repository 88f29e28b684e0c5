//! Sections: the files of a bucket, cut where their key ranges do not touch (`spec/data.md 4.1`).

use crate::error::Result;
use crate::spec::DataType;
use crate::spec::binary_row::sort_key;

use super::PlannedFile;

/// How the rows of a section become rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionKind {
    /// The newest version of each key is live, unless it retracts (deduplicate).
    Newest,
    /// The oldest version of each key is live (first-row).
    Oldest,
    /// Versions of a key are folded into one row (partial-update, aggregation).
    Fold,
}

/// Files of one bucket whose keys overlap, and no other file's.
#[derive(Clone, Debug)]
pub struct Section {
    /// How versions become rows.
    pub kind: SectionKind,
    /// The files.
    pub files: Vec<PlannedFile>,
    /// Sorted runs: positions in `files`, in key order within a run.
    pub runs: Vec<Vec<usize>>,
}

/// Cuts the files of a bucket into key-disjoint groups of runs. Each result lists runs, each run positions in `files`.
pub(crate) fn sections(files: &[PlannedFile], key_types: &[DataType]) -> Result<Vec<Vec<Vec<usize>>>> {
    let mut keys = Vec::with_capacity(files.len());
    for planned in files {
        let (mut min, mut max) = (Vec::new(), Vec::new());
        sort_key(planned.file.min_key(), key_types, &mut min)?;
        sort_key(planned.file.max_key(), key_types, &mut max)?;
        keys.push((min, max));
    }
    let mut order: Vec<usize> = (0..files.len()).collect();
    order.sort_by(|&a, &b| keys[a].cmp(&keys[b]).then_with(|| files[a].file.cmp_by_name(&files[b].file)));

    let mut result: Vec<Vec<Vec<usize>>> = Vec::new();
    // Runs of the section that is being filled, and the greatest key in it.
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut greatest: Option<usize> = None;
    // The run whose last key is smallest is looked for among all runs; a heap keeps that cheap for buckets of many files.
    let mut ends: std::collections::BTreeSet<(&[u8], usize)> = std::collections::BTreeSet::new();
    for &index in &order {
        let (min, max) = &keys[index];
        if greatest.is_some_and(|greatest| *min > keys[greatest].1) {
            result.push(std::mem::take(&mut runs));
            ends.clear();
            greatest = None;
        }
        let free = ends.first().copied().filter(|(end, _)| *end < min.as_slice());
        let run = match free {
            Some(entry) => {
                ends.remove(&entry);
                entry.1
            }
            None => {
                runs.push(Vec::new());
                runs.len() - 1
            }
        };
        runs[run].push(index);
        ends.insert((max.as_slice(), run));
        if greatest.is_none_or(|greatest| *max > keys[greatest].1) {
            greatest = Some(index);
        }
    }
    if !runs.is_empty() {
        result.push(runs);
    }
    Ok(result)
}
