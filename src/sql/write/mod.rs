//! INSERT: the engine's input becomes the nodes that write (`write::LakeWriteExec`) and one that commits.

mod commit;
mod insert;
mod key_locations;
mod strict;

pub(crate) use commit::{CommitPlan, LakeCommitExec};
pub(crate) use insert::Insert;
pub(crate) use key_locations::key_locations;
pub(crate) use strict::with_strict_casts;
