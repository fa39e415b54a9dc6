//! Guests that want the host to keep too much, or to hand them too much: files, sessions, a tool's answer.

use super::Own;
use crate::cli::selftest::{
    case::Case,
    clients::Caller,
    ground::{Stand, whole},
    settings::{Setting, grouped, size},
    verdict::{Proof, Trouble},
};

/// The largest image that a tool fetches.
const IMAGE_MAX: usize = 10 * 1024 * 1024;

/// What stands around an image in a tool's answer.
const AROUND: usize = 256;

/// The largest file of a workspace.
const FILE_MAX: usize = 512 * 1024;

/// How much is written at once to fill a tenant's workspaces, and how much at most.
const PIECE: usize = 200 * 1024;
const WRITTEN_MAX: u64 = 32 * 1024 * 1024;

/// How many sessions are begun at most.
const SESSIONS_MAX: u32 = 2_000;

pub(super) fn of_tenant(own: &Own<'_>) -> Vec<Case> {
    let setting = own.setting("tool-result");
    let case = |setting| own.tenants(Case::of(setting, "an image that is larger as a tool's answer", tool_result));
    setting.map(|setting| case(setting).with(|tenant| tenant.tools = vec!["http/*".to_owned()])).into_iter().collect()
}

pub(super) fn of_server(own: &Own<'_>) -> Vec<Case> {
    let writes = |case: Case| own.server(case).with(|tenant| tenant.tools = vec!["workspace/*".to_owned()]);
    let file = Case::fixed("workspace", "a file that is a byte too large", size(FILE_MAX as u64), file);
    let mut cases = vec![writes(file)];
    let files = |setting: &Setting| writes(Case::of(setting, "files in one session after another", files));
    cases.extend(own.setting("tenant-files").map(files));
    let sessions = |setting: &Setting| own.server(Case::of(setting, "sessions without end", sessions));
    cases.extend(own.setting("sessions").map(sessions));
    cases
}

/// An order to call a tool with these arguments.
fn call(tool: &str, args: &serde_json::Value) -> String {
    format!("T {} {tool}{args}", tool.len())
}

async fn tool_result(stand: Stand) -> Proof {
    let limit = stand.limits.tool_result;
    // Three bytes are four characters.
    if limit >= IMAGE_MAX / 3 * 4 {
        return Err(Trouble::Untried("no tool here answers with so much".to_owned()));
    }
    if stand.limits.tool_calls == 0 {
        return Err(Trouble::Untried("no turn may call a tool".to_owned()));
    }
    let pictures = stand.ground.pictures;
    let fetch = |bytes: usize| call("fetch_image", &serde_json::json!({ "url": format!("http://{pictures}/{bytes}") }));
    let fits = stand.mythra(&fetch(limit.saturating_sub(AROUND) / 4 * 3)).await?;
    let over = stand.mythra(&fetch((limit / 4 * 3 + 3).min(IMAGE_MAX))).await?;
    if !over.error.starts_with("tool-result:") {
        return Err(Trouble::Broke(format!("a larger answer was handed over: {:?} {}", over.text, over.error)));
    }
    match fits.number().filter(|_| !fits.failed) {
        Some(taken) => Ok(format!("{} B taken, a larger one refused", grouped(taken))),
        None => Err(Trouble::Unproven(format!("one that fits was not taken: {}", fits.error))),
    }
}

/// Whether a client may say so much in one input, and a guest hand it on.
fn may_say(stand: &Stand, bytes: usize) -> Result<(), Trouble> {
    let room = bytes + 4096;
    let most = [
        (stand.ground.config.mythra.max_message, "mythra.max-message"),
        (stand.limits.host_call, "limits.host-call"),
        // Arguments are shown twice.
        (stand.limits.output / 2, "limits.output"),
    ];
    match most.iter().find(|(most, _)| *most < room) {
        Some((_, key)) => Err(Trouble::Untried(format!("{key} is reached first"))),
        None => Ok(()),
    }
}

async fn file(stand: Stand) -> Proof {
    may_say(&stand, FILE_MAX)?;
    let write =
        |bytes: usize| call("WriteFile", &serde_json::json!({ "filePath": "a.txt", "content": "x".repeat(bytes) }));
    let (fits, over) = (stand.mythra(&write(FILE_MAX)).await?, stand.mythra(&write(FILE_MAX + 1)).await?);
    if !over.failed {
        return Err(Trouble::Broke("the file was written".to_owned()));
    }
    if fits.failed {
        return Err(Trouble::Unproven(format!("one that fits was not written: {}", fits.error)));
    }
    Ok(format!("{} B written, {} B refused", grouped(FILE_MAX as u64), grouped(FILE_MAX as u64 + 1)))
}

async fn files(stand: Stand) -> Proof {
    let most = stand.ground.config.sessions.files_per_tenant;
    if most > WRITTEN_MAX {
        return Err(Trouble::Untried(format!("no more than {} are written here", size(WRITTEN_MAX))));
    }
    may_say(&stand, PIECE)?;
    let order = call("WriteFile", &serde_json::json!({ "filePath": "a.txt", "content": "x".repeat(PIECE) }));
    let mut written = 0;
    while written <= most {
        let heard = stand.mythra(&order).await?;
        if heard.error.contains("of this tenant") {
            return Ok(format!("refused after {}", size(written)));
        }
        if heard.failed {
            return Err(Trouble::Unproven(format!("a file was not written: {}", heard.error)));
        }
        written += PIECE as u64;
    }
    Err(Trouble::Broke(format!("{} were written", size(written))))
}

async fn sessions(stand: Stand) -> Proof {
    let most = stand.ground.config.sessions.per_tenant;
    if most > SESSIONS_MAX {
        let why = format!("no more than {} sessions are begun here", grouped(SESSIONS_MAX.into()));
        return Err(Trouble::Untried(why));
    }
    let first = stand.caller();
    whole("Lingzhu", first.lingzhu("e hello").await)?;
    for _ in 0..most {
        whole("Lingzhu", stand.caller().lingzhu("e hello").await)?;
    }
    let again = Caller { session: first.session.clone(), ..stand.caller() };
    match whole("Lingzhu", again.lingzhu("y").await)?.number() {
        Some(0) => Ok(format!("the first was forgotten for the {}th", grouped(u64::from(most) + 1))),
        remembered => Err(Trouble::Broke(format!("the first was still there: {remembered:?} messages"))),
    }
}
