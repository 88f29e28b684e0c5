//! `tidelake maintain`: upkeep of tables from the command line, once or again and again.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use tidelake::writer::{Budget, shown_bytes};
use tidelake::{Error, ErrorKind, LakeSession, Result};

/// Compact, expire and clean tables as their options say.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct Maintain {
    /// A table (db.t) or a database; all tables of the warehouse without one
    #[arg(value_name = "NAME")]
    pub target: Option<String>,

    /// Do it once and end; status 1 when anything failed [the default]
    #[arg(long, conflicts_with = "every")]
    pub once: bool,

    /// Do it again after so long, e.g. 10m, until the process is ended
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub every: Option<Duration>,

    /// Most bytes that compactions read in a run, e.g. 10g
    #[arg(long, value_name = "SIZE", value_parser = super::args::size)]
    pub budget_bytes: Option<usize>,

    /// No table is begun after so long in a run, e.g. 30m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget_time: Option<Duration>,

    /// Do not look for files that nothing refers to, which lists all folders
    #[arg(long)]
    pub no_orphans: bool,

    /// Only tell what is out of order
    #[arg(long)]
    pub check: bool,
}

/// Runs upkeep. Whether all of it worked, the last time where it is repeated.
pub(crate) async fn run(session: &LakeSession, maintain: &Maintain, quiet: bool) -> Result<bool> {
    let mut was_there = false;
    loop {
        let worked = Box::pin(once(session, maintain, quiet)).await;
        let Some(every) = maintain.every else { return worked };
        match worked {
            Ok(_) => was_there = true,
            // What was never there is a wrong name: waiting does not cure it.
            Err(error) if !was_there && is_of_the_request(&error) => return Err(error),
            // A store that is away for a moment is there again next time, and so may be a table that is made anew.
            Err(error) => eprintln!("Error: {}", super::run::message(&error)),
        }
        tokio::time::sleep(every).await;
    }
}

/// Whether what was asked for is wrong, and not only what happened meanwhile.
fn is_of_the_request(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid | ErrorKind::Unsupported)
}

async fn once(session: &LakeSession, maintain: &Maintain, quiet: bool) -> Result<bool> {
    if maintain.check {
        return check(session, maintain, quiet).await;
    }
    let begun = Instant::now();
    let mut budget = Budget {
        bytes: maintain.budget_bytes.map(|bytes| bytes as u64),
        until: maintain.budget_time.map(|time| begun + time),
        keeps_orphans: maintain.no_orphans,
    };
    let tables = session.tables_of(maintain.target.as_deref()).await?;
    let (count, mut failed, mut saved, mut left) = (tables.len(), 0, 0, 0);
    for (position, (name, table)) in tables.into_iter().enumerate() {
        if budget.until.is_some_and(|until| Instant::now() >= until) {
            left += 1;
            continue;
        }
        let cared = match table {
            Ok(table) => Box::pin(session.care_for(&table, &mut budget)).await,
            Err(error) => Err(error),
        };
        match cared {
            Ok(report) => {
                failed += usize::from(report.has_failed());
                saved += report.saved();
                if !quiet || report.has_failed() {
                    tell(format_args!("[{}/{count}] {report}", position + 1));
                }
            }
            Err(error) => {
                failed += 1;
                eprintln!("[{}/{count}] {name}: failed: {}", position + 1, super::run::message(&error));
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let rest = if left > 0 { format!(", {left} left to the next run") } else { String::new() };
    tell(format_args!("{count} tables{rest}, {failed} failed, {} saved in {seconds:.1} s", shown_bytes(saved)));
    Ok(failed == 0)
}

/// A line on standard output. Whoever reads no more of it, such as `head`, does not end the upkeep.
fn tell(line: std::fmt::Arguments<'_>) {
    // Nobody is left to be told that it failed.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Tells what is out of order. Whether nothing is.
async fn check(session: &LakeSession, maintain: &Maintain, quiet: bool) -> Result<bool> {
    let tables = session.tables_of(maintain.target.as_deref()).await?;
    let (count, mut wrong) = (tables.len(), 0);
    for (name, table) in tables {
        let findings = match table {
            Ok(table) => Box::pin(session.findings(&table)).await,
            Err(error) => Err(error),
        };
        wrong += usize::from(!findings.as_ref().is_ok_and(Vec::is_empty));
        match findings {
            Ok(findings) => {
                for finding in findings {
                    tell(format_args!("{name}: {} {}: {}", finding.check, finding.severity, finding.detail));
                    if let Some(cure) = &finding.cure {
                        tell(format_args!("  {cure}"));
                    }
                }
            }
            Err(error) => eprintln!("{name}: failed: {}", super::run::message(&error)),
        }
    }
    match wrong {
        0 if quiet => {}
        0 => tell(format_args!("{count} tables looked at, all in order")),
        wrong => tell(format_args!("{count} tables looked at, {wrong} not in order")),
    }
    Ok(wrong == 0)
}

/// A time: `30s`, `10m`, `2h`, `1d`, or anything that options take.
fn duration(text: &str) -> std::result::Result<Duration, String> {
    let text = text.trim();
    let short = text.strip_suffix('m').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let spelled = short.map_or_else(|| text.to_owned(), |digits| format!("{digits} min"));
    let time = tidelake::options::parse_duration(&spelled).filter(|time| !time.is_zero());
    time.ok_or_else(|| format!("'{text}' is not a time such as 10m"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_when_units_differ_then_read() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("2 h"), Ok(Duration::from_secs(7200)));
        assert_eq!(duration("1d"), Ok(Duration::from_secs(86_400)));
        assert!(["", "m", "0s", "soon"].iter().all(|text| duration(text).is_err()));
    }
}
