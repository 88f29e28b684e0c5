//! One group's scripts, run in an empty warehouse.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;

use crate::answer::{Answer, Asked};
use crate::compare::{compare, without_newer};
use crate::list::{Listed, TruthList};
use crate::script::Step;
use crate::scripts::Replay;
use crate::scripts_list::{Entry, Kind, ScriptsList};
use crate::session::{self, Session};

/// For one statement.
const LIMIT: Duration = Duration::from_secs(60);

/// Failed statements that a message names.
const MOST_NAMED: usize = 2;

/// What the error of a statement that is not built says.
const NOT_BUILT: &str = "not supported in this version";

/// How a trial ended.
#[derive(Debug, Clone)]
pub enum Outcome {
    Holds,
    /// The answer does not hold, or the statements do not succeed, as the list says.
    ListedRightly(String),
    Fails(String),
}

/// What came out of a group.
#[derive(Debug)]
pub struct Outcomes {
    /// Answers, and statements that must fail, by the name of their trial.
    pub trials: HashMap<String, Outcome>,
    /// All other statements.
    pub statements: Outcome,
    /// Those of them that failed, each with its error, and whether the list says so.
    pub failed: Vec<(String, bool)>,
}

/// Runs the scripts of a group in order.
pub async fn run(replay: &Replay, list: &ScriptsList, truth: &TruthList) -> Result<Outcomes, String> {
    let folder = tempfile::tempdir().map_err(|e| format!("no temporary folder: {e}"))?;
    let mut run = Run { replay, list, truth, failed: vec![], fine: HashMap::new() };
    let mut trials = HashMap::new();
    for steps in &replay.scripts {
        let session = session::open(folder.path(), &replay.group.database).await;
        let session = Arc::new(session.map_err(|e| format!("no session: {e}"))?);
        for step in steps {
            tokio::time::sleep(step.sleep).await;
            match step.trial() {
                Some(name) => {
                    let outcome = run.trial(&session, step, &name).await;
                    trials.insert(name, outcome);
                }
                None => run.between(&session, step).await,
            }
        }
    }
    let failed = run.failed.iter().map(|failed| (failed.text.clone(), failed.listed.is_some())).collect();
    Ok(Outcomes { trials, statements: run.statements(), failed })
}

/// A statement that should have succeeded.
struct FailedStatement {
    table: Option<String>,
    text: String,
    listed: Option<Entry>,
}

struct Run<'a> {
    replay: &'a Replay,
    list: &'a ScriptsList,
    truth: &'a TruthList,
    failed: Vec<FailedStatement>,
    /// Statements that succeeded although a line of the list names them, by the line.
    fine: HashMap<usize, String>,
}

impl Run<'_> {
    /// A statement without an answer.
    async fn between(&mut self, session: &Arc<Session>, step: &Step) {
        let listed = self.list.statement(&self.replay.group.name, &step.sql);
        let result = statement(session, &step.sql).await;
        match (result, listed) {
            (Ok(_), None) => {}
            (Ok(_), Some(entry)) => {
                self.fine.insert(entry.line, step.start());
            }
            (Err(error), listed) => {
                let text = format!("{}.sql line {}: {}: {error}", step.script, step.line, step.start());
                self.failed.push(FailedStatement { table: table_of(&step.sql), text, listed });
            }
        }
    }

    /// What the statements between the answers come to.
    fn statements(&self) -> Outcome {
        let unlisted: Vec<&str> =
            self.failed.iter().filter(|failed| failed.listed.is_none()).map(|failed| failed.text.as_str()).collect();
        if let Some(first) = unlisted.first() {
            return Outcome::Fails(format!("{} statements fail, the first: {first}", unlisted.len()));
        }
        let fails =
            |line: usize| self.failed.iter().any(|failed| failed.listed.as_ref().is_some_and(|e| e.line == line));
        if let Some((line, text)) = self.fine.iter().find(|(line, _)| !fails(**line)) {
            return Outcome::Fails(format!("all statements of line {line} of the list succeed: remove it: {text}"));
        }
        match self.failed.first() {
            Some(first) => {
                Outcome::ListedRightly(format!("{} statements fail, the first: {}", self.failed.len(), first.text))
            }
            None => Outcome::Holds,
        }
    }

    async fn trial(&self, session: &Arc<Session>, step: &Step, name: &str) -> Outcome {
        let group = &self.replay.group.name;
        let entry = self.list.answer(group, name);
        let result = if step.streaming {
            Err("the session would have to stream".to_string())
        } else {
            statement(session, &step.sql).await
        };
        let held = if step.fails { refused(&result) } else { self.held(step, name, &result) };
        let held = held.map_err(|why| format!("{why}{}", self.failed_before(&step.sql)));
        match (entry, held) {
            (None, Ok(())) => Outcome::Holds,
            (None, Err(why)) => Outcome::Fails(why),
            (Some(Entry { kind: Kind::Open, .. }), held) => match (held, result) {
                (Ok(()), _) => Outcome::Holds,
                (Err(why), Ok(_)) => Outcome::ListedRightly(why),
                (Err(why), Err(_)) => Outcome::Fails(why),
            },
            (Some(entry), Ok(())) => {
                Outcome::Fails(format!("holds: remove line {} of the list: {}", entry.line, entry.reason))
            }
            (Some(Entry { kind: Kind::Later, .. }), Err(why)) => Outcome::ListedRightly(why),
            (Some(Entry { kind: Kind::Differs, .. }), Err(why)) => {
                match ours_held(step, &self.list.ours(group, name), &result, &self.sets(name)) {
                    Ok(()) => Outcome::ListedRightly(why),
                    Err(why) => Outcome::Fails(format!("against our own answer: {why}")),
                }
            }
        }
    }

    /// Columns of an answer whose lists have no order.
    fn sets(&self, name: &str) -> Vec<String> {
        self.truth.verdict(&format!("{}::{name}", self.replay.group.name)).sets
    }

    /// Whether the rows are those of the answer, or those that the truth suite holds for right over the same query.
    fn held(&self, step: &Step, name: &str, result: &QueryResult) -> Result<(), String> {
        let verdict = self.truth.verdict(&format!("{}::{name}", self.replay.group.name));
        let path = self.replay.group.answers.iter().find(|(answer, _)| answer == name).map(|(_, path)| path);
        let answer = Answer::read(path.ok_or_else(|| format!("there is no answer {name}.jsonl"))?)?;
        if answer.asked == Asked::Streaming {
            return Err("the answer is a stream's".to_string());
        }
        let plain = match result {
            Ok((schema, batches)) if verdict.newer && !answer.rows.is_empty() => {
                let (schema, batches) = without_newer(&answer, schema, batches)?;
                compare(&answer, &step.sql, &schema, &batches, &verdict.sets)
            }
            _ => answer_held(&answer, &step.sql, result, &verdict.sets),
        };
        let beside = PathBuf::from(format!("{}.jsonl", verdict.ours.display()));
        if plain.is_ok() || verdict.listed != Some(Listed::Differs) {
            return plain;
        }
        // What must be an error for the tables as they lie is an error here.
        if !beside.is_file() {
            return ours_held(step, &verdict.ours, result, &verdict.sets);
        }
        let ours = Answer::read(&beside)?;
        if ours.sql == answer.sql { answer_held(&ours, &step.sql, result, &verdict.sets) } else { plain }
    }

    /// Which statements failed before over the tables that a query names.
    fn failed_before(&self, sql: &str) -> String {
        let words: Vec<&str> = sql.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        let concerns = |failed: &&FailedStatement| failed.table.as_deref().is_some_and(|table| words.contains(&table));
        let texts: Vec<&str> = self.failed.iter().filter(concerns).map(|failed| failed.text.as_str()).collect();
        match texts.len() {
            0 => String::new(),
            count => format!("; {count} statements failed before: {}", texts[..count.min(MOST_NAMED)].join("; ")),
        }
    }
}

type QueryResult = Result<(SchemaRef, Vec<RecordBatch>), String>;

/// Runs one statement in a task of its own, so that a panic is an error of it alone.
async fn statement(session: &Arc<Session>, sql: &str) -> QueryResult {
    let (session, sql) = (Arc::clone(session), sql.to_string());
    let task = tokio::spawn(async move { session.sql(&sql).await.map_err(|e| e.to_string().replace('\n', " ")) });
    match tokio::time::timeout(LIMIT, task).await {
        Ok(Ok(result)) => result.map_err(|error| format!("error: {error}")),
        Ok(Err(panic)) => Err(format!("panic: {panic}")),
        Err(_) => Err(format!("no end after {} s", LIMIT.as_secs())),
    }
}

/// Whether a statement that must fail did, and for a reason of its own.
fn refused(result: &QueryResult) -> Result<(), String> {
    match result {
        Ok(_) => Err("the statement must fail and succeeds".to_string()),
        Err(error) if error.contains(NOT_BUILT) || !error.starts_with("error: ") => {
            Err(format!("the statement must fail, but not like this: {error}"))
        }
        Err(_) => Ok(()),
    }
}

fn answer_held(answer: &Answer, sql: &str, result: &QueryResult, sets: &[String]) -> Result<(), String> {
    let (schema, batches) = result.as_ref().map_err(Clone::clone)?;
    compare(answer, sql, schema, batches, sets)
}

/// Whether our own answer, or error, is what came out.
fn ours_held(step: &Step, ours: &Path, result: &QueryResult, sets: &[String]) -> Result<(), String> {
    let beside = |extension: &str| PathBuf::from(format!("{}.{extension}", ours.display()));
    let (rows, error) = (beside("jsonl"), beside("error"));
    match (rows.is_file(), error.is_file()) {
        (true, false) => answer_held(&Answer::read(&rows)?, &step.sql, result, sets),
        (false, true) => {
            let wanted = std::fs::read_to_string(&error).map_err(|e| format!("{}: {e}", error.display()))?;
            match result {
                Ok(_) => Err("an error was expected".to_string()),
                Err(got) if got.contains(wanted.trim()) => Ok(()),
                Err(got) => Err(format!("expected an error with `{}`, got {got}", wanted.trim())),
            }
        }
        _ => Err(format!("one of {} and {} must be there", rows.display(), error.display())),
    }
}

/// The table that a statement changes, by its last name.
fn table_of(sql: &str) -> Option<String> {
    const BEFORE: [&str; 6] = ["INTO", "OVERWRITE", "TABLE", "FROM", "UPDATE", "CALL"];
    const BETWEEN: [&str; 4] = ["IF", "NOT", "EXISTS", "TABLE"];
    let words = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | '\'' | '`' | ';');
    let mut words = sql.split(words).filter(|word| !word.is_empty());
    let before = words.find(|word| BEFORE.iter().any(|known| known.eq_ignore_ascii_case(word)))?;
    let name = if before.eq_ignore_ascii_case("CALL") {
        words.find(|word| word.contains('.') && !word.starts_with("sys."))?
    } else {
        words.find(|word| !BETWEEN.iter().any(|known| known.eq_ignore_ascii_case(word)))?
    };
    let last = name.rsplit('.').next()?;
    last.split('$').next().map(ToString::to_string)
}
