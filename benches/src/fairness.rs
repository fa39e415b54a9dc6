//! How long an ordinary turn takes beside guests that compute without end, as ratios to the same turn alone; and how CPU
//! time is shared between a tenant with many loops and one with a single loop.
//!
//! It starts the built host, and is a client of it like any other. Rounds of all loads alternate, so that what else the
//! machine does meets all of them alike; each figure is the median of its rounds.

use std::time::Duration;

use benches::{Args, Host, latencies, median, percentile};
use clap::Parser as _;
use futures_util::future::join_all;

/// How many guests spin.
const LOADS: [usize; 5] = [0, 1, 2, 8, 64];

/// The tenants: one whose agent talks, one whose agents spin, one that spins alone.
const CONFIG: &str = "listen = \"127.0.0.1:0\"\nadmin-listen = \"127.0.0.1:0\"\n\
    [limits]\ncpu-time = \"1h\"\nturn-time = \"1h\"\n\
    [lingzhu]\nturn-time = \"1h\"\n\
    [tenants.talk]\nconcurrent-turns = 800\n[tenants.loops]\nconcurrent-turns = 128\n[tenants.alone]\n";

/// The agents of those tenants.
const AGENTS: [(&str, &str, &str); 3] =
    [("talk", "echo", "echo"), ("loops", "puppet", "examples/puppet"), ("alone", "puppet", "examples/puppet")];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let host = Host::start(&args, CONFIG, &AGENTS).await?;
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
    let host = Host::start(args, CONFIG, &AGENTS).await?;
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
