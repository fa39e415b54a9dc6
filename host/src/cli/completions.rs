//! `hostelry completions`: what a shell needs to complete the command line.

use std::io::Write as _;

use clap::CommandFactory as _;

use super::{Cli, Exit};

/// Prints the completions for `shell`.
pub(super) fn print(shell: clap_complete::Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hostelry", &mut script);
    // Whoever reads may have seen enough.
    drop(std::io::stdout().write_all(&script));
    Exit::Clean
}
