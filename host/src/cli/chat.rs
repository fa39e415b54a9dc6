//! `hostelry chat`: talks to an agent of a running host from the terminal, over either protocol.
//!
//! Here is what a person or a script types and how a chat goes from turn to turn. What goes over the wire is in
//! `chat/frames.rs`, how it gets there in `chat/line.rs` and a file for each protocol, what is shown in `chat/screen.rs`.

use std::{
    convert::Infallible,
    fmt,
    io::{self, IsTerminal as _},
    str::FromStr,
    time::Duration,
};

use clap::{Args, builder::NonEmptyStringValueParser};
use reqwest::header::HeaderValue;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Stdin},
    signal::unix::{Signal, SignalKind, signal},
};
use url::Url;

use super::Exit;
use crate::ids::{self, AgentId};

mod address;
mod frames;
mod line;
mod lingzhu;
mod mythra;
mod screen;

pub(super) use address::{Protocol, fact};
pub(super) use frames::{Ask, Ending, Piece};
pub(super) use line::{Line, Trouble};
pub(super) use screen::{Detail, Screen, Show};

/// The longest line that is read: what a Mythra host takes as one message.
const LINE_MAX: u64 = 1024 * 1024;

/// How long a goodbye may take.
const HANG_UP_TIME: Duration = Duration::from_millis(500);

/// What `chat` takes.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// The agent; without a tenant it is one of the tenant `default`
    #[arg(value_name = "[TENANT/]AGENT", value_parser = address::agent)]
    pub agent: AgentId,
    /// The host's address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = address::host)]
    pub url: Url,
    /// The protocol to talk over
    #[arg(long, value_enum, default_value = "mythra")]
    pub protocol: Protocol,
    /// The tenant's key, if the tenant has keys
    #[arg(long, value_name = "KEY", env = "HOSTELRY_KEY", hide_env_values = true)]
    pub key: Option<Key>,
    /// The conversation to go on with [default: a new one]
    #[arg(long, value_name = "ID", value_parser = NonEmptyStringValueParser::new())]
    pub session: Option<String>,
    /// Who is talking (lingzhu)
    #[arg(long, value_name = "ID")]
    pub user: Option<String>,
    /// An image that goes with the first message (lingzhu)
    #[arg(long, value_name = "URL")]
    pub image: Option<String>,
    /// The language of who is talking, such as zh-CN
    #[arg(long, value_name = "TAG")]
    pub lang: Option<String>,
    /// Something else for the agent to know, such as weather=sunny; may be given several times
    #[arg(long = "fact", value_name = "KEY=VALUE", value_parser = address::fact)]
    pub facts: Vec<(String, String)>,
    /// What to say, instead of what is typed; several are said one after another
    #[arg(short, long = "message", value_name = "TEXT", value_parser = NonEmptyStringValueParser::new())]
    pub messages: Vec<String>,
    /// Print every frame that comes as one line of JSON, and nothing else
    #[arg(long)]
    pub json: bool,
    /// Show iterations and model states as well
    #[arg(short, long)]
    pub verbose: bool,
    /// How long a turn may take
    #[arg(long, value_name = "TIME", default_value = "150s", value_parser = humantime::parse_duration)]
    pub timeout: Duration,
}

/// A key, which no debug text shows.
#[derive(Clone)]
pub struct Key(String);

impl FromStr for Key {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.trim().to_owned()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// A chat that goes on.
struct Chat {
    line: Line,
    ask: Ask,
    screen: Screen<anstream::Stdout, anstream::Stderr>,
    interrupts: Signal,
    timeout: Duration,
}

/// What became of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Well,
    Failed,
    /// The host was not reached, or broke off, or took too long.
    Broken,
    Interrupted,
    /// Nobody reads what is shown.
    Unread,
}

/// Talks until there is nothing more to say.
pub(super) fn run(args: &ChatArgs) -> Exit {
    let line = match line(args) {
        Ok(line) => line,
        Err(why) => {
            anstream::eprintln!("error: {why}");
            return Exit::Usage;
        }
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            anstream::eprintln!("error: cannot start: {error}");
            return Exit::Failed;
        }
    };
    let exit = runtime.block_on(async {
        match signal(SignalKind::interrupt()) {
            Ok(interrupts) => Chat::new(args, line, interrupts).run(args).await,
            Err(error) => {
                anstream::eprintln!("error: cannot listen for interrupts: {error}");
                Exit::Failed
            }
        }
    });
    // Not waited for: a thread may still be reading what nobody types any more.
    runtime.shutdown_background();
    exit
}

/// The way to the agent that was asked for, or what is wrong with what was asked.
fn line(args: &ChatArgs) -> Result<Line, String> {
    let mythra = args.protocol == Protocol::Mythra;
    for (flag, given) in [("--user", args.user.is_some()), ("--image", args.image.is_some())] {
        if mythra && given {
            return Err(format!("{flag} needs --protocol lingzhu: Mythra has no place for it"));
        }
    }
    if let Some((key, _)) = args.facts.iter().find(|(key, _)| mythra && frames::MYTHRA_RESERVED.contains(&key.as_str()))
    {
        return Err(format!("--fact {key}: this key has a meaning of its own in Mythra, and cannot be a fact"));
    }
    let authorization = match args.key.as_ref().filter(|key| !key.0.is_empty()) {
        None => None,
        Some(Key(key)) => {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))
                .map_err(|_| "the key holds a character that no key has".to_owned())?;
            value.set_sensitive(true);
            Some(value)
        }
    };
    Line::new(args.protocol, &args.url, &args.agent, authorization)
}

impl Chat {
    fn new(args: &ChatArgs, line: Line, interrupts: Signal) -> Self {
        let ask = Ask {
            session: args.session.clone().unwrap_or_else(ids::base36::<16>),
            agent: args.agent.agent.clone(),
            user: args.user.clone(),
            lang: args.lang.clone(),
            facts: args.facts.clone(),
            image: args.image.clone(),
        };
        let detail = match (args.json, args.verbose) {
            (true, _) => Detail::Frames,
            (false, true) => Detail::Work,
            (false, false) => Detail::Talk,
        };
        let screen = Screen::new(anstream::stdout(), anstream::stderr(), detail);
        Self { line, ask, screen, interrupts, timeout: args.timeout }
    }

    async fn run(mut self, args: &ChatArgs) -> Exit {
        let exit =
            if args.messages.is_empty() { self.typed(args.json).await } else { self.given(&args.messages).await };
        self.line.hang_up().await;
        // Where nobody reads, this is said to nobody.
        exit.unwrap_or(Exit::Failed)
    }

    /// Says what the command line holds.
    async fn given(&mut self, messages: &[String]) -> io::Result<Exit> {
        let mut exit = Exit::Clean;
        for message in messages {
            match self.turn(message).await? {
                Told::Well => {}
                Told::Failed => exit = Exit::Failed,
                Told::Broken | Told::Interrupted | Told::Unread => return Ok(Exit::Failed),
            }
        }
        Ok(exit)
    }

    /// Says what is typed, line by line.
    async fn typed(&mut self, json: bool) -> io::Result<Exit> {
        let person = io::stdin().is_terminal() && io::stdout().is_terminal() && !json;
        let mut stdin = BufReader::new(tokio::io::stdin());
        let mut exit = Exit::Clean;
        loop {
            if person {
                self.screen.prompt()?;
            }
            let line = tokio::select! {
                line = next_line(&mut stdin) => line,
                _ = self.interrupts.recv() => Ok(None),
            };
            let line = match line {
                Ok(Some(line)) => line,
                Ok(None) => {
                    if person {
                        self.screen.new_line()?;
                    }
                    return Ok(exit);
                }
                Err(why) => {
                    self.screen.error(&why)?;
                    return Ok(Exit::Failed);
                }
            };
            match line.trim() {
                "" => {}
                "/quit" => return Ok(exit),
                text => match self.turn(text).await? {
                    Told::Well => {}
                    // A person may try again, or may have meant it.
                    Told::Interrupted if person => {}
                    Told::Broken if person => exit = Exit::Failed,
                    Told::Failed => exit = Exit::Failed,
                    Told::Broken | Told::Interrupted | Told::Unread => return Ok(Exit::Failed),
                },
            }
        }
    }

    /// One turn, shown to its end.
    async fn turn(&mut self, text: &str) -> io::Result<Told> {
        let told = {
            let turn = self.line.turn(&self.ask, text, &mut self.screen);
            tokio::select! {
                told = tokio::time::timeout(self.timeout, turn) => Some(told),
                _ = self.interrupts.recv() => None,
            }
        };
        // It went with the first message, or was lost with it.
        self.ask.image = None;
        let told = match told {
            None => {
                self.screen.hint("interrupted")?;
                Told::Interrupted
            }
            Some(Err(_)) => {
                let time = humantime::format_duration(self.timeout);
                self.screen.error(&format!("no end came within {time}; --timeout waits longer"))?;
                Told::Broken
            }
            Some(Ok(Ok(Ending::Well))) => Told::Well,
            Some(Ok(Ok(Ending::Failed))) => Told::Failed,
            Some(Ok(Err(Trouble::Output(_)))) => return Ok(Told::Unread),
            Some(Ok(Err(trouble))) => {
                self.screen.error(&trouble.to_string())?;
                Told::Broken
            }
        };
        self.screen.end_turn()?;
        Ok(told)
    }
}

/// The next line that is typed; none at the end.
pub(super) async fn next_line(stdin: &mut BufReader<Stdin>) -> Result<Option<String>, String> {
    let mut line = Vec::new();
    let mut bounded = stdin.take(LINE_MAX + 1);
    bounded.read_until(b'\n', &mut line).await.map_err(|error| format!("cannot read what is typed: {error}"))?;
    if line.len() as u64 > LINE_MAX {
        return Err(format!("a line is longer than {LINE_MAX} bytes, and more than a host takes"));
    }
    Ok((!line.is_empty()).then(|| String::from_utf8_lossy(&line).into_owned()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Typed {
        #[command(flatten)]
        chat: ChatArgs,
    }

    fn typed(words: &[&str]) -> Result<(), String> {
        let words = ["chat"].iter().chain(words);
        let typed = Typed::try_parse_from(words).map_err(|error| error.to_string())?;
        line(&typed.chat).map(drop)
    }

    #[test]
    fn what_the_protocol_has_no_place_for_is_refused() {
        assert_eq!(typed(&["echo", "-m", "hi", "--fact", "projectId=1"]), Ok(()));
        assert_eq!(typed(&["echo", "--protocol", "lingzhu", "--user", "u", "--image", "https://h.example/a"]), Ok(()));
        assert!(typed(&["echo", "--user", "u"]).unwrap_err().contains("--protocol lingzhu"));
        assert!(typed(&["echo", "--fact", "apiKey=x"]).unwrap_err().contains("apiKey"));
        assert!(typed(&["echo", "--key", "a\nb"]).unwrap_err().contains("the key holds"));
        assert!(typed(&["Echo"]).unwrap_err().contains("a name matches"));
        assert!(typed(&["echo", "-m", ""]).is_err());
    }

    #[test]
    fn no_debug_text_shows_a_key() {
        let typed = Typed::try_parse_from(["chat", "echo", "--key", "hk_secret"]).unwrap();
        assert!(!format!("{typed:?}").contains("hk_secret"));
    }
}
