//! What the host remembers: sessions (what was said, the last known facts) and their workspaces, in one `SQLite` file.
//!
//! A [`Store`] is the way to the one thread that reads and writes it, in the order in which it is asked: what a turn
//! asks for, it sees all that was recorded before. Recording costs a send and no wait. A disk that fails is logged and
//! stops no turn. What is not here: usage and audit, which need a sync each.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use self::{
    thread::{Job, QUEUE, Work},
    turns::Beginning,
};
use crate::{
    bindings::types::{Content, Message, Role},
    config::SessionConfig,
    ids::SessionKey,
    metrics::Metrics,
};

mod facts;
mod files;
mod keep;
mod open;
mod thread;
mod turns;

pub use files::{FILE_BYTES_MAX, FILES_MAX, FileEntry, FileError, PATH_BYTES_MAX, WORKSPACE_BYTES_MAX};

/// How long the store may take to answer before it counts as out of reach.
const REACH_TIME: Duration = Duration::from_secs(2);

/// Why the store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be made.
    #[error("cannot make the data folder {path}: {source}\nhint: give the user that runs hostelry write access, or name another folder with `data` or --data", path = .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file cannot be opened or brought to today's form.
    #[error("cannot open {path}: {source}\nhint: it must be a file that hostelry wrote and may write; move it away to begin with no sessions", path = .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: rusqlite::Error,
    },
    /// The file is of a later version of this program.
    #[error("{path} is of version {version}, and this hostelry knows versions up to {known}\nhint: run the newer hostelry that wrote it, or move it away to begin with no sessions", path = .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: i64,
        /// The newest version that is known here.
        known: i64,
    },
    /// The thread cannot be started.
    #[error("cannot start the store's thread: {0}")]
    Thread(#[source] io::Error),
}

/// Everything that is kept of a session before one of its turns.
#[derive(Clone, Debug, Default)]
pub struct Recall {
    /// What was said, oldest first: turn by turn, in each what the user said before what the agent did.
    pub history: Vec<Message>,
    /// What the session's clients last said of themselves and their surroundings.
    pub facts: BTreeMap<String, String>,
}

/// The way to what the host remembers. Cloning is shallow.
#[derive(Clone)]
pub struct Store {
    jobs: mpsc::Sender<Job>,
    bounds: Arc<ArcSwap<Bounds>>,
}

/// What may be kept, and what counts it when more is wanted.
#[derive(Debug)]
struct Bounds {
    config: SessionConfig,
    metrics: Metrics,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").finish_non_exhaustive()
    }
}

/// A session, as the database knows it.
struct Session {
    key: [u8; 32],
    tenant: String,
    agent: String,
}

impl From<&SessionKey> for Session {
    fn from(key: &SessionKey) -> Self {
        Self { key: key.digest(), tenant: key.agent.tenant.clone(), agent: key.agent.agent.clone() }
    }
}

impl Store {
    /// Opens `sessions.db` in the folder `dir`, making both if they are not there, and starts its thread.
    pub fn open(dir: &Path, config: &SessionConfig, metrics: &Metrics) -> Result<Self, StoreError> {
        let db = open::open(dir)?;
        let bounds = Bounds { config: config.clone(), metrics: metrics.clone() };
        let bounds = Arc::new(ArcSwap::from_pointee(bounds));
        let (jobs, waiting) = mpsc::channel(QUEUE);
        let clock = tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(StoreError::Thread)?;
        let swept = Arc::clone(&bounds);
        let serve = move || clock.block_on(thread::serve(db, &swept, waiting));
        // Not joined: `close` hears from the thread when all is written.
        std::thread::Builder::new().name("store".to_owned()).spawn(serve).map_err(StoreError::Thread)?;
        Ok(Self { jobs, bounds })
    }

    /// Keeps what this configuration says from now on.
    pub fn configure(&self, config: &SessionConfig) {
        self.bounds.rcu(|bounds| Bounds { config: config.clone(), metrics: bounds.metrics.clone() });
    }

    /// Writes what waits and ends the thread. What is asked afterwards is not done.
    pub async fn close(&self) {
        let (closed, done) = oneshot::channel();
        if self.jobs.send(Job::Close(closed)).await.is_ok() && done.await.is_err() {
            tracing::error!("the session store ended before it was closed");
        }
    }

    /// Whether the store answers.
    pub async fn is_reachable(&self) -> bool {
        let look = |db: &Connection| db.query_row("SELECT count(*) FROM tenants", [], |row| row.get::<_, i64>(0));
        matches!(tokio::time::timeout(REACH_TIME, self.ask(false, look)).await, Ok(Some(_)))
    }

    /// Records what the user said at the start of a turn, and what the client said of itself.
    pub async fn begin(
        &self,
        session: &SessionKey,
        turn_id: &str,
        input: &[Message],
        facts: &BTreeMap<String, String>,
    ) {
        let beginning = Beginning {
            turn: turn_id.to_owned(),
            input: keep::fit(input.iter(), self.bounds.load().config.bytes),
            facts: facts::bounded(facts),
        };
        let (bounds, session) = (self.bounds.load_full(), Session::from(session));
        self.tell(move |db| turns::begin(db, &bounds, &session, &beginning)).await;
    }

    /// Records what the agent said in a turn.
    pub async fn answer(&self, session: &SessionKey, turn_id: &str, text: String) {
        let answer = Message { role: Role::Agent, content: Content::Text(text) };
        let said = keep::fit([answer].iter(), self.bounds.load().config.bytes);
        let (bounds, session, turn) = (self.bounds.load_full(), Session::from(session), turn_id.to_owned());
        self.tell(move |db| turns::answer(db, &bounds, &session, &turn, &said)).await;
    }

    /// Everything that is kept of the session's turns that began before this one, whether or not they have ended.
    pub async fn recall(&self, session: &SessionKey, turn_id: &str) -> Recall {
        let (session, turn) = (Session::from(session), turn_id.to_owned());
        self.ask(false, move |db| turns::recall(db, &session, &turn)).await.unwrap_or_default()
    }

    /// Writes a file of the session's workspace, in place of the one that has this path.
    pub async fn file_write(&self, session: &SessionKey, path: String, content: String) -> Result<(), FileError> {
        files::check(&path, &content)?;
        let (bounds, session) = (self.bounds.load_full(), Session::from(session));
        let write = move |db: &Connection| files::write(db, &bounds, &session, &path, &content);
        self.ask(true, write).await.unwrap_or(Err(FileError::Failed))
    }

    /// What a file of the session's workspace holds.
    pub async fn file_read(&self, session: &SessionKey, path: String) -> Result<String, FileError> {
        let session = Session::from(session);
        self.ask(false, move |db| files::read(db, &session, &path)).await.unwrap_or(Err(FileError::Failed))
    }

    /// The files under a folder of the session's workspace, sorted by path; `/` is all of them.
    pub async fn file_list(&self, session: &SessionKey, folder: String) -> Result<Vec<FileEntry>, FileError> {
        let session = Session::from(session);
        self.ask(false, move |db| files::list(db, &session, &folder)).await.ok_or(FileError::Failed)
    }

    /// Deletes a file of the session's workspace.
    pub async fn file_delete(&self, session: &SessionKey, path: String) -> Result<(), FileError> {
        let session = Session::from(session);
        self.ask(true, move |db| files::delete(db, &session, &path)).await.unwrap_or(Err(FileError::Failed))
    }

    /// Has something written and does not wait for it.
    async fn tell<F>(&self, act: F)
    where
        F: Fn(&Connection) -> rusqlite::Result<()> + Send + 'static,
    {
        self.send(Box::new(Ask { act, writes: true, answer: None, asker: None })).await;
    }

    /// Has something done and waits for what comes of it; nothing does if the store failed.
    async fn ask<T, F>(&self, writes: bool, act: F) -> Option<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let (asker, answer) = oneshot::channel();
        self.send(Box::new(Ask { act, writes, answer: None, asker: Some(asker) })).await;
        answer.await.ok()
    }

    async fn send(&self, work: Box<dyn Work>) {
        if self.jobs.send(Job::Work(work)).await.is_err() {
            tracing::warn!("the session store is closed; what a turn asked of it was not done");
        }
    }
}

/// A function of the database, and who waits for its value.
struct Ask<F, T> {
    act: F,
    writes: bool,
    answer: Option<T>,
    asker: Option<oneshot::Sender<T>>,
}

impl<F, T> Work for Ask<F, T>
where
    F: Fn(&Connection) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn writes(&self) -> bool {
        self.writes
    }

    fn run(&mut self, db: &Connection) -> rusqlite::Result<()> {
        self.answer = Some((self.act)(db)?);
        Ok(())
    }

    fn done(self: Box<Self>) {
        if let (Some(asker), Some(answer)) = (self.asker, self.answer) {
            // Who asked may have gone.
            let _gone = asker.send(answer);
        }
    }
}

#[cfg(test)]
mod tests;
