//! Checks of whole maps of options: of a statement, of a hint, of a table on disk. Imports `error`, `lookup`, `def`.

use std::collections::BTreeMap;

use super::def::{OptionDef, Reading};
use super::lookup::{Found, all, all_catalog, lookup, lookup_catalog, nearest_among};
use crate::error::{Error, Result};

/// Refuses options that are not known. For what a statement brings: CREATE, ALTER, hints.
///
/// # Errors
/// Invalid, with the option and the nearest known one.
pub fn check_known(options: &BTreeMap<String, String>) -> Result<()> {
    match options.keys().find(|key| lookup(key).is_none()) {
        Some(key) => Err(unknown("option", key, all())),
        None => Ok(()),
    }
}

/// Checks the options of a catalog: each known and of the right form, none asking for what is not built;
/// `table-default.<option>` must name an option of tables and a value of it.
///
/// # Errors
/// Invalid or unsupported, with the option and the nearest known one or the remedy.
pub fn check_catalog(options: &BTreeMap<String, String>) -> Result<()> {
    for (key, value) in options {
        let Some(found) = lookup_catalog(key) else {
            return Err(unknown("catalog option", key, all_catalog()));
        };
        if let Some(option) = key.strip_prefix("table-default.") {
            let Some(default) = lookup(option) else { return Err(unknown("option", option, all())) };
            check_value(default.def, option, value)?;
        }
        check_read(&found, key, value, options)?;
        check_value(found.def, key, value)?;
    }
    Ok(())
}

fn unknown(what: &str, key: &str, defs: impl Iterator<Item = &'static OptionDef>) -> Error {
    let hint = nearest_among(defs, key).map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
    Error::invalid(format!("unknown {what} {key}{hint}"))
}

/// Refuses values that are not what their option takes; unknown options pass.
///
/// # Errors
/// Invalid, with the option, the value and what is accepted.
pub fn check_values(options: &BTreeMap<String, String>) -> Result<()> {
    for (key, value) in options {
        if let Some(found) = lookup(key) {
            check_value(found.def, key, value)?;
        }
    }
    Ok(())
}

pub(super) fn check_value(def: &OptionDef, key: &str, value: &str) -> Result<()> {
    if def.kind.accepts(value) { Ok(()) } else { Err(bad_value(def, key, value)) }
}

pub(super) fn bad_value(def: &OptionDef, key: &str, value: &str) -> Error {
    Error::invalid(format!("option {key} = '{value}' must be {}", def.kind.description()))
}

/// Refuses a table that this version would read wrongly: a known option with a value that changes what the files mean and
/// is not built, or a value of an option that readers use which does not parse. Unknown options pass: tables on disk
/// carry keys of engines and of other versions. Options that only writers use pass whatever they hold.
///
/// # Errors
/// Unsupported or invalid, with the option, the value and the remedy.
pub fn check_readable(options: &BTreeMap<String, String>) -> Result<()> {
    let options = canonical(options);
    for (key, value) in &options {
        if let Some(found) = lookup(key) {
            check_read(&found, key, value, &options)?;
        }
    }
    Ok(())
}

fn check_read(found: &Found<'_>, key: &str, value: &str, options: &BTreeMap<String, String>) -> Result<()> {
    match found.def.reading {
        Reading::Harmless(_) => return Ok(()),
        Reading::Honoured => {}
        Reading::Refused(refusal) => {
            if (refusal.when)(value, options) {
                return Err(Error::unsupported(format!("option {key} = '{value}': {}", refusal.why)));
            }
        }
    }
    check_value(found.def, key, value)
}

/// Checks what a hint or a session setting brings to the read of a table with `table` options: every option known, its
/// value right, and none that says what the table's files are.
///
/// # Errors
/// Invalid or unsupported, with the option and the remedy.
pub fn check_dynamic(table: &BTreeMap<String, String>, dynamic: &BTreeMap<String, String>) -> Result<()> {
    check_known(dynamic)?;
    check_values(dynamic)?;
    let table = canonical(table);
    for (key, value) in dynamic {
        let Some(found) = lookup(key) else { continue };
        if !found.def.immutable && !FIXED_FOR_A_READ.contains(&found.def.key) {
            continue;
        }
        let current = table.get(found.key).map(String::as_str).or(found.def.default);
        if !current.is_some_and(|current| current.eq_ignore_ascii_case(value)) {
            return Err(Error::invalid(format!(
                "option {key} belongs to the table and can't be '{value}' for one statement (it is {}); use ALTER TABLE",
                current.map_or_else(|| "not set".to_owned(), |current| format!("'{current}'"))
            )));
        }
    }
    let mut merged = table;
    merged.extend(canonical(dynamic));
    check_readable(&merged)
}

/// Options that ALTER may change under conditions, but no single read.
const FIXED_FOR_A_READ: [&str; 3] = ["bucket", "path", "deletion-vectors.enabled"];

/// The options by their canonical keys. A key wins over its old spellings and the first of these over the second.
pub(super) fn canonical(options: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut ranked: BTreeMap<String, (usize, &String)> = BTreeMap::new();
    for (key, value) in options {
        let (canonical, rank) = match lookup(key) {
            Some(found) => {
                let rank = found.def.aliases.iter().position(|alias| alias == key).map_or(0, |position| position + 1);
                (found.key, if found.key == key { 0 } else { rank })
            }
            None => (key.as_str(), 0),
        };
        match ranked.get(canonical) {
            Some((other, _)) if *other <= rank => {}
            _ => {
                ranked.insert(canonical.to_owned(), (rank, value));
            }
        }
    }
    ranked.into_iter().map(|(key, (_, value))| (key, value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn check_known_when_slip_then_error_names_nearest() {
        let error = check_known(&map(&[("bucket", "1"), ("fields.a.distnct", "true")])).unwrap_err();
        assert_eq!(error.to_string(), "unknown option fields.a.distnct; did you mean fields.a.distinct?");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let error = check_known(&map(&[("nothing.like.this.at.all", "1")])).unwrap_err();
        assert_eq!(error.to_string(), "unknown option nothing.like.this.at.all");
    }

    #[test]
    fn check_catalog_when_table_default_then_its_option_is_checked() {
        check_catalog(&map(&[("warehouse", "/w"), ("metastore", "FileSystem"), ("table-default.bucket", "1")]))
            .unwrap();
        let cases = [
            (("table-default.bukcet", "1"), "unknown option bukcet; did you mean bucket?"),
            (("table-default.write-only", "1"), "option write-only = '1' must be true or false"),
            (("warehose", "/w"), "unknown catalog option warehose; did you mean warehouse?"),
            (("cache-enabled", "on"), "option cache-enabled = 'on' must be true or false"),
        ];
        for ((key, value), message) in cases {
            assert_eq!(check_catalog(&map(&[(key, value)])).unwrap_err().to_string(), message);
        }
        assert_eq!(check_catalog(&map(&[("metastore", "hive")])).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn check_values_when_value_is_wrong_then_error_says_what_is_accepted() {
        let cases = [
            (
                ("bucket", "0"),
                "option bucket = '0' must be -1 (dynamic), -2 (postpone) or a bucket count of at least 1",
            ),
            (("write-only", "yes"), "option write-only = 'yes' must be true or false"),
            (("num-levels", "0"), "option num-levels = '0' must be a whole number of at least 1"),
            (
                ("merge-engine", "upsert"),
                "option merge-engine = 'upsert' must be one of deduplicate, partial-update, aggregation, first-row",
            ),
            (
                ("target-file-size", "1 xb"),
                "option target-file-size = '1 xb' must be a memory size such as '64 mb' (b, kb, mb, gb, tb)",
            ),
            (
                ("snapshot.time-retained", "1 w"),
                "option snapshot.time-retained = '1 w' must be a time such as '10 min' (d, h, min, s, ms, µs, ns)",
            ),
            (("sequence.field", "a,,b"), "option sequence.field = 'a,,b' must be a list of names such as 'a,b'"),
        ];
        for ((key, value), message) in cases {
            assert_eq!(check_values(&map(&[(key, value)])).unwrap_err().to_string(), message);
        }
        check_values(&map(&[("owner", "root"), ("bucket", "-2"), ("metadata.stats-mode", "truncate(8)")])).unwrap();
    }

    #[test]
    fn check_readable_when_option_changes_what_files_mean_then_refused() {
        let refused = [
            ("type", "object-table"),
            ("fields.m.map.storage-layout", "shared-shredding"),
            ("file.format", "lance"),
            ("file.format.per.level", "0:avro,5:vortex"),
            ("changelog-file.format", "mosaic"),
            ("chain-table.enabled", "true"),
            ("query-auth.enabled", "TRUE"),
            ("blob-view-field", "b"),
            ("postpone.merge-on-read", "true"),
            ("batch-scan-mode", "compact"),
        ];
        for (key, value) in refused {
            let error = check_readable(&map(&[(key, value)])).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().starts_with(&format!("option {key} = '{value}': ")), "{error}");
        }
    }

    #[test]
    fn check_readable_when_foreign_harmless_or_default_then_passes() {
        let options = map(&[
            ("owner", "root"),
            ("provider", "paimon"),
            ("table.exec.sink", "x"),
            ("type", "TABLE"),
            ("file.format", "ORC"),
            ("chain-table.enabled", "false"),
            ("fields.m.map.storage-layout", "default"),
            ("write-buffer-size", "not a size"),
            ("streaming-read-mode", "log"),
        ]);
        check_readable(&options).unwrap();
    }

    #[test]
    fn check_readable_when_honoured_option_does_not_parse_then_error() {
        let error = check_readable(&map(&[("merge-engine", "newest")])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn check_readable_when_branch_of_chain_table_then_passes() {
        check_readable(&map(&[("chain-table.enabled", "true"), ("branch", "delta")])).unwrap();
    }

    #[test]
    fn check_dynamic_when_option_belongs_to_the_table_then_refused() {
        let table = map(&[("bucket", "2"), ("merge-engine", "aggregation")]);
        check_dynamic(&table, &map(&[("scan.snapshot-id", "1"), ("merge-engine", "Aggregation")])).unwrap();
        for (key, value) in [("merge-engine", "first-row"), ("bucket", "4"), ("deletion-vectors.enabled", "true")] {
            let error = check_dynamic(&table, &map(&[(key, value)])).unwrap_err();
            assert!(error.to_string().contains("ALTER TABLE"), "{error}");
        }
        assert!(check_dynamic(&table, &map(&[("scan.snapshot-id", "x")])).is_err());
        assert!(check_dynamic(&table, &map(&[("scan.snapshot", "1")])).is_err());
    }

    #[test]
    fn canonical_when_key_and_old_spellings_then_key_wins() {
        let options = canonical(&map(&[
            ("partial-update.ignore-delete", "a"),
            ("deduplicate.ignore-delete", "b"),
            ("write.compaction-skip", "c"),
            ("write-only", "d"),
            ("owner", "e"),
        ]));
        assert_eq!(options, map(&[("ignore-delete", "b"), ("write-only", "d"), ("owner", "e")]));
    }
}
