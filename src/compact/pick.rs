//! Which runs of a bucket are compacted next (`spec/data.md 6.2`).
//!
//! ```text
//! runs, newest first     size amplification: all newer runs against the oldest       -> everything, to the top
//! [n] [n] [n] [1] [5]    size ratio: from the newest on, as long as the next is not larger -> to the level before the rest
//!                        run count: as many as are too many, and what the ratio adds
//!                        level 0 of tables that look up: all of it
//! ```
//!
//! May import: `error`, `options`, rest of this room.

use std::time::Duration;

use chrono::Timelike;

use super::levels::{Levels, Run};
use crate::error::Result;
use crate::options::{MemorySize, TableOptions};

/// When level 0 is moved up although nothing else asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level0 {
    /// Never.
    Stays,
    /// Each time.
    Rises,
    /// When it has so many files.
    RisesFrom(usize),
}

/// The options that picking follows.
#[derive(Clone, Debug)]
pub(super) struct Picking {
    /// `num-sorted-run.compaction-trigger`
    pub trigger: usize,
    /// `compaction.max-size-amplification-percent`
    pub amplification: u64,
    /// `compaction.size-ratio`, and what is added to it at this hour (`compaction.offpeak-*`).
    pub ratio: f64,
    /// `compaction.optimization-interval`
    pub interval: Option<Duration>,
    /// `compaction.total-size-threshold`
    pub total_size: Option<u64>,
    /// `compaction.incremental-size-threshold`
    pub incremental_size: Option<u64>,
    /// `lookup-compact`, `compaction.force-up-level-0`
    pub level0: Level0,
}

/// Files that are compacted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// The level that the result gets.
    pub level: i32,
    /// Positions among the files of the bucket.
    pub files: Vec<usize>,
    /// Whether each file is rewritten by itself: they are of the top level and overlap nothing.
    pub each: bool,
}

impl Unit {
    fn of(level: i32, runs: &[Run]) -> Self {
        Self { level, files: runs.iter().flat_map(|run| run.files.iter().copied()).collect(), each: false }
    }
}

impl Picking {
    /// What the options of a table say, at this hour of the wall clock.
    ///
    /// # Errors
    /// Invalid for a value that is not what its option takes.
    pub(super) fn of(options: &TableOptions) -> Result<Self> {
        Self::at(options, chrono::Local::now().hour())
    }

    fn at(options: &TableOptions, hour: u32) -> Result<Self> {
        let number = |key| -> Result<i32> { Ok(options.value::<i32>(key)?.unwrap_or_default()) };
        let size = |key| -> Result<Option<u64>> { Ok(options.value::<MemorySize>(key)?.map(|size| size.0)) };
        let trigger = number("num-sorted-run.compaction-trigger")?.max(1) as usize;
        let (start, end) = (number("compaction.offpeak.start.hour")?, number("compaction.offpeak.end.hour")?);
        let off_peak = is_within(hour as i32, start, end);
        let extra = if off_peak { number("compaction.offpeak-ratio")? } else { 0 };
        let radical = !options.get("lookup-compact").is_some_and(|mode| mode.eq_ignore_ascii_case("gentle"));
        let forced = options.value::<bool>("compaction.force-up-level-0")?.unwrap_or(false);
        let level0 = if forced || (options.needs_lookup() && radical) {
            Level0::Rises
        } else if options.needs_lookup() {
            let most = options.value::<i32>("lookup-compact.max-interval")?;
            Level0::RisesFrom(most.map_or(trigger * 2, |most| (most.max(1) as usize).max(trigger)))
        } else {
            Level0::Stays
        };
        Ok(Self {
            trigger,
            amplification: u64::try_from(number("compaction.max-size-amplification-percent")?).unwrap_or(0),
            ratio: f64::from(number("compaction.size-ratio")?) + f64::from(extra),
            interval: options.value("compaction.optimization-interval")?,
            total_size: size("compaction.total-size-threshold")?,
            incremental_size: size("compaction.incremental-size-threshold")?,
            level0,
        })
    }

    /// What is compacted next, if anything is due. `now`: milliseconds of the wall clock that file times are told in.
    pub(super) fn pick(&self, levels: &Levels, now: i64) -> Option<Unit> {
        let unit = self.universal(levels, now).or_else(|| self.level0_up(levels))?;
        // A file that is where it is to go needs nothing.
        let only =
            unit.files.len() == 1 && levels.runs.iter().any(|run| run.files == unit.files && run.level == unit.level);
        (!unit.files.is_empty() && !only).then_some(unit)
    }

    fn universal(&self, levels: &Levels, now: i64) -> Option<Unit> {
        let runs = &levels.runs;
        if self.is_full_early(levels, now) {
            return Some(Unit::of(levels.max_level(), runs));
        }
        if runs.len() < self.trigger {
            return None;
        }
        let (oldest, newer) = runs.split_last()?;
        let candidates: u128 = newer.iter().map(|run| u128::from(run.size)).sum();
        if candidates * 100 > u128::from(self.amplification) * u128::from(oldest.size) {
            return Some(Unit::of(levels.max_level(), runs));
        }
        if let Some(unit) = self.by_ratio(levels, 1, false) {
            return Some(unit);
        }
        if runs.len() > self.trigger {
            return self.by_ratio(levels, runs.len() - self.trigger + 1, true);
        }
        None
    }

    fn is_full_early(&self, levels: &Levels, now: i64) -> bool {
        let runs = &levels.runs;
        if runs.len() < 2 {
            return false;
        }
        if let Some(interval) = self.interval {
            let since = levels.top_created.map(|created| now.saturating_sub(created));
            if since.is_none_or(|since| u128::try_from(since).unwrap_or(0) > interval.as_millis()) {
                return true;
            }
        }
        let size = |runs: &mut dyn Iterator<Item = &Run>| runs.map(|run| run.size).fold(0, u64::saturating_add);
        if self.total_size.is_some_and(|most| size(&mut runs.iter()) < most) {
            return true;
        }
        let newer = size(&mut runs.iter().filter(|run| run.level != levels.max_level()));
        self.incremental_size.is_some_and(|most| newer > most)
    }

    /// From the newest `count` runs on, as long as the next one is not larger than all of them. `triggered`: whether they are
    /// compacted even when none joins.
    fn by_ratio(&self, levels: &Levels, count: usize, mut triggered: bool) -> Option<Unit> {
        let runs = &levels.runs;
        let mut count = count.min(runs.len());
        let mut size: u64 = runs[..count].iter().map(|run| run.size).fold(0, u64::saturating_add);
        while let Some(next) = runs.get(count) {
            let is_larger = (size as f64) * (100.0 + self.ratio) / 100.0 < next.size as f64;
            if is_larger && (!triggered || next.level > 1) {
                break;
            }
            size = size.saturating_add(next.size);
            count += 1;
            triggered = true;
        }
        triggered.then(|| unit_of(levels, count))
    }

    fn level0_up(&self, levels: &Levels) -> Option<Unit> {
        let count = levels.runs.iter().take_while(|run| run.level == 0).count();
        let rises = match self.level0 {
            Level0::Stays => false,
            Level0::Rises => count > 0,
            Level0::RisesFrom(least) => count >= least.max(1),
        };
        rises.then(|| self.by_ratio(levels, count, true)).flatten()
    }
}

/// The newest `count` runs, to the highest level that leaves the order of what remains.
fn unit_of(levels: &Levels, mut count: usize) -> Unit {
    let runs = &levels.runs;
    let mut level = match runs.get(count) {
        None => levels.max_level(),
        Some(next) => (next.level - 1).max(0),
    };
    if level == 0 {
        // Level 0 is no place for a result.
        while let Some(next) = runs.get(count) {
            count += 1;
            if next.level != 0 {
                level = next.level;
                break;
            }
        }
    }
    if count == runs.len() {
        level = levels.max_level();
    }
    Unit::of(level, &runs[..count])
}

/// Everything to the top. `rewrite` tells which files of a bucket that has nothing but its top level must be written again.
pub(super) fn pick_full(levels: &Levels, rewrite: impl Fn(usize) -> bool) -> Option<Unit> {
    match levels.runs.as_slice() {
        [] => None,
        [only] if only.level == levels.max_level() => {
            let files: Vec<usize> = only.files.iter().copied().filter(|&file| rewrite(file)).collect();
            (!files.is_empty()).then(|| Unit { level: levels.max_level(), files, each: true })
        }
        runs => Some(Unit::of(levels.max_level(), runs)),
    }
}

/// Whether an hour lies in the hours from `start` to `end`, which may go over midnight; -1 for none.
fn is_within(hour: i32, start: i32, end: i32) -> bool {
    match (start, end) {
        (-1, _) | (_, -1) => false,
        (start, end) if start <= end => start <= hour && hour < end,
        (start, end) => hour < end || start <= hour,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::levels::FileFacts;
    use super::*;

    fn picking() -> Picking {
        Picking {
            trigger: 3,
            amplification: 200,
            ratio: 1.0,
            interval: None,
            total_size: None,
            incremental_size: None,
            level0: Level0::Stays,
        }
    }

    /// Files as (level, size), newest first in each level.
    fn levels(files: &[(i32, u64)]) -> Levels {
        let facts: Vec<FileFacts> = files
            .iter()
            .enumerate()
            .map(|(index, (level, size))| FileFacts {
                level: *level,
                size: *size,
                sequence: (1000 - index as i64, 1000 - index as i64),
                created: 1_000,
                name: index.to_string(),
            })
            .collect();
        Levels::new(&facts, 4)
    }

    fn picked(picking: &Picking, files: &[(i32, u64)]) -> Option<(i32, usize)> {
        picking.pick(&levels(files), 2_000).map(|unit| (unit.level, unit.files.len()))
    }

    #[test]
    fn pick_when_runs_are_few_then_nothing() {
        assert_eq!(picked(&picking(), &[(0, 10), (0, 10)]), None);
        assert_eq!(picked(&picking(), &[(0, 1000), (3, 1)]), None);
    }

    #[test]
    fn pick_when_newer_runs_outweigh_the_oldest_then_everything() {
        assert_eq!(picked(&picking(), &[(0, 10), (0, 11), (3, 10)]), Some((3, 3)));
        // The oldest run is too large for both rules.
        assert_eq!(picked(&picking(), &[(0, 1), (0, 10), (3, 100)]), None);
    }

    #[test]
    fn pick_when_sizes_are_alike_then_they_join_below_the_next_level() {
        assert_eq!(picked(&picking(), &[(0, 10), (0, 10), (3, 100)]), Some((2, 2)));
        assert_eq!(picked(&picking(), &[(0, 10), (0, 10), (2, 200), (3, 1000)]), Some((1, 2)));
        // Next to level 1 there is no level to go to: level 1 joins.
        assert_eq!(picked(&picking(), &[(0, 10), (0, 10), (1, 200), (3, 1000)]), Some((2, 3)));
    }

    #[test]
    fn pick_when_there_are_too_many_runs_then_the_newest_of_them() {
        assert_eq!(picked(&picking(), &[(0, 1), (0, 10), (2, 100), (3, 1000)]), Some((1, 2)));
    }

    #[test]
    fn pick_when_level_0_must_rise_then_all_of_it() {
        let rises = Picking { level0: Level0::Rises, ..picking() };
        assert_eq!(picked(&rises, &[(0, 1)]), Some((3, 1)));
        assert_eq!(picked(&rises, &[(0, 1), (3, 100)]), Some((2, 1)));
        assert_eq!(picked(&rises, &[(0, 1), (2, 10), (3, 1000)]), Some((1, 1)));
        assert_eq!(picked(&rises, &[(3, 1000)]), None);
        let gentle = Picking { level0: Level0::RisesFrom(2), trigger: 9, ..picking() };
        assert_eq!(picked(&gentle, &[(0, 1), (3, 100)]), None);
        assert_eq!(picked(&gentle, &[(0, 1), (0, 1), (3, 100)]), Some((2, 2)));
    }

    #[test]
    fn pick_when_a_threshold_is_passed_then_everything() {
        let due = Picking { interval: Some(Duration::from_millis(500)), ..picking() };
        assert_eq!(picked(&due, &[(0, 1), (3, 100)]), Some((3, 2)));
        assert_eq!(picked(&due, &[(3, 100)]), None);
        let later = Picking { interval: Some(Duration::from_millis(5_000)), ..picking() };
        assert_eq!(picked(&later, &[(0, 1), (3, 100)]), None);
        let small = Picking { total_size: Some(200), ..picking() };
        assert_eq!(picked(&small, &[(0, 1), (3, 100)]), Some((3, 2)));
        let grown = Picking { incremental_size: Some(5), ..picking() };
        assert_eq!(picked(&grown, &[(0, 6), (3, 100)]), Some((3, 2)));
        assert_eq!(picked(&grown, &[(0, 5), (3, 100)]), None);
    }

    #[test]
    fn pick_full_when_only_the_top_is_there_then_what_must_be_rewritten() {
        assert_eq!(pick_full(&levels(&[(0, 1), (3, 5)]), |_| false).map(|unit| unit.files.len()), Some(2));
        assert_eq!(pick_full(&levels(&[(3, 1), (3, 5)]), |_| false), None);
        let unit = pick_full(&levels(&[(3, 1), (3, 5)]), |file| file == 1).unwrap();
        assert_eq!((unit.files, unit.each), (vec![1], true));
        assert_eq!(pick_full(&levels(&[]), |_| true), None);
        // A lone file below the top goes there.
        assert_eq!(pick_full(&levels(&[(0, 1)]), |_| false).map(|unit| unit.level), Some(3));
    }

    #[test]
    fn new_when_files_lie_deep_then_more_levels() {
        let levels = levels(&[(0, 1), (7, 5)]);
        assert_eq!((levels.max_level(), levels.highest_used()), (7, 7));
    }

    #[test]
    fn at_when_options_are_set_then_followed() {
        let set = |pairs: &[(&str, &str)]| {
            let map: BTreeMap<String, String> =
                pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            Picking::at(&TableOptions::new(&map, &BTreeMap::new()).unwrap(), 23).unwrap()
        };
        let plain = set(&[]);
        assert_eq!((plain.trigger, plain.amplification, plain.level0), (5, 200, Level0::Stays));
        assert_eq!(set(&[("force-lookup", "true")]).level0, Level0::Rises);
        let gentle = [("force-lookup", "true"), ("lookup-compact", "gentle")];
        assert_eq!(set(&gentle).level0, Level0::RisesFrom(10));
        let night = [
            ("compaction.offpeak.start.hour", "22"),
            ("compaction.offpeak.end.hour", "6"),
            ("compaction.offpeak-ratio", "50"),
        ];
        assert!((set(&night).ratio - 51.0).abs() < 1e-9);
        assert!(!is_within(7, 22, 6) && is_within(5, 22, 6) && !is_within(3, -1, 6));
    }
}
