//! The table of options, one file an area. Each entry: key, kind, what it is for and how a reader treats it, then default
//! (`or`), old spellings (`also`) and `immutable`.
//!
//! To add an option, put it into its area; to build what a refusal names, turn `refused` into `honoured`.
//! Imports `def`, `names` and `value`.

mod catalog;
mod compaction;
mod files;
mod formats;
mod indexes;
mod merge;
mod scan;
mod shape;
mod upkeep;
mod versions;
mod write;

use super::def::{Kind, OptionDef};
use super::value;

/// Options of tables and of their reads.
pub(super) const TABLE: &[&[OptionDef]] = &[
    shape::OPTIONS,
    files::OPTIONS,
    indexes::OPTIONS,
    formats::OPTIONS,
    merge::OPTIONS,
    write::OPTIONS,
    compaction::OPTIONS,
    scan::OPTIONS,
    upkeep::OPTIONS,
    versions::OPTIONS,
];

/// Options of catalogs.
pub(super) const CATALOG: &[OptionDef] = catalog::OPTIONS;

const BOOL: Kind = Kind::Bool;
const INT: Kind = Kind::Int { least: i32::MIN, most: i32::MAX };
const NATURAL: Kind = Kind::Int { least: 0, most: i32::MAX };
const POSITIVE: Kind = Kind::Int { least: 1, most: i32::MAX };
const HOUR: Kind = Kind::Int { least: -1, most: 23 };
const LONG: Kind = Kind::Long { least: i64::MIN, most: i64::MAX };
const POSITIVE_LONG: Kind = Kind::Long { least: 1, most: i64::MAX };
const DOUBLE: Kind = Kind::Double { least: f64::MIN, most: f64::MAX };
const SHARE: Kind = Kind::Double { least: 0.0, most: 1.0 };
const SIZE: Kind = Kind::Size;
const TIME: Kind = Kind::Time;
const TEXT: Kind = Kind::Text;
const LIST: Kind = Kind::List;
const TEXT_LEVELS: Kind = Kind::Levels(&TEXT);

/// File formats that some version of Java knows by name.
const FORMAT: Kind = Kind::Enum(&["parquet", "orc", "avro", "csv", "json", "text", "lance", "vortex", "mosaic"]);
const FORMAT_LEVELS: Kind = Kind::Levels(&FORMAT);

const STATS: Kind = Kind::Form { accepts: "none, counts, full or truncate(<length>)", check: is_stats_mode };
const STATS_LEVELS: Kind = Kind::Levels(&STATS);

const PAIR: Kind = Kind::Form { accepts: "two values parted by a comma: '<start>,<end>'", check: is_pair };

// Why a reader may leave an option alone.
const WRITES: &str = "only writers look at it";
const ALTERS: &str = "only changes of the schema look at it";
const COMPACTS: &str = "only compaction looks at it";
const UPKEEP: &str = "it is about the upkeep of the table, not about its rows";
const SPEED: &str = "it changes speed and memory, not the rows";
const STREAMS: &str = "only streaming reads look at it";
const FILE_SAYS: &str = "each file says by itself how it was written";
const ENTRY_SAYS: &str = "the entry of each file says what statistics and indexes it has";

fn is_stats_mode(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    match text.strip_prefix("truncate(").and_then(|rest| rest.strip_suffix(')')) {
        Some(length) => length.parse::<u32>().is_ok_and(|length| length > 0),
        None => ["none", "counts", "full"].contains(&text.as_str()),
    }
}

fn is_pair(text: &str) -> bool {
    <(String, String) as value::OptionValue>::from_text(text).is_some()
}

fn is_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

#[cfg(test)]
mod tests;
