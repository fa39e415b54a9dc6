//! One case over Mythra: a handshake, or a talk on one connection, compared frame by frame, byte by byte.

use std::time::Duration;

use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::{
    case::Case,
    http::{self, Request},
    notation::{Bound, Pattern, Words, expand, fresh_id},
    rules::Sheet,
    run::Target,
    script::{self, Hear, Line, RESPONSE, RESPONSE_START, Say},
    socket::{End, Heard, Socket},
};

/// How much earlier than it should be a thing may seem to be, because clocks are read at different moments.
const CLOCKS: Duration = Duration::from_millis(5);

/// How much of a frame is shown in a difference.
const SHOWN_MAX: usize = 300;

/// Runs one case.
pub async fn run(case: &Case, target: &Target) -> Result<(), String> {
    let fresh = fresh_id();
    let words = Words { agent: &case.agent, key: target.key.as_deref().unwrap_or_default(), id: &fresh };
    let url = format!("{}{}", target.mythra(&case.agent)?, expand(&case.path, words));
    let own: Vec<_> = case.headers()?.into_iter().map(|(name, value)| (name, expand(&value, words))).collect();
    let mut headers = Vec::new();
    if let Some(key) = &target.key {
        headers.push(("authorization".to_owned(), format!("Bearer {key}")));
    }
    headers.extend(own);
    let Some(talk) = &case.talk else {
        let method = case.method.clone().unwrap_or_else(|| "GET".to_owned());
        let request = Request { method, url: url.replacen("ws", "http", 1), headers, body: None };
        let answer = http::send(request, target.limit()).await?;
        let wanted = case.answer.as_ref().map(|text| expand(text, words));
        http::check_plain(&answer, case.status.unwrap_or_default(), wanted.as_deref())?;
        return http::check_headers(&answer.headers, &case.answer_headers);
    };
    let connected = Socket::connect(&url, http::headers(&headers)?).await;
    let (socket, answered) =
        connected.map_err(|refused| format!("no connection: {:?} {}", refused.status, refused.why))?;
    http::check_headers(&answered, &case.answer_headers)?;
    let mut talk_now = Talk {
        socket,
        sheet: Sheet::default(),
        bound: Bound::default(),
        heard: Vec::new(),
        case,
        target,
        ended: false,
    };
    let lines = script::read(&expand(talk, words))?;
    for _ in 0..case.times {
        talk_now.bound.clear();
        talk_now.heard.clear();
        for line in &lines {
            talk_now.line(line).await?;
        }
    }
    talk_now.over().await
}

struct Talk<'a> {
    socket: Socket,
    sheet: Sheet,
    bound: Bound,
    heard: Vec<String>,
    case: &'a Case,
    target: &'a Target,
    ended: bool,
}

impl Talk<'_> {
    async fn line(&mut self, line: &Line) -> Result<(), String> {
        match line {
            Line::Say(say) => {
                self.say(say).await;
                Ok(())
            }
            Line::Hear(hear) => self.hear(hear).await,
        }
    }

    async fn say(&mut self, say: &Say) {
        match say {
            Say::Text(text) => self.socket.text(text).await,
            Say::Input(text) => self.socket.text(&script::input(text)).await,
            Say::Binary(bytes) => self.socket.send(Message::Binary(Bytes::copy_from_slice(bytes))).await,
            Say::Fragments(text) => self.socket.fragments(text).await,
            Say::Ping(word) => self.socket.ping(word.as_bytes()).await,
            Say::Raw(bytes) => self.socket.raw(bytes).await,
            Say::Close(code) => self.socket.close(*code).await,
        }
    }

    async fn hear(&mut self, hear: &Hear) -> Result<(), String> {
        let limit = self.target.limit();
        match hear {
            Hear::Frame(wanted) => {
                if wanted == RESPONSE_START {
                    self.bound.forget(RESPONSE);
                }
                match self.socket.next(limit).await {
                    Ok(Heard::Text(text)) => {
                        self.seen(&text);
                        let fits = Pattern::new(wanted).matches(&text, &mut self.bound);
                        if fits { Ok(()) } else { Err(self.differs(wanted, &text)) }
                    }
                    Ok(heard) => Err(self.differs(wanted, &format!("{heard:?}"))),
                    Err(why) => Err(self.differs(wanted, &why)),
                }
            }
            Hear::Among(wanted) => {
                let (pattern, bound) = (Pattern::new(wanted), &mut self.bound);
                let found = self.socket.find(limit, |text| pattern.matches(text, bound)).await;
                match found {
                    Ok(Heard::Text(text)) => {
                        self.seen(&text);
                        Ok(())
                    }
                    other => Err(self.differs(wanted, &format!("{other:?}"))),
                }
            }
            Hear::Pong(word) => {
                let pong = self.socket.pong(word.as_bytes(), limit).await;
                pong.map_err(|why| self.differs(&format!("pong {word}"), &why))
            }
            Hear::Open => {
                let word = fresh_id();
                self.socket.ping(word.as_bytes()).await;
                let pong = self.socket.pong(word.as_bytes(), limit).await;
                pong.map_err(|why| self.differs("an open connection", &why))?;
                match self.socket.waiting().first() {
                    None => Ok(()),
                    Some(text) => Err(self.differs("nothing", text)),
                }
            }
            Hear::Close { code, reason, after } => {
                let wanted = format!("close {code} {}", reason.as_deref().unwrap_or_default());
                let end = self.end(limit).await.map_err(|got| self.differs(&wanted, &got))?;
                let took = self.socket.spoke.elapsed();
                let fits = match &end {
                    End::Closed(got, said) => got == code && reason.as_ref().is_none_or(|reason| reason == said),
                    End::Cut(_) => false,
                };
                if !fits {
                    return Err(self.differs(&wanted, &format!("{end:?}")));
                }
                if took + CLOCKS < *after {
                    return Err(self.differs(&wanted, &format!("it after {took:?} already, before {after:?}")));
                }
                Ok(())
            }
            Hear::Refused(code) => {
                let wanted = format!("close {code}, or the end");
                // An error may come before, if it gets through.
                let end = loop {
                    match self.socket.next(limit).await.map_err(|why| self.differs(&wanted, &why))? {
                        Heard::Text(text) => self.seen(&text),
                        Heard::End(end) => break end,
                        Heard::Pong(_) => {}
                    }
                };
                self.ended = true;
                match end {
                    End::Closed(got, _) if got != *code => Err(self.differs(&wanted, &format!("close {got}"))),
                    _ => Ok(()),
                }
            }
        }
    }

    async fn end(&mut self, limit: Duration) -> Result<End, String> {
        self.ended = true;
        match self.socket.next(limit).await? {
            Heard::End(end) => Ok(end),
            other => Err(format!("{other:?}")),
        }
    }

    /// The talk is over: nothing more comes, and a client that closes is answered.
    async fn over(&mut self) -> Result<(), String> {
        if self.ended {
            return Ok(());
        }
        self.hear(&Hear::Open).await?;
        self.socket.close(1000).await;
        self.hear(&Hear::Close { code: 1000, reason: None, after: Duration::ZERO }).await
    }

    fn seen(&mut self, text: &str) {
        self.sheet.frame(text, &self.case.number, &self.target.rules);
        self.heard.push(text.to_owned());
    }

    fn differs(&self, wanted: &str, got: &str) -> String {
        let short = |text: &str| match text.char_indices().nth(SHOWN_MAX) {
            Some((end, _)) => format!("{}… ({} bytes)", text.split_at(end).0, text.len()),
            None => text.to_owned(),
        };
        let before =
            self.heard.iter().filter(|heard| *heard != got).map(|text| format!("  heard     {}\n", short(text)));
        format!("{}  expected  {}\n✗ got       {}", before.collect::<String>(), short(wanted), short(got))
    }
}
