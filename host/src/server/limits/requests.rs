//! Who may begin a turn, and what a client may take of the host before one begins.

use super::{FIXED, NOTHING, Row};
use crate::limit::Limit;

/// What it is called for Lingzhu and for Mythra to be asked to come again.
const COME_AGAIN: &str = "429 with `retry-after`; `error`, close 1013";

pub(super) const TURNS: [Row; 5] = [
    Row {
        limit: Limit::ConcurrentTurns,
        key: "server.concurrent-turns",
        bounds: "turns at once, of all tenants",
        why: "each takes an instance's memory and a stack; one process has address space for 5,000",
        guest: NOTHING,
        client: "503 with `retry-after`; `error`, close 1013",
        test: "tests/it/limits/admission.rs::the_hosts_turns_at_once_are_bounded",
    },
    Row {
        limit: Limit::TenantTurns,
        key: "tenants.NAME.concurrent-turns",
        bounds: "turns at once, of one tenant",
        why: "a sixteenth of the host's: one tenant's crowd leaves room for the others'",
        guest: NOTHING,
        client: COME_AGAIN,
        test: "tests/it/limits/admission.rs::a_tenants_turns_at_once_are_bounded_and_another_tenant_does_not_notice",
    },
    Row {
        limit: Limit::TurnsPerMinute,
        key: "tenants.NAME.turns-per-minute",
        bounds: "turns that begin in a minute, of one tenant",
        why: "what is fair depends on who pays for what",
        guest: NOTHING,
        client: COME_AGAIN,
        test: "tests/it/limits/admission.rs::turns_a_minute_are_bounded",
    },
    Row {
        limit: Limit::DayBudget,
        key: "tenants.NAME.budget.day.*",
        bounds: "what a tenant uses from midnight to midnight in UTC",
        why: "what is fair depends on who pays for what",
        guest: NOTHING,
        client: COME_AGAIN,
        test: "tests/it/limits/budgets.rs::a_days_turns_that_are_used_up_refuse_the_next_also_after_a_restart",
    },
    Row {
        limit: Limit::MonthBudget,
        key: "tenants.NAME.budget.month.*",
        bounds: "what a tenant uses in a month",
        why: "what is fair depends on who pays for what",
        guest: NOTHING,
        client: COME_AGAIN,
        test: "tests/it/limits/budgets.rs::a_months_cpu_time_that_is_used_up_refuses_the_next_turn",
    },
];

pub(super) const CONNECTIONS: [Row; 9] = [
    Row {
        limit: Limit::Connections,
        key: "server.connections",
        bounds: "connections at once",
        why: "each takes a descriptor and its buffers",
        guest: NOTHING,
        client: "the connection is closed",
        test: "tests/it/limits/clients.rs::connections_are_bounded_and_given_back",
    },
    Row {
        limit: Limit::AddressConnections,
        key: "server.connections-per-address",
        bounds: "connections at once of one address, or of one /64 network of IPv6",
        why: "a tenth of all, for an office behind one address",
        guest: NOTHING,
        client: "the connection is closed",
        test: "tests/it/limits/budgets.rs::one_address_has_no_more_connections_than_it_may",
    },
    Row {
        limit: Limit::TenantConnections,
        key: "tenants.NAME.connections",
        bounds: "WebSocket connections at once of one tenant's clients",
        why: "a fifth of all: one tenant's clients leave room for the others'",
        guest: NOTHING,
        client: "429 with `retry-after`, or `error` and close 1013",
        test: "tests/it/limits/budgets.rs::a_tenants_connections_are_bounded_and_given_back",
    },
    Row {
        limit: Limit::RequestTime,
        key: "server.request-time",
        bounds: "the time that a request's head, and then its body, takes to arrive",
        why: "a photo over a bad mobile network arrives in it; a byte a second does not",
        guest: NOTHING,
        client: "the connection is closed; 408 for a body",
        test: "tests/it/hostile_clients.rs::a_body_that_does_not_come_is_not_waited_for",
    },
    Row {
        limit: Limit::WriteTime,
        key: "server.write-time",
        bounds: "the time in which a client takes nothing of what is sent to it",
        why: "a tunnel's length; what waits for the client is bounded, so the agent waits as well",
        guest: "`closed`",
        client: "the connection is closed",
        test: "tests/it/hostile_clients/slow_readers.rs::\
               a_client_that_reads_nothing_of_a_stream_is_cut_and_nobody_else_notices",
    },
    Row {
        limit: Limit::Head,
        key: FIXED,
        bounds: "bytes of a request's head",
        why: "what browsers send at most, with room",
        guest: NOTHING,
        client: "431",
        test: "tests/it/hostile_clients.rs::a_head_that_is_too_large_is_refused",
    },
    Row {
        limit: Limit::Body,
        key: "lingzhu.max-body",
        bounds: "bytes of a request's body",
        why: "a photo in base64, with the conversation",
        guest: NOTHING,
        client: "413",
        test: "tests/it/hostile_clients.rs::a_body_that_is_too_large_is_refused_as_it_comes",
    },
    Row {
        limit: Limit::Bodies,
        key: FIXED,
        bounds: "bytes of all bodies that are held at once",
        why: "twenty-five of the largest, or some kilobytes for each of tens of thousands",
        guest: NOTHING,
        client: "503",
        test: "tests/it/limits/clients.rs::bodies_that_do_not_end_take_a_bounded_room_all_together_and_a_tenants_own",
    },
    Row {
        limit: Limit::TenantBodies,
        key: FIXED,
        bounds: "bytes of the bodies that are held at once for one tenant",
        why: "a quarter of all: three tenants cannot take the room of a fourth",
        guest: NOTHING,
        client: "429",
        test: "tests/it/limits/clients.rs::bodies_that_do_not_end_take_a_bounded_room_all_together_and_a_tenants_own",
    },
];
