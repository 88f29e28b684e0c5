//! Damaged metadata, seeded: whatever is wrong in a table's files, a read panics never, loses no rows in silence and names the
//! table.
//!
//! Each step damages one metadata file of a copy of a fixture table (a bit, a byte, a stretch of zeros, a truncation), reads the
//! table and puts the file back. `TIDELAKE_MUTATIONS` says how many steps (2,000 unless told; 100,000 is the long run),
//! `TIDELAKE_SEED` where to begin; a failure prints the seed that repeats it.

use std::env;
use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use futures::FutureExt;
use libtest_mimic::{Failed, Trial};

use crate::fixtures::{self, copy_folder, entries, file_name};
use crate::random::Random;
use crate::session;

/// Group and table: a key table merged from level 0, one with deletion vectors, one that is folded, partitions, an append
/// table with an index.
const TABLES: [(&str, &str); 6] = [
    ("merge", "dedup_parquet_l0"),
    ("merge", "dedup_dv"),
    ("merge", "agg_parquet_l0"),
    ("merge", "dedup_levels"),
    ("partitions", "two_columns_append"),
    ("partitions", "three_columns_key"),
];

/// One trial a table.
pub fn trials() -> Vec<Trial> {
    TABLES
        .iter()
        .enumerate()
        .map(|(index, (group, table))| {
            Trial::test(format!("mutation::{group}::{table}"), move || run(index as u64, group, table))
        })
        .collect()
}

fn number(name: &str, default: u64) -> Result<u64, String> {
    match env::var(name) {
        Ok(text) => text.parse().map_err(|e| format!("{name}: {e}")),
        Err(_) => Ok(default),
    }
}

fn run(index: u64, group: &str, table: &str) -> Result<(), Failed> {
    let steps = number("TIDELAKE_MUTATIONS", 2_000)? / TABLES.len() as u64 + 1;
    let seed = number("TIDELAKE_SEED", 1)? + index * 1_000_003;
    let group = fixtures::own_group(group)?;
    let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let warehouse = folder.path().to_path_buf();
    let place = warehouse.join(format!("{}.db", group.database)).join(table);
    let source = group.warehouse.join(format!("{}.db", group.database)).join(table);
    copy_folder(&source, &place).map_err(|e| format!("copy {table}: {e}"))?;
    let mut files = Vec::new();
    for part in ["snapshot", "schema", "manifest", "index"] {
        if place.join(part).is_dir() {
            files.extend(entries(&place.join(part))?.into_iter().filter(|path| path.is_file()));
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let read = || -> Result<Result<usize, String>, String> {
        let work = async {
            let session = session::open(&warehouse, &group.database).await.map_err(|e| e.to_string())?;
            let (_, batches) = session.sql(&format!("SELECT * FROM {table}")).await.map_err(|e| e.to_string())?;
            Ok::<usize, String>(batches.iter().map(|batch| batch.num_rows()).sum())
        };
        runtime.block_on(AssertUnwindSafe(work).catch_unwind()).map_err(|_| "a panic".to_owned())
    };
    let rows = read()?.map_err(|e| format!("the table as it is: {e}"))?;
    for step in 0..steps {
        let seed = seed.wrapping_add(step.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let mut dice = Random(seed);
        let file = &files[dice.below(files.len())];
        let good = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
        let (bad, how) = damage(&good, &mut dice);
        write(file, &bad)?;
        let outcome = read();
        write(file, &good)?;
        let at = format!("seed {seed}: {how} of {}", file_name(file));
        match outcome {
            Err(panic) => return Err(format!("{at}: {panic}").into()),
            Ok(Err(error)) if !error.contains(table) => {
                return Err(format!("{at}: the error does not name the table: {error}").into());
            }
            // A file that was cut is noticed, or did not matter.
            Ok(Ok(found)) if how == "truncation" && found != rows => {
                return Err(format!("{at}: {found} rows instead of {rows}").into());
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

fn damage(good: &[u8], dice: &mut Random) -> (Vec<u8>, &'static str) {
    let mut bad = good.to_vec();
    if bad.is_empty() {
        return (vec![dice.below(256) as u8], "a byte more");
    }
    let at = dice.below(bad.len());
    match dice.below(4) {
        0 => {
            bad[at] ^= 1 << dice.below(8);
            (bad, "a bit")
        }
        1 => {
            bad[at] = dice.below(256) as u8;
            (bad, "a byte")
        }
        2 => {
            let end = (at + 1 + dice.below(32)).min(bad.len());
            bad[at..end].fill(0);
            (bad, "zeros")
        }
        _ => {
            bad.truncate(at);
            (bad, "truncation")
        }
    }
}

fn write(file: &PathBuf, bytes: &[u8]) -> Result<(), String> {
    // A new file each time, so that nothing that was remembered of the old one fits.
    let fresh = Path::new(file).with_extension("fresh");
    fs::write(&fresh, bytes).and_then(|()| fs::rename(&fresh, file)).map_err(|e| format!("{}: {e}", file.display()))
}
