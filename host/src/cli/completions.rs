//! `hostelry completions`: what a shell needs to complete the command line.

use clap::CommandFactory as _;

use super::{Cli, Exit};

/// Prints the completions for `shell`.
pub(super) fn print(shell: clap_complete::Shell) -> Exit {
    clap_complete::generate(shell, &mut Cli::command(), "hostelry", &mut std::io::stdout());
    Exit::Clean
}
