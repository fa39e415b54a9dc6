//! Tests over real sockets: the built program, real guests, real clients.

#![expect(unreachable_pub, reason = "one binary of many modules: what they share is public within it")]
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test ends where what it needs is not there")]

mod admin;
mod cli;
mod conformance;
mod dev;
mod hostile;
mod hostile_clients;
mod hot_reload;
mod limits;
mod lingzhu;
mod mythra;
mod new;
mod process;
mod selftest;
mod sessions;
mod shutdown;
mod support;
mod tenants;
mod tidy;
mod tools;
