//! What an agent costs in each language: the size of its component, the CPU time of compiling it, the time to a turn's first
//! event, and a turn's memory, as ratios to Rust's in the same run. The agent is the journal, built by
//! `make test-languages`, and asked for something that calls no tool.
//!
//! It starts the built host, and is a client of it like any other. Rounds of all languages alternate.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use benches::{Args, Host, median};
use clap::Parser as _;
use serde_json::Value;
use tokio::{process::Command, time::Instant};

/// The languages, the baseline first, and where each journal is from the folder of the examples.
const LANGUAGES: [(&str, &str); 6] = [
    ("rust", "target/wasm32-wasip2/release/journal.wasm"),
    ("c", "c/build/journal.wasm"),
    ("zig", "zig/build/journal.wasm"),
    ("go", "go/build/journal.wasm"),
    ("typescript", "typescript/build/journal.wasm"),
    ("python", "python/build/journal.wasm"),
];

/// Turns of each language in a round.
const TURNS: u32 = 50;

/// What is measured of a language.
#[derive(Default)]
struct Figures {
    size: f64,
    compile: Vec<f64>,
    first: Vec<f64>,
    memory: f64,
}

/// What `hostelry check` says of a component, and the CPU seconds that it and its compiler took.
async fn check(host: &Path, component: &Path, trial: bool) -> anyhow::Result<(Value, f64)> {
    let before = children()?;
    let mut command = Command::new(host);
    command.args(["check", "--json"]).args((!trial).then_some("--no-trial")).arg(component);
    let output = command.output().await?;
    let found: Value = serde_json::from_slice(&output.stdout).context("check said nothing")?;
    anyhow::ensure!(
        found.get("fits").and_then(Value::as_bool) == Some(true),
        "{} does not fit: {found}",
        component.display()
    );
    Ok((found, children()? - before))
}

/// The CPU seconds of this process's children that have ended, and of theirs.
fn children() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(") ").context("no name in the process's line")?.1;
    // Behind the name and the state, fields 13 and 14, in hundredths of a second.
    let ticks = fields.split(' ').skip(13).take(2).map(str::parse::<f64>);
    Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
}

/// The milliseconds from asking to the first event, the middle of some turns.
async fn first_event(host: &Host, agent: &str) -> anyhow::Result<f64> {
    let mut took = Vec::new();
    for _ in 0..TURNS {
        let began = Instant::now();
        let mut response = host.ask("default", agent, "before").await?;
        response.chunk().await?.context("no event")?;
        took.push(began.elapsed().as_secs_f64() * 1000.0);
        while response.chunk().await?.is_some() {}
    }
    Ok(median(took))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn size_of(path: &Path) -> anyhow::Result<f64> {
    Ok(path.metadata().with_context(|| format!("{}: run `make test-languages`", path.display()))?.len() as f64)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let examples = args.guests.ancestors().nth(3).context("the folder of the examples")?.to_owned();
    let host = Host::start(&args, "listen = \"127.0.0.1:0\"\nadmin-listen = \"127.0.0.1:0\"\n", &[]).await?;
    let components: Vec<PathBuf> = LANGUAGES.iter().map(|(_, path)| examples.join(path)).collect();
    let mut all = Vec::new();
    for ((language, _), component) in LANGUAGES.iter().zip(&components) {
        std::fs::copy(component, host.plugin(&format!("{language}.wasm")))
            .with_context(|| format!("{}: run `make test-languages`", component.display()))?;
        let (found, _) = check(&args.host, component, true).await?;
        let memory = found.pointer("/memory/turn").and_then(Value::as_f64).context("no trial")?;
        all.push(Figures { size: size_of(component)?, memory, ..Figures::default() });
    }
    for (language, _) in LANGUAGES {
        while host.ask("default", language, "before").await.is_err() {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
    for _ in 0..args.rounds {
        for (((language, _), component), figures) in LANGUAGES.iter().zip(&components).zip(&mut all) {
            figures.compile.push(check(&args.host, component, false).await?.1);
            figures.first.push(first_event(&host, language).await?);
        }
    }
    anstream::println!(
        "| language | size KiB | to Rust | compile CPU s | to Rust | first event ms | to Rust | memory MiB | to Rust |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    let mut rust = None;
    for ((language, _), Figures { size, compile, first, memory }) in LANGUAGES.iter().zip(all) {
        let row = [size / 1024.0, median(compile), median(first), memory / 1024.0 / 1024.0];
        let base = *rust.get_or_insert(row);
        let cells: Vec<String> =
            row.iter().zip(base).map(|(value, base)| format!("{value:.2} | {:.2}", value / base)).collect();
        anstream::println!("| {language} | {} |", cells.join(" | "));
    }
    Ok(())
}
