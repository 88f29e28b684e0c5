//! System tables: what there is to know about a table or a catalog, as rows (`spec/data.md 13`).
//!
//! ```text
//! t$snapshots, t$branch_b$files@5   of a table    SystemKind: its name, whether it travels in time, its source
//! sys.tables                        of a catalog  catalog.rs
//! ```
//! Names, types and values of the columns are Java's; what newer versions add comes at the end. `$audit_log`, `$binlog`,
//! `$ro` and `$row_tracking` are rows of the table itself and are read as such, not here.
//!
//! Imports everything below `sql`, and the session's settings.

mod catalog;
mod fields;
mod files;
mod health;
mod history;
mod indexes;
mod manifests;
mod partitions;
mod statistics;
mod table;
mod text;
mod upkeep;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

pub(crate) use catalog::{DATABASE, catalog_table, catalog_tables, database_health};
pub(crate) use table::SystemTable;

use self::table::RowSource;
use crate::options::nearest_of;
use crate::spec::Snapshot;
use crate::table::Table;

/// A system table that is not made of the table's own rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SystemKind {
    Snapshots,
    Schemas,
    Options,
    Manifests,
    Files,
    FileKeyRanges,
    Partitions,
    Buckets,
    Tags,
    Branches,
    Consumers,
    Statistics,
    AggregationFields,
    TableIndexes,
    Health,
}

/// Every kind with its name.
const KINDS: [(SystemKind, &str); 15] = [
    (SystemKind::Snapshots, "snapshots"),
    (SystemKind::Schemas, "schemas"),
    (SystemKind::Options, "options"),
    (SystemKind::Manifests, "manifests"),
    (SystemKind::Files, "files"),
    (SystemKind::FileKeyRanges, "file_key_ranges"),
    (SystemKind::Partitions, "partitions"),
    (SystemKind::Buckets, "buckets"),
    (SystemKind::Tags, "tags"),
    (SystemKind::Branches, "branches"),
    (SystemKind::Consumers, "consumers"),
    (SystemKind::Statistics, "statistics"),
    (SystemKind::AggregationFields, "aggregation_fields"),
    (SystemKind::TableIndexes, "table_indexes"),
    (SystemKind::Health, "health"),
];

/// System tables made of the table's rows.
const OF_ROWS: [&str; 4] = ["ro", "audit_log", "binlog", "row_tracking"];

impl SystemKind {
    /// The kind that a table's name ends in, in any case.
    pub(crate) fn find(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(kind, _)| *kind)
    }

    /// The name.
    pub(crate) fn name(self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    /// Whether it tells of a state of the table, so that an earlier one can be asked for.
    pub(crate) fn travels(self) -> bool {
        use SystemKind::{
            AggregationFields, Branches, Buckets, Consumers, FileKeyRanges, Files, Health, Manifests, Options,
            Partitions, Schemas, Snapshots, Statistics, TableIndexes, Tags,
        };
        match self {
            Manifests | Files | FileKeyRanges | Partitions | Buckets | Statistics | TableIndexes => true,
            Snapshots | Schemas | Options | Tags | Branches | Consumers | AggregationFields | Health => false,
        }
    }

    /// The rows of this kind of `table`, at `snapshot` if it [travels](Self::travels).
    fn source(self, table: &Arc<Table>, snapshot: Option<Arc<Snapshot>>) -> Arc<dyn RowSource> {
        let table = Arc::clone(table);
        match self {
            Self::Snapshots => Arc::new(history::SnapshotRows { table }),
            Self::Schemas => Arc::new(history::SchemaRows { table }),
            Self::Options => Arc::new(fields::OptionRows { table }),
            Self::AggregationFields => Arc::new(fields::AggregationRows { table }),
            Self::Manifests => Arc::new(manifests::ManifestRows { table, snapshot }),
            Self::Files => Arc::new(files::FileRows::new(table, snapshot, files::FILES)),
            Self::FileKeyRanges => Arc::new(files::FileRows::new(table, snapshot, files::KEY_RANGES)),
            Self::Partitions => Arc::new(partitions::PartitionRows { table, snapshot, buckets: false }),
            Self::Buckets => Arc::new(partitions::PartitionRows { table, snapshot, buckets: true }),
            Self::Tags => Arc::new(upkeep::TagRows { table }),
            Self::Branches => Arc::new(upkeep::BranchRows { table }),
            Self::Consumers => Arc::new(upkeep::ConsumerRows { table }),
            Self::Statistics => Arc::new(statistics::StatisticsRows { table, snapshot }),
            Self::TableIndexes => Arc::new(indexes::IndexRows { table, snapshot }),
            Self::Health => Arc::new(health::HealthRows { table }),
        }
    }
}

/// What to say of a system table that does not exist.
pub(crate) fn unknown(name: &str) -> String {
    let all = KINDS.iter().map(|(_, name)| *name).chain(OF_ROWS);
    match nearest_of(name, all.clone()) {
        Some(nearest) => format!("there is no system table ${name}; did you mean ${nearest}?"),
        None => format!("there is no system table ${name}; there are ${}", all.collect::<Vec<_>>().join(", $")),
    }
}

const NULLABLE: bool = true;
const NOT_NULL: bool = false;

fn text(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Utf8View, nullable)
}

fn long(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Int64, nullable)
}

fn int(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Int32, nullable)
}

fn boolean(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Boolean, nullable)
}

fn time(name: &str, nullable: bool) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Millisecond, None), nullable)
}

fn columns(fields: Vec<Field>) -> SchemaRef {
    Arc::new(Schema::new(fields))
}
