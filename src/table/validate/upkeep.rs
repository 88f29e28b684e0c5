//! Rules of what is done after commits, which would be told only then, and of levels of compression.

use super::{Breaches, Subject};

/// What may be done with a partition that is done (`spec/metadata.md 10.5`).
const MARK_DONE_ACTIONS: [&str; 5] = ["success-file", "done-partition", "mark-event", "http-report", "custom"];

/// By which time partitions expire. Another name is a class of Java's, which is not known here.
const EXPIRATION_STRATEGIES: [&str; 2] = ["values-time", "update-time"];

/// The levels that zstd has.
const ZSTD_LEVELS: std::ops::RangeInclusive<i32> = 1..=22;

pub(super) fn check(subject: &Subject<'_>, found: &mut Breaches) {
    let lists: [(&str, &[&str]); 2] =
        [("partition.mark-done-action", &MARK_DONE_ACTIONS), ("partition.expiration-strategy", &EXPIRATION_STRATEGIES)];
    for (option, known) in lists {
        for name in subject.list(option) {
            if !known.iter().any(|known| known.eq_ignore_ascii_case(name.trim())) {
                found.invalid(format!("option {option} = '{name}' is none of {}", known.join(", ")));
            }
        }
    }
    for option in ["file.compression.zstd-level", "spill-compression.zstd-level"] {
        // A text that is no number is a breach of its own.
        let level = subject.options.value::<i32>(option).ok().flatten();
        if let Some(level) = level.filter(|level| !ZSTD_LEVELS.contains(level)) {
            found.invalid(format!("option {option} = '{level}' is no level of zstd, which are 1 to 22"));
        }
    }
}
