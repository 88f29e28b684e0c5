//! The table against the list of all options that the format knows, and against itself.

use std::collections::HashSet;

use super::{CATALOG, TABLE};
use crate::options::def::{OptionDef, Reading};
use crate::options::{Found, lookup, lookup_catalog, nearest};

const TABLE_KEYS: &str = include_str!("table_keys.txt");
const CATALOG_KEYS: &str = include_str!("catalog_keys.txt");

fn defs() -> impl Iterator<Item = &'static OptionDef> {
    TABLE.iter().flat_map(|part| part.iter())
}

fn check_list(list: &str, find: impl Fn(&str) -> Option<Found<'_>>) -> HashSet<&'static str> {
    let mut met = HashSet::new();
    for line in list.lines().filter(|line| !line.starts_with('#')) {
        if let Some((old, new)) = line.split_once(" -> ") {
            let found = find(old).unwrap_or_else(|| panic!("{old} is not in the table"));
            assert_eq!(found.key, new, "{old}");
            continue;
        }
        let (key, default) = match line.split_once(" = ").or_else(|| line.strip_suffix(" =").map(|key| (key, ""))) {
            Some((key, default)) => (key, Some(default.replace("\\n", "\n"))),
            None => (line.trim_end_matches(" ?"), None),
        };
        let found = find(key).unwrap_or_else(|| panic!("{key} is not in the table"));
        assert!(!found.def.aliases.contains(&key), "{key} is an old spelling only");
        if !line.ends_with(" ?") {
            assert_eq!(found.def.default, default.as_deref(), "{key}");
        }
        met.insert(found.def.key);
    }
    met
}

#[test]
fn table_when_compared_with_all_known_options_then_complete() {
    let met = check_list(TABLE_KEYS, lookup);
    // What is ours, or Flink's, is in no list of the format.
    let ours = ["paimon.scan.level0", "write.bad-records", "scan.remove-normalize"];
    let extra: Vec<&str> = defs().map(|def| def.key).filter(|key| !met.contains(key) && !ours.contains(key)).collect();
    assert_eq!(extra, [] as [&str; 0]);
    assert!(met.len() > 350, "{}", met.len());
}

#[test]
fn catalog_when_compared_with_all_known_options_then_complete() {
    assert_eq!(check_list(CATALOG_KEYS, lookup_catalog).len(), CATALOG.len());
}

#[test]
fn table_when_read_then_entries_are_sound() {
    let mut keys = HashSet::new();
    for def in defs().chain(CATALOG) {
        assert!(!def.doc.is_empty() && !def.doc.ends_with('.'), "{}: the text is a phrase", def.key);
        if let Some(default) = def.default {
            assert!(def.kind.accepts(default), "{}: {default:?} is not {}", def.key, def.kind.description());
        }
        match def.reading {
            Reading::Honoured => {}
            Reading::Harmless(why) => assert!(!why.is_empty() && !why.ends_with('.'), "{}", def.key),
            Reading::Refused(refusal) => {
                assert!(!refusal.why.is_empty() && !refusal.why.ends_with('.'), "{}", def.key);
                if let Some(default) = def.default {
                    assert!(!(refusal.when)(default, &Default::default()), "{}: the default is refused", def.key);
                }
            }
        }
    }
    for def in defs() {
        assert!(keys.insert(def.key), "{} stands twice", def.key);
    }
    let aliases: Vec<&str> = defs().flat_map(|def| def.aliases).copied().collect();
    for alias in &aliases {
        // Two options that share an old spelling, and one whose old spelling is another's key, are Java's own.
        let shared = ["lineSep", "file.compression"].contains(alias);
        assert!(shared || !keys.contains(alias), "{alias} is a key and an old spelling");
        assert!(shared || aliases.iter().filter(|other| *other == alias).count() == 1, "{alias} stands twice");
    }
}

#[test]
fn nearest_when_a_letter_is_lost_then_the_option_is_found_again() {
    for def in defs().filter(|def| def.affixes().is_none() && def.key.len() > 6).step_by(9) {
        let wrong = format!("{}{}", &def.key[..3], &def.key[4..]);
        if lookup(&wrong).is_none() {
            assert!(nearest(&wrong).is_some(), "{wrong}");
        }
    }
}
