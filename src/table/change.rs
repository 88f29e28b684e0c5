//! What can be asked of a table's definition: the columns and options of a new one, and the changes of an existing one
//! (`spec/metadata.md 2.5`).
//!
//! May import: `spec`.

use std::collections::BTreeMap;

use crate::spec::{DataField, DataType};

/// A table to be created. Field ids, also nested ones, are given when it is created, whatever `fields` holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewTable {
    /// Columns in order.
    pub fields: Vec<DataField>,
    /// Partition columns in order.
    pub partition_keys: Vec<String>,
    /// Primary key columns in order; none for an append table.
    pub primary_keys: Vec<String>,
    /// Options.
    pub options: BTreeMap<String, String>,
    /// Comment.
    pub comment: Option<String>,
}

/// Where a column goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnPosition {
    /// Before all others.
    First,
    /// After all others.
    Last,
    /// Right after another column of the same level.
    After(String),
    /// Right before another column of the same level.
    Before(String),
}

/// One change of a table's definition. A column is addressed by its path: the names from the top-level column down through
/// nested ROWs, `element` standing for the element of an ARRAY and `value` for the value of a MAP.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaChange {
    /// Sets an option.
    SetOption {
        /// Key.
        key: String,
        /// Value.
        value: String,
    },
    /// Removes an option, so that its default holds again.
    RemoveOption {
        /// Key.
        key: String,
    },
    /// Sets or removes the table's comment.
    UpdateComment {
        /// The comment.
        comment: Option<String>,
    },
    /// Adds a column.
    AddColumn {
        /// Path of the new column.
        path: Vec<String>,
        /// Type; nullable.
        data_type: DataType,
        /// Comment.
        comment: Option<String>,
        /// Default value as text.
        default: Option<String>,
        /// Where it goes; last unless told.
        position: Option<ColumnPosition>,
    },
    /// Renames a column.
    RenameColumn {
        /// Path.
        path: Vec<String>,
        /// New name.
        name: String,
    },
    /// Drops a column.
    DropColumn {
        /// Path.
        path: Vec<String>,
    },
    /// Changes the type of a column.
    UpdateColumnType {
        /// Path.
        path: Vec<String>,
        /// New type.
        data_type: DataType,
        /// The column's own nullability stays, whatever `data_type` says.
        keep_nullability: bool,
    },
    /// Lets a column hold NULL or not.
    UpdateColumnNullability {
        /// Path.
        path: Vec<String>,
        /// Whether it may hold NULL.
        nullable: bool,
    },
    /// Sets or removes the comment of a column.
    UpdateColumnComment {
        /// Path.
        path: Vec<String>,
        /// The comment.
        comment: Option<String>,
    },
    /// Sets or removes the default value of a column.
    UpdateColumnDefault {
        /// Path.
        path: Vec<String>,
        /// Default value as text.
        default: Option<String>,
    },
    /// Moves a column.
    UpdateColumnPosition {
        /// Path.
        path: Vec<String>,
        /// Where it goes.
        position: ColumnPosition,
    },
    /// Drops the primary key, which only a table without snapshots can.
    DropPrimaryKey,
}
