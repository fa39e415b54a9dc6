//! Files in the plugins folder that are deadly to compile, or larger than anything is read. Meanwhile others are served.

use std::{io::Write as _, path::PathBuf, time::Duration};

use tokio::time::{Instant, sleep};

use super::Own;
use crate::{
    cli::selftest::{
        case::Case,
        ground::{LOOK, Stand},
        guests, settings,
        verdict::{Proof, Trouble},
    },
    ids::AgentId,
};

/// How long an ordinary turn may take while a file is refused.
const FELT: Duration = Duration::from_secs(2);

/// The most memory that a compiler is made to take, in bytes.
const COMPILED_MAX: u64 = 8 * 1024 * 1024 * 1024;

/// How long a host may take to look at a file and refuse it, on a machine that does much else.
const REFUSING: Duration = Duration::from_secs(30);

pub(super) fn of_server(own: &Own<'_>) -> Vec<Case> {
    let reload = &own.config.reload;
    let takes = reload.settle.max(reload.poll);
    let mut cases = Vec::new();
    let bombs: [(&'static str, usize); 4] = [
        ("a file of components that instantiate each other twice, twenty deep", 0),
        ("a file of 100,001 functions", 1),
        ("a file of a function of 10,001 local variables", 2),
        ("a file of a function of 2 MiB", 3),
    ];
    for (what, index) in bombs {
        let case = Case::fixed("structure", what, "refused", move |stand| bomb(stand, index));
        cases.push(own.server(case).waits(takes));
    }
    let size = own.setting("max-size").map(|setting| Case::of(setting, "a file that is a byte too large", large));
    cases.extend(size.map(|case| own.server(case).waits(takes)));
    let untried = [("agents", "more files than there may be", "tens of thousands of files are not written here")];
    let compiles = own.setting("compile").map(|setting| {
        let case = Case::of(setting, "a file of jump tables, which only the compiler's bounds stop", compile);
        // The compiler has the lowest priority: whatever else runs goes before it.
        own.server(case).waits(takes).alone()
    });
    cases.extend(compiles);
    let untried = untried.map(|(limit, what, why)| {
        own.server(Case::fixed(limit, what, "fixed", move |_| async move { Err(Trouble::Untried(why.to_owned())) }))
    });
    cases.extend(untried);
    for case in &mut cases {
        case.overdue += REFUSING;
    }
    cases
}

async fn bomb(stand: Stand, index: usize) -> Proof {
    let bombs = guests::bombs().map_err(|error| Trouble::Unproven(error.to_string()))?;
    let bomb = bombs.into_iter().nth(index).ok_or_else(|| Trouble::Untried("there is no such file".to_owned()))?;
    if bomb.bytes.len() as u64 > stand.ground.config.reload.max_size {
        return Err(Trouble::Untried("reload.max-size is reached first".to_owned()));
    }
    refused(&stand, bomb.name, "too large to compile safely", |file| file.write_all(&bomb.bytes)).await
}

/// Memory that is left to others while a compiler takes all that it may, in bytes.
const SPARE: u64 = 1024 * 1024 * 1024;

async fn compile(stand: Stand) -> Proof {
    let bounds = stand.ground.config.reload.compile;
    if available().is_some_and(|available| available < bounds.memory.saturating_add(SPARE)) {
        return Err(Trouble::Untried("this machine has not so much memory to spare".to_owned()));
    }
    if bounds.memory > COMPILED_MAX {
        return Err(Trouble::Unproven(format!("no more than {} are taken here", settings::size(COMPILED_MAX))));
    }
    let bytes = guests::jumps(bounds.memory);
    if bytes.len() as u64 > stand.ground.config.reload.max_size {
        return Err(Trouble::Untried("reload.max-size is reached first".to_owned()));
    }
    refused(&stand, "jumps", "(reload.compile-", |file| file.write_all(&bytes)).await
}

/// The memory that this machine has to spare, in bytes.
fn available() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

async fn large(stand: Stand) -> Proof {
    let size = stand.ground.config.reload.max_size + 1;
    // A hole: it takes no room on the disk.
    refused(&stand, "large", "larger than", |file| file.set_len(size)).await
}

/// Drops a file as an agent, and waits until it is refused for this reason; meanwhile others are served.
async fn refused(
    stand: &Stand,
    name: &str,
    reason: &str,
    fill: impl FnOnce(&mut std::fs::File) -> std::io::Result<()>,
) -> Proof {
    let path = drop_in(stand, name, fill).map_err(|error| Trouble::Unproven(format!("cannot drop a file: {error}")))?;
    let id = AgentId { tenant: stand.tenant.clone(), agent: name.to_owned() };
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    let proof = loop {
        let asked = Instant::now();
        stand.ordinary().await.map_err(|why| Trouble::Broke(format!("meanwhile a turn failed: {why}")))?;
        slowest = slowest.max(asked.elapsed());
        match stand.ground.registry.standings().remove(&id) {
            Some(standing) if standing.live.is_some() => break Err(Trouble::Broke("it was taken".to_owned())),
            Some(standing) => match standing.fault {
                Some(fault) if fault.contains(reason) => break Ok(began.elapsed()),
                Some(fault) => break Err(Trouble::Unproven(format!("it was refused for something else: {fault}"))),
                None => {}
            },
            None => {}
        }
        sleep(LOOK).await;
    };
    // It may be gone by now.
    drop(std::fs::remove_file(path));
    let took = proof?;
    if slowest > FELT {
        return Err(Trouble::Broke(format!("meanwhile two turns took {}", settings::time(slowest))));
    }
    Ok(format!("refused after {}, two turns took {} at most", settings::time(took), settings::time(slowest)))
}

/// Writes a file beside the folder and moves it there whole.
fn drop_in(
    stand: &Stand,
    name: &str,
    fill: impl FnOnce(&mut std::fs::File) -> std::io::Result<()>,
) -> std::io::Result<PathBuf> {
    let folder = stand.ground.plugins.join(&stand.tenant);
    let mut whole = tempfile::NamedTempFile::new_in(stand.ground.plugins.parent().unwrap_or(&folder))?;
    fill(whole.as_file_mut())?;
    let path = folder.join(format!("{name}.wasm"));
    whole.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}
