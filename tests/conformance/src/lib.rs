//! Whether a server keeps to the two protocols: the cases of `tests/cases`, run against any address by real clients.
//!
//! [`case`] is what a case says and where they are; [`notation`] reads what is expected; [`lingzhu`] and [`mythra`] run
//! one case each over their protocol, with the clients of [`http`] and [`socket`]; [`rules`] keeps what holds for every
//! stream, whatever the case; [`run`] runs many and tells how each went. Nothing here knows Hostelry's own code.

pub mod case;
pub mod http;
pub mod lingzhu;
pub mod mythra;
pub mod notation;
pub mod rules;
pub mod run;
pub mod script;
pub mod socket;
