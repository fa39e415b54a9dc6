//! What the measurements share: the built host as a process, ordinary turns at a fixed rate, and figures of them.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::Context as _;
use clap::Parser;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::{Instant, MissedTickBehavior, interval},
};

/// Each turn is a conversation of its own.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// What every measurement takes.
#[derive(Debug, Parser)]
pub struct Args {
    /// The built host
    #[arg(long, default_value = "target/release/hostelry")]
    pub host: PathBuf,
    /// The folder of the built guests
    #[arg(long, default_value = "guest-examples/target/wasm32-wasip2/release")]
    pub guests: PathBuf,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Ordinary turns a second
    #[arg(long, default_value_t = 200)]
    pub rate: u64,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
}

/// A host that runs; killed when it is dropped.
#[derive(Debug)]
pub struct Host {
    _child: Child,
    folder: tempfile::TempDir,
    address: String,
    admin: String,
    client: reqwest::Client,
}

impl Host {
    /// Starts the host with this configuration, serving agents: the tenant, the agent's name, and the built guest.
    pub async fn start(args: &Args, config: &str, agents: &[(&str, &str, &str)]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("hostelry.toml"), config)?;
        for (tenant, guest, built) in agents {
            let to = folder.path().join("plugins").join(tenant);
            std::fs::create_dir_all(&to)?;
            let from = args.guests.join(format!("{built}.wasm"));
            std::fs::copy(&from, to.join(format!("{guest}.wasm"))).with_context(|| {
                format!("{} is not there; build the guests with `make test-guests`", from.display())
            })?;
        }
        let program = args.host.canonicalize().with_context(|| {
            format!("{} is not there; build it with `cargo build --release -p hostelry`", args.host.display())
        })?;
        let mut child = start(&program, folder.path())?;
        let mut lines = BufReader::new(child.stderr.take().context("no log")?).lines();
        let (mut address, mut admin) = (String::new(), String::new());
        while address.is_empty() || admin.is_empty() {
            let line = lines.next_line().await?.context("the host ended")?;
            if let Some((_, at)) = line.split_once("admin listening on http://") {
                at.trim().clone_into(&mut admin);
            } else if let Some((_, at)) = line.split_once("listening on http://") {
                at.trim().clone_into(&mut address);
            }
        }
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { _child: child, folder, address, admin, client: reqwest::Client::new() })
    }

    /// Says `text` to an agent.
    pub async fn ask(&self, tenant: &str, agent: &str, text: &str) -> anyhow::Result<reqwest::Response> {
        let body = json!({
            "message_id": format!("m{}", COUNT.fetch_add(1, Ordering::Relaxed)),
            "agent_id": "a",
            "message": [{ "role": "user", "type": "text", "text": text }],
        });
        let url = format!("http://{}/agents/{tenant}/{agent}/lingzhu", self.address);
        Ok(self.client.post(url).json(&body).send().await?.error_for_status()?)
    }

    /// A file of the plugins folder.
    pub fn plugin(&self, path: &str) -> PathBuf {
        self.folder.path().join("plugins").join(path)
    }

    /// CPU seconds of a tenant's ended turns.
    pub async fn cpu(&self, tenant: &str) -> anyhow::Result<f64> {
        let text = self.client.get(format!("http://{}/metrics", self.admin)).send().await?.text().await?;
        let name = format!("hostelry_cpu_seconds_total{{tenant=\"{tenant}\"}} ");
        let value = text.lines().find_map(|line| line.strip_prefix(&name)).unwrap_or("0");
        Ok(value.parse()?)
    }
}

fn start(program: &Path, folder: &Path) -> anyhow::Result<Child> {
    let mut command = Command::new(program);
    command.args(["serve", "--log-level", "info"]).current_dir(folder).env_remove("RUST_LOG");
    Ok(command.stderr(Stdio::piped()).stdin(Stdio::null()).kill_on_drop(true).spawn()?)
}

/// One ordinary turn, checked; how long after it was due its end came. A host that answers late delays no later turn,
/// and the waiting counts.
async fn turn(host: &Host, due: Instant) -> anyhow::Result<Duration> {
    let answer = host.ask("talk", "echo", "hello").await?.text().await?;
    anyhow::ensure!(answer.contains("event: done"), "no answer: {answer}");
    Ok(due.elapsed())
}

/// The latencies of ordinary turns at a fixed rate, sorted.
pub async fn latencies(host: &Host, args: &Args) -> anyhow::Result<Vec<Duration>> {
    let wanted = usize::try_from(args.rate * args.seconds)?;
    let mut ticks = interval(Duration::from_secs(1) / u32::try_from(args.rate)?);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut running = FuturesUnordered::new();
    let (mut sent, mut all) = (0, Vec::with_capacity(wanted));
    while sent < wanted || !running.is_empty() {
        tokio::select! {
            due = ticks.tick(), if sent < wanted => {
                sent += 1;
                running.push(turn(host, due));
            }
            Some(took) = running.next(), if !running.is_empty() => all.push(took?),
        }
    }
    all.sort();
    Ok(all)
}

/// The value below which this part of a sorted list lies, in milliseconds.
pub fn percentile(sorted: &[Duration], part: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(f64::NAN, |took| took.as_secs_f64() * 1000.0)
}

/// The middle one of some values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
