//! The scripts suite: the SQL scripts of the groups run as they stand, in an empty warehouse a group, and give the answers that
//! the engine gave which they were written for. One trial an answer, one a statement that must fail, and one a group for the
//! statements between them.
//!
//! A group is run once, whole, when the first of its trials is asked for; the trials then tell what came out.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::deadline::{STACK_BYTES, within};
use crate::fixtures::{self, Group, entries};
use crate::list::TruthList;
use crate::replay::{self, Outcome, Outcomes};
use crate::script::{self, Step};
use crate::scripts_list::{Kind, ScriptsList};

/// A file that receives one line a trial, and one a failed statement: outcome, name, first difference.
pub const REPORT: &str = "TIDELAKE_SCRIPTS_REPORT";

/// For a whole group.
const LIMIT: Duration = Duration::from_secs(900);

/// The scripts of each group in the order of its README.
const SCRIPTS: [(&str, &[&str]); 12] = [
    ("buckets", &["append", "dynamic", "fixed_append", "fixed_key", "fixed_multi", "postpone"]),
    ("changelog", &["producers", "decoupled", "stream"]),
    ("evolution", &["script"]),
    ("evolution_casts", &["script"]),
    ("layout", &["script", "indexes", "files"]),
    ("merge", &["matrix", "dedup", "dedup_descending"]),
    ("merge_functions", &["partial_update", "aggregation"]),
    ("merge_keys", &["keys"]),
    ("partitions", &["script"]),
    ("system", &["script", "streams"]),
    ("travel", &["script", "later", "streams"]),
    ("types", &["script", "zone"]),
];

/// Scripts that are not replayed, with the reason.
const NOT_REPLAYED: [(&str, &str, &str); 3] = [
    ("cases", "rescaled", "makes one table of a group that commands of the Java library make"),
    ("spark09", "script", "is Spark SQL"),
    ("travel", "times", "holds literal times of the first run"),
];

/// What is run of one group.
#[derive(Debug, Clone)]
pub struct Replay {
    pub group: Group,
    /// The statements of each script.
    pub scripts: Vec<Vec<Step>>,
}

impl Replay {
    /// Its statements in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.scripts.iter().flatten()
    }
}

/// The replays of all groups that have scripts.
pub fn replays(groups: &[Group]) -> Result<Vec<Replay>, String> {
    groups.iter().filter_map(|group| replay_of(group).transpose()).collect()
}

fn replay_of(group: &Group) -> Result<Option<Replay>, String> {
    let mut unknown: Vec<String> = entries(&group.folder)?
        .into_iter()
        .filter(|path| path.extension() == Some(OsStr::new("sql")))
        .map(|path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    if unknown.is_empty() {
        return Ok(None);
    }
    let of_group = |name: &str| name == group.name;
    let ordered = SCRIPTS.iter().find(|(name, _)| of_group(name)).map_or(&[][..], |(_, scripts)| *scripts);
    let skipped = |script: &str| NOT_REPLAYED.iter().any(|(name, skipped, _)| of_group(name) && *skipped == script);
    unknown.retain(|script| !ordered.contains(&script.as_str()) && !skipped(script));
    if !unknown.is_empty() {
        return Err(format!("group {}: nothing says when the scripts {unknown:?} run", group.name));
    }
    let mut scripts = vec![];
    for name in ordered {
        scripts.push(script::read(&group.folder.join(format!("{name}.sql")))?);
    }
    if scripts.is_empty() { Ok(None) } else { Ok(Some(Replay { group: group.clone(), scripts })) }
}

/// The name of the trial of a group's statements between the answers.
const STATEMENTS: &str = "statements";

/// The trials of all groups.
pub fn trials(replays: &[Replay], list: &ScriptsList, truth: &TruthList) -> Result<Vec<Trial>, String> {
    let report = Arc::new(Report::default());
    let (list, truth) = (Arc::new(list.clone()), Arc::new(truth.clone()));
    let mut trials = vec![];
    for replay in replays {
        let names = trial_names(replay)?;
        let ran = Arc::new(Ran {
            replay: replay.clone(),
            list: Arc::clone(&list),
            truth: Arc::clone(&truth),
            outcomes: OnceLock::new(),
        });
        for name in names {
            let (ran, report, group) = (Arc::clone(&ran), Arc::clone(&report), replay.group.name.clone());
            trials.push(Trial::test(format!("scripts::{group}::{name}"), move || {
                let outcome = ran.outcome(&name);
                report.line(&format!("{group}::{name}"), &outcome);
                if name == STATEMENTS
                    && let Some(Ok(outcomes)) = ran.outcomes.get()
                {
                    for (text, listed) in &outcomes.failed {
                        let of = if *listed { Outcome::ListedRightly } else { Outcome::Fails };
                        report.line(&format!("{group}::statement"), &of(text.clone()));
                    }
                }
                match outcome {
                    Outcome::Holds | Outcome::ListedRightly(_) => Ok(()),
                    Outcome::Fails(why) => Err(Failed::from(why)),
                }
            }));
        }
    }
    Ok(trials)
}

/// The trials of a group; two of one name are an error.
fn trial_names(replay: &Replay) -> Result<Vec<String>, String> {
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    for step in replay.steps() {
        let Some(name) = step.trial() else { continue };
        let place = format!("{}.sql line {}", step.script, step.line);
        if let Some(other) = places.insert(name.clone(), place.clone()) {
            return Err(format!("group {}: {other} and {place} both give {name}", replay.group.name));
        }
    }
    Ok(places.into_keys().chain([STATEMENTS.to_string()]).collect())
}

/// A group and, once it has run, what came out.
struct Ran {
    replay: Replay,
    list: Arc<ScriptsList>,
    truth: Arc<TruthList>,
    outcomes: OnceLock<Result<Outcomes, String>>,
}

impl Ran {
    fn outcome(&self, name: &str) -> Outcome {
        let outcomes = self.outcomes.get_or_init(|| {
            let (replay, list, truth) = (self.replay.clone(), Arc::clone(&self.list), Arc::clone(&self.truth));
            let run = move || {
                let runtime = tokio::runtime::Builder::new_multi_thread()
                    .worker_threads(2)
                    .enable_all()
                    .thread_stack_size(STACK_BYTES)
                    .build()
                    .map_err(|e| format!("no runtime: {e}"))?;
                // Never dropped: dropping it would wait for a statement that does not end.
                let runtime: &'static tokio::runtime::Runtime = Box::leak(Box::new(runtime));
                runtime.block_on(replay::run(&replay, &list, &truth))
            };
            within(LIMIT, run).map_err(|broken| broken.to_string())?
        });
        match outcomes {
            Err(why) => Outcome::Fails(format!("the group did not run: {why}")),
            Ok(outcomes) if name == STATEMENTS => outcomes.statements.clone(),
            Ok(outcomes) => {
                let missing = || Outcome::Fails("the group's run gave nothing of this name".to_string());
                outcomes.trials.get(name).cloned().unwrap_or_else(missing)
            }
        }
    }
}

/// The file named by [`REPORT`], made when the first trial is through.
#[derive(Default)]
struct Report(Mutex<Option<File>>);

impl Report {
    fn line(&self, name: &str, outcome: &Outcome) {
        let Some(path) = env::var_os(REPORT) else { return };
        let (word, why) = match outcome {
            Outcome::Holds => ("pass", ""),
            Outcome::ListedRightly(why) => ("listed", why.as_str()),
            Outcome::Fails(why) => ("fail", why.as_str()),
        };
        let mut file = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if file.is_none() {
            *file = File::create(&path).inspect_err(|e| eprintln!("{}: {e}", path.display())).ok();
        }
        if let Some(file) = file.as_mut() {
            let line = format!("{word}\t{name}\t{}\n", why.replace(['\n', '\t'], " "));
            if let Err(error) = file.write_all(line.as_bytes()) {
                eprintln!("{}: {error}", path.display());
            }
        }
    }
}

/// Trials of the runner itself: how scripts and the list are read, and that the list names nothing that is not there.
pub fn checks(replays: &[Replay], list: &ScriptsList) -> Vec<Trial> {
    let plain = |name: &str, check: fn()| {
        Trial::test(format!("runner::{name}"), move || {
            check();
            Ok(())
        })
    };
    let mut trials = vec![
        plain("script_is_read_with_its_directives", script_is_read_with_its_directives),
        plain("scripts_list_knows_answers_and_statements", scripts_list_knows_answers_and_statements),
    ];
    if env::var_os(fixtures::FOLDERS).is_none() {
        let (replays, list) = (replays.to_vec(), list.clone());
        trials.push(Trial::test("runner::every_line_of_the_scripts_list_names_something", move || {
            let answers: Vec<_> = replays
                .iter()
                .flat_map(|replay| replay.steps().filter_map(|step| Some((replay.group.name.as_str(), step.trial()?))))
                .collect();
            let statements: Vec<_> = replays
                .iter()
                .flat_map(|replay| replay.steps().map(|step| (replay.group.name.as_str(), step.sql.as_str())))
                .collect();
            let idle = list.idle_lines(&answers, &statements);
            if idle.is_empty() { Ok(()) } else { Err(Failed::from(idle.join("\n"))) }
        }));
    }
    trials
}

fn script_is_read_with_its_directives() {
    let text = "-- a comment;\nUSE x;\n\n-- @stream\n-- @limit 3\n-- @expect a\nSELECT ';'\n FROM t;\n-- @batch\n-- @fails\n\
                -- @sleep 20\nDROP TABLE t;";
    let steps = script::parse("s", text).unwrap();
    let told: Vec<_> =
        steps.iter().map(|step| (step.line, step.sql.as_str(), step.trial(), step.fails, step.streaming)).collect();
    assert_eq!(
        told,
        [
            (2, "USE x", None, false, false),
            (7, "SELECT ';'\n FROM t", Some("a".to_string()), false, true),
            (12, "DROP TABLE t", Some("s_12_fails".to_string()), true, false),
        ]
    );
    assert_eq!(steps[2].sleep, Duration::from_millis(20));
    for broken in ["SELECT 1", "-- @expcet a\nSELECT 1;", "-- @sleep x\nSELECT 1;"] {
        assert!(script::parse("s", broken).is_err(), "{broken}");
    }
}

fn scripts_list_knows_answers_and_statements() {
    let text = "g::a  later  comes later\ng::a*  open  of the order\n*::\"CALL sys.compact\"  later  compaction\n\
                h::\"CALL sys.compact(x)\"  later  one";
    let list = ScriptsList::parse(text, Path::new("ours")).unwrap();
    assert_eq!(list.answer("g", "a").unwrap().kind, Kind::Later);
    assert_eq!(list.answer("g", "ab").unwrap().kind, Kind::Open);
    assert_eq!(list.answer("h", "a"), None);
    assert_eq!(list.statement("g", "call  sys.compact (1)").unwrap().line, 3);
    assert_eq!(list.statement("h", "CALL sys.compact(x)").unwrap().line, 4);
    assert_eq!(list.statement("g", "CALL sys.other()"), None);
    assert_eq!(list.ours("g", "a"), Path::new("ours/g/a"));
    assert_eq!(
        list.idle_lines(&[("g", "ab".to_string())], &[("x", "CALL sys.compact()")]),
        ["line 1: g::a", "line 4: h::CALL sys.compact(x)"]
    );
    for broken in [
        "a later x",
        "g::a later",
        "g::a sometimes x",
        "g::\"a later x",
        "g::\"a\" open x",
        "g::a later x\ng::a open y",
    ] {
        assert!(ScriptsList::parse(broken, Path::new("ours")).is_err(), "{broken}");
    }
}
