//! The Rust side of `wit/`, made by `bindgen!`, and nothing else.
//!
//! Host functions that may wait (those of `host` and `turn`) are async; the log answers at once. All can trap,
//! which is how a broken contract or a passed limit ends a guest.

#[expect(missing_docs, reason = "bindgen-generated code; the contract's text documents it")]
mod generated {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "agent",
        imports: {
            "hostelry:agent/host": async | trappable,
            "hostelry:agent/turn": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        additional_derives: [PartialEq],
        require_store_data_send: true,
    });
}

pub use generated::hostelry::agent::{host, log, turn, types};
pub use generated::{Agent, AgentPre};
