//! The truth suite: answers that other engines gave over their own tables, asked again of ours, one trial an answer.
//!
//! A listed answer (see [`crate::list`]) that holds, and one not listed that does not, fails. A query that panics or does not
//! end fails always.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use libtest_mimic::{Completion, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

use crate::answer::{Answer, Asked};
use crate::compare::{compare, without_newer};
use crate::deadline::{STACK_BYTES, within};
use crate::fixtures::Group;
use crate::list::{Listed, TruthList, Verdict};
use crate::session::{self, Session};

/// A file that receives one line an answer: outcome, name, first difference.
pub const REPORT: &str = "TIDELAKE_TRUTH_REPORT";

const LIMIT: Duration = Duration::from_secs(60);

/// A group with the session that its trials share.
struct OpenGroup {
    group: Group,
    session: OnceCell<Session>,
    runtime: &'static Runtime,
}

/// The trials of all answers.
pub fn trials(groups: &[Group], list: &TruthList) -> Result<Vec<Trial>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|e| format!("no runtime: {e}"))?;
    // Never dropped: dropping it would wait for a query that does not end.
    let runtime: &'static Runtime = Box::leak(Box::new(runtime));
    let report = Arc::new(Report::default());
    let mut trials = vec![];
    for group in groups {
        let open = Arc::new(OpenGroup { group: group.clone(), session: OnceCell::new(), runtime });
        for (name, path) in &group.answers {
            let (open, report, path) = (Arc::clone(&open), Arc::clone(&report), path.clone());
            let name = format!("{}::{name}", group.name);
            let verdict = list.verdict(&name);
            trials.push(Trial::ignorable_test(format!("truth::{name}"), move || {
                let outcome = outcome(&open, &path, &verdict);
                report.line(&name, &verdict, &outcome);
                match outcome {
                    Outcome::Holds | Outcome::ListedRightly(_) => Ok(Completion::Completed),
                    Outcome::NotSql => Ok(Completion::ignored_with("not SQL")),
                    Outcome::Fails(why) => Err(Failed::from(why)),
                }
            }));
        }
    }
    Ok(trials)
}

/// How a trial ended.
#[derive(Debug)]
enum Outcome {
    Holds,
    /// The answer does not hold, as the list says.
    ListedRightly(String),
    NotSql,
    Fails(String),
}

fn outcome(open: &Arc<OpenGroup>, path: &Path, verdict: &Verdict) -> Outcome {
    let answer = match Answer::read(path) {
        Ok(answer) if answer.asked == Asked::NotSql => return Outcome::NotSql,
        Ok(answer) => answer,
        Err(error) => return Outcome::Fails(error),
    };
    let (open, verdict) = (Arc::clone(open), verdict.clone());
    let asked = within(LIMIT, move || open.runtime.block_on(ask(&open, &answer, &verdict)));
    match asked {
        Ok(outcome) => outcome,
        Err(broken) => Outcome::Fails(broken.to_string()),
    }
}

async fn ask(open: &OpenGroup, answer: &Answer, verdict: &Verdict) -> Outcome {
    let result = run(open, answer, &answer.sql).await;
    let held = held(answer, &result, verdict);
    match (verdict.listed, held) {
        (None, Ok(())) => Outcome::Holds,
        (None, Err(why)) => Outcome::Fails(why),
        (Some(_), Ok(())) => Outcome::Fails(format!("holds, but is listed: {}", verdict.reason)),
        (Some(Listed::Later), Err(why)) => Outcome::ListedRightly(why),
        (Some(Listed::Differs), Err(why)) => match ours_holds(open, answer, result, verdict).await {
            Ok(()) => Outcome::ListedRightly(why),
            Err(why) => Outcome::Fails(format!("against our own answer: {why}")),
        },
    }
}

type QueryResult = Result<(SchemaRef, Vec<RecordBatch>), String>;

async fn run(open: &OpenGroup, answer: &Answer, sql: &str) -> QueryResult {
    let group = &open.group;
    let one_line = |error: session::SessionError| format!("error: {}", error.to_string().replace('\n', " "));
    let new_session = || session::open(&group.warehouse, &group.database);
    if let Asked::Zone(zone) = &answer.asked {
        let session = new_session().await.map_err(one_line)?;
        session.sql(&format!("SET datafusion.execution.time_zone = '{zone}'")).await.map_err(one_line)?;
        return session.sql(sql).await.map_err(one_line);
    }
    let session = open.session.get_or_try_init(new_session).await.map_err(one_line)?;
    session.sql(sql).await.map_err(one_line)
}

fn held(answer: &Answer, result: &QueryResult, verdict: &Verdict) -> Result<(), String> {
    let (schema, batches) = result.as_ref().map_err(Clone::clone)?;
    if verdict.newer && !answer.rows.is_empty() {
        let (schema, batches) = without_newer(answer, schema, batches)?;
        return compare(answer, &answer.sql, &schema, &batches, &verdict.sets);
    }
    compare(answer, &answer.sql, schema, batches, &verdict.sets)
}

/// Whether our own answer, or error, is what came out.
async fn ours_holds(open: &OpenGroup, answer: &Answer, result: QueryResult, verdict: &Verdict) -> Result<(), String> {
    let beside = |extension: &str| PathBuf::from(format!("{}.{extension}", verdict.ours.display()));
    let (rows, error) = (beside("jsonl"), beside("error"));
    match (rows.is_file(), error.is_file(), result) {
        (true, false, result) => {
            let ours = Answer::read(&rows)?;
            let result = if ours.sql == answer.sql { result } else { run(open, &ours, &ours.sql).await };
            held(&ours, &result, verdict)
        }
        (false, true, Ok(_)) => Err("an error was expected".to_string()),
        (false, true, Err(got)) => {
            let wanted = fs::read_to_string(&error).map_err(|e| format!("{}: {e}", error.display()))?;
            let held = got.contains(wanted.trim());
            if held { Ok(()) } else { Err(format!("expected an error with `{}`, got {got}", wanted.trim())) }
        }
        _ => Err(format!("one of {} and {} must be there", rows.display(), error.display())),
    }
}

/// The file named by [`REPORT`], made when the first answer is in.
#[derive(Default)]
struct Report(Mutex<Option<File>>);

impl Report {
    fn line(&self, name: &str, verdict: &Verdict, outcome: &Outcome) {
        let Some(path) = env::var_os(REPORT) else { return };
        let (word, why) = match outcome {
            Outcome::Holds => ("pass", ""),
            Outcome::ListedRightly(why) => ("listed", why.as_str()),
            Outcome::NotSql => ("not-sql", ""),
            Outcome::Fails(why) => ("fail", why.as_str()),
        };
        let mut file = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if file.is_none() {
            *file = File::create(&path).inspect_err(|e| eprintln!("{}: {e}", path.display())).ok();
        }
        if let Some(file) = file.as_mut() {
            let line = format!("{word}\t{name}\t{}\t{}\n", why.replace(['\n', '\t'], " "), verdict.reason);
            if let Err(error) = file.write_all(line.as_bytes()) {
                eprintln!("{}: {error}", path.display());
            }
        }
    }
}
