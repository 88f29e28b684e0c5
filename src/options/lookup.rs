//! Finding an option by its key: exact keys first, then old spellings, then families with a name inside, the longest match
//! first. Imports `def` and `table`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::def::OptionDef;
use super::table;

/// An option found by a key.
#[derive(Clone, Copy, Debug)]
pub struct Found<'k> {
    /// What is known of it.
    pub def: &'static OptionDef,
    /// What stands for the placeholder of a family: the column of `fields.<c>.distinct`.
    pub captured: Option<&'k str>,
    /// The key itself for a family, else the option's key even where the key looked up was an old spelling.
    pub key: &'k str,
}

struct Index {
    exact: HashMap<&'static str, &'static OptionDef>,
    /// Prefix, suffix and definition of each family, longest first.
    families: Vec<(&'static str, &'static str, &'static OptionDef)>,
}

static TABLE_INDEX: LazyLock<Index> = LazyLock::new(|| Index::new(table::TABLE));
static CATALOG_INDEX: LazyLock<Index> = LazyLock::new(|| Index::new(&[table::CATALOG]));

impl Index {
    fn new(parts: &[&'static [OptionDef]]) -> Self {
        let defs = || parts.iter().flat_map(|part| part.iter());
        let mut exact = HashMap::new();
        let mut families = Vec::new();
        for def in defs() {
            match def.affixes() {
                Some((prefix, suffix)) => families.push((prefix, suffix, def)),
                None => {
                    exact.insert(def.key, def);
                }
            }
        }
        for def in defs() {
            for alias in def.aliases {
                exact.entry(alias).or_insert(def);
            }
        }
        families.sort_by_key(|(prefix, suffix, _)| std::cmp::Reverse(prefix.len() + suffix.len()));
        Self { exact, families }
    }

    fn find<'k>(&self, key: &'k str) -> Option<Found<'k>> {
        if let Some(def) = self.exact.get(key) {
            return Some(Found { def, captured: None, key: def.key });
        }
        self.families.iter().find_map(|(prefix, suffix, def)| {
            let captured = key.strip_prefix(prefix)?.strip_suffix(suffix)?;
            (!captured.is_empty()).then_some(Found { def, captured: Some(captured), key })
        })
    }
}

/// The option of a table, or of a read of one, with this key.
pub fn lookup(key: &str) -> Option<Found<'_>> {
    TABLE_INDEX.find(key)
}

/// The option of a catalog with this key.
pub fn lookup_catalog(key: &str) -> Option<Found<'_>> {
    CATALOG_INDEX.find(key)
}

/// All options of tables and reads, by area.
pub fn all() -> impl Iterator<Item = &'static OptionDef> {
    table::TABLE.iter().flat_map(|part| part.iter())
}

/// All options of catalogs.
pub fn all_catalog() -> impl Iterator<Item = &'static OptionDef> {
    table::CATALOG.iter()
}

/// The key most like an unknown one, if one is so like it that it may have been meant; a family's name is kept.
pub fn nearest(key: &str) -> Option<String> {
    nearest_among(all(), key)
}

pub(super) fn nearest_among(defs: impl Iterator<Item = &'static OptionDef>, key: &str) -> Option<String> {
    let wanted = key.to_ascii_lowercase();
    let mut best: Option<(usize, String)> = None;
    let mut offer = |candidate: String| {
        let distance = edit_distance(&wanted, &candidate.to_ascii_lowercase());
        if best.as_ref().is_none_or(|(least, _)| distance < *least) {
            best = Some((distance, candidate));
        }
    };
    for def in defs {
        match def.affixes() {
            Some((prefix, suffix)) => {
                if let Some(name) = middle(key, prefix, suffix) {
                    offer(format!("{prefix}{name}{suffix}"));
                }
            }
            None => offer(def.key.to_owned()),
        }
        for alias in def.aliases {
            offer((*alias).to_owned());
        }
    }
    let limit = (wanted.chars().count() / 3).clamp(1, 6);
    best.filter(|(distance, _)| *distance <= limit).map(|(_, candidate)| candidate)
}

/// The one of `candidates` that `wanted` was most likely meant to be; `None` when nothing is like it.
pub fn nearest_of<'a>(wanted: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = wanted.to_ascii_lowercase();
    let limit = (wanted.chars().count() / 3).clamp(1, 6);
    let distances = candidates.into_iter().map(|name| (edit_distance(&wanted, &name.to_ascii_lowercase()), name));
    distances.filter(|(distance, _)| *distance <= limit).min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

/// What stands in `key` where a family has its placeholder, judged by the number of dots before and after.
fn middle<'k>(key: &'k str, prefix: &str, suffix: &str) -> Option<&'k str> {
    if suffix.is_empty() || prefix.is_empty() {
        return None;
    }
    let start = key.match_indices('.').nth(prefix.matches('.').count().checked_sub(1)?)?.0 + 1;
    let end = key.rmatch_indices('.').nth(suffix.matches('.').count().checked_sub(1)?)?.0;
    key.get(start..end).filter(|name| !name.is_empty())
}

/// Insertions, deletions, replacements and swaps of neighbours that make one text of the other.
fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for i in 1..=left.len() {
        let mut row = vec![i];
        for j in 1..=right.len() {
            let replaced = last[j - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_when_key_holds_a_column_then_column_is_captured() {
        let found = lookup("fields.qty.aggregate-function").unwrap();
        assert_eq!(found.def.key, "fields.<c>.aggregate-function");
        assert_eq!(found.captured, Some("qty"));
        let found = lookup("fields.a.b,c.sequence-group").unwrap();
        assert_eq!(found.captured, Some("a.b,c"));
        let found = lookup("file-index.bloom-filter.m[a.b].items").unwrap();
        assert_eq!(found.captured, Some("m[a.b]"));
    }

    #[test]
    fn lookup_when_families_overlap_then_exact_key_and_longest_match_win() {
        assert_eq!(lookup("fields.default-aggregate-function").unwrap().captured, None);
        assert_eq!(lookup("parquet.enable.dictionary").unwrap().def.key, "parquet.enable.dictionary");
        assert_eq!(lookup("parquet.block.size").unwrap().def.key, "parquet.*");
        assert_eq!(lookup("parquet.variant.shreddingSchema").unwrap().def.key, "variant.shreddingSchema");
        assert_eq!(lookup("fields.m.map.storage-layout").unwrap().def.key, "fields.<c>.map.storage-layout");
    }

    #[test]
    fn lookup_when_old_spelling_then_key_is_todays() {
        let found = lookup("write.compaction-skip").unwrap();
        assert_eq!((found.def.key, found.key), ("write-only", "write-only"));
        assert_eq!(lookup("partial-update.ignore-delete").unwrap().key, "ignore-delete");
        assert_eq!(lookup("file.compression").unwrap().def.key, "file.compression");
    }

    #[test]
    fn lookup_when_no_option_then_none() {
        for key in ["owner", "provider", "fields..distinct", "parquet.", "Bucket", "", "warehouse"] {
            assert!(lookup(key).is_none(), "{key}");
        }
        assert!(lookup_catalog("warehouse").is_some());
    }

    #[test]
    fn nearest_when_slip_of_the_pen_then_option_meant() {
        let cases = [
            ("bucketkey", "bucket-key"),
            ("bukcet", "bucket"),
            ("merge_engine", "merge-engine"),
            ("seqence.field", "sequence.field"),
            ("snapshot.retained.min", "snapshot.num-retained.min"),
            ("fields.qty.agregate-function", "fields.qty.aggregate-function"),
            ("field.qty.distinct", "fields.qty.distinct"),
            ("file-index.bloom-filter.c.item", "file-index.bloom-filter.c.items"),
            ("WRITE-ONLY", "write-only"),
            ("scan.snapshotid", "scan.snapshot-id"),
        ];
        for (key, meant) in cases {
            assert_eq!(nearest(key).as_deref(), Some(meant), "{key}");
        }
    }

    #[test]
    fn nearest_when_nothing_like_it_then_none() {
        for key in ["zzz", "completely.different.thing.altogether", "", "owner"] {
            assert_eq!(nearest(key), None, "{key}");
        }
    }

    #[test]
    fn edit_distance_when_neighbours_swap_then_one() {
        assert_eq!(edit_distance("ab", "ba"), 1);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}
