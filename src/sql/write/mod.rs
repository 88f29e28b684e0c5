//! INSERT: the engine's input becomes the nodes that write (`write::LakeWriteExec`) and one that commits.

mod commit;
mod insert;
mod key_locations;
mod strict;

pub(crate) use insert::Insert;
