//! Which statements a table takes (`spec/data.md 12.3`), and what to say where it does not.
//!
//! Imports `options`, `table` and `error`.

use super::shape::Action;
use crate::error::{Error, Result};
use crate::options::{MergeEngine, TableOptions};
use crate::sql::travel::TableState;
use crate::table::Table;

/// Refuses to change what is not the latest state of a table.
///
/// # Errors
/// Invalid for versions, and where options ask for one.
pub(crate) fn latest_state(state: &TableState, options: &TableOptions) -> Result<()> {
    let table = &state.table;
    if state.named.is_some() {
        return Err(table.at(Error::invalid("a version of a table can't be changed; name the table")));
    }
    if !options.scan.is_latest() {
        return Err(table.at(Error::invalid(
            "rows are changed as they are now, but the options of the table or the session ask for another state to be \
             read; RESET the option paimon.scan.*",
        )));
    }
    if options.fallback_branch.is_some() || options.primary_branch.is_some() {
        return Err(table.at(Error::unsupported(
            "rows of a table that is read together with another branch can't be changed; reset scan.fallback-branch and \
             scan.primary-branch, or name the branch",
        )));
    }
    Ok(())
}

/// Refuses what the table can't take.
///
/// # Errors
/// Unsupported, with the option that would allow it.
pub(crate) fn check(table: &Table, verb: &str, action: Action) -> Result<()> {
    let options = table.settings();
    let refused = |why: &str, remedy: &str| Err(table.at(Error::unsupported(format!("{verb}: {why}; {remedy}"))));
    if options.data_evolution {
        return refused(
            "the rows of a table with 'data-evolution.enabled' lie in several files each",
            "change them with Spark, or write them anew with INSERT OVERWRITE",
        );
    }
    if !table.schema().has_primary_key() {
        return Ok(());
    }
    let engine = options.merge_engine;
    match action {
        Action::Insert => Ok(()),
        Action::Delete if options.ignore_delete => {
            refused("the table leaves deletes out ('ignore-delete' = 'true')", "set it to 'false'")
        }
        Action::Delete => match engine {
            MergeEngine::Deduplicate => Ok(()),
            MergeEngine::FirstRow => refused(
                "'merge-engine' = 'first-row' keeps the first row of a key, whatever comes after it",
                "drop whole partitions, or write the table anew with INSERT OVERWRITE",
            ),
            MergeEngine::PartialUpdate
                if options.partial_update_remove_record_on_delete
                    || !options.partial_update_remove_record_on_sequence_group.is_empty() =>
            {
                Ok(())
            }
            MergeEngine::PartialUpdate => refused(
                "'merge-engine' = 'partial-update' takes no deletes",
                "set 'partial-update.remove-record-on-delete' = 'true' or \
                 'partial-update.remove-record-on-sequence-group'",
            ),
            MergeEngine::Aggregation if options.aggregation_remove_record_on_delete => Ok(()),
            MergeEngine::Aggregation => refused(
                "'merge-engine' = 'aggregation' takes deletes as values to be taken back",
                "set 'aggregation.remove-record-on-delete' = 'true'",
            ),
        },
        Action::Update => match engine {
            MergeEngine::Deduplicate | MergeEngine::PartialUpdate => Ok(()),
            MergeEngine::FirstRow => refused(
                "'merge-engine' = 'first-row' keeps the first row of a key, whatever comes after it",
                "only 'deduplicate' and 'partial-update' take updates",
            ),
            MergeEngine::Aggregation => refused(
                "'merge-engine' = 'aggregation' would add what a row is set to to what it is",
                "only 'deduplicate' and 'partial-update' take updates; INSERT the difference",
            ),
        },
    }
}
