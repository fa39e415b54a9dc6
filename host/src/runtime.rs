//! Guests: the engine they run on, how a file becomes an agent, which agents are live, and one instance's run.

pub mod compile;
mod engine;
pub mod instance;
mod lanes;
mod meter;
pub mod precompile;
mod registry;
mod scan;
pub mod watch;

pub use compile::{CompiledAgent, Unfit};
pub use engine::{Engine, MEMORY_MAX, TURNS_MAX};
pub use instance::{Fallen, GuestFault};
pub use lanes::{GuestThreads, Lanes};
pub use meter::Meter;
pub use registry::{Ended, Registry, Standing, VersionRecord};
