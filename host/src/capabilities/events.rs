//! `emit-event`: counts what a guest shows, and hands it to the turn's script.

use super::{TurnState, tools};
use crate::{
    bindings::{
        host::Host,
        types::{EmitError, Event, Output, ToolError},
    },
    script::EmitFault,
};

impl Host for TurnState {
    async fn emit_event(&mut self, event: Event) -> wasmtime::Result<Result<(), EmitError>> {
        if let Err(limit) = self.count(&event) {
            return Ok(Err(EmitError::Refused(limit)));
        }
        Ok(self.outbox.emit(&event).await.map_err(|fault| match fault {
            EmitFault::Closed => EmitError::Closed,
            EmitFault::Refused(refusal) => EmitError::Refused(refusal.0),
        }))
    }

    async fn call_tool(&mut self, name: String, args: String) -> wasmtime::Result<Result<String, ToolError>> {
        Ok(tools::call(self, &name, &args).await)
    }
}

impl TurnState {
    /// Counts an event and its text; says which limit it would pass.
    fn count(&mut self, event: &Event) -> Result<(), String> {
        let Self { limits, events, output, .. } = self;
        if *events >= limits.events {
            return Err(format!("events: a turn may emit {}", limits.events));
        }
        let bytes = output.saturating_add(text_bytes(event));
        if bytes > limits.output {
            return Err(format!("output: a turn may show {} bytes of text", limits.output));
        }
        *events += 1;
        *output = bytes;
        Ok(())
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
