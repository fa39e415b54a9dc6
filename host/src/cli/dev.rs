//! `hostelry dev`: builds an agent, serves it and talks to it, anew at each change, with its figures after each turn.
//!
//! Which agent it is, is told in `dev/recognise.rs`. `workshop` watches (`sources`), builds (`build`) and puts what was
//! built into the `house`, a host of its own; `talk` is the chat beside it. Both write on one `paper`, with what the guest
//! logs (`hear`) and what is said of each turn (`report`).

use std::{
    convert::Infallible,
    io::{self, IsTerminal as _},
    net::SocketAddr,
    path::PathBuf,
};

use clap::{Args, ValueEnum, builder::NonEmptyStringValueParser};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    Exit,
    chat::{Ask, Line, Protocol, fact},
    serve,
};
use crate::{ids, runtime::GuestThreads};

mod build;
mod hear;
mod house;
mod paper;
mod recognise;
mod report;
mod sources;
mod talk;
mod workshop;

use house::House;
use paper::Paper;
use recognise::Known;
use talk::{Manner, Talk, Way};
use workshop::Workshop;

/// What `dev` takes.
#[derive(Debug, Args)]
pub struct DevArgs {
    /// The agent's folder
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// What to say, instead of what is typed; then it ends. Several are said one after another
    #[arg(short, long = "message", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub messages: Vec<String>,
    /// The protocol to talk over
    #[arg(long, value_enum, default_value = "mythra")]
    pub protocol: Protocols,
    /// Where clients connect; loopback only, and port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// The conversation to go on with [default: a new one]
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub session: Option<String>,
    /// The language of who is talking, such as zh-CN
    #[arg(long, value_name = "TAG")]
    pub lang: Option<String>,
    /// Something else for the agent to know, such as weather=sunny; may be given several times
    #[arg(long = "fact", value_name = "KEY=VALUE", value_parser = fact)]
    pub facts: Vec<(String, String)>,
    /// Show all that the build prints, the agent's debug lines, and all that is known of a failure
    #[arg(short, long)]
    pub verbose: bool,
}

/// Which protocols are talked over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocols {
    /// JSON frames over a WebSocket
    Mythra,
    /// A POST answered by server-sent events
    Lingzhu,
    /// Everything is said over the one and then over the other, each with a conversation of its own
    Both,
}

impl Protocols {
    const fn all(self) -> &'static [Protocol] {
        match self {
            Self::Mythra => &[Protocol::Mythra],
            Self::Lingzhu => &[Protocol::Lingzhu],
            Self::Both => &[Protocol::Mythra, Protocol::Lingzhu],
        }
    }
}

/// Builds, serves and talks until there is nothing more to say.
pub(super) fn run(args: &DevArgs) -> Exit {
    let known = match recognise::project(&args.dir) {
        Ok(known) => known,
        Err(faults) => {
            for fault in &faults.0 {
                anstream::eprintln!("error: {fault}");
            }
            return Exit::Usage;
        }
    };
    let person = args.messages.is_empty() && io::stdin().is_terminal() && io::stdout().is_terminal();
    let paper = Paper::new(person);
    hear::start(&paper, args.verbose);
    serve::take_descriptors();
    let exit = (|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("io").build()?;
        let guests = GuestThreads::start(runtime.handle())?;
        let exit = runtime.block_on(live(args, known, &paper, &guests));
        // Not waited for: a thread may still be reading what nobody types any more.
        runtime.shutdown_background();
        exit
    })();
    exit.unwrap_or_else(|error: anyhow::Error| {
        paper.leave();
        anstream::eprintln!("error: {error:#}");
        Exit::Failed
    })
}

async fn live(args: &DevArgs, known: Known, paper: &Paper, guests: &GuestThreads) -> anyhow::Result<Exit> {
    let (mut terminations, mut hangups) = (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let interrupts = signal(SignalKind::interrupt())?;
    let Known { project, guessed } = known;
    if let Some(file) = guessed {
        paper.dim(&format!("there is no {}; the agent is told from {file}", recognise::FILE));
    }
    let mut house = House::open(&args.dir, &project.name, args.listen, guests).await?;
    let ways = ways(args, &house)?;
    paper.dim(&format!("serving {0} at {1}agents/{0}/ (mythra, lingzhu)", house.agent(), house.url()?));
    let person = paper.is_a_persons();
    if person {
        paper.dim("type to talk; /help shows what else there is");
    }
    let ended = house.server().watch_turns();
    let (mut workshop, stand) = Workshop::new(&args.dir, project, &mut house, paper, args.verbose);
    let once = !args.messages.is_empty();
    let manner = Manner { person, verbose: args.verbose };
    let mut talk = Talk::new(ways, paper, (stand, ended), interrupts, manner);
    let building = async move {
        if once {
            workshop.once().await;
        } else {
            workshop.keep().await;
        }
        // The chat ends when there is nothing more to say, and not when there is nothing more to build.
        std::future::pending::<Infallible>().await
    };
    // Whoever gave it something to say was not through.
    let stopped = if once { Exit::Failed } else { Exit::Clean };
    let exit = tokio::select! {
        exit = talk.run(&args.messages) => exit,
        _ = terminations.recv() => stopped,
        _ = hangups.recv() => stopped,
        never = building => match never {},
    };
    paper.leave();
    house.close().await;
    Ok(exit)
}

/// The ways to the agent.
fn ways(args: &DevArgs, house: &House) -> anyhow::Result<Vec<Way>> {
    let url = house.url()?;
    let session = args.session.clone().unwrap_or_else(ids::base36::<16>);
    let way = |protocol: &Protocol| {
        // Two protocols have two conversations: one would hear everything twice.
        let first = args.protocol.all().first() == Some(protocol);
        let session = if first { session.clone() } else { format!("{session}-{}", protocol.name()) };
        let ask = Ask {
            session,
            agent: house.agent().agent.clone(),
            lang: args.lang.clone(),
            facts: args.facts.clone(),
            ..Ask::default()
        };
        let line = Line::new(*protocol, &url, house.agent(), None).map_err(anyhow::Error::msg)?;
        Ok(Way { protocol: protocol.name(), line, ask })
    };
    args.protocol.all().iter().map(way).collect()
}
