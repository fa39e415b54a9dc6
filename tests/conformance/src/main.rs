//! `conformance`: runs the cases against a server at any address, prints how each went, and exits with 1 if one failed.
//!
//! The server serves the guests of `tests/guests` and the example `echo` as agents of their names.

use std::{process::ExitCode, sync::Arc, time::Duration};

use clap::Parser;
use conformance::{
    case::{self, PLAIN, Setup},
    rules::Rules,
    run::{Outcome, Target, run},
};

/// Tells whether a server keeps to the Lingzhu and the Mythra protocol.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// An agent's Lingzhu address, such as `http://127.0.0.1:8080/agents/default/{agent}/lingzhu`
    #[arg(long, value_name = "URL")]
    lingzhu: Option<String>,
    /// An agent's Mythra address, such as `ws://127.0.0.1:8080/agents/default/{agent}/mythra`
    #[arg(long, value_name = "URL")]
    mythra: Option<String>,
    /// The key that opens the agents
    #[arg(long)]
    key: Option<String>,
    /// Only this case, such as `L21`; may be given several times
    #[arg(long, value_name = "NUMBER")]
    only: Vec<String>,
    /// Run the cases of this set-up, as the server is set up so; may be given several times
    #[arg(long, value_name = "NAME", default_value = PLAIN)]
    with: Vec<String>,
    /// How much later than a case says things may come, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    patience: u64,
    /// List the cases instead
    #[arg(long)]
    list: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let mut cases = case::all().map_err(anyhow::Error::msg)?;
    cases.retain(|case| args.only.is_empty() || args.only.contains(&case.number));
    anyhow::ensure!(!cases.is_empty(), "there is no such case; --list shows all");
    if args.list {
        for case in &cases {
            anstream::println!("{:<16} {:<8} {}", case.number, case.setup, case.says);
        }
        return Ok(ExitCode::SUCCESS);
    }
    for name in &args.with {
        let names: Vec<_> = Setup::all().iter().map(|setup| setup.name).collect();
        anyhow::ensure!(names.contains(&name.as_str()), "there is no set-up {name:?}; there are {}", names.join(", "));
    }
    anyhow::ensure!(args.lingzhu.is_some() || args.mythra.is_some(), "say --lingzhu URL, --mythra URL, or both");
    let target = Target {
        lingzhu: args.lingzhu,
        mythra: args.mythra,
        key: args.key,
        patience: Duration::from_millis(args.patience),
        rules: Arc::new(Rules::default()),
    };
    let setups: Vec<_> = args.with.iter().map(String::as_str).collect();
    let rows = run(&cases, &target, &setups).await;
    let count = |is: fn(&Outcome) -> bool| rows.iter().filter(|row| is(&row.outcome)).count();
    for row in &rows {
        anstream::println!("{row}");
    }
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    let passed = count(|outcome| *outcome == Outcome::Passed);
    let left = count(|outcome| matches!(outcome, Outcome::LeftOut(_)));
    anstream::println!("\n{passed} passed, {failed} failed, {left} left out");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
