//! The command line.

use std::collections::BTreeMap;
use std::path::Path;

use clap::{ArgMatches, Parser, Subcommand, ValueEnum};
use datafusion_cli::print_format::PrintFormat;
use datafusion_cli::print_options::MaxRows;
use tidelake::{Error, Result};

use super::maintain::Maintain;

/// The name of the catalog over `--warehouse`.
const DEFAULT_CATALOG: &str = "lake";
/// The folder of the default catalog.
const DEFAULT_WAREHOUSE: &str = "warehouse";

/// A catalog's name and options.
type Catalog = (String, BTreeMap<String, String>);

/// SQL over a warehouse of Apache Paimon tables.
#[derive(Debug, Parser)]
#[command(name = "tidelake", version, about)]
pub(crate) struct Args {
    /// What to do instead of running statements
    #[command(subcommand)]
    pub task: Option<Task>,

    /// The warehouse of the catalog 'lake': a folder or a URL [default: ./warehouse]
    #[arg(long, global = true, value_name = "DIR|URL")]
    pub warehouse: Option<String>,

    /// One more catalog, e.g. archive=warehouse=/mnt/archive,metastore=filesystem
    #[arg(long, global = true, value_name = "NAME=KEY=VALUE,..")]
    pub catalog: Vec<String>,

    /// The database to start in
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub database: String,

    /// Statements to run instead of a prompt
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    pub command: Vec<String>,

    /// Files of statements to run instead of a prompt; - is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    pub file: Vec<String>,

    /// How rows are printed
    #[arg(long, value_enum, default_value_t = PrintFormat::Automatic)]
    pub format: PrintFormat,

    /// Rows shown of a table: a number or 'inf' [default: 40 at a prompt, else all]
    #[arg(long, value_name = "ROWS")]
    pub maxrows: Option<MaxRows>,

    /// Print rows only: no greeting, counts, times or progress
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Memory for queries, e.g. 512m or 4g [default: no limit]
    #[arg(short, long, global = true, value_name = "SIZE", value_parser = size)]
    pub memory_limit: Option<usize>,

    /// How operators share that memory: in equal parts by those that can spill to disk, or first come, first served
    #[arg(long, global = true, value_enum, value_name = "TYPE", default_value_t = MemoryPoolType::Fair)]
    pub mem_pool_type: MemoryPoolType,

    /// Take queries only
    #[arg(long)]
    pub read_only: bool,
}

/// Who gets memory when there is a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryPoolType {
    Fair,
    Greedy,
}

/// What the shell does instead of running statements.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Task {
    /// Compact, expire and clean tables as their options say
    Maintain(Maintain),
}

/// Statements that came with the command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Script {
    Command(String),
    File(String),
    StandardInput,
}

impl Script {
    /// What `-c` and `-f` name, in the order of the command line.
    pub(crate) fn in_order(args: &Args, matches: &ArgMatches) -> Vec<Self> {
        let positions = |id: &str| matches.indices_of(id).into_iter().flatten().collect::<Vec<_>>();
        let commands = positions("command").into_iter().zip(args.command.iter().cloned().map(Self::Command));
        let files = positions("file").into_iter().zip(args.file.iter().cloned().map(Self::File));
        let mut scripts: Vec<_> = commands.chain(files).collect();
        scripts.sort_by_key(|(position, _)| *position);
        scripts.into_iter().map(|(_, script)| script).collect()
    }
}

impl Args {
    /// The current catalog, and all of them with their options.
    pub(crate) fn catalogs(&self) -> Result<(String, Vec<Catalog>)> {
        let mut catalogs = self.catalog.iter().map(|text| catalog(text)).collect::<Result<Vec<_>>>()?;
        let named = catalogs.iter().any(|(name, _)| name == DEFAULT_CATALOG);
        if self.warehouse.is_some() && named {
            return Err(Error::invalid(format!("--warehouse and --catalog both name the catalog '{DEFAULT_CATALOG}'")));
        }
        if self.warehouse.is_some() || catalogs.is_empty() {
            let options = BTreeMap::from([("warehouse".to_owned(), self.default_warehouse().to_owned())]);
            catalogs.insert(0, (DEFAULT_CATALOG.to_owned(), options));
        }
        Ok((catalogs[0].0.clone(), catalogs))
    }

    fn default_warehouse(&self) -> &str {
        self.warehouse.as_deref().unwrap_or(DEFAULT_WAREHOUSE)
    }

    /// What the shell says of its catalogs at the start.
    pub(crate) fn greeting(&self) -> String {
        let Ok((current, catalogs)) = self.catalogs() else { return String::new() };
        let warehouse = catalogs[0].1.get("warehouse").map_or("nothing", String::as_str);
        let mut text = format!("catalog {current} over {}", shown(warehouse));
        if is_missing(warehouse) {
            text.push_str(" (not there yet: the first CREATE makes it)");
        }
        for (name, _) in &catalogs[1..] {
            text.push_str(&format!(", catalog {name}"));
        }
        text
    }

    /// The warehouses that the command line names and that are not there: a wrong name, or one of a folder that is to be made.
    pub(crate) fn missing_warehouses(&self) -> Result<Vec<String>> {
        if self.warehouse.is_none() && self.catalog.is_empty() {
            return Ok(Vec::new());
        }
        let (_, catalogs) = self.catalogs()?;
        let named = catalogs.iter().filter_map(|(_, options)| options.get("warehouse"));
        Ok(named.filter(|warehouse| is_missing(warehouse)).map(|warehouse| shown(warehouse)).collect())
    }
}

/// Whether a warehouse would be a folder here and is not there.
fn is_missing(warehouse: &str) -> bool {
    let path = warehouse.strip_prefix("file://").unwrap_or(warehouse);
    !path.contains("://") && !Path::new(path).is_dir()
}

/// A folder with its whole path.
fn shown(warehouse: &str) -> String {
    if warehouse.contains("://") {
        return warehouse.to_owned();
    }
    std::path::absolute(warehouse).map_or_else(|_| warehouse.to_owned(), |path| path.display().to_string())
}

fn catalog(text: &str) -> Result<Catalog> {
    let wrong = || Error::invalid(format!("--catalog '{text}' is not NAME=KEY=VALUE,KEY=VALUE,.."));
    let (name, options) = text.split_once('=').ok_or_else(wrong)?;
    let mut all = BTreeMap::new();
    for pair in options.split(',') {
        let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
        if all.insert(key.trim().to_owned(), value.to_owned()).is_some() {
            return Err(Error::invalid(format!("--catalog '{text}' gives '{key}' twice")));
        }
    }
    if name.is_empty() { Err(wrong()) } else { Ok((name.to_owned(), all)) }
}

/// A number of bytes: `1000`, `64k`, `512mb`, `4G`.
pub(super) fn size(text: &str) -> std::result::Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &lower[digits.len()..] {
        "" | "b" => 0,
        "k" | "kb" => 10,
        "m" | "mb" => 20,
        "g" | "gb" => 30,
        "t" | "tb" => 40,
        unit => return Err(format!("'{unit}' is not a unit; there are b, k, m, g and t")),
    };
    let number: usize = digits.parse().map_err(|_| format!("'{text}' is not a size such as 512m"))?;
    number.checked_mul(1 << shift).filter(|bytes| *bytes > 0).ok_or_else(|| format!("'{text}' is not a possible size"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn args(text: &[&str]) -> Args {
        Args::parse_from([&["tidelake"], text].concat())
    }

    #[test]
    fn catalogs_when_none_is_named_then_lake_over_a_folder_here() {
        let (current, catalogs) = args(&[]).catalogs().unwrap();
        assert_eq!(current, "lake");
        assert_eq!(catalogs[0].1["warehouse"], "warehouse");
    }

    #[test]
    fn catalogs_when_several_are_named_then_the_first_is_current() {
        let named = args(&["--catalog", "a=warehouse=/x,metastore=filesystem", "--catalog", "b=warehouse=s3://y"]);
        let (current, catalogs) = named.catalogs().unwrap();
        assert_eq!((current.as_str(), catalogs.len()), ("a", 2));
        let with_warehouse = args(&["--catalog", "a=warehouse=/x", "--warehouse", "/w"]).catalogs().unwrap();
        assert_eq!(with_warehouse.0, "lake");
        assert!(args(&["--catalog", "lake=warehouse=/x", "--warehouse", "/w"]).catalogs().is_err());
        assert!(args(&["--catalog", "a"]).catalogs().is_err());
        assert!(args(&["--catalog", "a=x"]).catalogs().is_err());
    }

    #[test]
    fn size_when_units_differ_then_bytes_are_right() {
        assert_eq!(size("64MB"), Ok(64 << 20));
        assert_eq!(size("7"), Ok(7));
        assert!(["", "m", "0", "-1k", "5x", "99999999999t"].iter().all(|text| size(text).is_err()));
    }

    #[test]
    fn in_order_when_commands_and_files_are_mixed_then_their_order_stays() {
        let matches = Args::command().get_matches_from(["tidelake", "-f", "a", "-c", "b", "-f", "c"]);
        let args = <Args as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
        let expected = [Script::File("a".into()), Script::Command("b".into()), Script::File("c".into())];
        assert_eq!(Script::in_order(&args, &matches), expected);
    }
}
