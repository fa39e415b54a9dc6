//! The command line: what was typed, and which file does it.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Args, Parser, Subcommand};

mod chat;
mod check;
mod completions;
mod dev;
mod failures;
mod keys;
mod new;
mod selftest;
mod serve;

pub use chat::ChatArgs;
pub use check::CheckArgs;
pub use dev::DevArgs;
pub use failures::FailuresArgs;
pub use new::NewArgs;
pub use selftest::SelftestArgs;

/// Serves AI agents, written as WebAssembly components, over the Mythra and Lingzhu protocols.
#[derive(Debug, Parser)]
#[command(name = "hostelry", version, about, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a folder with a new agent that builds
    New(NewArgs),
    /// Build an agent, serve it and talk to it, anew at each change
    Dev(DevArgs),
    /// Serve the components of a folder, and take new ones as they are dropped there
    Serve(ServeArgs),
    /// Say whether a component can be served here, and what it needs
    Check(CheckArgs),
    /// Talk to an agent from the terminal
    Chat(ChatArgs),
    /// Attack a host of this configuration, and say of each limit whether it holds
    Selftest(SelftestArgs),
    /// List the turns that failed, or tell what is known of one
    Failures(FailuresArgs),
    /// Make keys for tenants, and for the admin listener
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What `serve` takes; each flag goes before the file's own word.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The configuration [default: hostelry.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder whose components are served [default: plugins]
    #[arg(long, value_name = "DIR")]
    pub plugins: Option<PathBuf>,
    /// Where clients connect; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub listen: Option<SocketAddr>,
    /// Where operators look; loopback only [default: nowhere]
    #[arg(long, value_name = "ADDR")]
    pub admin_listen: Option<SocketAddr>,
    /// The folder that the host keeps its own state in [default: data]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// How much is logged: error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", value_parser = ["error", "warn", "info", "debug", "trace"])]
    pub log_level: String,
}

/// What `keys` does.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key, print it once, and print the line for the configuration
    New {
        /// The tenant that the key opens
        tenant: String,
        /// The one agent that the key opens, if it is not to open all of them
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
        /// From when on the key opens nothing: a date such as 2027-01-31, or a time from now such as 90days
        #[arg(long, value_name = "WHEN")]
        expires: Option<String>,
    },
    /// Make a key for the admin listener, print it once, and print the line for the configuration
    Admin {
        /// From when on the key opens nothing: a date such as 2027-01-31, or a time from now such as 90days
        #[arg(long, value_name = "WHEN")]
        expires: Option<String>,
    },
}

/// How a command ended, as the process's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Well.
    Clean = 0,
    /// Anything that is not a matter of usage.
    Failed = 1,
    /// A wrong flag, or a wrong configuration.
    Usage = 2,
}

impl Cli {
    /// Does what was asked.
    pub fn run(self) -> Exit {
        match self.command {
            Command::Dev(args) => dev::run(&args),
            Command::New(args) => new::run(&args),
            Command::Serve(args) => serve::run(&args),
            Command::Check(args) => check::run(&args),
            Command::Chat(args) => chat::run(&args),
            Command::Selftest(args) => selftest::run(&args),
            Command::Failures(args) => failures::run(&args),
            Command::Keys(KeysCommand::Admin { expires }) => keys::admin(expires.as_deref()),
            Command::Keys(KeysCommand::New { tenant, agent, expires }) => {
                keys::new(&tenant, agent.as_deref(), expires.as_deref())
            }
            Command::Completions { shell } => completions::print(shell),
        }
    }
}
