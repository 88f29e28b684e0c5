//! INSERT: the engine's input becomes the nodes that write (`write::LakeWriteExec`) and one that commits.

mod commit;
mod constants;
mod conversions;
mod dead_letters;
mod evolution;
mod insert;
mod key_locations;
mod screen;
mod statement;
mod strict;
mod whole;

pub(crate) use commit::{CommitPlan, LakeCommitExec};
pub(crate) use constants::{LakeConstants, is_written_out};
pub(crate) use conversions::{check_conversion, shown};
pub(crate) use evolution::Evolution;
pub(crate) use insert::Insert;
pub(crate) use key_locations::LakeKeysExec;
pub(crate) use strict::with_strict_casts;
pub(crate) use whole::whole_numbers;
