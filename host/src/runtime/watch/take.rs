//! Reading a plugin's files: whole, bounded, and as they were looked at.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::Arc,
};

use super::folder::{FilePrint, Print};
use crate::{config::AgentConfig, runtime::compile};

/// The largest file beside a component. It is written by hand.
const BESIDE_MAX: u64 = 64 * 1024;

/// What reading gave.
pub(super) enum Taken {
    /// The component with its hash, and what it asks for.
    Whole { bytes: Arc<[u8]>, version: String, config: Box<AgentConfig> },
    /// The files are not what was looked at any more.
    Changed,
    /// They cannot be used, and why.
    Refused(String),
}

/// Why a file was not read.
enum Unread {
    Changed,
    Refused(String),
}

/// Reads the files that `print` tells of.
pub(super) fn take(path: &Path, print: &Print, max: u64, agent: &str) -> Taken {
    let files = read(path, Some(print.component()), max, "reload.max-size").and_then(|bytes| {
        let config = match print.beside() {
            None => AgentConfig::default(),
            Some(beside) => {
                let bytes = read(&path.with_extension("toml"), Some(beside), BESIDE_MAX, "64KiB")?;
                let text =
                    String::from_utf8(bytes).map_err(|_| Unread::Refused(format!("{agent}.toml is not UTF-8")))?;
                AgentConfig::read(&text, &format!("{agent}.toml"))
                    .map_err(|faults| Unread::Refused(faults.to_string()))?
            }
        };
        Ok((bytes, config))
    });
    match files {
        Ok((bytes, config)) => {
            let version = compile::version(&bytes);
            Taken::Whole { bytes: bytes.into(), version, config: Box::new(config) }
        }
        Err(Unread::Changed) => Taken::Changed,
        Err(Unread::Refused(why)) => Taken::Refused(why),
    }
}

/// Reads one file, if it is the one that was looked at before and after.
fn read(path: &Path, print: Option<&FilePrint>, max: u64, limit: &str) -> Result<Vec<u8>, Unread> {
    let unreadable = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Unread::Changed,
        _ => Unread::Refused(format!("the file cannot be read: {error}")),
    };
    let mut file = open(path).map_err(unreadable)?;
    same(&file, print)?;
    let mut bytes = Vec::new();
    file.by_ref().take(max.saturating_add(1)).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > max {
        return Err(Unread::Refused(format!("the file is larger than {max} bytes ({limit})")));
    }
    same(&file, print)?;
    Ok(bytes)
}

/// Opens a file without waiting, should it have become a pipe.
fn open(path: &Path) -> io::Result<File> {
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    OpenOptions::new().read(true).custom_flags(nonblock).open(path)
}

fn same(file: &File, print: Option<&FilePrint>) -> Result<(), Unread> {
    let metadata = file.metadata().map_err(|_| Unread::Changed)?;
    if metadata.is_file() && Some(&FilePrint::of(&metadata)) == print { Ok(()) } else { Err(Unread::Changed) }
}
