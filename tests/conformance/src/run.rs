//! Many cases against one server, several at once, and how each went.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};

use crate::{
    case::{Case, Protocol},
    lingzhu, mythra,
    rules::Rules,
};

/// How many cases run at once: most of them wait most of the time.
const AT_ONCE: usize = 16;

/// The longest that any one thing may take, above what a case says itself.
const LIMIT: Duration = Duration::from_mins(1);

/// The server, and how it is talked to.
#[derive(Clone, Debug)]
pub struct Target {
    /// The address of an agent over Lingzhu, with `{agent}` in it.
    pub lingzhu: Option<String>,
    /// The address of an agent over Mythra, with `{agent}` in it.
    pub mythra: Option<String>,
    /// The key that opens the agents.
    pub key: Option<String>,
    /// How much later than a case says things may come.
    pub patience: Duration,
    /// What holds for all streams.
    pub rules: Arc<Rules>,
}

/// How a case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Passed,
    /// Not well: what differs.
    Failed(String),
    /// It was not run, and why.
    LeftOut(String),
}

/// One case and how it went.
#[derive(Clone, Debug)]
pub struct Row {
    /// The case's number.
    pub number: String,
    /// What it says.
    pub says: String,
    /// How it went.
    pub outcome: Outcome,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, says, outcome } = self;
        match outcome {
            Outcome::Passed => write!(f, "pass  {number:<16} {says}"),
            Outcome::Failed(why) => {
                write!(f, "FAIL  {number:<16} {says}")?;
                why.lines().try_for_each(|line| write!(f, "\n        {line}"))
            }
            Outcome::LeftOut(why) => write!(f, "left  {number:<16} {says} ({why})"),
        }
    }
}

impl Target {
    /// The longest that one thing may take.
    pub fn limit(&self) -> Duration {
        LIMIT
    }

    /// The address of `agent` over Lingzhu.
    pub fn lingzhu(&self, agent: &str) -> Result<String, String> {
        address(self.lingzhu.as_deref(), agent)
    }

    /// The address of `agent` over Mythra.
    pub fn mythra(&self, agent: &str) -> Result<String, String> {
        address(self.mythra.as_deref(), agent)
    }

    fn serves(&self, protocol: Protocol) -> bool {
        match protocol {
            Protocol::Lingzhu => self.lingzhu.is_some(),
            Protocol::Mythra => self.mythra.is_some(),
        }
    }
}

fn address(template: Option<&str>, agent: &str) -> Result<String, String> {
    template.map(|template| template.replace("{agent}", agent)).ok_or_else(|| "no address is given".to_owned())
}

/// Runs the cases of these set-ups that the target serves, and tells of all, in their order. What always holds is told
/// from all streams that were seen.
pub async fn run(cases: &[Case], target: &Target, setups: &[&str]) -> Vec<Row> {
    let row = |case: &Case, outcome| Row { number: case.number.clone(), says: case.says.clone(), outcome };
    let runs = cases.iter().enumerate().map(|(index, case)| async move {
        let outcome = match left_out(case, target, setups) {
            Some(why) => Outcome::LeftOut(why),
            None if case.always => Outcome::Passed,
            None => one(case, target).await.map_or_else(Outcome::Failed, |()| Outcome::Passed),
        };
        (index, row(case, outcome))
    });
    let mut rows: Vec<_> = stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
    rows.sort_by_key(|(index, _)| *index);
    let mut rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    for (row, case) in rows.iter_mut().zip(cases) {
        let broken = target.rules.broken(&case.number);
        if row.outcome == Outcome::Passed && !broken.is_empty() {
            row.outcome = Outcome::Failed(broken.join("\n"));
        }
    }
    rows
}

fn left_out(case: &Case, target: &Target, setups: &[&str]) -> Option<String> {
    if let Some(test) = &case.test {
        return Some(format!("only a test that starts the server itself can tell: {test}"));
    }
    if !target.serves(case.protocol()) {
        return Some("its protocol has no address here".to_owned());
    }
    if case.always || setups.contains(&case.setup.as_str()) {
        return None;
    }
    Some(format!("needs a server set up as in tests/cases/setups/{0}; then say --with {0}", case.setup))
}

async fn one(case: &Case, target: &Target) -> Result<(), String> {
    match case.protocol() {
        Protocol::Lingzhu => lingzhu::run(case, target).await,
        Protocol::Mythra => mythra::run(case, target).await,
    }
}
