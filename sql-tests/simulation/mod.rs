//! Writers, upkeep and readers at one table, each a process of its own that may be killed by SIGKILL at any time or at a labelled
//! point of a commit.
//!
//! Each writer owns some keys and inserts, deletes, updates and merges their rows, and all of them move counters whose sum stays
//! 0. Upkeep compacts, expires snapshots, deletes files that nothing refers to, merges manifests, makes and deletes tags. Readers
//! read the snapshots that retention promises. What must hold at all times: each writer finds the rows that its answered
//! statements say, with or without one that has no answer; no change of a counter is lost; a snapshot or a tag shows the same
//! whenever it is read; levels above 0 do not overlap. At the end nothing is left over, and nothing is missing.
//!
//! `TIDELAKE_SIMULATION_STEPS` says how many statements of writers are played (600; 10,000 is the long run), over all kinds of
//! tables; `TIDELAKE_SEED` plays what a failure named again, as far as processes allow. With `TIDELAKE_SIMULATION_KEEP` the
//! tables of failures are kept.

mod actors;
mod model;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use tidelake::LakeSession;
use tidelake::commit::fault;

use self::actors::{busy_place, state_place};
use self::model::{KINDS, Kind, NULL, Rows, SHARED, State, WRITERS};
use crate::child::{self, REACHED, kill, lines, numbers, open, runtime, text, texts};
use crate::deadline::within;
use crate::random::Random;

/// Snapshots that are kept.
const RETAINED: i64 = 25;

/// The file that tells the children to end.
const OVER: &str = "over";

/// One table after the other: each has enough processes of its own.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// One trial a kind of table.
pub fn trials() -> Vec<Trial> {
    let trial = |kind: &'static Kind| {
        Trial::test(format!("simulation::{}", kind.name), move || {
            let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
            let limit = limit()?;
            within(limit, move || simulate(kind))
                .map_err(|broken| Failed::from(broken.to_string()))?
                .map_err(Failed::from)
        })
    };
    KINDS.iter().map(trial).collect()
}

fn number(name: &str) -> Result<Option<u64>, String> {
    env::var(name).ok().map(|given| given.parse().map_err(|e| format!("{name}: {e}"))).transpose()
}

/// Statements of one writer.
fn steps() -> Result<u64, String> {
    let all = number("TIDELAKE_SIMULATION_STEPS")?.unwrap_or(600);
    Ok(all.div_ceil(KINDS.len() as u64 * WRITERS as u64))
}

fn limit() -> Result<Duration, String> {
    Ok(Duration::from_secs(240 + 5 * steps()?))
}

/// Runs the task of a child process.
pub fn run_child(task: Value) -> ExitCode {
    let limit = limit().unwrap_or(Duration::from_secs(240));
    child::work(&task.clone(), limit, async move { actors::run(&task).await })
}

/// One table with all that happens to it.
struct Play {
    kind: &'static Kind,
    folder: PathBuf,
    steps: u64,
    deaths: AtomicU64,
}

fn simulate(kind: &'static Kind) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(text)?;
    let play = Play { kind, folder: folder.path().to_path_buf(), steps: steps()?, deaths: AtomicU64::new(0) };
    let seed = number("TIDELAKE_SEED")?.unwrap_or_else(|| u64::from(std::process::id()) << 16 | kind.name.len() as u64);
    let began = Instant::now();
    let outcome = play.all(seed);
    if outcome.is_err() && env::var_os("TIDELAKE_SIMULATION_KEEP").is_some() {
        eprintln!("kept: {}", folder.keep().display());
    }
    let told = play.told();
    outcome.map_err(|error| format!("seed {seed}: {error}; {told}"))?;
    eprintln!("simulation::{}: seed {seed}, {told}, {:.0} s", kind.name, began.elapsed().as_secs_f64());
    Ok(())
}

/// What becomes of a child.
enum Fate {
    Lives,
    /// It is killed so long after it began.
    After(Duration),
    /// It is killed when it comes to a point for the n-th time.
    At(&'static str, u64),
}

impl Play {
    fn warehouse(&self) -> PathBuf {
        self.folder.join("wh")
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn table(&self) -> PathBuf {
        self.warehouse().join("db.db").join("t")
    }

    fn is_over(&self) -> bool {
        self.state().join(OVER).exists()
    }

    /// Does something in a session of its own.
    fn with_session<T>(&self, work: impl AsyncFnOnce(LakeSession) -> Result<T, String>) -> Result<T, String> {
        let warehouse = self.warehouse();
        runtime()?.block_on(async { work(open(&warehouse).await.map_err(text)?).await })
    }

    fn all(&self, seed: u64) -> Result<(), String> {
        fs::create_dir_all(self.state()).map_err(text)?;
        let definition = self.kind.definition;
        self.with_session(async |session| {
            let create = format!(
                "CREATE TABLE t (k BIGINT, w BIGINT, v BIGINT, x BIGINT{definition}, 'num-sorted-run.compaction-trigger' = '3', \
                 'snapshot.num-retained.min' = '{RETAINED}', 'snapshot.num-retained.max' = '{RETAINED}')"
            );
            for sql in ["CREATE DATABASE IF NOT EXISTS db", &create, &format!("INSERT INTO t VALUES {SHARED}")] {
                numbers(&session, sql).await.map_err(|error| format!("{sql}: {error}"))?;
            }
            Ok(())
        })?;
        let mut dice = Random(seed);
        let mut seed = || dice.next() >> 16;
        thread::scope(|scope| {
            let over = |outcome: Result<(), String>| {
                if outcome.is_err() {
                    // The others need not go on.
                    let _ = fs::write(self.state().join(OVER), "");
                }
                outcome
            };
            let mut start = |role: &'static str, number: i64| {
                let seed = seed();
                scope.spawn(move || over(self.live(role, number, seed)))
            };
            let others = [start("upkeep", 0), start("reader", 0)];
            let writers: Vec<_> = (0..WRITERS).map(|number| start("writer", number)).collect();
            let join = |lives: Vec<thread::ScopedJoinHandle<'_, Result<(), String>>>| -> Vec<String> {
                let ended = lives.into_iter().map(|life| life.join().unwrap_or_else(|_| Err("a panic".to_owned())));
                ended.filter_map(Result::err).collect()
            };
            let mut errors = join(writers);
            fs::write(self.state().join(OVER), "").map_err(text)?;
            errors.extend(join(others.into_iter().collect()));
            if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
        })?;
        self.with_session(async |session| self.check(&session).await)
    }

    /// The lives of a child, one after the other, until its work is done.
    fn live(&self, role: &'static str, number: i64, seed: u64) -> Result<(), String> {
        let mut dice = Random(seed);
        let name = format!("{role}-{number}");
        let state = self.state();
        loop {
            let fate = match dice.below(4) {
                _ if role == "reader" => Fate::Lives,
                0 => Fate::Lives,
                1 | 2 => Fate::After(Duration::from_millis(dice.below(3000) as u64)),
                _ => {
                    let points: Vec<&str> = match role {
                        "upkeep" => fault::POINTS.into_iter().chain(fault::EXPIRY_POINTS).collect(),
                        _ => fault::POINTS.to_vec(),
                    };
                    Fate::At(points[dice.below(points.len())], 1 + dice.below(6) as u64)
                }
            };
            let mut task = json!({
                "suite": "simulation", "role": role, "name": name, "number": number, "kind": self.kind.name,
                "warehouse": self.warehouse(), "state": state, "steps": self.steps, "seed": dice.next() >> 16,
            });
            if let Fate::At(label, hit) = fate {
                task["label"] = json!(label);
                task["hit"] = json!(hit);
            }
            let mut child = child::start(&task)?;
            let done = self.end(&mut child, &fate);
            if done.is_err() {
                // Whatever went wrong, no child goes on.
                let _ = kill(&mut child);
            }
            let done = done.map_err(|error| format!("{name}: {error}"))?;
            // It is not busy any more.
            let _ = fs::remove_file(busy_place(&state, &name));
            if done || self.is_over() {
                return Ok(());
            }
            self.deaths.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a child ended by itself.
    fn end(&self, child: &mut Child, fate: &Fate) -> Result<bool, String> {
        let mut said = lines(child)?;
        let begun = said.next().is_some();
        match fate {
            Fate::After(time) if begun => thread::sleep(*time),
            Fate::At(..) if begun && said.any(|line| line == REACHED) => {}
            _ => {
                let status = child.wait().map_err(text)?;
                return if status.success() { Ok(true) } else { Err(format!("ended with {status}")) };
            }
        }
        match child.try_wait().map_err(text)? {
            Some(status) if status.success() => Ok(true),
            Some(status) => Err(format!("ended with {status}")),
            None => kill(child).map(|()| false),
        }
    }

    /// What was done.
    fn told(&self) -> String {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for entry in fs::read_dir(self.state()).into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with("count-") {
                continue;
            }
            let kept: BTreeMap<String, u64> = fs::read_to_string(entry.path())
                .ok()
                .and_then(|kept| serde_json::from_str(&kept).ok())
                .unwrap_or_default();
            for (what, count) in kept {
                let what = if what.starts_with("done-") { "upkeep" } else { what.as_str() };
                *counts.entry(what.to_owned()).or_default() += count;
            }
        }
        let writers = (0..WRITERS).filter_map(|writer| State::read(&state_place(&self.state(), writer)).ok());
        let (statements, conflicts) = writers
            .fold((0, 0), |(statements, conflicts), state| (statements + state.played, conflicts + state.conflicts));
        let of = |what: &str| counts.get(what).copied().unwrap_or_default();
        format!(
            "{statements} statements ({conflicts} failed by conflict), {} steps of upkeep ({} by conflict), {} reads, {} deaths",
            of("upkeep"),
            of("conflict"),
            of("read"),
            self.deaths.load(Ordering::Relaxed)
        )
    }

    /// What must hold at the end.
    async fn check(&self, session: &LakeSession) -> Result<(), String> {
        self.check_rows(session).await?;
        if self.kind.has_key() {
            actors::levels(session).await?;
        }
        let run = async |sql: &str| texts(session, sql).await.map_err(|error| format!("{sql}: {error}"));
        for id in run("SELECT snapshot_id FROM `t$snapshots`").await? {
            run(&format!("SELECT * FROM `t@{}`", id[0])).await?;
        }
        let missing = run("CALL sys.remove_unexisting_files(`table` => 't', dry_run => true)").await?;
        if !missing.is_empty() {
            return Err(format!("files are missing: {missing:?}"));
        }
        // The last snapshot shall tell no changes, so that all files are those of the table.
        for tag in run("SELECT tag_name FROM `t$tags`").await? {
            run(&format!("CALL sys.delete_tag('t', '{}')", tag[0])).await?;
        }
        let expire_all = async || {
            let expire =
                "CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1, max_deletes => 1000)";
            while run(expire).await?[0][0] != "0" {}
            run("CALL sys.expire_changelogs(`table` => 't', delete_all => true)").await
        };
        expire_all().await?;
        let plain =
            "'changelog-producer' = 'none', 'changelog.num-retained.min' = '1', 'changelog.num-retained.max' = '1'";
        run(&format!("ALTER TABLE t SET ({plain})")).await?;
        run("INSERT INTO t VALUES (1000000, -1, 0, 0)").await?;
        run("CALL sys.compact('t')").await?;
        self.check_rows(session).await?;
        expire_all().await?;
        thread::sleep(Duration::from_millis(1200));
        let second_ago = std::time::SystemTime::now() - Duration::from_secs(1);
        let second_ago = second_ago.duration_since(std::time::UNIX_EPOCH).map_err(text)?.as_millis();
        run(&format!("CALL sys.remove_orphan_files(`table` => 't', older_than => '{second_ago}')")).await?;
        self.check_rows(session).await?;
        let (used, stored) = (self.used(session).await?, stored(&self.table())?);
        let left: Vec<_> = stored.difference(&used).collect();
        let missing: Vec<_> = used.difference(&stored).collect();
        if !left.is_empty() || !missing.is_empty() {
            return Err(format!("nothing refers to {left:?}, and {missing:?} are missing"));
        }
        Ok(())
    }

    /// The rows are those that the writers' statements say.
    async fn check_rows(&self, session: &LakeSession) -> Result<(), String> {
        let sql = format!("SELECT k, w, coalesce(v, {NULL}), coalesce(x, {NULL}) FROM t WHERE k < 1000000");
        let mut found: BTreeMap<i64, Rows> = BTreeMap::new();
        for row in numbers(session, &sql).await.map_err(text)? {
            if found.entry(row[1]).or_default().insert(row[0], (row[2], row[3])).is_some() {
                return Err(format!("key {} is there twice", row[0]));
            }
        }
        let (mut moved, mut perhaps) = (0, 0);
        for writer in 0..WRITERS {
            let state = State::read(&state_place(&self.state(), writer))?;
            let rows = found.remove(&writer).unwrap_or_default();
            if !state.worlds.contains(&rows) {
                let at = format!("all statements of writer {writer}");
                return Err(actors::differs(&at, &rows, &state.worlds[0]));
            }
            moved += state.moved;
            perhaps += state.perhaps_moved;
        }
        let counters = found.remove(&-1).unwrap_or_default();
        // What all write is there once, whoever was last.
        found.remove(&-2);
        let values: Vec<i64> = [-1, -2].iter().filter_map(|key| Some(counters.get(key)?.0)).collect();
        let right = matches!(values[..], [up, down] if up == -down && (moved..=moved + perhaps).contains(&up));
        if !right || !found.is_empty() {
            return Err(format!(
                "counters {values:?} after {moved} changes and {perhaps} without answer; rows of nobody: {found:?}"
            ));
        }
        Ok(())
    }

    /// The names of the files that the only snapshot refers to.
    async fn used(&self, session: &LakeSession) -> Result<BTreeSet<String>, String> {
        let run = async |sql: &str| texts(session, sql).await.map_err(|error| format!("{sql}: {error}"));
        let mut used = BTreeSet::new();
        for sql in [
            "SELECT file_path FROM `t$files`",
            "SELECT file_name FROM `t$manifests`",
            "SELECT file_name FROM `t$table_indexes`",
        ] {
            let name = |row: Vec<String>| row[0].rsplit('/').next().unwrap_or_default().to_owned();
            used.extend(run(sql).await?.into_iter().map(name));
        }
        let snapshots = run("SELECT snapshot_id FROM `t$snapshots`").await?;
        let [only] = snapshots.as_slice() else { return Err(format!("these snapshots are left: {snapshots:?}")) };
        let place = self.table().join("snapshot").join(format!("snapshot-{}", only[0]));
        let snapshot: Value = serde_json::from_str(&fs::read_to_string(place).map_err(text)?).map_err(text)?;
        for key in ["baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics"] {
            used.extend(snapshot[key].as_str().map(str::to_owned));
        }
        Ok(used)
    }
}

/// The names of the files in the folders of data and metadata.
fn stored(table: &Path) -> Result<BTreeSet<String>, String> {
    let mut stored = BTreeSet::new();
    let mut folders = vec![table.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(text)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                if !matches!(name.as_str(), "schema" | "snapshot" | "changelog" | "tag" | "branch" | "consumer") {
                    folders.push(entry.path());
                }
            } else {
                stored.insert(name);
            }
        }
    }
    Ok(stored)
}
