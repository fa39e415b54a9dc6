//! What its compiler did not survive, remembered on disk, so that neither the same bytes under another name nor a restart
//! of the host makes it suffer them again.
//!
//! An entry is a small file beside the code: how often the component was tried in vain, and how it ended. One is written
//! before a compile begins and taken back when that ends well, so that a component which takes the whole host down with
//! it is told from the others too. Whoever removes the file has the component tried again.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use super::cache;
use crate::text;

/// How many deaths are remembered; the oldest is forgotten first.
const ENTRIES_MAX: usize = 1024;

/// How often a component is tried whose compiler ended for a reason that need not be the component's: a host that is too
/// busy, somebody who killed it, a power cut. A third time would be for ever.
const TRIES_MAX: u32 = 2;

/// How much is kept of how a compiler ended.
const HOW_MAX: usize = 1024;

/// A folder of entries.
#[derive(Debug)]
pub(super) struct Quarantine {
    folder: PathBuf,
}

/// An entry: how often a component was tried in vain, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tried {
    times: u32,
    how: String,
}

impl Quarantine {
    /// Opens `folder`, and makes it the host's own.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        cache::own(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// How the component ended, if it is not to be tried again.
    pub(super) fn holds(&self, entry: &str) -> Option<String> {
        self.read(entry).filter(|tried| tried.times >= TRIES_MAX).map(|tried| tried.how)
    }

    /// Takes note that a component is being compiled.
    pub(super) fn begin(self: &Arc<Self>, entry: &str) -> Attempt {
        let before = self.read(entry);
        let times = before.as_ref().map_or(0, |tried| tried.times) + 1;
        let attempt = Attempt { quarantine: Arc::clone(self), entry: entry.to_owned(), before, over: false };
        attempt.write(&Tried { times, how: "the host itself ended while it was being compiled".to_owned() });
        attempt
    }

    fn read(&self, entry: &str) -> Option<Tried> {
        let text = fs::read_to_string(self.folder.join(entry)).ok()?;
        let (times, how) = text.split_once('\n').unwrap_or((&text, ""));
        // One that was torn by a power cut says at least that it was tried.
        let how = text::visible(text::head(how.trim_end(), HOW_MAX));
        Some(Tried { times: times.parse().unwrap_or(1), how })
    }

    fn write(&self, entry: &str, tried: &Tried) -> io::Result<()> {
        fs::write(self.folder.join(entry), format!("{}\n{}\n", tried.times, text::head(&tried.how, HOW_MAX)))?;
        self.prune()
    }

    fn remove(&self, entry: &str) -> io::Result<()> {
        match fs::remove_file(self.folder.join(entry)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Forgets the oldest entries beyond as many as are kept.
    fn prune(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            entries.push((modified.unwrap_or(SystemTime::UNIX_EPOCH), entry.path()));
        }
        entries.sort();
        for (_, path) in entries.iter().take(entries.len().saturating_sub(ENTRIES_MAX)) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// How a compile ended.
#[derive(Debug)]
pub(super) enum Verdict<'a> {
    /// Well, or by saying what is wrong with the component.
    Survived,
    /// By the component's fault.
    Died(&'a str),
    /// And nobody knows whether the component is to blame.
    Failed(&'a str),
    /// Before it began.
    NotTried,
}

/// A compile that runs. One that is dropped was given up, and counts as not tried.
#[derive(Debug)]
pub(super) struct Attempt {
    quarantine: Arc<Quarantine>,
    entry: String,
    before: Option<Tried>,
    over: bool,
}

impl Attempt {
    /// Notes how it ended.
    pub(super) fn end(mut self, verdict: &Verdict<'_>) {
        let before = self.before.as_ref().map_or(0, |tried| tried.times);
        match verdict {
            Verdict::Survived => self.note(self.quarantine.remove(&self.entry)),
            Verdict::Died(how) => self.write(&Tried { times: TRIES_MAX, how: (*how).to_owned() }),
            Verdict::Failed(how) => self.write(&Tried { times: before + 1, how: (*how).to_owned() }),
            Verdict::NotTried => return,
        }
        self.over = true;
    }

    fn write(&self, tried: &Tried) {
        self.note(self.quarantine.write(&self.entry, tried));
    }

    fn note(&self, result: io::Result<()>) {
        if let Err(error) = result {
            tracing::warn!("cannot note in {} what is compiled: {error}", self.quarantine.folder.display());
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        match &self.before {
            Some(before) => self.write(before),
            None => self.note(self.quarantine.remove(&self.entry)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarantine() -> (tempfile::TempDir, Arc<Quarantine>) {
        let folder = tempfile::tempdir().unwrap();
        let quarantine = Arc::new(Quarantine::open(&folder.path().join("q")).unwrap());
        (folder, quarantine)
    }

    #[test]
    fn what_died_is_held_by_whoever_opens_the_folder_until_its_entry_is_removed() {
        let (folder, quarantine) = quarantine();
        quarantine.begin("a").end(&Verdict::Died("too much"));
        let again = Quarantine::open(&folder.path().join("q")).unwrap();
        assert_eq!(again.holds("a").as_deref(), Some("too much"));
        assert_eq!(again.holds("b"), None);
        fs::remove_file(folder.path().join("q/a")).unwrap();
        assert_eq!(again.holds("a"), None);
    }

    #[test]
    fn what_failed_for_another_reason_is_tried_twice() {
        let (_folder, quarantine) = quarantine();
        quarantine.begin("a").end(&Verdict::Failed("it took too long"));
        assert_eq!(quarantine.holds("a"), None);
        quarantine.begin("a").end(&Verdict::Failed("it took too long"));
        assert_eq!(quarantine.holds("a").as_deref(), Some("it took too long"));
    }

    #[test]
    fn what_succeeds_is_forgotten() {
        let (folder, quarantine) = quarantine();
        quarantine.begin("a").end(&Verdict::Failed("it took too long"));
        quarantine.begin("a").end(&Verdict::Survived);
        assert_eq!(fs::read_dir(folder.path().join("q")).unwrap().count(), 0);
        quarantine.begin("a").end(&Verdict::Failed("it took too long"));
        assert_eq!(quarantine.holds("a"), None);
    }

    #[test]
    fn what_took_the_host_down_twice_is_held() {
        let (folder, quarantine) = quarantine();
        for _ in 0..2 {
            // What a process that is killed leaves: its memory is gone, its files are not.
            let path = folder.path().join("q/a");
            let attempt = quarantine.begin("a");
            let left = fs::read(&path).unwrap();
            drop(attempt);
            fs::write(&path, left).unwrap();
        }
        assert_eq!(quarantine.holds("a").as_deref(), Some("the host itself ended while it was being compiled"));
    }

    #[test]
    fn what_is_given_up_counts_as_not_tried() {
        let (_folder, quarantine) = quarantine();
        for _ in 0..5 {
            drop(quarantine.begin("a"));
            quarantine.begin("a").end(&Verdict::NotTried);
        }
        quarantine.begin("a").end(&Verdict::Failed("x"));
        drop(quarantine.begin("a"));
        assert_eq!(quarantine.holds("a"), None);
        assert_eq!(quarantine.read("a"), Some(Tried { times: 1, how: "x".to_owned() }));
    }

    #[test]
    fn a_torn_entry_counts_as_one_try() {
        let (folder, quarantine) = quarantine();
        fs::write(folder.path().join("q/a"), b"").unwrap();
        assert_eq!(quarantine.holds("a"), None);
        quarantine.begin("a").end(&Verdict::Failed("x"));
        assert!(quarantine.holds("a").is_some());
    }

    #[test]
    fn the_oldest_deaths_are_forgotten_first() {
        let (folder, quarantine) = quarantine();
        quarantine.begin("first").end(&Verdict::Died("x"));
        let long_ago = SystemTime::UNIX_EPOCH;
        fs::File::options().write(true).open(folder.path().join("q/first")).unwrap().set_modified(long_ago).unwrap();
        for n in 0..ENTRIES_MAX - 1 {
            fs::write(folder.path().join(format!("q/{n}")), "2\nx\n").unwrap();
        }
        assert!(quarantine.holds("first").is_some());
        quarantine.begin("last").end(&Verdict::Died("x"));
        assert!(quarantine.holds("first").is_none() && quarantine.holds("last").is_some());
        assert_eq!(fs::read_dir(folder.path().join("q")).unwrap().count(), ENTRIES_MAX);
    }
}
