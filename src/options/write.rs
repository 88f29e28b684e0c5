//! What a writer of data files looks at, typed. Imports `error` and the rest of this room.

use std::collections::BTreeMap;

use super::value::{MemorySize, OptionValue, parse_levels};
use super::view::TableOptions;
use crate::error::{Error, Result};

const MB: u64 = 1 << 20;

/// Which statistics of a column go into the manifest (`spec/data.md 11`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StatsMode {
    /// None at all.
    None,
    /// The number of NULLs.
    Counts,
    /// NULLs and bounds, those of text and bytes cut to so many characters or bytes.
    Truncate(usize),
    /// NULLs and whole bounds.
    Full,
}

impl OptionValue for StatsMode {
    fn from_text(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        Some(match text.as_str() {
            "none" => Self::None,
            "counts" => Self::Counts,
            "full" => Self::Full,
            other => {
                let length = other.strip_prefix("truncate(")?.strip_suffix(')')?;
                Self::Truncate(length.trim().parse().ok().filter(|length| *length > 0)?)
            }
        })
    }
}

/// Which file a writer is about to write, as far as options care.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileRole {
    /// A data file of this level; 0 for append tables.
    Data(i32),
    /// A changelog file that was made together with data files of this level.
    Changelog(i32),
}

/// How a writer chooses among roots outside the table's folder (`spec/metadata.md 1.5`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExternalStrategy {
    /// One root after the other.
    RoundRobin,
    /// As often as these weights say, one for each root.
    Weighted(Vec<u32>),
    /// One after the other, with folders that spread the files over the store.
    Entropy,
}

/// Roots outside the table's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalPaths {
    /// The roots, with their scheme and without a slash at the end; at least one.
    pub roots: Vec<String>,
    /// How one is chosen for each file.
    pub strategy: ExternalStrategy,
}

/// Options `parquet.*` that change how files are written; the others tune Java's writer alone.
#[derive(Clone, Debug, PartialEq)]
pub struct ParquetOptions {
    /// `parquet.compression`: wins over `file.compression`.
    pub compression: Option<String>,
    /// `parquet.block.size`: bytes of a row group.
    pub row_group_bytes: Option<u64>,
    /// `parquet.page.size`
    pub page_bytes: u64,
    /// `parquet.page.row.count.limit`
    pub page_rows: u64,
    /// `parquet.dictionary.page.size`
    pub dictionary_page_bytes: u64,
    /// `parquet.enable.dictionary`
    pub dictionary: bool,
    /// `parquet.enable.dictionary#<column>`
    pub dictionary_of: BTreeMap<String, bool>,
    /// `parquet.bloom.filter.enabled`
    pub bloom_filter: bool,
    /// `parquet.bloom.filter.enabled#<column>`
    pub bloom_filter_of: BTreeMap<String, bool>,
    /// `parquet.bloom.filter.expected.ndv#<column>`
    pub bloom_filter_values: BTreeMap<String, u64>,
    /// `parquet.bloom.filter.fpp#<column>`
    pub bloom_filter_fpp: BTreeMap<String, f64>,
    /// `parquet.writer.version` is 2.
    pub version_2: bool,
}

/// The options that writers of data files use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriteOptions {
    /// `target-file-size` in bytes: 128 MB with a primary key, 256 MB without, unless told.
    pub target_file_size: u64,
    /// `target-file-row-num`; not for compactions.
    pub target_file_rows: Option<u64>,
    /// `file.block-size` in bytes: row groups, stripes and blocks.
    pub block_size: Option<u64>,
    /// `file.compression.zstd-level`
    pub zstd_level: i32,
    /// `data-file.thin-mode`
    pub thin_mode: bool,
    /// `data-file.prefix`
    pub data_file_prefix: String,
    /// `changelog-file.prefix`
    pub changelog_file_prefix: String,
    /// `data-file.path-directory`: folders between a root and the partitions.
    pub path_directory: Option<String>,
    /// `file.suffix.include.compression`
    pub suffix_has_compression: bool,
    /// `metadata.stats-dense-store`
    pub stats_dense_store: bool,
    /// `metadata.stats-keep-first-n-columns`; `None` for all columns.
    pub stats_first_columns: Option<usize>,
    /// `file-index.in-manifest-threshold` in bytes.
    pub index_in_manifest_threshold: u64,
    /// `data-file.external-paths`, when a strategy is set.
    pub external_paths: Option<ExternalPaths>,
    /// `parquet.*`
    pub parquet: ParquetOptions,
    /// All options that are set, for what only one format knows.
    pub all: BTreeMap<String, String>,
    format: String,
    format_by_level: BTreeMap<i32, String>,
    compression: String,
    compression_by_level: BTreeMap<i32, String>,
    stats_mode: StatsMode,
    stats_mode_by_level: BTreeMap<i32, StatsMode>,
    stats_mode_by_column: BTreeMap<String, StatsMode>,
    changelog_format: Option<String>,
    changelog_compression: Option<String>,
    changelog_stats_mode: Option<StatsMode>,
}

impl WriteOptions {
    /// The options of a table with or without a primary key.
    ///
    /// # Errors
    /// Invalid, with the option, for a value that is not what its option takes.
    pub fn new(options: &TableOptions, has_primary_key: bool) -> Result<Self> {
        let bytes = |key| -> Result<Option<u64>> { Ok(options.value::<MemorySize>(key)?.map(|size| size.0)) };
        let text = |key| options.value::<String>(key);
        let name = |key| -> Result<Option<String>> { Ok(text(key)?.map(|text| text.trim().to_ascii_lowercase())) };
        let flag = |key| -> Result<bool> { Ok(options.value::<bool>(key)?.unwrap_or(false)) };
        let stats_mode = |key: &str| -> Result<Option<StatsMode>> { options.value::<StatsMode>(key) };
        let mut stats_mode_by_column = BTreeMap::new();
        for (key, value) in options.iter() {
            let column = key.strip_prefix("fields.").and_then(|rest| rest.strip_suffix(".stats-mode"));
            if let Some(column) = column {
                stats_mode_by_column.insert(column.to_owned(), parse(key, value)?);
            }
        }
        let default_size = if has_primary_key { 128 * MB } else { 256 * MB };
        Ok(Self {
            target_file_size: bytes("target-file-size")?.unwrap_or(default_size).max(1),
            target_file_rows: options
                .value::<i64>("target-file-row-num")?
                .filter(|rows| (1..i64::MAX).contains(rows))
                .map(i64::cast_unsigned),
            block_size: bytes("file.block-size")?,
            zstd_level: options.value("file.compression.zstd-level")?.unwrap_or(1),
            thin_mode: flag("data-file.thin-mode")?,
            data_file_prefix: text("data-file.prefix")?.unwrap_or_default(),
            changelog_file_prefix: text("changelog-file.prefix")?.unwrap_or_default(),
            path_directory: options.data_file_path_directory.clone(),
            suffix_has_compression: flag("file.suffix.include.compression")?,
            stats_dense_store: flag("metadata.stats-dense-store")?,
            stats_first_columns: options
                .value::<i32>("metadata.stats-keep-first-n-columns")?
                .and_then(|columns| usize::try_from(columns).ok()),
            index_in_manifest_threshold: bytes("file-index.in-manifest-threshold")?.unwrap_or(500),
            external_paths: external_paths(options)?,
            parquet: ParquetOptions::new(options)?,
            all: options.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            format: options.file_format.clone(),
            format_by_level: levels(options, "file.format.per.level", |text| Some(text.to_ascii_lowercase()))?,
            compression: name("file.compression")?.unwrap_or_default(),
            compression_by_level: levels(options, "file.compression.per.level", |text| {
                Some(text.to_ascii_lowercase())
            })?,
            stats_mode: stats_mode("metadata.stats-mode")?.unwrap_or(StatsMode::Truncate(16)),
            stats_mode_by_level: levels(options, "metadata.stats-mode.per.level", StatsMode::from_text)?,
            stats_mode_by_column,
            changelog_format: name("changelog-file.format")?,
            changelog_compression: name("changelog-file.compression")?,
            changelog_stats_mode: stats_mode("changelog-file.stats-mode")?,
        })
    }

    /// The format of a new file, in lower case.
    pub fn format(&self, role: FileRole) -> &str {
        match (role, &self.changelog_format) {
            (FileRole::Changelog(_), Some(format)) => format,
            (FileRole::Data(level) | FileRole::Changelog(level), _) => {
                self.format_by_level.get(&level).unwrap_or(&self.format)
            }
        }
    }

    /// The codec of a new file, in lower case.
    pub fn compression(&self, role: FileRole) -> &str {
        match (role, &self.changelog_compression) {
            (FileRole::Changelog(_), Some(compression)) => compression,
            (FileRole::Data(level) | FileRole::Changelog(level), _) => {
                self.compression_by_level.get(&level).unwrap_or(&self.compression)
            }
        }
    }

    /// The statistics of a column that has no mode of its own.
    pub fn stats_mode(&self, role: FileRole) -> StatsMode {
        match (role, self.changelog_stats_mode) {
            (FileRole::Changelog(_), Some(mode)) => mode,
            (FileRole::Data(level) | FileRole::Changelog(level), _) => {
                self.stats_mode_by_level.get(&level).copied().unwrap_or(self.stats_mode)
            }
        }
    }

    /// `fields.<column>.stats-mode`, which wins over all other modes.
    pub fn stats_mode_of(&self, column: &str) -> Option<StatsMode> {
        self.stats_mode_by_column.get(column).copied()
    }
}

impl ParquetOptions {
    fn new(options: &TableOptions) -> Result<Self> {
        let mut found = Self {
            compression: None,
            row_group_bytes: None,
            page_bytes: MB,
            page_rows: 20_000,
            dictionary_page_bytes: MB,
            dictionary: true,
            dictionary_of: BTreeMap::new(),
            bloom_filter: false,
            bloom_filter_of: BTreeMap::new(),
            bloom_filter_values: BTreeMap::new(),
            bloom_filter_fpp: BTreeMap::new(),
            version_2: false,
        };
        for (key, value) in options.iter() {
            let Some(name) = key.strip_prefix("parquet.") else { continue };
            let size = || parse::<MemorySize>(key, value).map(|size| size.0.max(1));
            match name.split_once('#') {
                None => match name {
                    "compression" => found.compression = Some(value.trim().to_ascii_lowercase()),
                    "block.size" => found.row_group_bytes = Some(size()?),
                    "page.size" => found.page_bytes = size()?,
                    "page.row.count.limit" => found.page_rows = size()?,
                    "dictionary.page.size" => found.dictionary_page_bytes = size()?,
                    "enable.dictionary" => found.dictionary = parse(key, value)?,
                    "bloom.filter.enabled" => found.bloom_filter = parse(key, value)?,
                    "writer.version" => found.version_2 = version(key, value)?,
                    _ => {}
                },
                Some((name, column)) => {
                    let column = column.to_owned();
                    match name {
                        "enable.dictionary" => {
                            found.dictionary_of.insert(column, parse(key, value)?);
                        }
                        "bloom.filter.enabled" => {
                            found.bloom_filter_of.insert(column, parse(key, value)?);
                        }
                        "bloom.filter.expected.ndv" => {
                            found.bloom_filter_values.insert(column, size()?);
                        }
                        "bloom.filter.fpp" => {
                            let share = parse::<f64>(key, value)?;
                            if !(share > 0.0 && share < 1.0) {
                                return Err(wrong(key, value));
                            }
                            found.bloom_filter_fpp.insert(column, share);
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(found)
    }
}

fn version(key: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "v1" | "parquet_1_0" => Ok(false),
        "v2" | "parquet_2_0" => Ok(true),
        _ => Err(wrong(key, value)),
    }
}

fn wrong(key: &str, value: &str) -> Error {
    Error::invalid(format!("option {key} = '{value}' is not a value that it takes"))
}

fn parse<T: OptionValue>(key: &str, value: &str) -> Result<T> {
    T::from_text(value.trim()).ok_or_else(|| wrong(key, value))
}

fn levels<T>(options: &TableOptions, key: &str, read: impl Fn(&str) -> Option<T>) -> Result<BTreeMap<i32, T>> {
    let Some(text) = options.value::<String>(key)? else { return Ok(BTreeMap::new()) };
    let bad = || wrong(key, &text);
    parse_levels(&text)
        .ok_or_else(bad)?
        .into_iter()
        .map(|(level, value)| Ok((level, read(value).ok_or_else(bad)?)))
        .collect()
}

fn external_paths(options: &TableOptions) -> Result<Option<ExternalPaths>> {
    let Some(text) = options.value::<String>("data-file.external-paths")?.filter(|text| !text.trim().is_empty()) else {
        return Ok(None);
    };
    let key = "data-file.external-paths";
    let mut roots = Vec::new();
    for root in text.split(',').map(str::trim).filter(|root| !root.is_empty()) {
        if root.split_once(':').is_none_or(|(scheme, _)| scheme.len() < 2) {
            return Err(Error::invalid(format!("option {key}: {root} has no scheme; write it as file:{root}")));
        }
        roots.push(root.trim_end_matches('/').to_owned());
    }
    let strategy = options.value::<String>("data-file.external-paths.strategy")?.unwrap_or_default();
    let strategy = match strategy.to_ascii_lowercase().as_str() {
        "none" | "" => return Ok(None),
        "round-robin" => ExternalStrategy::RoundRobin,
        "entropy-inject" => ExternalStrategy::Entropy,
        "specific-fs" => {
            let key = "data-file.external-paths.specific-fs";
            let scheme = options.value::<String>(key)?.map(|scheme| scheme.trim().to_ascii_lowercase());
            let Some(scheme) = scheme.filter(|scheme| !scheme.is_empty()) else {
                return Err(Error::invalid(format!("the strategy 'specific-fs' needs the option {key}")));
            };
            roots.retain(|root| root.split_once(':').is_some_and(|(found, _)| found.eq_ignore_ascii_case(&scheme)));
            ExternalStrategy::RoundRobin
        }
        "weight-robin" => {
            let key = "data-file.external-paths.weights";
            let text = options.value::<String>(key)?.unwrap_or_default();
            let weights: Option<Vec<u32>> =
                text.split(',').map(|weight| weight.trim().parse().ok().filter(|weight| *weight > 0)).collect();
            match weights.filter(|weights| weights.len() == roots.len() && roots.len() > 1) {
                Some(weights) => ExternalStrategy::Weighted(weights),
                None => {
                    return Err(Error::invalid(format!(
                        "option {key} = '{text}' must be a whole number of 1 or more for each of at least two external paths"
                    )));
                }
            }
        }
        other => return Err(wrong("data-file.external-paths.strategy", other)),
    };
    if roots.is_empty() {
        return Err(Error::invalid(format!("option {key} = '{text}' holds no path that its strategy may take")));
    }
    Ok(Some(ExternalPaths { roots, strategy }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)], has_primary_key: bool) -> Result<WriteOptions> {
        let pairs = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        WriteOptions::new(&TableOptions::new(&pairs, &BTreeMap::new())?, has_primary_key)
    }

    #[test]
    fn new_when_nothing_is_set_then_defaults() {
        let append = options(&[], false).unwrap();
        assert_eq!((append.target_file_size, append.target_file_rows), (256 * MB, None));
        let key = options(&[], true).unwrap();
        assert_eq!((key.target_file_size, key.zstd_level), (128 * MB, 1));
        let role = FileRole::Data(0);
        assert_eq!((key.format(role), key.compression(role)), ("parquet", "zstd"));
        assert_eq!(key.stats_mode(FileRole::Changelog(0)), StatsMode::Truncate(16));
        assert_eq!((key.data_file_prefix.as_str(), key.changelog_file_prefix.as_str()), ("data-", "changelog-"));
        assert!(key.stats_dense_store && !key.thin_mode && !key.suffix_has_compression);
        assert_eq!((key.stats_first_columns, key.index_in_manifest_threshold), (None, 500));
        assert!(key.external_paths.is_none());
        assert!(key.parquet.dictionary && !key.parquet.version_2);
    }

    #[test]
    fn roles_when_level_and_changelog_have_their_own_then_those() {
        let found = options(
            &[
                ("file.format.per.level", "0:AVRO, 5:orc"),
                ("file.compression.per.level", "0:lz4"),
                ("metadata.stats-mode.per.level", "0:none,5:Truncate(3)"),
                ("changelog-file.format", "avro"),
                ("changelog-file.stats-mode", "counts"),
                ("fields.a.b.stats-mode", "full"),
            ],
            true,
        )
        .unwrap();
        let formats = [0, 1, 5].map(|level| found.format(FileRole::Data(level)));
        assert_eq!(formats, ["avro", "parquet", "orc"]);
        assert_eq!(found.compression(FileRole::Data(0)), "lz4");
        assert_eq!(found.compression(FileRole::Changelog(1)), "zstd");
        assert_eq!(found.stats_mode(FileRole::Data(0)), StatsMode::None);
        assert_eq!(found.stats_mode(FileRole::Data(5)), StatsMode::Truncate(3));
        assert_eq!(found.stats_mode(FileRole::Changelog(0)), StatsMode::Counts);
        assert_eq!(found.format(FileRole::Changelog(5)), "avro");
        assert_eq!((found.stats_mode_of("a.b"), found.stats_mode_of("a")), (Some(StatsMode::Full), None));
    }

    #[test]
    fn new_when_columns_have_dictionaries_and_filters_then_theirs() {
        let found = options(
            &[
                ("parquet.enable.dictionary", "false"),
                ("parquet.enable.dictionary#a", "true"),
                ("parquet.bloom.filter.enabled#a", "true"),
                ("parquet.bloom.filter.expected.ndv#a", "1000"),
                ("parquet.block.size", "64 mb"),
                ("parquet.writer.version", "PARQUET_2_0"),
            ],
            false,
        )
        .unwrap();
        assert!(!found.parquet.dictionary && found.parquet.dictionary_of["a"] && found.parquet.version_2);
        assert!(found.parquet.bloom_filter_of["a"] && found.parquet.bloom_filter_values["a"] == 1000);
        assert_eq!(found.parquet.row_group_bytes, Some(64 * MB));
    }

    #[test]
    fn external_paths_when_strategy_is_set_then_its_roots() {
        let paths = ("data-file.external-paths", "file:///a/, s3://b/x");
        assert_eq!(options(&[paths], false).unwrap().external_paths, None);
        let strategy = |name| ("data-file.external-paths.strategy", name);
        let found = options(&[paths, strategy("round-robin")], false).unwrap().external_paths.unwrap();
        assert_eq!(found.roots, ["file:///a", "s3://b/x"]);
        let specific = [paths, strategy("specific-fs"), ("data-file.external-paths.specific-fs", "S3")];
        assert_eq!(options(&specific, false).unwrap().external_paths.unwrap().roots, ["s3://b/x"]);
        let weights = [paths, strategy("weight-robin"), ("data-file.external-paths.weights", "3,1")];
        let found = options(&weights, false).unwrap().external_paths.unwrap();
        assert_eq!(found.strategy, ExternalStrategy::Weighted(vec![3, 1]));
        for bad in [
            vec![("data-file.external-paths", "/a"), strategy("round-robin")],
            vec![paths, strategy("specific-fs")],
            vec![paths, strategy("specific-fs"), ("data-file.external-paths.specific-fs", "oss")],
            vec![paths, strategy("weight-robin"), ("data-file.external-paths.weights", "3")],
        ] {
            assert!(options(&bad, false).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn new_when_value_does_not_parse_then_error_names_the_option() {
        for (key, value) in [
            ("target-file-size", "x"),
            ("fields.a.stats-mode", "some"),
            ("parquet.enable.dictionary", "2"),
            ("parquet.writer.version", "v3"),
            ("parquet.bloom.filter.fpp#a", "1.5"),
            ("metadata.stats-mode.per.level", "0:x"),
        ] {
            let error = options(&[(key, value)], false).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
    }
}
