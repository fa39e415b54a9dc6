//! How long an ordinary turn takes while another tenant drops files that are costly to take, as ratios to the same turn
//! alone: bombs that are refused by their looks, ones that pass the compiler's bounds, a compile that takes long, and small
//! valid files without end.
//!
//! Rounds of all loads alternate, so that what else the machine does meets all of them alike; each figure is the median of
//! its rounds.

use std::time::Duration;

use benches::{Args, Host, latencies, median, percentile};
use clap::Parser as _;
use tokio::time::{MissedTickBehavior, interval};

/// The tenants: one whose agent talks, one that drops files.
const CONFIG: &str = "listen = \"127.0.0.1:0\"\nadmin-listen = \"127.0.0.1:0\"\n\
    [reload]\nsettle = \"20ms\"\ncompile-memory = \"1GiB\"\ncompile-cpu = \"3s\"\n[tenants.talk]\nconcurrent-turns = 800\n[tenants.bombs]\n";

/// How often a file is dropped.
const EVERY: Duration = Duration::from_millis(100);

/// Components inside each other, each instantiated twice: refused by its looks.
fn nested() -> anyhow::Result<Vec<u8>> {
    let mut component = "(component $c0 (core module $m) (core instance (instantiate $m)))".to_owned();
    for level in 1..=26 {
        let twice = format!("(instance (instantiate $c{}))", level - 1).repeat(2);
        component = format!("(component $c{level} {component} {twice})");
    }
    Ok(wat::parse_str(component)?)
}

/// Jump tables that need a thousand times their size: they pass the compiler's memory.
fn jumps() -> anyhow::Result<Vec<u8>> {
    let table = format!("(block (br_table {} (local.get 0)))", "0 ".repeat(60_000)).repeat(30);
    Ok(wat::parse_str(format!("(component (core module (func (param i32) {table})))"))?)
}

/// The largest function that is compiled at all: it takes the compiler long.
fn slow() -> anyhow::Result<Vec<u8>> {
    let body = "(local.set 0 (i32.add (local.get 0) (i32.const 1)))".repeat(290_000);
    Ok(wat::parse_str(format!("(component (core module (func (param i32) {body})))"))?)
}

/// The same component as another file: with a section that means nothing.
fn marked(component: &[u8], mark: u64) -> Vec<u8> {
    [component, &[0, 10, 1, b'x'], &mark.to_be_bytes()].concat()
}

/// What is dropped, and by how many files the folder grows.
struct Load {
    name: &'static str,
    component: Option<Vec<u8>>,
}

/// Drops the component again and again, each time as another file under one of ten names.
async fn drop_files(host: &Host, component: &[u8], next: &mut u64) -> anyhow::Result<()> {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        *next += 1;
        let (aside, place) = (host.plugin("bombs/.aside"), host.plugin(&format!("bombs/b{}.wasm", *next % 10)));
        std::fs::write(&aside, marked(component, *next))?;
        std::fs::rename(aside, place)?;
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let host = Host::start(&args, CONFIG, &[("talk", "echo", "echo")]).await?;
    std::fs::create_dir_all(host.plugin("bombs"))?;
    let loads = [
        Load { name: "nothing", component: None },
        Load { name: "bombs that are refused by their looks", component: Some(nested()?) },
        Load { name: "bombs that pass the compiler's memory", component: Some(jumps()?) },
        Load { name: "compiles that take long", component: Some(slow()?) },
        Load { name: "small valid components", component: Some(std::fs::read(host.plugin("talk/echo.wasm"))?) },
    ];
    let mut figures = vec![(Vec::new(), Vec::new()); loads.len()];
    let mut next = 0;
    for round in 0..=args.rounds {
        for (load, (middle, high)) in loads.iter().zip(&mut figures) {
            let took = match &load.component {
                None => latencies(&host, &args).await?,
                Some(component) => tokio::select! {
                    took = latencies(&host, &args) => took?,
                    failed = drop_files(&host, component, &mut next) => return failed,
                },
            };
            // The first round warms everything up.
            if round > 0 {
                middle.push(percentile(&took, 0.5));
                high.push(percentile(&took, 0.99));
            }
            // What waits to be compiled goes with its file; what is being compiled ends by its bounds.
            for n in 0..10 {
                drop(std::fs::remove_file(host.plugin(&format!("bombs/b{n}.wasm"))));
            }
            tokio::time::sleep(Duration::from_secs(4)).await;
        }
    }
    anstream::println!(
        "| ten files a second of | p50 ms | p99 ms | p50 to alone | p99 to alone |\n| --- | --- | --- | --- | --- |"
    );
    let mut alone = None;
    for (load, (middle, high)) in loads.iter().zip(figures) {
        let (middle, high) = (median(middle), median(high));
        let (middle_alone, high_alone) = *alone.get_or_insert((middle, high));
        anstream::println!(
            "| {} | {middle:.2} | {high:.2} | {:.2} | {:.2} |",
            load.name,
            middle / middle_alone,
            high / high_alone
        );
    }
    Ok(())
}
