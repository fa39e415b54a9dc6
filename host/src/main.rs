//! The `hostelry` program: reads the command line, does what it says, and ends with its exit code.

use std::process::ExitCode;

use clap::Parser as _;
use hostelry::{cli::Cli, runtime::precompile};

fn main() -> ExitCode {
    // The host's own child, which is told nothing else.
    if std::env::args_os().nth(1).is_some_and(|command| command == precompile::COMMAND) {
        return precompile::child();
    }
    ExitCode::from(Cli::parse().run() as u8)
}
