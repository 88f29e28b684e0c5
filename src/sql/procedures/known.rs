//! Procedures that Java's engines have and this version lacks, with what to use instead.

/// Name, and what to use instead.
pub(super) const UNBUILT: &[(&str, &str)] = &[
    ("alter_function", "functions of the engine are registered by the program"),
    ("alter_view_dialect", "use CREATE OR REPLACE VIEW"),
    ("clone", "use CREATE TABLE .. AS SELECT, or copy the table's folder"),
    ("compact_chain_table", "chain tables are written by Java's engines only"),
    ("copy", "use INSERT INTO .. SELECT"),
    ("copy_files", "copy the table's folder"),
    ("create_function", "functions of the engine are registered by the program"),
    ("create_global_index", "global indexes are built by Java's engines"),
    ("data_evolution_merge_into", "use MERGE INTO of another engine"),
    ("drop_function", "functions of the engine are registered by the program"),
    ("drop_global_index", "global indexes are dropped by Java's engines"),
    ("full_text_search", "use LIKE or regular expressions"),
    ("merge_branch", "use INSERT INTO t SELECT * FROM t$branch_<name>"),
    ("migrate_database", "use CREATE TABLE .. AS SELECT"),
    ("migrate_table", "use CREATE TABLE .. AS SELECT"),
    ("purge_files", "use TRUNCATE TABLE"),
    ("query_service", "query the table"),
    ("reassign_row_id", "row ids are assigned by commits"),
    ("repair", "a filesystem catalog has nothing to repair: tables are their folders"),
    ("vector_search", "use ORDER BY over a distance"),
];
