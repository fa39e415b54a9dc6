//! How long an ordinary turn takes beside guests that compute without end, as ratios to the same turn alone; and how CPU
//! time is shared between a tenant with many loops and one with a single loop.
//!
//! It starts the built host, and is a client of it like any other. Rounds of all loads alternate, so that what else the
//! machine does meets all of them alike; each figure is the median of its rounds.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use anyhow::Context as _;
use clap::Parser;
use futures_util::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::{Instant, MissedTickBehavior, interval},
};

/// Each turn is a conversation of its own.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// How many guests spin.
const LOADS: [usize; 5] = [0, 1, 2, 8, 64];

/// The tenants: one whose agent talks, one whose agents spin, one that spins alone.
const CONFIG: &str = "listen = \"127.0.0.1:0\"\nadmin-listen = \"127.0.0.1:0\"\n\
    [limits]\ncpu-time = \"1h\"\nturn-time = \"1h\"\n\
    [lingzhu]\nturn-time = \"1h\"\n\
    [tenants.talk]\nconcurrent-turns = 800\n[tenants.loops]\nconcurrent-turns = 128\n[tenants.alone]\n";

/// Measures how fairly CPU time is shared.
#[derive(Parser)]
struct Args {
    /// The built host
    #[arg(long, default_value = "target/release/hostelry")]
    host: PathBuf,
    /// The folder of the built guests
    #[arg(long, default_value = "guest-examples/target/wasm32-wasip2/release")]
    guests: PathBuf,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Ordinary turns a second
    #[arg(long, default_value_t = 200)]
    rate: u64,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// A host that runs; killed when it is dropped.
struct Host {
    _child: Child,
    _folder: tempfile::TempDir,
    address: String,
    admin: String,
    client: reqwest::Client,
}

impl Host {
    async fn start(args: &Args) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("hostelry.toml"), CONFIG)?;
        for (tenant, guest, built) in
            [("talk", "echo", "echo"), ("loops", "puppet", "examples/puppet"), ("alone", "puppet", "examples/puppet")]
        {
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
        Ok(Self { _child: child, _folder: folder, address, admin, client: reqwest::Client::new() })
    }

    async fn ask(&self, tenant: &str, agent: &str, text: &str) -> anyhow::Result<reqwest::Response> {
        let body = json!({
            "message_id": format!("m{}", COUNT.fetch_add(1, Ordering::Relaxed)),
            "agent_id": "a",
            "message": [{ "role": "user", "type": "text", "text": text }],
        });
        let url = format!("http://{}/agents/{tenant}/{agent}/lingzhu", self.address);
        Ok(self.client.post(url).json(&body).send().await?.error_for_status()?)
    }

    /// CPU seconds of a tenant's ended turns.
    async fn cpu(&self, tenant: &str) -> anyhow::Result<f64> {
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
async fn latencies(host: &Host, args: &Args) -> anyhow::Result<Vec<Duration>> {
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
fn percentile(sorted: &[Duration], part: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).map_or(f64::NAN, |took| took.as_secs_f64() * 1000.0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let host = Host::start(&args).await?;
    let mut figures = vec![(Vec::new(), Vec::new()); LOADS.len()];
    for round in 0..=args.rounds {
        for (load, (middle, high)) in LOADS.iter().zip(&mut figures) {
            let asks = (0..*load).map(|_| host.ask("loops", "puppet", "chat x\nspin"));
            let spinning = join_all(asks).await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
            let took = latencies(&host, &args).await?;
            drop(spinning);
            // The first round warms everything up.
            if round > 0 {
                middle.push(percentile(&took, 0.5));
                high.push(percentile(&took, 0.99));
            }
        }
    }
    anstream::println!(
        "| guests that spin | p50 ms | p99 ms | p50 to alone | p99 to alone |\n| --- | --- | --- | --- | --- |"
    );
    let mut alone = None;
    for (load, (middle, high)) in LOADS.iter().zip(figures) {
        let (middle, high) = (median(middle), median(high));
        let (middle_alone, high_alone) = *alone.get_or_insert((middle, high));
        anstream::println!(
            "| {load} | {middle:.2} | {high:.2} | {:.2} | {:.2} |",
            middle / middle_alone,
            high / high_alone
        );
    }
    share(&args).await
}

/// Fifty loops of one tenant beside a single one of another.
async fn share(args: &Args) -> anyhow::Result<()> {
    let host = Host::start(args).await?;
    let mut spinning = join_all((0..50).map(|_| host.ask("loops", "puppet", "chat x\nspin"))).await;
    spinning.push(host.ask("alone", "puppet", "chat x\nspin").await);
    let spinning = spinning.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    drop(spinning);
    // The host hears that its clients are gone, and each turn tells what it used when it ends.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (loops, alone) = (host.cpu("loops").await?, host.cpu("alone").await?);
    anstream::println!(
        "\n50 loops of one tenant had {loops:.2} s of CPU time, 1 loop of another {alone:.2} s: {:.2} to 1",
        loops / alone
    );
    Ok(())
}
