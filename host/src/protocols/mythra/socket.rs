//! One connection: what is said on it, the turns it has one after another, its timers and its end.
//!
//! Everything that can happen is one arm of one loop. While a turn runs, its frames are taken as fast as the client
//! reads them, and what the client says meanwhile waits or is answered at once. When the loop ends the turn's reader is
//! dropped, which ends the turn.

use std::{collections::VecDeque, ops::ControlFlow, sync::Arc};

use axum::extract::ws::{CloseCode, Message, close_code};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};

use super::{
    encode::{Encoder, SHUTTING_DOWN, wire_id},
    gate::{self, Gate},
    line::{Heard, Line, Socket},
    session_locks::{SessionGuard, SessionLocks},
    wire::{self, Event, Incoming, Kind, Outgoing, UserInput},
};
use crate::{
    admission::Busy,
    bindings::types::{Content, Message as Said, Role},
    config::Config,
    ids::{self, AgentId, SessionKey},
    limit::Limit,
    protocols::Lobby,
    tenants::Place,
    text,
    turn::Order,
};

mod words;
mod work;

use work::{Progress, Waiting, Work};

/// Why a connection is closed that says nothing.
const IDLE: &str = "idle";
/// Why a connection is closed whose client does not read.
const TOO_SLOW: &str = "too slow";
/// What a client is told that cannot be served now.
const TRY_AGAIN: &str = "try again later";

/// A connection and all that it is doing.
pub(super) struct Connection<S> {
    lobby: Arc<Lobby>,
    /// The configuration as it was when the client came; a later one is the next connection's.
    config: Arc<Config>,
    locks: Arc<SessionLocks>,
    gate: Gate,
    /// Its place among the connections of its tenant, once it is known whose it is.
    place: Option<Place>,
    line: Line<S>,
    work: Work,
    /// What was said while a turn ran, in order.
    inputs: VecDeque<UserInput>,
    /// The session of inputs that name none.
    session: String,
    bad_messages: u32,
    unanswered_pings: u32,
    /// When the connection closes unless something is said, and with which reason. Counts while there is no work.
    quiet: (Instant, &'static str),
    draining: bool,
}

/// How a connection ends.
enum Ending {
    /// We close it.
    Close(CloseCode, &'static str),
    /// The peer closed it, or is gone.
    Left,
    /// The peer answers no more.
    Dead,
}

type Flow = ControlFlow<Ending>;

/// What happened.
enum Happening {
    Heard(Heard),
    Progress(Progress),
    Ping,
    Late(Ending),
    Draining,
}

impl<S: Socket> Connection<S> {
    /// A connection that came in through a gate, with its place if it has one already.
    pub(super) fn new(
        lobby: Arc<Lobby>,
        locks: Arc<SessionLocks>,
        (gate, place): (Gate, Option<Place>),
        socket: S,
    ) -> Self {
        let config = lobby.config();
        let quiet = (Instant::now() + config.mythra.idle, IDLE);
        Self {
            lobby,
            config,
            place,
            locks,
            gate,
            line: Line::new(socket),
            work: Work::Nothing,
            inputs: VecDeque::new(),
            session: ids::base36::<32>(),
            bad_messages: 0,
            unanswered_pings: 0,
            quiet,
            draining: false,
        }
    }

    /// Serves it to its end.
    pub(super) async fn serve(mut self) {
        let ending = self.run().await;
        let Self { line, work, .. } = self;
        // The turn ends now, not after the goodbye.
        drop(work);
        match ending {
            Ending::Close(code, reason) => line.close(code, reason).await,
            Ending::Left => line.leave().await,
            Ending::Dead => {}
        }
    }

    async fn run(&mut self) -> Ending {
        let lobby = Arc::clone(&self.lobby);
        let every = self.config.mythra.ping;
        let mut pings = interval_at(Instant::now() + every, every);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let deadline = self.deadline();
            let late = async {
                match deadline {
                    Some((at, ending)) => {
                        sleep_until(at).await;
                        ending
                    }
                    None => std::future::pending().await,
                }
            };
            let happening = tokio::select! {
                heard = self.line.next() => Happening::Heard(heard),
                // A turn's frames are taken when those before them are out; until then they wait on the turn's side.
                progress = self.work.next(), if self.line.is_clear() || matches!(self.work, Work::Waiting(_)) => {
                    Happening::Progress(progress)
                }
                _ = pings.tick() => Happening::Ping,
                ending = late => Happening::Late(ending),
                () = lobby.draining.cancelled(), if !self.draining => Happening::Draining,
            };
            let flow = match happening {
                Happening::Heard(heard) => self.heard(heard),
                Happening::Progress(Progress::Session(guard)) => self.session_free(guard),
                Happening::Progress(Progress::Frames(Some(frames))) => {
                    self.line.send(frames);
                    Flow::Continue(())
                }
                Happening::Progress(Progress::Frames(None)) => self.turn_over(),
                Happening::Ping => self.ping(),
                Happening::Late(ending) => {
                    self.count_late(&ending);
                    Flow::Break(ending)
                }
                Happening::Draining => self.drain(),
            };
            if let Flow::Break(ending) = flow {
                return ending;
            }
        }
    }

    /// By when something must have happened, and what is done if not.
    fn deadline(&self) -> Option<(Instant, Ending)> {
        if let Some(since) = self.line.stuck_since() {
            let ending = Ending::Close(close_code::AGAIN, TOO_SLOW);
            return Some((since + self.config.mythra.slow_reader, ending));
        }
        let (at, reason) = self.quiet;
        matches!(self.work, Work::Nothing).then_some((at, Ending::Close(close_code::NORMAL, reason)))
    }

    fn heard(&mut self, heard: Heard) -> Flow {
        match heard {
            // A ping is answered by the socket itself when it is next polled.
            Heard::Written | Heard::Message(Message::Ping(_)) => Flow::Continue(()),
            Heard::Message(Message::Text(text)) => self.said(text.as_bytes()),
            Heard::Message(Message::Binary(bytes)) => self.said(&bytes),
            Heard::Message(Message::Pong(_)) => {
                self.unanswered_pings = 0;
                Flow::Continue(())
            }
            Heard::Message(Message::Close(_)) | Heard::Gone => Flow::Break(Ending::Left),
            Heard::Broken(code, error) => {
                tracing::info!(code, %error, "the client broke a rule of the WebSocket protocol");
                if code == close_code::SIZE {
                    self.too_long();
                }
                Flow::Break(Ending::Close(code, ""))
            }
        }
    }

    /// The client sent a message.
    fn said(&mut self, bytes: &[u8]) -> Flow {
        if bytes.len() > self.config.mythra.max_message {
            self.too_long();
            return Flow::Break(Ending::Close(close_code::SIZE, ""));
        }
        match wire::parse(bytes) {
            Incoming::Input(input) => self.input(input),
            Incoming::Unknown(kind) => {
                tracing::debug!(kind = %text::visible(text::head(&kind, 64)), "a message of unknown type is ignored");
                Flow::Continue(())
            }
            Incoming::Unfit(why) => self.complain(&why),
            Incoming::Invalid(why) => {
                self.bad_messages += 1;
                let flow = self.complain(&why);
                if self.bad_messages < self.config.mythra.bad_messages {
                    return flow;
                }
                tracing::info!(bad_messages = self.bad_messages, "closing: the client sends no JSON");
                self.count(Limit::BadMessages);
                Flow::Break(Ending::Close(close_code::POLICY, "too many invalid messages"))
            }
        }
    }

    fn input(&mut self, input: UserInput) -> Flow {
        if self.draining {
            self.complain(SHUTTING_DOWN)
        } else if matches!(self.work, Work::Nothing) {
            self.take(input)
        } else if self.inputs.len() < self.config.mythra.queue {
            self.inputs.push_back(input);
            Flow::Continue(())
        } else {
            self.count(Limit::Queue);
            self.complain("busy")
        }
    }

    /// An input's turn has come: lets it in and asks for its session.
    fn take(&mut self, input: UserInput) -> Flow {
        if input.facts_dropped > 0 {
            tracing::warn!(dropped = input.facts_dropped, "a message has more facts than are kept");
        }
        let Some(entry) = self.gate.enter(&self.lobby.tenants(), input.api_key.as_ref()) else {
            tracing::info!("closing: no key, or a wrong one");
            self.complain("unauthorized")?;
            return Flow::Break(Ending::Close(close_code::POLICY, "unauthorized"));
        };
        if self.place.is_none() {
            match gate::place(&entry.tenant) {
                Ok(place) => self.place = Some(place),
                Err(tenant) => {
                    self.lobby.metrics.limit_of(Limit::TenantConnections, &tenant);
                    tracing::info!("closing: {}", Busy::Connections);
                    self.complain(&Busy::Connections.to_string())?;
                    return Flow::Break(Ending::Close(close_code::AGAIN, TRY_AGAIN));
                }
            }
        }
        let session = SessionKey {
            agent: AgentId { tenant: entry.tenant.name.clone(), agent: self.gate.agent.clone() },
            // Apart from those of other protocols, whose ids anyone might guess.
            user: format!("mythra:{}", entry.user),
            conversation: input.session.clone().unwrap_or_else(|| self.session.clone()),
        };
        let lock = timeout(self.config.mythra.session_wait, self.locks.of(&session).lock_owned());
        let lock = Box::pin(async move { lock.await.ok() });
        self.work = Work::Waiting(Box::new(Waiting { input, entry, session, lock }));
        Flow::Continue(())
    }

    /// The session is free for the input that waits for it, or was not in time.
    fn session_free(&mut self, guard: Option<SessionGuard>) -> Flow {
        let Work::Waiting(waiting) = std::mem::replace(&mut self.work, Work::Nothing) else {
            return Flow::Continue(());
        };
        if let Some(guard) = guard {
            return self.begin(*waiting, guard);
        }
        tracing::info!("an input waited too long for another turn of its session");
        self.count(Limit::SessionWait);
        self.complain("busy")?;
        self.quiet = (Instant::now() + self.config.mythra.idle, IDLE);
        self.next_input()
    }

    /// Begins the turn.
    fn begin(&mut self, waiting: Waiting, guard: SessionGuard) -> Flow {
        let Waiting { input, entry, session, lock: _ } = waiting;
        let Some(agent) = self.lobby.registry.get(&session.agent.tenant, &session.agent.agent) else {
            tracing::info!("closing: no such agent");
            self.complain("no such agent")?;
            return Flow::Break(Ending::Close(close_code::POLICY, "no such agent"));
        };
        let permit = match self.lobby.admission.admit(&entry.tenant) {
            Ok(permit) => permit,
            Err(busy) => {
                tracing::info!("closing: {busy}");
                self.complain(&busy.to_string())?;
                return Flow::Break(Ending::Close(close_code::AGAIN, TRY_AGAIN));
            }
        };
        // The input is accepted, and the client is told so before there is a guest. What the turn says comes after it,
        // because frames are taken only when the line is clear.
        let response = wire_id();
        self.tell(&Outgoing::bare(&response, Kind::ResponseState, Event::Start));
        let apology = agent.config.apology(input.facts.get("lang").map_or("", String::as_str)).to_owned();
        let reader = self.lobby.turns.start(Order {
            agent,
            tenant: entry.tenant,
            session,
            user: None,
            input: vec![Said { role: Role::User, content: Content::Text(input.text) }],
            facts: input.facts,
            device: false,
            protocol: "mythra",
            turn_time: None,
            encoder: Box::new(Encoder::new(response, apology)),
            permit,
        });
        self.work = Work::Running { reader, _session: guard };
        Flow::Continue(())
    }

    /// The turn's last frame is out.
    fn turn_over(&mut self) -> Flow {
        self.work = Work::Nothing;
        if self.draining {
            return Flow::Break(Ending::Close(close_code::AWAY, SHUTTING_DOWN));
        }
        self.quiet = (Instant::now() + self.config.mythra.linger, "");
        self.next_input()
    }

    fn next_input(&mut self) -> Flow {
        match self.inputs.pop_front() {
            Some(input) => self.take(input),
            None => Flow::Continue(()),
        }
    }

    fn ping(&mut self) -> Flow {
        if self.unanswered_pings >= self.config.mythra.unanswered_pings {
            tracing::info!(unanswered = self.unanswered_pings, "dropping a client that answers no pings");
            self.count(Limit::UnansweredPings);
            return Flow::Break(Ending::Dead);
        }
        self.unanswered_pings += 1;
        self.line.say(Message::Ping(bytes::Bytes::new()));
        Flow::Continue(())
    }

    /// The host goes down. A turn that runs may go on; the core ends it in time.
    fn drain(&mut self) -> Flow {
        self.draining = true;
        if matches!(self.work, Work::Waiting(_)) {
            self.work = Work::Nothing;
            self.complain(SHUTTING_DOWN)?;
        }
        for _input in std::mem::take(&mut self.inputs) {
            self.complain(SHUTTING_DOWN)?;
        }
        match self.work {
            Work::Running { .. } => Flow::Continue(()),
            Work::Nothing | Work::Waiting(_) => Flow::Break(Ending::Close(close_code::AWAY, SHUTTING_DOWN)),
        }
    }
}

#[cfg(test)]
mod tests;
