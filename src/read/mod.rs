//! Which rows: from files to the rows of a table.

pub mod fold;
