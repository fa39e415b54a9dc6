//! Reading the records from another process than the host's, whether one runs or not.

use std::{fmt, path::Path};

use rusqlite::Connection;

use super::{Card, Failure, FailureQuery, Records, RecordsError, cards, open};

/// The records of a data folder, to be read only.
pub struct Reader {
    db: Connection,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Records {
    /// Opens the records of the folder `dir` to read what is written by now. Makes and changes nothing.
    pub fn read(dir: &Path) -> Result<Reader, RecordsError> {
        open::read(dir).map(|db| Reader { db })
    }
}

impl Reader {
    /// Failed turns, the newest first.
    pub fn failures(&self, query: &FailureQuery) -> rusqlite::Result<Vec<Failure>> {
        cards::list(&self.db, query, [].iter())
    }

    /// The newest crash card whose id is, or begins with, `id`: at least [`super::PREFIX_MIN`] characters of it.
    pub fn failure(&self, id: &str) -> rusqlite::Result<Option<Card>> {
        cards::find(&self.db, id, [].iter())
    }
}
