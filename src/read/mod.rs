//! Which rows: files of any schema, read as the table's rows.

pub mod evolution;
