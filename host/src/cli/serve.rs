//! `hostelry serve`: from flags and a file to a server that runs until it is told to stop, and takes the file anew when it
//! has changed.

use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit};
use tokio::signal::unix::{SignalKind, signal};

use super::{Exit, ServeArgs};
use crate::{
    config::{self, Config, Faults},
    runtime::GuestThreads,
    server::{self, Server},
    telemetry,
};

mod watched;

use watched::Watched;

/// The file that is read if it is there and none is named.
const CONFIG: &str = "hostelry.toml";

/// Serves until a signal.
pub(super) fn run(args: &ServeArgs) -> Exit {
    let watched = Watched::new(&file(args));
    let config = match configure(args) {
        Ok(config) => config,
        Err(faults) => {
            for fault in &faults.0 {
                anstream::eprintln!("error: {fault}");
            }
            return Exit::Usage;
        }
    };
    telemetry::start(&args.log_level);
    match serve(args, config, watched) {
        Ok(()) => Exit::Clean,
        Err(error) => {
            tracing::error!("{error:#}");
            Exit::Failed
        }
    }
}

/// The flags of a command that takes the configuration as `serve` does, and nothing else.
pub(super) fn flags(config: Option<&PathBuf>) -> ServeArgs {
    ServeArgs {
        config: config.cloned(),
        plugins: None,
        listen: None,
        admin_listen: None,
        data: None,
        log_level: String::new(),
    }
}

/// The configuration's file, whether it is there or not.
fn file(args: &ServeArgs) -> PathBuf {
    args.config.clone().unwrap_or_else(|| PathBuf::from(CONFIG))
}

/// The file's words, then the flags', then what must hold of both.
pub(super) fn configure(args: &ServeArgs) -> Result<Config, Faults> {
    let mut config = match &args.config {
        Some(path) => config::read_file(path)?,
        None if Path::new(CONFIG).exists() => config::read_file(Path::new(CONFIG))?,
        None => Config::default(),
    };
    if let Some(plugins) = &args.plugins {
        config.plugins.clone_from(plugins);
    }
    if let Some(data) = &args.data {
        config.data.clone_from(data);
    }
    config.listen = args.listen.unwrap_or(config.listen);
    config.admin_listen = args.admin_listen.or(config.admin_listen);
    let faults = server::faults(&config);
    if faults.is_empty() { Ok(config) } else { Err(Faults(faults)) }
}

/// Lets this process have as many descriptors as the system lets it ask for: each connection takes one, and the usual
/// first offer is for a program at a terminal.
pub(super) fn take_descriptors() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!("cannot raise the number of descriptors: {error}");
    }
}

fn serve(args: &ServeArgs, config: Config, mut watched: Watched) -> anyhow::Result<()> {
    take_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("io").build()?;
    let guests = GuestThreads::start(runtime.handle())?;
    let result = runtime.block_on(async {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut hangups = signal(SignalKind::hangup())?;
        let mut terminations = signal(SignalKind::terminate())?;
        let mut told = async || {
            tokio::select! {
                _ = interrupts.recv() => "interrupt",
                _ = terminations.recv() => "terminate",
            }
        };
        let server = tokio::select! {
            server = Server::start(config, &guests) => server?,
            signal = told() => {
                tracing::info!(signal, "stopped before it served");
                return Ok(());
            }
        };
        let signal = loop {
            tokio::select! {
                signal = told() => break signal,
                _ = hangups.recv() => reload(&server, args, watched.path()),
                () = watched.changed() => reload(&server, args, watched.path()),
            }
        };
        tracing::info!(signal, "shutting down; a second signal ends at once");
        tokio::select! {
            () = server.stop() => tracing::info!("stopped"),
            signal = told() => tracing::warn!(signal, "ended at once"),
        }
        Ok(())
    });
    // Not waited for: what should have ended has, and a second signal waits for nothing.
    runtime.shutdown_background();
    result
}

/// Reads the configuration anew and applies it, or says what is wrong with it and leaves the old one.
fn reload(server: &Server, args: &ServeArgs, path: &Path) {
    let applied = configure(args).inspect_err(|_| server.refused()).and_then(|config| server.apply(config));
    match applied {
        Ok(waiting) => {
            tracing::info!(file = %path.display(), "new configuration applied");
            if !waiting.is_empty() {
                tracing::warn!("these keys changed too, and need a restart: {}", waiting.join(", "));
            }
        }
        Err(faults) => {
            for fault in &faults.0 {
                tracing::error!("{fault}");
            }
            tracing::error!(faults = faults.0.len(), "the new configuration is refused; the old one stays");
        }
    }
}
