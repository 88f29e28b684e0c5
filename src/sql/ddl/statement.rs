//! Statements that define and change tables, as they were read: names as written, nothing looked up yet.
//!
//! Imports the parser's names and tokens, `spec` and `table`.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use crate::spec::DataType;
use crate::sql::tokens::is_word;
use crate::sql::words::Constant;
use crate::table::ColumnPosition;

/// A name of one to three parts.
pub(crate) type Name = Vec<Ident>;

/// `(column = value, ..)`. A column without value stands for all its values.
pub(crate) type PartitionSpec = Vec<(Ident, Option<Constant>)>;

/// A statement that changes what there is in a catalog, or what a table holds.
#[derive(Clone, Debug)]
pub(crate) enum Ddl {
    /// `CREATE {DATABASE | SCHEMA} [IF NOT EXISTS] [catalog.]database`
    CreateDatabase { name: Name, if_not_exists: bool },
    /// `DROP {DATABASE | SCHEMA} [IF EXISTS] [catalog.]database [RESTRICT | CASCADE]`
    DropDatabase { name: Name, if_exists: bool, cascade: bool },
    /// `CREATE TABLE`
    CreateTable(Box<CreateTable>),
    /// `DROP TABLE [IF EXISTS] table`
    DropTable { table: Name, if_exists: bool },
    /// `ALTER TABLE [IF EXISTS] table ..`, `COMMENT ON TABLE table IS ..`
    AlterTable { table: Name, if_exists: bool, alteration: Alteration },
    /// `TRUNCATE TABLE table [PARTITION (..)]`
    Truncate { table: Name, partition: PartitionSpec },
    /// `ALTER TABLE table DROP [IF EXISTS] PARTITION (..), ..`
    DropPartitions { table: Name, if_exists: bool, partitions: Vec<PartitionSpec> },
    /// `ANALYZE TABLE table COMPUTE STATISTICS ..`
    Analyze { table: Name, columns: AnalyzedColumns },
    /// `CREATE VIEW`
    CreateView(Box<CreateView>),
    /// `DROP VIEW [IF EXISTS] view`
    DropView { view: Name, if_exists: bool },
    /// `INSERT {INTO | OVERWRITE}`
    Insert(Box<Insert>),
}

impl Ddl {
    /// What the statement does, for messages.
    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::CreateDatabase { .. } => "CREATE DATABASE",
            Self::DropDatabase { .. } => "DROP DATABASE",
            Self::CreateTable(_) => "CREATE TABLE",
            Self::DropTable { .. } => "DROP TABLE",
            Self::AlterTable { .. } => "ALTER TABLE",
            Self::Truncate { .. } => "TRUNCATE TABLE",
            Self::DropPartitions { .. } => "DROP PARTITION",
            Self::Analyze { .. } => "ANALYZE TABLE",
            Self::CreateView(_) => "CREATE VIEW",
            Self::DropView { .. } => "DROP VIEW",
            Self::Insert(_) => "INSERT",
        }
    }

    /// Whether the statement's plan is shown and nothing else happens.
    pub(crate) fn is_only_shown(&self) -> bool {
        let Self::Insert(insert) = self else { return false };
        !insert.explain.is_empty() && !insert.explain.iter().any(|token| is_word(&token.token, "ANALYZE"))
    }
}

/// `CREATE [OR REPLACE] TABLE [IF NOT EXISTS] ..`
#[derive(Clone, Debug, Default)]
pub(crate) struct CreateTable {
    pub name: Name,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub columns: Vec<ColumnDefinition>,
    pub primary_key: Vec<Ident>,
    pub partition_keys: Vec<Ident>,
    pub comment: Option<String>,
    pub options: Vec<(String, String)>,
    pub source: TableSource,
}

/// Where a new table's columns or rows come from, beside its own definition.
#[derive(Clone, Debug, Default)]
pub(crate) enum TableSource {
    /// Nowhere.
    #[default]
    Nothing,
    /// `LIKE table`
    Like(Like),
    /// `AS query`
    Query(Vec<TokenWithSpan>),
}

/// `LIKE table [(INCLUDING | EXCLUDING | OVERWRITING ..)]`: what is taken over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Like {
    pub table: Name,
    pub constraints: bool,
    pub partitions: bool,
    pub options: bool,
}

/// A column as CREATE, ADD and MODIFY define it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnDefinition {
    /// The names from the top-level column down.
    pub path: Vec<Ident>,
    pub data_type: DataType,
    pub comment: Option<String>,
    /// The default as text; `Some(None)` for DEFAULT NULL.
    pub default: Option<Option<String>>,
    pub position: Option<ColumnPosition>,
}

/// One change of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Alteration {
    /// `RENAME TO table`
    RenameTable(Name),
    /// `SET ('key' = 'value', ..)`, `SET TBLPROPERTIES (..)`
    SetOptions(Vec<(String, String)>),
    /// `RESET ('key', ..)`, `UNSET TBLPROPERTIES [IF EXISTS] (..)`
    ResetOptions { keys: Vec<String>, if_exists: bool },
    /// `COMMENT ON TABLE table IS ..`
    Comment(Option<String>),
    /// `ADD ..`
    AddColumns { columns: Vec<ColumnDefinition>, if_not_exists: bool },
    /// `MODIFY ..`: the columns are now what is written.
    ModifyColumns(Vec<ColumnDefinition>),
    /// `CHANGE [COLUMN] column definition`
    ChangeColumn { column: Vec<Ident>, definition: ColumnDefinition },
    /// `ALTER [COLUMN] column ..`
    AlterColumn { column: Vec<Ident>, changes: Vec<ColumnChange> },
    /// `RENAME [COLUMN] column TO name`, and whether COLUMN is spelled out.
    RenameColumn { column: Vec<Ident>, name: Ident, spelled_out: bool },
    /// `DROP [COLUMN] ..`
    DropColumns { columns: Vec<Vec<Ident>>, if_exists: bool },
    /// `DROP PRIMARY KEY`
    DropPrimaryKey,
}

/// One change of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ColumnChange {
    /// `TYPE type`, `SET DATA TYPE type`
    Type(DataType),
    /// `DROP NOT NULL` and `SET NOT NULL`
    Nullable(bool),
    /// `COMMENT 'text'`
    Comment(String),
    /// `SET DEFAULT value` and `DROP DEFAULT`
    Default(Option<String>),
    /// `FIRST`, `AFTER column`
    Position(ColumnPosition),
}

/// What ANALYZE counts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AnalyzedColumns {
    /// The table's rows only.
    None,
    /// `FOR COLUMNS a, b`
    Named(Vec<Ident>),
    /// `FOR ALL COLUMNS`
    All,
}

/// `CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] view [(columns)] AS query`
#[derive(Clone, Debug)]
pub(crate) struct CreateView {
    pub name: Name,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub columns: Vec<Ident>,
    pub comment: Option<String>,
    pub query: Vec<TokenWithSpan>,
}

/// `INSERT {INTO | OVERWRITE} [TABLE] table [PARTITION (..)] [(columns)] query`
#[derive(Clone, Debug, Default)]
pub(crate) struct Insert {
    pub table: Name,
    pub overwrite: bool,
    /// The options of a hint behind the table.
    pub options: Vec<(String, String)>,
    pub partition: PartitionSpec,
    pub columns: Vec<Ident>,
    /// Whether the columns of the query are matched by their names.
    pub by_name: bool,
    pub query: Vec<TokenWithSpan>,
    /// `EXPLAIN ..` before the statement.
    pub explain: Vec<TokenWithSpan>,
}
