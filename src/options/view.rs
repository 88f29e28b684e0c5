//! The typed view of a table's options. Imports `error` and the rest of this room.

use std::collections::BTreeMap;

use super::check::{bad_value, canonical, check_value};
use super::lookup::lookup;
use super::names::{BucketFunction, ChangelogProducer, MergeEngine, NestedKeyNullStrategy};
use super::scan::{ScanOptions, TRAVEL};
use super::value::{MemorySize, OptionValue};
use crate::error::{Error, Result};

/// A table's options and those that a statement brings, by their canonical keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Values(BTreeMap<String, String>);

impl Values {
    fn new(table: &BTreeMap<String, String>, dynamic: &BTreeMap<String, String>) -> Self {
        let mut values = canonical(table);
        let dynamic = canonical(dynamic);
        if TRAVEL.iter().any(|key| dynamic.contains_key(*key)) {
            values.retain(|key, _| !TRAVEL.contains(&key.as_str()));
        }
        values.extend(dynamic);
        Self(values)
    }

    pub(super) fn is_set(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str).or_else(|| lookup(key)?.def.default)
    }

    pub(super) fn value<T: OptionValue>(&self, key: &str) -> Result<Option<T>> {
        let Some(found) = lookup(key) else {
            return Err(Error::internal(format!("option {key} is not in the table of options")));
        };
        let Some(text) = self.text(key) else { return Ok(None) };
        check_value(found.def, key, text)?;
        T::from_text(text).map(Some).ok_or_else(|| bad_value(found.def, key, text))
    }

    pub(super) fn required<T: OptionValue>(&self, key: &str) -> Result<T> {
        self.value(key)?.ok_or_else(|| Error::internal(format!("option {key} has no default")))
    }
}

/// Columns that are kept together by a table of merge engine partial-update (`spec/data.md 5.2`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceGroup {
    /// The columns whose values, in this order, say which row is newer; they belong to the group too.
    pub sequence: Vec<String>,
    /// The columns that follow them.
    pub protected: Vec<String>,
}

/// The options that planning and reading use, parsed; all others by key.
///
/// Made from the options of a schema and those that a statement brings. It does not say whether the table may be read
/// at all: see [`super::check_readable`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableOptions {
    values: Values,
    /// `bucket`: the count, -1 dynamic or unaware, -2 postpone. The count of a file is in its manifest entry.
    pub bucket: i32,
    /// `bucket-key`; None: the primary key without partition columns.
    pub bucket_key: Option<Vec<String>>,
    /// `bucket-function.type`.
    pub bucket_function: BucketFunction,
    /// `merge-engine`.
    pub merge_engine: MergeEngine,
    /// `changelog-producer`.
    pub changelog_producer: ChangelogProducer,
    /// `sequence.field`: columns that decide which row of a key is newest, before the sequence number.
    pub sequence_fields: Vec<String>,
    /// `sequence.field.sort-order` is descending: the smallest value is newest; NULL is oldest in both orders.
    pub sequence_descending: bool,
    /// `sequence.snapshot-ordering`: appended files are ordered by the snapshot that brought them (`spec/data.md 1.10`).
    pub sequence_snapshot_ordering: bool,
    /// `ignore-delete`, under any of its names: -D and -U rows are left out.
    pub ignore_delete: bool,
    /// `ignore-update-before`: -U rows are left out.
    pub ignore_update_before: bool,
    /// `rowkind.field`: the column that holds the kind of incoming rows.
    pub rowkind_field: Option<String>,
    /// `partial-update.remove-record-on-delete`.
    pub partial_update_remove_record_on_delete: bool,
    /// `partial-update.remove-record-on-sequence-group`: sequence columns whose -D removes the row.
    pub partial_update_remove_record_on_sequence_group: Vec<String>,
    /// `aggregation.remove-record-on-delete`.
    pub aggregation_remove_record_on_delete: bool,
    /// `fields.default-aggregate-function`.
    pub default_aggregate_function: Option<String>,
    /// The options `fields.<..>.sequence-group`, ordered by key.
    pub sequence_groups: Vec<SequenceGroup>,
    /// `deletion-vectors.enabled`.
    pub deletion_vectors_enabled: bool,
    /// `deletion-vectors.bitmap64`: new deletion vectors are of 64 bits.
    pub deletion_vectors_bitmap64: bool,
    /// `deletion-vector.index-file.target-size` in bytes.
    pub deletion_vector_file_size: u64,
    /// `delete.force-produce-changelog`: a DELETE writes rows even where dropping partitions would do.
    pub delete_force_produce_changelog: bool,
    /// `deletion-vectors.merge-on-read`: level 0 is merged, with deletion vectors applied first.
    pub deletion_vectors_merge_on_read: bool,
    /// `force-lookup`.
    pub force_lookup: bool,
    /// `num-levels`, else `num-sorted-run.compaction-trigger` and one (`spec/data.md 6.1`). Files on deeper levels enlarge it.
    pub num_levels: i32,
    /// `full-compaction.delta-commits`, which `scan.mode = compacted-full` looks at.
    pub full_compaction_delta_commits: Option<i32>,
    /// `file.format` in lower case: the format of new files. That of a file is told by its name.
    pub file_format: String,
    /// `data-file.path-directory`: between the table's root and its partitions.
    pub data_file_path_directory: Option<String>,
    /// `index-file-in-data-file-dir`: index files lie in the directory of their bucket.
    pub index_file_in_data_file_dir: bool,
    /// `partition.default-name`: the directory of NULL and blank partition values.
    pub partition_default_name: String,
    /// `partition.legacy-name`: how partition values become directories (`spec/metadata.md 1.3`).
    pub partition_legacy_name: bool,
    /// `file-index.read.enabled`.
    pub file_index_read_enabled: bool,
    /// `source.split.target-size` in bytes.
    pub split_target_size: u64,
    /// `source.split.open-file-cost` in bytes.
    pub split_open_file_cost: u64,
    /// `row-tracking.enabled`.
    pub row_tracking: bool,
    /// `data-evolution.enabled`.
    pub data_evolution: bool,
    /// `pk-clustering-override`: files are sorted by [`Self::clustering_columns`] and not by key (`spec/data.md 6.6`).
    pub pk_clustering_override: bool,
    /// `clustering.columns`.
    pub clustering_columns: Vec<String>,
    /// `table-read.sequence-number.enabled`: `$audit_log` and `$binlog` show `_SEQUENCE_NUMBER`.
    pub sequence_number_in_changes: bool,
    /// `branch`: the branch that is read, `main` unless told.
    pub branch: String,
    /// `scan.fallback-branch`: partitions that the table lacks are read there.
    pub fallback_branch: Option<String>,
    /// `scan.primary-branch`: partitions there win over the table's own.
    pub primary_branch: Option<String>,
    /// `chain-table.enabled`.
    pub chain_table: bool,
    /// `type`: `table` for every table that may be read.
    pub table_type: String,
    /// Which state or which changes are read.
    pub scan: ScanOptions,
}

impl TableOptions {
    /// The options of a schema, with those of a statement (`dynamic`) over them. Where a statement chooses a state or
    /// changes to read, that takes the place of all choices that the table carries.
    ///
    /// # Errors
    /// Invalid for a value that is not what its option takes, or for options that exclude each other.
    pub fn new(table: &BTreeMap<String, String>, dynamic: &BTreeMap<String, String>) -> Result<Self> {
        let values = Values::new(table, dynamic);
        // The column options are read as texts later: what is wrong with one is said here.
        let mut sequence_groups = Vec::new();
        for (key, value) in &values.0 {
            let Some(found) = lookup(key) else { continue };
            if !found.def.key.starts_with("fields.<c>.") {
                continue;
            }
            check_value(found.def, key, value)?;
            if found.def.key == "fields.<c>.sequence-group" {
                let sequence = found.captured.and_then(Vec::from_text);
                let protected = Vec::from_text(value);
                let (Some(sequence), Some(protected)) = (sequence, protected) else {
                    return Err(Error::invalid(format!(
                        "option {key} = '{value}' must name columns in its key and in its value, parted by commas"
                    )));
                };
                sequence_groups.push(SequenceGroup { sequence, protected });
            }
        }
        let trigger: i32 = values.required("num-sorted-run.compaction-trigger")?;
        let bytes = |key| values.required::<MemorySize>(key).map(|size| size.0);
        let list = |key| values.value::<Vec<String>>(key).map(Option::unwrap_or_default);
        Ok(Self {
            bucket: values.required("bucket")?,
            bucket_key: values.value("bucket-key")?.filter(|columns: &Vec<String>| !columns.is_empty()),
            bucket_function: values.required("bucket-function.type")?,
            merge_engine: values.required("merge-engine")?,
            changelog_producer: values.required("changelog-producer")?,
            sequence_fields: list("sequence.field")?,
            sequence_descending: values
                .required::<String>("sequence.field.sort-order")?
                .eq_ignore_ascii_case("descending"),
            sequence_snapshot_ordering: values.required("sequence.snapshot-ordering")?,
            ignore_delete: values.required("ignore-delete")?,
            ignore_update_before: values.required("ignore-update-before")?,
            rowkind_field: values.value("rowkind.field")?,
            partial_update_remove_record_on_delete: values.required("partial-update.remove-record-on-delete")?,
            partial_update_remove_record_on_sequence_group: list("partial-update.remove-record-on-sequence-group")?,
            aggregation_remove_record_on_delete: values.required("aggregation.remove-record-on-delete")?,
            default_aggregate_function: values.value("fields.default-aggregate-function")?,
            sequence_groups,
            deletion_vectors_enabled: values.required("deletion-vectors.enabled")?,
            deletion_vectors_bitmap64: values.required("deletion-vectors.bitmap64")?,
            deletion_vector_file_size: bytes("deletion-vector.index-file.target-size")?,
            delete_force_produce_changelog: values.required("delete.force-produce-changelog")?,
            deletion_vectors_merge_on_read: values.required("deletion-vectors.merge-on-read")?,
            force_lookup: values.required("force-lookup")?,
            num_levels: values.value("num-levels")?.unwrap_or_else(|| trigger.saturating_add(1)),
            full_compaction_delta_commits: values.value("full-compaction.delta-commits")?,
            file_format: values.required::<String>("file.format")?.to_ascii_lowercase(),
            data_file_path_directory: values
                .value("data-file.path-directory")?
                .map(|directory: String| directory.trim_matches('/').to_owned())
                .filter(|directory| !directory.is_empty()),
            index_file_in_data_file_dir: values.required("index-file-in-data-file-dir")?,
            partition_default_name: values.required("partition.default-name")?,
            partition_legacy_name: values.required("partition.legacy-name")?,
            file_index_read_enabled: values.required("file-index.read.enabled")?,
            split_target_size: bytes("source.split.target-size")?,
            split_open_file_cost: bytes("source.split.open-file-cost")?,
            row_tracking: values.required("row-tracking.enabled")?,
            data_evolution: values.required("data-evolution.enabled")?,
            pk_clustering_override: values.required("pk-clustering-override")?,
            clustering_columns: list("clustering.columns")?,
            sequence_number_in_changes: values.required("table-read.sequence-number.enabled")?,
            branch: values.required("branch")?,
            fallback_branch: values.value("scan.fallback-branch")?,
            primary_branch: values.value("scan.primary-branch")?,
            chain_table: values.required("chain-table.enabled")?,
            table_type: values.required::<String>("type")?.to_ascii_lowercase(),
            scan: ScanOptions::new(&values)?,
            values,
        })
    }

    /// Whether reads and compactions follow the lookup merge rule (`spec/data.md 4.3`): of the records of one key those of
    /// level 0 and the one of the smallest level above count.
    pub fn needs_lookup(&self) -> bool {
        self.changelog_producer == ChangelogProducer::Lookup
            || self.deletion_vectors_enabled
            || self.merge_engine == MergeEngine::FirstRow
            || self.force_lookup
    }

    /// The text of an option, its default if it is not set.
    pub fn get(&self, key: &str) -> Option<&str> {
        let key = lookup(key).map_or(key, |found| found.key);
        self.values.text(key)
    }

    /// Whether the table or the statement sets an option.
    pub fn is_set(&self, key: &str) -> bool {
        self.values.is_set(lookup(key).map_or(key, |found| found.key))
    }

    /// The value of an option, its default if it is not set; None if it has none.
    ///
    /// # Errors
    /// Invalid when the text is no such value, internal when the option is in no table of options.
    pub fn value<T: OptionValue>(&self, key: &str) -> Result<Option<T>> {
        self.values.value(lookup(key).map_or(key, |found| found.key))
    }

    /// All options that the table or the statement sets, by their canonical keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The option `fields.<column>.<name>`, if it is set.
    pub fn field_option(&self, column: &str, name: &str) -> Option<&str> {
        self.values.0.get(&format!("fields.{column}.{name}")).map(String::as_str)
    }

    /// `fields.<column>.aggregate-function`. The default for all columns is [`Self::default_aggregate_function`].
    pub fn aggregate_function(&self, column: &str) -> Option<&str> {
        self.field_option(column, "aggregate-function")
    }

    /// `fields.<column>.ignore-retract`.
    pub fn ignore_retract(&self, column: &str) -> bool {
        self.field_flag(column, "ignore-retract")
    }

    /// `fields.<column>.distinct`.
    pub fn distinct(&self, column: &str) -> bool {
        self.field_flag(column, "distinct")
    }

    /// `fields.<column>.list-agg-delimiter`, a comma unless told.
    pub fn list_agg_delimiter(&self, column: &str) -> &str {
        self.field_option(column, "list-agg-delimiter").unwrap_or(",")
    }

    /// `fields.<column>.nested-key`: columns of the nested rows; empty: they have no key.
    pub fn nested_key(&self, column: &str) -> Vec<String> {
        self.field_list(column, "nested-key")
    }

    /// `fields.<column>.nested-key-null-strategy`.
    pub fn nested_key_null_strategy(&self, column: &str) -> NestedKeyNullStrategy {
        self.field_option(column, "nested-key-null-strategy")
            .and_then(NestedKeyNullStrategy::from_text)
            .unwrap_or(NestedKeyNullStrategy::Merge)
    }

    /// `fields.<column>.nested-sequence-field`: columns of the nested rows.
    pub fn nested_sequence_fields(&self, column: &str) -> Vec<String> {
        self.field_list(column, "nested-sequence-field")
    }

    /// `fields.<column>.count-limit`: most nested rows.
    pub fn count_limit(&self, column: &str) -> i32 {
        self.field_option(column, "count-limit").and_then(i32::from_text).unwrap_or(i32::MAX)
    }

    /// `fields.<column>.ts-field`; None: the last column of the value row.
    pub fn ts_field(&self, column: &str) -> Option<&str> {
        self.field_option(column, "ts-field")
    }

    // `new` has checked the values of all column options, so that what is unset is all that falls back to a default here.

    fn field_flag(&self, column: &str, name: &str) -> bool {
        self.field_option(column, name).and_then(bool::from_text).unwrap_or(false)
    }

    fn field_list(&self, column: &str, name: &str) -> Vec<String> {
        self.field_option(column, name).and_then(Vec::from_text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::options::{Level0, ScanMode};

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn view(pairs: &[(&str, &str)]) -> TableOptions {
        TableOptions::new(&map(pairs), &BTreeMap::new()).unwrap()
    }

    #[test]
    fn new_when_nothing_is_set_then_defaults() {
        let options = view(&[]);
        assert_eq!(options.bucket, -1);
        assert_eq!(options.bucket_key, None);
        assert_eq!(options.bucket_function, BucketFunction::Default);
        assert_eq!(options.merge_engine, MergeEngine::Deduplicate);
        assert_eq!(options.changelog_producer, ChangelogProducer::None);
        assert!(options.sequence_fields.is_empty() && options.sequence_groups.is_empty());
        assert!(!options.sequence_descending && !options.ignore_delete && !options.needs_lookup());
        assert_eq!(options.num_levels, 6);
        assert_eq!(options.file_format, "parquet");
        assert_eq!(options.partition_default_name, "__DEFAULT_PARTITION__");
        assert!(options.partition_legacy_name && options.file_index_read_enabled);
        assert_eq!((options.split_target_size, options.split_open_file_cost), (128 << 20, 4 << 20));
        assert_eq!((options.branch.as_str(), options.table_type.as_str()), ("main", "table"));
        assert!(options.scan.is_latest());
        assert_eq!(options.scan.level0, Level0::Merge);
    }

    #[test]
    fn new_when_columns_have_options_then_parsed() {
        let options = view(&[
            ("merge-engine", "partial-update"),
            ("fields.g1.sequence-group", "a, b"),
            ("fields.g2,g3.sequence-group", "c"),
            ("fields.a.aggregate-function", "listagg"),
            ("fields.a.list-agg-delimiter", " | "),
            ("fields.a.distinct", "TRUE"),
            ("fields.n.nested-key", "k1, k2"),
            ("fields.n.count-limit", "3"),
            ("fields.n.nested-key-null-strategy", "ERROR"),
            ("fields.x.y.ignore-retract", "true"),
            ("fields.default-aggregate-function", "last_value"),
        ]);
        let group = |sequence: &[&str], protected: &[&str]| SequenceGroup {
            sequence: sequence.iter().map(|&name| name.to_owned()).collect(),
            protected: protected.iter().map(|&name| name.to_owned()).collect(),
        };
        assert_eq!(options.sequence_groups, [group(&["g1"], &["a", "b"]), group(&["g2", "g3"], &["c"])]);
        assert_eq!(options.aggregate_function("a"), Some("listagg"));
        assert_eq!(options.list_agg_delimiter("a"), " | ");
        assert_eq!(options.list_agg_delimiter("b"), ",");
        assert!(options.distinct("a") && !options.distinct("b"));
        assert_eq!(options.nested_key("n"), ["k1", "k2"]);
        assert_eq!((options.count_limit("n"), options.count_limit("a")), (3, i32::MAX));
        assert_eq!(options.nested_key_null_strategy("n"), NestedKeyNullStrategy::Error);
        assert!(options.ignore_retract("x.y"));
        assert_eq!(options.default_aggregate_function.as_deref(), Some("last_value"));
    }

    #[test]
    fn new_when_column_option_does_not_parse_then_error() {
        for (key, value) in
            [("fields.a.distinct", "yes"), ("fields.a.count-limit", "many"), ("fields.a,,b.sequence-group", "c")]
        {
            let error = TableOptions::new(&map(&[(key, value)]), &BTreeMap::new()).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
    }

    #[test]
    fn needs_lookup_when_any_reason_then_true() {
        for option in [
            ("changelog-producer", "lookup"),
            ("deletion-vectors.enabled", "true"),
            ("merge-engine", "first-row"),
            ("force-lookup", "true"),
        ] {
            assert!(view(&[option]).needs_lookup(), "{option:?}");
        }
        assert!(!view(&[("changelog-producer", "full-compaction")]).needs_lookup());
    }

    #[test]
    fn new_when_old_spellings_then_read_as_todays() {
        let options = view(&[("first-row.ignore-delete", "true"), ("write.compaction-skip", "true")]);
        assert!(options.ignore_delete);
        assert_eq!(options.get("write-only"), Some("true"));
        assert_eq!(options.value::<bool>("write.compaction-skip").unwrap(), Some(true));
    }

    #[test]
    fn num_levels_when_trigger_is_set_then_one_more() {
        assert_eq!(view(&[("num-sorted-run.compaction-trigger", "3")]).num_levels, 4);
        assert_eq!(view(&[("num-sorted-run.compaction-trigger", "3"), ("num-levels", "6")]).num_levels, 6);
    }

    #[test]
    fn new_when_statement_travels_then_the_tables_own_travel_is_gone() {
        let table = map(&[("scan.tag-name", "a"), ("scan.mode", "from-snapshot"), ("bucket", "2")]);
        let options = TableOptions::new(&table, &map(&[("incremental-between", "1,3")])).unwrap();
        assert_eq!(options.scan.mode(), ScanMode::Incremental);
        assert_eq!(options.scan.tag_name, None);
        assert_eq!(options.bucket, 2);
        let options = TableOptions::new(&table, &map(&[("file-index.read.enabled", "false")])).unwrap();
        assert_eq!(options.scan.tag_name.as_deref(), Some("a"));
    }

    #[test]
    fn value_when_set_unset_or_unknown_then_value_default_or_error() {
        let options = view(&[("snapshot.time-retained", "2 h"), ("target-file-size", "x"), ("owner", "root")]);
        assert_eq!(options.value::<Duration>("snapshot.time-retained").unwrap(), Some(Duration::from_secs(7200)));
        assert_eq!(options.value::<i32>("snapshot.num-retained.min").unwrap(), Some(10));
        assert_eq!(options.value::<i32>("tag.num-retained-max").unwrap(), None);
        assert!(options.value::<MemorySize>("target-file-size").is_err());
        assert!(options.value::<String>("owner").is_err());
        assert_eq!(options.get("owner"), Some("root"));
        assert!(options.is_set("owner") && !options.is_set("bucket"));
    }

    #[test]
    fn data_file_path_directory_when_slashes_around_then_trimmed() {
        assert_eq!(
            view(&[("data-file.path-directory", "/some/where/")]).data_file_path_directory.as_deref(),
            Some("some/where")
        );
    }
}
