//! The way to the host from inside a component: the contract's bindings, and nothing that an author calls.

use self::{
    exports::hostelry::agent::handler,
    hostelry::agent::{
        host, log as wire_log, turn,
        types::{self, EmitError, Iteration, Output, Phase},
    },
};
use crate::{Agent, Content, Error, Event, File, Level, Message, Result, Role, Tool, ToolError, ToolErrorKind, Turn};

wit_bindgen::generate!({
    path: "wit",
    world: "agent",
    pub_export_macro: true,
    export_macro_name: "export_component",
});

pub use handler::Guest;
pub use types::Request;

/// Has the agent answer, and tells the host how it ended.
pub fn handle<A: Agent>(request: Request) -> std::result::Result<(), String> {
    let Request { session_id, turn_id, user_id, input } = request;
    let turn = Turn { session_id, turn_id, user_id, input: input.into_iter().map(message).collect() };
    match A::answer(&turn) {
        Ok(()) | Err(Error::Closed) => Ok(()),
        Err(Error::Said(text)) => Err(text),
        Err(Error::Inner(error)) => {
            let mut text = error.to_string();
            let mut source = error.source();
            while let Some(cause) = source {
                text = format!("{text}: {cause}");
                source = cause.source();
            }
            log(Level::Error, &text);
            // The host has a general text.
            Err(String::new())
        }
    }
}

fn message(message: types::Message) -> Message {
    let role = match message.role {
        types::Role::User => Role::User,
        types::Role::Agent => Role::Agent,
    };
    let content = match message.content {
        types::Content::Text(text) => Content::Text(text),
        types::Content::Image(url) => Content::Image(url),
        types::Content::File(file) => Content::File(File { url: file.url, media_type: file.media_type }),
    };
    Message { role, content }
}

const fn phase(starts: bool) -> Phase {
    if starts { Phase::Start } else { Phase::End }
}

pub(crate) fn emit(event: Event) -> Result {
    let event = match event {
        Event::Chat(text) => types::Event::Chat(Output::Delta(text)),
        Event::Think(text) => types::Event::Think(Output::Delta(text)),
        Event::FollowUp(questions) => types::Event::FollowUp(questions),
        Event::Fault(text) => types::Event::Fault(text),
        Event::Iteration(starts, label) => types::Event::Iteration(Iteration { phase: phase(starts), label }),
        Event::Model(starts) => types::Event::ModelInvocation(phase(starts)),
        Event::ToolRun(starts, name, args) => {
            types::Event::ToolRun(types::ToolRun { phase: phase(starts), name, args: args.to_string() })
        }
        Event::Custom(name, value) => types::Event::Custom(types::Custom { name, json: value.to_string() }),
    };
    host::emit_event(&event).map_err(|error| match error {
        EmitError::Closed => Error::Closed,
        EmitError::Refused(why) => Error::Said(why),
    })
}

pub(crate) fn call(name: &str, args: &str) -> std::result::Result<String, ToolError> {
    host::call_tool(name, args).map_err(|error| {
        let (kind, text) = match error {
            types::ToolError::Unknown(text) => (ToolErrorKind::Unknown, text),
            types::ToolError::Denied(text) => (ToolErrorKind::Denied, text),
            types::ToolError::InvalidArgs(text) => (ToolErrorKind::InvalidArgs, text),
            types::ToolError::Timeout => (ToolErrorKind::Timeout, "it took too long".to_owned()),
            types::ToolError::Failed(text) => (ToolErrorKind::Failed, text),
        };
        ToolError { kind, text }
    })
}

pub(crate) fn tools() -> Vec<Tool> {
    let tool = |tool: types::Tool| Tool {
        name: tool.name,
        description: tool.description,
        parameters: serde_json::from_str(&tool.parameters).unwrap_or_default(),
    };
    turn::tools().into_iter().map(tool).collect()
}

pub(crate) fn history(max: u32) -> Vec<Message> {
    turn::history(max).into_iter().map(message).collect()
}

pub(crate) fn fact(key: &str) -> Option<String> {
    turn::get(key)
}

pub(crate) fn facts() -> Vec<String> {
    turn::keys()
}

pub(crate) fn log(level: Level, text: &str) {
    let level = match level {
        Level::Debug => wire_log::Level::Debug,
        Level::Info => wire_log::Level::Info,
        Level::Warn => wire_log::Level::Warn,
        Level::Error => wire_log::Level::Error,
    };
    wire_log::log(level, text);
}
