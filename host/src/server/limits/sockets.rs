//! What a client may do on a Mythra connection.

use super::{NOTHING, Row};
use crate::limit::Limit;

pub(super) const ROWS: [Row; 7] = [
    Row {
        limit: Limit::Message,
        key: "mythra.max-message, mythra.max-buffer",
        bounds: "bytes of a message",
        why: "a long text is a tenth of it; photos come by address",
        guest: NOTHING,
        client: "`error`, close 1009; past what is read only the close",
        test: "tests/it/limits/sockets.rs::a_message_that_is_too_long_is_an_error_and_1009",
    },
    Row {
        limit: Limit::Queue,
        key: "mythra.queue",
        bounds: "inputs that wait while a turn runs",
        why: "a person types ahead by one or two",
        guest: NOTHING,
        client: "`error` \"busy\"",
        test: "tests/it/limits/sockets.rs::one_input_too_many_that_waits_is_told_that_it_does_not",
    },
    Row {
        limit: Limit::BadMessages,
        key: "mythra.bad-messages",
        bounds: "messages that are no JSON object",
        why: "a client under development sees what is wrong; one that means nothing by it is not kept",
        guest: NOTHING,
        client: "`error` for each, then close 1008",
        test: "tests/it/limits/sockets.rs::messages_that_are_no_json_end_the_connection",
    },
    Row {
        limit: Limit::SessionWait,
        key: "mythra.session-wait",
        bounds: "the time that an input waits for another turn of its session",
        why: "most turns are over by then",
        guest: NOTHING,
        client: "`error` \"busy\"",
        test: "tests/it/mythra.rs::a_session_that_stays_busy_is_an_error_and_another_session_is_not_concerned",
    },
    Row {
        limit: Limit::SlowReader,
        key: "mythra.slow-reader",
        bounds: "the time in which a client reads nothing while frames wait for it",
        why: "a tunnel's length; what waits for the client is bounded, so the agent waits as well",
        guest: "`closed`",
        client: "the turn is cancelled, close 1013",
        test: "tests/it/hostile_clients/slow_readers.rs::a_client_that_reads_nothing_is_cut_and_nobody_else_notices",
    },
    Row {
        limit: Limit::Idle,
        key: "mythra.idle",
        bounds: "the time in which a connection says nothing before its first input",
        why: "an open connection costs; one that is wanted says what for",
        guest: NOTHING,
        client: "close 1000",
        test: "tests/it/limits/sockets.rs::a_connection_that_says_nothing_is_closed",
    },
    Row {
        limit: Limit::UnansweredPings,
        key: "mythra.unanswered-pings, mythra.ping",
        bounds: "pings that stay unanswered",
        why: "a client that is gone is noticed within a minute, by both ends",
        guest: "`closed`",
        client: "the connection is closed",
        test: "tests/it/hostile_clients/websocket.rs::a_client_that_answers_no_pings_is_dropped",
    },
];
