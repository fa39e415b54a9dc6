//! The configuration's file, watched: tells when it has another content and is left alone.

use std::{
    fs::Metadata,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// How often the file is looked at. One that was written between two looks is taken at the one after, when its writer is
/// through with it.
const LOOK: Duration = Duration::from_millis(500);

/// A file's state: which file it is, how long, and when it was changed.
type Print = (u64, u64, u64, (i64, i64), (i64, i64));

/// The file, and its states that are known.
pub(super) struct Watched {
    path: PathBuf,
    /// The one that was read last.
    taken: Option<Print>,
    /// The one at the last look.
    seen: Option<Print>,
}

impl Watched {
    /// The file as it is now, which the caller is about to read.
    pub(super) fn new(path: &Path) -> Self {
        let taken = std::fs::metadata(path).ok().map(|metadata| print(&metadata));
        Self { path: path.to_owned(), taken, seen: taken }
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits until the file is another and has rested. One that is gone is no other: the last word of it stands.
    pub(super) async fn changed(&mut self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let now = tokio::fs::metadata(&self.path).await.ok().map(|metadata| print(&metadata));
            let rested = std::mem::replace(&mut self.seen, now) == now;
            if now.is_some() && now != self.taken && rested {
                self.taken = now;
                return;
            }
        }
    }
}

fn print(metadata: &Metadata) -> Print {
    let (modified, changed) = ((metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec()));
    (metadata.dev(), metadata.ino(), metadata.size(), modified, changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_file_is_told_of_once_it_is_another_and_rests() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hostelry.toml");
        std::fs::write(&path, "a").unwrap();
        let mut watched = Watched::new(&path);
        let soon =
            |watched: &mut Watched| futures_util::FutureExt::now_or_never(std::pin::pin!(watched.changed())).is_some();
        assert!(!soon(&mut watched));
        assert!(tokio::time::timeout(LOOK * 4, watched.changed()).await.is_err(), "it is what was read");
        std::fs::remove_file(&path).unwrap();
        assert!(tokio::time::timeout(LOOK * 4, watched.changed()).await.is_err(), "it is gone");
        std::fs::write(&path, "ab").unwrap();
        watched.changed().await;
        assert!(tokio::time::timeout(LOOK * 4, watched.changed()).await.is_err(), "once is enough");
    }
}
