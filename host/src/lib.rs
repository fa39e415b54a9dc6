//! Hostelry: a server that runs AI agents as sandboxed WebAssembly components and serves each over two protocols.
//!
//! The modules below stand in the order in which to read them. The way of a turn through the code is seven files:
//! `main.rs` (arguments), [`server`] (routes, bind, drain), `protocols/mythra/socket.rs` (one connection), [`turn`] (one
//! user input to its end), `runtime/instance.rs` (one guest's run), `capabilities/events.rs` (what it shows), and back
//! out through `protocols/mythra/encode.rs` (frames).
//!
//! Dependencies go one way, downwards: server, protocols, turn, runtime, capabilities, script, bindings; what is left over
//! ([`config`], [`tenants`], [`ids`], [`text`]) knows nobody above it. `docs/architecture.md` has the whole map.

pub mod cli;
pub mod server;

pub mod protocols;

pub mod admission;
pub mod turn;

pub mod runtime;

pub mod capabilities;
pub mod records;
pub mod store;

pub mod script;

pub mod bindings;

pub mod config;
pub mod contract;
pub mod ids;
pub mod limit;
pub mod metrics;
pub mod telemetry;
pub mod tenants;
pub mod text;
