//! `emit-event`: counts what a guest shows, and hands it to the turn's script.

use super::{TurnState, tally::TAKEN, tools};
use crate::{
    bindings::{
        host::Host,
        types::{EmitError, Event, Output, ToolError},
    },
    limit::Limit,
    script::{EmitFault, Refusal},
};

impl Host for TurnState {
    async fn emit_event(&mut self, event: Event) -> wasmtime::Result<Result<(), EmitError>> {
        let bytes = text_bytes(&event);
        if let Err((limit, why)) = self.count(bytes) {
            self.tally.strike(limit);
            self.tally.emitted(&event, bytes, limit.name());
            return Ok(Err(EmitError::Refused(why)));
        }
        let emitted = self.outbox.emit(&event).await;
        let outcome = match &emitted {
            Ok(()) => TAKEN,
            Err(EmitFault::Closed) => "closed",
            Err(EmitFault::Refused(_)) => "refused",
        };
        self.tally.emitted(&event, bytes, outcome);
        Ok(emitted.map_err(|fault| match fault {
            EmitFault::Closed => EmitError::Closed,
            EmitFault::Refused(refusal) => EmitError::Refused(self.told(refusal)),
        }))
    }

    async fn call_tool(&mut self, name: String, args: String) -> wasmtime::Result<Result<String, ToolError>> {
        Ok(tools::call(self, &name, &args).await)
    }
}

impl TurnState {
    /// Counts an event and its text; says which limit it would pass.
    fn count(&mut self, bytes: usize) -> Result<(), (Limit, String)> {
        let Self { limits, events, output, tally, .. } = self;
        if *events >= limits.events {
            return Err((Limit::Events, format!("events: a turn may emit {}", limits.events)));
        }
        let sum = output.saturating_add(bytes);
        if sum > limits.output {
            return Err((Limit::Output, format!("output: a turn may show {} bytes of text", limits.output)));
        }
        *events += 1;
        *output = sum;
        tally.event(bytes);
        Ok(())
    }

    /// A refusal's words; the bound that it names is noted.
    pub(super) fn told(&self, refusal: Refusal) -> String {
        if let Some(limit) = refusal.limit {
            self.tally.strike(limit);
        }
        refusal.why
    }
}

/// The bytes of all text in an event.
fn text_bytes(event: &Event) -> usize {
    match event {
        Event::Think(Output::Delta(text)) | Event::Chat(Output::Delta(text)) | Event::Fault(text) => text.len(),
        Event::Think(Output::Start | Output::End)
        | Event::Chat(Output::Start | Output::End)
        | Event::ModelInvocation(_) => 0,
        Event::Iteration(iteration) => iteration.label.len(),
        Event::ToolRun(run) => run.name.len() + run.args.len(),
        Event::FollowUp(questions) => questions.iter().map(String::len).sum(),
        Event::Custom(custom) => custom.name.len() + custom.json.len(),
    }
}
