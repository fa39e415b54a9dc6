//! The file system's own hints that something in the folder may have changed.

use std::path::Path;

use notify::{
    EventKind, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::sync::mpsc;

use super::folder;

/// What watches the folder for hints. Without it there is the poll.
pub(super) struct Eyes {
    _watcher: Option<notify::RecommendedWatcher>,
    identity: Option<(u64, u64)>,
}

impl Eyes {
    pub(super) fn open(root: &Path, hint: &mpsc::Sender<()>) -> Self {
        // Told before the watch begins: a folder that takes its place in between is then another.
        let identity = folder::identity(root);
        let hint = hint.clone();
        // What happened is looked at, not believed; a hint that waits already is enough.
        let told = move |event: notify::Result<notify::Event>| {
            if is_news(&event) {
                _ = hint.try_send(());
            }
        };
        let watcher = notify::recommended_watcher(told).and_then(|mut watcher| {
            watcher.watch(root, RecursiveMode::Recursive)?;
            Ok(watcher)
        });
        let watcher = watcher
            .inspect_err(|error| tracing::warn!("cannot watch the plugins folder, so it is only polled: {error}"))
            .ok();
        Self { _watcher: watcher, identity }
    }

    /// Whether the folder has been replaced by another.
    pub(super) fn are_elsewhere(&self, root: &Path) -> bool {
        let now = folder::identity(root);
        now.is_some() && now != self.identity
    }
}

/// Whether something may have changed. That the folder was read is no news: we read it ourselves at every look.
pub(crate) fn is_news(event: &notify::Result<notify::Event>) -> bool {
    match event {
        Ok(event) => match event.kind {
            EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
            _ => true,
        },
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use notify::{
        Event,
        event::{CreateKind, DataChange, ModifyKind},
    };

    use super::*;

    #[test]
    fn reading_the_folder_is_no_news_and_whatever_changes_it_is() {
        let news = |kind| is_news(&Ok(Event::new(kind)));
        assert!(!news(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!news(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(!news(EventKind::Access(AccessKind::Read)));
        assert!(news(EventKind::Access(AccessKind::Close(AccessMode::Write))));
        assert!(news(EventKind::Create(CreateKind::File)));
        assert!(news(EventKind::Modify(ModifyKind::Data(DataChange::Any))));
        assert!(news(EventKind::Any));
        assert!(is_news(&Err(notify::Error::generic("too many events"))));
    }
}
