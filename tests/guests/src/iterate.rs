//! Works in one round: a model starts, thinks, speaks and ends.

use test_guests::{
    Request, chat, emit, think,
    types::{Event, Iteration, Phase},
};

test_guests::agent!(handle);

fn handle(_: &Request) -> Result<(), String> {
    let round = |phase| emit(&Event::Iteration(Iteration { phase, label: "iteration 0".to_owned() }));
    round(Phase::Start)?;
    emit(&Event::ModelInvocation(Phase::Start))?;
    think("hm")?;
    chat("ok")?;
    emit(&Event::ModelInvocation(Phase::End))?;
    round(Phase::End)
}
