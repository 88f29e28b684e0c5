//! The table format, pure: no I/O, no engine. Read it beside the specification of the format.
//!
//! `types` and `schema` describe what a table holds, `snapshot` what it held at a moment, `manifest_list`, `manifest` and
//! `index_manifest` which files make it up, `binary_row` and `stats` the values inside those, `bucket` and `partition` where a
//! row lives, `deletion_vector` and `file_index` what lies beside a data file. What is decoded here is encoded here too, byte
//! for byte as Java 1.4 does it.
//!
//! May import: `error`, `options`.

pub(crate) mod avro;
pub mod binary_row;
pub mod bucket;
pub mod casts;
pub mod data_file;
pub mod datum;
pub mod deletion_vector;
pub mod document;
pub mod file_index;
pub mod hash_index;
pub mod index_manifest;
pub mod literal;
pub mod manifest;
pub mod manifest_list;
pub mod partition;
pub mod schema;
pub mod snapshot;
pub mod stats;
pub mod tag;
pub mod types;

pub use avro::AvroCodec;
pub use data_file::{DataFileMeta, EMPTY_ROW, FileIdentity, FileIdentityRef, FileSource, ManifestEntry, SimpleStats};
pub use index_manifest::{DvRange, GlobalIndexMeta, IndexEntry, decode_index_manifest, encode_index_manifest};
pub use manifest::{DataFile, EncodedManifest, EntryHeads, ManifestEncoder, ManifestEntries, ManifestFile};
pub use manifest_list::{ManifestMeta, decode_manifest_list, encode_manifest_list};
pub use schema::TableSchema;
pub use snapshot::{CommitKind, Snapshot};
pub use tag::TagDocument;
pub use types::{DataField, DataType, TypeKind};
