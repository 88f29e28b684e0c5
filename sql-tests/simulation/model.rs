//! What the table of a simulation must hold: the rows of each writer, as its statements say, whose answers may be lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::child::text;
use crate::random::Random;

/// Writers at one table.
pub const WRITERS: i64 = 3;

/// Keys of each writer: the numbers that leave its own number, divided by [`WRITERS`].
const KEYS: i64 = 24;

/// NULL in a model; no statement writes it.
pub const NULL: i64 = -1;

/// The rows of all writers: counters whose sum is 0 at all times.
pub const SHARED: &str = "(-1, -1, 0, 0), (-2, -1, 0, 0)";

/// What a table does with rows of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// There are no keys: nothing.
    Append,
    /// The last one wins.
    Last,
    /// `v` is added, `x` is the greatest one.
    Sum,
    /// Values other than NULL win.
    Partial,
}

/// A kind of table.
#[derive(Debug)]
pub struct Kind {
    pub name: &'static str,
    pub engine: Engine,
    /// What follows the columns k, w, v, x.
    pub definition: &'static str,
}

/// The kinds of tables.
pub const KINDS: [Kind; 11] = [
    Kind { name: "keyed", engine: Engine::Last, definition: ", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2'" },
    Kind {
        name: "vectors",
        engine: Engine::Last,
        definition: ", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2', 'deletion-vectors.enabled' = 'true'",
    },
    Kind {
        name: "lookup",
        engine: Engine::Last,
        definition: ", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2', 'changelog-producer' = 'lookup', \
                     'changelog.num-retained.min' = '40', 'changelog.num-retained.max' = '60'",
    },
    Kind {
        name: "input",
        engine: Engine::Last,
        definition: ", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '1', 'changelog-producer' = 'input'",
    },
    Kind {
        name: "dynamic",
        engine: Engine::Last,
        definition: ", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '-1', 'dynamic-bucket.target-row-num' = '20'",
    },
    Kind {
        name: "moving",
        engine: Engine::Last,
        definition: ", PRIMARY KEY (k) NOT ENFORCED) PARTITIONED BY (x) WITH ('bucket' = '-1', \
                     'dynamic-bucket.target-row-num' = '20'",
    },
    Kind {
        name: "sums",
        engine: Engine::Sum,
        definition: ", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2', 'merge-engine' = 'aggregation', \
                     'fields.v.aggregate-function' = 'sum', 'fields.x.aggregate-function' = 'max', \
                     'aggregation.remove-record-on-delete' = 'true'",
    },
    Kind {
        name: "partial",
        engine: Engine::Partial,
        definition: ", PRIMARY KEY (k) NOT ENFORCED) WITH ('bucket' = '2', 'merge-engine' = 'partial-update', \
                     'partial-update.remove-record-on-delete' = 'true'",
    },
    Kind {
        name: "append",
        engine: Engine::Append,
        definition: ") PARTITIONED BY (x) WITH ('compaction.min.file-num' = '3'",
    },
    Kind {
        name: "marks",
        engine: Engine::Append,
        definition: ") WITH ('deletion-vectors.enabled' = 'true', 'compaction.min.file-num' = '3'",
    },
    Kind {
        name: "buckets",
        engine: Engine::Append,
        definition: ") WITH ('bucket' = '2', 'bucket-key' = 'k', 'deletion-vectors.enabled' = 'true', \
                     'compaction.min.file-num' = '3'",
    },
];

impl Kind {
    pub fn named(name: &str) -> Result<&'static Self, String> {
        KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| format!("no kind {name}"))
    }

    pub fn has_key(&self) -> bool {
        self.engine != Engine::Append
    }
}

/// Rows of one writer: of each key `v` and `x`.
pub type Rows = BTreeMap<i64, (i64, i64)>;

/// What a writer knows, kept in a file so that the one that comes after it knows it too.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Statements begun.
    pub played: u64,
    /// What its rows may be: two possibilities when a statement has no answer.
    pub worlds: Vec<Rows>,
    /// Changes of the counters that were answered, and those that may be there.
    pub moved: i64,
    pub perhaps_moved: i64,
    /// Statements that failed because others were first.
    pub conflicts: u64,
}

impl State {
    /// The state in a file, or a new one.
    pub fn read(place: &Path) -> Result<Self, String> {
        let Ok(kept) = fs::read_to_string(place) else {
            return Ok(Self { worlds: vec![Rows::new()], ..Self::default() });
        };
        let kept: Value = serde_json::from_str(&kept).map_err(text)?;
        let number = |key: &str| kept[key].as_i64().unwrap_or_default();
        let worlds: Vec<Vec<(i64, i64, i64)>> = serde_json::from_value(kept["worlds"].clone()).map_err(text)?;
        Ok(Self {
            played: number("played") as u64,
            worlds: worlds.into_iter().map(|rows| rows.into_iter().map(|(k, v, x)| (k, (v, x))).collect()).collect(),
            moved: number("moved"),
            perhaps_moved: number("perhaps"),
            conflicts: number("conflicts") as u64,
        })
    }

    /// Keeps it in a file, whole or not at all.
    pub fn keep(&self, place: &Path) -> Result<(), String> {
        let rows = |rows: &Rows| rows.iter().map(|(k, (v, x))| (*k, *v, *x)).collect::<Vec<_>>();
        let kept = json!({
            "played": self.played,
            "worlds": self.worlds.iter().map(rows).collect::<Vec<_>>(),
            "moved": self.moved,
            "perhaps": self.perhaps_moved,
            "conflicts": self.conflicts,
        });
        write_whole(place, &kept.to_string())
    }
}

/// Writes a file, whole or not at all.
pub fn write_whole(place: &Path, content: &str) -> Result<(), String> {
    let unfinished = place.with_extension("tmp");
    fs::write(&unfinished, content).map_err(text)?;
    fs::rename(&unfinished, place).map_err(text)
}

/// A statement of a writer, and what it means.
#[derive(Debug)]
pub struct Statement {
    pub sql: String,
    /// The number of rows that it answers.
    pub answer: i64,
    /// The writer's rows after it.
    pub after: Rows,
    /// Whether it moves one from a counter to the other.
    pub moves: bool,
}

/// The next statement of a writer.
pub fn next_statement(kind: &Kind, writer: i64, number: u64, rows: &Rows, dice: &mut Random) -> Statement {
    // No two statements write the same value.
    let value = number as i64 * WRITERS + writer + 1;
    let same = |sql: String, answer, moves| Statement { sql, answer, after: rows.clone(), moves };
    match (kind.engine, dice.below(20)) {
        (Engine::Sum, 0..=3) => same("INSERT INTO t VALUES (-1, -1, 1, 0), (-2, -1, -1, 0)".to_owned(), 2, true),
        (_, 0..=3) => {
            same("UPDATE t SET v = v + CASE WHEN k = -1 THEN 1 ELSE -1 END WHERE k IN (-1, -2)".to_owned(), 2, true)
        }
        // Keys that all write, without asking what is there.
        (Engine::Last | Engine::Partial, 4) => {
            same(format!("INSERT INTO t VALUES (-3, -2, {value}, 0), (-4, -2, {value}, 0)"), 2, false)
        }
        (_, 4..=7) => delete(writer, rows, dice),
        (Engine::Last | Engine::Append | Engine::Partial, 8..=10) => update(writer, value, rows, dice),
        (Engine::Last | Engine::Append | Engine::Partial, 11..=13) => merge(writer, value, rows, dice),
        _ => insert(kind, writer, value, rows, dice),
    }
}

fn some_keys(writer: i64, dice: &mut Random) -> Vec<i64> {
    let mut keys: Vec<i64> =
        (0..1 + dice.below(8)).map(|_| dice.below(KEYS as usize) as i64 * WRITERS + writer).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().collect::<Vec<_>>().join(", ")
}

fn insert(kind: &Kind, writer: i64, value: i64, rows: &Rows, dice: &mut Random) -> Statement {
    let mut keys = some_keys(writer, dice);
    if !kind.has_key() {
        keys.retain(|key| !rows.contains_key(key));
        if keys.is_empty() {
            return delete(writer, rows, dice);
        }
    }
    let x = dice.below(3) as i64;
    let only = match kind.engine {
        Engine::Partial => dice.below(3),
        _ => 2,
    };
    let (columns, tuple) = match only {
        0 => ("k, w, v", "value"),
        1 => ("k, w, x", "x"),
        _ => ("k, w, v, x", "value, x"),
    };
    let mut after = rows.clone();
    for key in &keys {
        let old = rows.get(key).copied();
        let new = match (kind.engine, old) {
            (Engine::Sum, Some((v, greatest))) => (v + value, greatest.max(x)),
            (Engine::Partial, old) => {
                let (v, before) = old.unwrap_or((NULL, NULL));
                (if only == 1 { v } else { value }, if only == 0 { before } else { x })
            }
            _ => (value, x),
        };
        after.insert(*key, new);
    }
    let tuple = tuple.replace("value", &value.to_string()).replace('x', &x.to_string());
    let values = list(keys.iter().map(|key| format!("({key}, {writer}, {tuple})")));
    Statement {
        sql: format!("INSERT INTO t ({columns}) VALUES {values}"),
        answer: keys.len() as i64,
        after,
        moves: false,
    }
}

/// A condition that some rows of a writer satisfy, and their keys.
fn condition(writer: i64, rows: &Rows, dice: &mut Random) -> (String, Vec<i64>) {
    let of = |test: &dyn Fn(i64, i64, i64) -> bool| -> Vec<i64> {
        rows.iter().filter(|(k, (v, x))| test(**k, *v, *x)).map(|(k, _)| *k).collect()
    };
    match dice.below(4) {
        0 => {
            let keys = some_keys(writer, dice);
            (format!("k IN ({})", list(keys.iter().map(i64::to_string))), of(&|k, _, _| keys.contains(&k)))
        }
        1 => {
            let first = dice.below((KEYS * WRITERS) as usize) as i64;
            let last = first + dice.below((KEYS * WRITERS / 3) as usize) as i64;
            (format!("k BETWEEN {first} AND {last} AND w = {writer}"), of(&|k, _, _| (first..=last).contains(&k)))
        }
        2 => {
            let rest = dice.below(4) as i64;
            (format!("w = {writer} AND v % 4 = {rest}"), of(&|_, v, _| v != NULL && v % 4 == rest))
        }
        _ => {
            let (x, most) = (dice.below(3) as i64, dice.below((KEYS * WRITERS) as usize) as i64);
            (
                format!("k IN (SELECT y.k FROM t AS y WHERE y.w = {writer} AND y.x = {x} AND y.k < {most})"),
                of(&|k, _, of_row| of_row == x && k < most),
            )
        }
    }
}

fn delete(writer: i64, rows: &Rows, dice: &mut Random) -> Statement {
    let (condition, keys) = condition(writer, rows, dice);
    let mut after = rows.clone();
    after.retain(|key, _| !keys.contains(key));
    Statement { sql: format!("DELETE FROM t WHERE {condition}"), answer: keys.len() as i64, after, moves: false }
}

fn update(writer: i64, value: i64, rows: &Rows, dice: &mut Random) -> Statement {
    let (condition, keys) = condition(writer, rows, dice);
    let mut after = rows.clone();
    for key in &keys {
        if let Some((v, x)) = after.get_mut(key) {
            *v = value;
            *x = if *x == NULL { NULL } else { (*x + 1) % 3 };
        }
    }
    let sql = format!("UPDATE t SET v = {value}, x = (x + 1) % 3 WHERE {condition}");
    Statement { sql, answer: keys.len() as i64, after, moves: false }
}

fn merge(writer: i64, value: i64, rows: &Rows, dice: &mut Random) -> Statement {
    let keys = some_keys(writer, dice);
    let (x, rest) = (dice.below(3) as i64, dice.below(5) as i64);
    let mut after = rows.clone();
    for key in &keys {
        match after.get_mut(key) {
            Some(_) if key % 5 == rest => {
                after.remove(key);
            }
            Some((v, _)) => *v = value,
            None => {
                after.insert(*key, (value, x));
            }
        }
    }
    let source = list(keys.iter().map(|key| format!("({key}, {value})")));
    let sql = format!(
        "MERGE INTO t USING (SELECT * FROM (VALUES {source}) AS y(k, v)) AS s ON t.k = s.k WHEN MATCHED AND s.k % 5 = {rest} \
         THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, w, v, x) VALUES (s.k, {writer}, \
         s.v, {x})"
    );
    Statement { sql, answer: keys.len() as i64, after, moves: false }
}
