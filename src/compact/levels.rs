//! The sorted runs of a bucket (`spec/data.md 4.1`, `6.1`): each file of level 0 is one, the files of a higher level are one
//! together.
//!
//! May import: `plan`.

use crate::plan::PlannedFile;

/// What picking looks at of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileFacts {
    /// Level.
    pub level: i32,
    /// Bytes.
    pub size: u64,
    /// Least and greatest sequence number.
    pub sequence: (i64, i64),
    /// Milliseconds of the writer's wall clock; the least number when it is not known.
    pub created: i64,
    /// Name.
    pub name: String,
}

impl FileFacts {
    /// Those of a file.
    pub(super) fn of(planned: &PlannedFile) -> Self {
        let file = &planned.file;
        Self {
            level: file.level(),
            size: file.size(),
            sequence: file.sequence_numbers(),
            created: file.entries.creation_time[file.row as usize],
            name: file.name().to_owned(),
        }
    }
}

/// A sorted run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Level.
    pub level: i32,
    /// Bytes.
    pub size: u64,
    /// Positions among the files of the bucket.
    pub files: Vec<usize>,
}

/// The runs of a bucket, newest first: level 0 from its newest file on, then level after level.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    /// The runs.
    pub runs: Vec<Run>,
    /// How many levels there are.
    pub count: i32,
    /// When the newest file of the highest level was made.
    pub top_created: Option<i64>,
}

impl Levels {
    /// The runs of `files`. Files that lie deeper than `levels` allows enlarge it.
    pub(super) fn new(files: &[FileFacts], levels: i32) -> Self {
        let deepest = files.iter().map(|file| file.level).max().unwrap_or(0);
        let count = levels.max(deepest.saturating_add(1)).max(2);
        let mut newest: Vec<usize> = (0..files.len()).filter(|&index| files[index].level <= 0).collect();
        newest.sort_by(|&a, &b| {
            let (a, b) = (&files[a], &files[b]);
            (b.sequence.1.cmp(&a.sequence.1))
                .then_with(|| a.sequence.0.cmp(&b.sequence.0))
                .then_with(|| a.created.cmp(&b.created))
                .then_with(|| a.name.cmp(&b.name))
        });
        let mut runs: Vec<Run> =
            newest.into_iter().map(|index| Run { level: 0, size: files[index].size, files: vec![index] }).collect();
        for level in 1..count {
            let members: Vec<usize> = (0..files.len()).filter(|&index| files[index].level == level).collect();
            if !members.is_empty() {
                runs.push(Run { level, size: members.iter().map(|&index| files[index].size).sum(), files: members });
            }
        }
        let top = files.iter().filter(|file| file.level == count - 1).map(|file| file.created).max();
        Self { runs, count, top_created: top }
    }

    /// The highest level there can be.
    pub(super) fn max_level(&self) -> i32 {
        self.count - 1
    }

    /// The highest level that has files; -1 when none has.
    pub(super) fn highest_used(&self) -> i32 {
        self.runs.iter().map(|run| run.level).max().unwrap_or(-1)
    }
}
