//! The child processes of a simulation: writers, upkeep, readers.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tidelake::LakeSession;
use tidelake::commit::outcome_is_unknown;
use tidelake::error::ErrorKind;

use super::model::{Kind, NULL, Rows, State, Statement, WRITERS, next_statement, write_whole};
use super::{OVER, RETAINED};
use crate::child::{READY, numbers, open, say, text, texts};
use crate::random::Random;
use crate::session::SessionError;

/// Snapshots that are promised, less those that come while somebody reads one.
const PROMISED: i64 = RETAINED - 10;

/// How long before the oldest statement under way a file was written that cleaning may delete: clocks of file systems lag.
const MARGIN_MILLIS: i64 = 500;

/// One child.
pub struct Actor {
    kind: &'static Kind,
    name: String,
    number: i64,
    state: PathBuf,
    session: LakeSession,
    dice: Random,
    /// Statements that a writer is to play.
    steps: u64,
}

/// Does the task of a child.
pub async fn run(task: &Value) -> Result<(), String> {
    let word = |key: &str| task[key].as_str().unwrap_or_default();
    let actor = Actor {
        kind: Kind::named(word("kind"))?,
        name: word("name").to_owned(),
        number: task["number"].as_i64().unwrap_or_default(),
        state: PathBuf::from(word("state")),
        session: open(Path::new(word("warehouse"))).await.map_err(text)?,
        dice: Random(task["seed"].as_u64().unwrap_or_default()),
        steps: task["steps"].as_u64().unwrap_or_default(),
    };
    let name = actor.name.clone();
    let played = match word("role") {
        "writer" => actor.write().await,
        "upkeep" => actor.keep_up().await,
        "reader" => actor.read().await,
        other => Err(format!("no role {other}")),
    };
    played.map_err(|error| format!("{name}: {error}"))
}

/// How a statement failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Others were first, and nothing was done.
    Conflict,
    /// Nobody knows.
    Unknown,
    /// Otherwise.
    Wrong,
}

fn failure(error: &SessionError) -> Failure {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error.as_ref());
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<tidelake::Error>() {
            return match error.kind() {
                _ if outcome_is_unknown(error) => Failure::Unknown,
                ErrorKind::Conflict => Failure::Conflict,
                _ => Failure::Wrong,
            };
        }
        cause = error.source();
    }
    Failure::Wrong
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64)
}

/// The file that says since when a child is in the middle of something.
pub fn busy_place(state: &Path, name: &str) -> PathBuf {
    state.join(format!("busy-{name}"))
}

/// The file of a writer's state.
pub fn state_place(state: &Path, writer: i64) -> PathBuf {
    state.join(format!("writer-{writer}.json"))
}

impl Actor {
    fn is_over(&self) -> bool {
        self.state.join(OVER).exists()
    }

    /// Runs a statement; while it runs, nobody cleans files away that are younger.
    async fn run(&self, sql: &str) -> Result<Vec<Vec<i64>>, SessionError> {
        let place = busy_place(&self.state, &self.name);
        write_whole(&place, &now().to_string())?;
        let answer = numbers(&self.session, sql).await;
        fs::remove_file(&place)?;
        answer
    }

    async fn latest(&self) -> Result<i64, String> {
        let latest = numbers(&self.session, "SELECT coalesce(max(snapshot_id), 0) FROM `t$snapshots`").await;
        Ok(latest.map_err(text)?[0][0])
    }

    /// Writes as its seed says. What it knows is kept before and after each statement.
    async fn write(mut self) -> Result<(), String> {
        let place = state_place(&self.state, self.number);
        let mut state = State::read(&place)?;
        let found = self.own_rows().await?;
        if !state.worlds.contains(&found) {
            return Err(format!("begins with {found:?}, and this may be: {:?}", state.worlds));
        }
        state.worlds = vec![found];
        say(&READY);
        while state.played < self.steps && !self.is_over() {
            let before = state.worlds[0].clone();
            let statement = next_statement(self.kind, self.number, state.played, &before, &mut self.dice);
            state.played += 1;
            state.worlds = vec![before.clone(), statement.after.clone()];
            state.perhaps_moved += i64::from(statement.moves);
            state.keep(&place)?;
            let at = format!("statement {} ({})", state.played, statement.sql);
            state = self.play(state, before, statement).await.map_err(|error| format!("{at}: {error}"))?;
            state.keep(&place)?;
            if self.dice.below(4) == 0 {
                let found = self.own_rows().await?;
                if found != state.worlds[0] {
                    return Err(differs(&at, &found, &state.worlds[0]));
                }
            }
        }
        Ok(())
    }

    async fn play(&self, mut state: State, before: Rows, statement: Statement) -> Result<State, String> {
        let moved = i64::from(statement.moves);
        let began = self.latest().await?;
        let error = match self.run(&statement.sql).await {
            Ok(answer) => {
                if answer != [[statement.answer]] {
                    return Err(format!("answers {answer:?} instead of {}; {before:?}", statement.answer));
                }
                state.worlds = vec![statement.after];
                state.moved += moved;
                state.perhaps_moved -= moved;
                return Ok(state);
            }
            Err(error) => error,
        };
        match failure(&error) {
            Failure::Conflict => {}
            // What it read may have expired, when others did much meanwhile.
            Failure::Wrong if self.latest().await? - began > PROMISED => {}
            Failure::Unknown => {
                let found = self.own_rows().await?;
                if !state.worlds.contains(&found) {
                    return Err(format!("{found:?} after {error}, and this may be: {:?}", state.worlds));
                }
                state.worlds = vec![found];
                return Ok(state);
            }
            Failure::Wrong => return Err(error.to_string()),
        }
        state.worlds = vec![before];
        state.perhaps_moved -= moved;
        state.conflicts += 1;
        Ok(state)
    }

    async fn own_rows(&self) -> Result<Rows, String> {
        let sql =
            format!("SELECT k, coalesce(v, {NULL}), coalesce(x, {NULL}) FROM t WHERE w = {} ORDER BY 1", self.number);
        let rows = numbers(&self.session, &sql).await.map_err(|error| format!("{sql}: {error}"))?;
        let found: Rows = rows.iter().map(|row| (row[0], (row[1], row[2]))).collect();
        if found.len() != rows.len() {
            return Err(format!("a key is there twice: {rows:?}"));
        }
        Ok(found)
    }

    /// Compacts, expires, cleans and tags.
    async fn keep_up(mut self) -> Result<(), String> {
        let mut tags: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for name in texts(&self.session, "SELECT tag_name FROM `t$tags`").await.map_err(text)? {
            let seen = self.seen(&format!("tag:{}", name[0])).await?;
            tags.insert(name[0].clone(), seen);
        }
        say(&READY);
        while !self.is_over() {
            let what = self.dice.below(12);
            let sql = match what {
                0..=2 => "CALL sys.compact('t')".to_owned(),
                3 | 4 => "CALL sys.compact(`table` => 't', compact_strategy => 'minor')".to_owned(),
                5 | 6 => {
                    format!(
                        "CALL sys.expire_snapshots(`table` => 't', retain_max => {RETAINED}, retain_min => {RETAINED})"
                    )
                }
                7 => "CALL sys.compact_manifest('t')".to_owned(),
                8 | 9 => {
                    // Before anything else: who is not busy by then writes younger files.
                    let mut oldest = now();
                    for entry in fs::read_dir(&self.state).map_err(text)?.flatten() {
                        let name = entry.file_name().to_string_lossy().into_owned();
                        // What ends in `.tmp` is being written: who begins now writes younger files.
                        if name.starts_with("busy-")
                            && !name.ends_with(".tmp")
                            && let Ok(since) = fs::read_to_string(entry.path())
                        {
                            oldest = oldest.min(since.parse().map_err(text)?);
                        }
                    }
                    format!("CALL sys.remove_orphan_files(`table` => 't', older_than => '{}')", oldest - MARGIN_MILLIS)
                }
                10 if tags.len() < 3 => format!("CALL sys.create_tag('t', 'tag{}')", now()),
                _ => match tags.pop_first() {
                    Some((tag, seen)) => {
                        let again = self.seen(&format!("tag:{tag}")).await?;
                        if again != seen {
                            return Err(format!("tag {tag} shows {again:?}, and {seen:?} before"));
                        }
                        format!("CALL sys.delete_tag('t', '{tag}')")
                    }
                    None => continue,
                },
            };
            let began = self.latest().await?;
            // The answers of some are texts.
            let place = busy_place(&self.state, &self.name);
            write_whole(&place, &now().to_string())?;
            let done = texts(&self.session, &sql).await;
            fs::remove_file(&place).map_err(text)?;
            match done {
                Ok(_) => self.count(&format!("done-{what}"))?,
                Err(error) if failure(&error) == Failure::Conflict => self.count("conflict")?,
                Err(_) if self.latest().await? - began > PROMISED => self.count("conflict")?,
                Err(error) => return Err(format!("{sql}: {error}")),
            }
            if let Some(tag) = sql.strip_prefix("CALL sys.create_tag('t', '").and_then(|rest| rest.strip_suffix("')")) {
                tags.insert(tag.to_owned(), self.seen(&format!("tag:{tag}")).await?);
            }
            tokio::time::sleep(Duration::from_millis(self.dice.below(60) as u64)).await;
        }
        Ok(())
    }

    /// Counts something that was done.
    fn count(&self, what: &str) -> Result<(), String> {
        let place = self.state.join(format!("count-{}", self.name));
        let mut counts: BTreeMap<String, u64> =
            fs::read_to_string(&place).ok().and_then(|kept| serde_json::from_str(&kept).ok()).unwrap_or_default();
        *counts.entry(what.to_owned()).or_default() += 1;
        write_whole(&place, &json!(counts).to_string())
    }

    /// What a version of the table shows; what holds of all of them is looked at.
    async fn seen(&self, version: &str) -> Result<Vec<i64>, String> {
        let sql = format!(
            "SELECT coalesce(sum(v) FILTER (WHERE w = -1), -1), count(*) FILTER (WHERE w = -1), count(*) - count(DISTINCT k), \
             count(*) FILTER (WHERE k >= 0 AND w <> k % {WRITERS}), coalesce(max(v) FILTER (WHERE k = -1), 0), count(*), \
             coalesce(sum(k * 31 + coalesce(v, 7) * 5 + coalesce(x, 11)), 0) FROM `t@{version}`"
        );
        let row = numbers(&self.session, &sql).await.map_err(|error| format!("{version}: {error}"))?.remove(0);
        match row[..4] == [0, 2, 0, 0] {
            true => Ok(row),
            false => Err(format!(
                "{version}: the counters' sum is {}, there are {} of them, {} rows are there twice, {} are of another writer",
                row[0], row[1], row[2], row[3]
            )),
        }
    }

    /// Reads snapshots that are promised, again and again.
    async fn read(mut self) -> Result<(), String> {
        let mut known: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        say(&READY);
        while !self.is_over() {
            let latest = self.latest().await?;
            let back = self.dice.below((PROMISED as usize).min(latest as usize)) as i64;
            let id = if self.dice.below(3) == 0 { latest } else { latest - back };
            let row = match self.seen(&id.to_string()).await {
                Ok(row) => row,
                Err(error) => {
                    let latest = self.latest().await?;
                    if latest - id < RETAINED {
                        return Err(format!("snapshot {id} can't be read, and {latest} is the latest: {error}"));
                    }
                    continue;
                }
            };
            if let Some(before) = known.insert(id, row.clone())
                && before != row
            {
                return Err(format!("snapshot {id} shows {row:?}, and {before:?} before"));
            }
            if let Some((earlier, before)) = known.range(..id).next_back()
                && before[4] > row[4]
            {
                return Err(format!(
                    "the counter is {} in {earlier} and {} in {id}: a change was lost",
                    before[4], row[4]
                ));
            }
            if self.kind.has_key() && self.dice.below(3) == 0 {
                levels(&self.session).await?;
            }
            self.count("read")?;
        }
        Ok(())
    }
}

/// The files of each level above 0 hold keys of their own.
pub async fn levels(session: &LakeSession) -> Result<(), String> {
    let sql = "SELECT coalesce(\"partition\", ''), bucket, level, file_path, min_key, max_key FROM `t$file_key_ranges` \
               WHERE level > 0";
    let mut levels: BTreeMap<Vec<String>, Vec<(i64, i64, String)>> = BTreeMap::new();
    for row in texts(session, sql).await.map_err(text)? {
        let key = |cell: &str| -> Result<i64, String> {
            let digits: String = cell.chars().filter(|c| c.is_ascii_digit() || *c == '-').collect();
            digits.parse().map_err(|_| format!("'{cell}' is no key"))
        };
        levels.entry(row[..3].to_vec()).or_default().push((key(&row[4])?, key(&row[5])?, row[3].clone()));
    }
    for (level, files) in &mut levels {
        files.sort();
        if let Some(pair) = files.windows(2).find(|pair| pair[0].1 >= pair[1].0) {
            return Err(format!("files of {level:?} hold the same keys: {pair:?}"));
        }
    }
    Ok(())
}

/// Says how what is there differs from what is to be there.
pub fn differs(at: &str, found: &Rows, wanted: &Rows) -> String {
    let only = |here: &Rows, there: &Rows| -> Vec<(i64, (i64, i64))> {
        here.iter().filter(|(key, row)| there.get(key) != Some(row)).map(|(key, row)| (*key, *row)).collect()
    };
    format!("after {at}: {:?} are there instead of {:?}", only(found, wanted), only(wanted, found))
}
