//! The files that `check` reads: the component, and the one beside it.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use super::Beside;
use crate::config::AgentConfig;

/// The largest file beside a component that is read: as `serve` has it.
const BESIDE_MAX: u64 = 64 * 1024;

/// A file's size and, unless that is more than `max`, what it holds.
pub(super) fn read(path: &Path, max: u64) -> io::Result<(u64, Option<Vec<u8>>)> {
    // Looked at before it is opened: opening a pipe waits for whoever writes to it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut bytes = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    let whole = bytes.len() as u64 <= max;
    Ok((if whole { bytes.len() as u64 } else { size }, whole.then_some(bytes)))
}

/// The file beside a component, if there is one, and what it says; nothing if it has faults.
pub(super) fn beside(file: &Path) -> io::Result<(Option<Beside>, AgentConfig)> {
    let path = file.with_extension("toml");
    let bytes = match read(&path, BESIDE_MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, AgentConfig::default())),
        other => other?.1,
    };
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (faults, own) = match bytes.map(String::from_utf8) {
        None => (vec![format!("{name}: larger than {BESIDE_MAX} bytes")], AgentConfig::default()),
        Some(Err(_)) => (vec![format!("{name}: not UTF-8")], AgentConfig::default()),
        Some(Ok(text)) => match AgentConfig::read(&text, &name) {
            Ok(own) => (Vec::new(), own),
            Err(faults) => (faults.0, AgentConfig::default()),
        },
    };
    Ok((Some(Beside { name, faults }), own))
}
