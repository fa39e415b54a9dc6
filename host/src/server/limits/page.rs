//! The table as a page: `docs/limits.md`.

use super::{GROUPS, Row, count, default, size};
use crate::{
    capabilities::tools::image::{IMAGE_BYTES_MAX, REDIRECTS_MAX},
    protocols::lingzhu::{ID_MAX, MESSAGES_MAX},
    runtime::{precompile::CACHE_MAX, watch::LOAD_MAX},
    script::{ANSWER_KEPT_MAX, FOLLOW_UP_BYTES_MAX, FOLLOW_UP_MAX, WAITING_BYTES_MAX},
    store::{FACT_BYTES_MAX, FACTS_MAX},
    turn::SAID_MAX,
};

const HEAD: &str = "\
# Limits

<!-- Written by `UPDATE=1 cargo test -p hostelry --test it table_of_limits` from host/src/server/limits/. -->

What each bound bounds, what its default is and why, what the guest sees at it, and what the client sees. Where the client
\"sees the failure\", it gets a well-formed stream to its end: on Mythra open streams are closed, then an `error`, then
`response-state` end; on Lingzhu the agent's apology, then `done`. The log names the limit.

Each is counted, by the name in the first column and by tenant, in `hostelry_limit_hits_total{limit=\"NAME\"}` on the admin
listener's `/metrics`: once for each turn, request, connection or file that runs into it. Each is proven by the test in the
last column, and `hostelry selftest` proves those that a guest or a client can run into on the operator's own
configuration. A limit that has no row here, or no test, does not compile.
";

/// The page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for group in GROUPS {
        page.extend(["\n## ", group.title, "\n\n"]);
        page.push_str("| limit | key | default | bounds | why so much | the guest | the client | proven by |\n");
        page.push_str("| --- | --- | --- | --- | --- | --- | --- | --- |\n");
        for row in group.rows {
            page.push_str(&line(row));
        }
    }
    page.push_str(&rest());
    page
}

fn line(row: &Row) -> String {
    let Row { limit, key, bounds, why, guest, client, test } = row;
    let keys: Vec<_> =
        key.split(", ").map(|key| if key.contains('.') { format!("`{key}`") } else { key.to_owned() }).collect();
    let (keys, default) = (keys.join(", "), default(*limit));
    format!("| `{limit}` | {keys} | {default} | {bounds} | {why} | {guest} | {client} | `{test}` |\n")
}

/// What nobody runs into alone: bounds on what the host holds or hands on, which cut and wait instead of refusing.
fn rest() -> String {
    format!(
        "
## What is cut, kept or waited for

| what | bound | past it |
| --- | --- | --- |
| frames that wait for a slow client | {waiting} | `emit-event` waits: the client's pace is the agent's |
| an agent's own error as it is shown | {said} | the first {said} are shown |
| follow-up questions | {follow_ups} of {follow_up} | the first {follow_ups} are kept |
| a kept answer | {answer} | the rest of it is not remembered |
| a session's turns, bytes and age | `sessions.turns`, `sessions.bytes`, `sessions.idle` | the oldest go |
| a session's facts | {facts}, {facts_size} together | the rest is not remembered |
| messages of one request, ids | {messages}, {id} each | 400 |
| an image that `fetch_image` fetches | {image}, {redirects} redirects | the tool fails with the reason |
| compiled code that is kept | {cache} | what was of no use for longest goes |
| the start's wait for plugins | {load:?} | the others follow while the host serves |
",
        waiting = size(WAITING_BYTES_MAX),
        said = size(SAID_MAX),
        follow_ups = count(FOLLOW_UP_MAX),
        follow_up = size(FOLLOW_UP_BYTES_MAX),
        answer = size(ANSWER_KEPT_MAX),
        facts = count(FACTS_MAX),
        facts_size = size(FACT_BYTES_MAX),
        messages = count(MESSAGES_MAX),
        id = size(ID_MAX),
        image = size(IMAGE_BYTES_MAX),
        redirects = count(REDIRECTS_MAX),
        cache = size(CACHE_MAX),
        load = LOAD_MAX,
    )
}
