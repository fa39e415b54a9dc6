//! What the tests start and talk with.

pub mod admin;
pub mod guests;
pub mod host;
pub mod turn;
pub mod wat;
pub mod wire;
