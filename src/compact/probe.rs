//! Where the old rows of new keys are: found by the keys alone, so that of files that stay only those rows are read whole.
//!
//! Few rows written into a large table would otherwise read every column of it.
//!
//! May import: `error`, `read`, rest of this room.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryConsumer;

use super::rules::Rules;
use super::source::{AHEAD, Chunk, Cursor, PositionsOf, ReadPlan, SourceFile};
use super::window::Window;
use crate::error::Result;

/// Files that stay are read twice, by their keys first, when they have so many times the rows of the new ones.
const PAYS_OFF: u64 = 4;

/// Whether it is worth it to find the rows first.
pub(super) fn pays_off(runs: &[Vec<SourceFile>]) -> bool {
    let rows = |reference: bool| -> u64 {
        let files = runs.iter().flatten().filter(|file| file.reference == reference);
        files.map(|file| file.planned.file.rows()).sum()
    };
    let staying = rows(true);
    staying > 0 && staying / PAYS_OFF > rows(false)
}

/// The runs with only those rows of files that stay whose keys are new, of the lowest level that has them.
///
/// # Errors
/// Errors of reading files; exhausted when the memory pool is.
pub(super) async fn with_matches(rules: &Rules, runs: Vec<Vec<SourceFile>>) -> Result<Vec<Vec<SourceFile>>> {
    let schema = rules.table.schema();
    let plan = ReadPlan::try_new(schema, &rules.merge, None, PositionsOf::Everything, runs.len())?;
    let plan = Arc::new(plan);
    let files: Vec<&SourceFile> = runs.iter().flatten().collect();
    let mut first = 0;
    let mut cursors = Vec::new();
    for run in &runs {
        let is_asked = |file: &SourceFile| file.reference || file.planned.file.level() == 0;
        let asked: Vec<(usize, SourceFile)> = run
            .iter()
            .enumerate()
            .filter(|(_, file)| is_asked(file))
            .map(|(at, file)| (first + at, file.clone()))
            .collect();
        first += run.len();
        cursors.push(Cursor::start(asked, Arc::clone(&plan), Arc::clone(&rules.reader)));
    }
    let reservation = MemoryConsumer::new("LakeCompactProbe").register(rules.context.memory_pool());
    let mut found: HashMap<usize, Vec<u64>> = HashMap::new();
    let mut count = 0;
    loop {
        for cursor in &mut cursors {
            cursor.fill().await?;
        }
        let chunks: usize = cursors.iter().filter_map(|cursor| cursor.chunk.as_deref()).map(Chunk::memory).sum();
        reservation.try_resize(chunks * (AHEAD + 1) + count * 8)?;
        let Some(window) = Window::take(&mut cursors) else { break };
        for key in 0..window.keys() {
            let rows = &window.order[window.rows_of(key)];
            if rows.len() < 2 || rows.iter().all(|place| files[window.file(*place)].reference) {
                continue;
            }
            let references = rows.iter().filter(|place| files[window.file(**place)].reference);
            let lowest = references.min_by_key(|place| files[window.file(**place)].planned.file.level());
            if let Some(place) = lowest {
                let chunk = window.chunk(*place);
                found.entry(chunk.file).or_default().push(chunk.positions.at(place.row as usize));
                count += 1;
            }
        }
    }
    drop(files);
    let mut index = 0;
    let mut left = Vec::with_capacity(runs.len());
    for run in runs {
        let mut kept = Vec::with_capacity(run.len());
        for mut file in run {
            if !file.reference {
                kept.push(file);
            } else if let Some(rows) = found.remove(&index) {
                file.rows = Some(Arc::new(rows));
                kept.push(file);
            }
            index += 1;
        }
        if !kept.is_empty() {
            left.push(kept);
        }
    }
    Ok(left)
}
