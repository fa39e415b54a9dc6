//! The author's chat with the agent that is built beside it: one conversation over all its versions.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::BufReader,
    signal::unix::Signal,
    sync::{broadcast, watch},
    time::{Instant, timeout, timeout_at},
};

use super::{house::allowed, paper::Paper, report, workshop::Stand};
use crate::{
    cli::{
        Exit,
        chat::{Ask, Ending, Line, Trouble, next_line},
    },
    ids,
    turn::Ended,
};

/// How long the figures of a turn may come after its end: they are told before it.
const FIGURES: Duration = Duration::from_secs(2);

/// How long a turn may go without an end: more than any limit here allows it.
const TURN_MAX: Duration = Duration::from_mins(30);

/// What a person may type beside what is said.
const HELP: &str = "what you type is said to the agent; besides there are\n  \
    /new    begin a new conversation\n  \
    /quit   end; so does Ctrl-C, which during a turn ends the turn\n  \
    /help   show this";

/// One way to the agent, and what goes with all that is said over it.
pub(super) struct Way {
    /// The protocol's name.
    pub(super) protocol: &'static str,
    pub(super) line: Line,
    pub(super) ask: Ask,
}

/// A chat.
pub(super) struct Talk {
    ways: Vec<Way>,
    paper: Paper,
    stand: watch::Receiver<Stand>,
    ended: broadcast::Receiver<Arc<Ended>>,
    interrupts: Signal,
    manner: Manner,
}

/// How it is talked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// Whether a person sits there.
    pub(super) person: bool,
    /// Whether everything that is known of a failure is shown.
    pub(super) verbose: bool,
}

/// What became of what was said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Well,
    Failed,
    Interrupted,
    /// Nobody reads what is shown.
    Unread,
}

impl Talk {
    /// A chat over these ways.
    pub(super) fn new(
        ways: Vec<Way>,
        paper: &Paper,
        hears: (watch::Receiver<Stand>, broadcast::Receiver<Arc<Ended>>),
        interrupts: Signal,
        manner: Manner,
    ) -> Self {
        let (stand, ended) = hears;
        Self { ways, paper: paper.clone(), stand, ended, interrupts, manner }
    }

    /// Says `messages`, or what is typed if there are none.
    pub(super) async fn run(&mut self, messages: &[String]) -> Exit {
        let exit = if messages.is_empty() { self.typed().await } else { self.given(messages).await };
        for way in &mut self.ways {
            way.line.hang_up().await;
        }
        // Where nobody reads, this is said to nobody.
        exit.unwrap_or(Exit::Failed)
    }

    /// Waits for the first build. Nothing is live after a bad one, and nothing if it is not waited for.
    async fn begun(&mut self) -> Option<Stand> {
        tokio::select! {
            stand = self.stand.wait_for(|stand| stand.settled) => stand.ok().map(|stand| *stand),
            _ = self.interrupts.recv() => None,
        }
    }

    /// Says what the command line holds.
    async fn given(&mut self, messages: &[String]) -> io::Result<Exit> {
        if !self.begun().await.is_some_and(|stand| stand.live) {
            return Ok(Exit::Failed);
        }
        let mut exit = Exit::Clean;
        for message in messages {
            match self.say(message).await? {
                Told::Well => {}
                Told::Failed => exit = Exit::Failed,
                Told::Interrupted | Told::Unread => return Ok(Exit::Failed),
            }
        }
        Ok(exit)
    }

    /// Says what is typed, line by line.
    async fn typed(&mut self) -> io::Result<Exit> {
        let person = self.manner.person;
        match self.begun().await {
            None => return Ok(if person { Exit::Clean } else { Exit::Failed }),
            // Whoever writes into a pipe cannot mend it.
            Some(stand) if !stand.live && !person => return Ok(Exit::Failed),
            Some(_) => {}
        }
        let mut stdin = BufReader::new(tokio::io::stdin());
        let mut exit = Exit::Clean;
        loop {
            self.paper.prompt()?;
            let line = {
                // A line that is half read is not lost when something else happens.
                let mut line = std::pin::pin!(next_line(&mut stdin));
                loop {
                    tokio::select! {
                        line = &mut line => break line,
                        _ = self.interrupts.recv() => break Ok(None),
                        Ok(ended) = self.ended.recv() => self.shown(&ended, false),
                    }
                }
            };
            let Some(line) = line.unwrap_or_else(|why| {
                // A chat that cannot be shown ends all the same.
                drop(self.paper.error(&why));
                exit = Exit::Failed;
                None
            }) else {
                self.paper.leave();
                return Ok(exit);
            };
            self.paper.typed();
            match line.trim() {
                "" => {}
                "/quit" => return Ok(exit),
                "/help" => self.paper.dim(HELP),
                "/new" => {
                    for way in &mut self.ways {
                        way.ask.session = ids::base36::<16>();
                    }
                    self.paper.dim("a new conversation");
                }
                command if command.starts_with('/') && !command.contains(char::is_whitespace) => {
                    self.paper.dim(&format!("there is no {command}; /help shows what there is"));
                }
                _ if !self.stand.borrow().live => self.paper.dim("nothing is live yet: say it again once it is"),
                text => match self.say(text).await? {
                    Told::Well => {}
                    Told::Interrupted if person => {}
                    Told::Failed => exit = Exit::Failed,
                    Told::Interrupted | Told::Unread => return Ok(Exit::Failed),
                },
            }
        }
    }

    /// Says `text` over each way, one after another.
    async fn say(&mut self, text: &str) -> io::Result<Told> {
        let mut told = Told::Well;
        for place in 0..self.ways.len() {
            match self.turn(place, text).await? {
                Told::Well => {}
                Told::Failed => told = Told::Failed,
                end @ (Told::Interrupted | Told::Unread) => return Ok(end),
            }
        }
        Ok(told)
    }

    /// One turn, shown to its end with its figures.
    async fn turn(&mut self, place: usize, text: &str) -> io::Result<Told> {
        let several = self.ways.len() > 1;
        let Some(way) = self.ways.get_mut(place) else { return Ok(Told::Well) };
        if several {
            self.paper.dim(&format!("over {}", way.protocol));
        }
        let session = way.ask.session.clone();
        let mut screen = self.paper.clone();
        let end = tokio::select! {
            end = timeout(TURN_MAX, way.line.turn(&way.ask, text, &mut screen)) => Some(end),
            _ = self.interrupts.recv() => None,
        };
        let told = match end {
            None => Told::Interrupted,
            Some(Ok(Ok(Ending::Well))) => Told::Well,
            Some(Ok(Ok(Ending::Failed))) => Told::Failed,
            Some(Ok(Err(Trouble::Output(_)))) => return Ok(Told::Unread),
            Some(Ok(Err(Trouble::Said(why)))) => {
                self.paper.error(&why)?;
                Told::Failed
            }
            Some(Err(_)) => {
                self.paper.error("no end came")?;
                Told::Failed
            }
        };
        self.paper.end_turn()?;
        if told == Told::Interrupted {
            self.paper.dim("interrupted");
        }
        self.figures(&session).await;
        Ok(told)
    }

    /// Shows the figures of a session's turn, and of others' that ended before it.
    async fn figures(&mut self, session: &str) {
        let until = Instant::now() + FIGURES;
        while let Ok(Ok(ended)) = timeout_at(until, self.ended.recv()).await {
            self.shown(&ended, ended.session == session);
            if ended.session == session {
                return;
            }
        }
        // A turn that never began has none.
    }

    fn shown(&self, ended: &Ended, own: bool) {
        if !own {
            let session = crate::text::visible(crate::text::head(&ended.session, 64));
            self.paper.dim(&format!("another client's turn, in its conversation {session}"));
        }
        let (limits, endpoint) = allowed();
        self.paper.aside(&report::turn(ended, &limits, endpoint, self.manner.verbose));
    }
}
