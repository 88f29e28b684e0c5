//! The shell `tidelake`: SQL over a warehouse of tables, from the command line or at a prompt.
//!
//! Built with the feature `cli`. Imports the library's public face, and datafusion-cli for printing and highlighting.

mod shell;

use std::process::ExitCode;

fn main() -> ExitCode {
    shell::main()
}
