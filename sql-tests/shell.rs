//! The shell as a user starts it: arguments, scripts, formats, exit status.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use libtest_mimic::{Failed, Trial};

/// What a run of the shell left.
struct Ran {
    status: Option<i32>,
    out: String,
    err: String,
}

/// Runs the shell in an empty folder.
fn tidelake(folder: &Path, args: &[&str], input: &str) -> Result<Ran, Failed> {
    let program = option_env!("CARGO_BIN_EXE_tidelake").ok_or("the shell is not built: use the feature cli")?;
    let mut child = Command::new(program)
        .args(args)
        .current_dir(folder)
        .env("TIDELAKE_HISTORY", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().ok_or("no standard input")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    Ok(Ran {
        status: output.status.code(),
        out: String::from_utf8(output.stdout)?,
        err: String::from_utf8(output.stderr)?,
    })
}

fn same<T: Copy + PartialEq + std::fmt::Debug>(what: &str, left: T, right: T) -> Result<(), Failed> {
    if left == right { Ok(()) } else { Err(format!("{what}: {left:?} is not {right:?}").into()) }
}

fn has(text: &str, part: &str) -> Result<(), Failed> {
    if text.contains(part) { Ok(()) } else { Err(format!("'{part}' is not in: {text}").into()) }
}

/// A trial, in a folder of its own.
type Test = fn(&Path) -> Result<(), Failed>;

/// The trials `shell::<name>`; empty without the feature cli.
pub fn trials() -> Vec<Trial> {
    if option_env!("CARGO_BIN_EXE_tidelake").is_none() {
        return Vec::new();
    }
    let trials: [(&str, Test); 17] = [
        ("statements_run_in_order_over_c_and_f", statements_run_in_order),
        ("the_first_error_stops_with_status_1", first_error_stops),
        ("formats_print_as_they_should", formats),
        ("quiet_prints_rows_only", quiet),
        ("standard_input_is_a_script", standard_input),
        ("commands_work_in_a_script", commands),
        ("catalogs_are_named_by_options", catalogs),
        ("a_read_only_session_takes_queries_only", read_only),
        ("changes_are_refused_as_not_built", changes),
        ("the_default_warehouse_is_not_created_by_reading", default_warehouse),
        ("a_missing_warehouse_is_said", missing_warehouse),
        ("the_session_zone_shows_instants", zone),
        ("the_memory_limit_holds", memory_limit),
        ("a_file_that_is_gone_is_told_with_what_to_do", missing_file),
        ("a_script_that_is_interrupted_leaves_nothing", interrupted),
        ("maintain_compacts_expires_and_tells_what_it_did", maintain),
        ("maintain_again_and_again_ends_for_a_wrong_name_only", maintain_every),
    ];
    let run = |test: Test| {
        move || {
            let folder = tempfile::tempdir()?;
            test(folder.path())
        }
    };
    trials.into_iter().map(|(name, test)| Trial::test(format!("shell::{name}"), run(test))).collect()
}

fn statements_run_in_order(folder: &Path) -> Result<(), Failed> {
    std::fs::write(folder.join("a.sql"), "-- a file; with a comment\nSELECT 'f;1'\n AS x;\nSELECT 'f2' AS x")?;
    let args =
        ["-q", "--format", "csv", "-c", "SELECT 'c1' AS x; SELECT 'c2' AS x", "-f", "a.sql", "-c", "SELECT 'c3' AS x"];
    let ran = tidelake(folder, &args, "")?;
    same("status", ran.status, Some(0))?;
    same("rows", ran.out.as_str(), "x\nc1\nx\nc2\nx\nf;1\nx\nf2\nx\nc3\n")
}

fn first_error_stops(folder: &Path) -> Result<(), Failed> {
    let ran =
        tidelake(folder, &["-q", "--format", "csv", "-c", "SELECT 1 AS x; SELECT * FROM nothing; SELECT 2 AS x"], "")?;
    same("status", ran.status, Some(1))?;
    same("rows", ran.out.as_str(), "x\n1\n")?;
    has(&ran.err, "Error: ")?;
    has(&ran.err, "nothing")?;
    for args in
        [vec!["-f", "missing.sql"], vec!["--nonsense"], vec!["-c", "SELECT 'open"], vec!["--memory-limit", "5x"]]
    {
        let ran = tidelake(folder, &args, "")?;
        if ran.status == Some(0) || ran.err.is_empty() {
            return Err(format!("{args:?} gives {:?} and says '{}'", ran.status, ran.err).into());
        }
    }
    Ok(())
}

fn formats(folder: &Path) -> Result<(), Failed> {
    let sql = "SELECT * FROM (VALUES (1, 'a'), (2, NULL)) t(x, y) ORDER BY x";
    for (format, expected) in [
        ("csv", "x,y\n1,a\n2,\n"),
        ("tsv", "x\ty\n1\ta\n2\t\n"),
        ("json", "[{\"x\":1,\"y\":\"a\"},{\"x\":2}]\n"),
        ("nd-json", "{\"x\":1,\"y\":\"a\"}\n{\"x\":2}\n"),
        ("table", "+---+------+\n| x | y    |\n+---+------+\n| 1 | a    |\n| 2 | NULL |\n+---+------+\n"),
        ("automatic", "+---+------+\n| x | y    |\n+---+------+\n| 1 | a    |\n| 2 | NULL |\n+---+------+\n"),
    ] {
        let ran = tidelake(folder, &["-q", "--format", format, "-c", sql], "")?;
        same(format, ran.out.as_str(), expected)?;
    }
    let many = "SELECT * FROM generate_series(1, 100000) t(x)";
    let ran = tidelake(folder, &["-q", "--format", "csv", "-c", many], "")?;
    same("lines", ran.out.lines().count(), 100_001)?;
    let ran = tidelake(folder, &["--maxrows", "3", "-c", many], "")?;
    has(&ran.out, "100000 row(s) fetched. (First 3 displayed. Use --maxrows to adjust)")?;
    same("lines", ran.out.lines().count(), 10)
}

fn quiet(folder: &Path) -> Result<(), Failed> {
    let loud = tidelake(folder, &["-c", "SELECT 1 AS x"], "")?;
    has(&loud.out, "1 row(s) fetched.")?;
    has(&loud.out, "Elapsed ")?;
    let quiet = tidelake(folder, &["-q", "-c", "SET TIME ZONE 'UTC'; SELECT 1 AS x"], "")?;
    same("rows", quiet.out.as_str(), "+---+\n| x |\n+---+\n| 1 |\n+---+\n")?;
    same("errors", quiet.err.as_str(), "")
}

fn standard_input(folder: &Path) -> Result<(), Failed> {
    let ran = tidelake(
        folder,
        &["-q", "--format", "csv"],
        "SELECT 'a\nb' AS x;\nSELECT 2 AS x;\nSELECT y FROM x;\nSELECT 3 AS x",
    )?;
    same("status", ran.status, Some(1))?;
    same("rows", ran.out.as_str(), "x\n\"a\nb\"\nx\n2\n")?;
    let ran = tidelake(folder, &["-q", "--format", "csv", "-f", "-"], "SELECT 1 AS x")?;
    same("rows", ran.out.as_str(), "x\n1\n")
}

fn commands(folder: &Path) -> Result<(), Failed> {
    std::fs::write(folder.join("a.sql"), "SELECT 7 AS x;")?;
    let script = "\\pset format csv\n\\i a.sql\nCREATE DATABASE d;\n\\d\n\\?\n\\nonsense\nSELECT 8 AS x;";
    let ran = tidelake(folder, &["-q"], script)?;
    same("status", ran.status, Some(1))?;
    has(&ran.out, "x\n7\ntable name\n")?;
    has(&ran.out, "leave the shell")?;
    has(&ran.err, "'\\nonsense' is not a command")
}

fn catalogs(folder: &Path) -> Result<(), Failed> {
    let args =
        ["-q", "--format", "csv", "--catalog", "a=warehouse=x,metastore=filesystem", "--catalog", "b=warehouse=y"];
    let sql = ["-c", "SHOW CURRENT CATALOG; USE CATALOG b; SHOW CURRENT CATALOG"];
    let ran = tidelake(folder, &[&args[..], &sql[..]].concat(), "")?;
    same("rows", ran.out.as_str(), "current catalog name\na\ncurrent catalog name\nb\n")?;
    for wrong in ["a", "a=x", "a=warehouse=x,whatever=1", "a=warehouse=x,metastore=nothing", "a=metastore=filesystem"] {
        let ran = tidelake(folder, &["--catalog", wrong, "-c", "SELECT 1"], "")?;
        same(wrong, ran.status, Some(1))?;
        has(&ran.err, "Error: ")?;
    }
    Ok(())
}

fn read_only(folder: &Path) -> Result<(), Failed> {
    let ran = tidelake(folder, &["-q", "--read-only", "-c", "COPY (SELECT 1 AS x) TO 'out.csv'"], "")?;
    same("status", ran.status, Some(1))?;
    has(&ran.err, "only reads")?;
    for change in ["CREATE DATABASE d", "CREATE TABLE t (a INT)", "INSERT INTO t SELECT 1", "DROP TABLE IF EXISTS t"] {
        let ran = tidelake(folder, &["-q", "--read-only", "-c", change], "")?;
        same("status", ran.status, Some(1))?;
        has(&ran.err, "only reads")?;
    }
    same("files", std::fs::read_dir(folder)?.count(), 0)?;
    same("status", tidelake(folder, &["--read-only", "-c", "SELECT 1"], "")?.status, Some(0))
}

fn changes(folder: &Path) -> Result<(), Failed> {
    let ran = tidelake(folder, &["-c", "CALL sys.clone(`table` => 'x')"], "")?;
    same("status", ran.status, Some(1))?;
    has(&ran.err, "Error: procedure clone is not built in this version")
}

fn default_warehouse(folder: &Path) -> Result<(), Failed> {
    let ran = tidelake(folder, &["-q", "-c", "SHOW CURRENT DATABASE; SHOW PROCEDURES; SELECT 1 AS x"], "")?;
    same("status", ran.status, Some(0))?;
    same("errors", ran.err.as_str(), "")?;
    same("files", std::fs::read_dir(folder)?.count(), 0)
}

fn missing_warehouse(folder: &Path) -> Result<(), Failed> {
    let missing = "missing does not exist; the first CREATE DATABASE or CREATE TABLE makes it";
    for sql in [
        "SHOW TABLES",
        "SHOW DATABASES",
        "SHOW TABLES FROM default",
        "SELECT * FROM t",
        "SELECT * FROM default.t",
        "DESCRIBE t",
        "INSERT INTO t VALUES (1)",
        "DELETE FROM t",
        "SELECT * FROM sys.tables",
        "CALL sys.compact('t')",
        "CALL sys.compact_database()",
        "\\d",
        "\\l",
    ] {
        let ran = tidelake(folder, &["-q", "--warehouse", "missing"], sql)?;
        same(sql, ran.status, Some(1))?;
        has(&ran.err, missing).map_err(|error| format!("{sql}: {error:?}"))?;
    }
    for args in [vec![], vec!["--check"], vec!["db"], vec!["db.t", "--every", "1d"], vec!["--every", "1d"]] {
        let ran = tidelake(folder, &[&["maintain", "--warehouse", "missing"], &args[..]].concat(), "")?;
        same("status", ran.status, Some(1))?;
        has(&ran.err, missing)?;
    }
    // A script, which has no greeting, is told before it runs; one that creates something goes on.
    let ran = tidelake(folder, &["--warehouse", "missing", "-c", "SELECT 1 AS x"], "")?;
    same("status", ran.status, Some(0))?;
    has(&ran.err, "missing is not there yet: the first CREATE makes it")?;
    same("files", std::fs::read_dir(folder)?.count(), 0)?;
    for sql in ["CREATE TABLE t (a INT)", "CREATE DATABASE d", "CREATE DATABASE d; CREATE TABLE d.t (a INT)"] {
        let ran = tidelake(folder, &["-q", "--warehouse", "made", "-c", sql, "-c", "SHOW TABLES"], "")?;
        same("errors", ran.err.as_str(), "")?;
        same(sql, ran.status, Some(0))?;
        std::fs::remove_dir_all(folder.join("made"))?;
    }
    Ok(())
}

fn zone(folder: &Path) -> Result<(), Failed> {
    let sql = "SELECT CAST('2024-01-01 00:00:00' AS TIMESTAMP_LTZ(3)) AS t; SET 'table.local-time-zone' = 'Asia/Tokyo'; \
               SELECT TIMESTAMP_LTZ '2024-01-01 00:00:00' AS t, CAST(1704067200000 AS BIGINT) AS n";
    let ran = tidelake(folder, &["-q", "--format", "csv", "-c", sql], "")?;
    same("rows", ran.out.as_str(), "t\n2024-01-01T00:00:00Z\nt,n\n2024-01-01T00:00:00+09:00,1704067200000\n")
}

fn memory_limit(folder: &Path) -> Result<(), Failed> {
    let sql = "SELECT array_agg(x) FROM generate_series(1, 10000000) t(x)";
    let ran = tidelake(folder, &["-q", "--memory-limit", "1m", "-c", sql], "")?;
    same("status", ran.status, Some(1))?;
    has(&ran.err, "memory")
}

fn missing_file(folder: &Path) -> Result<(), Failed> {
    let ran = tidelake(folder, &["-q", "-c", "CREATE TABLE t (id INT); INSERT INTO t VALUES (1)"], "")?;
    same("status", ran.status, Some(0))?;
    let bucket = folder.join("warehouse/default.db/t/bucket-0");
    for entry in std::fs::read_dir(&bucket)? {
        std::fs::remove_file(entry?.path())?;
    }
    let ran = tidelake(folder, &["-q", "-c", "SELECT * FROM t"], "")?;
    same("status", ran.status, Some(1))?;
    has(&ran.err, "where the snapshot has expired since the query was planned, run the query again")
}

/// Ends the shell by a signal as soon as it has begun to write a file, and gives its exit status and errors.
#[cfg(unix)]
fn ended_by(signal: &str, folder: &Path, sql: &str) -> Result<(Option<i32>, String), Failed> {
    let program = option_env!("CARGO_BIN_EXE_tidelake").ok_or("the shell is not built: use the feature cli")?;
    let child = Command::new(program)
        .args(["-q", "-c", sql])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let begun = std::time::Instant::now();
    while data_files(folder)?.is_empty() {
        if begun.elapsed().as_secs() > 60 {
            return Err("no file was begun".into());
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let told = Command::new("kill").args([signal, &child.id().to_string()]).status()?;
    same("kill", told.success(), true)?;
    let output = child.wait_with_output()?;
    Ok((output.status.code(), String::from_utf8(output.stderr)?))
}

/// The names of all data files below a folder, also of those that are not finished.
#[cfg(unix)]
fn data_files(folder: &Path) -> Result<Vec<String>, Failed> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(found) };
    for entry in entries {
        let Ok(entry) = entry else { continue };
        if entry.path().is_dir() {
            found.append(&mut data_files(&entry.path())?);
        } else if entry.file_name().to_string_lossy().starts_with("data-") {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(found)
}

fn interrupted(folder: &Path) -> Result<(), Failed> {
    #[cfg(unix)]
    {
        let rows = "SELECT value AS id, md5(CAST(value AS STRING)) AS v FROM generate_series(1, 50000000)";
        let options = "WITH ('target-file-size' = '1 mb')";
        let (status, err) = ended_by("-INT", folder, &format!("CREATE TABLE made {options} AS {rows}"))?;
        same("status", status, Some(130))?;
        has(&err, "interrupted")?;
        let ran = tidelake(folder, &["-q", "--format", "csv", "-c", "SHOW TABLES"], "")?;
        same("tables", ran.out.contains("made"), false)?;
        same("files of a table that was not made", data_files(folder)?.len(), 0)?;
        let ran = tidelake(folder, &["-q", "-c", &format!("CREATE TABLE t (id BIGINT, v STRING) {options}")], "")?;
        same("status", ran.status, Some(0))?;
        let (status, _) = ended_by("-TERM", folder, &format!("INSERT INTO t {rows}"))?;
        same("status", status, Some(130))?;
        same("files of rows that were not committed", data_files(folder)?.len(), 0)?;
    }
    let _ = folder;
    Ok(())
}

fn maintain(folder: &Path) -> Result<(), Failed> {
    let mut sql = "CREATE TABLE t (id INT) WITH ('compaction.min.file-num' = '2', 'snapshot.num-retained.min' = '1', \
                   'snapshot.time-retained' = '1 ms', 'write-only' = 'true'); CREATE TABLE empty (id INT);"
        .to_owned();
    for id in 0..3 {
        sql.push_str(&format!("INSERT INTO t VALUES ({id});"));
    }
    let ran = tidelake(folder, &["-q", "-c", &sql], "")?;
    same("status", ran.status, Some(0))?;
    std::thread::sleep(std::time::Duration::from_millis(20));
    let ran = tidelake(folder, &["maintain", "default.t", "--once"], "")?;
    same("status", ran.status, Some(0))?;
    has(&ran.out, "compaction: 3 files of")?;
    has(&ran.out, "became 1 of")?;
    // The third is younger: its successor has just come.
    has(&ran.out, "snapshots: 2 expired, ")?;
    has(&ran.out, "1 tables, 0 failed")?;
    let ran = tidelake(folder, &["maintain", "--no-orphans"], "")?;
    same("status", ran.status, Some(0))?;
    has(&ran.out, "[1/2] default.empty: in order")?;
    has(&ran.out, "2 tables, 0 failed")?;
    let ran = tidelake(folder, &["-q", "--format", "csv", "-c", "SELECT count(*) AS n FROM t"], "")?;
    same("rows", ran.out.as_str(), "n\n3\n")?;
    let ran = tidelake(folder, &["maintain", "--check", "default"], "")?;
    same("status", ran.status, Some(0))?;
    same("answer", ran.out.as_str(), "2 tables looked at, all in order\n")?;
    let ran = tidelake(folder, &["maintain", "--check", "-q", "t"], "")?;
    same("status", ran.status, Some(0))?;
    same("answer", ran.out.as_str(), "")?;
    let mut sql = "CREATE TABLE small (id INT) WITH ('write-only' = 'true');".to_owned();
    for id in 0..60 {
        sql.push_str(&format!("INSERT INTO small VALUES ({id});"));
    }
    same("status", tidelake(folder, &["-q", "-c", &sql], "")?.status, Some(0))?;
    let ran = tidelake(folder, &["maintain", "--check"], "")?;
    same("status", ran.status, Some(1))?;
    has(&ran.out, "default.small: small_files")?;
    has(&ran.out, "3 tables looked at, 1 not in order")
}

fn maintain_every(folder: &Path) -> Result<(), Failed> {
    let ran = tidelake(folder, &["-q", "-c", "CREATE TABLE t (id INT)"], "")?;
    same("status", ran.status, Some(0))?;
    for (name, said) in [
        ("default.nobody", "table default.nobody does not exist"),
        ("nobody.t", "database nobody does not exist"),
        ("nobody", "nobody does not exist"),
        ("t$files", "is a system table"),
    ] {
        for how in [&["--once"][..], &["--check"], &["--every", "1d"], &["--check", "--every", "1d"]] {
            let ran = tidelake(folder, &[&["maintain", name], how].concat(), "")?;
            same(name, ran.status, Some(1))?;
            has(&ran.err, said)?;
        }
    }
    // A table that goes away later is told of, and the upkeep goes on.
    let program = option_env!("CARGO_BIN_EXE_tidelake").ok_or("the shell is not built: use the feature cli")?;
    let mut child = Command::new(program)
        .args(["maintain", "default.t", "--every", "100ms"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no standard output")?).lines();
    has(&lines.next().ok_or("no first line")??, "default.t")?;
    let dropped = tidelake(folder, &["-q", "-c", "DROP TABLE t"], "")?;
    let errors = BufReader::new(child.stderr.take().ok_or("no standard error")?).lines();
    // The first ones may be of the run that it disappeared from.
    let told: String = errors.take(5).collect::<Result<Vec<_>, _>>()?.join("\n");
    let goes_on = child.try_wait()?.is_none();
    child.kill()?;
    child.wait()?;
    same("status of DROP TABLE", dropped.status, Some(0))?;
    has(&told, "table default.t does not exist")?;
    same("goes on", goes_on, true)
}
