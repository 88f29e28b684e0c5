//! Deciding a window of keys: which rows hold the winning version of their key, and which keys have several versions.
//!
//! A window is a stretch of each sorted run, cut so that all versions of a key are in it. Integer keys that lie close
//! together are decided with one bit a key and no comparisons; others by merging the stretches two at a time.

use super::keys::Keys;

/// A stretch of a run in a window.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// Keys of the chunk that the stretch is part of, ascending and unique.
    pub keys: &'a Keys,
    /// First row of the stretch in the chunk.
    pub start: usize,
    /// End of the stretch in the chunk.
    pub end: usize,
}

impl Stretch<'_> {
    /// Rows of the stretch.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.end <= self.start
    }
}

/// Which version of a key comes last in merge order (`spec/data.md 4.2`).
pub trait MergeOrder {
    /// Whether version `a` comes after version `b`; a version is (stretch, row of the chunk).
    fn after(&self, a: (usize, usize), b: (usize, usize)) -> bool;

    /// The stretches from newest to oldest, where whole stretches are ordered.
    fn newest_first(&self) -> Option<Vec<usize>>;
}

/// Marks of the rows of each stretch, in row order.
#[derive(Debug, Default)]
pub struct Decision {
    /// For each stretch, whether the row is the winner of its key.
    pub winner: Vec<Vec<bool>>,
    /// For each stretch, the group of the row's key when the key has several versions, else [`UNCONTESTED`].
    pub group: Vec<Vec<u32>>,
    /// Number of contested keys of the window.
    pub groups: u32,
}

/// The key of the row has no other version.
pub const UNCONTESTED: u32 = u32::MAX;

/// A window of integers is dense when it has at least a key in this many numbers.
const DENSE_SPAN: u64 = 64;

/// Marks the winner of each key.
pub fn winners(stretches: &[Stretch<'_>], order: &dyn MergeOrder) -> Vec<Vec<bool>> {
    if let Some(newest_first) = order.newest_first()
        && let Some(dense) = Dense::of(stretches)
    {
        return dense.winners(stretches, &newest_first);
    }
    let mut winner: Vec<Vec<bool>> = stretches.iter().map(|stretch| vec![true; stretch.len()]).collect();
    match stretches.first().map(|stretch| stretch.keys) {
        Some(Keys::U64(_)) => merge_winners(stretches, order, &mut winner, |keys, row| match keys {
            Keys::U64(values) => values[row],
            _ => 0,
        }),
        Some(Keys::U128(_)) => merge_winners(stretches, order, &mut winner, |keys, row| match keys {
            Keys::U128(values) => values[row],
            _ => 0,
        }),
        Some(Keys::Rows(_)) => merge_winners(stretches, order, &mut winner, row_bytes),
        None => {}
    }
    winner
}

/// Marks the keys that have several versions, and numbers them in key order.
pub fn contested(stretches: &[Stretch<'_>]) -> Decision {
    if let Some(dense) = Dense::of(stretches) {
        return dense.contested(stretches);
    }
    let mut decision = Decision {
        group: stretches.iter().map(|stretch| vec![UNCONTESTED; stretch.len()]).collect(),
        ..Decision::default()
    };
    match stretches.first().map(|stretch| stretch.keys) {
        Some(Keys::U64(_)) => merge_contested(stretches, &mut decision, |keys, row| match keys {
            Keys::U64(values) => values[row],
            _ => 0,
        }),
        Some(Keys::U128(_)) => merge_contested(stretches, &mut decision, |keys, row| match keys {
            Keys::U128(values) => values[row],
            _ => 0,
        }),
        Some(Keys::Rows(_)) => merge_contested(stretches, &mut decision, row_bytes),
        None => {}
    }
    decision
}

fn row_bytes(keys: &Keys, row: usize) -> &[u8] {
    match keys {
        Keys::Rows(rows) => rows.row(row).data(),
        _ => &[],
    }
}

/// A window of integers that lie close together.
struct Dense {
    low: u64,
    words: usize,
}

impl Dense {
    fn of(stretches: &[Stretch<'_>]) -> Option<Self> {
        let (mut low, mut high, mut count) = (u64::MAX, 0, 0);
        for stretch in stretches {
            let Keys::U64(values) = stretch.keys else { return None };
            if !stretch.is_empty() {
                low = low.min(values[stretch.start]);
                high = high.max(values[stretch.end - 1]);
                count += stretch.len() as u64;
            }
        }
        let span = high.checked_sub(low)?;
        (span / DENSE_SPAN < count).then_some(Self { low, words: (span / 64) as usize + 1 })
    }

    fn winners(&self, stretches: &[Stretch<'_>], newest_first: &[usize]) -> Vec<Vec<bool>> {
        let mut seen = vec![0u64; self.words];
        let mut winner: Vec<Vec<bool>> = vec![Vec::new(); stretches.len()];
        for &index in newest_first {
            let stretch = &stretches[index];
            let Keys::U64(values) = stretch.keys else { continue };
            winner[index] = values[stretch.start..stretch.end]
                .iter()
                .map(|value| {
                    let offset = value - self.low;
                    let (word, bit) = (&mut seen[(offset / 64) as usize], 1 << (offset % 64));
                    let fresh = *word & bit == 0;
                    *word |= bit;
                    fresh
                })
                .collect();
        }
        winner
    }

    fn contested(&self, stretches: &[Stretch<'_>]) -> Decision {
        let mut seen = vec![0u64; self.words];
        let mut twice = vec![0u64; self.words];
        for stretch in stretches {
            let Keys::U64(values) = stretch.keys else { continue };
            for value in &values[stretch.start..stretch.end] {
                let offset = value - self.low;
                let (word, bit) = ((offset / 64) as usize, 1 << (offset % 64));
                twice[word] |= seen[word] & bit;
                seen[word] |= bit;
            }
        }
        // Groups before each word: a key's group is the number of contested keys below it.
        let mut before = Vec::with_capacity(twice.len());
        let mut groups = 0u32;
        for word in &twice {
            before.push(groups);
            groups += word.count_ones();
        }
        let group = stretches
            .iter()
            .map(|stretch| {
                let Keys::U64(values) = stretch.keys else { return Vec::new() };
                values[stretch.start..stretch.end]
                    .iter()
                    .map(|value| {
                        let offset = value - self.low;
                        let (word, bit) = ((offset / 64) as usize, offset % 64);
                        if twice[word] >> bit & 1 == 0 {
                            UNCONTESTED
                        } else {
                            before[word] + (twice[word] & ((1 << bit) - 1)).count_ones()
                        }
                    })
                    .collect()
            })
            .collect();
        Decision { winner: Vec::new(), group, groups }
    }
}

/// The best version of a key so far.
#[derive(Clone, Copy)]
struct Best<K> {
    key: K,
    stretch: u32,
    row: u32,
}

/// Merges the stretches one after another into the list of best versions, smallest first, and unmarks the losers.
fn merge_winners<'a, K: Ord + Copy + 'a>(
    stretches: &'a [Stretch<'a>],
    order: &dyn MergeOrder,
    winner: &mut [Vec<bool>],
    key: impl Fn(&'a Keys, usize) -> K,
) {
    let mut sizes: Vec<usize> = (0..stretches.len()).collect();
    sizes.sort_by_key(|&index| stretches[index].len());
    let mut best: Vec<Best<K>> = Vec::new();
    for index in sizes {
        let stretch = &stretches[index];
        let mut merged = Vec::with_capacity(best.len() + stretch.len());
        let mut known = best.iter().copied().peekable();
        for row in stretch.start..stretch.end {
            let fresh = Best { key: key(stretch.keys, row), stretch: index as u32, row: row as u32 };
            while let Some(old) = known.next_if(|old| old.key < fresh.key) {
                merged.push(old);
            }
            match known.next_if(|old| old.key == fresh.key) {
                Some(old) => {
                    let old_version = (old.stretch as usize, old.row as usize);
                    if order.after((index, row), old_version) {
                        winner[old_version.0][old_version.1 - stretches[old_version.0].start] = false;
                        merged.push(fresh);
                    } else {
                        winner[index][row - stretch.start] = false;
                        merged.push(old);
                    }
                }
                None => merged.push(fresh),
            }
        }
        merged.extend(known);
        best = merged;
    }
}

/// Collects the keys that occur more than once, then gives each row of theirs its number.
fn merge_contested<'a, K: Ord + Copy + 'a>(
    stretches: &'a [Stretch<'a>],
    decision: &mut Decision,
    key: impl Fn(&'a Keys, usize) -> K,
) {
    let mut sizes: Vec<usize> = (0..stretches.len()).collect();
    sizes.sort_by_key(|&index| stretches[index].len());
    let mut seen: Vec<(K, bool)> = Vec::new();
    for index in sizes {
        let stretch = &stretches[index];
        let mut merged = Vec::with_capacity(seen.len() + stretch.len());
        let mut known = seen.iter().copied().peekable();
        for row in stretch.start..stretch.end {
            let fresh = key(stretch.keys, row);
            while let Some(old) = known.next_if(|old| old.0 < fresh) {
                merged.push(old);
            }
            let twice = known.next_if(|old| old.0 == fresh).is_some();
            merged.push((fresh, twice));
        }
        merged.extend(known);
        seen = merged;
    }
    let contested: Vec<K> = seen.into_iter().filter(|(_, twice)| *twice).map(|(key, _)| key).collect();
    decision.groups = contested.len() as u32;
    for (index, stretch) in stretches.iter().enumerate() {
        let mut at = 0;
        for row in stretch.start..stretch.end {
            let fresh = key(stretch.keys, row);
            while at < contested.len() && contested[at] < fresh {
                at += 1;
            }
            if at < contested.len() && contested[at] == fresh {
                decision.group[index][row - stretch.start] = at as u32;
            }
        }
    }
}
