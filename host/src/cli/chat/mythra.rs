//! A chat over Mythra: one WebSocket that is kept over turns, and opened anew when the host has closed it in between.

use std::io;

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream, connect_async_with_config,
    tungstenite::{
        Error, Message,
        client::IntoClientRequest as _,
        http::{HeaderValue, header::AUTHORIZATION},
        protocol::{CloseFrame, WebSocketConfig},
    },
};
use url::Url;

use super::{
    HANG_UP_TIME, Trouble, address,
    frames::{self, Ask, Course, Ending, Piece},
    screen::Show,
};
use crate::ids::AgentId;

/// The largest message that is taken: a tool's arguments, all of them escaped. Text comes in pieces of 64 KiB.
const MESSAGE_MAX: usize = 8 * 1024 * 1024;

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// One end of a Mythra chat.
pub(in crate::cli) struct Line {
    url: Url,
    agent: AgentId,
    authorization: Option<HeaderValue>,
    socket: Option<Socket>,
}

/// Why an exchange did not come to its end.
enum Cut {
    /// The connection was closed before any frame of the turn: it may have been closed while nobody looked.
    Before(String),
    Trouble(Trouble),
}

impl From<Trouble> for Cut {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(trouble)
    }
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        Self::Trouble(error.into())
    }
}

impl Line {
    /// A line to `url` that is not open yet.
    pub(super) fn new(url: Url, agent: AgentId, authorization: Option<HeaderValue>) -> Self {
        Self { url, agent, authorization, socket: None }
    }

    /// Says `text`, and shows what comes back until the turn's end.
    pub(super) async fn turn(&mut self, ask: &Ask, text: &str, screen: &mut impl Show) -> Result<Ending, Trouble> {
        let input = frames::mythra_input(ask, text);
        let kept = self.socket.take().and_then(still_open);
        if let Some(mut socket) = kept {
            match exchange(&mut socket, &input, screen).await {
                Ok(ending) => {
                    self.socket = Some(socket);
                    return Ok(ending);
                }
                // The host closed it as the input was on its way, so nothing of the input was taken.
                Err(Cut::Before(_)) => {}
                Err(Cut::Trouble(trouble)) => return Err(trouble),
            }
        }
        let mut socket = self.connect().await?;
        match exchange(&mut socket, &input, screen).await {
            Ok(ending) => {
                self.socket = Some(socket);
                Ok(ending)
            }
            Err(Cut::Before(why)) => {
                Err(Trouble::Said(format!("the host closed the connection and did not answer: {why}")))
            }
            Err(Cut::Trouble(trouble)) => Err(trouble),
        }
    }

    /// Closes the connection, if it is open.
    pub(super) async fn hang_up(&mut self) {
        if let Some(mut socket) = self.socket.take() {
            // A host that does not take the goodbye is left without one.
            drop(tokio::time::timeout(HANG_UP_TIME, socket.close(None)).await);
        }
    }

    async fn connect(&self) -> Result<Socket, Trouble> {
        let mut request = self.url.as_str().into_client_request().map_err(|error| self.unreachable(&error))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let config = WebSocketConfig::default().max_message_size(Some(MESSAGE_MAX)).max_frame_size(Some(MESSAGE_MAX));
        match connect_async_with_config(request, Some(config), true).await {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(response)) => {
                let body = response.body().as_deref().unwrap_or_default();
                let keyed = self.authorization.is_some();
                Err(Trouble::Said(address::refusal(response.status().as_u16(), body, &self.agent, keyed)))
            }
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    fn unreachable(&self, error: &Error) -> Trouble {
        let why = match error {
            Error::Io(error) => error.to_string(),
            error => error.to_string(),
        };
        Trouble::Said(address::unreachable(&self.url, &why))
    }
}

/// The socket, unless the host has closed it meanwhile. What else waits is of no turn, and is passed over.
fn still_open(mut socket: Socket) -> Option<Socket> {
    while let Some(waiting) = socket.next().now_or_never() {
        if matches!(waiting, None | Some(Err(_) | Ok(Message::Close(_)))) {
            return None;
        }
    }
    Some(socket)
}

/// One turn on an open socket.
async fn exchange(socket: &mut Socket, input: &str, screen: &mut impl Show) -> Result<Ending, Cut> {
    let mut course = Course::mythra();
    let mut answered = false;
    let cut = |why: String, answered: bool| {
        if answered {
            Cut::Trouble(Trouble::Said(format!("the connection ended in the middle of the answer: {why}")))
        } else {
            Cut::Before(why)
        }
    };
    socket.send(Message::text(input)).await.map_err(|error| cut(error.to_string(), answered))?;
    loop {
        let text = match socket.next().await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => continue,
            Some(Ok(Message::Binary(_))) => {
                return Err(Trouble::Said("the host sent a binary frame, which Mythra does not have".to_owned()).into());
            }
            Some(Ok(Message::Close(frame))) => return Err(cut(closing(frame.as_ref()), answered)),
            Some(Err(error)) => return Err(cut(error.to_string(), answered)),
            None => return Err(cut("no closing frame".to_owned(), answered)),
        };
        answered = true;
        let frame = frames::object(&text).map_err(Trouble::Said)?;
        let piece = frames::mythra(&frame);
        let ending = course.note(&piece);
        let unauthorized = matches!(&piece, Piece::Error(error) if error == "unauthorized");
        screen.frame(&frame, piece)?;
        if let Some(ending) = ending {
            if unauthorized {
                screen.hint("give the tenant's key with --key or in HOSTELRY_KEY")?;
            }
            return Ok(ending);
        }
    }
}

/// A closing frame in words.
fn closing(frame: Option<&CloseFrame>) -> String {
    match frame {
        Some(frame) if frame.reason.is_empty() => format!("closed with {}", u16::from(frame.code)),
        Some(frame) => format!("closed with {} {}", u16::from(frame.code), frame.reason),
        None => "closed without a code".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio_tungstenite::accept_async;

    use super::{
        super::{
            Protocol,
            screen::{Detail, Screen},
        },
        *,
    };

    /// What a host does with one input.
    #[derive(Clone, Copy)]
    enum Play {
        /// Answers with the connection's and the input's numbers.
        Answer,
        /// Answers, and closes as a host does that has waited for another input.
        AnswerAndClose,
        /// Begins to answer, and closes.
        BreakOff,
        /// Closes at once.
        Close,
        /// Says that the key is wrong, and closes.
        Refuse,
    }

    /// A host that plays `plays`, input for input, whatever connection each comes over.
    async fn host(plays: Vec<Play>) -> Line {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url: Url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let agent = address::agent("echo").unwrap();
        let url = address::endpoint(&url, &agent, Protocol::Mythra);
        tokio::spawn(async move {
            let mut plays = plays.into_iter();
            for connection in 1.. {
                let mut socket = accept_async(listener.accept().await.unwrap().0).await.unwrap();
                while let Some(Ok(Message::Text(input))) = socket.next().await {
                    let Some(play) = plays.next() else { return };
                    let input = frames::object(&input).unwrap();
                    let text = format!("{connection} {}", input["userInput"].as_str().unwrap());
                    let delta = format!(r#"{{"id":"b","type":"chat-output","event":"delta","content":"{text}"}}"#);
                    let frames: &[&str] = match play {
                        Play::Answer | Play::AnswerAndClose => &[
                            r#"{"id":"a","type":"response-state","event":"start"}"#,
                            &delta,
                            r#"{"id":"a","type":"response-state","event":"end"}"#,
                        ],
                        Play::BreakOff => &[r#"{"id":"a","type":"response-state","event":"start"}"#, &delta],
                        Play::Close => &[],
                        Play::Refuse => &[r#"{"id":"e","type":"error","event":"error","content":"unauthorized"}"#],
                    };
                    for frame in frames {
                        socket.send(Message::text(*frame)).await.unwrap();
                    }
                    if !matches!(play, Play::Answer) {
                        socket.close(None).await.unwrap();
                    }
                }
            }
        });
        Line::new(url, agent, None)
    }

    /// Says each of `texts`, and tells what was shown of it beside how it went.
    async fn said(line: &mut Line, texts: &[&str]) -> Vec<(String, Result<Ending, Trouble>)> {
        let ask = Ask { session: "s".to_owned(), ..Ask::default() };
        let mut all = Vec::new();
        for text in texts {
            let mut out = Vec::new();
            let mut screen = Screen::new(&mut out, io::sink(), Detail::Talk);
            let ending = line.turn(&ask, text, &mut screen).await;
            screen.end_turn().unwrap();
            drop(screen);
            all.push((String::from_utf8(out).unwrap(), ending));
        }
        all
    }

    fn shown(said: &[(String, Result<Ending, Trouble>)]) -> Vec<&str> {
        said.iter().map(|(out, _)| out.as_str()).collect()
    }

    #[tokio::test]
    async fn one_connection_is_kept_over_turns() {
        let mut line = host(vec![Play::Answer; 3]).await;
        let said = said(&mut line, &["a", "b", "c"]).await;
        assert_eq!(shown(&said), ["1 a\n", "1 b\n", "1 c\n"]);
        assert!(said.iter().all(|(_, ending)| matches!(ending, Ok(Ending::Well))));
    }

    #[tokio::test]
    async fn a_connection_that_the_host_closed_in_between_is_opened_anew() {
        let mut line = host(vec![Play::AnswerAndClose, Play::AnswerAndClose, Play::Answer]).await;
        assert_eq!(shown(&said(&mut line, &["a", "b", "c"]).await), ["1 a\n", "2 b\n", "3 c\n"]);
    }

    #[tokio::test]
    async fn an_input_that_meets_a_closing_connection_is_said_again_once() {
        let mut line = host(vec![Play::Answer, Play::Close, Play::Answer, Play::Close, Play::Close]).await;
        let said = said(&mut line, &["a", "b", "c"]).await;
        assert_eq!(shown(&said), ["1 a\n", "2 b\n", ""]);
        let Some((_, Err(Trouble::Said(why)))) = said.last() else { panic!("{said:?}") };
        assert!(why.contains("did not answer"), "{why}");
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_not_asked_for_again() {
        let mut line = host(vec![Play::Answer, Play::BreakOff, Play::Answer]).await;
        let said = said(&mut line, &["a", "b"]).await;
        assert_eq!(shown(&said), ["1 a\n", "1 b\n"]);
        let Some((_, Err(Trouble::Said(why)))) = said.last() else { panic!("{said:?}") };
        assert!(why.contains("in the middle of the answer"), "{why}");
    }

    #[tokio::test]
    async fn an_error_before_the_start_ends_the_turn() {
        let mut line = host(vec![Play::Refuse]).await;
        assert!(matches!(said(&mut line, &["a"]).await.as_slice(), [(_, Ok(Ending::Failed))]));
    }
}
