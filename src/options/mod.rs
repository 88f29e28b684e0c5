//! Every option a table, a catalog or a reader can carry, in one typed table.
//!
//! An option is *honoured*, *harmless* to a reader (the table says why), or *refused*: it changes what the files of the table
//! mean and is not built. What a statement brings must be known ([`check_known`], [`check_values`], [`check_dynamic`]); what
//! lies on disk may hold keys of other engines and versions ([`check_readable`]). [`TableOptions`] is the typed view that
//! planning and reading use.
//!
//! ```text
//! schema's options + dynamic options --check_readable--> TableOptions { merge_engine, sequence_fields, scan, .. }
//!                                                          by key: value::<bool>("write-only"), field_option("c", "distinct")
//! ```
//!
//! May import: `error`.

mod check;
mod commit;
mod def;
mod lookup;
mod names;
mod scan;
mod table;
mod upkeep;
mod value;
mod view;
mod write;

pub use check::{check_catalog, check_dynamic, check_known, check_readable, check_values};
pub use commit::CommitOptions;
pub use def::{Kind, OptionDef, Reading, Refusal};
pub use lookup::{Found, all, all_catalog, lookup, lookup_catalog, nearest, nearest_of};
pub use names::{
    BucketFunction, ChangelogProducer, IncrementalScanMode, Level0, MergeEngine, NestedKeyNullStrategy, ScanMode,
};
pub use scan::{ScanOptions, chooses_state};
pub use upkeep::{Keep, UpkeepOptions};
pub use value::{MemorySize, OptionValue, parse_bool, parse_duration, parse_size};
pub use view::{SequenceGroup, TableOptions};
pub use write::{ExternalPaths, ExternalStrategy, FileRole, ParquetOptions, StatsMode, WriteOptions};
