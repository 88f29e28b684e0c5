//! Options that are set and removed, and which of them stay as they are once there is data (`spec/metadata.md 2.5`).

use std::collections::BTreeMap;

use super::Alteration;
use crate::error::{Error, Result};
use crate::options::{Kind, OptionDef, check_known, check_values, lookup};
use crate::table::validate::check_settable;

/// Options that say how files which are there lie or are read, besides those marked as immutable.
const FIXED: [(&str, &str); 4] = [
    ("ignore-delete", "rows that it would have left out are in its files"),
    ("partition.legacy-name", "the folders of its partitions are named by it"),
    ("partition.default-name", "a folder of its partitions is named by it"),
    ("dynamic-bucket.initial-buckets", "rows were put into buckets by it"),
];

impl Alteration {
    pub(super) fn set_option(&mut self, key: &str, value: &str) -> Result<()> {
        let set = BTreeMap::from([(key.to_owned(), value.to_owned())]);
        check_known(&set)?;
        check_values(&set)?;
        let Some(found) = lookup(key) else { return Ok(()) };
        self.refuse_keys(found.key)?;
        self.check_change(found.def, found.key, Some(value))?;
        // An old option of the same meaning under another spelling must not win over the new one.
        self.forget(found.key);
        check_settable(&set)?;
        self.next.options.extend(set);
        Ok(())
    }

    pub(super) fn remove_option(&mut self, key: &str) -> Result<()> {
        let Some(found) = lookup(key) else {
            // Foreign keys on disk may be removed, whatever they mean.
            return match self.next.options.remove(key) {
                Some(_) => Ok(()),
                None => check_known(&BTreeMap::from([(key.to_owned(), String::new())])),
            };
        };
        self.refuse_keys(found.key)?;
        // Of an option that shapes the files it does not count whether it is set.
        if self.has_snapshots && (found.key == "bucket" || found.def.immutable) {
            return Err(Error::invalid(format!("option {} can't be reset once the table holds data", found.key)));
        }
        self.check_change(found.def, found.key, None)?;
        self.forget(found.key);
        Ok(())
    }

    /// Removes an option under all of its spellings.
    fn forget(&mut self, canonical: &str) {
        self.next.options.retain(|key, _| lookup(key).is_none_or(|found| found.key != canonical));
    }

    fn refuse_keys(&self, key: &str) -> Result<()> {
        if matches!(key, "primary-key" | "partition") {
            return Err(Error::invalid(format!(
                "option {key} is for CREATE TABLE only; the keys of a table stay as they are"
            )));
        }
        Ok(())
    }

    /// The text that holds for an option: set under any spelling, or the default.
    fn effective(&self, def: &'static OptionDef, canonical: &str) -> Option<String> {
        let exact = self.next.options.get(canonical);
        let alias = || def.aliases.iter().find_map(|alias| self.next.options.get(*alias));
        exact.or_else(alias).map(String::as_str).or(def.default).map(str::to_owned)
    }

    fn check_change(&self, def: &'static OptionDef, key: &str, value: Option<&str>) -> Result<()> {
        let before = self.effective(def, key);
        let after = value.or(def.default);
        if !self.has_snapshots || is_same(def, before.as_deref(), after) {
            return Ok(());
        }
        let shown = |value: Option<&str>| value.map_or_else(|| "unset".to_owned(), |value| format!("'{value}'"));
        let refused = |why: &str| {
            Err(Error::invalid(format!(
                "option {key} can't be changed from {} to {} once the table holds data: {why}",
                shown(before.as_deref()),
                shown(after)
            )))
        };
        const ANEW: &str = "create a new table with it and insert into it from this one";
        if def.immutable {
            return refused(ANEW);
        }
        if let Some((_, why)) = FIXED.iter().find(|(fixed, _)| *fixed == key) {
            return refused(&format!("{why}; {ANEW}"));
        }
        let is = |value: Option<&str>, wanted: &str| value.is_some_and(|value| value.eq_ignore_ascii_case(wanted));
        match key {
            "bucket" if is(before.as_deref(), "-1") || is(after, "-1") => {
                refused(&format!("tables with and without a bucket count keep their rows in different ways; {ANEW}"))
            }
            "deletion-vectors.enabled" if !self.flag("deletion-vectors.modifiable", false) => refused(
                "files that no deletion vectors were made for could show rows twice; compact the table fully and set \
                 'deletion-vectors.modifiable' = 'true' first",
            ),
            "ignore-update-before" if is(before.as_deref(), "true") => {
                refused(&format!("rows that it left out are not in its files; {ANEW}"))
            }
            "clustering.columns" if self.flag("pk-clustering-override", false) => {
                refused(&format!("its files are sorted by them; {ANEW}"))
            }
            _ => Ok(()),
        }
    }
}

/// Whether two texts mean the same value of an option.
fn is_same(def: &OptionDef, before: Option<&str>, after: Option<&str>) -> bool {
    match (before, after) {
        (None, None) => true,
        (Some(before), Some(after)) => match def.kind {
            Kind::Bool | Kind::Enum(_) => before.eq_ignore_ascii_case(after),
            Kind::List => before.split(',').map(str::trim).eq(after.split(',').map(str::trim)),
            Kind::Int { .. } | Kind::Long { .. } => match (before.parse::<i64>(), after.parse::<i64>()) {
                (Ok(before), Ok(after)) => before == after,
                _ => before == after,
            },
            _ => before == after || (def.key == "bucket" && before.parse::<i32>().ok() == after.parse::<i32>().ok()),
        },
        _ => false,
    }
}
