//! Writers that are killed, and many writers at once.
//!
//! A child process ([`child`]) writes round after round and is killed by SIGKILL: when it stands at a
//! labelled point of its commit, or at any time. Its successor begins anew, as an application does after a restart: with the
//! messages that it finds, or by its statements again under the same `paimon.commit.user` and numbers. What must hold after each
//! death: every round that was reported is there, every round that is there is whole and there once, and every snapshot can be
//! read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::prelude::SessionContext;
use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};
use tidelake::catalog::{Catalog, FileSystemCatalog};
use tidelake::commit::fault;
use tidelake::store::Caches;
use tidelake::table::{ObjectName, Table};
use tidelake::write::CommitMessage;
use tidelake::writer::{TableCommitter, TableWriter};

use crate::child::{self, REACHED, READY, kill, lines, numbers, open, runtime, say, text};
use crate::deadline::within;
use crate::random::Random;

/// For one trial.
const LIMIT: Duration = Duration::from_secs(240);

/// Rounds that a writer is to bring about, and rows of each.
const ROUNDS: i64 = 5;
const ROWS: i64 = 10;

/// Writers at once, and statements of each.
const WRITERS: i64 = 16;
const STATEMENTS: i64 = 3;

/// A kind of table, with its definition behind the name.
const KINDS: [(&str, &str); 4] = [
    ("append", "(id BIGINT, v STRING)"),
    ("keyed", "(id BIGINT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '2')"),
    (
        "dynamic",
        "(id BIGINT NOT NULL, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ('bucket' = '-1', \
         'dynamic-bucket.target-row-num' = '20')",
    ),
    (
        "moving",
        "(id BIGINT NOT NULL, v STRING, p BIGINT, PRIMARY KEY (id) NOT ENFORCED) PARTITIONED BY (p) WITH ('bucket' = '-1', \
         'dynamic-bucket.target-row-num' = '20')",
    ),
];

/// All trials of this module.
pub fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |name: String, run: fn(&str) -> Result<(), String>, argument: &'static str| {
        trials.push(Trial::test(format!("kills::{name}"), move || {
            let trial = move || run(argument);
            within(LIMIT, trial).map_err(|broken| Failed::from(broken.to_string()))?.map_err(Failed::from)
        }));
    };
    for label in fault::POINTS {
        add(label.to_owned(), killed_at, label);
    }
    for role in ["stream", "sql"] {
        add(format!("at_any_time_{role}"), killed_at_any_time, role);
    }
    for (kind, _) in KINDS {
        add(format!("sixteen_writers_{kind}"), sixteen_writers, kind);
    }
    for kind in ["append", "keyed", "dynamic"] {
        add(format!("four_processes_{kind}"), four_processes, kind);
    }
    trials
}

/// A warehouse with one table `db.t`.
struct Lake {
    folder: tempfile::TempDir,
    kind: &'static str,
}

impl Lake {
    fn new(kind: &str) -> Result<Self, String> {
        let (kind, definition) = KINDS.into_iter().find(|(name, _)| *name == kind).ok_or("no such kind")?;
        let lake = Self { folder: tempfile::tempdir().map_err(text)?, kind };
        fs::create_dir(lake.folder.path().join("state")).map_err(text)?;
        lake.sql(&format!("CREATE DATABASE db; CREATE TABLE db.t {definition}"))?;
        Ok(lake)
    }

    fn warehouse(&self) -> PathBuf {
        self.folder.path().join("wh")
    }

    /// Runs statements in a session of their own and gives the numbers of the last one's first columns, row by row.
    fn sql(&self, statements: &str) -> Result<Vec<Vec<i64>>, String> {
        let warehouse = self.warehouse();
        runtime()?.block_on(async move {
            let session = open(&warehouse).await.map_err(text)?;
            let mut rows = Vec::new();
            for statement in tidelake::sql::split_statements(statements).map_err(text)? {
                rows = numbers(&session, &statement).await.map_err(|error| format!("{statement}: {error}"))?;
            }
            Ok(rows)
        })
    }

    /// Starts a child that writes.
    fn child(&self, task: &Value) -> Result<Child, String> {
        let mut task = task.clone();
        task["warehouse"] = json!(self.warehouse());
        task["suite"] = json!("kills");
        task["state"] = json!(self.folder.path().join("state"));
        task["moving"] = json!(self.kind == "moving");
        child::start(&task)
    }

    /// The rounds that are in the table; each must be whole and there once. Every snapshot is read.
    fn rounds(&self) -> Result<Vec<i64>, String> {
        let found = self.sql(&format!(
            "SELECT id / {ROWS} AS round, count(*) AS n, count(DISTINCT id) AS d FROM db.t GROUP BY 1 ORDER BY 1"
        ))?;
        for round in &found {
            if round[1..] != [ROWS, ROWS] {
                return Err(format!("round {}: {} rows, {} different ones", round[0], round[1], round[2]));
            }
        }
        let last = self.sql("SELECT coalesce(max(snapshot_id), 0) FROM db.`t$snapshots`")?[0][0];
        for id in 1..=last {
            let state = self.sql(&format!("SELECT count(*), count(DISTINCT id) FROM db.`t@{id}`"))?;
            if state[0][0] != state[0][1] || state[0][0] % ROWS != 0 {
                return Err(format!("snapshot {id} has {} rows, {} different ones", state[0][0], state[0][1]));
            }
        }
        Ok(found.into_iter().map(|round| round[0]).collect())
    }

    /// What has to hold after a death: the rounds are the first ones, and those that were reported are among them.
    fn check(&self, reported: i64) -> Result<i64, String> {
        let rounds = self.rounds()?;
        let there = rounds.len() as i64;
        if rounds != (0..there).collect::<Vec<_>>() || there < reported {
            return Err(format!("{reported} rounds were reported, and these are there: {rounds:?}"));
        }
        Ok(there)
    }
}

/// Killed at a point of the commit, in its first commit and in a later one; a successor goes on, and dies too.
fn killed_at(label: &str) -> Result<(), String> {
    let even = fault::POINTS.iter().position(|point| *point == label).is_some_and(|at| at % 2 == 0);
    let pairs = match even {
        true => [("stream", "append"), ("sql", "dynamic")],
        false => [("stream", "dynamic"), ("sql", "keyed")],
    };
    for (role, kind) in pairs {
        let lake = Lake::new(kind)?;
        let mut reported = 0;
        for hit in 1..=2 {
            let task = json!({ "role": role, "label": label, "hit": hit });
            let mut child = lake.child(&task)?;
            let mut at_point = false;
            for line in lines(&mut child)? {
                match line.as_str() {
                    REACHED => {
                        at_point = true;
                        break;
                    }
                    line => reported = reported.max(number_of(line)? + 1),
                }
            }
            kill(&mut child)?;
            if !at_point {
                return Err(format!("{role} of {kind} never came to {label} {hit} times"));
            }
            reported = lake.check(reported)?;
        }
        succeed(&lake, role).map_err(|error| format!("{role} of {kind}: {error}"))?;
    }
    Ok(())
}

/// Killed a random time after it began to write, again and again.
fn killed_at_any_time(role: &str) -> Result<(), String> {
    let lake = Lake::new("dynamic")?;
    let first = u64::from(std::process::id());
    let mut random = Random(first);
    let mut reported = 0;
    for _ in 0..6 {
        let mut child = lake.child(&json!({ "role": role, "ready": true }))?;
        let mut said = lines(&mut child)?;
        if said.next().as_deref() != Some(READY) {
            return Err("a child did not begin".to_owned());
        }
        std::thread::sleep(Duration::from_millis(random.below(250) as u64));
        kill(&mut child)?;
        for line in said {
            reported = reported.max(number_of(&line)? + 1);
        }
        reported = lake.check(reported).map_err(|error| format!("seed {first}: {error}"))?;
        if reported == ROUNDS {
            break;
        }
    }
    succeed(&lake, role).map_err(|error| format!("seed {first}: {error}"))
}

/// A successor that lives brings about all rounds, each once.
fn succeed(lake: &Lake, role: &str) -> Result<(), String> {
    let mut child = lake.child(&json!({ "role": role }))?;
    let told: Vec<String> = lines(&mut child)?.collect();
    let status = child.wait().map_err(text)?;
    if !status.success() {
        return Err(format!("the successor ended with {status}, after {told:?}"));
    }
    match lake.check(ROUNDS)? {
        ROUNDS => Ok(()),
        there => Err(format!("{there} rounds are there")),
    }
}

fn number_of(line: &str) -> Result<i64, String> {
    line.parse().map_err(|_| format!("a child says '{line}'"))
}

/// Sessions of their own, all at once: the rows of each statement are there once, and of the key that all write one.
fn sixteen_writers(kind: &str) -> Result<(), String> {
    let lake = Lake::new(kind)?;
    let warehouse = lake.warehouse();
    runtime()?.block_on(async {
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            let (warehouse, kind) = (warehouse.clone(), lake.kind);
            writers.spawn(async move { insert_all(&warehouse, writer, kind == "moving", kind == "append").await });
        }
        while let Some(done) = writers.join_next().await {
            done.map_err(text)??;
        }
        Ok::<_, String>(())
    })?;
    all_there(&lake, WRITERS)
}

/// The same in processes of their own.
fn four_processes(kind: &str) -> Result<(), String> {
    let lake = Lake::new(kind)?;
    let children = (0..4)
        .map(|writer| lake.child(&json!({ "role": "inserts", "writer": writer, "append": lake.kind == "append" })));
    for mut child in children.collect::<Result<Vec<_>, _>>()? {
        let status = child.wait().map_err(text)?;
        if !status.success() {
            return Err(format!("a writer ended with {status}"));
        }
    }
    all_there(&lake, 4)
}

/// The statements of one writer: rows of its own, and one for the key that all write.
async fn insert_all(warehouse: &Path, writer: i64, moving: bool, append: bool) -> Result<(), String> {
    let session = open(warehouse).await.map_err(text)?;
    for statement in 0..STATEMENTS {
        let first = 1000 + (writer * STATEMENTS + statement) * ROWS;
        let ids = (first..first + ROWS).chain((!append).then_some(0));
        let partition = if moving { format!(", {}", (writer + statement) % 3) } else { String::new() };
        let rows: Vec<String> = ids.map(|id| format!("({id}, 'writer {writer}'{partition})")).collect();
        let sql = format!("INSERT INTO t VALUES {}", rows.join(", "));
        numbers(&session, &sql).await.map_err(|error| format!("writer {writer}, statement {statement}: {error}"))?;
    }
    Ok(())
}

fn all_there(lake: &Lake, writers: i64) -> Result<(), String> {
    let own = writers * STATEMENTS * ROWS;
    let shared = i64::from(lake.kind != "append");
    let found = lake.sql("SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE id = 0) FROM db.t")?;
    if found[0] != [own + shared, own + shared, shared] {
        return Err(format!("{own} rows and {shared} shared one are to be there, and there are {:?}", found[0]));
    }
    // What was compacted beside them has snapshots of its own.
    let made = lake.sql("SELECT count(*) FROM db.`t$snapshots` WHERE commit_kind = 'APPEND'")?[0][0];
    if made != writers * STATEMENTS {
        return Err(format!("{} statements made {made} snapshots", writers * STATEMENTS));
    }
    Ok(())
}

/// Runs the task of a child process.
pub fn run_child(task: Value) -> ExitCode {
    child::work(&task.clone(), LIMIT, async move { run_task(&task).await })
}

async fn run_task(task: &Value) -> Result<(), String> {
    let word = |key: &str| task[key].as_str().unwrap_or_default().to_owned();
    let warehouse = PathBuf::from(word("warehouse"));
    match word("role").as_str() {
        "stream" => stream(&warehouse, Path::new(&word("state")), task["ready"] == true).await,
        "sql" => statements(&warehouse, task["ready"] == true).await,
        "inserts" => {
            let writer = task["writer"].as_i64().unwrap_or_default();
            insert_all(&warehouse, writer, task["moving"] == true, task["append"] == true).await
        }
        other => Err(format!("no role {other}")),
    }
}

/// An application that writes rounds and keeps the messages of each until it is committed.
async fn stream(warehouse: &Path, state: &Path, ready: bool) -> Result<(), String> {
    let table = table(warehouse).await?;
    let committer = TableCommitter::try_new(&table, "stream").map_err(text)?;
    let mut writer = TableWriter::try_new(&table, "stream", SessionContext::new().task_ctx()).map_err(text)?;
    if ready {
        say(&READY);
    }
    for round in 0..ROUNDS {
        let kept = state.join(round.to_string());
        let messages = match fs::read_to_string(&kept) {
            Ok(text_of) => messages_of(&text_of)?,
            Err(_) => {
                writer.write(rows_of(round)?).await.map_err(text)?;
                let messages = writer.prepare_commit().await.map_err(text)?;
                keep(&kept, &messages)?;
                messages
            }
        };
        committer.commit(round, messages).await.map_err(text)?;
        say(&round);
    }
    Ok(())
}

async fn table(warehouse: &Path) -> Result<Arc<Table>, String> {
    let catalog = FileSystemCatalog::open(warehouse.to_str().unwrap_or_default()).map_err(text)?;
    let name: ObjectName = "t".parse().map_err(text)?;
    catalog.open_table("db", &name, &Arc::new(Caches::default()), BTreeMap::new()).await.map_err(text)
}

fn rows_of(round: i64) -> Result<RecordBatch, String> {
    let ids = round * ROWS..(round + 1) * ROWS;
    let schema = Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("v", DataType::Utf8, true)]);
    let texts: StringArray = ids.clone().map(|id| Some(format!("row {id}"))).collect();
    let columns = vec![Arc::new(Int64Array::from_iter_values(ids)) as _, Arc::new(texts) as _];
    RecordBatch::try_new(Arc::new(schema), columns).map_err(text)
}

/// Keeps the messages of a round, all or none of them.
fn keep(place: &Path, messages: &[CommitMessage]) -> Result<(), String> {
    let texts = messages.iter().map(|message| Ok(json!(message.to_bytes()?))).collect::<tidelake::Result<Vec<_>>>();
    let unfinished = place.with_extension("tmp");
    fs::write(&unfinished, Value::Array(texts.map_err(text)?).to_string()).map_err(text)?;
    fs::rename(&unfinished, place).map_err(text)
}

fn messages_of(kept: &str) -> Result<Vec<CommitMessage>, String> {
    let bytes: Vec<Vec<u8>> = serde_json::from_str(kept).map_err(text)?;
    bytes.iter().map(|bytes| CommitMessage::from_bytes(bytes).map_err(text)).collect()
}

/// Statements that are all said again after a restart.
async fn statements(warehouse: &Path, ready: bool) -> Result<(), String> {
    let session = open(warehouse).await.map_err(text)?;
    numbers(&session, "SET paimon.commit.user = 'statements'").await.map_err(text)?;
    if ready {
        say(&READY);
    }
    for round in 0..ROUNDS {
        let rows: Vec<String> = (round * ROWS..(round + 1) * ROWS).map(|id| format!("({id}, 'row {id}')")).collect();
        numbers(&session, &format!("SET paimon.commit.identifier = {round}")).await.map_err(text)?;
        numbers(&session, &format!("INSERT INTO t VALUES {}", rows.join(", "))).await.map_err(text)?;
        say(&round);
    }
    Ok(())
}
