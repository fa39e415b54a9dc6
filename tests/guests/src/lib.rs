//! What the agents of the tests share: the bindings, a macro that makes an agent of a function, and a few short words.

wit_bindgen::generate!({
    path: "../../wit",
    world: "agent",
    pub_export_macro: true,
    default_bindings_module: "test_guests",
});

pub use hostelry::agent::{host, log, turn, types};

use host::{call_tool, emit_event};
use types::{EmitError, Event, Output, ToolError};

pub use types::Request;

/// Makes the agent of this component out of a function.
#[macro_export]
macro_rules! agent {
    ($handle:path) => {
        struct Agent;

        impl $crate::exports::hostelry::agent::handler::Guest for Agent {
            fn handle(request: $crate::Request) -> Result<(), String> {
                $handle(&request)
            }
        }

        $crate::export!(Agent with_types_in $crate);
    };
}

/// Shows an event; `Err` tells why it was not taken.
pub fn emit(event: &Event) -> Result<(), String> {
    emit_event(event).map_err(|error| match error {
        EmitError::Closed => "closed".to_owned(),
        EmitError::Refused(why) => why,
    })
}

/// Shows a piece of the answer.
pub fn chat(text: &str) -> Result<(), String> {
    emit(&Event::Chat(Output::Delta(text.to_owned())))
}

/// Shows a piece of thought.
pub fn think(text: &str) -> Result<(), String> {
    emit(&Event::Think(Output::Delta(text.to_owned())))
}

/// Calls a tool whose outcome does not matter to the agent.
pub fn call(name: &str, args: &str) {
    drop(call_tool(name, args));
}

/// `ok` or the kind of the error, and its text if it has one.
pub fn outcome(result: Result<String, ToolError>) -> (&'static str, Option<String>) {
    match result {
        Ok(value) => ("ok", Some(value)),
        Err(ToolError::Unknown(text)) => ("unknown", Some(text)),
        Err(ToolError::Denied(text)) => ("denied", Some(text)),
        Err(ToolError::InvalidArgs(text)) => ("invalid-args", Some(text)),
        Err(ToolError::Timeout) => ("timeout", None),
        Err(ToolError::Failed(text)) => ("failed", Some(text)),
    }
}
