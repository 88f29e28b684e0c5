//! The commands that start with `\`.

use clap::ValueEnum;
use datafusion_cli::command::Command;
use datafusion_cli::print_format::PrintFormat;
use tidelake::{Error, Result};

use super::run::{Shell, message};

const HELP: &str = "\
\\q                      leave the shell
\\d                      list the tables of the current database
\\d NAME                 describe a table
\\l                      list the databases of the current catalog
\\i FILE                 run the statements of a file
\\h                      list the functions
\\h PATTERN              the functions whose names fit a pattern, e.g. \\h to_%
\\pset [format FORMAT]   show or set how rows are printed: table, csv, tsv, json, nd-json
\\quiet [true|false]     show or set whether only rows are printed
\\?                      this help
Statements end with ';'. Ctrl-C ends the statement that runs; Ctrl-D leaves the shell.";

/// What the prompt does after a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    Quit,
}

/// Runs a command.
pub(crate) async fn run(shell: &mut Shell, line: &str) -> Result<Next> {
    let unknown = || Error::invalid(format!("'{}' is not a command; \\? shows all", line.trim()));
    let words: Vec<&str> = line.trim().trim_end_matches(';').split_whitespace().collect();
    let command = words.join(" ");
    match command.as_str() {
        "\\q" => return Ok(Next::Quit),
        "\\?" => println!("{HELP}"),
        "\\l" => shell.statements("SHOW DATABASES").await?,
        _ => match command.get(1..).and_then(|text| text.parse::<Command>().ok()).ok_or_else(unknown)? {
            Command::ListTables => shell.statements("SHOW TABLES").await?,
            Command::DescribeTableStmt(name) => shell.statements(&format!("DESCRIBE {name}")).await?,
            Command::Include(Some(file)) => {
                let text = std::fs::read_to_string(&file).map_err(|error| {
                    Error::invalid("the script cannot be read").with("file", file.as_str()).with_source(error)
                })?;
                Box::pin(shell.script(&text)).await?;
            }
            Command::Include(None) => return Err(Error::invalid("\\i needs the name of a file")),
            Command::QuietMode(quiet) => {
                shell.output.quiet = quiet.unwrap_or(shell.output.quiet);
                println!("quiet is {}", shell.output.quiet);
            }
            Command::OutputFormat(setting) => set_format(shell, setting.as_deref())?,
            Command::ListFunctions => shell.statements("SHOW FUNCTIONS").await?,
            Command::SearchFunctions(name) => {
                shell.statements(&format!("SHOW FUNCTIONS LIKE '{}'", name.replace('\'', "''"))).await?;
            }
            _ => return Err(unknown()),
        },
    }
    Ok(Next::Continue)
}

/// Runs a command at the prompt, where an error is only shown.
pub(crate) async fn run_shown(shell: &mut Shell, line: &str) -> Next {
    match Box::pin(run(shell, line)).await {
        Ok(next) => next,
        Err(error) => {
            eprintln!("Error: {}", message(&error));
            Next::Continue
        }
    }
}

fn set_format(shell: &mut Shell, setting: Option<&str>) -> Result<()> {
    if let Some(setting) = setting {
        let name = setting
            .strip_prefix("format ")
            .ok_or_else(|| Error::invalid(format!("\\pset knows 'format', not '{setting}'")))?;
        shell.output.format = PrintFormat::from_str(name, true)
            .map_err(|_| Error::invalid(format!("'{name}' is not a format; \\? shows all")))?;
    }
    let name = shell.output.format.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
    println!("format is {name}");
    Ok(())
}
