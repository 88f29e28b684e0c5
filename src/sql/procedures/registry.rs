//! Which procedures there are.

use super::known::UNBUILT;
use super::{
    Procedure, alter_column_default_value, branches, cleaning, compact, compact_database, consumers, expire,
    merge_into, partition_upkeep, repair, rollback, tags,
};
use crate::error::{Error, Result};
use crate::options::nearest_of;

/// All procedures by name.
pub(super) const ALL: &[&dyn Procedure] = &[
    &alter_column_default_value::AlterColumnDefaultValue,
    &consumers::ClearConsumers,
    &compact::Compact,
    &compact_database::CompactDatabase,
    &cleaning::CompactManifest,
    &branches::CreateBranch,
    &tags::CreateTag,
    &tags::CreateTagFromTimestamp,
    &tags::CreateTagFromWatermark,
    &branches::DeleteBranch,
    &tags::DeleteTag,
    &partition_upkeep::DropPartition,
    &expire::ExpireChangelogs,
    &partition_upkeep::ExpirePartitions,
    &expire::ExpireSnapshots,
    &tags::ExpireTags,
    &branches::FastForward,
    &partition_upkeep::MarkPartitionDone,
    &compact::MaterializeDeletionVectors,
    &merge_into::MergeInto,
    &cleaning::RemoveOrphanFiles,
    &repair::RemoveUnexistingFiles,
    &repair::RemoveUnexistingManifests,
    &branches::RenameBranch,
    &tags::RenameTag,
    &repair::RepairEarliestSnapshot,
    &tags::ReplaceTag,
    &repair::Rescale,
    &consumers::ResetConsumer,
    &repair::RewriteFileIndex,
    &rollback::Rollback,
    &rollback::RollbackTo,
    &rollback::RollbackToAsLatest,
    &rollback::RollbackToTimestamp,
    &rollback::RollbackToWatermark,
    &tags::TriggerTagAutomaticCreation,
];

/// The procedure called `name`, in any case.
///
/// # Errors
/// Unsupported, with what to use instead, for one that Java has and this version lacks; not found for any other name, with the
/// nearest one.
pub(super) fn find(name: &str) -> Result<&'static dyn Procedure> {
    if let Some(procedure) = ALL.iter().find(|procedure| procedure.name().eq_ignore_ascii_case(name)) {
        return Ok(*procedure);
    }
    if let Some((name, instead)) = UNBUILT.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
        return Err(Error::unsupported(format!("procedure {name} is not built in this version; {instead}")));
    }
    let names = ALL.iter().map(|procedure| procedure.name()).chain(UNBUILT.iter().map(|(name, _)| *name));
    Err(Error::not_found(match nearest_of(name, names) {
        Some(nearest) => format!("there is no procedure {name}; did you mean {nearest}?"),
        None => format!("there is no procedure {name}; SHOW PROCEDURES lists them"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn all_when_listed_then_sorted_once_and_with_required_arguments_first() {
        let names: Vec<&str> = ALL.iter().map(|procedure| procedure.name()).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        assert!(UNBUILT.is_sorted_by(|a, b| a.0 < b.0));
        for (unbuilt, _) in UNBUILT {
            assert!(!names.contains(unbuilt), "{unbuilt}");
        }
        for procedure in ALL {
            let arguments = procedure.arguments();
            assert!(arguments.is_sorted_by_key(|argument| !argument.required), "{}", procedure.name());
        }
    }

    #[test]
    fn find_when_name_is_wrong_then_nearest_or_what_to_use_instead() {
        assert_eq!(find("CREATE_TAG").unwrap().name(), "create_tag");
        let error = |name| find(name).err().map(|error| (error.kind(), error.message().to_owned())).unwrap();
        assert_eq!(
            error("create_tags"),
            (ErrorKind::NotFound, "there is no procedure create_tags; did you mean create_tag?".to_owned())
        );
        assert_eq!(error("migrate_table").0, ErrorKind::Unsupported);
        assert_eq!(
            error("zzzz"),
            (ErrorKind::NotFound, "there is no procedure zzzz; SHOW PROCEDURES lists them".to_owned())
        );
    }
}
