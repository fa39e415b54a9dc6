//! Every limit of a turn, each met by a guest that passes it: what its client sees, what the log says, and that the host
//! serves the next turn.

use crate::support::{
    host::{Host, Setup},
    turn::ask,
};

mod admission;
mod budgets;
mod counts;
mod fresh;
mod memory;
mod time;

/// A puppet, whose words reach the client as they are, with these lines of configuration.
pub fn puppet(config: &str) -> Setup {
    Setup::serving(&["puppet"]).plugin("puppet.toml", b"markdown = \"keep\"").config(config)
}

/// Checks that `agent`, told `orders`, fails: the client sees `said` and the apology, the log names `limit`, and the next
/// turn is served.
async fn assert_fails(host: &Host, agent: &str, orders: &str, said: &str, limit: &str) {
    ask(host, agent, orders).await.assert_apology(said);
    host.logged(&format!("turn failed: {limit}")).await;
    assert_eq!(ask(host, "puppet", "chat next").await.text, "next");
}
