//! The suites of tidelake, in one binary (a second one would link the engine a second time):
//!
//! * `<area>::<topic>`: our sqllogictest files (`slt`),
//! * `truth::<group>::<name>`: answers of other engines over their own tables (`truth`),
//! * `scripts::<group>::<name>`: the scripts of other engines run by us (`scripts`),
//! * `kills::..`: writers that are killed, and many at once (`kills`),
//! * `simulation::<kind>`: writers, upkeep and readers at one table, who are killed (`simulation`),
//! * `mutation::<group>::<table>`: reads of damaged metadata (`mutation`),
//! * `runner::..`: what makes the two trustworthy (`checks`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "this binary is tests from end to end")]

mod answer;
mod cells;
mod checks;
mod child;
mod compare;
mod deadline;
mod fixtures;
mod json;
mod kills;
mod list;
mod mutation;
#[path = "../src/house/random.rs"]
#[allow(dead_code, reason = "the unit tests use all of it")]
mod random;
mod replay;
mod script;
mod scripts;
mod scripts_list;
mod session;
mod shell;
mod simulation;
mod slt;
mod truth;
mod values;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::list::TruthList;
use crate::scripts_list::ScriptsList;

fn main() -> ExitCode {
    match child::task() {
        Some(task) if task["suite"] == "simulation" => return simulation::run_child(task),
        Some(task) => return kills::run_child(task),
        None => {}
    }
    let arguments = Arguments::from_args();
    match trials() {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(error) => {
            eprintln!("sql-tests: {error}");
            ExitCode::FAILURE
        }
    }
}

fn trials() -> Result<Vec<Trial>, String> {
    let folder = fixtures::suites_folder();
    let list = TruthList::read(&folder.join("truth.list"), &folder.join("truth-ours"))?;
    let groups = fixtures::groups()?;
    let scripts = ScriptsList::read(&folder.join("scripts.list"), &folder.join("scripts-ours"))?;
    let replays = scripts::replays(&groups)?;
    let mut trials = checks::trials(&groups, &list);
    trials.extend(scripts::checks(&replays, &scripts));
    trials.extend(slt::trials()?);
    trials.extend(truth::trials(&groups, &list)?);
    trials.extend(scripts::trials(&replays, &scripts, &list)?);
    trials.extend(shell::trials());
    trials.extend(mutation::trials());
    trials.extend(kills::trials());
    trials.extend(simulation::trials());
    Ok(trials)
}
