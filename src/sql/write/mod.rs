//! INSERT: the engine's input becomes the nodes that write (`write::LakeWriteExec`) and one that commits.

mod commit;
mod dead_letters;
mod evolution;
mod insert;
mod key_locations;
mod screen;
mod statement;
mod strict;

pub(crate) use evolution::Evolution;
pub(crate) use insert::Insert;
