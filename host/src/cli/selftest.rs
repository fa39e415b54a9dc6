//! `hostelry selftest`: attacks a host of the operator's own configuration, limit by limit, and says of each whether it
//! held and where.
//!
//! The host under test is a real one, in this process, on a port of its own and in a temporary folder. The guests and the
//! clients that attack it come over its sockets (`attacks`). What they measured is judged in `verdict`, what is configured
//! in `settings`; `run` runs the cases, `report` says what came of them.

use std::{io::IsTerminal as _, path::PathBuf, time::Duration};

use clap::Args;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{Exit, serve};
use crate::{
    config::{Config, Faults},
    limit::Limit,
    runtime::GuestThreads,
};

mod attacks;
mod case;
mod clients;
mod ear;
mod elsewhere;
mod ground;
mod guests;
mod heard;
mod hold;
mod line;
mod report;
mod run;
mod settings;
mod verdict;
mod wire;

use ear::Ear;
use ground::Group;
use hold::Hold;
use report::Row;
use run::Plan;

/// How many groups of tenants with different limits are tested in one run; each has two dozen cases.
const GROUPS_MAX: usize = 16;

/// What `selftest` takes.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// The configuration [default: hostelry.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Only this tenant's limits [default: all tenants', those with the same limits once]
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
    /// The longest that is waited for a limit to strike, such as 30s
    #[arg(long, value_name = "TIME", default_value = "3min", value_parser = duration)]
    pub max_wait: Duration,
    /// Print a JSON array instead of a table
    #[arg(long)]
    pub json: bool,
    /// Only these limits, such as memory,cpu-time
    #[arg(long, value_name = "LIMIT,..", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Hold connections to a host, as a child of a selftest
    #[arg(long, hide = true, value_name = "ADDR,N,N")]
    pub hold: Option<String>,
}

fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "not a duration; write it like 30s or 5min".to_owned())
}

/// Attacks, and prints what came of it.
pub(super) fn run(args: &SelftestArgs) -> Exit {
    if let Some(hold) = &args.hold {
        return child(hold);
    }
    let ear = Ear::default();
    let plan = match plan(args, ear.clone()) {
        Ok(plan) => plan,
        Err(faults) => {
            for fault in &faults.0 {
                anstream::eprintln!("error: {}", crate::text::visible(fault));
            }
            return Exit::Usage;
        }
    };
    // The log of a host under attack is long, and nothing in it is news: it is heard, and not shown.
    if tracing::subscriber::set_global_default(tracing_subscriber::registry().with(ear)).is_err() {
        anstream::eprintln!("warning: a log is kept already; the limit on guests' lines cannot be measured");
    }
    match attack(plan) {
        Ok(rows) => {
            if args.json {
                anstream::println!("{:#}", report::json(&rows));
            } else {
                anstream::print!("{}", report::text(&rows));
            }
            if rows.iter().any(|row| row.verdict.is_bad()) { Exit::Failed } else { Exit::Clean }
        }
        Err(error) => {
            anstream::eprintln!("error: {error:#}");
            Exit::Failed
        }
    }
}

/// Does what a child of a selftest is for.
fn child(told: &str) -> Exit {
    serve::take_descriptors();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match (Hold::read(told), runtime) {
        (Ok(hold), Ok(runtime)) => {
            let left = runtime.block_on(hold.here());
            anstream::println!("{} {}", left.open, left.closed);
            Exit::Clean
        }
        _ => Exit::Usage,
    }
}

/// What is to be tried, of what is configured and asked for.
fn plan(args: &SelftestArgs, ear: Ear) -> Result<Plan, Faults> {
    let config = serve::configure(&serve::flags(args.config.as_ref()))?;
    let unknown = |name: &&String| !config.tenants.contains_key(*name);
    if let Some(tenant) = args.tenant.as_ref().filter(unknown) {
        let known: Vec<_> = config.tenants.keys().map(String::as_str).collect();
        let why = format!("there is no tenant `{tenant}`; name one with --tenant: {}", known.join(", "));
        return Err(Faults(vec![why]));
    }
    let groups = Group::all(&config, args.tenant.as_deref());
    if groups.len() > GROUPS_MAX {
        let why = format!(
            "{} groups of tenants have limits of their own, and {GROUPS_MAX} are tested at once; hint: test them one by \
             one with --tenant",
            groups.len()
        );
        return Err(Faults(vec![why]));
    }
    let mut cases = attacks::all(&config, &groups, descriptors());
    let mut others = others(&config, &groups, &cases);
    let wanted = |limit: &str| args.only.is_empty() || args.only.iter().any(|only| only == limit);
    let named = |only: &&String| {
        let known = Limit::ALL.iter().any(|limit| limit.name() == only.as_str());
        !known && !cases.iter().any(|case| case.limit == only.as_str())
    };
    if let Some(unknown) = args.only.iter().find(named) {
        let mut known: Vec<_> = cases.iter().map(|case| case.limit).collect();
        known.sort_unstable();
        known.dedup();
        let why = format!("there is no limit `{unknown}`; name some of: {}", known.join(", "));
        return Err(Faults(vec![why]));
    }
    cases.retain(|case| wanted(case.limit));
    others.retain(|setting| wanted(setting.limit));
    Ok(Plan { config, groups, cases, others, max_wait: args.max_wait, ear })
}

/// The figures that no case is about.
fn others(config: &Config, groups: &[Group], cases: &[case::Case]) -> Vec<settings::Setting> {
    let tenants = groups.iter().flat_map(|group| settings::of_tenants(group, config));
    let all = tenants.chain(settings::of_server(config, descriptors()));
    all.filter(|setting| !cases.iter().any(|case| case.key == setting.key)).collect()
}

/// How many descriptors this process can have.
fn descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum
}

fn attack(plan: Plan) -> anyhow::Result<Vec<Row>> {
    serve::take_descriptors();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("io").build()?;
    let threads = GuestThreads::start(runtime.handle())?;
    let shown = std::io::stderr().is_terminal();
    let told = move |row: &Row| {
        if shown {
            anstream::eprintln!("{}", row.line());
        }
    };
    let rows = runtime.block_on(plan.run(&threads, told));
    runtime.shutdown_background();
    rows
}
